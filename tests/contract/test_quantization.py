"""fp4_quantize and its siblings on one published release: what reaches upstream, and what the naive call does."""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path

import pytest
import torch
from releases import since

import fi_compat
from fi_compat import _bindings, _table, errors, quantization, reference
from fi_compat.quantization import SfLayout

X = torch.arange(4 * 64, dtype=torch.float32).reshape(4, 64).sub(100).div(7).to(torch.bfloat16)
SCALE = torch.tensor([3.0])


def test_the_published_wheel_is_what_is_imported(release) -> None:
    """Not a working tree, not another version."""
    import flashinfer

    assert flashinfer.__version__ == release
    overlay = Path(os.environ["FI_COMPAT_OVERLAY"]).resolve()
    assert Path(flashinfer.__file__).resolve().is_relative_to(overlay)
    assert (overlay / f"flashinfer_python-{release}.dist-info" / "RECORD").is_file()


def test_the_resolver_picks_the_row_of_this_release(release) -> None:
    """By version, with the overlay as its root."""
    _bindings.reset()
    selection = fi_compat.active("flashinfer")
    assert (selection.version, selection.how) == (release, "version")
    assert selection.adapter == fi_compat.adapter_for("flashinfer", release)
    assert Path(selection.root).parent.resolve() == Path(os.environ["FI_COMPAT_OVERLAY"]).resolve()


def test_the_marks_of_the_row_hold_and_those_of_the_next_do_not(release) -> None:
    """Structure alone chooses the same adapter: what a build without a version relies on."""
    from fi_compat import _installed, _resolver
    from fi_compat._selection import FlashInferFacts

    _bindings.reset()
    root = fi_compat.active("flashinfer").root
    facts = FlashInferFacts(root=root, file_version="0.0.0+unknown", marks=_installed._flashinfer_marks(root))
    assert _resolver.select("flashinfer", facts).adapter == fi_compat.adapter_for("flashinfer", release)


CALLS = {
    "fp4_quantize": [
        {},
        {"sf_vec_size": 16, "is_sf_swizzled_layout": False},
        {"is_sf_8x4_layout": True},
        {"enable_pdl": True},
        {"enable_pdl": False},
        {"backend": "cuda"},
        {"sf_vec_size": 32, "sf_use_ue8m0": True},
    ],
}


@pytest.mark.parametrize("options", CALLS["fp4_quantize"], ids=str)
def test_every_value_arrives_in_the_parameter_of_its_name(release, lent, parameters_of, options) -> None:
    """The stable call, upstream's own Python, and the launch agree."""
    with parameters_of("fp4_quantize") as seen:
        codes, sf = fi_compat.fp4_quantize(X, SCALE, **options)
    native = seen.seen["fp4_quantize"][0]
    expected = {"input": X, "global_scale": SCALE, "backend": "cuda", **options}
    for name, value in expected.items():
        assert native[name] is value or native[name] == value, name
    if "is_global_scale_inversed" in native:
        assert native["is_global_scale_inversed"] is False
    if "nvfp4_4over6" in native:
        assert native["nvfp4_4over6"] is None
    name, launch = lent.launches[-1]
    assert name == "fp4_quantize"
    assert launch[0] is X
    vec, ue8m0, swizzled, tile8 = launch[4:8]
    assert (vec, ue8m0) == (options.get("sf_vec_size", 16), options.get("sf_use_ue8m0", False))
    assert (swizzled, tile8) == (options.get("is_sf_swizzled_layout", True), options.get("is_sf_8x4_layout", False))
    pdl = launch[8] if not since(release, "0.6.11") else launch[9]
    assert pdl == options.get("enable_pdl", False)
    assert tuple(codes.shape) == (4, 32)
    expected_codes, expected_sf = reference.fp4_quantize(X, SCALE, vec, ue8m0, swizzled, tile8)
    assert codes.shape == expected_codes.shape
    assert sf.shape == expected_sf.shape, "scale-factor shapes are the same on all releases"


