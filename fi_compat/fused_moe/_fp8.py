"""Fused MoE: every parameter of any release from 0.6.8 on, by keyword.

Written by tests/support/make_functions.py from the recorded signatures of all releases; do not edit by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fi_compat import _bindings
from fi_compat._options import refuse_removed
from fi_compat._unset import UNSET, Unset

if TYPE_CHECKING:
    from typing import NoReturn

    from torch import Tensor

    from ._enums import ActivationType, RoutingMethodType
    from ._results import DeferredFinalize, MoEWithLora

__all__ = ["trtllm_fp8_block_scale_moe", "trtllm_fp8_block_scale_routed_moe"]


def trtllm_fp8_block_scale_moe(
    *,
    routing_logits: Tensor,
    routing_bias: Tensor | None,
    hidden_states: Tensor,
    hidden_states_scale: Tensor | None,
    gemm1_weights: Tensor,
    gemm1_weights_scale: Tensor | None,
    gemm2_weights: Tensor,
    gemm2_weights_scale: Tensor | None,
    num_experts: int,
    top_k: int,
    n_group: int | None,
    topk_group: int | None,
    intermediate_size: int,
    local_expert_offset: int,
    local_num_experts: int,
    routed_scaling_factor: float | None,
    routing_method_type: RoutingMethodType | str | int | Unset = UNSET,
    use_shuffled_weight: bool | Unset = UNSET,
    weight_layout: int | Unset = UNSET,
    do_finalize: bool | Unset = UNSET,
    enable_pdl: bool | Unset | None = UNSET,
    tune_max_num_tokens: int | Unset = UNSET,
    fp8_quantization_type: Any | Unset = UNSET,
    num_fused_shared_experts: int | Unset | None = UNSET,
    activation_type: ActivationType | str | int | Unset = UNSET,
    norm_topk_prob: bool | Unset = UNSET,
    routing_replay_out: Tensor | Unset | None = UNSET,
    gemm1_alpha: Tensor | Unset | None = UNSET,
    gemm1_beta: Tensor | Unset | None = UNSET,
    gemm1_clamp_limit: Tensor | Unset | None = UNSET,
    output: Tensor | Unset | None = UNSET,
    valid_hidden_size: int | Unset | None = UNSET,
    valid_intermediate_size: int | Unset | None = UNSET,
    gemm1_bias: Tensor | Unset | None = UNSET,
    gemm2_bias: Tensor | Unset | None = UNSET,
    workspace_buffer: Tensor | Unset | None = UNSET,
    **removed: NoReturn,
) -> Tensor | DeferredFinalize | MoEWithLora:
    """Fused MoE with FP8 block-scaled weights from routing logits.

    Parameters
    ----------
    routing_logits : Tensor
        ``[num_tokens, num_experts]``, bfloat16 or float32.
    routing_bias : Tensor or None
        ``[num_experts]``, bfloat16 (or float32 with DeepSeekV3 routing).
    hidden_states : Tensor
        ``[num_tokens, hidden_size]`` (packed FP4: uint8, half as wide).
    hidden_states_scale : Tensor or None
        Block scales in the linear layout: NVFP4 ``[num_tokens, hidden_size // 16]``, MXFP4 and MXFP8 ``[num_tokens,
        hidden_size // 32]``, DeepSeek FP8 ``[hidden_size // 128, num_tokens]`` float32; None for bfloat16.
    gemm1_weights : Tensor
        First GEMM's weights, shuffled for trtllm-gen.
    gemm1_weights_scale : Tensor or None
        Their block scales.
    gemm2_weights : Tensor
        Second GEMM's weights.
    gemm2_weights_scale : Tensor or None
        Their block scales.
    num_experts : int
        Experts in all.
    top_k : int
        Experts per token.
    n_group : int or None
        Expert groups (DeepSeekV3 routing).
    topk_group : int or None
        Groups kept per token.
    intermediate_size : int
        Width between the two GEMMs.
    local_expert_offset : int
        First expert on this rank.
    local_num_experts : int
        Experts on this rank.
    routed_scaling_factor : float or None
        Multiplies the routed weights once.
    routing_method_type : RoutingMethodType or str or int, optional
        By name: a member of ``RoutingMethodType``, its name, or upstream's own; integers 0 to 5 never moved.
    use_shuffled_weight : bool, optional
        Weights are shuffled for trtllm-gen.
    weight_layout : int, optional
        ``WeightLayout``: 0 MajorK, 1 MajorMn, 2 BlockMajorK.
    do_finalize : bool, optional
        False returns ``DeferredFinalize``.
    enable_pdl : bool, optional
        Programmatic dependent launch; None lets upstream decide by device.
    tune_max_num_tokens : int, optional
        Largest number of tokens that the autotuner times.
    fp8_quantization_type : object, optional
        ``flashinfer.tllm_enums.Fp8QuantizationType``; DeepSeekFp8 by default.
    num_fused_shared_experts : int, optional
        Shared experts in the same weights (DeepSeekV3 routing, no expert parallelism) (0.6.15 and newer).
    activation_type : ActivationType or str or int, optional
        By name: a member of ``ActivationType``, its name, or upstream's own; integers 0 to 6 never moved.
    norm_topk_prob : bool, optional
        Normalise the weights of a token.
    routing_replay_out : Tensor, optional
        ``[num_tokens, top_k]``, int16: receives the chosen experts.
    gemm1_alpha : Tensor, optional
        ``[num_experts]``, float32: swiglu's alpha (0.6.13 and newer).
    gemm1_beta : Tensor, optional
        ``[num_experts]``, float32: swiglu's beta (0.6.13 and newer).
    gemm1_clamp_limit : Tensor, optional
        ``[num_experts]``, float32: swiglu's clamp (0.6.13 and newer).
    output : Tensor, optional
        Where to write: ``[num_tokens, hidden_size]`` (0.6.14 and newer).
    valid_hidden_size : int, optional
        Unpadded width of the hidden states (0.7.0 and newer).
    valid_intermediate_size : int, optional
        Unpadded width between the GEMMs (0.7.0 and newer).
    gemm1_bias : Tensor, optional
        ``[num_experts, 2 * intermediate_size]``, float32 (0.7.0 and newer).
    gemm2_bias : Tensor, optional
        ``[num_experts, hidden_size]``, float32 (0.7.0 and newer).
    workspace_buffer : Tensor, optional
        Scratch memory that is reused between calls (0.7.4 and newer).

    Returns
    -------
    Tensor or DeferredFinalize or MoEWithLora
        ``[num_tokens, hidden_size]``, bfloat16, never a list; ``DeferredFinalize`` with ``do_finalize=False``;
        ``MoEWithLora`` with ``gemm1_lora_delta``.

    Raises
    ------
    UnsupportedDeviceError
        A CPU tensor, or a device below compute capability 10.0.
    UnsupportedFeatureError
        An option, or an enum member, that the installed release lacks; the message has the releases and the pip line.
    TypeError
        An integer for an enum that means different things on different releases.
    ValueError
        An unknown enum name, ids that are not int32, or scales that are not in the linear layout.
    ConfigurationError
        The environment switches NVFP4 4-over-6 on and the release cannot be told otherwise (0.6.12 to 0.7.2.post1).

    Notes
    -----
    ``flashinfer.fused_moe.trtllm_fp8_block_scale_moe``; every parameter by keyword, since positions moved between
    releases.
    """
    if removed:
        refuse_removed("trtllm_fp8_block_scale_moe", removed)
    return _bindings.flashinfer.moe.trtllm_fp8_block_scale_moe(
        {
            "routing_logits": routing_logits,
            "routing_bias": routing_bias,
            "hidden_states": hidden_states,
            "hidden_states_scale": hidden_states_scale,
            "gemm1_weights": gemm1_weights,
            "gemm1_weights_scale": gemm1_weights_scale,
            "gemm2_weights": gemm2_weights,
            "gemm2_weights_scale": gemm2_weights_scale,
            "num_experts": num_experts,
            "top_k": top_k,
            "n_group": n_group,
            "topk_group": topk_group,
            "intermediate_size": intermediate_size,
            "local_expert_offset": local_expert_offset,
            "local_num_experts": local_num_experts,
            "routed_scaling_factor": routed_scaling_factor,
        },
        {
            "routing_method_type": routing_method_type,
            "use_shuffled_weight": use_shuffled_weight,
            "weight_layout": weight_layout,
            "do_finalize": do_finalize,
            "enable_pdl": enable_pdl,
            "tune_max_num_tokens": tune_max_num_tokens,
            "fp8_quantization_type": fp8_quantization_type,
            "num_fused_shared_experts": num_fused_shared_experts,
            "activation_type": activation_type,
            "norm_topk_prob": norm_topk_prob,
            "routing_replay_out": routing_replay_out,
            "gemm1_alpha": gemm1_alpha,
            "gemm1_beta": gemm1_beta,
            "gemm1_clamp_limit": gemm1_clamp_limit,
            "output": output,
            "valid_hidden_size": valid_hidden_size,
            "valid_intermediate_size": valid_intermediate_size,
            "gemm1_bias": gemm1_bias,
            "gemm2_bias": gemm2_bias,
            "workspace_buffer": workspace_buffer,
        },
    )


def trtllm_fp8_block_scale_routed_moe(
    *,
    topk_ids: Tensor | tuple[Tensor, Tensor],
    routing_bias: Tensor | None,
    hidden_states: Tensor,
    hidden_states_scale: Tensor | None,
    gemm1_weights: Tensor,
    gemm1_weights_scale: Tensor | None,
    gemm2_weights: Tensor,
    gemm2_weights_scale: Tensor | None,
    num_experts: int,
    top_k: int,
    n_group: int | None,
    topk_group: int | None,
    intermediate_size: int,
    local_expert_offset: int,
    local_num_experts: int,
    routed_scaling_factor: float | None,
    routing_method_type: RoutingMethodType | str | int | Unset = UNSET,
    use_shuffled_weight: bool | Unset = UNSET,
    weight_layout: int | Unset = UNSET,
    do_finalize: bool | Unset = UNSET,
    enable_pdl: bool | Unset | None = UNSET,
    gemm1_lora_delta: Tensor | Unset | None = UNSET,
    output: Tensor | Unset | None = UNSET,
    tune_max_num_tokens: int | Unset = UNSET,
    fp8_quantization_type: Any | Unset = UNSET,
    activation_type: ActivationType | str | int | Unset = UNSET,
    gemm1_alpha: Tensor | Unset | None = UNSET,
    gemm1_beta: Tensor | Unset | None = UNSET,
    gemm1_clamp_limit: Tensor | Unset | None = UNSET,
    valid_hidden_size: int | Unset | None = UNSET,
    valid_intermediate_size: int | Unset | None = UNSET,
    workspace_buffer: Tensor | Unset | None = UNSET,
    **removed: NoReturn,
) -> Tensor | DeferredFinalize | MoEWithLora:
    """Fused MoE with FP8 block-scaled weights from expert ids chosen before.

    Parameters
    ----------
    topk_ids : Tensor or tuple[Tensor, Tensor]
        ``[num_tokens, top_k]``, int32, packed by ``pack_topk_ids``, or ``(ids, weights)`` on every release: weights are
        rounded to bfloat16 on all, as the packed format does.
    routing_bias : Tensor or None
        ``[num_experts]``, bfloat16 (or float32 with DeepSeekV3 routing).
    hidden_states : Tensor
        ``[num_tokens, hidden_size]`` (packed FP4: uint8, half as wide).
    hidden_states_scale : Tensor or None
        Block scales in the linear layout: NVFP4 ``[num_tokens, hidden_size // 16]``, MXFP4 and MXFP8 ``[num_tokens,
        hidden_size // 32]``, DeepSeek FP8 ``[hidden_size // 128, num_tokens]`` float32; None for bfloat16.
    gemm1_weights : Tensor
        First GEMM's weights, shuffled for trtllm-gen.
    gemm1_weights_scale : Tensor or None
        Their block scales.
    gemm2_weights : Tensor
        Second GEMM's weights.
    gemm2_weights_scale : Tensor or None
        Their block scales.
    num_experts : int
        Experts in all.
    top_k : int
        Experts per token.
    n_group : int or None
        Expert groups (DeepSeekV3 routing).
    topk_group : int or None
        Groups kept per token.
    intermediate_size : int
        Width between the two GEMMs.
    local_expert_offset : int
        First expert on this rank.
    local_num_experts : int
        Experts on this rank.
    routed_scaling_factor : float or None
        Multiplies the routed weights once.
    routing_method_type : RoutingMethodType or str or int, optional
        By name: a member of ``RoutingMethodType``, its name, or upstream's own; integers 0 to 5 never moved.
    use_shuffled_weight : bool, optional
        Weights are shuffled for trtllm-gen.
    weight_layout : int, optional
        ``WeightLayout``: 0 MajorK, 1 MajorMn, 2 BlockMajorK.
    do_finalize : bool, optional
        False returns ``DeferredFinalize``.
    enable_pdl : bool, optional
        Programmatic dependent launch; None lets upstream decide by device.
    gemm1_lora_delta : Tensor, optional
        Added to the first GEMM's output; the answer is then ``MoEWithLora`` (0.6.13 and newer).
    output : Tensor, optional
        Where to write: ``[num_tokens, hidden_size]``.
    tune_max_num_tokens : int, optional
        Largest number of tokens that the autotuner times.
    fp8_quantization_type : object, optional
        ``flashinfer.tllm_enums.Fp8QuantizationType``; DeepSeekFp8 by default.
    activation_type : ActivationType or str or int, optional
        By name: a member of ``ActivationType``, its name, or upstream's own; integers 0 to 6 never moved.
    gemm1_alpha : Tensor, optional
        ``[num_experts]``, float32: swiglu's alpha (0.6.13 and newer).
    gemm1_beta : Tensor, optional
        ``[num_experts]``, float32: swiglu's beta (0.6.13 and newer).
    gemm1_clamp_limit : Tensor, optional
        ``[num_experts]``, float32: swiglu's clamp (0.6.13 and newer).
    valid_hidden_size : int, optional
        Unpadded width of the hidden states (0.7.0 and newer).
    valid_intermediate_size : int, optional
        Unpadded width between the GEMMs (0.7.0 and newer).
    workspace_buffer : Tensor, optional
        Scratch memory that is reused between calls (0.7.4 and newer).

    Returns
    -------
    Tensor or DeferredFinalize or MoEWithLora
        ``[num_tokens, hidden_size]``, bfloat16, never a list; ``DeferredFinalize`` with ``do_finalize=False``;
        ``MoEWithLora`` with ``gemm1_lora_delta``.

    Raises
    ------
    UnsupportedDeviceError
        A CPU tensor, or a device below compute capability 10.0.
    UnsupportedFeatureError
        An option, or an enum member, that the installed release lacks; the message has the releases and the pip line.
    TypeError
        An integer for an enum that means different things on different releases.
    ValueError
        An unknown enum name, ids that are not int32, or scales that are not in the linear layout.
    ConfigurationError
        The environment switches NVFP4 4-over-6 on and the release cannot be told otherwise (0.6.12 to 0.7.2.post1).

    Notes
    -----
    ``flashinfer.fused_moe.trtllm_fp8_block_scale_routed_moe``; every parameter by keyword, since positions moved
    between releases.
    """
    if removed:
        refuse_removed("trtllm_fp8_block_scale_routed_moe", removed)
    return _bindings.flashinfer.moe.trtllm_fp8_block_scale_routed_moe(
        {
            "topk_ids": topk_ids,
            "routing_bias": routing_bias,
            "hidden_states": hidden_states,
            "hidden_states_scale": hidden_states_scale,
            "gemm1_weights": gemm1_weights,
            "gemm1_weights_scale": gemm1_weights_scale,
            "gemm2_weights": gemm2_weights,
            "gemm2_weights_scale": gemm2_weights_scale,
            "num_experts": num_experts,
            "top_k": top_k,
            "n_group": n_group,
            "topk_group": topk_group,
            "intermediate_size": intermediate_size,
            "local_expert_offset": local_expert_offset,
            "local_num_experts": local_num_experts,
            "routed_scaling_factor": routed_scaling_factor,
        },
        {
            "routing_method_type": routing_method_type,
            "use_shuffled_weight": use_shuffled_weight,
            "weight_layout": weight_layout,
            "do_finalize": do_finalize,
            "enable_pdl": enable_pdl,
            "gemm1_lora_delta": gemm1_lora_delta,
            "output": output,
            "tune_max_num_tokens": tune_max_num_tokens,
            "fp8_quantization_type": fp8_quantization_type,
            "activation_type": activation_type,
            "gemm1_alpha": gemm1_alpha,
            "gemm1_beta": gemm1_beta,
            "gemm1_clamp_limit": gemm1_clamp_limit,
            "valid_hidden_size": valid_hidden_size,
            "valid_intermediate_size": valid_intermediate_size,
            "workspace_buffer": workspace_buffer,
        },
    )
