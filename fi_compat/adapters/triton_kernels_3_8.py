"""triton_kernels 3.8 and the tokenspeed fork: no routing classes, slots in descending order of gate, ``matmul``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from fi_compat._routing import GatherIndx, Routing, RoutingData, ScatterIndx
from fi_compat._upstream import Upstream, import_upstream

from . import matmul_3_8 as matmul
from .triton_kernels_3_5_1 import expert_bits
from .triton_kernels_3_6 import (
    _make_ragged_tensor_metadata,
    _RaggedTensorMetadata,
    _SparseMatrix,
    _topk,
    pruned,
    sorted_gates,
)
from .triton_kernels_3_6 import runs_on_cpu as runs_on_cpu

if TYPE_CHECKING:
    from torch import Tensor

    from fi_compat._routing import RoutingTensors

__all__ = ["SLOTS_BY_VALUE", "UPSTREAMS", "from_tensors", "matmul", "routing", "routing_from_topk", "runs_on_cpu"]

#: A token's slots are in descending order of gate value; equal values by expert id.
SLOTS_BY_VALUE = True

_wrap_torch_tensor = Upstream("triton_kernels.tensor", "wrap_torch_tensor")

UPSTREAMS = {
    "routing": (_topk, _make_ragged_tensor_metadata, _RaggedTensorMetadata),
    "routing_from_topk": (_SparseMatrix, _wrap_torch_tensor, _make_ragged_tensor_metadata),
}


def routing(
    logits: Tensor,
    n_expts_act: int,
    sm_first: bool,
    expt_indx: Tensor | None,
    simulated_ep: int,
    n_rows: int | Tensor | None,
    slot_order: str,
) -> Routing:
    """Build a routing on ``topk`` and ``make_ragged_tensor_metadata``; see ``fi_compat.moe.routing``."""
    scores = torch.softmax(logits, dim=-1) if sm_first else logits
    if slot_order == "expert" and expt_indx is None and n_expts_act > 1:
        # 3.5.1's bits: the same experts sorted by id, then a second pass that takes them as given.
        chosen = _topk.call(x=scores, k=n_expts_act, apply_softmax=False, n_rows=n_rows).indx
        expt_indx = torch.sort(chosen.to(torch.int32), dim=1).values
    sparse = _topk.call(x=scores, k=n_expts_act, apply_softmax=not sm_first, y_indx=expt_indx, n_rows=n_rows)
    n_experts = logits.shape[1] // simulated_ep
    if simulated_ep > 1:
        return from_tensors(pruned(sparse, n_experts, n_rows))
    return _from_sparse(sparse, n_experts, n_expts_act, padded=n_rows is not None)


def _from_sparse(sparse: Any, n_experts: int, n_expts_act: int, padded: bool) -> Routing:
    metadata = sparse.mask_metadata
    column, row = metadata.col_sorted_indx, metadata.row_sorted_indx
    ragged = _make_ragged_tensor_metadata.call(metadata.col_sum, column.shape[0])
    data = RoutingData(sorted_gates(sparse, padded), ragged.slice_sizes, n_experts, n_expts_act, ragged)
    return Routing(data, GatherIndx(column, row), ScatterIndx(row, column, padded=padded))


def routing_from_topk(topk_ids: Tensor, topk_weights: Tensor, n_experts: int, n_rows: int | Tensor | None) -> Routing:
    """Build a routing on ``SparseMatrix``; see ``fi_compat.moe.routing_from_topk``."""
    n_tokens, k = topk_ids.shape
    shape = [n_tokens if n_rows is None else n_rows, n_experts]
    bit = import_upstream("triton_kernels.tensor_details.dtype").BIT
    mask = _wrap_torch_tensor.call(expert_bits(topk_ids, n_experts), dtype=bit, shape=shape, shape_max=[n_tokens, None])
    sparse = _SparseMatrix.call(indx=topk_ids, vals=topk_weights, mask=mask)
    return _from_sparse(sparse, n_experts, k, padded=True)


def from_tensors(tensors: RoutingTensors) -> Routing:
    """Make our objects, with upstream's metadata, from plain tensors."""
    ragged = _RaggedTensorMetadata.call(tensors.hist, tensors.slice_offs, tensors.block_offs, tensors.block_schedule)
    data = RoutingData(tensors.gate_scal, tensors.hist, tensors.n_experts, tensors.n_expts_act, ragged)
    return Routing(data, GatherIndx(tensors.src_indx, tensors.dst_indx), ScatterIndx(tensors.dst_indx, tensors.src_indx, padded=True))
