"""The same operations in plain torch, on any device: an oracle for tests, and a backend that runs anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._reference_fp4 import fp4_dequantize, fp4_quantize, swizzle_sf, unswizzle_sf

if TYPE_CHECKING:
    from torch import Tensor

    from ._routing import Routing

__all__ = ["fp4_dequantize", "fp4_quantize", "routing", "swizzle_sf", "unswizzle_sf"]


def routing(
    logits: Tensor,
    n_expts_act: int,
    sm_first: bool = False,
    expt_indx: Tensor | None = None,
    simulated_ep: int = 1,
    n_rows: int | Tensor | None = None,
    *,
    by_value: bool = False,
) -> Routing:
    """Route tokens to experts in plain torch; parameters and contract as for ``fi_compat.moe.routing``.

    Parameters
    ----------
    by_value : bool
        A token's slots in descending order of gate value, as generation 3.8 has them, instead of ascending expert id.

    Returns
    -------
    Routing
        Our own objects.
    """
    from ._reference_routing import route
    from .adapters.reference import from_tensors

    return from_tensors(route(logits, n_expts_act, sm_first, expt_indx, simulated_ep, n_rows, by_value=by_value))
