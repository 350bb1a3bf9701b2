"""``CuteDslMoEWrapper`` with one meaning: fresh outputs, one rule for the number of tokens, activation by name."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any, Final

from fi_compat._options import fill
from fi_compat._unset import UNSET
from fi_compat._upstream import Upstream, unsupported
from fi_compat.errors import UpstreamNotInstalledError

from . import _enums

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["UPSTREAMS", "make"]

#: What 0.6.14's ``activation`` calls the activations that it has.
_STRINGS: Final = {"Swiglu": "silu", "Relu2": "relu2"}


class _Wrapper(Upstream):
    """``CuteDslMoEWrapper``, which exists only where nvidia-cutlass-dsl is installed."""

    __slots__ = ()

    def _missing(self) -> Any:
        if importlib.util.find_spec("cutlass") is None:
            return UpstreamNotInstalledError(
                "cute_dsl_moe: flashinfer.fused_moe has no CuteDslMoEWrapper since nvidia-cutlass-dsl is not installed: pip install"
                " nvidia-cutlass-dsl"
            )
        return super()._missing()


_wrapper = _Wrapper("flashinfer.fused_moe", "CuteDslMoEWrapper")
UPSTREAMS = {"cute_dsl_moe": (_wrapper,)}


def make(required: dict[str, Any], optional: dict[str, Any]) -> Any:
    """Make a wrapper of the installed release; see ``fi_compat.fused_moe.cute_dsl_moe``."""
    limit = optional.pop("max_num_tokens")
    activation = optional.pop("activation_type")
    _activation(optional, activation)
    fill(_wrapper, required, optional)
    graph = required.get("use_cuda_graph", False)
    # Up to 0.6.13 the flag preallocates: one output buffer for all calls, and a bound on the tokens.
    preallocates = graph and "activation" not in _wrapper.parameters and "activation_type" not in _wrapper.parameters
    if preallocates:
        required["use_cuda_graph"] = False
    wrapper = _class()(**required)
    wrapper._fi_compat_limit = None if limit is UNSET else limit  # noqa: SLF001 - our own attribute on our own subclass
    if preallocates:
        import torch

        # What 0.6.14 makes for capture: a side stream and events that exist before the graph does.
        wrapper._aux_stream = torch.cuda.Stream(device=wrapper.device)  # noqa: SLF001
        wrapper._main_event = torch.cuda.Event()  # noqa: SLF001
        wrapper._memset_event = torch.cuda.Event()  # noqa: SLF001
        wrapper.use_cuda_graph = False
    return wrapper


def _activation(optional: dict[str, Any], activation: Any) -> None:
    """Say the activation as the installed release does: not at all, by string (0.6.14), or by integer (0.6.15 and newer)."""
    said = optional.pop("activation")
    if said is not UNSET and activation is not UNSET:
        raise ValueError(f"cute_dsl_moe: found activation={said!r} and activation_type={activation!r}, needed one: leave activation out")
    if said is not UNSET:
        names = {"silu": "Swiglu", "swiglu": "Swiglu", "relu2": "Relu2"}
        if said not in names:
            raise ValueError(f"cute_dsl_moe: found activation={said!r}, needed 'silu' or 'relu2', or activation_type")
        activation = names[said]
    if activation is UNSET:
        return
    parameters = _wrapper.parameters
    member = _enums.member(_enums.ActivationType, activation, "cute_dsl_moe")
    if "activation_type" in parameters:
        optional["activation_type"] = int(member)
        return
    name = member.name
    if "activation" in parameters and name in _STRINGS:
        optional["activation"] = _STRINGS[name]
    elif name != "Swiglu":
        since = ">=0.6.14" if name in _STRINGS else ">=0.6.15"
        raise unsupported("cute_dsl_moe", f"activation_type={name}", "flashinfer", since)


_classes: dict[Any, Any] = {}


def _class() -> Any:
    """Make a subclass of the installed wrapper whose ``run`` has one meaning."""
    native: Any = _wrapper.bind()
    found = _classes.get(native)
    if found is None:
        found = _classes[native] = _subclass(native)
    return found


def _subclass(native: Any) -> Any:
    import inspect

    takes = frozenset(inspect.signature(native.run).parameters)

    class CuteDslMoE(native):  # type: ignore[misc]
        """``flashinfer.fused_moe.CuteDslMoEWrapper`` with fi_compat's meaning of ``run``; see ``fi_compat.fused_moe.cute_dsl_moe``."""

        _fi_compat_limit: int | None = None

        def run(
            self,
            x: Tensor,
            x_sf: Tensor | None,
            token_selected_experts: Tensor,
            token_final_scales: Tensor,
            w1_weight: Tensor,
            w1_weight_sf: Tensor,
            w1_alpha: Tensor,
            fc2_input_scale: Tensor | None,
            w2_weight: Tensor,
            w2_weight_sf: Tensor,
            w2_alpha: Tensor,
            tactic: Any = None,
            *,
            per_token_scale: Tensor | None = None,
            nvfp4_4over6: Any = None,
        ) -> Tensor:
            """Run the layer; the answer is a tensor of its own on every release, under capture too."""
            tokens = token_selected_experts.shape[0]
            if self._fi_compat_limit is not None and tokens > self._fi_compat_limit:
                raise ValueError(
                    f"cute_dsl_moe: found {tokens} tokens, needed at most max_num_tokens={self._fi_compat_limit}: make the wrapper with a"
                    " larger one, or without"
                )
            options: dict[str, Any] = {}
            if per_token_scale is not None:
                if "per_token_scale" not in takes:
                    raise unsupported("cute_dsl_moe.run", "per_token_scale", "flashinfer", ">=0.6.16")
                options["per_token_scale"] = per_token_scale
            if "nvfp4_4over6" in takes:
                options["nvfp4_4over6"] = nvfp4_4over6
            elif nvfp4_4over6 is not None:
                raise unsupported("cute_dsl_moe.run", "nvfp4_4over6", "flashinfer", ">=0.7.4")
            found: Tensor = super().run(
                x,
                x_sf,
                token_selected_experts,
                token_final_scales,
                w1_weight,
                w1_weight_sf,
                w1_alpha,
                fc2_input_scale,
                w2_weight,
                w2_weight_sf,
                w2_alpha,
                tactic,
                **options,
            )
            return found

    return CuteDslMoE
