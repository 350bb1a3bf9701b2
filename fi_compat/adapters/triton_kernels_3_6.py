"""triton_kernels 3.6: ``routing.py`` is gone, ``topk`` returns a ``SparseMatrix``, metadata is ``RaggedTensorMetadata``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from fi_compat._reference_routing import compact, mask_rows, routing_tensors
from fi_compat._routing import Routing
from fi_compat._upstream import Upstream, import_upstream

from . import matmul_3_6 as matmul
from .triton_kernels_3_5_1 import expert_bits
from .triton_kernels_3_5_1 import runs_on_cpu as runs_on_cpu

if TYPE_CHECKING:
    from torch import Tensor

    from fi_compat._routing import RoutingTensors

__all__ = ["SLOTS_BY_VALUE", "UPSTREAMS", "from_tensors", "matmul", "routing", "routing_from_topk", "runs_on_cpu"]

#: A token's slots are in ascending order of expert id.
SLOTS_BY_VALUE = False

_topk = Upstream("triton_kernels.topk", "topk")
_make_ragged_tensor_metadata = Upstream("triton_kernels.tensor", "make_ragged_tensor_metadata")
_RaggedTensorMetadata = Upstream("triton_kernels.tensor", "RaggedTensorMetadata")
_SparseMatrix = Upstream("triton_kernels.tensor", "SparseMatrix")
_Bitmatrix = Upstream("triton_kernels.tensor", "Bitmatrix")
_RoutingData = Upstream("triton_kernels.matmul_ogs", "RoutingData")
_GatherIndx = Upstream("triton_kernels.matmul_ogs", "GatherIndx")
_ScatterIndx = Upstream("triton_kernels.matmul_ogs", "ScatterIndx")

UPSTREAMS = {
    "routing": (_topk, _make_ragged_tensor_metadata, _RaggedTensorMetadata, _RoutingData, _GatherIndx, _ScatterIndx),
    "routing_from_topk": (_SparseMatrix, _Bitmatrix, _make_ragged_tensor_metadata, _RoutingData, _GatherIndx, _ScatterIndx),
}


def routing(
    logits: Tensor,
    n_expts_act: int,
    sm_first: bool,
    expt_indx: Tensor | None,
    simulated_ep: int,
    n_rows: int | Tensor | None,
    slot_order: str,  # noqa: ARG001 - upstream's order is by expert id
) -> Routing:
    """Build a routing on ``topk`` and ``make_ragged_tensor_metadata``; see ``fi_compat.moe.routing``."""
    scores = torch.softmax(logits, dim=-1) if sm_first else logits
    sparse = _topk.call(x=scores, k=n_expts_act, apply_softmax=not sm_first, y_indx=expt_indx, n_rows=n_rows)
    n_experts = logits.shape[1] // simulated_ep
    if simulated_ep > 1:
        return from_tensors(pruned(sparse, n_experts, n_rows))
    return _from_sparse(sparse, n_experts, n_expts_act, padded=n_rows is not None)


def pruned(sparse: Any, n_experts: int, n_rows: int | Tensor | None) -> RoutingTensors:
    """Keep the first ``n_experts`` experts of a top-k, as 3.5.1's prune_routing does; no generation from 3.6 on has it."""
    values, indices = compact(sparse.vals, mask_rows(sparse.indx.to(torch.int32), n_rows), n_experts)
    return routing_tensors(values, indices, n_experts)


def sorted_gates(sparse: Any, padded: bool) -> Tensor:
    """Return gate weights in expert order; past the last row the index is -1 and the weight 0."""
    order = sparse.mask_metadata.col_sorted_indx
    flat = sparse.vals.reshape(-1)
    if not padded:
        return flat[order]
    return torch.where(order >= 0, flat[order.clamp_min(0)], 0) if flat.numel() else flat


def _from_sparse(sparse: Any, n_experts: int, n_expts_act: int, padded: bool) -> Routing:
    # col_sorted_indx is 3.5.1's topk_indx, row_sorted_indx its gate_indx; an upstream revision between had them swapped.
    metadata = sparse.mask_metadata
    column, row = metadata.col_sorted_indx, metadata.row_sorted_indx
    ragged = _make_ragged_tensor_metadata.call(metadata.col_sum, column.shape[0])
    data = _RoutingData.call(sorted_gates(sparse, padded), ragged.slice_sizes, n_experts, n_expts_act, ragged)
    return Routing(data, _GatherIndx.call(src_indx=column, dst_indx=row), _ScatterIndx.call(src_indx=row, dst_indx=column))


def routing_from_topk(topk_ids: Tensor, topk_weights: Tensor, n_experts: int, n_rows: int | Tensor | None) -> Routing:
    """Build a routing on ``SparseMatrix``; see ``fi_compat.moe.routing_from_topk``."""
    n_tokens, k = topk_ids.shape
    # A width padded to 32, right up to 3.5.1, gives metadata of padded length here.
    shape = [n_tokens if n_rows is None else n_rows, n_experts]
    bit = import_upstream("triton_kernels.tensor").BIT
    mask = _Bitmatrix.call(expert_bits(topk_ids, n_experts), dtype=bit, shape=shape, shape_max=[n_tokens, None])
    sparse = _SparseMatrix.call(indx=topk_ids, vals=topk_weights, mask=mask)
    return _from_sparse(sparse, n_experts, k, padded=True)


def from_tensors(tensors: RoutingTensors) -> Routing:
    """Make upstream's objects from plain tensors."""
    ragged = _RaggedTensorMetadata.call(tensors.hist, tensors.slice_offs, tensors.block_offs, tensors.block_schedule)
    data = _RoutingData.call(tensors.gate_scal, tensors.hist, tensors.n_experts, tensors.n_expts_act, ragged)
    gather = _GatherIndx.call(src_indx=tensors.src_indx, dst_indx=tensors.dst_indx)
    return Routing(data, gather, _ScatterIndx.call(src_indx=tensors.dst_indx, dst_indx=tensors.src_indx))
