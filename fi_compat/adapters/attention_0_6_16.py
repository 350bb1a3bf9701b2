"""The private planner of FlashInfer 0.6.16 to 0.7.2.post1: 20 arguments, a uniform query length last."""

from __future__ import annotations

__all__ = ["planner_tail"]


def planner_tail(kind: str, q_len: int, uniform_q_len: int, fixed_split_size: int, disable_split_kv: bool) -> tuple[int | bool, ...]:
    """Return what 0.6.8 takes and the uniform query length, 0 where there is none; decode says 0 for one token."""
    uniform = uniform_q_len if kind == "prefill" else (q_len if q_len > 1 else 0)
    return (fixed_split_size, disable_split_kv, 0, uniform)
