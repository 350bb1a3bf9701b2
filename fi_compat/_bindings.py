"""The resolved state of the process, in plain module globals: what the public functions call through.

Dynamo traces through ``functools.cache`` into importlib, and guards on module attributes cheaply; so the adapters are
attributes of this module, replaced once when an upstream is resolved.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from . import _device

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._protocols import FlashInferAdapter, TritonKernelsAdapter

__all__ = ["flashinfer", "float32", "is_compiling", "ops", "reset", "resolve", "triton_kernels"]

_lock = threading.RLock()


class _Pending:
    """Stands for an adapter until the first attribute is asked for."""

    __slots__ = ("_upstream",)

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream

    def __getattr__(self, name: str) -> Any:
        return getattr(resolve(self._upstream), name)


flashinfer: FlashInferAdapter = _Pending("flashinfer")
triton_kernels: TritonKernelsAdapter = _Pending("triton_kernels")
#: ``torch.float32`` once an adapter is resolved; compared by identity in the call path.
float32: Any = None
#: ``torch.compiler.is_compiling`` once ``prepare()`` has registered ops; ``bool()`` is False and costs no frame.
is_compiling: Callable[[], bool] = bool
#: The opaque ops, ``torch.ops.fi_compat``, once registered.
ops: Any = None


def resolve(upstream: str) -> Any:
    """Import the adapter module for an upstream and keep it; thread-safe, and a failure is not kept."""
    global flashinfer, triton_kernels, float32
    from . import _resolver
    from ._upstream import import_upstream

    _device.check_fork()
    with _lock:
        current = globals()[upstream]
        if not isinstance(current, _Pending):
            return current
        selection = _resolver.active(upstream)
        torch = import_upstream("torch")
        module: Any = importlib.import_module(f".adapters.{selection.adapter}", __package__)
        float32 = torch.float32
        if upstream == "flashinfer":
            flashinfer = module
        else:
            triton_kernels = module
    return module


def reset() -> None:
    """Forget what was resolved and bound; for tests, and for the child of a fork."""
    global flashinfer, triton_kernels
    from . import _resolver, _upstream

    flashinfer = _Pending("flashinfer")
    triton_kernels = _Pending("triton_kernels")
    _upstream.reset()
    _resolver.reset()
    _device.reset()


def _before_fork() -> None:
    """Remember whether CUDA is initialised: the child's torch says no, whatever the parent did."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    _device.initialised_at_fork = bool(cuda is not None and cuda.is_initialized())


def _after_fork_in_child() -> None:
    _device.forked = _device.forked or _device.initialised_at_fork
    if "fi_compat._upstream" in sys.modules:
        reset()


os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
