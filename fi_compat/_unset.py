"""The sentinel that means "let upstream decide"."""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal

__all__ = ["UNSET", "Unset"]


class _UnsetType(Enum):
    """One member, so that type checkers can narrow ``x is UNSET``."""

    UNSET = "UNSET"

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False


Unset = Literal[_UnsetType.UNSET]
UNSET: Final = _UnsetType.UNSET
