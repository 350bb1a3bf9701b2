"""FP4 and MX quantization with one meaning on every FlashInfer release from 0.6.8 on."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

from . import _bindings
from ._device import BLACKWELL, require_blackwell
from ._unset import UNSET, Unset

if TYPE_CHECKING:
    from typing import NoReturn

    from torch import Tensor

__all__ = [
    "SfLayout",
    "block_scale_interleave",
    "e2m1_and_ufp8sf_scale_to_float",
    "fp4_quantize",
    "mxfp4_quantize",
    "mxfp8_quantize",
    "nvfp4_block_scale_interleave",
    "nvfp4_quantize",
    "shuffle_matrix_a",
    "shuffle_matrix_sf_a",
]


class SfLayout(IntEnum):
    """Layouts of scale factors; names and values are ``flashinfer.SfLayout``'s, which never changed."""

    layout_128x4 = 0
    layout_8x4 = 1
    layout_linear = 2


def _layout(value: Any) -> SfLayout:
    """Accept our member, upstream's member or the integer."""
    return SfLayout(getattr(value, "value", value))


def _backend(function: str, backend: str | Unset, batch_invariant: bool) -> str:
    """Apply the rule for ``backend``: "cuda" unless batch_invariant, where upstream demands "auto"."""
    if batch_invariant:
        if backend is UNSET or backend == "auto":
            return "auto"
        raise ValueError(
            f"{function}: found backend={backend!r} with batch_invariant=True, needed backend='auto', which picks the batch-invariant kernels:"
            " leave backend out"
        )
    # 0.7.4 resolves "auto" to "cuda"; older releases reject the word.
    return "cuda" if backend is UNSET or backend == "auto" else backend


