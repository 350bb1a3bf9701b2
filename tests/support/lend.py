"""A device lent to CPU tensors: upstream's own Python runs up to the launch, which is recorded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest


class Recorder:
    """Stands for a compiled module: records each launch and writes nothing."""

    def __init__(self, launches: list[tuple[str, tuple[Any, ...]]]) -> None:
        self._launches = launches

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def launch(*args: Any) -> None:
            self._launches.append((name, args))

        return launch


def lend(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int] = (10, 0)) -> Any:
    """Lend a device of that compute capability and replace the innermost launches by a recorder.

    Upstream's own Python runs up to the call into the compiled module. What was bound before is forgotten.
    """
    import flashinfer
    import flashinfer.quantization.fp4_quantization as fp4
    import flashinfer.quantization.fp8_quantization as fp8
    import torch
    from flashinfer.jit import core

    from fi_compat import _bindings, _device

    lent = SimpleNamespace(launches=[], capability=capability, moved=[], native=flashinfer)
    monkeypatch.setattr(core.JitSpec, "build_and_load", lambda self, *a, **k: Recorder(lent.launches))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: lent.capability)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(
        torch.cuda,
        "get_device_properties",
        lambda device=None: SimpleNamespace(major=lent.capability[0], minor=lent.capability[1], multi_processor_count=148),
    )
    for module in (fp4, fp8):
        for name, value in {
            "get_compute_capability": lambda device: lent.capability,
            "device_support_pdl": lambda device: False,
        }.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)
    # torch.version.cuda is None here; SM12x modules ask for it.
    monkeypatch.setattr(torch.version, "cuda", "13.0")

    def cuda(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        lent.moved.append(self)
        return self

    monkeypatch.setattr(torch.Tensor, "cuda", cuda)
    monkeypatch.setattr(_device, "capability", lambda index: lent.capability)
    for name in dir(fp4):
        if hasattr(getattr(fp4, name), "cache_clear"):
            getattr(fp4, name).cache_clear()
    _bindings.reset()
    return lent
