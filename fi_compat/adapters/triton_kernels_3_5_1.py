"""triton_kernels 3.4 and 3.5.1: ``routing.py`` exists, ``topk`` returns a tuple, metadata is ``ExptData``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from fi_compat._interpreter import is_interpreted
from fi_compat._routing import Routing
from fi_compat._upstream import Upstream

from . import matmul_3_5_1 as matmul

if TYPE_CHECKING:
    from torch import Tensor

    from fi_compat._routing import RoutingTensors

__all__ = ["SLOTS_BY_VALUE", "UPSTREAMS", "expert_bits", "from_tensors", "matmul", "routing", "routing_from_topk", "runs_on_cpu"]

#: A token's slots are in ascending order of expert id.
SLOTS_BY_VALUE = False

_routing = Upstream("triton_kernels.routing", "routing")
_routing_from_bitmatrix = Upstream("triton_kernels.routing", "routing_from_bitmatrix")
_RoutingData = Upstream("triton_kernels.routing", "RoutingData")
_GatherIndx = Upstream("triton_kernels.routing", "GatherIndx")
_ScatterIndx = Upstream("triton_kernels.routing", "ScatterIndx")
_ExptData = Upstream("triton_kernels.routing", "ExptData")
_Bitmatrix = Upstream("triton_kernels.tensor", "Bitmatrix")

UPSTREAMS = {
    "routing": (_routing, _RoutingData, _GatherIndx, _ScatterIndx, _ExptData),
    "routing_from_topk": (_routing_from_bitmatrix, _Bitmatrix, _RoutingData, _GatherIndx, _ScatterIndx, _ExptData),
}


def runs_on_cpu() -> bool:
    """Say whether the tree was imported under Triton's interpreter."""
    return is_interpreted("triton_kernels.topk_details._topk_forward", "_topk_forward")


def routing(
    logits: Tensor,
    n_expts_act: int,
    sm_first: bool,
    expt_indx: Tensor | None,
    simulated_ep: int,
    n_rows: int | Tensor | None,
    slot_order: str,  # noqa: ARG001 - upstream's order is by expert id
) -> Routing:
    """Call ``triton_kernels.routing.routing``; see ``fi_compat.moe.routing``."""
    result = Routing(
        *_routing.call(
            logits=logits, n_expts_act=n_expts_act, sm_first=sm_first, expt_indx=expt_indx, simulated_ep=simulated_ep, n_rows=n_rows
        )
    )
    if n_rows is not None or simulated_ep > 1:
        _clear_tail(result)
    return result


def _clear_tail(result: Routing) -> None:
    """Set the gates past the last row to 0; upstream leaves them as ``torch.empty`` gave them."""
    data, gather, _ = result
    data.gate_scal = torch.where(gather.src_indx >= 0, data.gate_scal, 0)


def expert_bits(ids: Tensor, n_experts: int) -> Tensor:
    """Pack expert ids into upstream's bit matrix, uint32 ``[n_tokens, cdiv(n_experts, 32)]``, words in column-major order."""
    n_tokens, words = ids.shape[0], -(-n_experts // 32)
    wide = ids.to(torch.int64)
    # -1 adds nothing to word 0.
    bit = torch.where(wide < 0, 0, torch.ones_like(wide) << (wide % 32))
    packed = torch.zeros((n_tokens, words), dtype=torch.int64, device=ids.device)
    packed.scatter_add_(1, (wide // 32).clamp_min(0), bit)
    padded = torch.zeros((words, -(-n_tokens // 32) * 32), dtype=torch.int32, device=ids.device)
    padded[:, :n_tokens] = packed.to(torch.int32).t()
    return padded.view(torch.uint32).t()[:n_tokens]


def routing_from_topk(topk_ids: Tensor, topk_weights: Tensor, n_experts: int, n_rows: int | Tensor | None) -> Routing:
    """Call ``triton_kernels.routing.routing_from_bitmatrix``; see ``fi_compat.moe.routing_from_topk``."""
    n_tokens, k = topk_ids.shape
    bits = expert_bits(topk_ids, n_experts)
    shape = [n_tokens if n_rows is None else n_rows, bits.shape[1] * 32]
    bitmatrix = _Bitmatrix.call(bits, shape=shape, shape_max=[n_tokens, None])
    result = Routing(*_routing_from_bitmatrix.call(bitmatrix, topk_weights, topk_ids, n_experts, k))
    _clear_tail(result)
    return result


def from_tensors(tensors: RoutingTensors) -> Routing:
    """Make upstream's objects from plain tensors."""
    offsets = dict(zip(tensors.block_sizes, tensors.block_offs, strict=True))
    schedule = dict(zip(tensors.block_sizes, tensors.block_schedule, strict=True))
    data = _RoutingData.call(
        tensors.gate_scal,
        tensors.hist,
        tensors.n_experts,
        tensors.n_expts_act,
        _ExptData.call(tensors.hist, tensors.slice_offs, offsets, schedule),
    )
    gather = _GatherIndx.call(src_indx=tensors.src_indx, dst_indx=tensors.dst_indx)
    return Routing(data, gather, _ScatterIndx.call(src_indx=tensors.dst_indx, dst_indx=tensors.src_indx))
