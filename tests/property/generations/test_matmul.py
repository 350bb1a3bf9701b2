"""What of the MXFP4 matmul runs on a host without a GPU: layouts' bytes, configs, constraints, refusals, compiled kernels."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import fi_compat
from fi_compat import _bindings, errors, moe, reference
from fi_compat._reference_moe import dequantize_mxfp4, moe_layer, swiglu


def available(tree) -> bool:
    """3.4's matmul does not import on this triton: a typed error that names the pair, which is its test."""
    return tree.generation != "3.4"


@pytest.fixture
def matmul(tree):
    """Return the adapter's matmul module, or None where the tree's own does not import."""
    return _bindings.resolve("triton_kernels").matmul


def test_3_4_on_this_triton_is_refused_with_the_pair(tree) -> None:
    """Facts 2: routing imports and runs, matmul_ogs does not."""
    if available(tree):
        fi_compat.prepare("matmul_ogs", "precision_config", "fused_swiglu", "prepare_mxfp4_weight")
        return
    with pytest.raises(errors.UpstreamImportError, match=r"triton_kernels 3\.4 .*imports on triton>=3\.4,<3\.5: pip install"):
        fi_compat.prepare("matmul_ogs")
    assert moe.routing(torch.randn(3, 4), 2).routing_data.n_expts_tot == 4


def test_b73_precision_config_under_one_name(tree, matmul) -> None:
    """weight_scale up to 3.6, b_mx_scale and a microblock size from 3.8 on; the naive call is a TypeError there."""
    if not available(tree):
        return
    scale = torch.zeros(1, 2, 4, dtype=torch.uint8)
    config = moe.precision_config(weight_scale=scale, out_dtype=torch.bfloat16)
    if tree.generation == "3.8":
        from triton_kernels.matmul import PrecisionConfig

        assert config.b_mx_scale is scale
        with pytest.raises(TypeError, match="weight_scale"):
            PrecisionConfig(weight_scale=scale)
        if tree.variant != "3.8":
            assert config.b_microblock_size == 32
    else:
        assert config.weight_scale is scale
    assert config.out_dtype is torch.bfloat16
    with pytest.raises(errors.UnsupportedFeatureError, match="no_such_option=1 cannot be served"):
        moe.precision_config(no_such_option=1)


def test_fused_swiglu_says_reduction_n_where_the_generation_wants_it(tree) -> None:
    """A field of FusedActivation up to 3.5.1, of FnSpecs from 3.6 on."""
    if not available(tree):
        return
    act = moe.fused_swiglu(1.702, 7.0)
    assert act.fn_args == (1.702, 7.0)
    assert (act.reduction_n if tree.generation in {"3.4", "3.5.1"} else act.specs.reduction_n) == 2


KNOWN = {"3.4": "fused_scatter", "3.5.1": "fused_scatter", "3.6": "max_allowable_mn", "3.8": "num_warps"}


def test_b80_constraints_are_refused_by_name_and_restored(tree, matmul) -> None:
    """Upstream accepts any name and fails at the next matmul."""
    if not available(tree):
        return
    module = matmul.constraints_module()
    with (
        pytest.raises(errors.UnsupportedFeatureError, match="upstream would fail at the next matmul"),
        moe.opt_flags_constraints(no_such_thing=1),
    ):
        pass
    wrong = "num_warps" if tree.generation != "3.8" else "fused_scatter"
    with pytest.raises(errors.UnsupportedFeatureError, match=wrong), moe.opt_flags_constraints(**{wrong: 4}):
        pass
    if tree.variant == "3.8":
        with pytest.raises(errors.UnsupportedFeatureError, match="block_n"), moe.opt_flags_constraints(block_n=64):
            pass
    current = lambda: dict(
        module._get_opt_flags_constraints() if hasattr(module, "_get_opt_flags_constraints") else module._opt_flags_constraints
    )
    with moe.opt_flags_constraints(**{KNOWN[tree.generation]: 4}):
        with moe.opt_flags_constraints(block_k=64):
            assert current() == {KNOWN[tree.generation]: 4, "block_k": 64}
        assert current() == {KNOWN[tree.generation]: 4}
    assert current() == {}
    with pytest.raises(RuntimeError, match="inside"), moe.opt_flags_constraints(block_k=64):
        raise RuntimeError("inside")
    assert current() == {}


