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

    import torch

    from ._enums import ActivationType

__all__ = ["cute_dsl_moe"]


def cute_dsl_moe(
    *,
    num_experts: int,
    top_k: int,
    hidden_size: int,
    intermediate_size: int,
    use_cuda_graph: bool | Unset = UNSET,
    max_num_tokens: int | Unset | None = UNSET,
    num_local_experts: int | Unset | None = UNSET,
    local_expert_offset: int | Unset = UNSET,
    tile_size: int | Unset = UNSET,
    sf_vec_size: int | Unset = UNSET,
    output_dtype: torch.dtype | Unset = UNSET,
    device: str | torch.device | Unset = UNSET,
    enable_pdl: bool | Unset | None = UNSET,
    activation_type: ActivationType | str | int | Unset = UNSET,
    swiglu_alpha: float | Unset = UNSET,
    swiglu_beta: float | Unset = UNSET,
    swiglu_limit: float | Unset = UNSET,
    situ_beta: float | Unset | None = UNSET,
    situ_linear_beta: float | Unset | None = UNSET,
    use_fused_finalize: bool | Unset | None = UNSET,
    quant_mode: str | Unset = UNSET,
    clamped_relu2_limit: float | Unset | None = UNSET,
    swap_ab: bool | Unset = UNSET,
    activation: str | Unset = UNSET,
    **removed: NoReturn,
) -> Any:
    """Make a CuteDSL MoE layer whose ``run`` means the same on every release.

    Parameters
    ----------
    num_experts : int
        Experts in all.
    top_k : int
        Experts per token.
    hidden_size : int
        Width of the hidden states.
    intermediate_size : int
        Width between the two GEMMs.
    use_cuda_graph : bool, optional
        Make stream and events beforehand, so that ``run`` can be captured.
    max_num_tokens : int, optional
        ``run`` refuses more tokens, on every release; left out: no bound.
    num_local_experts : int, optional
        Experts on this rank; None: all.
    local_expert_offset : int, optional
        First expert on this rank.
    tile_size : int, optional
        Tokens per tile.
    sf_vec_size : int, optional
        Elements per block scale: 16.
    output_dtype : torch.dtype, optional
        Dtype of the answer.
    device : str or torch.device, optional
        Device of the buffers.
    enable_pdl : bool, optional
        Programmatic dependent launch; None lets upstream decide by device.
    activation_type : ActivationType or str or int, optional
        By name: a member of ``ActivationType``, its name, or upstream's own; integers 0 to 6 never moved (0.6.15 and
        newer).
    swiglu_alpha : float, optional
        Swiglu's alpha (0.6.15 and newer).
    swiglu_beta : float, optional
        Swiglu's beta (0.6.15 and newer).
    swiglu_limit : float, optional
        Swiglu's clamp (0.6.15 and newer).
    situ_beta : float, optional
        SiTU's beta (0.6.18 and newer).
    situ_linear_beta : float, optional
        SiTU's linear beta (0.6.18 and newer).
    use_fused_finalize : bool, optional
        Weigh and add rows inside the second GEMM, which is not deterministic. Left out: on, unless
        ``torch.use_deterministic_algorithms(True)``, which is 0.7.4's rule and ours on every release that has the
        parameter (0.6.16 and newer).
    quant_mode : str, optional
        "w4a4", or "w4a16" (0.6.18 and newer).
    clamped_relu2_limit : float, optional
        Clamp of ClampedRelu2 (0.7.4 and newer).
    swap_ab : bool, optional
        Swap the operands of the GEMMs (0.7.4 and newer).
    activation : str, optional
        0.6.14's name for ``activation_type``: "silu" (Swiglu) or "relu2", on every release (0.6.14 to 0.6.14).

    Returns
    -------
    CuteDslMoEWrapper
        A ``flashinfer.fused_moe.CuteDslMoEWrapper``. ``run`` returns a tensor of its own on every release (up to 0.6.13
        upstream reuses one buffer), takes any number of tokens unless ``max_num_tokens`` says otherwise, and can be
        captured with ``use_cuda_graph=True``.

    Raises
    ------
    UpstreamNotInstalledError
        nvidia-cutlass-dsl is not installed.
    UnsupportedFeatureError
        An option, or an activation, that the installed release lacks.
    TypeError, ValueError
        An activation that has no one meaning, or both spellings of it.

    Notes
    -----
    ``flashinfer.fused_moe.CuteDslMoEWrapper``; every parameter by keyword, since positions moved between releases.
    """
    if removed:
        refuse_removed("cute_dsl_moe", removed)
    return _bindings.flashinfer.moe.cute_dsl_moe(
        {
            "num_experts": num_experts,
            "top_k": top_k,
            "hidden_size": hidden_size,
            "intermediate_size": intermediate_size,
        },
        {
            "use_cuda_graph": use_cuda_graph,
            "max_num_tokens": max_num_tokens,
            "num_local_experts": num_local_experts,
            "local_expert_offset": local_expert_offset,
            "tile_size": tile_size,
            "sf_vec_size": sf_vec_size,
            "output_dtype": output_dtype,
            "device": device,
            "enable_pdl": enable_pdl,
            "activation_type": activation_type,
            "swiglu_alpha": swiglu_alpha,
            "swiglu_beta": swiglu_beta,
            "swiglu_limit": swiglu_limit,
            "situ_beta": situ_beta,
            "situ_linear_beta": situ_linear_beta,
            "use_fused_finalize": use_fused_finalize,
            "quant_mode": quant_mode,
            "clamped_relu2_limit": clamped_relu2_limit,
            "swap_ab": swap_ab,
            "activation": activation,
        },
    )