def fp4_quantize(
    input: Tensor,
    global_scale: Tensor | None = None,
    sf_vec_size: int = 16,
    sf_use_ue8m0: bool = False,
    is_sf_swizzled_layout: bool = True,
    is_sf_8x4_layout: bool = False,
    *_positional: NoReturn,
    is_global_scale_inversed: bool = False,
    per_token_scale: bool = False,
    enable_pdl: bool | None = None,
    backend: str | Unset = UNSET,
    nvfp4_4over6: Any = None,
    batch_invariant: bool = False,
) -> tuple[Tensor, Tensor]:
    """Quantize a tensor to FP4 with one scale factor per block.

    Parameters
    ----------
    input : Tensor
        ``[..., K]``, float16, bfloat16 or float8_e4m3fn, on a CUDA device of compute capability 10.0 or newer.
    global_scale : Tensor, optional
        Multiplies the values before the block scale is taken; needed for NVFP4. One element, or one per row with
        ``per_token_scale``; converted to float32 on ``input.device`` if it is not that already.
    sf_vec_size : {16, 32}
        Elements per scale factor.
    sf_use_ue8m0 : bool
        Scale factors in ue8m0 (MXFP4, ``sf_vec_size=32``) instead of e4m3 (NVFP4, 16).
    is_sf_swizzled_layout : bool
        Swizzled scale factors (True), or linear.
    is_sf_8x4_layout : bool
        The 8x4 swizzle instead of 128x4.
    is_global_scale_inversed : bool
        ``global_scale`` is the inverse of what multiplies (0.6.11 and newer; not with "cute-dsl").
    per_token_scale : bool
        ``global_scale`` has one element per row of ``input`` (0.6.11 and newer). The meaning never follows from the shape.
    enable_pdl : bool, optional
        Programmatic dependent launch; None lets upstream decide by device.
    backend : str
        "cuda" by default, whatever the release's own default is; "auto" is "cuda", and the batch-invariant kernels with
        ``batch_invariant``; "cute-dsl" is passed on; "reference" is plain torch on any device.
    nvfp4_4over6 : NVFP44Over6Config, optional
        A recipe of 0.7.1 and newer. None is off, whatever the environment says.
    batch_invariant : bool
        Results that do not depend on the batch (0.7.4 and newer).

    Returns
    -------
    tuple of Tensor
        Packed codes, uint8 ``[..., K // 2]``, and scale factors, uint8 2-D: ``[m, K // sf_vec_size]`` linear, or
        ``[round_up(m, 128 or 8), round_up(K // sf_vec_size, 4)]`` swizzled.

    Raises
    ------
    TypeError
        A seventh positional argument.
    ValueError
        ``global_scale`` is missing or has the wrong number of elements, or ``backend`` contradicts ``batch_invariant``.
    UnsupportedFeatureError
        An option that the installed release lacks.
    UnsupportedDeviceError
        A CPU tensor, or a device below compute capability 10.0 (0.6.8 to 0.7.2.post1 return uninitialised memory there).
    ConfigurationError
        ``FLASHINFER_NVFP4_4OVER6`` is on and the release cannot be told otherwise (0.6.12 to 0.7.0.post1).

    Notes
    -----
    ``flashinfer.fp4_quantize``. Position 6 is enable_pdl up to 0.6.10.post1 and is_global_scale_inversed from 0.6.11 on,
    so it is keyword-only here. ``nvfp4_4over6`` appeared in 0.7.1, ``batch_invariant`` in 0.7.4, where the default
    backend became "auto". Before 0.6.13 a global_scale that is not float32 on the device was read as raw memory.
    """
    if _positional:
        raise TypeError(
            f"fp4_quantize takes 6 positional arguments, found {6 + len(_positional)}: the seventh is enable_pdl up to FlashInfer 0.6.10.post1"
            " and is_global_scale_inversed after, which inverts the scale: pass it by keyword"
        )
    # A recipe cannot cross an op: with one, Dynamo breaks the graph as it does at upstream's own function.
    if _bindings.is_compiling() and nvfp4_4over6 is None:
        return _bindings.ops.fp4_quantize(  # type: ignore[no-any-return]
            input,
            global_scale,
            sf_vec_size,
            sf_use_ue8m0,
            is_sf_swizzled_layout,
            is_sf_8x4_layout,
            is_global_scale_inversed,
            per_token_scale,
            enable_pdl,
            None if backend is UNSET else backend,
            batch_invariant,
        )
    if backend is UNSET and not batch_invariant:
        backend = "cuda"
    elif backend == "reference":
        return _reference_fp4_quantize(
            input,
            global_scale,
            sf_vec_size,
            sf_use_ue8m0,
            is_sf_swizzled_layout,
            is_sf_8x4_layout,
            is_global_scale_inversed,
            per_token_scale,
            nvfp4_4over6,
        )
    else:
        backend = _backend("fp4_quantize", backend, batch_invariant)
    index = input.get_device()
    if index not in BLACKWELL:
        require_blackwell("fp4_quantize", index)
    adapter = _bindings.flashinfer
    if global_scale is not None:
        if global_scale.dtype is not _bindings.float32 or global_scale.get_device() != index:
            global_scale = _as_float32(global_scale, input)
        numel = global_scale.numel()
        if numel != 1 or per_token_scale:
            _check_scale("fp4_quantize", numel, input, per_token_scale)
    elif not sf_use_ue8m0 and not batch_invariant:
        raise ValueError("fp4_quantize: found global_scale=None, needed one float32 element for NVFP4: pass 448 * 6 / amax")
    return adapter.fp4_quantize(
        input,
        global_scale,
        sf_vec_size,
        sf_use_ue8m0,
        is_sf_swizzled_layout,
        is_sf_8x4_layout,
        is_global_scale_inversed,
        per_token_scale,
        enable_pdl,
        backend,
        nvfp4_4over6,
        batch_invariant,
    )


def _as_float32(scale: Tensor, like: Tensor) -> Tensor:
    """Convert a scale that differs from what the kernel reads."""
    import torch

    return scale.to(device=like.device, dtype=torch.float32)


