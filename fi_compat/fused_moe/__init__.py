"""FlashInfer's fused MoE with one meaning on every release from 0.6.8 on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._bf16 import trtllm_bf16_moe, trtllm_bf16_routed_moe
from ._cutlass import cutlass_fused_moe
from ._enums import ActivationType, RoutingMethodType
from ._fp4 import trtllm_fp4_block_scale_moe, trtllm_fp4_block_scale_routed_moe
from ._fp8 import trtllm_fp8_block_scale_moe, trtllm_fp8_block_scale_routed_moe
from ._results import DeferredFinalize, MoEWithLora
from ._sm90 import sm90_scale_layout
from ._wrapper import cute_dsl_moe

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "ActivationType",
    "DeferredFinalize",
    "MoEWithLora",
    "RoutingMethodType",
    "cute_dsl_moe",
    "cutlass_fused_moe",
    "get_w2_permute_indices_with_cache",
    "interleave_moe_scales_for_sm90_mixed_gemm",
    "interleave_moe_weights_for_sm90_mixed_gemm",
    "maybe_get_cached_w3_w1_permute_indices",
    "pack_topk_ids",
    "sm90_scale_layout",
    "trtllm_bf16_moe",
    "trtllm_bf16_routed_moe",
    "trtllm_fp4_block_scale_moe",
    "trtllm_fp4_block_scale_routed_moe",
    "trtllm_fp8_block_scale_moe",
    "trtllm_fp8_block_scale_routed_moe",
]


def pack_topk_ids(topk_ids: Tensor, topk_weights: Tensor) -> Tensor:
    """Pack expert ids and weights as every release's kernels read them: ``(expert_id << 16) | bfloat16 bits of the weight``.

    Parameters
    ----------
    topk_ids : Tensor
        ``[num_tokens, top_k]``, any integer dtype; ids below 32768.
    topk_weights : Tensor
        ``[num_tokens, top_k]``, any floating dtype; rounded to bfloat16.

    Returns
    -------
    Tensor
        ``[num_tokens, top_k]``, int32, on the device of ``topk_ids``.

    Raises
    ------
    ValueError
        The shapes differ.

    Notes
    -----
    FlashInfer's fp4 docstrings of 0.6.8 to 0.6.12 state the halves the other way round; the kernels of all releases read this.
    """
    from ._call import pack

    return pack(topk_ids, topk_weights)


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
    from . import _permute

    return _permute.w2_indices(_cache_permute_indices, dst_w2_weight, epilogue_tile_m, num_elts_per_sf, is_gated_act_gemm)


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
    from . import _permute

    return _permute.w3_w1_indices(_cache_permute_indices, dst_w3_w1_weight, epilogue_tile_m, num_elts_per_sf, is_gated_act_gemm)


def interleave_moe_scales_for_sm90_mixed_gemm(scales: Tensor, group_size: int = 32) -> Tensor:
    """Interleave weight scales for the SM90 mixed-input GEMM, in the installed release's layout.

    Parameters
    ----------
    scales : Tensor
        ``[num_experts, rows, K // group_size]``: uint8 (E8M0); on releases with the folded layout any dtype.
    group_size : int
        Elements per scale.

    Returns
    -------
    Tensor
        In the layout that ``sm90_scale_layout`` names. Never keep it for another release: it went 3-D (0.6.10), 5-D
        (0.6.16), 3-D (0.6.16.post3), 5-D (0.6.18).

    Raises
    ------
    UnsupportedFeatureError
        The installed release has none (before 0.6.10).
    ValueError
        Upstream's, for shapes that it cannot serve.

    Notes
    -----
    ``flashinfer.fused_moe.interleave_moe_scales_for_sm90_mixed_gemm``, 0.6.10.
    """
    from . import _sm90

    return _sm90.interleave_scales(scales, group_size)


def interleave_moe_weights_for_sm90_mixed_gemm(weight: Tensor, quant_type: str = "fp4") -> Tensor:
    """Interleave 4-bit weights for the SM90 mixed-input GEMM.

    Parameters
    ----------
    weight : Tensor
        ``[num_experts, n, k // 2]``, uint8, on a CUDA device of compute capability 9.0.
    quant_type : {"fp4", "int4", "fp4_fp8"}
        "fp4_fp8" exists on 0.6.16 to 0.6.16.post2 and from 0.6.18 on.

    Returns
    -------
    Tensor
        Same shape and dtype.

    Raises
    ------
    UnsupportedFeatureError
        The installed release has no such function (before 0.6.10), or no such ``quant_type``.

    Notes
    -----
    ``flashinfer.fused_moe.interleave_moe_weights_for_sm90_mixed_gemm``, 0.6.10.
    """
    from . import _sm90

    return _sm90.interleave_weights(weight, quant_type)
