"""MLA decode, merging and the private planner on one published release."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace

import pytest
import torch
from releases import since

import fi_compat
from fi_compat import attention, errors, mla

REQUESTS, HEADS, RANK, ROPE, PAGE = 2, 8, 512, 64, 64
#: What the recorded kernels write: the same log-sum-exp in base 2 and in natural logarithms.
BASE2, NATURAL = 3.0, 3.0 * math.log(2)


def arguments(**changed: object) -> dict:
    found = {
        "query": torch.zeros(REQUESTS, 1, HEADS, RANK + ROPE, dtype=torch.bfloat16),
        "kv_cache": torch.zeros(4, PAGE, RANK + ROPE, dtype=torch.bfloat16),
        "workspace_buffer": torch.zeros(1024, dtype=torch.uint8),
        "qk_nope_head_dim": 128,
        "kv_lora_rank": RANK,
        "qk_rope_head_dim": ROPE,
        "block_tables": torch.zeros(REQUESTS, 2, dtype=torch.int32),
        "seq_lens": torch.full((REQUESTS,), 8, dtype=torch.int32),
        "max_seq_len": 8,
    }
    return {**found, **changed}


@pytest.fixture
def kernels(monkeypatch, lent, release):
    """Replace the MLA launches: trtllm-gen writes base 2, the cute-dsl kernel natural logarithms unless told (0.7.1)."""
    from flashinfer.mla import _core

    ran = []

    def trtllm_gen(*args):
        out = args[0]
        ran.append(("trtllm-gen", args))
        lse = next((a for a in args if isinstance(a, torch.Tensor) and a.dtype is torch.float32 and a.shape == (REQUESTS, HEADS)), None)
        if lse is not None:
            scales = [a for a in args if isinstance(a, float) and math.isclose(a, math.log(2))]
            lse.fill_(BASE2 * (scales[0] if scales else 1.0))
        return out

    # Where a release keeps these moved within flashinfer.mla, which _core imports.
    assert hasattr(_core, "trtllm_batch_decode_with_kv_cache_mla")
    for module in [m for n, m in list(sys.modules.items()) if n.startswith("flashinfer.mla")]:
        for name, value in {
            "get_trtllm_gen_fmha_module": lambda *a, **k: SimpleNamespace(trtllm_paged_attention_decode=trtllm_gen),
            "get_compute_capability": lambda device: lent.capability,
            "device_support_pdl": lambda device: False,
            "get_device_sm_count": lambda device: 148,
            "_cute_dsl_incompatibility_reason": lambda *a, **k: "nvidia-cutlass-dsl is not installed here",
            "_resolve_trtllm_gen_multi_ctas_kv_counter_buffer": lambda *a, **k: torch.zeros(1, dtype=torch.int32),
        }.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)
    return ran


def test_a_decode_without_an_lse_is_left_to_upstream(kernels) -> None:
    """One tensor comes back."""
    out = mla.trtllm_batch_decode_with_kv_cache_mla(**arguments(backend="trtllm-gen"))
    assert tuple(out.shape) == (REQUESTS, 1, HEADS, RANK)
    assert kernels[-1][0] == "trtllm-gen"


@pytest.mark.parametrize("given", [False, True], ids=["allocated", "a buffer of the caller's"])
@pytest.mark.parametrize("base", ["base2", "basee"])
def test_the_lse_has_the_base_that_was_asked_for(release, kernels, base, given) -> None:
    """Facts 4.1, hazard 9: trtllm-gen writes base 2; the caller says which base it wants, on every release."""
    buffer = torch.zeros(REQUESTS, HEADS)
    call = arguments(return_lse=True, lse_base=base, **({"lse": buffer} if given else {}))
    if not since(release, "0.6.12"):
        with pytest.raises(errors.UnsupportedFeatureError, match=r"return_lse=True|lse=.*>=0\.6\.12"):
            mla.trtllm_batch_decode_with_kv_cache_mla(**call)
        assert not fi_compat.has("mla.lse")
        return
    _, lse = mla.trtllm_batch_decode_with_kv_cache_mla(**call)
    assert torch.allclose(lse, torch.full_like(lse, BASE2 if base == "base2" else NATURAL))
    if given:
        assert torch.equal(buffer.reshape(lse.shape), lse), "the caller's buffer, too"
    assert kernels[-1][0] == "trtllm-gen", "auto is settled, not timed"


def test_a_buffer_is_filled_whether_or_not_it_is_returned(release, kernels) -> None:
    """Facts 4.1: 0.6.12 drops the buffer unless return_lse is set."""
    if not since(release, "0.6.12"):
        return
    buffer = torch.zeros(REQUESTS, HEADS)
    out = mla.trtllm_batch_decode_with_kv_cache_mla(**arguments(lse=buffer))
    assert isinstance(out, torch.Tensor)
    assert torch.equal(buffer, torch.full_like(buffer, BASE2))


def test_the_monolithic_cute_dsl_kernel_is_converted(release, lent, monkeypatch) -> None:
    """Facts 4.1: it writes natural logarithms; up to 0.7.0.post1 nothing says so and merge_state works in base 2."""
    if not since(release, "0.6.13"):
        return
    from fi_compat import _bindings

    reached = {}

    def upstream(**options):
        reached.update(options)
        base = options.get("return_lse_base")
        return torch.zeros(1), torch.full((REQUESTS, HEADS), BASE2 if base == "base2" else NATURAL)

    adapter = _bindings.resolve("flashinfer").mla
    adapter._decode.bind()
    monkeypatch.setattr(adapter._decode, "call", upstream)
    for options in ({"backend": "cute-dsl"}, {"enable_dcp": True} if since(release, "0.6.17") else {"backend": "cute-dsl"}):
        _, lse = mla.trtllm_batch_decode_with_kv_cache_mla(**arguments(return_lse=True, **options))
        assert torch.allclose(lse, torch.full_like(lse, BASE2))
        _, lse = mla.trtllm_batch_decode_with_kv_cache_mla(**arguments(return_lse=True, lse_base="basee", **options))
        assert torch.allclose(lse, torch.full_like(lse, NATURAL))
    assert ("return_lse_base" in reached) == since(release, "0.7.1")
    # 96 heads, and pages of 16: what trtllm-gen does not serve, "auto" gives to the cute-dsl kernel, and the base follows.
    wide = torch.zeros(REQUESTS, 1, 96, RANK + ROPE, dtype=torch.bfloat16)
    _, lse = mla.trtllm_batch_decode_with_kv_cache_mla(**arguments(return_lse=True, query=wide))
    assert since(release, "0.7.1") or reached["backend"] == "cute-dsl"
    assert torch.allclose(lse, torch.full_like(lse, BASE2))


def test_decode_context_parallelism_is_refused_before_0_6_17(release, kernels) -> None:
    """Facts 4.1: enable_dcp appears in 0.6.17; below, the error has the pip line and nothing runs."""
    assert fi_compat.has("mla.dcp") == since(release, "0.6.17")
    if since(release, "0.6.17"):
        return
    with pytest.raises(errors.UnsupportedFeatureError, match=r"enable_dcp=True.*pip install 'flashinfer-python>=0\.6\.17'"):
        mla.trtllm_batch_decode_with_kv_cache_mla(
            **arguments(**({"return_lse": True} if since(release, "0.6.12") else {}), enable_dcp=True, cp_world=2, cp_rank=1)
        )
    assert not kernels
    mla.trtllm_batch_decode_with_kv_cache_mla(**arguments(backend="trtllm-gen", enable_dcp=False, cp_world=1, cp_rank=0))


def test_what_the_lse_base_may_be(kernels) -> None:
    """None is upstream's "whatever the kernel writes", which is what this ends."""
    with pytest.raises(ValueError, match="needed 'base2' or 'basee'"):
        mla.trtllm_batch_decode_with_kv_cache_mla(**arguments(lse_base="ln"))
    with pytest.raises(ValueError, match="needed 'base2' or 'basee'"):
        mla.trtllm_batch_decode_with_kv_cache_mla(**arguments(return_lse_base=None))
    with pytest.raises(ValueError, match="leave one of them out"):
        mla.trtllm_batch_decode_with_kv_cache_mla(**arguments(lse_base="basee", return_lse_base="base2"))
    assert not kernels


