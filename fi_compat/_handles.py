"""Numbers for objects that cannot cross a torch op: prepared weights and precision configs."""

from __future__ import annotations

from typing import Any

__all__ = ["get", "give", "numbers"]

#: Kept for the process: a compiled graph holds the number.
_objects: list[Any] = []


def give(value: Any) -> Any:
    """Give an object a number, once, and return it."""
    if getattr(value, "_fi_compat_handle", None) is None:
        value._fi_compat_handle = len(_objects)  # noqa: SLF001 - our own mark on upstream's object
        _objects.append(value)
    return value


def get(handle: int) -> Any:
    """Return the object of a number."""
    return _objects[handle]


def numbers(*values: Any) -> tuple[int, ...]:
    """Return the numbers of objects; Dynamo reads the attribute as a constant."""
    return tuple([value._fi_compat_handle for value in values])  # noqa: SLF001 - our own mark