def test_b51_the_seventh_positional_argument_shifts_for_the_naive_call(release, lent) -> None:
    """B51, facts 1.2: True is enable_pdl up to 0.6.10.post1 and is_global_scale_inversed after; ours is a TypeError."""
    lent.native.fp4_quantize(X, SCALE, 16, False, True, False, True)
    launch = lent.launches[-1][1]
    if since(release, "0.6.11"):
        assert (launch[8], launch[9]) == (True, False), "the naive call inverted the scale and dropped PDL"
    else:
        assert launch[8] is True
    with pytest.raises(TypeError, match="seventh"):
        fi_compat.fp4_quantize(X, SCALE, 16, False, True, False, True)  # type: ignore[arg-type]
    fi_compat.fp4_quantize(X, SCALE, 16, False, True, False, enable_pdl=True)
    launch = lent.launches[-1][1]
    assert (launch[8], launch[9]) == (False, True) if since(release, "0.6.11") else launch[8] is True


def test_b63_the_default_backend_is_pinned(release, lent, parameters_of) -> None:
    """Facts 1.3: 'cuda' up to 0.7.2.post1, 'auto' at 0.7.4; the stable call says 'cuda' on all."""
    default = inspect.signature(lent.native.fp4_quantize).parameters["backend"].default
    assert default == ("auto" if since(release, "0.7.4") else "cuda")
    for backend in ({}, {"backend": "auto"}, {"backend": "cuda"}):
        with parameters_of("fp4_quantize") as seen:
            fi_compat.fp4_quantize(X, SCALE, **backend)
        assert seen.seen["fp4_quantize"][0]["backend"] == "cuda"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_a_scale_of_another_dtype_is_converted(release, lent, dtype) -> None:
    """Facts 1.4: up to 0.6.12 the naive call hands the kernel a pointer to other bits."""
    scale = SCALE.to(dtype)
    lent.native.fp4_quantize(X, scale)
    reached = lent.launches[-1][1][1]
    assert (reached.dtype is torch.float32) == since(release, "0.6.13"), "naive"
    fi_compat.fp4_quantize(X, scale)
    reached = lent.launches[-1][1][1]
    assert reached.dtype is torch.float32
    assert reached.item() == 3.0


def test_a_scale_that_is_right_already_is_passed_as_it_is(lent) -> None:
    """Tensors are converted only if they differ."""
    fi_compat.fp4_quantize(X, SCALE)
    assert lent.launches[-1][1][1] is SCALE


def test_the_number_of_scales_means_what_the_call_says(release, lent) -> None:
    """Facts 1.4: numel == m means per row from 0.6.11 on, and element 0 before; ours follows per_token_scale only."""
    rows = torch.ones(4)
    lent.native.fp4_quantize(X, rows)
    assert lent.launches[-1][1][1] is rows, "the naive call hands the kernel four scales on every release"
    with pytest.raises(ValueError, match=r"slice global_scale\[:1\], or set per_token_scale=True"):
        fi_compat.fp4_quantize(X, rows)
    if since(release, "0.6.11"):
        fi_compat.fp4_quantize(X, rows, per_token_scale=True)
        assert lent.launches[-1][1][1] is rows
    else:
        with pytest.raises(errors.UnsupportedFeatureError, match=r"per_token_scale=True cannot be served: found flashinfer .*>=0\.6\.11"):
            fi_compat.fp4_quantize(X, rows, per_token_scale=True)
    with pytest.raises(ValueError, match="needed 4, one per row"):
        fi_compat.fp4_quantize(X, SCALE, per_token_scale=True)
    with pytest.raises(ValueError, match="global_scale=None"):
        fi_compat.fp4_quantize(X)


def test_one_row_with_one_scale_follows_the_flag(release, lent) -> None:
    """m == 1 is where both meanings have one element."""
    fi_compat.fp4_quantize(X[:1], SCALE)
    if since(release, "0.6.11"):
        fi_compat.fp4_quantize(X[:1], SCALE, per_token_scale=True)
    else:
        with pytest.raises(errors.UnsupportedFeatureError):
            fi_compat.fp4_quantize(X[:1], SCALE, per_token_scale=True)


def test_an_inverted_scale_reaches_the_kernel_or_is_refused(release, lent) -> None:
    """Facts 1.2: new in 0.6.11; never dropped."""
    if since(release, "0.6.11"):
        fi_compat.fp4_quantize(X, SCALE, is_global_scale_inversed=True)
        assert lent.launches[-1][1][8] is True
    else:
        with pytest.raises(errors.UnsupportedFeatureError, match=r">=0\.6\.11"):
            fi_compat.fp4_quantize(X, SCALE, is_global_scale_inversed=True)


