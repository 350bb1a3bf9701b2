"""The private planner's trailing arguments, which some engines build themselves."""

from __future__ import annotations

from typing import Literal

from . import _bindings

__all__ = ["planner_tail"]


def planner_tail(
    *,
    kind: Literal["prefill", "decode"],
    q_len: int = 1,
    uniform_q_len: int = 0,
    fixed_split_size: int | None = None,
    disable_split_kv: bool = False,
) -> tuple[int | bool, ...]:
    """Return what follows ``window_left`` in ``wrapper._cached_module.plan(...)`` of the fa2 backend.

    Prefer the public ``wrapper.plan(...)``, which has not changed: this is for engines that call the planner themselves,
    and breaks with a ``TypeError`` of TVM-FFI when the number of arguments is another release's.

    Parameters
    ----------
    kind : {"prefill", "decode"}
        Which wrapper's planner: paged or ragged prefill, or decode on tensor cores.
    q_len : int
        Query tokens per request of a decode (0.6.16 and newer where it is above 1).
    uniform_q_len : int
        Query tokens per request of a prefill where all have the same number, 0 where not (0.6.16 and newer).
    fixed_split_size : int, optional
        Pages per split of the KV cache; None lets the planner choose.
    disable_split_kv : bool
        Never split.

    Returns
    -------
    tuple of int and bool
        3 values up to 0.6.15.post1 (19 arguments in all), 4 from 0.6.16 on (20), 5 at 0.7.4 (21).

    Raises
    ------
    ValueError
        ``kind`` is neither, or a length is negative.
    UnsupportedFeatureError
        A query length that the installed release's planner has no argument for.

    Notes
    -----
    ``flashinfer.prefill``, ``flashinfer.decode``: the argument lists of their own ``plan`` methods. The fa3 planner has 16
    arguments, and MLA's 9; neither ends like this.

    Examples
    --------
    >>> args = [*leading, window_left, *planner_tail(kind="decode")]  # doctest: +SKIP
    >>> wrapper._plan_info = wrapper._cached_module.plan(*args)  # doctest: +SKIP
    """
    if kind not in {"prefill", "decode"}:
        raise ValueError(f"planner_tail: found kind={kind!r}, needed 'prefill' or 'decode'")
    if q_len < 1 or uniform_q_len < 0:
        raise ValueError(f"planner_tail: found q_len={q_len}, uniform_q_len={uniform_q_len}, needed at least 1 and 0")
    split = -1 if fixed_split_size is None else fixed_split_size
    return _bindings.flashinfer.attention.planner_tail(kind, q_len, uniform_q_len, split, disable_split_kv)
