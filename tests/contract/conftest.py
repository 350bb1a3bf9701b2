"""Fixtures for one really published FlashInfer release, first on sys.path of this process."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from lend import lend

# Set before FlashInfer is imported: the architecture to generate modules for (no GPU is asked), and a workspace of our own.
os.environ.setdefault("FLASHINFER_CUDA_ARCH_LIST", "10.0a")
os.environ.setdefault("FLASHINFER_WORKSPACE_BASE", tempfile.mkdtemp(prefix="fi_compat_contract_"))
# 0.6.x compares CUDA's version at import of some modules; the kernels themselves are never built here.
os.environ.setdefault("CUDA_HOME", os.environ.get("CUDA_PATH", "/usr/local/cuda"))

RELEASE = os.environ.get("FI_COMPAT_EXPECT_FLASHINFER", "")


def pytest_report_header() -> str:
    return f"FlashInfer under test: {RELEASE or 'NONE (set FI_COMPAT_EXPECT_FLASHINFER, or run nox -s contract)'}"


@pytest.fixture(scope="session")
def release() -> str:
    """Return the release under test; the run is an error without one."""
    assert RELEASE, "run `nox -s contract`: no release was named"
    return RELEASE


@pytest.fixture(scope="session", autouse=True)
def libcudart() -> None:
    """Lend a libcudart from PyPI: up to 0.6.13 ``flashinfer.comm`` needs one loaded in the process at import."""
    for path in sorted(Path(sysconfig.get_paths()["purelib"]).glob("nvidia/*/lib/libcudart.so.*")):
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


@pytest.fixture
def lent(monkeypatch: pytest.MonkeyPatch, release: str) -> Any:
    """Lend CPU tensors a device of compute capability 10.0 and replace the innermost launches by a recorder."""
    from fi_compat import _bindings

    yield lend(monkeypatch)
    _bindings.reset()


@pytest.fixture
def cute_dsl(monkeypatch: pytest.MonkeyPatch, lent: Any) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Lend the CuTe-DSL kernels, whose compiler is never installed here: recorders under upstream's own module names."""
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
    # Up to 0.6.x flashinfer.cute_dsl itself cannot be imported without the compiler.
    package = ModuleType("flashinfer.cute_dsl")
    package.is_cute_dsl_available = lambda: True  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "flashinfer.cute_dsl", package)

    def fake(module: str, *names: str) -> None:
        lent_module = ModuleType(module)
        for name in names:
            setattr(lent_module, name, functools.partial(lambda called, *a, **k: calls.append((called, a, k)) or (None, None), name))
        lent_module.__getattr__ = lambda name: 0  # type: ignore[method-assign]
        monkeypatch.setitem(sys.modules, module, lent_module)

    fake("flashinfer.quantization.kernels.mxfp8_quantize", "mxfp8_quantize_cute_dsl")
    fake("flashinfer.quantization.kernels.nvfp4_quantize", "nvfp4_quantize_cute_dsl")
    fake("flashinfer.quantization.kernels.mxfp4_quantize", "mxfp4_quantize_cute_dsl")
    return calls


class Locals:
    """Records the parameters of upstream's Python functions as they are called, without replacing them."""

    def __init__(self, *names: str) -> None:
        self._names = set(names)
        self.seen: dict[str, list[dict[str, Any]]] = {name: [] for name in names}

    def __enter__(self):
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _profile(self, frame: Any, event: str, arg: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name in self._names and "/flashinfer/" in code.co_filename and "/fi_compat/" not in code.co_filename:
            count = code.co_argcount + code.co_kwonlyargcount
            self.seen[code.co_name].append({n: frame.f_locals[n] for n in code.co_varnames[:count]})


@pytest.fixture
def parameters_of():
    """Return the recorder of upstream's parameters."""
    return Locals
