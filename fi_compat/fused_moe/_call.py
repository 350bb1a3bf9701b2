"""One call into a fused MoE function of the installed release: what differs between functions is data of an ``Entry``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from fi_compat import _table
from fi_compat._device import BLACKWELL, require_blackwell
from fi_compat._unset import UNSET
from fi_compat._upstream import Upstream, import_upstream, unsupported
from fi_compat.errors import ConfigurationError, UnsupportedFeatureError

from . import _enums
from ._results import DeferredFinalize, MoEWithLora

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from enum import IntEnum

    from torch import Tensor

__all__ = ["Entry", "call_cutlass", "call_trtllm", "fill", "pack", "refuse_environment", "refuse_removed", "since"]

#: Values that ask for what a release without the parameter does anyway; None always does, and False where nothing is said here.
NEUTRAL: Final[dict[str, tuple[Any, ...]]] = {
    "use_fused_finalize": (True,),  # 0.6.15; what releases before do
    "backend": ("cutlass",),  # 0.7.1
    "quant_mode": ("w4a4", "nvfp4"),  # 0.6.18
    "hidden_states_scale_layout": (2, "layout_linear"),  # 0.7.0; linear is all that any release reads
    "cp_world": (1,),  # 0.6.17, with enable_dcp
    "cp_rank": (0,),
    "kv_scale_format": ("auto",),  # 0.6.14
    "cute_dsl_impl": ("auto",),  # 0.6.12
}

#: Parameters of releases before 0.6.8, or of other projects' forks, and what says the same now.
REMOVED: Final = {
    "tile_tokens_dim": "it left with 0.6.0 and the autotuner chooses: leave it out, or bound tuning by tune_max_num_tokens",
    "gated_act_type": "it became activation_type: pass activation_type=fi_compat.fused_moe.ActivationType.Swiglu or .Geglu",
}


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

    __slots__ = ("_codes", "linear", "name", "relabelled", "unpacked", "upstream")

    def __init__(
        self, name: str, *, unpacked: bool | None = None, relabelled: bool = False, before: Callable[[], None] | None = None
    ) -> None:
        self.name = name
        self.unpacked = unpacked
        self.relabelled = relabelled
        self.upstream = Upstream("flashinfer.fused_moe", name, before=before)
        self._codes: dict[type, Mapping[tuple[type, Any], IntEnum]] = {}
        #: Upstream's ``SfLayout.layout_linear``, once it was needed.
        self.linear: Any = None

    def member(self, ours: Any, value: Any) -> IntEnum:
        """Return the installed release's member for an enum value.

        Raises
        ------
        TypeError, ValueError, UnsupportedFeatureError
            The value is not accepted, is unknown, or is newer than the installed release.
        """
        known = self._codes.get(ours)
        if known is None:
            installed = getattr(import_upstream("flashinfer.tllm_enums"), ours.__name__)
            known = self._codes[ours] = _enums.codes(ours, installed)
        found = known.get((type(value), value))
        if found is None:
            raise _enums.refuse(ours, value, self.name)
        return found


def since(function: str, parameter: str) -> str:
    """Say which releases of the table take a parameter: ">=0.6.16,<0.6.16.post3 or >=0.6.18"."""
    from fi_compat.contracts import contracts, parameters

    recorded = contracts("flashinfer")
    intervals: list[list[str]] = []
    inside = False
    for release in recorded.releases:
        if release not in _table.FLASHINFER_RELEASES:
            continue
        found = recorded.find(function, release)
        has = found.signature is not None and any(p.name == parameter for p in parameters(found.signature))
        if has and not inside:
            intervals.append([f">={release}"])
        elif inside and not has:
            intervals[-1].append(f"<{release}")
        inside = has
    return " or ".join(",".join(i) for i in intervals)


def fill(upstream: Upstream, required: dict[str, Any], optional: dict[str, Any], recorded: str = "") -> None:
    """Put into ``required`` what was set and the installed release takes; refuse what was set and it lacks."""
    parameters = upstream.parameters
    for name, value in optional.items():
        if value is not UNSET:
            if name in parameters:
                required[name] = value
            elif value is not None and not _is_neutral(name, value):
                dotted = recorded or f"{upstream.module}.{upstream.name}"
                raise unsupported(upstream.name, f"{name}={_short(value)}", "flashinfer", since(dotted, name))


def _is_neutral(name: str, value: Any) -> bool:
    return isinstance(value, bool | int | str) and value in NEUTRAL.get(name, (False,))


def _short(value: Any) -> str:
    return repr(value) if isinstance(value, bool | int | float | str) else f"<{type(value).__name__}>"


def refuse_removed(function: str, removed: dict[str, Any]) -> None:
    """Raise for keywords that no release from 0.6.8 on takes: typed where an older release took them."""
    name = next(iter(removed))
    if name in REMOVED:
        raise UnsupportedFeatureError(
            f"{function}: {name} is in no release from 0.6.8 on, needed a call without it: {REMOVED[name]}",
            feature=name,
            since="<0.6.8",
        )
    raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def refuse_environment(name: str) -> None:
    """Raise where the environment switches NVFP4 4-over-6 on and the function cannot be told otherwise (0.6.12 to 0.7.2.post1)."""
    import inspect

    function = getattr(import_upstream("flashinfer.fused_moe"), name, None)
    if function is None or "nvfp4_4over6" in inspect.signature(function).parameters:
        return
    for variable in _table.FOUR_OVER_SIX_VARIABLES:
        if os.environ.get(variable) == "1":
            raise ConfigurationError(
                f"{name}: found {variable}=1 in the environment, which the installed FlashInfer obeys whatever a call says, needed it unset:"
                f" unset {variable}, or pip install 'flashinfer-python>=0.7.4' and pass nvfp4_4over6"
            )


def pack(topk_ids: Tensor, topk_weights: Tensor) -> Tensor:
    """See ``fi_compat.fused_moe.pack_topk_ids``."""
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
        return pack(ids, weights)
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
        required["activation_type"] = int(entry.member(_enums.ActivationType, required["activation_type"]))
    if "routing_method_type" in required:
        required["routing_method_type"] = int(entry.member(_enums.RoutingMethodType, required["routing_method_type"]))
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
        required["activation_type"] = entry.member(_enums.ActivationType, required["activation_type"])
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