@pytest.mark.parametrize("base", ["base2", "basee"])
def test_merging_takes_the_base(lent, monkeypatch, base) -> None:
    """Upstream merges in base 2 on every release; natural logarithms are converted there and back."""
    from fi_compat import _bindings
    from fi_compat.adapters import mla_0_6_8 as adapter

    _bindings.resolve("flashinfer")
    exp, log = (torch.exp2, torch.log2) if base == "base2" else (torch.exp, torch.log)

    def merge(v_a, s_a, v_b, s_b):  # flashinfer/cascade.py, by its own docstring
        total = torch.exp2(s_a) + torch.exp2(s_b)
        weighed = v_a * torch.exp2(s_a)[..., None] + v_b * torch.exp2(s_b)[..., None]
        return weighed / total[..., None], torch.log2(total)

    adapter._merge_state.bind()
    adapter._merge_states.bind()
    monkeypatch.setattr(adapter._merge_state, "call", merge)
    monkeypatch.setattr(adapter._merge_states, "call", lambda v, s: merge(v[:, 0], s[:, 0], v[:, 1], s[:, 1]))
    v_a, v_b = torch.tensor([[[1.0]]]), torch.tensor([[[3.0]]])
    s_a, s_b = torch.tensor([[0.5]]), torch.tensor([[2.0]])
    total = exp(s_a) + exp(s_b)
    expected = (v_a * exp(s_a)[..., None] + v_b * exp(s_b)[..., None]) / total[..., None], log(total)
    for found in (
        mla.merge_state(v_a, s_a, v_b, s_b, lse_base=base),
        mla.merge_states(torch.stack([v_a, v_b], 1), torch.stack([s_a, s_b], 1), lse_base=base),
    ):
        assert torch.allclose(found[0], expected[0])
        assert torch.allclose(found[1], expected[1])


