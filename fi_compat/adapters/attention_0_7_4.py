"""The private planner of FlashInfer 0.7.4 and newer: 21 arguments, the last of which says that the query length is fixed."""

from __future__ import annotations

__all__ = ["planner_tail"]


def planner_tail(kind: str, q_len: int, uniform_q_len: int, fixed_split_size: int, disable_split_kv: bool) -> tuple[int | bool, ...]:
    """Return what 0.6.16 takes and whether the uniform query length is fixed, which decode says even for one token."""
    decode = kind == "decode"
    return (fixed_split_size, disable_split_kv, 0, q_len if decode else uniform_q_len, decode)