def test_constraints_reach_a_worker_thread(tree, matmul) -> None:
    """A ContextVar in the fork and the shuffled tree: a new thread sees nothing without our carrying it."""
    import threading

    if tree.generation != "3.8":
        return
    module = matmul.constraints_module()
    seen = []

    def work() -> None:
        before = dict(module._get_opt_flags_constraints()) if hasattr(module, "_get_opt_flags_constraints") else None
        matmul._carry_constraints()
        after = (
            dict(module._get_opt_flags_constraints())
            if hasattr(module, "_get_opt_flags_constraints")
            else dict(module._opt_flags_constraints)
        )
        seen.append((before, after))

    with moe.opt_flags_constraints(block_k=64):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert seen[0][1] == {"block_k": 64}
    if tree.variant != "3.8":
        assert seen[0][0] == {}, "naive: a new thread sees no constraint"


def test_constraints_leave_a_worker_thread_with_the_block(tree, matmul, monkeypatch) -> None:
    """A thread that outlives the block has what it had before: its matmuls are unconstrained again."""
    from concurrent.futures import ThreadPoolExecutor

    if tree.generation != "3.8":
        return
    module = matmul.constraints_module()
    current = getattr(module, "_get_opt_flags_constraints", lambda: module._opt_flags_constraints)
    monkeypatch.setattr(matmul._matmul, "call", lambda **_: dict(current()))
    call = lambda: matmul.matmul_ogs(*[None] * 13)
    with ThreadPoolExecutor(1) as pool:
        before = pool.submit(call).result()
        with moe.opt_flags_constraints(block_k=64):
            assert pool.submit(call).result() == {"block_k": 64}
            with moe.opt_flags_constraints(num_warps=8):
                assert pool.submit(call).result() == {"block_k": 64, "num_warps": 8}
            assert pool.submit(call).result() == {"block_k": 64}
        assert pool.submit(call).result() == before == {}
        assert call() == {}


WEIGHT = torch.randint(0, 256, (2, 256, 256), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
SCALE = torch.randint(118, 124, (2, 256, 16), generator=torch.Generator().manual_seed(2), dtype=torch.uint8)


@pytest.mark.parametrize("capability", [80, 90, 100, 120])
def test_layouts_are_byte_identical_on_all_trees(tree, matmul, monkeypatch, capability) -> None:
    """Facts 1, point 3: with the right axis sign; the first tree writes the hashes, the others compare."""
    if not available(tree):
        return
    layout = __import__("triton_kernels.tensor_details.layout", fromlist=["x"])
    monkeypatch.setattr(layout, "cuda_capability_geq", lambda major, minor=0: capability >= major * 10 + minor)
    for name in ("is_hip_cdna4", "is_hip_gfx1250"):
        if hasattr(layout, name):
            monkeypatch.setattr(layout, name, lambda: False)
    w, s = moe.prepare_mxfp4_weight(WEIGHT, SCALE)
    found = [hashlib.sha256(t.storage.data.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest() for t in (w, s)]
    assert list(w.shape) == [2, 512, 256]
    file = Path(os.environ["FI_COMPAT_CORPUS"]) / f"layout-{capability}.txt"
    if tree.name == "R1":
        file.write_text("\n".join(found))
    value, scale = file.read_text().splitlines()
    assert found[1] == scale
    assert found[0] == value


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: moe.prepare_mxfp4_weight(WEIGHT.transpose(1, 2), SCALE), "last stride 256, needed 1"),
        (lambda: moe.prepare_mxfp4_weight(WEIGHT.int(), SCALE), "torch.int32, needed uint8"),
        (lambda: moe.prepare_mxfp4_weight(WEIGHT, SCALE[:, :, :8]), "needed scale \\(2, 256, 16\\)"),
        (lambda: moe.prepare_mxfp4_weight(WEIGHT, SCALE.float()), "torch.float32, needed uint8"),
        (lambda: moe.prepare_mxfp4_weight(WEIGHT[0], SCALE[0]), "needed uint8 \\[E, N"),
        (lambda: moe.matmul_ogs(torch.ones(4, 8).t(), torch.ones(1, 4, 4)), "last stride"),
        (lambda: moe.matmul_ogs(torch.ones(4, 8), torch.ones(1, 8, 4), gather_indx=object()), "without routing_data"),
        (
            lambda: moe.matmul_ogs(
                torch.ones(4, 8), torch.ones(1, 8, 4), None, SimpleNamespace(gate_scal=torch.ones(8)), gammas=torch.ones(3)
            ),
            "needed \\[8\\], one weight a row",
        ),
        (
            lambda: moe.matmul_ogs(torch.ones(4, 8), torch.ones(1, 8, 4), precision_config=SimpleNamespace(weight_scale=torch.ones(1))),
            "a float weight has no microscales",
        ),
        (
            lambda: moe.matmul_ogs(
                torch.ones(4, 8), torch.ones(1, 6, 4, dtype=torch.uint8), precision_config=SimpleNamespace(weight_scale=torch.ones(1))
            ),
            "the same K",
        ),
    ],
)
def test_bad_input_is_refused_before_a_launch(call, says) -> None:
    """Naming the tensor, its shape and what was needed."""
    with pytest.raises(ValueError, match=says):
        call()


