"""Permutation indices of weight preparation, cached by everything that they depend on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fi_compat._upstream import Upstream

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["UPSTREAMS", "get_w2_permute_indices_with_cache", "maybe_get_cached_w3_w1_permute_indices"]

_w2 = Upstream("flashinfer.fused_moe.core", "get_w2_permute_indices_with_cache")
_w3_w1 = Upstream("flashinfer.fused_moe.core", "_maybe_get_cached_w3_w1_permute_indices")
UPSTREAMS = {
    "get_w2_permute_indices_with_cache": (_w2,),
    "maybe_get_cached_w3_w1_permute_indices": (_w3_w1,),
}


def get_w2_permute_indices_with_cache(
    _cache_permute_indices: dict[Any, Tensor],
    dst_w2_weight: Tensor,
    epilogue_tile_m: int,
    num_elts_per_sf: int | None = None,
    is_gated_act_gemm: bool | None = None,
) -> Tensor:
    """Return the row permutation that trtllm-gen wants of the second GEMM's weights or scales.

    Parameters
    ----------
    _cache_permute_indices : dict
        Filled and read. The key is kind, shape, tile, elements per scale, gating and device on every release; up to 0.6.17
        upstream's is kind and shape alone, so that two preparations of one shape get one permutation.
    dst_w2_weight : Tensor
        ``[M, K]``: one expert's weights, or scales with ``num_elts_per_sf``.
    epilogue_tile_m : int
        Rows of the epilogue's tile.
    num_elts_per_sf : int, optional
        Elements per scale factor, for scales.
    is_gated_act_gemm : bool, optional
        Part of the key only (0.7.0).

    Returns
    -------
    Tensor
        ``[M]``, int64, on the weight's device.

    Notes
    -----
    ``flashinfer.fused_moe.core.get_w2_permute_indices_with_cache``.
    """
    key = ("w2", dst_w2_weight.shape, epilogue_tile_m, num_elts_per_sf, is_gated_act_gemm, str(dst_w2_weight.device))
    found = _cache_permute_indices.get(key)
    if found is None:
        # A cache of its own: up to 0.6.17 upstream's key is the kind and the shape alone.
        found = _cache_permute_indices[key] = _w2.call({}, dst_w2_weight, epilogue_tile_m=epilogue_tile_m, num_elts_per_sf=num_elts_per_sf)
    return found


def maybe_get_cached_w3_w1_permute_indices(
    _cache_permute_indices: dict[Any, Tensor],
    dst_w3_w1_weight: Tensor,
    epilogue_tile_m: int,
    num_elts_per_sf: int | None = None,
    is_gated_act_gemm: bool = True,
) -> Tensor:
    """Return the row permutation that trtllm-gen wants of the first GEMM's weights or scales.

    Parameters
    ----------
    _cache_permute_indices, epilogue_tile_m, num_elts_per_sf
        As for ``get_w2_permute_indices_with_cache``.
    dst_w3_w1_weight : Tensor
        ``[M, K]``: one expert's weights, or scales with ``num_elts_per_sf``.
    is_gated_act_gemm : bool
        Gate and up rows are interleaved.

    Returns
    -------
    Tensor
        ``[M]``, int64, on the weight's device.

    Notes
    -----
    ``flashinfer.fused_moe.core._maybe_get_cached_w3_w1_permute_indices``.
    """
    key = ("w3_w1", dst_w3_w1_weight.shape, epilogue_tile_m, num_elts_per_sf, is_gated_act_gemm, str(dst_w3_w1_weight.device))
    found = _cache_permute_indices.get(key)
    if found is None:
        # A cache of its own: up to 0.6.17 upstream's key is the kind and the shape alone.
        found = _cache_permute_indices[key] = _w3_w1.call(
            {}, dst_w3_w1_weight, epilogue_tile_m=epilogue_tile_m, num_elts_per_sf=num_elts_per_sf, is_gated_act_gemm=is_gated_act_gemm
        )
    return found
