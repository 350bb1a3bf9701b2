"""MXFP4 matmul of triton_kernels 3.8 and the fork: ``matmul`` wants row ids and leaves the sum over slots to the caller."""

from __future__ import annotations

from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

from fi_compat._upstream import Upstream, import_upstream

from . import matmul_3_6 as _before
from .matmul_3_5_1 import _convert_layout, _swiglu_fn, make_config, replace_constraints
from .matmul_3_6 import _FnSpecs
from .matmul_3_6 import wrap as wrap

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "MX_AXIS",
    "NAMES",
    "UPSTREAMS",
    "activation",
    "constraint_names",
    "constraints_module",
    "convert",
    "exchange_constraints",
    "layouts",
    "matmul_ogs",
    "precision_config",
    "wrap",
]

MX_AXIS = -2
NAMES = {"weight_scale": "b_mx_scale", "act_scale": "a_mx_scale", "out_scale": "c_mx_scale"}
#: One scale per 32 values, which the fork and the shuffled trees want said.
_MICROBLOCK = 32

_matmul = Upstream("triton_kernels.matmul", "matmul")
_PrecisionConfig = Upstream("triton_kernels.matmul", "PrecisionConfig")
_FusedActivation = Upstream("triton_kernels.matmul", "FusedActivation")
_reduce = Upstream("triton_kernels.reduce", "reduce")

UPSTREAMS = {
    "matmul_ogs": (_matmul, _PrecisionConfig, _reduce),
    "precision_config": (_PrecisionConfig,),
    "fused_swiglu": (_FnSpecs, _FusedActivation, _swiglu_fn),
    "prepare_mxfp4_weight": _before.UPSTREAMS["prepare_mxfp4_weight"],
}

#: Constraints set through fi_compat; a ContextVar upstream in some trees, which a new thread does not see.
_ours: dict[str, Any] = {}
#: What this context had before it was given them, and gets back when they are gone; None where it was given none.
_had: ContextVar[dict[str, Any] | None] = ContextVar("_had", default=None)


def matmul_ogs(
    x: Tensor,
    w: Any,
    bias: Tensor | None,
    routing_data: Any,
    gather_indx: Any,
    scatter_indx: Any,
    precision_config: Any,
    betas: Tensor | None,
    gammas: Tensor | None,
    out_alpha: float | None,
    y: Tensor | None,
    fused_activation: Any,
    epilogue: Any,
) -> Tensor:
    """Call ``triton_kernels.matmul.matmul``, and ``reduce`` over a token's slots; see ``fi_compat.moe.matmul_ogs``."""
    if _ours or _had.get() is not None:
        _carry_constraints()
    reduced = scatter_indx is not None and routing_data is not None and routing_data.n_expts_act > 1
    out = _matmul.call(
        a=x,
        b=w,
        bias=bias,
        a_ragged_metadata=None if routing_data is None else routing_data.expt_data,
        gather_indx=None if gather_indx is None else gather_indx.rows(routing_data.n_expts_act),
        scatter_indx=None if scatter_indx is None else scatter_indx.dst_indx,
        precision_config=precision_config,
        betas=betas,
        gammas=gammas,
        out_alpha=out_alpha,
        c=None if reduced else y,
        fused_activation=fused_activation,
        epilogue=epilogue,
    )
    if not reduced:
        return out
    slots = out.view(-1, routing_data.n_expts_act, out.shape[-1])
    # Slots of experts elsewhere, and of rows past n_rows, were not written.
    mask = None
    if scatter_indx.padded:
        mask = (scatter_indx.src_indx != -1).view(-1, routing_data.n_expts_act, 1)
    result = _reduce.call(slots, dim=1, mask=mask, y=y)
    return result[0] if isinstance(result, tuple) else result


def precision_config(options: dict[str, Any]) -> Any:
    """Make upstream's PrecisionConfig from our names, with the microblock size where the tree wants it."""
    for ours, native in NAMES.items():
        size = native.replace("mx_scale", "microblock_size")
        if options.get(ours) is not None and size in _PrecisionConfig.parameters:
            options = {size: _MICROBLOCK, **options}
    return make_config(_PrecisionConfig, NAMES, options)


activation = partial(_before.activation, fused=_FusedActivation)
layouts = partial(_before.layouts, mx_axis=MX_AXIS)


def convert(tensor: Any, layout: Any) -> Any:
    """Convert a wrapped tensor to a layout."""
    return _convert_layout.call(tensor, layout)


def constraint_names() -> frozenset[str]:
    """Return what the installed tree's heuristics know; block_n came with the scoped constraints of the fork and the shuffled tree."""
    names = _before.constraint_names() | {"num_warps"}
    return names | {"block_n", "disable_mx4_block_swap"} if hasattr(constraints_module(), "scoped_opt_flags_constraints") else names


def constraints_module() -> Any:
    """Return the module that keeps opt-flags constraints."""
    return import_upstream("triton_kernels.matmul_details.opt_flags")


def exchange_constraints(constraints: dict[str, Any]) -> dict[str, Any]:
    """Set exactly these constraints and return those that were set; kept here too, for threads that see no ContextVar."""
    module = constraints_module()
    getter = getattr(module, "_get_opt_flags_constraints", None)
    before = dict(getter() if getter is not None else module._opt_flags_constraints)  # noqa: SLF001 - upstream has no public getter
    replace_constraints(module, constraints)
    _ours.clear()
    _ours.update(constraints)
    return before


def _carry_constraints() -> None:
    """Give this thread the constraints that were set through fi_compat in another one, or give back what it had before."""
    module = constraints_module()
    getter = getattr(module, "_get_opt_flags_constraints", None)
    if getter is None:
        return
    current, before = dict(getter()), _had.get()
    if not _ours:
        replace_constraints(module, before or {})
        _had.set(None)
    elif current != _ours:
        replace_constraints(module, _ours)
        if before is None:
            _had.set(current)
