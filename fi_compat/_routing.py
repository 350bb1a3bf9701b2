"""The objects that ``routing`` returns where upstream has none (generation 3.8, and the reference backend)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

__all__ = ["GatherIndx", "RaggedView", "Routing", "RoutingData", "RoutingTensors", "ScatterIndx"]


class GatherIndx:
    """Indices of ``Y = X[src_indx // n_expts_act, :]``; fields as in generation 3.5.1.

    Attributes
    ----------
    src_indx : Tensor
        int32 ``[n_tokens * n_expts_act]``: flat slot of each row in expert order; -1 past the last row.
    dst_indx : Tensor
        int32, its inverse: row in expert order of each flat slot.
    """

    __slots__ = ("_rows", "dst_indx", "src_indx")

    def __init__(self, src_indx: Tensor, dst_indx: Tensor) -> None:
        self.src_indx = src_indx
        self.dst_indx = dst_indx
        self._rows: Tensor | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(src_indx={self.src_indx!r}, dst_indx={self.dst_indx!r})"

    def rows(self, n_expts_act: int) -> Tensor:
        """Return ``src_indx // n_expts_act``, the token of each row; computed once, -1 stays -1."""
        if self._rows is None:
            import torch

            # Rounding towards zero keeps -1 at 0 for n_expts_act > 1; floor keeps it at -1.
            self._rows = torch.div(self.src_indx, n_expts_act, rounding_mode="floor").to(torch.int32)
        return self._rows


class ScatterIndx:
    """Indices of ``Y[dst_indx, :] = X``; fields as in generation 3.5.1."""

    __slots__ = ("dst_indx", "padded", "src_indx")

    def __init__(self, src_indx: Tensor, dst_indx: Tensor, *, padded: bool = False) -> None:
        self.src_indx = src_indx
        self.dst_indx = dst_indx
        #: Whether some slots may be nobody's (-1): rows past n_rows, experts of another rank.
        self.padded = padded

    def __repr__(self) -> str:
        return f"{type(self).__name__}(src_indx={self.src_indx!r}, dst_indx={self.dst_indx!r})"


class RoutingData:
    """Which tokens go to which experts; fields as in generation 3.5.1.

    Attributes
    ----------
    gate_scal : Tensor
        Gate weights in expert order, dtype of the logits, ``[n_tokens * n_expts_act]``.
    expt_hist : Tensor
        int32 ``[n_expts_tot]``: rows per expert.
    n_expts_tot, n_expts_act : int
        Experts, and experts per token.
    expt_data : object
        Upstream's ragged metadata of the generation; read it through ``ragged()``.
    expected_tokens_per_expt : int, optional
        A hint for upstream's heuristics.
    """

    __slots__ = ("expected_tokens_per_expt", "expt_data", "expt_hist", "gate_scal", "n_expts_act", "n_expts_tot")

    def __init__(
        self,
        gate_scal: Tensor,
        expt_hist: Tensor,
        n_expts_tot: int,
        n_expts_act: int,
        expt_data: Any = None,
        expected_tokens_per_expt: int | None = None,
    ) -> None:
        self.gate_scal = gate_scal
        self.expt_hist = expt_hist
        self.n_expts_tot = n_expts_tot
        self.n_expts_act = n_expts_act
        self.expt_data = expt_data
        self.expected_tokens_per_expt = expected_tokens_per_expt

    def __repr__(self) -> str:
        return f"RoutingData(n_expts_tot={self.n_expts_tot}, n_expts_act={self.n_expts_act}, expt_hist={self.expt_hist!r})"

    def n_blocks(self, n_rows: int, block_m: int) -> int:
        """Return the most blocks of ``block_m`` rows that ``n_rows`` rows can need; generation 3.5.1's formula."""
        if n_rows <= self.n_expts_tot:
            return n_rows
        return -(-max(n_rows - self.n_expts_tot + 1, 0) // block_m) + self.n_expts_tot - 1


class Routing(NamedTuple):
    """What ``routing`` returns: unpacks like generation 3.5.1's tuple."""

    routing_data: Any
    gather_indx: Any
    scatter_indx: Any


class RoutingTensors(NamedTuple):
    """Routing as plain tensors, from which each generation's objects are made.

    ``block_offs`` is int32 ``[n_block_sizes, n_experts + 1]``, ``block_schedule`` int32 ``[n_block_sizes, max_blocks]``:
    expert in the low 16 bits, block in the high, -1 past the last.
    """

    gate_scal: Tensor
    hist: Tensor
    src_indx: Tensor
    dst_indx: Tensor
    slice_offs: Tensor
    block_offs: Tensor
    block_schedule: Tensor
    block_sizes: tuple[int, ...]
    n_experts: int
    n_expts_act: int


class RaggedView:
    """The ragged metadata of a routing under one set of names.

    Attributes
    ----------
    slice_sizes : Tensor
        int32 ``[n_experts]``: rows per expert.
    slice_offs : Tensor
        int32 ``[n_experts + 1]``: first row of each expert.
    """

    __slots__ = ("block_offs", "block_schedule", "slice_offs", "slice_sizes")

    def __init__(
        self, slice_sizes: Tensor, slice_offs: Tensor, block_offs: Callable[[int], Tensor], block_schedule: Callable[[int], Tensor]
    ) -> None:
        self.slice_sizes = slice_sizes
        self.slice_offs = slice_offs
        self.block_offs = block_offs
        self.block_schedule = block_schedule
