"""The SM120 min-warps patch on one published tree, with upstream's own heuristics running."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
import torch

import fi_compat
from fi_compat import _device, patches


@pytest.fixture
def nvidia(tree):
    """Return the module object that upstream's opt_flags calls, restored afterwards."""
    import importlib

    details = "matmul_details" if tree.generation == "3.8" else "matmul_ogs_details"
    try:
        opt_flags = importlib.import_module(f"triton_kernels.{details}.opt_flags")
        module = opt_flags.opt_flags_nvidia
    except (ImportError, AttributeError):
        # 3.4 does not import on this triton past its routing; its heuristics alone do.
        module = importlib.import_module(f"triton_kernels.{details}.opt_flags_details.opt_flags_nvidia")
    original = module.compute_num_warps
    yield module
    module.compute_num_warps = original


def needed(tree) -> bool:
    return tree.generation in {"3.6", "3.8"}


def config(tree, scale):
    """Return a precision config of the generation with a weight scale."""
    return SimpleNamespace(**{"b_mx_scale" if tree.generation == "3.8" else "weight_scale": scale})


def warps(module, tree, *, persistent=False, scale=None, constraints=None, block=(16, 128)) -> int:
    """Call upstream's function as opt_flags does: positionally."""
    arguments = [*block]
    if needed(tree):
        arguments.append(persistent)
    arguments.append(config(tree, scale))
    if tree.generation == "3.8":
        arguments.append(constraints or {})
    return module.compute_num_warps(*arguments)


STRIDED = torch.zeros(2, 4, dtype=torch.uint8)


def test_b78_the_floor_is_four_warps_for_a_strided_scale(tree, nvidia) -> None:
    """3.6 and 3.8 use 1 warp at 16x128 without it; 3.4 and 3.5.1 have a floor of 4 and need nothing."""
    before = warps(nvidia, tree, scale=STRIDED)
    assert before == (1 if needed(tree) else 4)
    assert fi_compat.patch_sm120_min_warps(force=True) == ("applied" if needed(tree) else "not-needed")
    assert warps(nvidia, tree, scale=STRIDED) == 4
    patches.unpatch_sm120_min_warps()
    assert warps(nvidia, tree, scale=STRIDED) == before


def test_it_is_idempotent_and_restorable(tree, nvidia) -> None:
    """Twice applied is applied once; after unpatch upstream's own function is back."""
    original = nvidia.compute_num_warps
    first = fi_compat.patch_sm120_min_warps(force=True)
    assert fi_compat.patch_sm120_min_warps() == ("already-applied" if needed(tree) else "not-needed")
    patches.unpatch_sm120_min_warps()
    patches.unpatch_sm120_min_warps()
    assert nvidia.compute_num_warps is original
    assert first == ("applied" if needed(tree) else "not-needed")


def test_persistent_dense_and_large_blocks_are_unchanged(tree, nvidia) -> None:
    """Only non-persistent matmuls with a strided MXFP4 scale are touched."""
    cases = [{"scale": None}, {"scale": STRIDED, "persistent": True}, {"scale": STRIDED, "block": (128, 256)}]
    before = [warps(nvidia, tree, **c) for c in cases]
    fi_compat.patch_sm120_min_warps(force=True)
    assert [warps(nvidia, tree, **c) for c in cases] == before


def test_a_num_warps_constraint_is_left_alone(tree, nvidia) -> None:
    """opt_flags asserts equality with it on 3.8."""
    if tree.generation != "3.8":
        return
    fi_compat.patch_sm120_min_warps(force=True)
    assert warps(nvidia, tree, scale=STRIDED, constraints={"num_warps": 2}) == 2


@pytest.mark.parametrize("capability", [(9, 0), (10, 0), (12, 0), (12, 1)])
def test_without_force_it_applies_on_sm12x_only(tree, nvidia, monkeypatch, capability) -> None:
    """Safe to call unconditionally."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(_device, "capability", lambda index: capability)
    fi_compat.patch_sm120_min_warps()
    expected = 4 if capability[0] == 12 or not needed(tree) else 1
    assert warps(nvidia, tree, scale=STRIDED) == expected


def test_on_a_cpu_it_changes_nothing(tree, nvidia) -> None:
    """No CUDA, no SM12x."""
    fi_compat.patch_sm120_min_warps()
    assert warps(nvidia, tree, scale=STRIDED) == (1 if needed(tree) else 4)


def test_it_coexists_with_an_engines_own_patch(tree, nvidia) -> None:
    """sglang marks its wrapper, and looks for the mark."""
    if not needed(tree):
        return

    def engine(*args):
        return 4

    engine._sglang_sm120_mxfp4_patch = True
    original, nvidia.compute_num_warps = nvidia.compute_num_warps, engine
    assert fi_compat.patch_sm120_min_warps(force=True) == "already-applied"
    patches.unpatch_sm120_min_warps()
    assert nvidia.compute_num_warps is engine
    nvidia.compute_num_warps = original
    fi_compat.patch_sm120_min_warps(force=True)
    assert nvidia.compute_num_warps._sglang_sm120_mxfp4_patch is True
    ours = nvidia.compute_num_warps
    nvidia.compute_num_warps = lambda *a: ours(*a)
    patches.unpatch_sm120_min_warps()
    assert warps(nvidia, tree, scale=STRIDED) == 4, "an engine's wrapper around ours is not ours to remove"


def test_a_swizzled_scale_is_unchanged(tree, nvidia) -> None:
    """Hopper's and Blackwell's scale layouts choose their own warps."""
    if not needed(tree):
        return
    from triton_kernels.tensor_details import layout

    scale_layout = layout.BlackwellMXScaleLayout if tree.generation == "3.6" else layout.BlackwellMXScaleLayout()
    tensor = SimpleNamespace(storage=SimpleNamespace(layout=scale_layout))
    strided = SimpleNamespace(storage=SimpleNamespace(layout=None))
    from fi_compat import _sm120

    assert not _sm120._is_strided_mx_scale(config(tree, tensor))
    assert _sm120._is_strided_mx_scale(config(tree, strided))
    kind = layout.StridedLayout
    for given in (kind, kind((2, 4)) if tree.generation == "3.6" else kind(-1)):
        assert _sm120._is_strided_mx_scale(config(tree, SimpleNamespace(storage=SimpleNamespace(layout=given))))


def test_sixteen_threads_patch_once(tree, nvidia) -> None:
    """One wrapper, not sixteen."""
    original = nvidia.compute_num_warps
    threads = [threading.Thread(target=fi_compat.patch_sm120_min_warps, kwargs={"force": True}) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    patches.unpatch_sm120_min_warps()
    assert nvidia.compute_num_warps is original


def test_upstreams_own_call_goes_through_the_patch(tree, nvidia, monkeypatch) -> None:
    """opt_flags calls the attribute of the module, positionally."""
    import importlib
    import inspect

    details = "matmul_details" if tree.generation == "3.8" else "matmul_ogs_details"
    source = inspect.getsource(importlib.import_module(f"triton_kernels.{details}.opt_flags"))
    assert "opt_flags_nvidia.compute_num_warps(" in source