def _check_scale(function: str, numel: int, input: Tensor, per_token_scale: bool) -> None:
    """Raise ValueError for a global scale whose number of elements means something else on another release."""
    from ._reference_fp4 import scale_message

    m = input.numel() // input.shape[-1] if input.shape[-1] else 0
    if numel != (m if per_token_scale else 1):
        raise ValueError(scale_message(function, numel, m, per_token_scale))


def _reference_fp4_quantize(
    input: Tensor,
    global_scale: Tensor | None,
    sf_vec_size: int,
    sf_use_ue8m0: bool,
    is_sf_swizzled_layout: bool,
    is_sf_8x4_layout: bool,
    is_global_scale_inversed: bool,
    per_token_scale: bool,
    nvfp4_4over6: Any,
) -> tuple[Tensor, Tensor]:
    from . import _reference_fp4
    from .errors import UnsupportedFeatureError

    if nvfp4_4over6 is not None:
        raise UnsupportedFeatureError(
            "fp4_quantize: nvfp4_4over6 cannot be served by backend='reference': found a recipe, needed None, or a kernel backend",
            feature="nvfp4_4over6",
            found="backend='reference'",
        )
    return _reference_fp4.fp4_quantize(
        input,
        global_scale,
        sf_vec_size,
        sf_use_ue8m0,
        is_sf_swizzled_layout,
        is_sf_8x4_layout,
        is_global_scale_inversed=is_global_scale_inversed,
        per_token_scale=per_token_scale,
    )


def nvfp4_quantize(
    a: Tensor,
    a_global_sf: Tensor,
    sfLayout: SfLayout | int = SfLayout.layout_128x4,
    do_shuffle: bool = False,
    sf_vec_size: int = 16,
    *,
    enable_pdl: bool | None = None,
    backend: str | Unset = UNSET,
    per_token_activation: bool = False,
    expanded_idx_to_permuted_idx: Tensor | None = None,
    out_scale: Tensor | None = None,
    nvfp4_4over6: Any = None,
    batch_invariant: bool = False,
) -> tuple[Tensor, ...]:
    """Quantize to NVFP4, with a choice of scale-factor layout and trtllm-gen's weight shuffle.

    Parameters
    ----------
    a : Tensor
        ``[M, K]``, float16, bfloat16 or float8_e4m3fn, on a CUDA device of compute capability 10.0 or newer. Upstream
        would copy a CPU tensor to the current device; here it is refused.
    a_global_sf : Tensor
        One element; the inverse scale with ``per_token_activation``.
    sfLayout : SfLayout or int
        Ours, upstream's member, or its value.
    do_shuffle : bool
        Shuffle rows for trtllm-gen (only with ``layout_128x4``).
    sf_vec_size : int
        16.
    enable_pdl, backend, nvfp4_4over6, batch_invariant
        As for ``fp4_quantize``; "cake" is a backend from 0.7.2 on.
    per_token_activation : bool
        One scale per row, returned as a third tensor (0.6.11 and newer; synchronises the device).
    expanded_idx_to_permuted_idx : Tensor, optional
        int32, with ``per_token_activation`` (0.6.11 and newer).
    out_scale : Tensor, optional
        Where to write the scale factors (0.7.1 and newer).

    Returns
    -------
    tuple of Tensor
        Codes, uint8 ``[M, K // 2]``; scale factors, uint8 2-D as for ``fp4_quantize``; and the per-row scales with
        ``per_token_activation``.

    Raises
    ------
    ValueError, UnsupportedFeatureError, UnsupportedDeviceError, ConfigurationError
        As for ``fp4_quantize``.

    Notes
    -----
    ``flashinfer.nvfp4_quantize``.
    """
    layout = sfLayout if type(sfLayout) is SfLayout else _layout(sfLayout)
    if backend == "reference":
        return _reference_nvfp4(a, a_global_sf, layout, do_shuffle, per_token_activation or out_scale is not None, nvfp4_4over6)
    backend = "cuda" if backend is UNSET and not batch_invariant else _backend("nvfp4_quantize", backend, batch_invariant)
    index = a.get_device()
    if index not in BLACKWELL:
        require_blackwell("nvfp4_quantize", index)
    adapter = _bindings.flashinfer
    if a_global_sf.dtype is not _bindings.float32 or a_global_sf.get_device() != index:
        a_global_sf = _as_float32(a_global_sf, a)
    if a_global_sf.numel() != 1:
        _check_scale("nvfp4_quantize", a_global_sf.numel(), a, per_token_scale=False)
    return adapter.nvfp4_quantize(
        a,
        a_global_sf,
        layout,
        do_shuffle,
        sf_vec_size,
        enable_pdl,
        backend,
        per_token_activation,
        expanded_idx_to_permuted_idx,
        out_scale,
        nvfp4_4over6,
        batch_invariant,
    )