def test_cute_dsl_ignores_an_inverted_scale_so_it_is_refused(release, lent, monkeypatch) -> None:
    """Facts 1.2: the argument is not forwarded, 0.6.11 to 0.7.4."""
    import flashinfer.quantization.fp4_quantization as fp4

    calls = []
    monkeypatch.setattr(fp4, "_fp4_quantize_cute_dsl", lambda *a, **k: calls.append(a) or (None, None))
    if since(release, "0.6.11"):
        lent.native.fp4_quantize(X, SCALE, is_global_scale_inversed=True, backend="cute-dsl")
        assert len([a for a in calls[-1] if a is True]) == 1, "naive: is_sf_swizzled_layout is True, and nothing says inverted"
    with pytest.raises(errors.UnsupportedFeatureError):
        fi_compat.fp4_quantize(X, SCALE, is_global_scale_inversed=True, backend="cute-dsl")
    fi_compat.fp4_quantize(X, SCALE, backend="cute-dsl")
    assert calls[-1][0] is X


def test_below_compute_capability_10_the_naive_call_returns_old_memory(release, lent) -> None:
    """Facts 1.5: on SM90 the kernel body is compiled out up to 0.7.2.post1; ours refuses on every release."""
    lent.capability = (9, 0)
    if not since(release, "0.7.4"):
        codes, _ = lent.native.fp4_quantize(X, SCALE)
        assert codes.shape == (4, 32), "no error, and nothing but the launch could have written it"
    with pytest.raises(errors.UnsupportedDeviceError, match=r"compute capability 9\.0 .*needed 10\.0 or newer"):
        _bindings.reset()
        fi_compat.fp4_quantize(X, SCALE)


@pytest.mark.parametrize(
    "call",
    [
        lambda: fi_compat.fp4_quantize(X, SCALE),
        lambda: quantization.nvfp4_quantize(X, SCALE),
        lambda: quantization.mxfp4_quantize(X),
        lambda: quantization.mxfp8_quantize(X),
        lambda: quantization.block_scale_interleave(torch.zeros(128, 4, dtype=torch.uint8)),
        lambda: quantization.shuffle_matrix_sf_a(torch.zeros(128, 4, dtype=torch.uint8), 128),
    ],
)
def test_a_cpu_tensor_with_a_kernel_backend_is_refused(call) -> None:
    """nvfp4_quantize would copy it to the current device without a word."""
    _bindings.reset()
    with pytest.raises(errors.UnsupportedDeviceError, match="found a CPU tensor"):
        call()


def test_batch_invariant_is_served_or_refused(release, lent, parameters_of, monkeypatch) -> None:
    """Facts 1.3: needs backend='auto'; an explicit 'cuda' is a contradiction."""
    with pytest.raises(ValueError, match="batch_invariant=True, needed backend='auto'"):
        fi_compat.fp4_quantize(X, SCALE, backend="cuda", batch_invariant=True)
    if not since(release, "0.7.4"):
        with pytest.raises(errors.UnsupportedFeatureError, match=r">=0\.7\.4"):
            fi_compat.fp4_quantize(X, SCALE, batch_invariant=True)
        return
    import flashinfer.batch_invariant.quantization.nvfp4_api as api

    monkeypatch.setattr(api, "fp4_quantize_batch_invariant", lambda *a, **k: ("codes", "sf"))
    with parameters_of("fp4_quantize") as seen:
        assert fi_compat.fp4_quantize(X, SCALE, batch_invariant=True) == ("codes", "sf")
    native = seen.seen["fp4_quantize"][0]
    assert (native["backend"], native["batch_invariant"], native["nvfp4_4over6"]) == ("auto", True, None)


