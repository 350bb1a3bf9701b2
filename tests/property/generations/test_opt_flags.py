"""Upstream's own choice of blocks and warps under a lent driver for SM90, SM100 and SM120, with and without the patch."""

from __future__ import annotations

import importlib
import inspect
from types import SimpleNamespace

import pytest
import torch

import fi_compat
from fi_compat import _device, moe, patches


class Driver:
    """What the heuristics ask a driver for."""

    def __init__(self, capability: int) -> None:
        self.capability = capability

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> int:
        return 0

    def get_device_interface(self):
        return torch.cuda


@pytest.fixture
def lent(tree, monkeypatch):
    """Lend a driver of a capability to triton and torch; returns a function that chooses flags."""
    if tree.generation == "3.4":
        return None
    import triton

    details = "matmul_details" if tree.generation == "3.8" else "matmul_ogs_details"
    module = importlib.import_module(f"triton_kernels.{details}.opt_flags")

    def choose(capability: int, scale: torch.Tensor, m: int):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: divmod(capability, 10))
        monkeypatch.setattr(
            torch.cuda,
            "get_device_properties",
            lambda device=None: SimpleNamespace(
                multi_processor_count=132, shared_memory_per_block_optin=232448, major=capability // 10, minor=capability % 10
            ),
        )
        monkeypatch.setattr(_device, "capability", lambda index: divmod(capability, 10))
        active = triton.runtime.driver
        monkeypatch.setattr(active, "_active", Driver(capability), raising=False)
        target_info = importlib.import_module("triton.language.target_info")
        monkeypatch.setattr(target_info, "current_target", lambda: Driver(capability).get_current_target(), raising=False)
        bf16, fp4 = torch.bfloat16, importlib.import_module("triton_kernels.tensor").FP4
        if tree.generation == "3.8":
            bf16 = importlib.import_module("triton_kernels.tensor").BF16
        values = {
            "out_dtype": bf16,
            "lhs_dtype": bf16,
            "rhs_dtype": fp4,
            "precision_config": moe.precision_config(weight_scale=scale),
            "batch_size": 1,
            "m": m,
            "n": 512,
            "k": 512,
            "routing_data": None,
            "ragged_metadata": None,
            "can_use_persistent_tma": False,
            "can_use_fused_scatter": False,
            "can_use_split_k": False,
            "epilogue_effective_itemsize": None,
            "x_transpose": False,
            "has_y_acc_in": False,
            "block_k": None,
            "intermediate_out_dtype": None,
        }
        parameters = inspect.signature(module.make_opt_flags).parameters
        needed = {n: values[n] for n, p in parameters.items() if n in values or p.default is inspect.Parameter.empty}
        return module.make_opt_flags(**needed)

    return choose


STRIDED = torch.zeros(1, 16, 512, dtype=torch.uint8)


@pytest.mark.parametrize("capability", [90, 120])
def test_the_warps_of_a_small_mxfp4_matmul(tree, lent, capability) -> None:
    """Facts 4: at m=16 with a strided scale 3.5.1 has 4 warps, 3.6 and 3.8 have 1; patched, SM120 has 4 and SM90 is unchanged."""
    if lent is None:
        return
    naive = lent(capability, STRIDED, 16)
    assert naive.num_warps == (4 if tree.generation == "3.5.1" else 1)
    try:
        said = fi_compat.patch_sm120_min_warps()
        assert said == ("not-needed" if tree.generation == "3.5.1" else "applied")
        patched = lent(capability, STRIDED, 16)
        assert patched.num_warps == (4 if capability == 120 or tree.generation == "3.5.1" else 1)
        assert (patched.block_m, patched.block_k) == (naive.block_m, naive.block_k), "nothing else changes"
    finally:
        patches.unpatch_sm120_min_warps()


def test_sm100_is_unchanged_by_the_patch(tree, lent) -> None:
    """Persistent kernels and native MX formats: the floor does not apply."""
    if lent is None:
        return
    naive = lent(100, STRIDED, 16)
    try:
        fi_compat.patch_sm120_min_warps()
        assert lent(100, STRIDED, 16) == naive
    finally:
        patches.unpatch_sm120_min_warps()
