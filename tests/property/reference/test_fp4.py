"""FP4 in plain torch: hand-computed vectors, torchao as an independent oracle, round trips, layouts."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from fi_compat import errors, quantization, reference
from fi_compat._reference_fp4 import e2m1_decode, e2m1_encode

SETTINGS = settings(max_examples=60, deadline=None, database=None)


def test_e2m1_codes_by_hand() -> None:
    """Every half-way point goes to the even code, the rest to the nearest; saturating, sign kept, NaN is +6."""
    values = [0.0, 0.25, 0.26, 0.5, 0.75, 1.0, 1.25, 1.26, 1.75, 2.5, 2.6, 3.5, 5.0, 5.1, 6.0, 7.0, float("inf"), float("nan")]
    codes = [0, 0, 1, 1, 2, 2, 2, 3, 4, 4, 5, 6, 6, 7, 7, 7, 7, 7]
    assert e2m1_encode(torch.tensor(values)).tolist() == codes
    finite = torch.tensor([v for v in values if v == v])
    assert e2m1_encode(-finite).tolist() == [c | 8 for v, c in zip(values, codes, strict=True) if v == v]
    assert e2m1_decode(torch.arange(16)).tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]


def test_nvfp4_by_hand() -> None:
    """One block: amax 12, scale 12 / 6 = 2 = e4m3 0x40, codes of x / 2, low nibble first."""
    x = torch.tensor([[12, 6, 4, 2, 1, 0, -1, -12, 8, 3, 0.5, -2, 10, 5, 7, -0.0]], dtype=torch.bfloat16)
    codes, sf = reference.fp4_quantize(x, torch.tensor([1.0]), is_sf_swizzled_layout=False)
    assert sf.tolist() == [[0x40]]
    expected = [7, 5, 4, 2, 1, 0, 9, 15, 6, 3, 0, 10, 6, 4, 6, 8]  # 5 / 2 = 2.5 and 7 / 2 = 3.5 are half-way
    assert codes.tolist() == [[expected[i] | expected[i + 1] << 4 for i in range(0, 16, 2)]]


def test_mxfp4_by_hand() -> None:
    """amax 12: 12 / 6 = 2 = 2**1, byte 128; amax 13 rounds up to 2**2, byte 129."""
    for top, byte, code in ((12.0, 128, 7), (13.0, 129, 5)):
        x = torch.zeros(1, 32, dtype=torch.float16)
        x[0, 0] = top
        codes, sf = reference.fp4_quantize(x, None, 32, True, is_sf_swizzled_layout=False)
        assert sf.tolist() == [[byte]]
        assert codes[0, 0] == code


@pytest.mark.parametrize(
    ("value", "byte"), [(0.0, 0), (6 * 2.0**-127, 0), (6 * 2.0**-126, 1), (6.0, 127), (6.1, 128), (3e38, 253), (float("inf"), 254)]
)
def test_e8m0_rounds_up(value, byte) -> None:
    """RCEIL, subnormals and saturation included."""
    x = torch.zeros(1, 32, dtype=torch.bfloat16)
    x[0, 0] = value
    assert reference.fp4_quantize(x, None, 32, True, is_sf_swizzled_layout=False)[1].tolist() == [[byte]]


def test_zero_nan_and_infinity_are_named_cases() -> None:
    """A zero block has scale 0 and codes 0; NaN is ignored by the maximum and becomes +6; infinity saturates both."""
    x = torch.zeros(3, 16, dtype=torch.bfloat16)
    x[1, :2] = torch.tensor([float("nan"), 3.0])
    x[2, :2] = torch.tensor([float("-inf"), 3.0])
    codes, sf = reference.fp4_quantize(x, torch.tensor([1.0]), is_sf_swizzled_layout=False)
    assert sf.reshape(-1).tolist() == [0, 0x30, 0x7E]
    assert codes[0].tolist() == [0] * 8
    assert codes[1, 0] == 0x77
    assert codes[2, 0] == 0x0F
    assert reference.fp4_dequantize(codes, sf, is_sf_swizzled_layout=False)[0].abs().sum() == 0


def test_the_scale_may_be_inverted_or_per_row() -> None:
    """1 / s inverted is s; one scale per row is that row alone."""
    x = torch.randn(4, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    scales = torch.tensor([1.0, 2.0, 4.0, 8.0])
    both = reference.fp4_quantize(x, scales, per_token_scale=True, is_sf_swizzled_layout=False)
    for i in range(4):
        alone = reference.fp4_quantize(x[i : i + 1], scales[i : i + 1], is_sf_swizzled_layout=False)
        inverted = reference.fp4_quantize(x[i : i + 1], 1 / scales[i : i + 1], is_global_scale_inversed=True, is_sf_swizzled_layout=False)
        for a, b, c in zip(alone, both, inverted, strict=True):
            assert torch.equal(a[0], b[i])
            assert torch.equal(a, c)


def _swizzle_by_hand(sf, rows_per_tile):
    """Write each byte to the address that the docstring gives, one at a time."""
    m, c = sf.shape
    columns = -(-c // 4)
    out = torch.zeros(-(-m // rows_per_tile) * columns * rows_per_tile * 4, dtype=sf.dtype)
    for row in range(m):
        for column in range(c):
            tile = (row // rows_per_tile) * columns + column // 4
            r, k = row % rows_per_tile, column % 4
            inside = (r % 32) * 16 + (r // 32) * 4 + k if rows_per_tile == 128 else r * 4 + k
            out[tile * rows_per_tile * 4 + inside] = sf[row, column]
    return out


@pytest.mark.parametrize("shape", [(1, 1), (8, 4), (9, 5), (128, 4), (130, 7), (200, 12)])
def test_the_swizzles_by_hand_and_back(shape) -> None:
    """128x4 and 8x4, addresses written out; unswizzle is the inverse; a wrong size is an error."""
    sf = torch.arange(shape[0] * shape[1]).remainder(251).to(torch.uint8).reshape(shape)
    for tile8 in (False, True):
        swizzled = reference.swizzle_sf(sf, is_sf_8x4_layout=tile8)
        assert torch.equal(swizzled.reshape(-1), _swizzle_by_hand(sf, 8 if tile8 else 128))
        assert torch.equal(reference.unswizzle_sf(swizzled, *shape, is_sf_8x4_layout=tile8), sf)
        with pytest.raises(ValueError, match="scale factors, needed"):
            reference.unswizzle_sf(swizzled.reshape(-1)[1:], *shape, is_sf_8x4_layout=tile8)
    flat = quantization.block_scale_interleave(sf, backend="reference")
    assert flat.dim() == 1
    batched = quantization.block_scale_interleave(torch.stack((sf, sf)), backend="reference")
    assert torch.equal(batched, torch.cat((flat, flat)))


def test_torchao_swizzles_to_the_same_bytes() -> None:
    """An independent implementation of the 128x4 layout."""
    from torchao.prototype.mx_formats.utils import from_blocked, to_blocked

    sf = torch.randint(0, 255, (200, 12), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    ours = reference.swizzle_sf(sf).reshape(-1)
    assert torch.equal(ours, to_blocked(sf).reshape(-1))
    assert torch.equal(from_blocked(ours.reshape(256, 12), 200, 12), sf)


@seed(0)
@SETTINGS
@given(st.integers(0, 2**31 - 1), st.sampled_from([torch.bfloat16, torch.float16]), st.sampled_from([1e-3, 1.0, 40.0, 1e4]))
def test_mxfp4_equals_torchao_rceil(number, dtype, spread) -> None:
    """Scale bytes and codes, all of them: RCEIL, not torchao's FLOOR default."""
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    from torchao.prototype.mx_formats.mx_tensor import to_mx

    x = (torch.randn(8, 128, generator=torch.Generator().manual_seed(number)) * spread).to(dtype)
    scale, codes = to_mx(x.float(), torch.float4_e2m1fn_x2, 32, ScaleCalculationMode.RCEIL)
    ours_codes, ours_sf = reference.fp4_quantize(x, None, 32, True, is_sf_swizzled_layout=False)
    assert torch.equal(ours_sf, scale.view(torch.uint8).reshape(8, 4))
    assert torch.equal(ours_codes, codes.view(torch.uint8).reshape(8, 64))