def test_four_over_six_from_the_environment_is_off_or_an_error(release, lent, monkeypatch) -> None:
    """Facts 1.9: obeyed from 0.6.12 on, without a parameter to say otherwise until 0.7.1."""
    monkeypatch.setenv("FLASHINFER_NVFP4_4OVER6", "1")
    if since(release, "0.7.1"):
        with pytest.warns(FutureWarning):
            lent.native.fp4_quantize(X, SCALE)
        assert lent.launches[-1][1][-1] != 0, "the naive call quantizes with 4 over 6"
        fi_compat.fp4_quantize(X, SCALE)
        assert lent.launches[-1][1][-1] == 0
    elif since(release, "0.6.12"):
        for call in (
            lambda: fi_compat.fp4_quantize(X, SCALE),
            lambda: quantization.nvfp4_quantize(X, SCALE),
            lambda: fi_compat.prepare("fp4_quantize"),
        ):
            with pytest.raises(errors.ConfigurationError, match="FLASHINFER_NVFP4_4OVER6=1 in the environment"):
                call()
        monkeypatch.setenv("FLASHINFER_NVFP4_4OVER6", "0")
        fi_compat.fp4_quantize(X, SCALE)
    else:
        fi_compat.fp4_quantize(X, SCALE)


def test_a_four_over_six_recipe_is_passed_or_refused(release, lent, parameters_of) -> None:
    """Facts 1.9: a config from 0.7.1 on."""
    if since(release, "0.7.1"):
        config = lent.native.NVFP44Over6Config()
        with parameters_of("fp4_quantize") as seen:
            fi_compat.fp4_quantize(X, SCALE, nvfp4_4over6=config)
        assert seen.seen["fp4_quantize"][0]["nvfp4_4over6"] is config
    else:
        with pytest.raises(errors.UnsupportedFeatureError, match=r"nvfp4_4over6 cannot be served.*>=0\.7\.1"):
            fi_compat.fp4_quantize(X, SCALE, nvfp4_4over6=object())


def test_a_four_over_six_recipe_is_not_lost_while_compiling(release, lent, monkeypatch, parameters_of) -> None:
    """The opaque op cannot carry it, so the call is traced as upstream's own would be."""
    from fi_compat import _bindings

    fi_compat.prepare("fp4_quantize")
    monkeypatch.setattr(_bindings, "is_compiling", lambda: True)
    if since(release, "0.7.1"):
        config = lent.native.NVFP44Over6Config()
        with parameters_of("fp4_quantize") as seen:
            fi_compat.fp4_quantize(X, SCALE, nvfp4_4over6=config)
        assert seen.seen["fp4_quantize"][0]["nvfp4_4over6"] is config
    else:
        with pytest.raises(errors.UnsupportedFeatureError, match="nvfp4_4over6 cannot be served"):
            fi_compat.fp4_quantize(X, SCALE, nvfp4_4over6=object())


def test_upstreams_own_torch_op_takes_pdl_for_an_inverted_scale(release, lent) -> None:
    """Facts 1.8: 0.6.12 to 0.7.0.post1 forward positionally in the old order; ours is registered under fi_compat."""
    if not since(release, "0.6.12"):
        return
    torch.ops.flashinfer.fp4_quantize(X, SCALE, enable_pdl=True)
    launch = lent.launches[-1][1]
    assert launch[8] is (not since(release, "0.7.1")), "naive: is_global_scale_inversed"
    fi_compat.prepare("fp4_quantize")
    torch.ops.fi_compat.fp4_quantize(X, SCALE, 16, False, True, False, False, False, True, None, False)
    launch = lent.launches[-1][1]
    assert (launch[8], launch[9]) == (False, True)


def test_upstreams_python_is_called_through_at_most_two_frames_of_ours(lent) -> None:
    """Public function and adapter; nothing else of ours is called once resolved."""
    fi_compat.fp4_quantize(X, SCALE)
    folder = os.path.dirname(fi_compat.__file__)
    ours = []

    def profile(frame, event, arg) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(folder):
            ours.append(frame.f_code.co_name)

    sys.setprofile(profile)
    try:
        fi_compat.fp4_quantize(X, SCALE)
    finally:
        sys.setprofile(None)
    assert ours == ["fp4_quantize", "fp4_quantize"]


