"""Fixtures shared by all suites."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Put site directories built from nested dicts first on sys.path, the first argument foremost."""
    import sites

    from fi_compat import _bindings

    _bindings.reset()
    for name in ("FI_COMPAT_FLASHINFER_ADAPTER", "FI_COMPAT_TRITON_KERNELS_ADAPTER", "FI_COMPAT_STRICT"):
        monkeypatch.delenv(name, raising=False)
    count = 0

    def make(*trees: dict[str, Any]) -> Path:
        nonlocal count
        roots = []
        for tree in trees:
            count += 1
            roots.append(sites.build(tmp_path / f"site{count}", tree))
        for root in reversed(roots):
            monkeypatch.syspath_prepend(str(root))
        importlib.invalidate_caches()
        _bindings.reset()
        return roots[0]

    before = set(sys.modules)
    yield make
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in {"flashinfer", "triton_kernels", "vllm"}:
            del sys.modules[name]
    _bindings.reset()
