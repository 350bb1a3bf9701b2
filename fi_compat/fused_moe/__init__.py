"""FlashInfer's fused MoE with one meaning on every release from 0.6.8 on."""

from __future__ import annotations

from ._bf16 import trtllm_bf16_moe, trtllm_bf16_routed_moe
from ._call import pack_topk_ids
from ._cutlass import cutlass_fused_moe
from ._enums import ActivationType, RoutingMethodType
from ._fp4 import trtllm_fp4_block_scale_moe, trtllm_fp4_block_scale_routed_moe
from ._fp8 import trtllm_fp8_block_scale_moe, trtllm_fp8_block_scale_routed_moe
from ._permute import get_w2_permute_indices_with_cache, maybe_get_cached_w3_w1_permute_indices
from ._results import DeferredFinalize, MoEWithLora
from ._sm90 import (
    interleave_moe_scales_for_sm90_mixed_gemm,
    interleave_moe_weights_for_sm90_mixed_gemm,
    sm90_scale_layout,
)
from ._wrapper import cute_dsl_moe

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