@seed(0)
@SETTINGS
@given(st.integers(0, 2**31 - 1), st.sampled_from([torch.bfloat16, torch.float16]))
def test_nvfp4_agrees_with_torchao(number, dtype) -> None:
    """global_scale is the inverse of torchao's per_tensor_scale.

    torchao rounds amax / 6 / per_tensor_scale where the kernel rounds global_scale * (amax * (1 / 6)): the two products
    differ in the last bit, so at most one scale byte in a hundred differs, by one e4m3 step, and with it that block's codes.
    """
    from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize, per_tensor_amax_to_scale

    x = torch.randn(16, 128, generator=torch.Generator().manual_seed(number)).to(dtype)
    per_tensor = per_tensor_amax_to_scale(x.float().abs().max())
    scale, codes = nvfp4_quantize(x.float(), 16, per_tensor)
    global_scale = 1.0 / per_tensor.reshape(1)
    ours_codes, ours_sf = reference.fp4_quantize(x, global_scale, is_sf_swizzled_layout=False)
    theirs = scale.view(torch.uint8).reshape(16, 8)
    step = (ours_sf.int() - theirs.int()).abs()
    assert step.max() <= 1
    assert (step > 0).float().mean() <= 0.02
    same = (step == 0).repeat_interleave(8, dim=1)
    codes = codes.view(torch.uint8).reshape(16, 64)
    unequal = (ours_codes != codes) & same
    assert unequal.float().mean() <= 0.01, "codes where the scales agree: an exact half-way point and a product in another order"


