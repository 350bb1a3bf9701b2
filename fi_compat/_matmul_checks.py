"""Host-side checks of the MXFP4 matmul: what upstream would misread or fail on obscurely, refused before a launch."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from .errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

__all__ = ["check_matmul", "check_mxfp4", "constrained"]


def check_matmul(
    x: Tensor,
    w: Any,
    routing_data: Any,
    gather_indx: Any,
    scatter_indx: Any,
    precision_config: Any,
    betas: Tensor | None,
    gammas: Tensor | None,
) -> None:
    """Raise ValueError for a call that upstream would answer with wrong numbers."""
    if x.stride(-1) != 1 and x.shape[-1] > 1:
        raise ValueError(f"matmul_ogs: found x {tuple(x.shape)} with last stride {x.stride(-1)}, needed 1: call x.contiguous()")
    if routing_data is None:
        if gather_indx is not None or scatter_indx is not None:
            raise ValueError("matmul_ogs: found gather_indx or scatter_indx without routing_data, needed what routing() returned with them")
    else:
        rows = (
            gather_indx.src_indx
            if gather_indx is not None
            else scatter_indx.src_indx
            if scatter_indx is not None
            else routing_data.gate_scal
        )
        for name, weights in (("betas", betas), ("gammas", gammas)):
            if weights is not None and weights.numel() != rows.numel():
                raise ValueError(
                    f"matmul_ogs: found {name} {tuple(weights.shape)}, needed [{rows.numel()}], one weight a row in expert order"
                )
    scale = getattr(precision_config, "weight_scale", None)
    scale = getattr(precision_config, "b_mx_scale", None) if scale is None else scale
    dtype = getattr(w, "dtype", None)
    if scale is not None and getattr(dtype, "is_floating_point", False) is True and getattr(dtype, "itemsize", 0) > 1:
        raise ValueError(f"matmul_ogs: found w of {dtype} with a weight_scale, needed MXFP4 codes: a float weight has no microscales")
    # A raw uint8 weight has two values a byte along K.
    if w.shape[-2] not in {x.shape[-1], x.shape[-1] // 2}:
        raise ValueError(f"matmul_ogs: found x {tuple(x.shape)} and w {tuple(w.shape)}, needed the same K")


def check_mxfp4(weight: Tensor, scale: Tensor) -> None:
    """Raise ValueError for a weight or scale that would be swizzled into another one."""
    for name, tensor in (("weight", weight), ("scale", scale)):
        if str(tensor.dtype) != "torch.uint8" or tensor.dim() != 3:
            raise ValueError(
                f"prepare_mxfp4_weight: found {name} {tuple(tensor.shape)} of {tensor.dtype}, needed uint8 [E, N, K // {2 if name == 'weight' else 32}]"
            )
        if tensor.stride(-1) != 1:
            raise ValueError(f"prepare_mxfp4_weight: found {name} with last stride {tensor.stride(-1)}, needed 1: call {name}.contiguous()")
    experts, n, half = weight.shape
    if half % 16 or tuple(scale.shape) != (experts, n, half // 16):
        raise ValueError(
            f"prepare_mxfp4_weight: found weight {tuple(weight.shape)} and scale {tuple(scale.shape)}, needed scale ({experts}, {n}, {half // 16}),"
            " one byte per 32 values, K a multiple of 32"
        )


@contextlib.contextmanager
def constrained(matmul: Any, constraints: dict[str, Any]) -> Iterator[None]:
    """Set constraints, and restore what was set before."""
    known = matmul.constraint_names()
    unknown = sorted(set(constraints) - known)
    if unknown:
        raise UnsupportedFeatureError(
            f"opt_flags_constraints: {unknown[0]}={constraints[unknown[0]]!r} cannot be set: found a generation that knows"
            f" {', '.join(sorted(known))}; upstream would fail at the next matmul",
            feature=unknown[0],
            found=matmul.__name__.rpartition(".")[2],
        )
    before = matmul.exchange_constraints({})
    matmul.exchange_constraints({**before, **constraints})
    try:
        yield
    finally:
        matmul.exchange_constraints(before)
