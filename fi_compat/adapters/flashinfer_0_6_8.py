"""FlashInfer 0.6.8 to 0.6.10.post1: ``global_scale`` is one element that multiplies, position 6 is enable_pdl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fi_compat._upstream import Upstream, unsupported

from . import attention_0_6_8 as attention
from . import comm_0_6_8 as comm
from . import mla_0_6_8 as mla
from . import moe_0_6_8 as moe

if TYPE_CHECKING:
    from torch import Tensor

    from fi_compat.quantization import SfLayout

__all__ = [
    "UPSTREAMS",
    "attention",
    "block_scale_interleave",
    "comm",
    "e2m1_and_ufp8sf_scale_to_float",
    "fp4_quantize",
    "mla",
    "moe",
    "mxfp4_quantize",
    "mxfp8_quantize",
    "nvfp4_quantize",
    "shuffle_matrix_a",
    "shuffle_matrix_sf_a",
]

#: Where the functions begin alike on every release from 0.6.8 to 0.7.4.
FP4_LEADING = ("input", "global_scale", "sf_vec_size", "sf_use_ue8m0", "is_sf_swizzled_layout", "is_sf_8x4_layout")
NVFP4_LEADING = ("a", "a_global_sf", "sfLayout", "do_shuffle", "sf_vec_size")

_fp4_quantize = Upstream("flashinfer", "fp4_quantize", leading=FP4_LEADING)
_nvfp4_quantize = Upstream("flashinfer", "nvfp4_quantize", leading=NVFP4_LEADING)
_mxfp4_quantize = Upstream("flashinfer", "mxfp4_quantize")
_mxfp8_quantize = Upstream("flashinfer", "mxfp8_quantize")
_block_scale_interleave = Upstream("flashinfer", "block_scale_interleave")
_e2m1_and_ufp8sf_scale_to_float = Upstream("flashinfer", "e2m1_and_ufp8sf_scale_to_float")
_shuffle_matrix_a = Upstream("flashinfer", "shuffle_matrix_a")
_shuffle_matrix_sf_a = Upstream("flashinfer", "shuffle_matrix_sf_a")
_SfLayout = Upstream("flashinfer", "SfLayout")

#: What ``prepare()`` binds, by the name of the stable function.
UPSTREAMS = {
    "fp4_quantize": (_fp4_quantize,),
    "nvfp4_quantize": (_nvfp4_quantize, _SfLayout),
    "mxfp4_quantize": (_mxfp4_quantize, _fp4_quantize, _SfLayout),
    "mxfp8_quantize": (_mxfp8_quantize, _SfLayout),
    "block_scale_interleave": (_block_scale_interleave,),
    "e2m1_and_ufp8sf_scale_to_float": (_e2m1_and_ufp8sf_scale_to_float,),
    "shuffle_matrix_a": (_shuffle_matrix_a,),
    "shuffle_matrix_sf_a": (_shuffle_matrix_sf_a,),
}


def fp4_quantize(
    input: Tensor,
    global_scale: Tensor | None,
    sf_vec_size: int,
    sf_use_ue8m0: bool,
    is_sf_swizzled_layout: bool,
    is_sf_8x4_layout: bool,
    is_global_scale_inversed: bool,
    per_token_scale: bool,
    enable_pdl: bool | None,
    backend: str,
    nvfp4_4over6: Any,
    batch_invariant: bool,
) -> tuple[Tensor, Tensor]:
    """Call ``flashinfer.fp4_quantize``; see ``fi_compat.quantization.fp4_quantize``."""
    if is_global_scale_inversed:
        raise unsupported("fp4_quantize", "is_global_scale_inversed=True", "flashinfer", ">=0.6.11")
    if per_token_scale:
        raise unsupported("fp4_quantize", "per_token_scale=True", "flashinfer", ">=0.6.11")
    if nvfp4_4over6 is not None:
        raise unsupported("fp4_quantize", "nvfp4_4over6", "flashinfer", ">=0.7.1")
    if batch_invariant:
        raise unsupported("fp4_quantize", "batch_invariant=True", "flashinfer", ">=0.7.4")
    return _fp4_quantize.call(  # type: ignore[no-any-return]
        input,
        global_scale,
        sf_vec_size,
        sf_use_ue8m0,
        is_sf_swizzled_layout,
        is_sf_8x4_layout,
        enable_pdl=enable_pdl,
        backend=backend,
    )


def nvfp4_quantize(
    a: Tensor,
    a_global_sf: Tensor,
    sfLayout: SfLayout,
    do_shuffle: bool,
    sf_vec_size: int,
    enable_pdl: bool | None,
    backend: str,
    per_token_activation: bool,
    expanded_idx_to_permuted_idx: Tensor | None,
    out_scale: Tensor | None,
    nvfp4_4over6: Any,
    batch_invariant: bool,
    *,
    upstream: Upstream = _nvfp4_quantize,
) -> tuple[Tensor, ...]:
    """Call ``flashinfer.nvfp4_quantize``; see ``fi_compat.quantization.nvfp4_quantize``."""
    options: dict[str, Any] = {}
    if per_token_activation or expanded_idx_to_permuted_idx is not None:
        upstream.require("per_token_activation", per_token_activation, ">=0.6.11")
        options["per_token_activation"] = per_token_activation
        options["expanded_idx_to_permuted_idx"] = expanded_idx_to_permuted_idx
    if out_scale is not None:
        upstream.require("out_scale", "...", ">=0.7.1")
        options["out_scale"] = out_scale
    if "nvfp4_4over6" in upstream.parameters:
        options["nvfp4_4over6"] = nvfp4_4over6
    elif nvfp4_4over6 is not None:
        raise unsupported("nvfp4_quantize", "nvfp4_4over6", "flashinfer", ">=0.7.1")
    if batch_invariant:
        upstream.require("batch_invariant", batch_invariant, ">=0.7.4")
        options["batch_invariant"] = True
    return upstream.call(  # type: ignore[no-any-return]
        a,
        a_global_sf,
        _SfLayout.call(int(sfLayout)),
        do_shuffle,
        sf_vec_size,
        enable_pdl=enable_pdl,
        backend=backend,
        **options,
    )


def mxfp4_quantize(a: Tensor, backend: str, enable_pdl: bool | None, sfLayout: SfLayout, batch_invariant: bool) -> tuple[Tensor, Tensor]:
    """Call ``flashinfer.mxfp4_quantize``; see ``fi_compat.quantization.mxfp4_quantize``."""
    options: dict[str, Any] = {}
    if batch_invariant:
        _mxfp4_quantize.require("batch_invariant", batch_invariant, ">=0.7.4")
        options["batch_invariant"] = True
    if "sfLayout" in _mxfp4_quantize.parameters:
        options["sfLayout"] = _SfLayout.call(int(sfLayout))
    elif sfLayout != 0:
        if backend != "cuda":
            raise unsupported("mxfp4_quantize", f"sfLayout={sfLayout.name} with backend={backend!r}", "flashinfer", ">=0.6.16")
        return _fp4_quantize.call(  # type: ignore[no-any-return]
            input=a,
            global_scale=None,
            sf_vec_size=32,
            sf_use_ue8m0=True,
            is_sf_swizzled_layout=sfLayout.name != "layout_linear",
            is_sf_8x4_layout=sfLayout.name == "layout_8x4",
            enable_pdl=enable_pdl,
            backend="cuda",
        )
    return _mxfp4_quantize.call(a=a, backend=backend, enable_pdl=enable_pdl, **options)  # type: ignore[no-any-return]


def mxfp8_quantize(
    input: Tensor,
    is_sf_swizzled_layout: bool,
    alignment: int,
    enable_pdl: bool | None,
    backend: str,
    sf_swizzle_layout: SfLayout | None,
    batch_invariant: bool,
) -> tuple[Tensor, Tensor]:
    """Call ``flashinfer.mxfp8_quantize``; see ``fi_compat.quantization.mxfp8_quantize``.

    Up to 0.6.11.post3 the cute-dsl kernel is given is_sf_swizzled_layout only and ignores sf_swizzle_layout, so the two
    are made to agree; 8x4 it does not have.
    """
    if backend == "cute-dsl" and sf_swizzle_layout is not None:
        if sf_swizzle_layout.name == "layout_8x4":
            raise unsupported("mxfp8_quantize", "sf_swizzle_layout=layout_8x4 with backend='cute-dsl'", "flashinfer", ">=0.6.12")
        is_sf_swizzled_layout = sf_swizzle_layout.name != "layout_linear"
    options: dict[str, Any] = {}
    if batch_invariant:
        _mxfp8_quantize.require("batch_invariant", batch_invariant, ">=0.7.4")
        options["batch_invariant"] = True
    if sf_swizzle_layout is not None:
        options["sf_swizzle_layout"] = _SfLayout.call(int(sf_swizzle_layout))
    return _mxfp8_quantize.call(  # type: ignore[no-any-return]
        input=input, is_sf_swizzled_layout=is_sf_swizzled_layout, alignment=alignment, enable_pdl=enable_pdl, backend=backend, **options
    )


def block_scale_interleave(unswizzled_sf: Tensor, out: Tensor | None) -> Tensor:
    """Call ``flashinfer.block_scale_interleave``."""
    if out is None:
        return _block_scale_interleave.call(unswizzled_sf=unswizzled_sf)
    _block_scale_interleave.require("out", "...", ">=0.7.2.post1")
    return _block_scale_interleave.call(unswizzled_sf=unswizzled_sf, out=out)


def e2m1_and_ufp8sf_scale_to_float(
    e2m1_tensor: Tensor,
    ufp8_scale_tensor: Tensor,
    global_scale_tensor: Tensor | None,
    sf_vec_size: int,
    ufp8_type: int,
    is_sf_swizzled_layout: bool,
    is_sf_8x4_layout: bool,
) -> Tensor:
    """Call ``flashinfer.e2m1_and_ufp8sf_scale_to_float``."""
    options: dict[str, Any] = {}
    if is_sf_8x4_layout:
        _e2m1_and_ufp8sf_scale_to_float.require("is_sf_8x4_layout", is_sf_8x4_layout, ">=0.6.16")
        options["is_sf_8x4_layout"] = True
    return _e2m1_and_ufp8sf_scale_to_float.call(
        e2m1_tensor=e2m1_tensor,
        ufp8_scale_tensor=ufp8_scale_tensor,
        global_scale_tensor=global_scale_tensor,
        sf_vec_size=sf_vec_size,
        ufp8_type=ufp8_type,
        is_sf_swizzled_layout=is_sf_swizzled_layout,
        **options,
    )


def shuffle_matrix_a(input_tensor: Tensor, epilogue_tile_m: int) -> Tensor:
    """Call ``flashinfer.shuffle_matrix_a``."""
    return _shuffle_matrix_a.call(input_tensor=input_tensor, epilogue_tile_m=epilogue_tile_m)


def shuffle_matrix_sf_a(input_tensor: Tensor, epilogue_tile_m: int, num_elts_per_sf: int) -> Tensor:
    """Call ``flashinfer.shuffle_matrix_sf_a``."""
    return _shuffle_matrix_sf_a.call(input_tensor=input_tensor, epilogue_tile_m=epilogue_tile_m, num_elts_per_sf=num_elts_per_sf)
