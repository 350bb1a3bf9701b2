"""Triton's CPU interpreter: whether a kernel was imported under it, and the one patch that old trees need there."""

from __future__ import annotations

from typing import Any

from ._upstream import import_upstream

__all__ = ["is_interpreted", "let_interpreter_unwrap"]


def is_interpreted(module: str, kernel: str) -> bool:
    """Say whether a kernel runs on the CPU: ``TRITON_INTERPRET=1`` was set when it was decorated."""
    return type(getattr(import_upstream(module), kernel)).__name__ == "InterpretedFunction"


def let_interpreter_unwrap() -> None:
    """Teach Triton's interpreter to unwrap ``triton_kernels.tensor.Tensor``, which trees up to 3.6 hand to kernels.

    On a GPU the launcher asks such an object for ``data_ptr()``; the interpreter asks for ``untyped_storage()``, which it
    lacks. Used by the tests and the demo; the library itself never patches triton.
    """
    interpreter = import_upstream("triton.runtime.interpreter")
    inner = interpreter._unwrap_tensor  # noqa: SLF001 - there is no public hook
    if getattr(inner, "_fi_compat", False):
        return

    def unwrap(value: Any) -> Any:
        storage = getattr(value, "storage", None)
        data = getattr(storage, "data", None)
        if type(value).__module__.startswith("triton_kernels") and hasattr(data, "untyped_storage"):
            value = data
        return inner(value)

    unwrap._fi_compat = True  # type: ignore[attr-defined]  # noqa: SLF001 - our own mark
    interpreter._unwrap_tensor = unwrap  # noqa: SLF001 - see above
