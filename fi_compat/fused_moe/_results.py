"""What the fused MoE functions return beside one tensor: the same on every release."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["DeferredFinalize", "MoEWithLora"]


class DeferredFinalize(NamedTuple):
    """What ``do_finalize=False`` returns: the caller gathers and weighs the rows itself.

    Attributes
    ----------
    gemm2_out : Tensor
        ``[num_permuted_rows, hidden_size]``, bfloat16: rows in expert order, padded per expert.
    expert_weights : Tensor
        ``[num_tokens, top_k]``. bfloat16 from the fp4 functions on every release (up to 0.6.14 upstream labels the same bytes
        float32 for float32 logits); from the fp8 and bf16 functions the dtype of ``routing_logits``, and bfloat16 from their
        routed forms.
    expanded_idx_to_permuted_idx : Tensor
        ``[num_tokens * top_k]``, int32: the row of ``gemm2_out`` for each token and slot, -1 for an expert that is not local.
    top_k : int
        Slots per token.
    gemm1_output : Tensor or None
        With a LoRA delta: the first GEMM's output.
    """

    gemm2_out: Tensor
    expert_weights: Tensor
    expanded_idx_to_permuted_idx: Tensor
    top_k: int
    gemm1_output: Tensor | None = None


class MoEWithLora(NamedTuple):
    """What a call with ``gemm1_lora_delta`` returns.

    Attributes
    ----------
    output : Tensor
        ``[num_tokens, hidden_size]``, bfloat16.
    gemm1_output : Tensor
        The first GEMM's output, for the second LoRA product.
    """

    output: Tensor
    gemm1_output: Tensor