def test_nvfp4_quantize(release, lent, parameters_of) -> None:
    """Layout by our enum, upstream's member or the integer; options refused where they are missing."""
    for layout in (SfLayout.layout_8x4, 1, lent.native.SfLayout.layout_8x4):
        with parameters_of("nvfp4_quantize") as seen:
            codes, sf = quantization.nvfp4_quantize(X, SCALE.double(), layout, enable_pdl=True)
        native = seen.seen["nvfp4_quantize"][0]
        assert native["sfLayout"] is lent.native.SfLayout.layout_8x4
        assert (native["backend"], native["enable_pdl"], native["a_global_sf"].dtype) == ("cuda", True, torch.float32)
        assert sf.shape == (8, 4)
        assert codes.shape == (4, 32)
    if since(release, "0.7.1"):
        assert native["nvfp4_4over6"] is None
    for option, value, first in (
        ("per_token_activation", True, "0.6.11"),
        ("out_scale", X, "0.7.1"),
        ("batch_invariant", True, "0.7.4"),
        ("nvfp4_4over6", object(), "0.7.1"),
    ):
        if not since(release, first):
            with pytest.raises(errors.UnsupportedFeatureError, match=option):
                quantization.nvfp4_quantize(X, SCALE, **{option: value})


def test_mxfp4_quantize_serves_every_layout_on_every_release(release, lent) -> None:
    """sfLayout appeared in 0.6.16; before, fp4_quantize does the same."""
    for layout, shape in ((SfLayout.layout_128x4, (128, 4)), (SfLayout.layout_8x4, (8, 4)), (SfLayout.layout_linear, (4, 2))):
        codes, sf = quantization.mxfp4_quantize(X, sfLayout=layout)
        assert (tuple(codes.shape), tuple(sf.shape)) == ((4, 32), shape)
        launch = lent.launches[-1][1]
        assert launch[4:8] == (32, True, layout != SfLayout.layout_linear, layout == SfLayout.layout_8x4)
    if not since(release, "0.6.16"):
        with pytest.raises(errors.UnsupportedFeatureError, match="sfLayout=layout_8x4"):
            quantization.mxfp4_quantize(X, sfLayout=SfLayout.layout_8x4, backend="cute-dsl")


def test_mxfp8_quantize_obeys_the_layout_with_cute_dsl(release, lent, cute_dsl) -> None:
    """Facts 1.7: up to 0.6.11.post3 the naive call's sf_swizzle_layout=linear is ignored there."""
    linear = lent.native.SfLayout.layout_linear
    lent.native.mxfp8_quantize(X, backend="cute-dsl", sf_swizzle_layout=linear)
    assert _says_linear(cute_dsl[-1]) == since(release, "0.6.12"), "naive"
    quantization.mxfp8_quantize(X, backend="cute-dsl", sf_swizzle_layout=SfLayout.layout_linear)
    assert _says_linear(cute_dsl[-1])
    if not since(release, "0.6.12"):
        with pytest.raises(errors.UnsupportedFeatureError, match="layout_8x4"):
            quantization.mxfp8_quantize(X, backend="cute-dsl", sf_swizzle_layout=SfLayout.layout_8x4)


def _says_linear(call) -> bool:
    _, args, kwargs = call
    values = [*args, *kwargs.values()]
    return (
        kwargs.get("is_sf_swizzled_layout") is False
        or any(getattr(v, "name", "") == "layout_linear" for v in values)
        or kwargs.get("sf_layout") == 2
    )


def test_the_other_siblings_pass_their_values(release, lent, parameters_of) -> None:
    """block_scale_interleave, e2m1_and_ufp8sf_scale_to_float, shuffle_matrix_a, shuffle_matrix_sf_a, mxfp8_quantize."""
    sf = torch.arange(128 * 4, dtype=torch.uint8).reshape(128, 4)
    names = ("block_scale_interleave", "e2m1_and_ufp8sf_scale_to_float", "shuffle_matrix_a", "shuffle_matrix_sf_a", "mxfp8_quantize")
    with parameters_of(*names) as seen:
        assert quantization.block_scale_interleave(sf).shape == (512,)
        quantization.mxfp8_quantize(X, alignment=64, is_sf_swizzled_layout=False)
        quantization.e2m1_and_ufp8sf_scale_to_float(torch.zeros(4, 32, dtype=torch.uint8), sf[:4], None, 16, 0, False)
        assert quantization.shuffle_matrix_a(sf, 128).shape == (128, 4)
        assert quantization.shuffle_matrix_sf_a(sf, 128).shape == (512,)
    assert seen.seen["block_scale_interleave"][0]["unswizzled_sf"] is sf
    native = seen.seen["mxfp8_quantize"][0]
    assert (native["alignment"], native["is_sf_swizzled_layout"], native["backend"]) == (64, False, "cuda")
    native = seen.seen["e2m1_and_ufp8sf_scale_to_float"][0]
    assert (native["ufp8_type"], native["is_sf_swizzled_layout"]) == (0, False)
    assert seen.seen["shuffle_matrix_a"][0]["epilogue_tile_m"] == 128
    assert seen.seen["shuffle_matrix_sf_a"][0]["num_elts_per_sf"] == 16
    out = torch.empty(512, dtype=torch.uint8)
    if since(release, "0.7.2.post1"):
        quantization.block_scale_interleave(sf, out=out)
    else:
        with pytest.raises(errors.UnsupportedFeatureError, match="out"):
            quantization.block_scale_interleave(sf, out=out)
    if not since(release, "0.6.16"):
        with pytest.raises(errors.UnsupportedFeatureError, match="is_sf_8x4_layout"):
            quantization.e2m1_and_ufp8sf_scale_to_float(torch.zeros(4, 32, dtype=torch.uint8), sf, is_sf_8x4_layout=True)


