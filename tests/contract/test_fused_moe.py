"""Fused MoE on one published release: what reaches the launch, what comes back, and what the naive call does."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import warnings
from enum import IntEnum

import lend_moe
import pytest
import torch
from moe_calls import BF16, CALLS, EXPERTS, HIDDEN, IDS, INTER, SLOTS, TOKENS, U8, WEIGHTS, cutlass, fp4, logits
from packaging.version import Version
from releases import since

import fi_compat
from fi_compat import errors, fused_moe
from fi_compat.fused_moe import ActivationType, RoutingMethodType

TRTLLM = [name for name in CALLS if name.startswith("trtllm")]
ROUTED = [name for name in CALLS if "routed" in name]


@pytest.fixture(autouse=True)
def launches(monkeypatch, lent):
    """Record the fused MoE launches as well."""
    lend_moe.lend_moe(monkeypatch, lent)
    return lent.launches


def native(name: str):
    """Return upstream's function, without the warnings that it gives for what the naive call leaves out."""
    import flashinfer.fused_moe

    function = getattr(flashinfer.fused_moe, name)

    @functools.wraps(function)
    def quiet(*args, **kwargs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **kwargs)

    return quiet


@pytest.mark.parametrize("name", CALLS)
def test_every_value_arrives_in_the_parameter_of_its_name(launches, parameters_of, name) -> None:
    """The stable call and upstream's own Python agree, and one tensor comes back."""
    arguments = CALLS[name]()
    with parameters_of(name) as seen:
        result = getattr(fused_moe, name)(**arguments, tune_max_num_tokens=4096)
    reached = seen.seen[name][0]
    for parameter, value in arguments.items():
        assert reached[parameter] is value or parameter == "hidden_states_scale", parameter
    assert reached["tune_max_num_tokens"] == 4096
    assert isinstance(result, torch.Tensor)
    assert tuple(result.shape) == (TOKENS, HIDDEN)
    assert launches


@pytest.mark.parametrize("name", CALLS)
def test_what_is_left_out_is_left_to_upstream(parameters_of, name) -> None:
    """Defaults are the installed release's; only a 4-over-6 recipe, the scale layout and fused finalize are said."""
    arguments = CALLS[name]()
    with parameters_of(name) as seen:
        getattr(fused_moe, name)(**arguments)
    defaults = inspect.signature(native(name)).parameters
    for parameter, value in seen.seen[name][0].items():
        if parameter in arguments or parameter in {"nvfp4_4over6", "hidden_states_scale_layout", "use_fused_finalize"}:
            continue
        assert value == defaults[parameter].default, parameter