def _reference_nvfp4(
    a: Tensor, a_global_sf: Tensor, layout: SfLayout, do_shuffle: bool, other_options: bool, nvfp4_4over6: Any
) -> tuple[Tensor, ...]:
    from .errors import UnsupportedFeatureError

    if do_shuffle or other_options:
        raise UnsupportedFeatureError(
            "nvfp4_quantize: do_shuffle, per_token_activation and out_scale cannot be served by backend='reference': needed a kernel backend",
            feature="do_shuffle",
            found="backend='reference'",
        )
    return _reference_fp4_quantize(
        a,
        a_global_sf,
        16,
        sf_use_ue8m0=False,
        is_sf_swizzled_layout=layout is not SfLayout.layout_linear,
        is_sf_8x4_layout=layout is SfLayout.layout_8x4,
        is_global_scale_inversed=False,
        per_token_scale=False,
        nvfp4_4over6=nvfp4_4over6,
    )


def mxfp4_quantize(
    a: Tensor,
    backend: str | Unset = UNSET,
    enable_pdl: bool | None = None,
    sfLayout: SfLayout | int = SfLayout.layout_128x4,
    *,
    batch_invariant: bool = False,
) -> tuple[Tensor, Tensor]:
    """Quantize to MXFP4: e2m1 codes with one ue8m0 scale factor per 32 elements.

    Parameters
    ----------
    a : Tensor
        ``[M, K]``, float16 or bfloat16, on a CUDA device of compute capability 10.0 or newer.
    backend, enable_pdl, batch_invariant
        As for ``fp4_quantize``.
    sfLayout : SfLayout or int
        On releases before 0.6.16, where upstream's function has no such parameter, other layouts than 128x4 are served by
        ``fp4_quantize`` with the same format and backend "cuda".

    Returns
    -------
    tuple of Tensor
        Codes, uint8 ``[M, K // 2]``, and scale factors, uint8 2-D as for ``fp4_quantize``.

    Raises
    ------
    ValueError, UnsupportedFeatureError, UnsupportedDeviceError
        As for ``fp4_quantize``.

    Notes
    -----
    ``flashinfer.mxfp4_quantize``; sfLayout appeared in 0.6.16, batch_invariant in 0.7.4.
    """
    layout = sfLayout if type(sfLayout) is SfLayout else _layout(sfLayout)
    if backend == "reference":
        return _reference_fp4_quantize(
            a,
            None,
            32,
            sf_use_ue8m0=True,
            is_sf_swizzled_layout=layout is not SfLayout.layout_linear,
            is_sf_8x4_layout=layout is SfLayout.layout_8x4,
            is_global_scale_inversed=False,
            per_token_scale=False,
            nvfp4_4over6=None,
        )
    backend = "cuda" if backend is UNSET and not batch_invariant else _backend("mxfp4_quantize", backend, batch_invariant)
    index = a.get_device()
    if index not in BLACKWELL:
        require_blackwell("mxfp4_quantize", index)
    return _bindings.flashinfer.mxfp4_quantize(a, backend, enable_pdl, layout, batch_invariant)


