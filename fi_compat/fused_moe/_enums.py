"""Activation and routing-method enums whose meaning does not move: translated by name, never by an upstream integer."""

from __future__ import annotations

import difflib
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from fi_compat._upstream import import_upstream, unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import IntEnum

__all__ = ["ActivationType", "RoutingMethodType", "member"]


class ActivationType(Enum):
    """Activation of the first GEMM; names are ``flashinfer.ActivationType``'s, whose integers from 7 on moved four times.

    ``.value`` is upstream's name, so that code written ``activation_type=ActivationType.Situ.value`` keeps its meaning.
    """

    Gelu = "Gelu"
    Relu = "Relu"
    Silu = "Silu"
    Swiglu = "Swiglu"
    Geglu = "Geglu"
    SwigluBias = "SwigluBias"
    Relu2 = "Relu2"
    Identity = "Identity"
    SwigluStep = "SwigluStep"
    GegluTanh = "GegluTanh"
    Situ = "Situ"
    ClampedRelu2 = "ClampedRelu2"
    PowLU = "PowLU"


class RoutingMethodType(Enum):
    """Routing method of the trtllm functions; names are ``flashinfer.RoutingMethodType``'s, whose integers from 6 on moved."""

    Default = "Default"
    Renormalize = "Renormalize"
    DeepSeekV3 = "DeepSeekV3"
    Llama4 = "Llama4"
    RenormalizeNaive = "RenormalizeNaive"
    TopK = "TopK"
    SigmoidRenorm = "SigmoidRenorm"
    MiniMax2 = "MiniMax2"
    Sigmoid = "Sigmoid"
    TopKSigmoid = "TopKSigmoid"


#: How many integers, from 0 on, have meant the same on every release: 0 to 6 and 0 to 5.
STABLE: Final[dict[type[Enum], int]] = {ActivationType: 7, RoutingMethodType: 6}


_known: dict[type[Enum], Mapping[tuple[type, Any], IntEnum]] = {}


def member(ours: type[Enum], value: Any, function: str) -> IntEnum:
    """Return the installed release's member for an enum value.

    Raises
    ------
    TypeError, ValueError, UnsupportedFeatureError
        The value is not accepted, is unknown, or is newer than the installed release.
    """
    known = _known.get(ours)
    if known is None:
        known = _known[ours] = _codes(ours, getattr(import_upstream("flashinfer.tllm_enums"), ours.__name__))
    found = known.get((type(value), value))
    if found is None:
        raise _refusal(ours, value, function)
    return found


def _codes(ours: type[Enum], installed: type[IntEnum]) -> Mapping[tuple[type, Any], IntEnum]:
    """Return the installed release's member for each value that is accepted, by ``(type(value), value)``.

    The type is part of the key since upstream's members are integers: ``ActivationType.Identity == 7`` on some releases.
    """
    found: dict[tuple[type, Any], IntEnum] = {}
    for own in ours:
        native = getattr(installed, own.name, None)
        if native is not None:
            found[ours, own] = found[str, own.name] = found[installed, native] = native
            if native < STABLE[ours]:
                found[int, int(native)] = native
    return found


def _refusal(ours: type[Enum], value: Any, function: str) -> Exception:
    """Build the error for a value that is not accepted, or that the installed release lacks."""
    parameter = "activation_type" if ours is ActivationType else "routing_method_type"
    name = value.name if isinstance(value, ours) else value
    if isinstance(value, Enum) and not isinstance(value, ours):
        return TypeError(
            f"{function}: found {parameter}={type(value).__qualname__}.{value.name} (value {value.value!r}), neither ours nor the installed FlashInfer's"
            f" enum, whose values may mean another {ours.__name__} there: pass fi_compat.fused_moe.{ours.__name__}.NAME"
        )
    if isinstance(name, str):
        if name in ours.__members__:
            return unsupported(function, f"{parameter}={ours.__name__}.{name}", "flashinfer", _since(ours, name))
        close = difflib.get_close_matches(name, ours.__members__, n=3, cutoff=0.4)
        return ValueError(
            f"{function}: {parameter}={name!r} is no {ours.__name__}; needed one of {', '.join(close or ours.__members__)}: pass"
            f" fi_compat.fused_moe.{ours.__name__}.NAME"
        )
    if isinstance(value, int) and not isinstance(value, bool):
        meanings = _meanings(ours, value)
        return TypeError(
            f"{function}: found {parameter}={int(value)}, a plain integer that means {meanings or 'nothing on any release'}; needed a name"
            f" that means the same on all: pass fi_compat.fused_moe.{ours.__name__}.NAME (integers 0 to {STABLE[ours] - 1} never moved)"
        )
    return TypeError(
        f"{function}: found {parameter} of type {type(value).__name__}, needed fi_compat.fused_moe.{ours.__name__} or its name"
    )


def _history(ours: type[Enum]) -> list[tuple[str, dict[str, int]]]:
    from fi_compat import _table
    from fi_compat.contracts import contracts

    recorded = contracts("flashinfer")
    tested = set(_table.FLASHINFER_RELEASES)
    return [
        (release, recorded.find(f"flashinfer.tllm_enums.{ours.__name__}", release).entry["e"])
        for release in recorded.releases
        if release in tested
    ]


def _since(ours: type[Enum], name: str) -> str:
    first = next((release for release, members in _history(ours) if name in members), None)
    return f">={first}" if first else "a release that has it"


def _meanings(ours: type[Enum], value: int) -> str:
    """Say what an integer means on which releases: "Identity from 0.6.8, SwigluStep from 0.6.13"."""
    found: list[str] = []
    last = None
    for release, members in _history(ours):
        name = next((n for n, v in members.items() if v == value), None)
        if name != last:
            found.append(f"{name or 'nothing'} from {release}")
            last = name
    return ", ".join(found) if last or len(found) > 1 else ""