@pytest.mark.parametrize(
    ("name", "option", "value", "first"),
    [
        ("trtllm_fp4_block_scale_moe", "per_token_scale", torch.ones(TOKENS), "0.6.11"),
        ("trtllm_fp4_block_scale_moe", "num_fused_shared_experts", 1, "0.6.17"),
        ("trtllm_fp4_block_scale_moe", "valid_hidden_size", 100, "0.7.0"),
        ("trtllm_fp8_block_scale_moe", "num_fused_shared_experts", 1, "0.6.15"),
        ("trtllm_fp8_block_scale_moe", "output", torch.zeros(TOKENS, HIDDEN, dtype=BF16), "0.6.14"),
        ("trtllm_fp8_block_scale_routed_moe", "gemm1_lora_delta", torch.zeros(1), "0.6.13"),
        ("trtllm_bf16_routed_moe", "gemm1_lora_delta", torch.zeros(1), "0.6.13"),
        ("trtllm_bf16_moe", "workspace_buffer", torch.zeros(1), "0.7.4"),
        ("cutlass_fused_moe", "use_fused_finalize", False, "0.6.15"),
        ("cutlass_fused_moe", "workspace_buffer", torch.zeros(1), "0.6.16"),
        ("cutlass_fused_moe", "situ_beta", 1.0, "0.7.0"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_an_option_is_served_or_refused_never_dropped(release, parameters_of, name, option, value, first) -> None:
    """A value that was set reaches the parameter of its name, or the error names the releases that have it."""
    arguments = {**CALLS[name](), option: value}
    if since(release, first):
        # Upstream's own checks may object to a made-up value; it has arrived all the same.
        objections = contextlib.suppress(ValueError, RuntimeError, AssertionError, NotImplementedError, AttributeError)
        with parameters_of(name) as seen, objections:
            getattr(fused_moe, name)(**arguments)
        assert seen.seen[name][0][option] is value
    else:
        with pytest.raises(errors.UnsupportedFeatureError, match=rf"{option}=.*>={first.replace('.', '[.]')}.*pip install") as caught:
            getattr(fused_moe, name)(**arguments)
        assert caught.value.found.endswith(release)


@pytest.mark.parametrize("name", CALLS)
def test_a_neutral_value_asks_for_nothing(name) -> None:
    """None and False are what a release without the parameter does anyway."""
    accepted = inspect.signature(getattr(fused_moe, name)).parameters
    neutral = {n: None for n in ("per_token_scale", "gemm1_lora_delta", "num_fused_shared_experts", "nvfp4_4over6") if n in accepted}
    if name == "cutlass_fused_moe":
        neutral |= {"use_wfp4afp8_humming": False, "backend": "cutlass", "use_fused_finalize": True}
    assert neutral or name == "trtllm_bf16_moe"
    assert isinstance(getattr(fused_moe, name)(**CALLS[name](), **neutral), torch.Tensor)


def test_b15_humming_comes_and_goes(release, lent, parameters_of) -> None:
    """B15, facts 3.5: in 0.6.16 to .post2, gone in .post3 to 0.6.17, back in 0.6.18."""
    here = Version("0.6.16") <= Version(release) < Version("0.6.16.post3") or since(release, "0.6.18")
    if here:
        lent.capability = (9, 0)
        with parameters_of("cutlass_fused_moe") as seen:
            fused_moe.cutlass_fused_moe(**cutlass(use_wfp4afp8_humming=True))
        assert seen.seen["cutlass_fused_moe"][0]["use_wfp4afp8_humming"] is True
    else:
        with pytest.raises(errors.UnsupportedFeatureError, match=r">=0\.6\.16,<0\.6\.16\.post3 or >=0\.6\.18"):
            fused_moe.cutlass_fused_moe(**cutlass(use_wfp4afp8_humming=True))


def test_position_26_of_cutlass_changes_for_the_naive_call(release, lent, parameters_of) -> None:
    """Facts 3.5: an integer there is tune_max_num_tokens, or humming; ours has no positions."""
    arguments = cutlass()
    places = [*arguments.values(), *[None] * 6, 1, 0, 1, 0, 1, 0, None, *[False] * 6]
    assert len(places) == 26
    lent.capability = (9, 0)
    with parameters_of("cutlass_fused_moe") as seen:
        native("cutlass_fused_moe")(*places, 4096)
    here = Version("0.6.16") <= Version(release) < Version("0.6.16.post3") or since(release, "0.6.18")
    reached = seen.seen["cutlass_fused_moe"][0]
    assert (reached["use_wfp4afp8_humming"] if here else reached["tune_max_num_tokens"]) == 4096
    with pytest.raises(TypeError, match="positional"):
        fused_moe.cutlass_fused_moe(*places, 4096)


def test_position_28_of_fp4_changes_for_the_naive_call(release, parameters_of) -> None:
    """Facts 3.1, hazard 7: output becomes per_token_scale at 0.6.11 (both are tensors); ours has no positions."""
    output = torch.zeros(TOKENS, HIDDEN, dtype=BF16)
    arguments = CALLS["trtllm_fp4_block_scale_moe"]()
    order = list(inspect.signature(native("trtllm_fp4_block_scale_moe")).parameters)[:24]
    places = [*(arguments[n] for n in order), 0, True, None, 3, output]
    with parameters_of("trtllm_fp4_block_scale_moe") as seen:
        native("trtllm_fp4_block_scale_moe")(*places)
    reached = seen.seen["trtllm_fp4_block_scale_moe"][0]
    assert reached["per_token_scale" if since(release, "0.6.11") else "output"] is output
    result = fused_moe.trtllm_fp4_block_scale_moe(**arguments, output=output)
    assert result is output


def test_position_23_of_fp8_changes_for_the_naive_call(release, parameters_of) -> None:
    """Facts 3.1, hazard 22: an activation becomes a number of shared experts at 0.6.15; ours has no positions."""
    name = "trtllm_fp8_block_scale_moe"
    arguments = CALLS[name]()
    parameters = list(inspect.signature(native(name)).parameters.values())
    places = [arguments.get(p.name, p.default) for p in parameters[:23]]
    with parameters_of(name) as seen:
        try:
            native(name)(*places, 3)
        except ValueError as error:
            assert "shared" in str(error)  # noqa: PT017 - either outcome is the shift
    reached = seen.seen[name][0]
    assert reached["num_fused_shared_experts" if since(release, "0.6.15") else "activation_type"] == 3
    with parameters_of(name) as seen:
        fused_moe.trtllm_fp8_block_scale_moe(**arguments, activation_type=ActivationType.Swiglu)
    assert seen.seen[name][0]["activation_type"] == 3


def test_b52_integers_from_7_on_mean_other_activations(release, parameters_of) -> None:
    """B52, facts 3.7: 7 is Identity, then SwigluStep; ours takes names, and integers that never moved."""
    import flashinfer

    expected = "Identity" if not since(release, "0.6.13") else "SwigluStep"
    assert flashinfer.ActivationType(7).name == expected
    call = CALLS["trtllm_fp4_block_scale_moe"]
    for value in (7, 8, 9, 10, 11, 13, 99):
        with pytest.raises(TypeError, match=rf"activation_type={value}, a plain integer that means .*integers 0 to 6 never moved"):
            fused_moe.trtllm_fp4_block_scale_moe(**call(), activation_type=value)
    with pytest.raises(TypeError, match=r"Identity from 0\.6\.8, SwigluStep from 0\.6\.13"):
        fused_moe.trtllm_fp4_block_scale_moe(**call(), activation_type=7)
    with pytest.raises(TypeError, match="bool"):
        fused_moe.trtllm_fp4_block_scale_moe(**call(), activation_type=True)
    for value in (ActivationType.Identity, "Identity", ActivationType.Identity.value, flashinfer.ActivationType.Identity):
        with parameters_of("trtllm_fp4_block_scale_moe") as seen:
            fused_moe.trtllm_fp4_block_scale_moe(**call(), activation_type=value)
        assert seen.seen["trtllm_fp4_block_scale_moe"][0]["activation_type"] == int(flashinfer.ActivationType.Identity)
    for value in range(7):
        with parameters_of("trtllm_fp4_block_scale_moe") as seen:
            fused_moe.trtllm_fp4_block_scale_moe(**call(), activation_type=value)
        assert seen.seen["trtllm_fp4_block_scale_moe"][0]["activation_type"] == value


def test_b53_a_private_situ_of_9_would_run_identity(release, parameters_of) -> None:
    """B53: 9 is Identity from 0.6.14 on, and Situ is 10 from 0.6.16 on; the name has one meaning."""
    import flashinfer

    if since(release, "0.6.14"):
        assert flashinfer.ActivationType(9).name == "Identity"

    class Private(IntEnum):
        Situ = 9

    call = CALLS["trtllm_fp4_block_scale_moe"]
    for value in (ActivationType.Situ, ActivationType.Situ.value, Private.Situ):
        if since(release, "0.6.16") and value is not Private.Situ:
            with parameters_of("trtllm_fp4_block_scale_moe") as seen:
                fused_moe.trtllm_fp4_block_scale_moe(**call(), activation_type=value)
            assert seen.seen["trtllm_fp4_block_scale_moe"][0]["activation_type"] == 10
        elif value is Private.Situ:
            with pytest.raises(TypeError, match="Private"):
                fused_moe.trtllm_fp4_block_scale_moe(**call(), activation_type=value)
        else:
            with pytest.raises(errors.UnsupportedFeatureError, match=r"Situ .*>=0\.6\.16"):
                fused_moe.trtllm_fp4_block_scale_moe(**call(), activation_type=value)
    assert fi_compat.has("fused_moe.situ") == since(release, "0.6.16")


def test_b55_the_default_activation_is_swiglu_and_another_arrives(parameters_of) -> None:
    """B55: what is left out is Swiglu on every release, and what is said reaches the launch."""
    for said, expected in (({}, 3), ({"activation_type": ActivationType.Relu2}, 6)):
        with parameters_of("trtllm_fp4_block_scale_moe") as seen:
            fused_moe.trtllm_fp4_block_scale_moe(**CALLS["trtllm_fp4_block_scale_moe"](), **said)
        assert int(seen.seen["trtllm_fp4_block_scale_moe"][0]["activation_type"]) == expected


def test_b56_the_order_of_up_and_gate_is_documented() -> None:
    """B56: a checkpoint that has gate first is silently wrong; the docstring says which order the kernels read."""
    assert "rows of up come before" in " ".join((fused_moe.cutlass_fused_moe.__doc__ or "").split())


def test_routing_methods_are_said_by_name(release, parameters_of) -> None:
    """Facts 3.7: 6, 8 and 9 moved; 0 to 5 never did."""
    import flashinfer

    call = CALLS["trtllm_fp4_block_scale_moe"]
    for member in RoutingMethodType:
        there = hasattr(flashinfer.RoutingMethodType, member.name)
        if there:
            with parameters_of("trtllm_fp4_block_scale_moe") as seen:
                fused_moe.trtllm_fp4_block_scale_moe(**call(), routing_method_type=member)
            assert seen.seen["trtllm_fp4_block_scale_moe"][0]["routing_method_type"] == int(flashinfer.RoutingMethodType[member.name])
        else:
            with pytest.raises(errors.UnsupportedFeatureError, match=rf"{member.name} .*needed flashinfer >=0"):
                fused_moe.trtllm_fp4_block_scale_moe(**call(), routing_method_type=member)
    assert hasattr(flashinfer.RoutingMethodType, "TopKSigmoid") == since(release, "0.6.18")
    for value in (6, 9, 10):
        with pytest.raises(TypeError, match="integers 0 to 5"):
            fused_moe.trtllm_fp4_block_scale_moe(**call(), routing_method_type=value)
    with pytest.raises(ValueError, match="needed one of Renormalize"):
        fused_moe.trtllm_fp4_block_scale_moe(**call(), routing_method_type="Renormalise")


def test_packed_ids_have_the_id_above_whatever_the_docstring_says(release) -> None:
    """Facts 3.2: up to 0.6.12 fp4's docstring states the halves the other way round; the kernel struct never changed."""
    text = " ".join((native("trtllm_fp4_block_scale_routed_moe").__doc__ or "").split())
    inverted = "represent the score" in text or "(score << 16" in text
    assert inverted == (not since(release, "0.6.13"))
    packed = fused_moe.pack_topk_ids(IDS, WEIGHTS)
    assert packed.dtype is torch.int32
    assert torch.equal(packed >> 16, IDS)
    bits = (packed & 0xFFFF).to(torch.int32)
    assert torch.equal(torch.where(bits >= 2**15, bits - 2**16, bits).to(torch.int16).view(BF16), WEIGHTS.to(BF16))
    with pytest.raises(ValueError, match="one weight per id"):
        fused_moe.pack_topk_ids(IDS, WEIGHTS[:, :1])


@pytest.mark.parametrize("name", ROUTED)
@pytest.mark.parametrize("dtype", [torch.float32, BF16])
def test_ids_and_weights_are_taken_on_every_release(release, launches, parameters_of, name, dtype) -> None:
    """Facts 3.2: fp4 takes a pair from 0.6.12, the others from 0.6.18; float32 weights of 0.6.12 to 0.6.14 are read as bfloat16."""
    arguments = CALLS[name]()
    pair = (IDS.to(torch.int64), WEIGHTS.to(dtype))
    with parameters_of(name) as seen:
        getattr(fused_moe, name)(**{**arguments, "topk_ids": pair})
    reached = seen.seen[name][0]["topk_ids"]
    if since(release, "0.6.12" if "fp4" in name else "0.6.18"):
        ids, weights = reached
        assert ids.dtype is torch.int32
        assert torch.equal(ids, IDS)
        assert weights.dtype is BF16
        assert torch.equal(weights, WEIGHTS.to(BF16))
        assert any(a is weights for a in launches[-1][1]), "the launch reads these weights"
    else:
        assert torch.equal(reached, fused_moe.pack_topk_ids(IDS, WEIGHTS))
        if "bf16" not in name:  # which hands the pair on, for TVM-FFI to refuse
            with pytest.raises(AttributeError):
                native(name)(**{**arguments, "topk_ids": (IDS, WEIGHTS)})
    with pytest.raises(ValueError, match="packed: pass pack_topk_ids"):
        getattr(fused_moe, name)(**{**arguments, "topk_ids": IDS.to(torch.int64)})


def test_naive_float32_weights_reach_the_kernel_unchecked(release, launches) -> None:
    """Facts 3.2: 0.6.12 to 0.6.14 hand float32 weights to a kernel that reads bfloat16, without an error."""
    if not since(release, "0.6.12"):
        return
    arguments = {**CALLS["trtllm_fp4_block_scale_routed_moe"](), "topk_ids": (IDS, WEIGHTS)}
    if since(release, "0.6.15") and not since(release, "0.6.16"):
        with pytest.raises(AssertionError):
            native("trtllm_fp4_block_scale_routed_moe")(**arguments)
        return
    native("trtllm_fp4_block_scale_routed_moe")(**arguments)
    assert any(a is WEIGHTS for a in launches[-1][1])


@pytest.mark.parametrize("name", CALLS)
def test_b57_one_tensor_or_a_named_tuple(release, name) -> None:
    """B57, facts 3.3: upstream returns a list or a tensor by function, and for some by release."""
    arguments = CALLS[name]()
    naive = native(name)(**arguments)
    assert isinstance(naive, list) == ("fp4" in name or name == "cutlass_fused_moe")
    assert isinstance(getattr(fused_moe, name)(**arguments), torch.Tensor)
    if name in TRTLLM:
        deferred = getattr(fused_moe, name)(**arguments, do_finalize=False)
        assert isinstance(deferred, fused_moe.DeferredFinalize)
        assert tuple(deferred.gemm2_out.shape) == (lend_moe.PERMUTED, 8)
        assert deferred.top_k == SLOTS
        assert deferred.expanded_idx_to_permuted_idx.dtype is torch.int32
        assert deferred.gemm1_output is None


@pytest.mark.parametrize("name", [n for n in ROUTED if "fp4" not in n])
def test_a_lora_delta_returns_both_outputs(release, monkeypatch, lent, name) -> None:
    """Facts 3.3: the list has one more element; ours names it."""
    if not since(release, "0.6.13"):
        return
    arguments = {**CALLS[name](), "gemm1_lora_delta": torch.zeros(TOKENS, 2 * INTER, dtype=BF16)}
    deferred_answer = lent.answer
    monkeypatch.setattr(lent, "answer", lambda args: [deferred_answer(args)[0], *deferred_answer(args)[2:]])
    if "fp8" in name:  # the only format that takes a delta on 0.6.13
        arguments["fp8_quantization_type"] = importlib.import_module("flashinfer.tllm_enums").Fp8QuantizationType.MxFp8
        arguments["hidden_states_scale"] = torch.zeros(TOKENS, HIDDEN // 32, dtype=U8)
    result = getattr(fused_moe, name)(**arguments)
    assert isinstance(result, fused_moe.MoEWithLora)
    assert tuple(result.output.shape) == (TOKENS, HIDDEN)
    assert result.gemm1_output[0, 0] == 3.0
    monkeypatch.setattr(lent, "answer", deferred_answer)
    deferred = getattr(fused_moe, name)(**arguments, do_finalize=False)
    assert deferred.gemm1_output is not None
    assert deferred.gemm1_output[0, 0] == 3.0


def test_float32_logits_do_not_mislabel_the_deferred_weights(release, monkeypatch, lent) -> None:
    """Facts 3.3, hazard 10: up to 0.6.14 the kernel writes bfloat16 into a tensor that says float32; ours reads what it wrote."""
    arguments = {"routing_logits": logits(torch.float32), **fp4(do_finalize=False)}
    wrote = torch.tensor([[0.5, 0.25], [1.0, -2.0], [3.0, 4.0], [0.125, 8.0]], dtype=BF16)

    def kernel(args):
        buffer = next(a for a in args if isinstance(a, torch.Tensor) and a.shape == (TOKENS, SLOTS) and a.dtype in {torch.float32, BF16})
        buffer.view(BF16).reshape(-1)[: wrote.numel()] = wrote.reshape(-1)
        return [torch.zeros(4, 8, dtype=BF16), buffer, torch.arange(8, dtype=torch.int32)]

    monkeypatch.setattr(lent, "answer", kernel)
    naive = native("trtllm_fp4_block_scale_moe")(**arguments)[1]
    assert (naive.dtype is torch.float32) == (not since(release, "0.6.15"))
    if not since(release, "0.6.15"):
        assert not torch.equal(naive, wrote.float()), "garbage for the naive call"
    found = fused_moe.trtllm_fp4_block_scale_moe(**arguments)
    assert isinstance(found, fused_moe.DeferredFinalize)
    assert found.expert_weights.dtype is BF16
    assert torch.equal(found.expert_weights, wrote)


def test_a_flat_scale_is_read_as_mxfp4_by_old_releases(release, parameters_of) -> None:
    """Facts 3.4: up to 0.6.10.post1 the format follows scale.shape[-1]; ours always hands over two dimensions."""
    from flashinfer.tllm_enums import DtypeTrtllmGen, deduce_trtllm_gen_tensor_dtype

    arguments = CALLS["trtllm_fp4_block_scale_moe"]()
    flat = arguments["hidden_states_scale"].reshape(-1)
    naive = deduce_trtllm_gen_tensor_dtype(arguments["hidden_states"], flat)
    assert naive == (DtypeTrtllmGen.E2m1 if since(release, "0.6.11") else DtypeTrtllmGen.MxE2m1)
    with parameters_of("trtllm_fp4_block_scale_moe") as seen:
        fused_moe.trtllm_fp4_block_scale_moe(**{**arguments, "hidden_states_scale": flat})
    reached = seen.seen["trtllm_fp4_block_scale_moe"][0]
    assert tuple(reached["hidden_states_scale"].shape) == (TOKENS, HIDDEN // 16)
    assert deduce_trtllm_gen_tensor_dtype(arguments["hidden_states"], reached["hidden_states_scale"]) == DtypeTrtllmGen.E2m1


def test_scales_in_another_layout_are_refused(release, parameters_of) -> None:
    """Facts 3.4: always linear; from 0.7.0 on upstream warns where the layout is not said, so it is."""
    import flashinfer

    arguments = CALLS["trtllm_fp4_block_scale_moe"]()
    swizzled = torch.zeros(128, HIDDEN // 16, dtype=U8)
    with pytest.raises(
        ValueError, match=r"shape \(128, 8\).*needed the linear layout, 4 x 8 or 4 x 4: quantize with is_sf_swizzled_layout=False"
    ):
        fused_moe.trtllm_fp4_block_scale_moe(**{**arguments, "hidden_states_scale": swizzled})
    with pytest.raises(errors.UnsupportedFeatureError, match="layout_linear, all that any release"):
        fused_moe.trtllm_fp4_block_scale_moe(**arguments, hidden_states_scale_layout=flashinfer.SfLayout.layout_128x4)
    for said in ({}, {"hidden_states_scale_layout": flashinfer.SfLayout.layout_linear}, {"hidden_states_scale_layout": 2}):
        with parameters_of("trtllm_fp4_block_scale_moe") as seen:
            fused_moe.trtllm_fp4_block_scale_moe(**arguments, **said)
        if since(release, "0.7.0"):
            assert seen.seen["trtllm_fp4_block_scale_moe"][0]["hidden_states_scale_layout"] == 2


@pytest.mark.parametrize(("option", "match"), [("tile_tokens_dim", "left with 0.6.0"), ("gated_act_type", "became activation_type")])
def test_b03_b04_b16_b17_keywords_of_other_releases_are_typed_errors(option, match) -> None:
    """B03, B04, B16, B17: dropped or renamed upstream; refused with what says the same, never dropped."""
    with pytest.raises(errors.UnsupportedFeatureError, match=match):
        fused_moe.trtllm_fp8_block_scale_moe(**CALLS["trtllm_fp8_block_scale_moe"](), **{option: 8})
    with pytest.raises(TypeError, match="unexpected keyword argument 'no_such'"):
        fused_moe.cutlass_fused_moe(**cutlass(), no_such=1)


@pytest.mark.parametrize("name", TRTLLM)
def test_below_compute_capability_10_is_refused_before_anything_is_built(lent, launches, name) -> None:
    """The kernels exist for SM100 and newer."""
    lent.capability = (9, 0)
    with pytest.raises(errors.UnsupportedDeviceError, match="cutlass_fused_moe, or another MoE backend"):
        getattr(fused_moe, name)(**CALLS[name]())
    assert not launches


def test_four_over_six_in_the_environment_is_refused_where_it_is_obeyed(release, monkeypatch) -> None:
    """Facts 1.9: C++ reads the variable from 0.6.12 on; MoE functions can be told otherwise from 0.7.4 on."""
    monkeypatch.setenv("FLASHINFER_NVFP4_4OVER6", "1")
    obeyed = since(release, "0.6.12") and not since(release, "0.7.4")
    for name in ("trtllm_fp4_block_scale_moe", "trtllm_fp4_block_scale_routed_moe", "cutlass_fused_moe"):
        if obeyed:
            with pytest.raises(errors.ConfigurationError, match="unset FLASHINFER_NVFP4_4OVER6"):
                getattr(fused_moe, name)(**CALLS[name]())
            with pytest.raises(errors.ConfigurationError):
                fi_compat.prepare(name)
        else:
            getattr(fused_moe, name)(**CALLS[name]())


def test_fused_finalize_follows_determinism_on_every_release(release, parameters_of) -> None:
    """Facts 3.5: default True up to 0.7.2.post1, torch's determinism at 0.7.4; ours is the latter wherever there is a choice."""
    if not since(release, "0.6.15"):
        return
    default = inspect.signature(native("cutlass_fused_moe")).parameters["use_fused_finalize"].default
    assert default is (None if since(release, "0.7.4") else True)
    for deterministic in (False, True):
        torch.use_deterministic_algorithms(deterministic)
        try:
            with parameters_of("cutlass_fused_moe") as seen:
                fused_moe.cutlass_fused_moe(**cutlass())
        finally:
            torch.use_deterministic_algorithms(False)
        assert seen.seen["cutlass_fused_moe"][0]["use_fused_finalize"] is not deterministic


def test_the_sm90_scale_layout_is_the_installed_releases(release, lent) -> None:
    """Facts 3.8, hazard 8: 3-D, 5-D, 3-D, 5-D; told from the tensor, and another release's is refused."""
    natural = torch.arange(2 * 128 * 8, dtype=torch.int64).reshape(2, 128, 8).to(U8)
    folded = Version("0.6.16") <= Version(release) < Version("0.6.16.post3") or since(release, "0.6.18")
    if not since(release, "0.6.10"):
        with pytest.raises(errors.UnsupportedFeatureError, match="interleave_moe_scales"):
            fused_moe.interleave_moe_scales_for_sm90_mixed_gemm(natural)
        assert not fi_compat.has("fused_moe.sm90_mixed_gemm")
        return
    here = fused_moe.interleave_moe_scales_for_sm90_mixed_gemm(natural)
    assert type(here) is torch.Tensor
    assert fused_moe.sm90_scale_layout(here) == ("folded-5d" if folded else "3d")
    other = torch.zeros(2, 2, 2, 16, 16, dtype=U8) if not folded else torch.zeros(2, 2, 512, dtype=U8)
    with pytest.raises(ValueError, match="found a tensor of 2 dimensions"):
        fused_moe.sm90_scale_layout(natural[0])
    packed = {
        "fc1_expert_weights": torch.zeros(EXPERTS, 2 * INTER, HIDDEN // 2, dtype=U8),
        "fc2_expert_weights": torch.zeros(EXPERTS, HIDDEN, INTER // 2, dtype=U8),
        "use_w4_group_scaling": True,
    }
    lent.capability = (9, 0)
    fused_moe.cutlass_fused_moe(**cutlass(**packed, quant_scales=[here, here]))
    native("cutlass_fused_moe")(**cutlass(**packed, quant_scales=[other, other]))  # naive: taken without a word
    with pytest.raises(ValueError, match=r"quant_scales\[0\] in the .* layout of another FlashInfer release"):
        fused_moe.cutlass_fused_moe(**cutlass(**packed, quant_scales=[other, here]))
    if not folded:
        with pytest.raises(errors.UnsupportedFeatureError, match="fp4_fp8"):
            fused_moe.interleave_moe_weights_for_sm90_mixed_gemm(torch.zeros(1, 2, 2, dtype=U8), "fp4_fp8")


def test_permutations_of_one_shape_do_not_collide(release) -> None:
    """Facts 3.8, hazard 21: up to 0.6.17 the cache key is kind and shape; ours has all that the answer depends on."""
    from flashinfer.fused_moe import core

    weight = torch.zeros(256, 64, dtype=U8)
    cache: dict = {}
    first = core._maybe_get_cached_w3_w1_permute_indices(cache, weight, 128)
    second = core._maybe_get_cached_w3_w1_permute_indices(cache, weight, 128, is_gated_act_gemm=False)
    right = core._maybe_get_cached_w3_w1_permute_indices({}, weight, 128, is_gated_act_gemm=False)
    assert not torch.equal(first, right)
    assert torch.equal(second, right) == since(release, "0.6.18"), "naive"
    ours: dict = {}
    assert torch.equal(fused_moe.maybe_get_cached_w3_w1_permute_indices(ours, weight, 128), first)
    assert torch.equal(fused_moe.maybe_get_cached_w3_w1_permute_indices(ours, weight, 128, is_gated_act_gemm=False), right)
    again = fused_moe.maybe_get_cached_w3_w1_permute_indices(ours, weight, 128)
    assert again is fused_moe.maybe_get_cached_w3_w1_permute_indices(ours, weight, 128), "the cache is used"
    for tile in (64, 128):
        expected = core.get_w2_permute_indices_with_cache({}, weight, tile)
        assert torch.equal(fused_moe.get_w2_permute_indices_with_cache(ours, weight, tile), expected)
    assert len(ours) == 4


def test_functions_are_bound_and_explained(release) -> None:
    """prepare() and explain() know them, and features() answers."""
    for name in CALLS:
        fi_compat.prepare(name)
        assert f"ends in flashinfer.fused_moe.{name}" in fi_compat.explain(name)
    assert fi_compat.has("fused_moe.trtllm")
    assert fi_compat.has("fused_moe.routed_tuple")
    assert fi_compat.has("fused_moe.gemm1_lora_delta") == since(release, "0.6.13")
    assert fi_compat.has("mla.dcp") == since(release, "0.6.17")
    with pytest.raises(errors.UnsupportedFeatureError, match="pip install") if not since(release, "0.6.17") else contextlib.nullcontext():
        fi_compat.require("mla.dcp")
    assert fi_compat.check_version("flashinfer-python", f"=={release}")