def mxfp8_quantize(
    input: Tensor,
    is_sf_swizzled_layout: bool = True,
    alignment: int = 32,
    enable_pdl: bool | None = None,
    backend: str | Unset = UNSET,
    sf_swizzle_layout: SfLayout | int | None = None,
    *,
    batch_invariant: bool = False,
) -> tuple[Tensor, Tensor]:
    """Quantize to MXFP8: e4m3 values with one ue8m0 scale factor per 32 elements.

    Parameters
    ----------
    input : Tensor
        ``[M, K]``, float16 or bfloat16, on a CUDA device of compute capability 10.0 or newer.
    is_sf_swizzled_layout : bool
        128x4 (True) or linear; ``sf_swizzle_layout`` overrides it.
    alignment : int
        Columns are padded to a multiple of it.
    enable_pdl, backend, batch_invariant
        As for ``fp4_quantize``.
    sf_swizzle_layout : SfLayout or int, optional
        The layout; with "cute-dsl" from 0.6.12 on (0.6.8 to 0.6.11.post3 ignore it there).

    Returns
    -------
    tuple of Tensor
        float8_e4m3fn ``[M, K]``, and scale factors, uint8, flat for every layout.

    Raises
    ------
    ValueError, UnsupportedFeatureError, UnsupportedDeviceError
        As for ``fp4_quantize``.

    Notes
    -----
    ``flashinfer.mxfp8_quantize`` (0.7.4 has another function of that name under ``flashinfer.experimental``).
    """
    layout = None if sf_swizzle_layout is None else _layout(sf_swizzle_layout)
    backend = "cuda" if backend is UNSET and not batch_invariant else _backend("mxfp8_quantize", backend, batch_invariant)
    index = input.get_device()
    if index not in BLACKWELL:
        require_blackwell("mxfp8_quantize", index)
    return _bindings.flashinfer.mxfp8_quantize(input, is_sf_swizzled_layout, alignment, enable_pdl, backend, layout, batch_invariant)


def block_scale_interleave(unswizzled_sf: Tensor, *, out: Tensor | None = None, backend: str | Unset = UNSET) -> Tensor:
    """Reorder linear scale factors into the 128x4 layout.

    Parameters
    ----------
    unswizzled_sf : Tensor
        uint8 (or bfloat16, kernel backend only) ``[m, c]`` or ``[b, m, c]``, on a CUDA device of compute capability 10.0 or
        newer; any device with "reference".
    out : Tensor, optional
        Flat, contiguous, of the padded size (0.7.2.post1 and newer).
    backend : str
        UNSET for the kernel, "reference" for plain torch.

    Returns
    -------
    Tensor
        Flat, ``b * round_up(m, 128) * round_up(c, 4)`` elements.

    Raises
    ------
    UnsupportedFeatureError
        ``out`` on a release that lacks it.
    UnsupportedDeviceError
        As for ``fp4_quantize``.

    Notes
    -----
    ``flashinfer.block_scale_interleave``, of which ``nvfp4_block_scale_interleave`` is an alias.
    """
    if backend == "reference":
        from ._reference_fp4 import swizzle_sf

        swizzled = swizzle_sf(unswizzled_sf).reshape(-1)
        return swizzled if out is None else out.copy_(swizzled)
    index = unswizzled_sf.get_device()
    if index not in BLACKWELL:
        require_blackwell("block_scale_interleave", index)
    return _bindings.flashinfer.block_scale_interleave(unswizzled_sf, out)


nvfp4_block_scale_interleave = block_scale_interleave


