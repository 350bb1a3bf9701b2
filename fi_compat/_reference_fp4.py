"""FP4 quantization in plain torch: the kernel's arithmetic, step by step, on any device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["e2m1_decode", "e2m1_encode", "fp4_dequantize", "fp4_quantize", "round_up", "swizzle_sf", "unswizzle_sf"]

#: Largest magnitudes of the formats.
E2M1_MAX: Final = 6.0
E4M3_MAX: Final = 448.0
_E2M1_VALUES: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def round_up(value: int, multiple: int) -> int:
    """Round up to a multiple."""
    return -(-value // multiple) * multiple


def swizzle_sf(sf: Tensor, *, is_sf_8x4_layout: bool = False) -> Tensor:
    """Reorder linear scale factors into the 128x4 or 8x4 layout that FP4 GEMMs read.

    Parameters
    ----------
    sf : Tensor
        Linear scale factors, ``[m, c]`` or ``[b, m, c]``, one byte each.
    is_sf_8x4_layout : bool
        Tiles of 8 rows by 4 columns instead of 128 by 4.

    Returns
    -------
    Tensor
        ``[round_up(m, 128 or 8), round_up(c, 4)]`` (batches concatenated along rows); padding is 0. Inside a 128x4 tile,
        row ``r`` and column ``c`` are at byte ``(r % 32) * 16 + (r // 32) * 4 + c``; in an 8x4 tile at ``r * 4 + c``.

    Notes
    -----
    Same bytes as FlashInfer's ``block_scale_interleave`` (flat there) and torchao's ``to_blocked``.
    """
    import torch

    batched = sf if sf.dim() == 3 else sf.unsqueeze(0)
    b, m, c = batched.shape
    rows = 8 if is_sf_8x4_layout else 128
    rows_padded, columns_padded = round_up(m, rows), round_up(c, 4)
    padded = torch.zeros((b, rows_padded, columns_padded), dtype=sf.dtype, device=sf.device)
    padded[:, :m, :c] = batched
    tiles = padded.reshape(b, rows_padded // rows, rows, columns_padded // 4, 4).permute(0, 1, 3, 2, 4)
    if not is_sf_8x4_layout:
        tiles = tiles.reshape(b, rows_padded // 128, columns_padded // 4, 4, 32, 4).transpose(3, 4)
    return tiles.reshape(b * rows_padded, columns_padded)


def unswizzle_sf(sf: Tensor, m: int, columns: int, *, is_sf_8x4_layout: bool = False) -> Tensor:
    """Undo ``swizzle_sf`` and cut the padding off.

    Parameters
    ----------
    sf : Tensor
        Swizzled scale factors of any shape with ``round_up(m, 128 or 8) * round_up(columns, 4)`` elements.
    m, columns : int
        Rows, and scale factors a row, of the linear layout.
    is_sf_8x4_layout : bool
        Tiles of 8 rows by 4 columns instead of 128 by 4.

    Returns
    -------
    Tensor
        ``[m, columns]``, same dtype and device.

    Raises
    ------
    ValueError
        The number of elements is not that of the layout.
    """
    rows = 8 if is_sf_8x4_layout else 128
    rows_padded, columns_padded = round_up(m, rows), round_up(columns, 4)
    if sf.numel() != rows_padded * columns_padded:
        raise ValueError(
            f"unswizzle_sf: found {sf.numel()} scale factors, needed {rows_padded * columns_padded} for m={m}, columns={columns} in the"
            f" {rows}x4 layout: pass the layout that the tensor was made with"
        )
    tiles = sf.reshape(rows_padded // rows, columns_padded // 4, rows * 4)
    if is_sf_8x4_layout:
        tiles = tiles.reshape(-1, columns_padded // 4, 8, 4)
    else:
        tiles = tiles.reshape(-1, columns_padded // 4, 32, 4, 4).transpose(2, 3).reshape(-1, columns_padded // 4, 128, 4)
    return tiles.permute(0, 2, 1, 3).reshape(rows_padded, columns_padded)[:m, :columns].contiguous()


def e2m1_encode(values: Tensor) -> Tensor:
    """Round float32 values to e2m1 codes (0 to 15), to nearest even, saturating.

    NaN becomes code 7 (+6), as ``cvt.rn.satfinite.e2m1x2`` has no NaN to give; the sign of zero is kept.
    """
    import torch

    a = values.abs()
    # Half-way points go to the even code: 0.25 down, 0.75 up, 1.25 down, and so on.
    code = (
        (a > 0.25).to(torch.uint8)
        + (a >= 0.75).to(torch.uint8)
        + (a > 1.25).to(torch.uint8)
        + (a >= 1.75).to(torch.uint8)
        + (a > 2.5).to(torch.uint8)
        + (a >= 3.5).to(torch.uint8)
        + (a > 5.0).to(torch.uint8)
    )
    nan = values.isnan()
    code = torch.where(nan, 7, code)
    return code | (torch.signbit(values) & ~nan).to(torch.uint8) << 3


def e2m1_decode(codes: Tensor) -> Tensor:
    """Turn e2m1 codes (0 to 15) into float32."""
    import torch

    table = torch.tensor([*_E2M1_VALUES, *(-v for v in _E2M1_VALUES)], dtype=torch.float32, device=codes.device)
    return table[codes.long()]


def _e8m0_round_up(values: Tensor) -> Tensor:
    """Round non-negative float32 up to a power of two and return its biased exponent, at most 254."""
    import torch

    bits = values.view(torch.int32)
    exponent, mantissa = bits >> 23, bits & 0x7FFFFF
    # Below 2**-126 the exponent field is 0: anything above 2**-127 rounds up to code 1.
    up = torch.where(exponent == 0, mantissa > 0x400000, mantissa > 0)
    return (exponent + up.to(torch.int32)).clamp_max(254).to(torch.uint8)


def _e8m0_value(codes: Tensor) -> Tensor:
    import torch

    wide = codes.to(torch.int32)
    # Code 0 is 2**-127, which is subnormal.
    return torch.where(wide == 0, 0x400000, wide << 23).view(torch.float32)


def fp4_quantize(
    input: Tensor,
    global_scale: Tensor | None = None,
    sf_vec_size: int = 16,
    sf_use_ue8m0: bool = False,
    is_sf_swizzled_layout: bool = True,
    is_sf_8x4_layout: bool = False,
    *,
    is_global_scale_inversed: bool = False,
    per_token_scale: bool = False,
) -> tuple[Tensor, Tensor]:
    """Quantize to NVFP4 (e4m3 scale per 16) or MXFP4 (e8m0 scale per 32) in plain torch, on any device.

    Parameters
    ----------
    input : Tensor
        ``[..., K]``, float16, bfloat16 or float8_e4m3fn; a column-major matrix is quantized along its rows' stride, as
        FlashInfer's cuda backend does.
    global_scale : Tensor, optional
        One float32 element, or one per row with ``per_token_scale``; required for NVFP4, ignored for MXFP4 unless the
        input is float8. ``448 * 6 / amax`` uses the range best.
    sf_vec_size : {16, 32}
        Elements per scale factor: 16 for NVFP4, 32 for MXFP4.
    sf_use_ue8m0 : bool
        MXFP4 (True) or NVFP4 (False).
    is_sf_swizzled_layout, is_sf_8x4_layout : bool
        Layout of the scale factors: 128x4, 8x4, or linear.
    is_global_scale_inversed : bool
        ``global_scale`` is the inverse of what multiplies.
    per_token_scale : bool
        ``global_scale`` has one element per row.

    Returns
    -------
    tuple of Tensor
        Packed codes, uint8 ``[..., K // 2]``, low nibble first, and scale factors, uint8 ``[rows, columns]``.

    Raises
    ------
    ValueError
        A shape, dtype or combination that the formats do not have.

    Notes
    -----
    The kernel's order of operations in float32 (``cvt_warp_fp16_to_fp4``), with an exact reciprocal where the kernel has
    an approximate one, so a code may differ by one step. Named cases: an all-zero block has scale 0 and codes 0; NaN is
    ignored by the block maximum and becomes +6; infinity saturates the scale (448, or 2**127) and the code (6).
    """
    import torch

    if input.dim() < 2 or input.dtype not in {torch.float16, torch.bfloat16, torch.float8_e4m3fn}:
        raise ValueError(
            f"fp4_quantize: found input {tuple(input.shape)} {input.dtype}, needed [..., K] in float16, bfloat16 or float8_e4m3fn"
        )
    if input.stride(-2) == 1 and input.stride(-1) != 1:
        codes, sf = fp4_quantize(
            input.transpose(-2, -1),
            global_scale,
            sf_vec_size,
            sf_use_ue8m0,
            is_sf_swizzled_layout,
            is_sf_8x4_layout,
            is_global_scale_inversed=is_global_scale_inversed,
            per_token_scale=per_token_scale,
        )
        return codes.transpose(-2, -1), sf.transpose(-2, -1)
    if sf_vec_size != (32 if sf_use_ue8m0 else 16) or input.shape[-1] % sf_vec_size:
        raise ValueError(
            f"fp4_quantize: found sf_vec_size={sf_vec_size}, sf_use_ue8m0={sf_use_ue8m0}, K={input.shape[-1]}, needed 16 with False (NVFP4) or"
            " 32 with True (MXFP4), and K a multiple of it"
        )
    k = input.shape[-1]
    x = input.reshape(-1, k).float()
    m = x.shape[0]
    scale = _global_scale(global_scale, m, x, sf_use_ue8m0, is_global_scale_inversed, per_token_scale)
    is_fp8 = input.dtype == torch.float8_e4m3fn
    if is_fp8:
        x = (x * (E2M1_MAX * (1.0 / scale))).to(torch.float16).float()
    blocks = x.reshape(m, k // sf_vec_size, sf_vec_size)
    amax = torch.where(blocks.isnan(), 0.0, blocks.abs()).amax(-1)
    sixth = torch.tensor(1.0 / 6.0, dtype=torch.float32, device=x.device)
    if sf_use_ue8m0:
        wanted = amax * sixth * scale if is_fp8 else amax * sixth
        sf = _e8m0_round_up(wanted)
        # The kernel's exp2f_rcp gives 1 for exponent 0.
        inverse = torch.where(sf == 0, 1.0, 1.0 / _e8m0_value(sf)) if not is_fp8 else scale / _e8m0_value(sf)
    else:
        narrow = (scale * (amax * sixth)).clamp_max(E4M3_MAX).to(torch.float8_e4m3fn)
        sf = narrow.view(torch.uint8)
        inverse = scale * (1.0 / narrow.float()) if is_fp8 else 1.0 / (narrow.float() * (1.0 / scale))
    inverse = torch.where(amax == 0, 0.0, inverse)
    codes = e2m1_encode(blocks * inverse.unsqueeze(-1)).reshape(m, k)
    packed = codes[:, 0::2] | codes[:, 1::2] << 4
    if is_sf_swizzled_layout:
        sf = swizzle_sf(sf, is_sf_8x4_layout=is_sf_8x4_layout)
    return packed.reshape(*input.shape[:-1], k // 2), sf


def _global_scale(global_scale: Tensor | None, m: int, x: Tensor, sf_use_ue8m0: bool, inversed: bool, per_token_scale: bool) -> Tensor:
    """Check the global scale and return it as float32 ``[1 or m, 1]``."""
    import torch

    if global_scale is None:
        if not sf_use_ue8m0:
            raise ValueError("fp4_quantize: found global_scale=None, needed one float32 element for NVFP4: pass 448 * 6 / amax")
        return torch.ones((1, 1), dtype=torch.float32, device=x.device)
    wanted = m if per_token_scale else 1
    if global_scale.numel() != wanted:
        raise ValueError(scale_message("fp4_quantize", global_scale.numel(), m, per_token_scale))
    scale = global_scale.to(device=x.device, dtype=torch.float32).reshape(-1, 1)
    return 1.0 / scale if inversed else scale


def scale_message(function: str, numel: int, m: int, per_token_scale: bool) -> str:
    """Say what is wrong with the number of elements of a global scale; shared with the kernel backends."""
    if per_token_scale:
        return f"{function}: found global_scale with {numel} elements and per_token_scale=True, needed {m}, one per row of input"
    return (
        f"{function}: found global_scale with {numel} elements, needed 1 (which element counts changed between releases): slice"
        " global_scale[:1], or set per_token_scale=True for one scale per row"
    )


def fp4_dequantize(
    codes: Tensor,
    sf: Tensor,
    global_scale: Tensor | None = None,
    sf_vec_size: int = 16,
    sf_use_ue8m0: bool = False,
    is_sf_swizzled_layout: bool = True,
    is_sf_8x4_layout: bool = False,
) -> Tensor:
    """Turn packed FP4 back into float32, on any device.

    Parameters
    ----------
    codes : Tensor
        Packed codes, uint8 ``[..., K // 2]``, low nibble first.
    sf : Tensor
        Scale factors as ``fp4_quantize`` returns them for the same layout.
    global_scale : Tensor, optional
        What ``fp4_quantize`` was given; values are divided by it. One element or one per row.
    sf_vec_size : {16, 32}
        Elements per scale factor.
    sf_use_ue8m0, is_sf_swizzled_layout, is_sf_8x4_layout : bool
        Format and layout, as for ``fp4_quantize``.

    Returns
    -------
    Tensor
        float32 ``[..., K]``.
    """
    import torch

    k = codes.shape[-1] * 2
    flat = codes.reshape(-1, k // 2)
    m, columns = flat.shape[0], k // sf_vec_size
    linear = unswizzle_sf(sf, m, columns, is_sf_8x4_layout=is_sf_8x4_layout) if is_sf_swizzled_layout else sf.reshape(m, columns)
    scale = _e8m0_value(linear) if sf_use_ue8m0 else linear.view(torch.float8_e4m3fn).float()
    if global_scale is not None:
        scale = scale / global_scale.to(device=codes.device, dtype=torch.float32).reshape(-1, 1)
    values = e2m1_decode(torch.stack((flat & 0xF, flat >> 4), -1).reshape(m, k))
    out = values.reshape(m, columns, sf_vec_size) * scale.unsqueeze(-1)
    return out.reshape(*codes.shape[:-1], k)
