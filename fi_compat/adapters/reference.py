"""The backend in plain torch: any device, no triton, same contract; named explicitly, never fallen back to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fi_compat._reference_routing import mask_rows, route, routing_tensors
from fi_compat._routing import GatherIndx, RaggedView, Routing, RoutingData, ScatterIndx

if TYPE_CHECKING:
    from torch import Tensor

    from fi_compat._routing import RoutingTensors
    from fi_compat._upstream import Upstream

__all__ = ["SLOTS_BY_VALUE", "UPSTREAMS", "from_tensors", "matmul", "routing", "routing_from_topk", "runs_on_cpu"]

SLOTS_BY_VALUE = False
#: moe_layer(backend="reference") is the layer in plain torch; single matmuls are not served.
matmul: Any = None
UPSTREAMS: dict[str, tuple[Upstream, ...]] = {"routing": (), "routing_from_topk": ()}


def runs_on_cpu() -> bool:
    """Say that CPU tensors are fine."""
    return True


def from_tensors(tensors: RoutingTensors) -> Routing:
    """Make our own objects from plain tensors."""
    sizes = tensors.block_sizes
    view = RaggedView(
        tensors.hist,
        tensors.slice_offs,
        lambda block: tensors.block_offs[sizes.index(block)],
        lambda block: tensors.block_schedule[sizes.index(block)],
    )
    data = RoutingData(tensors.gate_scal, tensors.hist, tensors.n_experts, tensors.n_expts_act, view)
    return Routing(data, GatherIndx(tensors.src_indx, tensors.dst_indx), ScatterIndx(tensors.dst_indx, tensors.src_indx))


def routing(
    logits: Tensor,
    n_expts_act: int,
    sm_first: bool,
    expt_indx: Tensor | None,
    simulated_ep: int,
    n_rows: int | Tensor | None,
    slot_order: str,  # noqa: ARG001 - both orders are by expert id here
) -> Routing:
    """Route in plain torch, slots by expert id as in 3.5.1."""
    return from_tensors(route(logits, n_expts_act, sm_first, expt_indx, simulated_ep, n_rows))


def routing_from_topk(topk_ids: Tensor, topk_weights: Tensor, n_experts: int, n_rows: int | Tensor | None) -> Routing:
    """Make a routing from ids and weights in plain torch."""
    return from_tensors(routing_tensors(topk_weights, mask_rows(topk_ids, n_rows), n_experts))
