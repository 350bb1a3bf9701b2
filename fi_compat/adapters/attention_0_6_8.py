"""The private planner of FlashInfer 0.6.8 to 0.6.15.post1: 19 arguments."""

from __future__ import annotations

from fi_compat._upstream import unsupported

__all__ = ["planner_tail"]


def planner_tail(kind: str, q_len: int, uniform_q_len: int, fixed_split_size: int, disable_split_kv: bool) -> tuple[int | bool, ...]:
    """Return ``(fixed_split_size, disable_split_kv, num_colocated_ctas)``."""
    if kind == "prefill" and uniform_q_len:
        raise unsupported("planner_tail", f"uniform_q_len={uniform_q_len}", "flashinfer", ">=0.6.16")
    if kind == "decode" and q_len > 1:
        raise unsupported("planner_tail", f"q_len={q_len}", "flashinfer", ">=0.6.16")
    return (fixed_split_size, disable_split_kv, 0)
