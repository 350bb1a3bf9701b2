"""Compute capability of a CUDA device, looked up once per device index."""

from __future__ import annotations

from typing import Final

from .errors import ConfigurationError, UnsupportedDeviceError

__all__ = ["BLACKWELL", "capability", "check_fork", "forked", "refuse", "require_blackwell", "reset"]

#: Indices of devices of compute capability 10.0 and newer, filled by ``require_blackwell``.
BLACKWELL: Final[set[int]] = set()

_capabilities: dict[int, tuple[int, int]] = {}
#: True in the child of a fork whose parent had initialised CUDA.
forked = False
#: Set before each fork: whether this process had initialised CUDA by then.
initialised_at_fork = False


def capability(index: int) -> tuple[int, int]:
    """Return ``(major, minor)`` of a CUDA device, ``(0, 0)`` for the CPU; the only thing that tests may replace.

    Parameters
    ----------
    index : int
        CUDA device index, -1 for the CPU, as ``Tensor.get_device()`` says it.

    Raises
    ------
    ConfigurationError
        CUDA was initialised before this process was forked.
    """
    if index < 0:
        return (0, 0)
    found = _capabilities.get(index)
    if found is None:
        check_fork()
        import torch

        found = _capabilities[index] = torch.cuda.get_device_capability(index)
    return found


def check_fork() -> None:
    """Raise when CUDA was initialised before this process was forked: every CUDA call would fail or hang."""
    if forked:
        raise ConfigurationError(
            "CUDA was initialised in the parent before this process was forked: found a forked child, needed a spawned one or a parent that"
            " leaves CUDA alone: use the spawn start method, and in the parent only active(), has() and check_version(), then prepare() in"
            " each worker"
        )


#: What to do instead, where a function has a backend that runs anywhere.
_REFERENCE: Final = "pass backend='reference' for plain torch"


def refuse(function: str, index: int, remedy: str = _REFERENCE) -> None:
    """Raise ``UnsupportedDeviceError`` for a device that the kernel cannot run on."""
    major, minor = capability(index)
    if major == 0:
        raise UnsupportedDeviceError(
            f"{function}: found a CPU tensor, needed a CUDA tensor on compute capability 10.0 or newer: move it, or {remedy}"
        )
    why = "FlashInfer up to 0.7.2.post1 would return uninitialised memory there; " if remedy is _REFERENCE else ""
    raise UnsupportedDeviceError(
        f"{function}: found compute capability {major}.{minor} (cuda:{index}), needed 10.0 or newer: {why}{remedy}"
    )


def require_blackwell(function: str, index: int, remedy: str = _REFERENCE) -> None:
    """Let a device of compute capability 10.0 and newer pass, and remember it; refuse any other.

    Callers ask ``index in BLACKWELL`` first, so that a resolved call pays for one set look-up.
    """
    if capability(index) < (10, 0):
        refuse(function, index, remedy)
    BLACKWELL.add(index)


def reset() -> None:
    """Forget what was looked up; for tests, and for the child of a fork."""
    BLACKWELL.clear()
    _capabilities.clear()
