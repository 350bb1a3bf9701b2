"""The base of a log-sum-exp, said one way."""

from __future__ import annotations

from typing import Any

from ._unset import UNSET

__all__ = ["base"]


def base(lse_base: str, return_lse_base: Any = UNSET) -> str:
    """Return "base2" or "basee" from ``lse_base`` and 0.7.1's name for it.

    Raises
    ------
    ValueError
        It is neither, or the two contradict each other.
    """
    found = lse_base if return_lse_base is UNSET else return_lse_base
    if found not in {"base2", "basee"}:
        # None is upstream's "whatever the kernel writes", which is what differs between kernels.
        raise ValueError(f"lse_base: found {found!r}, needed 'base2' or 'basee'")
    if return_lse_base is not UNSET and lse_base not in {"base2", return_lse_base}:
        raise ValueError(
            f"lse_base: found lse_base={lse_base!r} and return_lse_base={return_lse_base!r}, needed one: leave one of them out"
        )
    return str(found)