@seed(0)
@SETTINGS
@given(st.integers(0, 2**31 - 1), st.sampled_from([(True, False), (True, True), (False, False)]), st.booleans())
def test_a_round_trip_is_within_half_a_step(number, layout, mx) -> None:
    """Every value comes back within half the distance of its e2m1 neighbours, in every layout."""
    x = torch.randn(9, 96, generator=torch.Generator().manual_seed(number)).bfloat16()
    vec = 32 if mx else 16
    scale = None if mx else (448 * 6 / x.abs().max().float()).reshape(1)
    codes, sf = reference.fp4_quantize(x, scale, vec, mx, *layout)
    back = reference.fp4_dequantize(codes, sf, scale, vec, mx, *layout)
    block = x.float().reshape(9, -1, vec).abs().amax(-1).repeat_interleave(vec, 1)
    # The widest gap, 4 to 6, is a third of the range; MXFP4's scale is up to twice the least, NVFP4's up to 1/16 off.
    assert bool(((back - x.float()).abs() <= block * (1 / 3 if mx else 1 / 6 + 1 / 16)).all())


def test_column_major_input_is_quantized_along_its_rows() -> None:
    """As FlashInfer's cuda backend does: transposed in, transposed out."""
    x = torch.randn(32, 16, generator=torch.Generator().manual_seed(5)).bfloat16()
    scale = torch.tensor([2.0])
    codes, sf = reference.fp4_quantize(x.t(), scale, is_sf_swizzled_layout=False)
    plain_codes, plain_sf = reference.fp4_quantize(x, scale, is_sf_swizzled_layout=False)
    assert torch.equal(codes.t(), plain_codes)
    assert torch.equal(sf.t(), plain_sf)


def test_fp8_input_is_scaled_as_the_kernel_does() -> None:
    """float8 values are dequantised by 6 / global_scale to float16 first, and MXFP4 applies the scale too."""
    x = torch.randn(4, 64, generator=torch.Generator().manual_seed(6)).to(torch.float8_e4m3fn)
    scale = torch.tensor([6.0])
    for vec, mx in ((16, False), (32, True)):
        codes, sf = reference.fp4_quantize(x, scale, vec, mx, is_sf_swizzled_layout=False)
        assert codes.shape == (4, 32)
        assert sf.shape == (4, 64 // vec)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: reference.fp4_quantize(x.float(), torch.ones(1)), "torch.float32, needed"),
        (lambda x: reference.fp4_quantize(x[0], torch.ones(1)), "needed \\[..., K\\]"),
        (lambda x: reference.fp4_quantize(x), "global_scale=None"),
        (lambda x: reference.fp4_quantize(x, torch.ones(1), 32), "sf_vec_size=32, sf_use_ue8m0=False"),
        (lambda x: reference.fp4_quantize(x[:, :8].contiguous(), torch.ones(1)), "K=8"),
        (lambda x: reference.fp4_quantize(x, torch.ones(4)), "slice global_scale\\[:1\\]"),
        (lambda x: reference.fp4_quantize(x, torch.ones(3), per_token_scale=True), "needed 4, one per row"),
    ],
)
def test_bad_input_is_a_value_error_that_says_what_is_needed(call, says) -> None:
    """Shapes, dtypes, combinations."""
    with pytest.raises(ValueError, match=says):
        call(torch.ones(4, 64, dtype=torch.bfloat16))


def test_the_reference_backend_of_the_stable_functions() -> None:
    """Explicit only; any device, no FlashInfer."""
    x = torch.randn(4, 64, generator=torch.Generator().manual_seed(2)).half()
    scale = torch.tensor([3.0])
    expected = reference.fp4_quantize(x, scale)
    for found in (quantization.fp4_quantize(x, scale, backend="reference"), quantization.nvfp4_quantize(x, scale, backend="reference")):
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    expected = reference.fp4_quantize(x, None, 32, True)
    assert all(torch.equal(a, b) for a, b in zip(quantization.mxfp4_quantize(x, backend="reference"), expected, strict=True))
    with pytest.raises(errors.UnsupportedFeatureError, match="nvfp4_4over6"):
        quantization.fp4_quantize(x, scale, backend="reference", nvfp4_4over6=object())
    with pytest.raises(errors.UnsupportedFeatureError, match="do_shuffle"):
        quantization.nvfp4_quantize(x, scale, do_shuffle=True, backend="reference")


def test_the_reference_swizzle_is_a_permutation_with_padding() -> None:
    """Nothing is lost."""
    sf = torch.arange(1, 129, dtype=torch.int32).reshape(32, 4).to(torch.uint8)
    assert sorted(reference.swizzle_sf(sf).reshape(-1).tolist())[-128:] == sorted(sf.reshape(-1).tolist())
