"""The CuteDSL MoE wrapper on one published release: upstream's own Python; its kernels' compiler is stood in for."""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace

import pytest
import stand_in
import torch
from releases import since

import fi_compat
from fi_compat import errors, fused_moe
from fi_compat.fused_moe import ActivationType

SHAPE = {"num_experts": 8, "top_k": 2, "hidden_size": 256, "intermediate_size": 512}


@pytest.fixture
def wrapper(monkeypatch, lent):
    """Import upstream's wrapper and replace the core that launches: it writes what it is told to, or allocates."""
    import flashinfer.fused_moe

    before = set(sys.modules)
    with stand_in.cutlass_dsl():
        module = importlib.import_module("flashinfer.fused_moe.cute_dsl.fused_moe")
        ran = []

        def core(*args, **options):
            ran.append(options)
            out = options.get("moe_output")
            out = out if out is not None else torch.empty(options["x"].shape[0], 256, dtype=torch.bfloat16)
            out.fill_(float(len(ran)))
            return out

        monkeypatch.setattr(module, "_moe_core_impl", core)
        for name in ("allocate_moe_sort_buffers", "get_max_num_permuted_tokens"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, lambda *a, **k: 128 if len(a) > 3 else {})
        for where in [m for n, m in list(sys.modules.items()) if n.startswith("flashinfer.fused_moe.cute_dsl")]:
            for name in ("get_compute_capability", "_require_cute_dsl_arch_for", "require_cute_dsl_arch"):
                if hasattr(where, name):
                    monkeypatch.setattr(where, name, (lambda d: (10, 0)) if "capability" in name else (lambda *a, **k: None))
        monkeypatch.setattr(torch.cuda, "Stream", lambda *a, **k: SimpleNamespace(kind="stream"))
        monkeypatch.setattr(torch.cuda, "Event", lambda *a, **k: SimpleNamespace(kind="event"))
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
        from flashinfer.autotuner import AutoTuner

        monkeypatch.setattr(AutoTuner, "choose_one", lambda self, name, runners, config, inputs, **k: (runners[0], -1))
        for runner in ("CuteDslFusedMoENvfp4Runner",):
            if hasattr(module, runner):
                monkeypatch.setattr(getattr(module, runner), "forward", _forward, raising=False)
        monkeypatch.setattr(flashinfer.fused_moe, "CuteDslMoEWrapper", module.CuteDslMoEWrapper, raising=False)
        yield SimpleNamespace(native=module.CuteDslMoEWrapper, ran=ran)
    for name in set(sys.modules) - before:
        if name.startswith("flashinfer.fused_moe.cute_dsl"):
            del sys.modules[name]


def _forward(self, inputs, tactic=-1, do_preparation=False, **options):
    """Call the wrapper's own forward with the inputs by name, as the tuner's runner does."""
    names = ("x", "x_sf", "token_selected_experts", "token_final_scales", "w1_weight", "w1_weight_sf", "w1_alpha", "fc2_input_scale",
             "w2_weight", "w2_weight_sf", "w2_alpha")  # fmt: skip
    named = dict(zip(names, inputs, strict=False))
    if len(inputs) == 13:
        named["per_token_scale"] = inputs[11]
    return self.forward_impl(
        **named,
        num_experts=8,
        top_k=2,
        num_local_experts=8,
        moe_output=inputs[-1],
        **{k: v for k, v in options.items() if k == "use_async_memset"},
    )


def tensors(tokens: int) -> tuple:
    return (
        torch.zeros(tokens, 128, dtype=torch.uint8),
        torch.zeros(tokens, 16, dtype=torch.uint8),
        torch.zeros(tokens, 2, dtype=torch.int32),
        torch.ones(tokens, 2),
        *(torch.zeros(1) for _ in range(7)),
    )


def test_it_is_upstreams_wrapper(wrapper) -> None:
    """Engines test with isinstance."""
    made = fused_moe.cute_dsl_moe(**SHAPE, device="cpu")
    assert isinstance(made, wrapper.native)


@pytest.mark.parametrize("graph", [False, True])
def test_each_answer_is_a_tensor_of_its_own(release, wrapper, graph) -> None:
    """Facts 3.6, hazard 15: up to 0.6.13 the naive wrapper returns a slice of one buffer, overwritten by the next call."""
    naive = wrapper.native(**SHAPE, use_cuda_graph=graph, device="cpu", **({"max_num_tokens": 16} if not since(release, "0.6.14") else {}))
    first = naive.run(*tensors(4))
    kept = first.clone()
    naive.run(*tensors(4))
    assert torch.equal(first, kept) == (since(release, "0.6.14") or not graph)
    ours = fused_moe.cute_dsl_moe(**SHAPE, use_cuda_graph=graph, device="cpu")
    first = ours.run(*tensors(4))
    kept = first.clone()
    ours.run(*tensors(4))
    assert torch.equal(first, kept)
    if graph:
        streams = [ours._aux_stream, ours._main_event, ours._memset_event]
        assert [s.kind for s in streams] == ["stream", "event", "event"], "made before a capture, on every release"


