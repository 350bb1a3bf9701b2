"""Routing in plain torch: the contract of ``fi_compat.moe.routing`` written out, on any device, without a synchronisation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._routing import RoutingTensors

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["choose", "compact", "route", "routing_tensors", "sort_key", "topk"]


def sort_key(x: Tensor) -> Tensor:
    """Return signed integers that order as the kernels order floats: -0.0 below +0.0, NaN beyond infinity by its sign."""
    import torch

    kind = {1: torch.int8, 2: torch.int16, 4: torch.int32}[x.element_size()]
    bits = x.view(kind)
    return torch.where(bits < 0, bits ^ torch.iinfo(kind).max, bits)


def topk(x: Tensor, k: int, *, by_value: bool) -> Tensor:
    """Return the indices of the ``k`` largest per row, int64; equal values go to the smaller index.

    Parameters
    ----------
    x : Tensor
        ``[rows, n]``.
    k : int
        How many.
    by_value : bool
        Slots in descending order of value (generation 3.8) instead of ascending index (up to 3.6).
    """
    import torch

    indices = torch.argsort(sort_key(x), dim=1, descending=True, stable=True)[:, :k]
    return indices if by_value else torch.sort(indices, dim=1).values


def choose(
    logits: Tensor, n_expts_act: int, sm_first: bool, expt_indx: Tensor | None = None, *, by_value: bool = False
) -> tuple[Tensor, Tensor]:
    """Return gate weights, in the logits' dtype, and expert ids of each token's slots; parameters as for ``route``."""
    import torch

    scores = torch.softmax(logits, dim=-1) if sm_first else logits
    indices = topk(scores, n_expts_act, by_value=by_value) if expt_indx is None else expt_indx.to(torch.int64)
    limit = logits.shape[1] - 1
    values = torch.gather(scores, 1, indices.clamp(0, limit)) if limit >= 0 else scores[:, :0]
    if not sm_first:
        values = torch.softmax(values.float(), dim=-1).to(scores.dtype)
    return values, indices


def compact(values: Tensor, indices: Tensor, cutoff: int) -> tuple[Tensor, Tensor]:
    """Keep the slots whose expert is below ``cutoff``, moved to the front of their row; the others become -1."""
    import torch

    drop = indices >= cutoff
    order = torch.argsort(drop.to(torch.int8), dim=1, stable=True)
    kept = torch.where(drop, -1, indices)
    return torch.gather(values, 1, order), torch.gather(kept, 1, order)


def _max_blocks(n_rows: int, n_experts: int) -> int:
    return n_rows if n_rows <= n_experts else n_experts - 1 - ((n_experts - n_rows - 1) // 16)


def routing_tensors(values: Tensor, indices: Tensor, n_experts: int) -> RoutingTensors:
    """Sort slots by expert, tokens ascending inside an expert, and make the block maps.

    Parameters
    ----------
    values : Tensor
        Gate weights ``[n_tokens, k]``.
    indices : Tensor
        Expert ids ``[n_tokens, k]``, any integer dtype; -1 is nobody's.
    n_experts : int
        Experts.
    """
    import torch

    device, (_, k) = indices.device, indices.shape
    flat = indices.reshape(-1).to(torch.int64)
    n = flat.numel()
    key = torch.where(flat < 0, n_experts, flat)
    order = torch.argsort(key, stable=True)
    counts = torch.zeros(n_experts + 1, dtype=torch.int64, device=device).scatter_add_(0, key, torch.ones_like(key))
    hist = counts[:n_experts]
    position = torch.arange(n, device=device)
    source = torch.where(position < hist.sum(), order, -1)
    inverse = torch.empty_like(order).scatter_(0, order, position)
    destination = torch.where(flat < 0, -1, inverse)
    gates = torch.where(source >= 0, values.reshape(-1)[source.clamp_min(0)], 0) if n else values.reshape(-1)
    sizes = (16, 32, 64, 128, 256) if torch.version.hip else (16, 32, 64, 128)
    zero = torch.zeros(1, dtype=torch.int64, device=device)
    block = torch.arange(_max_blocks(n, n_experts), device=device)
    offsets, schedules = [], []
    for size in sizes:
        starts = torch.cat((zero, torch.cumsum((hist + size - 1) // size, 0)))
        expert = torch.searchsorted(starts[1:], block, right=True).clamp_max(n_experts - 1)
        schedules.append(torch.where(block < starts[-1], ((block - starts[expert]) << 16) + expert, -1))
        offsets.append(starts)
    as_int = torch.int32
    return RoutingTensors(
        gates,
        hist.to(as_int),
        source.to(as_int),
        destination.to(as_int),
        torch.cat((zero, torch.cumsum(hist, 0))).to(as_int),
        torch.stack(offsets).to(as_int),
        torch.stack(schedules).to(as_int),
        sizes,
        n_experts,
        k,
    )


def mask_rows(indices: Tensor, n_rows: int | Tensor | None) -> Tensor:
    """Turn the ids of rows from ``n_rows`` on into -1."""
    import torch

    if n_rows is None:
        return indices
    row = torch.arange(indices.shape[0], device=indices.device)
    limit = n_rows.reshape(()) if isinstance(n_rows, torch.Tensor) else n_rows
    return torch.where((row < limit).unsqueeze(1), indices, -1)


def route(
    logits: Tensor,
    n_expts_act: int,
    sm_first: bool = False,
    expt_indx: Tensor | None = None,
    simulated_ep: int = 1,
    n_rows: int | Tensor | None = None,
    *,
    by_value: bool = False,
) -> RoutingTensors:
    """Route tokens to experts; parameters as for ``fi_compat.moe.routing``.

    Parameters
    ----------
    by_value : bool
        A token's slots in descending order of gate value (generation 3.8) instead of ascending expert id.
    """
    values, indices = choose(logits, n_expts_act, sm_first, expt_indx, by_value=by_value)
    indices = mask_rows(indices, n_rows)
    n_experts = logits.shape[1] // simulated_ep
    if simulated_ep > 1:
        values, indices = compact(values, indices, n_experts)
    return routing_tensors(values, indices, n_experts)
