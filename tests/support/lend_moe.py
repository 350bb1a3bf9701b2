"""The fused MoE launches, recorded: what reaches them is kept by name, and plausible tensors come back."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

#: Rows of the permuted buffers that the recorder makes up.
PERMUTED = 16


class MoeRecorder:
    """Stands for a compiled MoE module: records each launch, and answers as the compiled function does."""

    def __init__(self, lent: Any) -> None:
        self._lent = lent

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def launch(*args: Any, **kwargs: Any) -> Any:
            if name == "init":
                self._lent.launches.append((name, args))
                return self
            if "tactic" in name or "config" in name:
                return 0 if "num" in name or "count" in name else []
            self._lent.launches.append((name, args))
            return self._lent.answer(args)

        return launch


def lend_moe(monkeypatch: pytest.MonkeyPatch, lent: Any) -> Any:
    """Replace the fused MoE launches of the lent device by a recorder."""
    import torch
    from flashinfer.fused_moe import core

    def answer(args: tuple[Any, ...]) -> list[torch.Tensor]:
        # What the deferred functions return: rows, weights, where each slot's row is, and the first GEMM's output.
        logits = next((a for a in args if isinstance(a, torch.Tensor) and a.dtype in {torch.float32, torch.bfloat16} and a.ndim == 2), None)
        dtype = torch.bfloat16 if logits is None else logits.dtype
        return [
            torch.zeros(PERMUTED, 8, dtype=torch.bfloat16),
            torch.full((4, 2), 0.5, dtype=dtype),
            torch.arange(8, dtype=torch.int32),
            torch.full((PERMUTED, 4), 3.0, dtype=torch.bfloat16),
        ]

    lent.answer = answer
    # From 0.6.16 on cutlass_fused_moe switches to the device of its input.
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(core, "setup_cubin_loader", lambda *a, **k: None)
    spec = SimpleNamespace(build_and_load=lambda *a, **k: MoeRecorder(lent), get_library_path=lambda: "none", get_library_paths=list)
    for name in dir(core):
        # Making the trtllm-gen module would fetch lists of cubins.
        if name.startswith("gen_") and name.endswith("_module"):
            monkeypatch.setattr(core, name, lambda *a, **k: spec)
    for name in ("get_compute_capability", "device_support_pdl"):
        if hasattr(core, name):
            monkeypatch.setattr(core, name, (lambda d: lent.capability) if "capability" in name else (lambda d: False))
    for name in dir(core):
        if hasattr(getattr(core, name), "cache_clear"):
            getattr(core, name).cache_clear()
    return SimpleNamespace(core=core)