def test_the_reference_agrees_with_flashinfers_own_torch_dequantiser(release) -> None:
    """Where it runs on the CPU (linear layout, 0.6.10 and newer)."""
    import flashinfer.quantization.fp4_quantization as fp4

    dequantise = getattr(fp4, "_e2m1_and_ufp8sf_scale_to_float_cpu", None)
    assert (dequantise is not None) == since(release, "0.6.10")
    if dequantise is None:
        return
    codes, sf = reference.fp4_quantize(X, SCALE, is_sf_swizzled_layout=False)
    theirs = dequantise(codes, sf, 1 / SCALE, 16, 1, False)
    ours = reference.fp4_dequantize(codes, sf, SCALE, is_sf_swizzled_layout=False)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=0)
    stable = quantization.e2m1_and_ufp8sf_scale_to_float(codes, sf, 1 / SCALE, 16, 1, False, backend="reference")
    torch.testing.assert_close(stable, theirs, rtol=1e-6, atol=0)


FEATURE_PARAMETERS = {
    "fp4_quantize.is_global_scale_inversed": ("fp4_quantize", "is_global_scale_inversed"),
    "fp4_quantize.nvfp4_4over6": ("fp4_quantize", "nvfp4_4over6"),
    "fp4_quantize.batch_invariant": ("fp4_quantize", "batch_invariant"),
    "nvfp4_quantize.per_token_activation": ("nvfp4_quantize", "per_token_activation"),
    "block_scale_interleave.out": ("block_scale_interleave", "out"),
}


@pytest.mark.parametrize("feature", FEATURE_PARAMETERS)
def test_has_agrees_with_the_imported_signature(feature) -> None:
    """The table's intervals are checked against each release."""
    import flashinfer

    function, parameter = FEATURE_PARAMETERS[feature]
    _bindings.reset()
    assert fi_compat.has(feature) == (parameter in inspect.signature(getattr(flashinfer, function)).parameters)


def test_b14_comm_imports_or_says_what_mends_it(release) -> None:
    """B14, facts 2.0: 0.6.16 to .post3 subscript array.array at import, which Python below 3.12 refuses."""
    from fi_compat._upstream import import_upstream

    fi_compat.active("flashinfer")
    broken = release in {"0.6.16", "0.6.16.post1", "0.6.16.post2", "0.6.16.post3"} and sys.version_info < (3, 12)
    if broken:
        with pytest.raises(errors.UpstreamImportError, match=r"pip install flashinfer-python==0\.6\.16\.post4") as info:
            import_upstream("flashinfer.comm")
        assert isinstance(info.value.__cause__, TypeError)
    else:
        assert hasattr(import_upstream("flashinfer.comm"), "create_allreduce_fusion_workspace")


def test_prepare_binds_everything_of_flashinfer(lent) -> None:
    """After prepare() the adapter's callables are upstream's own functions."""
    fi_compat.prepare("fp4_quantize", "nvfp4_quantize", "mxfp8_quantize")
    adapter = _bindings.flashinfer
    for upstream in adapter.UPSTREAMS["fp4_quantize"]:
        assert upstream.call is lent.native.fp4_quantize
    with pytest.raises(ValueError, match="fp4_quantize"):
        fi_compat.prepare("fp4_quantise")


def test_the_release_is_in_the_table(release) -> None:
    """The list that nox runs is the list that the package knows."""
    assert release in _table.FLASHINFER_RELEASES
