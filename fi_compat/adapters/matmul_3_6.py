"""MXFP4 matmul of triton_kernels 3.6: as 3.5.1, but reduction_n is a field of FnSpecs and constraints differ."""

from __future__ import annotations

from typing import Any

from fi_compat._upstream import Upstream

from . import matmul_3_5_1 as _before
from .matmul_3_5_1 import MX_AXIS as MX_AXIS
from .matmul_3_5_1 import NAMES as NAMES
from .matmul_3_5_1 import UPSTREAMS as _BEFORE
from .matmul_3_5_1 import _FusedActivation, _swiglu_fn
from .matmul_3_5_1 import constraints_module as constraints_module
from .matmul_3_5_1 import convert as convert
from .matmul_3_5_1 import exchange_constraints as exchange_constraints
from .matmul_3_5_1 import layouts as layouts
from .matmul_3_5_1 import matmul_ogs as matmul_ogs
from .matmul_3_5_1 import precision_config as precision_config
from .matmul_3_5_1 import wrap as wrap

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

_FnSpecs = Upstream("triton_kernels.specialize", "FnSpecs")

UPSTREAMS = {**_BEFORE, "fused_swiglu": (_FnSpecs, _FusedActivation, _swiglu_fn)}


def activation(alpha: float, limit: float | None, *, fused: Upstream = _FusedActivation) -> Any:
    """Make the fused swiglu: reduction_n is a field of FnSpecs here."""
    return fused.call(_FnSpecs.call("swiglu", _swiglu_fn.bind(), ("alpha", "limit"), reduction_n=2), (alpha, limit))


def constraint_names() -> frozenset[str]:
    """Return what this generation's heuristics know."""
    return (_before.constraint_names() - {"fused_scatter"}) | {"max_allowable_mn"}
