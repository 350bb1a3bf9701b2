"""What a resolved call costs, on one published release: frames, modules and lookups, never seconds."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from pathlib import Path

import lend_moe
import pytest
import torch
from moe_calls import CALLS

import fi_compat
from fi_compat import fused_moe, quantization

OURS = str(Path(fi_compat.__file__).parent)
X = torch.zeros(4, 64, dtype=torch.bfloat16)
SCALE = torch.tensor([3.0])
QUANTIZERS = {
    "fp4_quantize": lambda: quantization.fp4_quantize(X, SCALE),
    "nvfp4_quantize": lambda: quantization.nvfp4_quantize(X, SCALE),
    "mxfp4_quantize": lambda: quantization.mxfp4_quantize(X),
    "mxfp8_quantize": lambda: quantization.mxfp8_quantize(X),
    "block_scale_interleave": lambda: quantization.block_scale_interleave(torch.zeros(128, 4, dtype=torch.uint8)),
}
#: What the call path may not enter, by the file that has it.
FORBIDDEN = ("/inspect.py", "/importlib/", "<frozen importlib", "/logging/", "/threading.py", "/re/", "/contracts/__init__.py")


class Frames:
    """Counts our frames on the stack whenever upstream's code is entered, and notes forbidden ones that we enter."""

    def __init__(self) -> None:
        self.depth = 0
        self.forbidden: list[str] = []
        self.environment = 0

    def __enter__(self):
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _profile(self, frame, event: str, arg) -> None:
        caller = frame.f_back
        if event != "call" or caller is None or not caller.f_code.co_filename.startswith(OURS):
            return
        name = frame.f_code.co_filename
        if any(word in name for word in FORBIDDEN):
            self.forbidden.append(name)
        if name.endswith("os.py"):
            self.environment += 1
        if "/flashinfer/" in name and not name.startswith(OURS):
            depth, above = 0, caller
            while above is not None:
                depth += above.f_code.co_filename.startswith(OURS)
                above = above.f_back
            self.depth = max(self.depth, depth)


@pytest.fixture
def moe(monkeypatch, lent):
    lend_moe.lend_moe(monkeypatch, lent)
    return lent


@pytest.mark.parametrize("name", [*QUANTIZERS, *CALLS])
def test_at_most_two_frames_of_ours_and_nothing_slow(moe, name) -> None:
    """No inspect, import, log, lock or look at the environment once a function is bound."""
    if name in QUANTIZERS:
        call = QUANTIZERS[name]
    else:
        arguments = {**CALLS[name](), "activation_type": fused_moe.ActivationType.Swiglu}

        def call() -> object:
            return getattr(fused_moe, name)(**arguments)

    call()
    call()
    with Frames() as frames:
        call()
    assert 1 <= frames.depth <= 2
    assert not frames.forbidden
    assert frames.environment == 0


@pytest.mark.parametrize("name", QUANTIZERS)
def test_no_allocation_grows(lent, name) -> None:
    """A thousand calls leave what one leaves."""
    call = QUANTIZERS[name]
    for _ in range(100):
        call()
    lent.launches.clear()
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, f"{OURS}/*")])
        for _ in range(1000):
            call()
            lent.launches.clear()
        gc.collect()
        after = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, f"{OURS}/*")])
    finally:
        tracemalloc.stop()
    grown = sum(s.size_diff for s in after.compare_to(before, "filename"))
    assert grown < 4096, grown
