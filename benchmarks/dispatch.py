"""What a call costs: ``python benchmarks/dispatch.py OUT.json``, the release under test first on sys.path.

Four ways of the same call, interleaved in one process: upstream's function called directly; fi_compat's; a lazy
``*args, **kwargs`` wrapper with a cache, and an ``inspect.signature`` probe per call, as engines write them today. Upstream's
own Python runs up to the launch, which does nothing. Times differ between machines; read ratios and differences alone.
"""

from __future__ import annotations

import functools
import gc
import importlib
import inspect
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]
os.environ.setdefault("FLASHINFER_CUDA_ARCH_LIST", "10.0a")
ROUNDS, CALLS = 400, 50


@functools.cache
def resolved(module: str, name: str):
    """Return an attribute, looked up once: what a lazy wrapper of an engine does."""
    return getattr(importlib.import_module(module), name)


def lazy(module: str, name: str):
    """Return the wrapper that engines put around an optional import."""

    def wrapper(*args, **kwargs):
        return resolved(module, name)(*args, **kwargs)

    return wrapper


def probing(function):
    """Return a wrapper that drops what the installed signature lacks, asked at each call."""

    def wrapper(*args, **kwargs):
        known = inspect.signature(function).parameters
        return function(*args, **{k: v for k, v in kwargs.items() if k in known})

    return wrapper


def seconds(call) -> float:
    """Return the time of CALLS calls."""
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return time.perf_counter() - start


def interleaved(ways: dict) -> dict[str, float]:
    """Return microseconds per call of each way: the median over rounds that visit the ways in turn."""
    taken = {name: [] for name in ways}
    for call in ways.values():
        seconds(call)
    gc.disable()
    for _ in range(ROUNDS):
        for name, call in ways.items():
            taken[name].append(seconds(call))
    gc.enable()
    return {name: statistics.median(values) / CALLS * 1e6 for name, values in taken.items()}


def imports() -> dict[str, float]:
    """Return milliseconds of ``import fi_compat`` over ``pass`` in fresh interpreters, interleaved."""
    taken: dict[str, list[float]] = {"pass": [], "import fi_compat": []}
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    for _ in range(21):
        for code, values in taken.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], env=env, check=True)
            values.append(time.perf_counter() - start)
    return {code: statistics.median(values) * 1e3 for code, values in taken.items()}


def main() -> None:
    import flashinfer
    import pytest
    import torch
    from lend import lend

    from fi_compat import quantization

    patch = pytest.MonkeyPatch()
    lend(patch).launches = deque(maxlen=0)  # keeps nothing

    x = torch.randn(4, 64).bfloat16()
    scale = torch.ones(1)
    sf = torch.zeros(128, 4, dtype=torch.uint8)
    backend = {"backend": "cuda"} if "backend" in inspect.signature(flashinfer.fp4_quantize).parameters else {}
    cases = {
        # The same choices in each: the default of 0.7.4, "auto", would measure upstream's choice of a backend.
        "fp4_quantize": ("flashinfer", (x, scale), backend, (x, scale)),
        "nvfp4_quantize": ("flashinfer", (x, scale), {"backend": "cuda"}, (x, scale)),
        "mxfp8_quantize": ("flashinfer", (x,), {"backend": "cuda"}, (x,)),
        "block_scale_interleave": ("flashinfer", (sf,), {}, (sf,)),
    }
    rows = {}
    for name, (module, args, kwargs, ours_args) in cases.items():
        native, ours = getattr(flashinfer, name), getattr(quantization, name)
        wrapper, probe = lazy(module, name), probing(native)
        row = interleaved(
            {
                "direct": lambda f=native, a=args, k=kwargs: f(*a, **k),
                "fi_compat": lambda f=ours, a=ours_args: f(*a),
                "lazy wrapper": lambda f=wrapper, a=args, k=kwargs: f(*a, **k),
                "signature probe": lambda f=probe, a=args, k=kwargs: f(*a, **k),
            }
        )
        rows[name] = row
    imported = imports()
    print(f"{'call':24}{'direct us':>10}{'fi_compat':>11}{'over':>8}{'ratio':>7}{'lazy':>7}{'probe':>7}")
    for name, row in rows.items():
        direct = row["direct"]
        print(
            f"{name:24}{direct:10.2f}{row['fi_compat']:11.2f}{row['fi_compat'] - direct:+8.2f}{row['fi_compat'] / direct:7.3f}"
            f"{row['lazy wrapper'] / direct:7.3f}{row['signature probe'] / direct:7.3f}"
        )
    over = imported["import fi_compat"] - imported["pass"]
    print(f"import fi_compat: {over:.1f} ms over `python -c pass` ({imported['pass']:.1f} ms)")
    result = {
        "flashinfer": flashinfer.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs",
        "microseconds": rows,
        "import_milliseconds": imported,
    }
    Path(sys.argv[1]).write_text(json.dumps(result, indent=1, default=str) + "\n")
    patch.undo()


if __name__ == "__main__":
    main()
