"""Fused MoE of FlashInfer 0.6.12 to 0.6.14: the environment can switch 4 over 6 on; fp4 takes (ids, weights)."""

from __future__ import annotations

from functools import partial

from fi_compat.fused_moe._call import Entry, call_cutlass, call_trtllm, refuse_environment

from . import moe_0_6_8 as _before
from .moe_0_6_8 import cute_dsl_moe as cute_dsl_moe
from .moe_0_6_8 import trtllm_bf16_moe as trtllm_bf16_moe
from .moe_0_6_8 import trtllm_bf16_routed_moe as trtllm_bf16_routed_moe
from .moe_0_6_8 import trtllm_fp8_block_scale_moe as trtllm_fp8_block_scale_moe
from .moe_0_6_8 import trtllm_fp8_block_scale_routed_moe as trtllm_fp8_block_scale_routed_moe

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


def _guarded(name: str, *, unpacked: bool | None = None, relabelled: bool = False) -> Entry:
    return Entry(name, unpacked=unpacked, relabelled=relabelled, before=partial(refuse_environment, name))


_fp4 = _guarded("trtllm_fp4_block_scale_moe", relabelled=True)
_fp4_routed = _guarded("trtllm_fp4_block_scale_routed_moe", unpacked=True)
_cutlass = _guarded("cutlass_fused_moe")

UPSTREAMS = {**_before.UPSTREAMS, **{e.name: (e.upstream,) for e in (_fp4, _fp4_routed, _cutlass)}}

trtllm_fp4_block_scale_moe = partial(call_trtllm, _fp4)
trtllm_fp4_block_scale_routed_moe = partial(call_trtllm, _fp4_routed)
cutlass_fused_moe = partial(call_cutlass, _cutlass)