def test_the_number_of_tokens_has_one_rule(release, wrapper) -> None:
    """Facts 3.6: up to 0.6.13 more than max_num_tokens fails under use_cuda_graph; from 0.6.14 on the number is ignored."""
    if not since(release, "0.6.14"):
        with pytest.raises(ValueError, match="exceeds max_num_tokens"):
            wrapper.native(**SHAPE, use_cuda_graph=True, max_num_tokens=4, device="cpu").run(*tensors(8))
    unbounded = fused_moe.cute_dsl_moe(**SHAPE, use_cuda_graph=True, device="cpu")
    assert unbounded.run(*tensors(5000)).shape[0] == 5000
    bounded = fused_moe.cute_dsl_moe(**SHAPE, max_num_tokens=4, device="cpu")
    assert bounded.run(*tensors(4)).shape[0] == 4
    with pytest.raises(ValueError, match="found 8 tokens, needed at most max_num_tokens=4"):
        bounded.run(*tensors(8))


def test_b01_the_activation_is_said_as_the_release_does(release, wrapper) -> None:
    """B01: no parameter up to 0.6.13, a string at 0.6.14, an integer from 0.6.15 on."""
    if since(release, "0.6.14") and not since(release, "0.6.15"):
        wrapper.native(**SHAPE, activation="silu", device="cpu")
    else:
        with pytest.raises(TypeError, match="unexpected keyword argument 'activation'"):
            wrapper.native(**SHAPE, activation="silu", device="cpu")
    for said in ({"activation": "silu"}, {"activation": "swiglu"}, {"activation_type": ActivationType.Swiglu}, {"activation_type": 3}):
        made = fused_moe.cute_dsl_moe(**SHAPE, device="cpu", **said)
        if since(release, "0.6.15"):
            assert made.activation_type.name == "Swiglu"
    if since(release, "0.6.14"):
        made = fused_moe.cute_dsl_moe(**SHAPE, device="cpu", activation_type="Relu2")
        assert made.activation_type.name == "Relu2" if since(release, "0.6.15") else made.activation == "relu2"
    else:
        with pytest.raises(errors.UnsupportedFeatureError, match=r"Relu2 .*>=0\.6\.14"):
            fused_moe.cute_dsl_moe(**SHAPE, device="cpu", activation_type=ActivationType.Relu2)
    assert fi_compat.has("cute_dsl.moe.relu2") == since(release, "0.6.14")
    with pytest.raises(ValueError, match="leave activation out"):
        fused_moe.cute_dsl_moe(**SHAPE, device="cpu", activation="silu", activation_type=3)
    with pytest.raises(ValueError, match="'silu' or 'relu2'"):
        fused_moe.cute_dsl_moe(**SHAPE, device="cpu", activation="gelu")
    with pytest.raises(TypeError, match="integers 0 to 6"):
        fused_moe.cute_dsl_moe(**SHAPE, device="cpu", activation_type=9)


def test_options_are_served_or_refused(release, wrapper) -> None:
    """Facts 3.6: use_fused_finalize and per_token_scale from 0.6.16, situ_beta and quant_mode from 0.6.18."""
    for option, value, first in (("use_fused_finalize", False, "0.6.16"), ("situ_beta", 1.0, "0.6.18"), ("quant_mode", "w4a16", "0.6.18")):
        if since(release, first):
            if option != "situ_beta":
                assert getattr(fused_moe.cute_dsl_moe(**SHAPE, device="cpu", **{option: value}), option) == value
        else:
            with pytest.raises(errors.UnsupportedFeatureError, match=rf"{option}=.*>={first.replace('.', '[.]')}"):
                fused_moe.cute_dsl_moe(**SHAPE, device="cpu", **{option: value})
    made = fused_moe.cute_dsl_moe(**SHAPE, device="cpu")
    if since(release, "0.6.16"):
        made.run(*tensors(4), per_token_scale=torch.ones(4))
        assert wrapper.ran[-1]["per_token_scale"] is not None
    else:
        with pytest.raises(errors.UnsupportedFeatureError, match=r">=0\.6\.16"):
            made.run(*tensors(4), per_token_scale=torch.ones(4))


def test_without_the_compiler_the_error_says_what_to_install() -> None:
    """flashinfer.fused_moe has no such name then, whatever the release."""
    with pytest.raises(errors.UpstreamNotInstalledError, match="pip install nvidia-cutlass-dsl"):
        fused_moe.cute_dsl_moe(**SHAPE)
