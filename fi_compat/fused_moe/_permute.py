"""Permutation indices of weight preparation, cached by everything that they depend on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fi_compat._upstream import Upstream

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["UPSTREAMS", "w2_indices", "w3_w1_indices"]

_w2 = Upstream("flashinfer.fused_moe.core", "get_w2_permute_indices_with_cache")
_w3_w1 = Upstream("flashinfer.fused_moe.core", "_maybe_get_cached_w3_w1_permute_indices")
UPSTREAMS = {
    "get_w2_permute_indices_with_cache": (_w2,),
    "maybe_get_cached_w3_w1_permute_indices": (_w3_w1,),
}


def w2_indices(
    cache: dict[Any, Tensor], weight: Tensor, epilogue_tile_m: int, num_elts_per_sf: int | None, is_gated_act_gemm: bool | None
) -> Tensor:
    """Call ``flashinfer.fused_moe.core.get_w2_permute_indices_with_cache`` with a cache of its own; ours has the full key."""
    key = ("w2", weight.shape, epilogue_tile_m, num_elts_per_sf, is_gated_act_gemm, str(weight.device))
    found = cache.get(key)
    if found is None:
        # Up to 0.6.17 upstream's key is the kind and the shape alone.
        found = cache[key] = _w2.call({}, weight, epilogue_tile_m=epilogue_tile_m, num_elts_per_sf=num_elts_per_sf)
    return found


def w3_w1_indices(
    cache: dict[Any, Tensor], weight: Tensor, epilogue_tile_m: int, num_elts_per_sf: int | None, is_gated_act_gemm: bool
) -> Tensor:
    """Call ``flashinfer.fused_moe.core._maybe_get_cached_w3_w1_permute_indices`` with a cache of its own."""
    key = ("w3_w1", weight.shape, epilogue_tile_m, num_elts_per_sf, is_gated_act_gemm, str(weight.device))
    found = cache.get(key)
    if found is None:
        found = cache[key] = _w3_w1.call(
            {}, weight, epilogue_tile_m=epilogue_tile_m, num_elts_per_sf=num_elts_per_sf, is_gated_act_gemm=is_gated_act_gemm
        )
    return found