def e2m1_and_ufp8sf_scale_to_float(
    e2m1_tensor: Tensor,
    ufp8_scale_tensor: Tensor,
    global_scale_tensor: Tensor | None = None,
    sf_vec_size: int = 16,
    ufp8_type: int = 1,
    is_sf_swizzled_layout: bool = True,
    *,
    is_sf_8x4_layout: bool = False,
    backend: str | Unset = UNSET,
) -> Tensor:
    """Dequantize packed FP4 with its scale factors to float32.

    Parameters
    ----------
    e2m1_tensor : Tensor
        uint8 ``[M, K // 2]``. Upstream moves tensors to the device itself, so CPU tensors are accepted.
    ufp8_scale_tensor : Tensor
        uint8, in the layout named.
    global_scale_tensor : Tensor, optional
        One float32 element that multiplies: the inverse of what ``fp4_quantize`` was given.
    sf_vec_size : {16, 32}
        Elements per scale factor.
    ufp8_type : {0, 1}
        0 for ue8m0, 1 for e4m3.
    is_sf_swizzled_layout : bool
        Swizzled (True) or linear.
    is_sf_8x4_layout : bool
        0.6.16 and newer.
    backend : str
        UNSET for upstream's, which needs a CUDA device; "reference" for plain torch on any device.

    Returns
    -------
    Tensor
        float32 ``[M, K]``.

    Raises
    ------
    UnsupportedFeatureError
        ``is_sf_8x4_layout`` on a release that lacks it.

    Notes
    -----
    ``flashinfer.e2m1_and_ufp8sf_scale_to_float``.
    """
    if backend == "reference":
        from ._reference_fp4 import fp4_dequantize

        inverse = None if global_scale_tensor is None else 1.0 / global_scale_tensor.float()
        return fp4_dequantize(e2m1_tensor, ufp8_scale_tensor, inverse, sf_vec_size, ufp8_type == 0, is_sf_swizzled_layout, is_sf_8x4_layout)
    if global_scale_tensor is None:
        # Upstream's default fails with AttributeError on every release; None means 1.
        import torch

        global_scale_tensor = torch.ones(1, dtype=torch.float32)
    return _bindings.flashinfer.e2m1_and_ufp8sf_scale_to_float(
        e2m1_tensor, ufp8_scale_tensor, global_scale_tensor, sf_vec_size, ufp8_type, is_sf_swizzled_layout, is_sf_8x4_layout
    )


def shuffle_matrix_a(input_tensor: Tensor, epilogue_tile_m: int) -> Tensor:
    """Reorder the rows of a weight matrix for trtllm-gen.

    Parameters
    ----------
    input_tensor : Tensor
        ``[M, K]``, any dtype and device; M a multiple of 16 or 32, by ``epilogue_tile_m``.
    epilogue_tile_m : int
        Tile height of the kernel's epilogue.

    Returns
    -------
    Tensor
        Same shape, rows permuted.

    Notes
    -----
    ``flashinfer.shuffle_matrix_a``, plain torch on every release.
    """
    return _bindings.flashinfer.shuffle_matrix_a(input_tensor, epilogue_tile_m)


def shuffle_matrix_sf_a(input_tensor: Tensor, epilogue_tile_m: int, num_elts_per_sf: int = 16) -> Tensor:
    """Reorder the rows of linear scale factors for trtllm-gen and swizzle them to 128x4.

    Parameters
    ----------
    input_tensor : Tensor
        uint8 ``[M, K // num_elts_per_sf]``, linear layout, on a CUDA device of compute capability 10.0 or newer.
    epilogue_tile_m : int
        Tile height of the kernel's epilogue.
    num_elts_per_sf : int
        Elements per scale factor.

    Returns
    -------
    Tensor
        Flat, 128x4 layout.

    Raises
    ------
    UnsupportedDeviceError
        As for ``fp4_quantize``.

    Notes
    -----
    ``flashinfer.shuffle_matrix_sf_a``.
    """
    index = input_tensor.get_device()
    if index not in BLACKWELL:
        require_blackwell("shuffle_matrix_sf_a", index)
    return _bindings.flashinfer.shuffle_matrix_sf_a(input_tensor, epilogue_tile_m, num_elts_per_sf)
