"""Fused MoE of FlashInfer 0.6.8 to 0.6.11.post3: packed ids only; fp4's deferred weights are mislabelled for float32 logits."""

from __future__ import annotations

from functools import partial

from fi_compat.fused_moe import _cute_dsl, _permute, _sm90
from fi_compat.fused_moe._call import Entry, call_cutlass, call_trtllm

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

_fp4 = Entry("trtllm_fp4_block_scale_moe", relabelled=True)
_fp4_routed = Entry("trtllm_fp4_block_scale_routed_moe", unpacked=False)
_fp8 = Entry("trtllm_fp8_block_scale_moe")
_fp8_routed = Entry("trtllm_fp8_block_scale_routed_moe")
_bf16 = Entry("trtllm_bf16_moe")
_bf16_routed = Entry("trtllm_bf16_routed_moe")
_cutlass = Entry("cutlass_fused_moe")

UPSTREAMS = {
    **{e.name: (e.upstream,) for e in (_fp4, _fp4_routed, _fp8, _fp8_routed, _bf16, _bf16_routed, _cutlass)},
    **_cute_dsl.UPSTREAMS,
    **_permute.UPSTREAMS,
    **_sm90.UPSTREAMS,
}

# functools.partial adds no Python frame.
trtllm_fp4_block_scale_moe = partial(call_trtllm, _fp4)
trtllm_fp4_block_scale_routed_moe = partial(call_trtllm, _fp4_routed)
trtllm_fp8_block_scale_moe = partial(call_trtllm, _fp8)
trtllm_fp8_block_scale_routed_moe = partial(call_trtllm, _fp8_routed)
trtllm_bf16_moe = partial(call_trtllm, _bf16)
trtllm_bf16_routed_moe = partial(call_trtllm, _bf16_routed)
cutlass_fused_moe = partial(call_cutlass, _cutlass)
cute_dsl_moe = _cute_dsl.make
