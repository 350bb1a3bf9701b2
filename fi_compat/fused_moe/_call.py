"""One call into a fused MoE function of the installed release: what differs between functions is data of an ``Entry``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fi_compat._device import BLACKWELL, require_blackwell
from fi_compat._options import fill, refuse_four_over_six
from fi_compat._unset import UNSET
from fi_compat._upstream import Upstream, import_upstream
from fi_compat.errors import UnsupportedFeatureError

from . import _enums
from ._results import DeferredFinalize, MoEWithLora

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

__all__ = ["Entry", "call_cutlass", "call_trtllm", "pack_topk_ids", "refuse_environment"]


class Entry:
    """One fused MoE function of an adapter.

    Parameters
    ----------
    name : str
        ``flashinfer.fused_moe``'s name.
    unpacked : bool or None
        It takes ``(ids, weights)`` itself; None looks at the installed release once.
    relabelled : bool
        Its deferred expert weights are bfloat16 bytes in a tensor that has the dtype of the logits (fp4, up to 0.6.14).
    before : callable, optional
        As for ``Upstream``.
    """

    __slots__ = ("linear", "name", "relabelled", "unpacked", "upstream")

    def __init__(
        self, name: str, *, unpacked: bool | None = None, relabelled: bool = False, before: Callable[[], None] | None = None
    ) -> None:
        self.name = name
        self.unpacked = unpacked
        self.relabelled = relabelled
        self.upstream = Upstream("flashinfer.fused_moe", name, before=before)
        #: Upstream's ``SfLayout.layout_linear``, once it was needed.
        self.linear: Any = None


def refuse_environment(name: str) -> None:
    """Raise where the environment switches NVFP4 4-over-6 on and the function cannot be told otherwise (0.6.12 to 0.7.2.post1)."""
    import inspect

    function = getattr(import_upstream("flashinfer.fused_moe"), name, None)
    if function is not None and "nvfp4_4over6" not in inspect.signature(function).parameters:
        refuse_four_over_six(name, "the installed FlashInfer", "0.7.4")


def pack_topk_ids(topk_ids: Tensor, topk_weights: Tensor) -> Tensor:
    """Pack expert ids and weights as every release's kernels read them: ``(expert_id << 16) | bfloat16 bits of the weight``.

    Parameters
    ----------
    topk_ids : Tensor
        ``[num_tokens, top_k]``, any integer dtype; ids below 32768.
    topk_weights : Tensor
        ``[num_tokens, top_k]``, any floating dtype; rounded to bfloat16.

    Returns
    -------
    Tensor
        ``[num_tokens, top_k]``, int32, on the device of ``topk_ids``.

    Raises
    ------
    ValueError
        The shapes differ.

    Notes
    -----
    FlashInfer's fp4 docstrings of 0.6.8 to 0.6.12 state the halves the other way round; the kernels of all releases read this.
    """
    import torch

    if topk_ids.shape != topk_weights.shape:
        raise ValueError(
            f"pack_topk_ids: found ids of shape {tuple(topk_ids.shape)} and weights of shape {tuple(topk_weights.shape)}, needed one weight"
            " per id"
        )
    bits = topk_weights.to(torch.bfloat16).view(torch.int16).to(torch.int32) & 0xFFFF
    return (topk_ids.to(torch.int32) << 16) | bits


def _routed_ids(entry: Entry, topk_ids: Any) -> Any:
    """Give the function packed ids, or the pair where it takes one; weights are bfloat16 on every release."""
    import torch

    if isinstance(topk_ids, tuple | list):
        ids, weights = topk_ids
        if entry.unpacked is None:
            # From 0.6.18 on every routed function takes a pair.
            entry.unpacked = hasattr(import_upstream("flashinfer.fused_moe.core"), "_split_precomputed_routing")
        if entry.unpacked:
            return ids.to(torch.int32), weights.to(torch.bfloat16)
        return pack_topk_ids(ids, weights)
    if topk_ids.dtype is not torch.int32:
        raise ValueError(
            f"{entry.name}: found topk_ids of dtype {topk_ids.dtype}, needed int32, packed: pass pack_topk_ids(ids, weights), or (ids, weights)"
        )
    return topk_ids


def _linear_scale(function: str, hidden_states: Tensor, scale: Tensor) -> Tensor:
    """Check that block scales have one per block in rows, and give them the two dimensions that 0.6.8 to 0.6.10.post1 go by."""
    import torch

    if hidden_states.dtype is torch.uint8:
        rows, columns, blocks = hidden_states.shape[0], hidden_states.shape[-1] * 2, [16, 32]
    else:
        rows, columns, blocks = hidden_states.shape[0], hidden_states.shape[-1], [32]
    numel = scale.numel()
    for block in blocks:
        if numel * block == rows * columns:
            return scale if scale.ndim == 2 and scale.shape[0] == rows else scale.reshape(rows, columns // block)
    raise ValueError(
        f"{function}: found hidden_states_scale of shape {tuple(scale.shape)} for hidden_states of {rows} x {columns}, needed the linear layout,"
        f" {' or '.join(f'{rows} x {columns // b}' for b in blocks)}: quantize with is_sf_swizzled_layout=False"
    )


def call_trtllm(entry: Entry, required: dict[str, Any], optional: dict[str, Any]) -> Tensor | DeferredFinalize | MoEWithLora:
    """Call a trtllm function: options chosen, enums translated, ids packed, scales checked, result normalised."""
    hidden = required["hidden_states"]
    index = hidden.get_device()
    if index not in BLACKWELL:
        require_blackwell(entry.name, index, "use cutlass_fused_moe, or another MoE backend, on this device")
    layout = optional.pop("hidden_states_scale_layout", UNSET)
    upstream = entry.upstream
    fill(upstream, required, optional)
    parameters = upstream.parameters
    if "activation_type" in required:
        required["activation_type"] = int(_enums.member(_enums.ActivationType, required["activation_type"], entry.name))
    if "routing_method_type" in required:
        required["routing_method_type"] = int(_enums.member(_enums.RoutingMethodType, required["routing_method_type"], entry.name))
    if "topk_ids" in required:
        required["topk_ids"] = _routed_ids(entry, required["topk_ids"])
    if "nvfp4_4over6" in parameters and "nvfp4_4over6" not in required:
        required["nvfp4_4over6"] = None  # off; leaving it out would ask the environment
    if "gemm1_bias" in required and "hidden_states_scale" in required:
        _fp4_scale(entry, required, layout)
    result = upstream.call(**required)
    if required.get("do_finalize", True):
        if not isinstance(result, list | tuple):
            return result
        return result[0] if len(result) == 1 else MoEWithLora(result[0], result[-1])
    return _deferred(entry, required, result)


def _fp4_scale(entry: Entry, required: dict[str, Any], layout: Any) -> None:
    linear = 2
    if layout is not UNSET and layout is not None and getattr(layout, "value", layout) != linear:
        raise UnsupportedFeatureError(
            f"{entry.name}: found hidden_states_scale_layout={getattr(layout, 'name', layout)}, needed layout_linear, all that any release"
            " reads: quantize with is_sf_swizzled_layout=False",
            feature="hidden_states_scale_layout",
        )
    scale = required["hidden_states_scale"]
    if scale is None:
        return
    required["hidden_states_scale"] = _linear_scale(entry.name, required["hidden_states"], scale)
    if "hidden_states_scale_layout" in entry.upstream.parameters:
        # From 0.7.0 on upstream warns where the layout is not said.
        if entry.linear is None:
            entry.linear = import_upstream("flashinfer").SfLayout(linear)
        required["hidden_states_scale_layout"] = entry.linear


def _deferred(entry: Entry, required: dict[str, Any], result: Any) -> DeferredFinalize:
    gemm2, weights, permuted, *others = result
    if entry.relabelled:
        import torch

        if weights.dtype is torch.float32 and "routing_logits" in required:
            # 0.6.8 to 0.6.14 allocate in the dtype of the logits, and the kernel writes bfloat16: the first half is what it wrote.
            weights = weights.view(torch.bfloat16).reshape(-1)[: weights.numel()].reshape(weights.shape)
    return DeferredFinalize(gemm2, weights, permuted, required["top_k"], others[0] if others else None)


def call_cutlass(entry: Entry, required: dict[str, Any], optional: dict[str, Any]) -> Tensor:
    """Call ``cutlass_fused_moe``: the SM90 scale layout is the installed release's, and the answer is one tensor."""
    upstream = entry.upstream
    fill(upstream, required, optional)
    parameters = upstream.parameters
    if "activation_type" in required:
        required["activation_type"] = _enums.member(_enums.ActivationType, required["activation_type"], entry.name)
    if "use_fused_finalize" in parameters and required.get("use_fused_finalize") is None:
        # 0.7.4's rule, on every release: its default was True before, whatever torch was told about determinism.
        import torch

        required["use_fused_finalize"] = not torch.are_deterministic_algorithms_enabled()
    if "nvfp4_4over6" in parameters and "nvfp4_4over6" not in required:
        required["nvfp4_4over6"] = None
    if required.get("use_w4_group_scaling"):
        from ._sm90 import check_scales

        check_scales(required)
    result = upstream.call(**required)
    return result[0] if isinstance(result, list | tuple) else result