def test_the_reference_layer_by_hand() -> None:
    """Against a loop over tokens and slots in float64."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(5, 64, generator=generator).bfloat16()
    logits = torch.randn(5, 4, generator=generator)
    draw = lambda *s: torch.randint(0, 256, s, generator=generator, dtype=torch.uint8)
    scales = lambda *s: torch.randint(120, 124, s, generator=generator, dtype=torch.uint8)
    w1, w2 = (draw(4, 64, 32), scales(4, 64, 2)), (draw(4, 64, 16), scales(4, 64, 1))
    b1, b2 = torch.randn(4, 64, generator=generator), torch.randn(4, 64, generator=generator)
    found = moe.moe_layer(x, logits, w1, b1, None, w2, b2, None, 2, alpha=1.702, limit=7.0, backend="reference")
    one, two = dequantize_mxfp4(*w1).double(), dequantize_mxfp4(*w2).double()
    top = torch.topk(logits, 2)
    gates = torch.softmax(top.values, -1)
    for token in range(5):
        total = torch.zeros(64, dtype=torch.float64)
        for slot in range(2):
            e = int(top.indices[token, slot])
            h = swiglu(x[token].double() @ one[e].t() + b1[e].double(), 1.702, 7.0).bfloat16().double()
            total += gates[token, slot].double() * (h @ two[e].t() + b2[e].double())
        error = (found[token].double() - total).norm() / total.norm()
        assert error < 5e-3
    assert torch.equal(moe_layer(x, logits, w1, b1, w2, b2, 2, alpha=1.702, limit=7.0), found)
    assert reference.fp4_dequantize(w1[0][0], w1[1][0], None, 32, True, False).shape == (64, 64)


COMPILE = """
import torch, triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction
compiled = {}
class Driver:
    def get_current_target(self): return GPUTarget('cuda', CAPABILITY, 32)
    def get_current_device(self): return 0
    def get_current_stream(self, device): return 0
    def get_device_interface(self): return torch.cuda
    def get_active_torch_device(self): return torch.device('cpu')
    def is_active(self): return True
triton.runtime.driver.set_active(Driver())
real = JITFunction.run
def run(self, *args, grid, warmup, **kwargs):
    kernel = real(self, *args, grid=grid, warmup=True, **kwargs)
    if kernel is not None:
        compiled[self.fn.__name__] = len(kernel.asm['cubin'])
    return kernel
JITFunction.run = run
# Nothing is launched, so what a kernel would have filled must at least be valid indices.
empty = torch.empty
torch.empty = lambda *args, **kwargs: empty(*args, **kwargs).zero_()
from fi_compat import _bindings, moe
adapter = _bindings.resolve('triton_kernels')
adapter.runs_on_cpu = lambda: True
moe.routing(torch.randn(33, 40).bfloat16(), 4, validate=False)
assert all(compiled.values()), compiled
print('KERNELS', sorted(compiled))
"""


@pytest.mark.parametrize("capability", [90, 120])
def test_the_kernels_that_routing_launches_compile(tree, capability, tmp_path) -> None:
    """Every one, to a cubin, on a CPU: a process without the interpreter whose launches compile and stop there."""
    import subprocess
    import sys

    env = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    env["PYTHONPATH"] = os.pathsep.join((os.environ["FI_COMPAT_OVERLAY"], str(Path(fi_compat.__file__).parents[1])))
    code = COMPILE.replace("CAPABILITY", str(capability))
    result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-1500:]
    kernels = result.stdout.partition("KERNELS ")[2]
    assert "_topk_forward" in kernels
    expected = "_combined_routing_compute" if tree.generation in {"3.4", "3.5.1"} else "_ragged_tensor_metadata_compute"
    assert expected in kernels, kernels
    assert kernels.count("'") // 2 >= 4, kernels
