"""Opaque torch ops under ``fi_compat::`` with fake kernels, so that torch.compile does not trace into upstream.

Dynamo traces through ``functools.cache`` into FlashInfer's JIT loader, so a plain call breaks ``fullgraph=True`` on every
release. ``prepare()`` registers these; the public functions take them only while compiling, since an opaque op costs
about 8 microseconds in eager mode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _bindings, moe, quantization
from ._reference_fp4 import round_up

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["register"]


def register() -> None:
    """Register the ops once per process and let the public functions use them while compiling."""
    import torch

    if _bindings.ops is None:
        library = torch.library.Library("fi_compat", "DEF")
        library.define(
            "fp4_quantize(Tensor input, Tensor? global_scale, int sf_vec_size, bool sf_use_ue8m0, bool is_sf_swizzled_layout,"
            " bool is_sf_8x4_layout, bool is_global_scale_inversed, bool per_token_scale, bool? enable_pdl, str? backend,"
            " bool batch_invariant) -> (Tensor, Tensor)"
        )
        library.impl("fp4_quantize", _fp4_quantize, "CompositeExplicitAutograd")
        torch.library.register_fake("fi_compat::fp4_quantize", _fake_fp4_quantize, lib=library)
        library.define(
            "moe_layer(Tensor x, Tensor logits, int w1, int pc1, int w2, int pc2, Tensor? b1, Tensor? b2, int n_expts_act, float alpha,"
            " float? limit, bool sm_first, int width) -> Tensor"
        )
        library.impl("moe_layer", _moe_layer, "CompositeExplicitAutograd")
        torch.library.register_fake("fi_compat::moe_layer", _fake_moe_layer, lib=library)
        _keep.append(library)
        _bindings.ops = torch.ops.fi_compat
    _bindings.is_compiling = torch.compiler.is_compiling


_keep: list[object] = []


def _fp4_quantize(
    input: Tensor,
    global_scale: Tensor | None,
    sf_vec_size: int,
    sf_use_ue8m0: bool,
    is_sf_swizzled_layout: bool,
    is_sf_8x4_layout: bool,
    is_global_scale_inversed: bool,
    per_token_scale: bool,
    enable_pdl: bool | None,
    backend: str | None,
    batch_invariant: bool,
) -> tuple[Tensor, Tensor]:
    from ._unset import UNSET

    return quantization.fp4_quantize(
        input,
        global_scale,
        sf_vec_size,
        sf_use_ue8m0,
        is_sf_swizzled_layout,
        is_sf_8x4_layout,
        is_global_scale_inversed=is_global_scale_inversed,
        per_token_scale=per_token_scale,
        enable_pdl=enable_pdl,
        backend=UNSET if backend is None else backend,
        batch_invariant=batch_invariant,
    )


def _fake_fp4_quantize(
    input: Tensor,
    global_scale: Tensor | None,
    sf_vec_size: int,
    sf_use_ue8m0: bool,
    is_sf_swizzled_layout: bool,
    is_sf_8x4_layout: bool,
    *_: object,
) -> tuple[Tensor, Tensor]:
    import torch

    k = input.shape[-1]
    rows, columns = input.numel() // k, k // sf_vec_size
    if is_sf_swizzled_layout:
        rows, columns = round_up(rows, 8 if is_sf_8x4_layout else 128), round_up(columns, 4)
    codes = input.new_empty((*input.shape[:-1], k // 2), dtype=torch.uint8)
    return codes, input.new_empty((rows, columns), dtype=torch.uint8)


def _moe_layer(
    x: Tensor,
    logits: Tensor,
    w1: int,
    pc1: int,
    w2: int,
    pc2: int,
    b1: Tensor | None,
    b2: Tensor | None,
    n_expts_act: int,
    alpha: float,
    limit: float | None,
    sm_first: bool,
    width: int,
) -> Tensor:
    from ._handles import get

    return moe.moe_layer(x, logits, get(w1), b1, get(pc1), get(w2), b2, get(pc2), n_expts_act, alpha=alpha, limit=limit, sm_first=sm_first)


def _fake_moe_layer(x: Tensor, *others: int) -> Tensor:
    return x.new_empty((x.shape[0], others[-1]))  # the last is the width
