"""Arguments of the fused MoE functions, small enough for a CPU and shaped as upstream's own checks want them."""

from __future__ import annotations

import torch

from fi_compat import fused_moe

TOKENS, SLOTS, EXPERTS, HIDDEN, INTER = 4, 2, 8, 128, 64
BF16, FP8, U8 = torch.bfloat16, torch.float8_e4m3fn, torch.uint8
IDS = torch.tensor([[3, 5], [0, 7], [1, 2], [6, 4]], dtype=torch.int32)
WEIGHTS = torch.tensor([[0.7, -0.3], [0.5, 0.5], [1.0, 0.0], [0.123456, 0.25]])
LAYER = {
    "num_experts": EXPERTS,
    "top_k": SLOTS,
    "n_group": None,
    "topk_group": None,
    "intermediate_size": INTER,
    "local_expert_offset": 0,
    "local_num_experts": EXPERTS,
}


def logits(dtype: torch.dtype = BF16) -> torch.Tensor:
    """Routing logits without ties."""
    return torch.arange(TOKENS * EXPERTS, dtype=torch.float32).reshape(TOKENS, EXPERTS).to(dtype)


def fp4(**changed: object) -> dict:
    """Arguments of the fp4 functions, without logits or ids."""
    arguments = {
        "routing_bias": None,
        "hidden_states": torch.zeros(TOKENS, HIDDEN // 2, dtype=U8),
        "hidden_states_scale": torch.zeros(TOKENS, HIDDEN // 16).to(FP8),
        "gemm1_weights": torch.zeros(EXPERTS, 2 * INTER, HIDDEN // 2, dtype=U8),
        "gemm1_weights_scale": torch.zeros(EXPERTS, 2 * INTER, HIDDEN // 16).to(FP8),
        **dict.fromkeys(("gemm1_bias", "gemm1_alpha", "gemm1_beta", "gemm1_clamp_limit")),
        "gemm2_weights": torch.zeros(EXPERTS, HIDDEN, INTER // 2, dtype=U8),
        "gemm2_weights_scale": torch.zeros(EXPERTS, HIDDEN, INTER // 16).to(FP8),
        **dict.fromkeys(
            ("gemm2_bias", "output1_scale_scalar", "output1_scale_gate_scalar", "output2_scale_scalar", "routed_scaling_factor")
        ),
        **LAYER,
    }
    return {**arguments, **changed}


def fp8(**changed: object) -> dict:
    """Arguments of the fp8 functions, without logits or ids."""
    arguments = {
        "routing_bias": None,
        "hidden_states": torch.zeros(TOKENS, HIDDEN).to(FP8),
        "hidden_states_scale": torch.ones(HIDDEN // 128, TOKENS),
        "gemm1_weights": torch.zeros(EXPERTS, 2 * INTER, HIDDEN).to(FP8),
        "gemm1_weights_scale": torch.ones(EXPERTS, 1, 1),
        "gemm2_weights": torch.zeros(EXPERTS, HIDDEN, INTER).to(FP8),
        "gemm2_weights_scale": torch.ones(EXPERTS, 1, 1),
        "routed_scaling_factor": None,
        **LAYER,
    }
    return {**arguments, **changed}


def bf16(**changed: object) -> dict:
    """Arguments of the bf16 functions, without logits or ids."""
    arguments = {
        "hidden_states": torch.zeros(TOKENS, HIDDEN, dtype=BF16),
        "gemm1_weights": torch.zeros(EXPERTS, HIDDEN // 64, 2 * INTER, 64, dtype=BF16),
        "gemm2_weights": torch.zeros(EXPERTS, INTER // 64, HIDDEN, 64, dtype=BF16),
        **LAYER,
    }
    return {**arguments, **changed}


def cutlass(**changed: object) -> dict:
    """Arguments of cutlass_fused_moe in bfloat16."""
    arguments = {
        "input": torch.zeros(TOKENS, HIDDEN, dtype=BF16),
        "token_selected_experts": IDS,
        "token_final_scales": WEIGHTS,
        "fc1_expert_weights": torch.zeros(EXPERTS, 2 * INTER, HIDDEN, dtype=BF16),
        "fc2_expert_weights": torch.zeros(EXPERTS, HIDDEN, INTER, dtype=BF16),
        "output_dtype": BF16,
        "quant_scales": [],
    }
    return {**arguments, **changed}


CALLS = {
    "trtllm_fp4_block_scale_moe": lambda: {"routing_logits": logits(), **fp4()},
    "trtllm_fp4_block_scale_routed_moe": lambda: {"topk_ids": fused_moe.pack_topk_ids(IDS, WEIGHTS), **fp4()},
    "trtllm_fp8_block_scale_moe": lambda: {"routing_logits": logits(), **fp8()},
    "trtllm_fp8_block_scale_routed_moe": lambda: {"topk_ids": fused_moe.pack_topk_ids(IDS, WEIGHTS), **fp8()},
    "trtllm_bf16_moe": lambda: {"routing_logits": logits(), "routing_bias": None, **bf16()},
    "trtllm_bf16_routed_moe": lambda: {"topk_ids": fused_moe.pack_topk_ids(IDS, WEIGHTS), **bf16()},
    "cutlass_fused_moe": cutlass,
}
