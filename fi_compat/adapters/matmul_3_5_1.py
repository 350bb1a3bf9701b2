"""MXFP4 matmul of triton_kernels 3.4 and 3.5.1: ``matmul_ogs`` divides gather indices and reduces over slots itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fi_compat._upstream import Upstream, import_upstream, unsupported

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

#: Axis of a ``[E, K, N]`` weight along which a scale covers 32 values; negative from 3.8 on.
MX_AXIS = 1
#: Our names of precision options that this generation spells otherwise.
NAMES: dict[str, str] = {}

_matmul_ogs = Upstream("triton_kernels.matmul_ogs", "matmul_ogs")
_PrecisionConfig = Upstream("triton_kernels.matmul_ogs", "PrecisionConfig")
_FnSpecs = Upstream("triton_kernels.matmul_ogs", "FnSpecs")
_FusedActivation = Upstream("triton_kernels.matmul_ogs", "FusedActivation")
_swiglu_fn = Upstream("triton_kernels.swiglu", "swiglu_fn")
_wrap_torch_tensor = Upstream("triton_kernels.tensor", "wrap_torch_tensor")
_convert_layout = Upstream("triton_kernels.tensor", "convert_layout")

UPSTREAMS = {
    "matmul_ogs": (_matmul_ogs, _PrecisionConfig),
    "precision_config": (_PrecisionConfig,),
    "fused_swiglu": (_FnSpecs, _FusedActivation, _swiglu_fn),
    "prepare_mxfp4_weight": (_wrap_torch_tensor, _convert_layout),
}


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
    """Call ``triton_kernels.matmul_ogs.matmul_ogs``; see ``fi_compat.moe.matmul_ogs``."""
    return _matmul_ogs.call(
        x=x,
        w=w,
        bias=bias,
        routing_data=routing_data,
        gather_indx=gather_indx,
        scatter_indx=scatter_indx,
        precision_config=precision_config,
        betas=betas,
        gammas=gammas,
        out_alpha=out_alpha,
        y=y,
        fused_activation=fused_activation,
        epilogue=epilogue,
    )


def precision_config(options: dict[str, Any]) -> Any:
    """Make upstream's PrecisionConfig from our names; an option that this generation lacks is refused."""
    return make_config(_PrecisionConfig, NAMES, options)


def make_config(upstream: Upstream, names: dict[str, str], options: dict[str, Any]) -> Any:
    """Translate names and make a config."""
    translated = {names.get(name, name): value for name, value in options.items() if value is not None}
    for name, value in translated.items():
        if name not in upstream.parameters:
            raise unsupported("precision_config", f"{name}={value!r}", "triton_kernels", "of another generation")
    return upstream.call(**translated)


def activation(alpha: float, limit: float | None) -> Any:
    """Make the fused swiglu: reduction_n is a field of FusedActivation here."""
    return _FusedActivation.call(_FnSpecs.call("swiglu", _swiglu_fn.bind(), ("alpha", "limit")), (alpha, limit), 2)


def layouts(num_warps: int, *, mx_axis: int = MX_AXIS) -> tuple[Any, Any]:
    """Return the default layouts of value and scale for the current device: ``(class, options)`` each, instances from 3.8 on."""
    layout = import_upstream("triton_kernels.tensor_details.layout")
    return (
        layout.make_default_matmul_mxfp4_w_layout(mx_axis=mx_axis),
        layout.make_default_matmul_mxfp4_w_scale_layout(mx_axis=mx_axis, num_warps=num_warps),
    )


def wrap(tensor: Tensor, *, fp4: bool) -> Any:
    """Wrap a torch tensor in upstream's Tensor."""
    if not fp4:
        return _wrap_torch_tensor.call(tensor)
    return _wrap_torch_tensor.call(tensor, dtype=import_upstream("triton_kernels.tensor").FP4)


def convert(tensor: Any, layout: tuple[Any, dict[str, Any]]) -> Any:
    """Convert a wrapped tensor to a layout."""
    kind, options = layout
    return _convert_layout.call(tensor, kind, **options)


def constraint_names() -> frozenset[str]:
    """Return what the NVIDIA heuristics of this generation know; any other name fails at the next matmul."""
    return frozenset({"block_m", "block_k", "split_k", "fused_scatter", "is_persistent", "epilogue_subtile", "num_stages", "idle_sms"})


def constraints_module() -> Any:
    """Return the module that keeps opt-flags constraints."""
    return import_upstream("triton_kernels.matmul_ogs_details.opt_flags")


def exchange_constraints(constraints: dict[str, Any]) -> dict[str, Any]:
    """Set exactly these constraints and return those that were set: a module global here, seen by every thread."""
    module = constraints_module()
    before = dict(module._opt_flags_constraints)  # noqa: SLF001 - upstream has no getter
    replace_constraints(module, constraints)
    return before


def replace_constraints(module: Any, constraints: dict[str, Any]) -> None:
    """Set exactly these constraints."""
    module.reset_opt_flags_constraints()
    module.update_opt_flags_constraints(constraints)
