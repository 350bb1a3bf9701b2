"""Fused MoE of FlashInfer 0.6.15 and newer: fp4's deferred weights say bfloat16, which they are."""

from __future__ import annotations

from functools import partial

from fi_compat.fused_moe._call import call_trtllm

from . import moe_0_6_12 as _before
from .moe_0_6_12 import _guarded
from .moe_0_6_12 import cute_dsl_moe as cute_dsl_moe
from .moe_0_6_12 import cutlass_fused_moe as cutlass_fused_moe
from .moe_0_6_12 import trtllm_bf16_moe as trtllm_bf16_moe
from .moe_0_6_12 import trtllm_bf16_routed_moe as trtllm_bf16_routed_moe
from .moe_0_6_12 import trtllm_fp4_block_scale_routed_moe as trtllm_fp4_block_scale_routed_moe
from .moe_0_6_12 import trtllm_fp8_block_scale_moe as trtllm_fp8_block_scale_moe
from .moe_0_6_12 import trtllm_fp8_block_scale_routed_moe as trtllm_fp8_block_scale_routed_moe

__all__ = [
    "UPSTREAMS",
    "cute_dsl_moe",
    "cutlass_fused_moe",
    "trtllm_bf16_moe",
    "trtllm_bf16_routed_moe",
    "trtllm_fp4_block_scale_moe",
    "trtllm_fp4_block_scale_routed_moe",
    "trtllm_fp8_block_scale_moe",
    "trtllm_fp8_block_scale_routed_moe",
]

_fp4 = _guarded("trtllm_fp4_block_scale_moe")

UPSTREAMS = {**_before.UPSTREAMS, _fp4.name: (_fp4.upstream,)}

trtllm_fp4_block_scale_moe = partial(call_trtllm, _fp4)
