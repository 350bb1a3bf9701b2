"""Fused MoE: every parameter of any release from 0.6.8 on, by keyword.

Written by tests/support/make_functions.py from the recorded signatures of all releases; do not edit by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fi_compat import _bindings
from fi_compat._options import refuse_removed
from fi_compat._unset import UNSET, Unset

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    import torch
    from torch import Tensor

    from ._enums import ActivationType

__all__ = ["cutlass_fused_moe"]


def cutlass_fused_moe(
    *,
    input: Tensor,
    token_selected_experts: Tensor,
    token_final_scales: Tensor,
    fc1_expert_weights: Tensor,
    fc2_expert_weights: Tensor,
    output_dtype: torch.dtype,
    quant_scales: Sequence[Tensor],
    fc1_expert_biases: Tensor | Unset | None = UNSET,
    fc2_expert_biases: Tensor | Unset | None = UNSET,
    input_sf: Tensor | Unset | None = UNSET,
    swiglu_alpha: Tensor | Unset | None = UNSET,
    swiglu_beta: Tensor | Unset | None = UNSET,
    swiglu_limit: Tensor | Unset | None = UNSET,
    tp_size: int | Unset = UNSET,
    tp_rank: int | Unset = UNSET,
    ep_size: int | Unset = UNSET,
    ep_rank: int | Unset = UNSET,
    cluster_size: int | Unset = UNSET,
    cluster_rank: int | Unset = UNSET,
    output: Tensor | Unset | None = UNSET,
    enable_alltoall: bool | Unset = UNSET,
    use_deepseek_fp8_block_scale: bool | Unset = UNSET,
    use_w4_group_scaling: bool | Unset = UNSET,
    use_mxfp8_act_scaling: bool | Unset = UNSET,
    min_latency_mode: bool | Unset = UNSET,
    use_packed_weights: bool | Unset = UNSET,
    use_wfp4afp8_humming: bool | Unset = UNSET,
    tune_max_num_tokens: int | Unset = UNSET,
    enable_pdl: bool | Unset | None = UNSET,
    activation_type: ActivationType | str | int | Unset = UNSET,
    swizzled_input_sf: bool | Unset = UNSET,
    use_fused_finalize: bool | Unset | None = UNSET,
    profile_ids: Any | Unset = UNSET,
    workspace_buffer: Tensor | Unset | None = UNSET,
    clamped_relu2_limit: Tensor | Unset | None = UNSET,
    situ_beta: float | Unset | None = UNSET,
    situ_linear_beta: float | Unset | None = UNSET,
    backend: str | Unset = UNSET,
    nvfp4_4over6: Any | Unset = UNSET,
    **removed: NoReturn,
) -> Tensor:
    """Fused MoE of CUTLASS: bfloat16 and quantized, SM90 and newer.

    Parameters
    ----------
    input : Tensor
        ``[num_tokens, hidden_size]``, in the activations' dtype (or packed).
    token_selected_experts : Tensor
        ``[num_tokens, top_k]``, int32.
    token_final_scales : Tensor
        ``[num_tokens, top_k]``, float32.
    fc1_expert_weights : Tensor
        ``[num_experts, 2 * intermediate_size, hidden_size]`` (packed where quantized); the rows of up come before those
        of gate, and an activation without a gate has ``intermediate_size`` rows.
    fc2_expert_weights : Tensor
        ``[num_experts, hidden_size, intermediate_size]``.
    output_dtype : torch.dtype
        Dtype of the answer.
    quant_scales : Sequence[Tensor]
        Scales in upstream's order for the quantization; empty for bfloat16. With ``use_w4_group_scaling`` on SM90 the
        first two are interleaved by this release's ``interleave_moe_scales_for_sm90_mixed_gemm``; another release's
        layout is refused.
    fc1_expert_biases : Tensor, optional
        First GEMM's biases.
    fc2_expert_biases : Tensor, optional
        Second GEMM's biases.
    input_sf : Tensor, optional
        Block scales of ``input``.
    swiglu_alpha : Tensor, optional
        ``[num_experts]``, float32.
    swiglu_beta : Tensor, optional
        ``[num_experts]``, float32.
    swiglu_limit : Tensor, optional
        ``[num_experts]``, float32.
    tp_size : int, optional
        Tensor-parallel ranks.
    tp_rank : int, optional
        This rank among them.
    ep_size : int, optional
        Expert-parallel ranks.
    ep_rank : int, optional
        This rank among them.
    cluster_size : int, optional
        Ranks of a cluster (min-latency mode).
    cluster_rank : int, optional
        This rank among them.
    output : Tensor, optional
        Where to write: ``[num_tokens, hidden_size]``.
    enable_alltoall : bool, optional
        Tokens come from an all-to-all.
    use_deepseek_fp8_block_scale : bool, optional
        FP8 block scales in DeepSeek's layout (SM90).
    use_w4_group_scaling : bool, optional
        4-bit weights with group scales.
    use_mxfp8_act_scaling : bool, optional
        MXFP8 activations.
    min_latency_mode : bool, optional
        Refused by upstream on every release.
    use_packed_weights : bool, optional
        INT4 weights packed two to a byte.
    use_wfp4afp8_humming : bool, optional
        MXFP4 weights with FP8 activations on SM90 (0.6.16 to 0.6.16.post2, 0.6.18 and newer).
    tune_max_num_tokens : int, optional
        Largest number of tokens that the autotuner times.
    enable_pdl : bool, optional
        Programmatic dependent launch; None lets upstream decide by device.
    activation_type : ActivationType or str or int, optional
        By name: a member of ``ActivationType``, its name, or upstream's own; integers 0 to 6 never moved.
    swizzled_input_sf : bool, optional
        ``input_sf`` is swizzled.
    use_fused_finalize : bool, optional
        Weigh and add rows inside the second GEMM, which is not deterministic. Left out: on, unless
        ``torch.use_deterministic_algorithms(True)``, which is 0.7.4's rule and ours on every release that has the
        parameter (0.6.15 and newer).
    profile_ids : object, optional
        Tactics chosen beforehand (0.6.16 and newer).
    workspace_buffer : Tensor, optional
        Scratch memory that is reused between calls (0.6.16 and newer).
    clamped_relu2_limit : Tensor, optional
        Clamp of ClampedRelu2 (0.7.2 and newer).
    situ_beta : float, optional
        SiTU's beta (0.7.0 and newer).
    situ_linear_beta : float, optional
        SiTU's linear beta (0.7.0 and newer).
    backend : str, optional
        Which kernels (0.7.1 and newer).
    nvfp4_4over6 : object, optional
        A 4-over-6 recipe; None is off, whatever the environment says (0.7.4 and newer).

    Returns
    -------
    Tensor
        ``[num_tokens, hidden_size]`` in ``output_dtype``, never a list.

    Raises
    ------
    UnsupportedFeatureError
        An option, or an enum member, that the installed release lacks; the message has the releases and the pip line.
    TypeError
        An integer for an enum that means different things on different releases.
    ValueError
        An unknown enum name, or SM90 scales in another release's layout.
    ConfigurationError
        The environment switches NVFP4 4-over-6 on and the release cannot be told otherwise (0.6.12 to 0.7.2.post1).

    Notes
    -----
    ``flashinfer.fused_moe.cutlass_fused_moe``; every parameter by keyword, since positions moved between releases.
    """
    if removed:
        refuse_removed("cutlass_fused_moe", removed)
    return _bindings.flashinfer.moe.cutlass_fused_moe(
        {
            "input": input,
            "token_selected_experts": token_selected_experts,
            "token_final_scales": token_final_scales,
            "fc1_expert_weights": fc1_expert_weights,
            "fc2_expert_weights": fc2_expert_weights,
            "output_dtype": output_dtype,
            "quant_scales": quant_scales,
        },
        {
            "fc1_expert_biases": fc1_expert_biases,
            "fc2_expert_biases": fc2_expert_biases,
            "input_sf": input_sf,
            "swiglu_alpha": swiglu_alpha,
            "swiglu_beta": swiglu_beta,
            "swiglu_limit": swiglu_limit,
            "tp_size": tp_size,
            "tp_rank": tp_rank,
            "ep_size": ep_size,
            "ep_rank": ep_rank,
            "cluster_size": cluster_size,
            "cluster_rank": cluster_rank,
            "output": output,
            "enable_alltoall": enable_alltoall,
            "use_deepseek_fp8_block_scale": use_deepseek_fp8_block_scale,
            "use_w4_group_scaling": use_w4_group_scaling,
            "use_mxfp8_act_scaling": use_mxfp8_act_scaling,
            "min_latency_mode": min_latency_mode,
            "use_packed_weights": use_packed_weights,
            "use_wfp4afp8_humming": use_wfp4afp8_humming,
            "tune_max_num_tokens": tune_max_num_tokens,
            "enable_pdl": enable_pdl,
            "activation_type": activation_type,
            "swizzled_input_sf": swizzled_input_sf,
            "use_fused_finalize": use_fused_finalize,
            "profile_ids": profile_ids,
            "workspace_buffer": workspace_buffer,
            "clamped_relu2_limit": clamped_relu2_limit,
            "situ_beta": situ_beta,
            "situ_linear_beta": situ_linear_beta,
            "backend": backend,
            "nvfp4_4over6": nvfp4_4over6,
        },
    )
