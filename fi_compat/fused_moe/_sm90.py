"""The interleaved weight scales of the SM90 mixed-input GEMM, whose layout went 3-D, 5-D, 3-D, 5-D."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from fi_compat import _device
from fi_compat._upstream import Upstream, import_upstream, unsupported

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "check_scales",
    "installed_layout",
    "interleave_moe_scales_for_sm90_mixed_gemm",
    "interleave_moe_weights_for_sm90_mixed_gemm",
    "sm90_scale_layout",
]

_scales = Upstream("flashinfer.fused_moe", "interleave_moe_scales_for_sm90_mixed_gemm")
_weights = Upstream("flashinfer.fused_moe", "interleave_moe_weights_for_sm90_mixed_gemm")
UPSTREAMS = {
    "interleave_moe_scales_for_sm90_mixed_gemm": (_scales,),
    "interleave_moe_weights_for_sm90_mixed_gemm": (_weights,),
}

_DIMENSIONS: dict[int, Literal["3d", "folded-5d"]] = {3: "3d", 5: "folded-5d"}


def sm90_scale_layout(t: Tensor) -> Literal["3d", "folded-5d"]:
    """Tell which release's layout a tensor of interleaved SM90 weight scales has.

    Parameters
    ----------
    t : Tensor
        What ``interleave_moe_scales_for_sm90_mixed_gemm`` returned, on whatever release.

    Returns
    -------
    {"3d", "folded-5d"}
        "3d", ``[E, K // 128, rows * 4]``, of 0.6.10 to 0.6.15.post1 and 0.6.16.post3 to 0.6.17; "folded-5d",
        ``[E, rows // 64, K // 128, folded_m, cols]``, of 0.6.16 to 0.6.16.post2 and from 0.6.18 on.

    Raises
    ------
    ValueError
        It has another number of dimensions.
    """
    try:
        return _DIMENSIONS[t.ndim]
    except KeyError:
        raise ValueError(
            f"sm90_scale_layout: found a tensor of {t.ndim} dimensions, needed 3 or 5: pass what"
            " interleave_moe_scales_for_sm90_mixed_gemm returned"
        ) from None


def installed_layout() -> Literal["3d", "folded-5d"]:
    """Say which layout the installed release's kernels read.

    Told by where the helper is, since availability is not monotone: it moved to fused_moe/prepare.py with the fold
    (0.6.16), back with the revert (0.6.16.post3), and again (0.6.18).
    """
    function = getattr(import_upstream("flashinfer.fused_moe"), "interleave_moe_scales_for_sm90_mixed_gemm", None)
    folded = function is not None and function.__module__.endswith(".prepare")
    return "folded-5d" if folded else "3d"


def check_scales(required: dict[str, Any]) -> None:
    """Raise ValueError where the weight scales have another release's layout."""
    index = required["input"].get_device()
    if _device.capability(index)[0] != 9:
        return
    wanted = installed_layout()
    for slot, scale in enumerate(required["quant_scales"][:2]):
        if scale.ndim in _DIMENSIONS and _DIMENSIONS[scale.ndim] != wanted:
            raise ValueError(
                f"cutlass_fused_moe: found quant_scales[{slot}] in the {_DIMENSIONS[scale.ndim]} layout of another FlashInfer release (shape"
                f" {tuple(scale.shape)}), needed {wanted}: interleave the original scales again with"
                " fi_compat.fused_moe.interleave_moe_scales_for_sm90_mixed_gemm, and key caches by flashinfer.__version__"
            )


def interleave_moe_scales_for_sm90_mixed_gemm(scales: Tensor, group_size: int = 32) -> Tensor:
    """Interleave weight scales for the SM90 mixed-input GEMM, in the installed release's layout.

    Parameters
    ----------
    scales : Tensor
        ``[num_experts, rows, K // group_size]``: uint8 (E8M0); on releases with the folded layout any dtype.
    group_size : int
        Elements per scale.

    Returns
    -------
    Tensor
        In the layout that ``sm90_scale_layout`` names. Never keep it for another release: it went 3-D (0.6.10), 5-D
        (0.6.16), 3-D (0.6.16.post3), 5-D (0.6.18).

    Raises
    ------
    UnsupportedFeatureError
        The installed release has none (before 0.6.10).
    ValueError
        Upstream's, for shapes that it cannot serve.

    Notes
    -----
    ``flashinfer.fused_moe.interleave_moe_scales_for_sm90_mixed_gemm``, 0.6.10.
    """
    return _scales.call(scales, group_size=group_size)


def interleave_moe_weights_for_sm90_mixed_gemm(weight: Tensor, quant_type: str = "fp4") -> Tensor:
    """Interleave 4-bit weights for the SM90 mixed-input GEMM.

    Parameters
    ----------
    weight : Tensor
        ``[num_experts, n, k // 2]``, uint8, on a CUDA device of compute capability 9.0.
    quant_type : {"fp4", "int4", "fp4_fp8"}
        "fp4_fp8" exists on 0.6.16 to 0.6.16.post2 and from 0.6.18 on.

    Returns
    -------
    Tensor
        Same shape and dtype.

    Raises
    ------
    UnsupportedFeatureError
        The installed release has no such function (before 0.6.10), or no such ``quant_type``.

    Notes
    -----
    ``flashinfer.fused_moe.interleave_moe_weights_for_sm90_mixed_gemm``, 0.6.10.
    """
    if quant_type == "fp4_fp8" and installed_layout() != "folded-5d":
        raise unsupported(
            "interleave_moe_weights_for_sm90_mixed_gemm", "quant_type='fp4_fp8'", "flashinfer", ">=0.6.16,<0.6.16.post3 or >=0.6.18"
        )
    return _weights.call(weight, quant_type=quant_type)