PLANNER = {"prefill": (19, 20, 21), "decode": (19, 20, 21)}


def planned(monkeypatch, lent, kind: str, **options: object) -> tuple:
    """Run upstream's own ``plan`` and return the arguments that it passes to its private planner."""
    from flashinfer import decode, prefill

    passed = []
    module = SimpleNamespace(plan=lambda *args: passed.append(args) or [0], paged_run=None, ragged_run=None, run=None)
    for where in (prefill, decode):
        for name in ("get_batch_prefill_module", "get_batch_decode_module"):
            if hasattr(where, name):
                monkeypatch.setattr(where, name, lambda *a, **k: module)
    workspace = torch.zeros(1024, dtype=torch.uint8)
    indptr = torch.tensor([0, 1, 2], dtype=torch.int32)
    last = torch.tensor([8, 8], dtype=torch.int32)
    with monkeypatch.context() as patch:
        # Pinned host memory is asked for, which a CPU build of torch has none of.
        empty, zeros = torch.empty, torch.zeros
        patch.setattr(torch, "empty", lambda *a, **k: empty(*a, **{n: v for n, v in k.items() if n != "pin_memory"}))
        patch.setattr(torch, "zeros", lambda *a, **k: zeros(*a, **{n: v for n, v in k.items() if n != "pin_memory"}))
        if kind == "prefill":
            wrapper = prefill.BatchPrefillWithPagedKVCacheWrapper(workspace, "NHD", backend="fa2")
            wrapper.plan(indptr, indptr, torch.tensor([0, 1], dtype=torch.int32), last, 4, 2, 64, 16, q_data_type=torch.float16, **options)
        else:
            wrapper = decode.BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD", use_tensor_cores=True, backend="fa2")
            wrapper.plan(
                indptr,
                torch.tensor([0, 1], dtype=torch.int32),
                last,
                4,
                2,
                64,
                16,
                q_data_type=torch.float16,
                data_type=torch.float16,
                **options,
            )
    assert len(passed) == 1
    return passed[0]


@pytest.mark.parametrize("kind", ["prefill", "decode"])
@pytest.mark.parametrize("options", [{}, {"fixed_split_size": 4}, {"disable_split_kv": True}], ids=str)
def test_b05_b06_the_planners_tail_is_what_upstreams_own_plan_passes(release, monkeypatch, lent, kind, options) -> None:
    """B05, B06, facts 4.3: 19 arguments, 20 from 0.6.16, 21 at 0.7.4; counted on what each release passes to its planner."""
    args = planned(monkeypatch, lent, kind, **options)
    expected = 19 if not since(release, "0.6.16") else 20 if not since(release, "0.7.4") else 21
    assert len(args) == expected
    tail = attention.planner_tail(kind=kind, **options)
    assert len(tail) == expected - 16
    assert tuple(args[16:]) == tail
    assert [type(a) for a in args[16:]] == [type(t) for t in tail]


def test_a_query_length_has_a_place_from_0_6_16_on(release) -> None:
    """Facts 4.3: decode says 0 for one token up to 0.7.2.post1, and 1 at 0.7.4; before, there is no argument for it."""
    if not since(release, "0.6.16"):
        for options in ({"kind": "decode", "q_len": 2}, {"kind": "prefill", "uniform_q_len": 4}):
            with pytest.raises(errors.UnsupportedFeatureError, match=r">=0\.6\.16"):
                attention.planner_tail(**options)
        assert not fi_compat.has("attention.planner_tail.uniform_q_len")
        return
    last = since(release, "0.7.4")
    assert attention.planner_tail(kind="decode")[3:] == ((1, True) if last else (0,))
    assert attention.planner_tail(kind="decode", q_len=2)[3:] == ((2, True) if last else (2,))
    assert attention.planner_tail(kind="prefill", uniform_q_len=4)[3:] == ((4, False) if last else (4,))


@pytest.mark.parametrize("options", [{"kind": "mla"}, {"kind": "decode", "q_len": 0}, {"kind": "prefill", "uniform_q_len": -1}], ids=str)
def test_a_tail_that_cannot_be_is_a_value_error(options) -> None:
    """The message says what is needed."""
    with pytest.raises(ValueError, match="needed"):
        attention.planner_tail(**options)
