"""MLA decode: every parameter of any release from 0.6.8 on, by keyword.

Written by tests/support/make_functions.py from the recorded signatures of all releases; do not edit by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from . import _bindings
from ._lse import base as _base
from ._options import refuse_removed
from ._unset import UNSET, Unset

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from torch import Tensor

__all__ = ["trtllm_batch_decode_with_kv_cache_mla"]


def trtllm_batch_decode_with_kv_cache_mla(
    *,
    query: Tensor,
    kv_cache: Tensor,
    workspace_buffer: Tensor,
    qk_nope_head_dim: int,
    kv_lora_rank: int,
    qk_rope_head_dim: int,
    block_tables: Tensor,
    seq_lens: Tensor | None,
    max_seq_len: int,
    sparse_mla_top_k: int | Unset = UNSET,
    out: Tensor | Unset | None = UNSET,
    bmm1_scale: float | Tensor | Unset = UNSET,
    bmm2_scale: float | Tensor | Unset = UNSET,
    sinks: Tensor | Sequence[Tensor] | Unset | None = UNSET,
    skip_softmax_threshold_scale_factor: float | Unset | None = UNSET,
    enable_pdl: bool | Unset | None = UNSET,
    backend: str | Unset = UNSET,
    is_var_seq: bool | Unset = UNSET,
    uses_shared_paged_kv_idx: bool | Unset = UNSET,
    lse: Tensor | Unset | None = UNSET,
    return_lse: bool | Unset = UNSET,
    cute_dsl_impl: str | Unset = UNSET,
    kv_scale_format: str | Unset = UNSET,
    cum_seq_lens_q: Tensor | Unset | None = UNSET,
    max_q_len: int | Unset | None = UNSET,
    multi_ctas_kv_counter_buffer: Tensor | Unset | None = UNSET,
    sparse_mla_top_k_lens: Tensor | Unset | None = UNSET,
    enable_dcp: bool | Unset = UNSET,
    cp_world: int | Unset = UNSET,
    cp_rank: int | Unset = UNSET,
    causal_seqlens_kv_global: Tensor | Unset | None = UNSET,
    use_fp16_softmax: bool | Unset | None = UNSET,
    return_lse_base: Literal["base2", "basee"] | Unset = UNSET,
    lse_base: Literal["base2", "basee"] = "base2",
    **removed: NoReturn,
) -> Tensor | tuple[Tensor, Tensor]:
    """Decode with multi-head latent attention over a paged cache; the LSE has the base that was asked for.

    Parameters
    ----------
    query : Tensor
        ``[batch_size, q_len_per_request, num_heads, head_dim_qk]``, or ``[total_q, num_heads, head_dim_qk]`` with
        ``cum_seq_lens_q``.
    kv_cache : Tensor
        ``[num_pages, page_size, kv_lora_rank + qk_rope_head_dim]``, or with a dimension of 1 after the first.
    workspace_buffer : Tensor
        Zeroed before its first use.
    qk_nope_head_dim : int
        Head dimension without rope.
    kv_lora_rank : int
        Rank of the compressed KV.
    qk_rope_head_dim : int
        Head dimension with rope.
    block_tables : Tensor
        ``[batch_size, max_pages]``, int32.
    seq_lens : Tensor or None
        ``[batch_size]``, int32.
    max_seq_len : int
        Largest of ``seq_lens``.
    sparse_mla_top_k : int, optional
        Tokens attended to by sparse MLA, 0 for dense.
    out : Tensor, optional
        Where to write.
    bmm1_scale : float or Tensor, optional
        Scale before the softmax.
    bmm2_scale : float or Tensor, optional
        Scale after.
    sinks : Tensor or Sequence[Tensor], optional
        ``[num_heads]``, float32: attention sinks.
    skip_softmax_threshold_scale_factor : float, optional
        Skip-softmax threshold.
    enable_pdl : bool, optional
        Programmatic dependent launch; None lets upstream decide by device.
    backend : str, optional
        "auto", "trtllm-gen", "xqa", "cute-dsl" or "sparse". With an LSE up to 0.7.0.post1, "auto" is settled by device
        and shape instead of by timing, since the base depends on the kernel.
    is_var_seq : bool, optional
        Sequence lengths differ (cute-dsl).
    uses_shared_paged_kv_idx : bool, optional
        K and V share page indices.
    lse : Tensor, optional
        ``[batch_size * q_len_per_request, num_heads]``, float32: receives the LSE, returned or not (0.6.12 and newer).
    return_lse : bool, optional
        Return the LSE as well (0.6.12 and newer).
    cute_dsl_impl : str, optional
        "auto", "monolithic" or "modular" (0.6.12 and newer).
    kv_scale_format : str, optional
        Format of packed KV scales (0.6.14 and newer).
    cum_seq_lens_q : Tensor, optional
        ``[batch_size + 1]``, int32: queries of different lengths (0.6.14 and newer).
    max_q_len : int, optional
        Largest query length, with ``cum_seq_lens_q`` (0.6.14 and newer).
    multi_ctas_kv_counter_buffer : Tensor, optional
        Counters of trtllm-gen; one per stream (0.6.15 and newer).
    sparse_mla_top_k_lens : Tensor, optional
        ``[num_tokens]``, int32 (0.6.17 and newer).
    enable_dcp : bool, optional
        Decode context parallelism: each rank holds a part of the KV cache and returns its LSE (0.6.17 and newer).
    cp_world : int, optional
        Ranks that share the KV cache (0.6.17 and newer).
    cp_rank : int, optional
        This rank among them (0.6.17 and newer).
    causal_seqlens_kv_global : Tensor, optional
        ``[batch_size]``, int32: lengths over all ranks (0.6.17 and newer).
    use_fp16_softmax : bool, optional
        Softmax accumulates in float16 (0.6.18 and newer).
    return_lse_base : Literal["base2", "basee"], optional
        0.7.1's name for ``lse_base`` (0.7.1 and newer).
    lse_base : {"base2", "basee"}
        Base of the LSE, whichever kernel ran: what ``merge_state`` takes.

    Returns
    -------
    Tensor or tuple[Tensor, Tensor]
        ``[..., num_heads, kv_lora_rank]``, bfloat16; with ``return_lse`` also the LSE, float32, in ``lse_base``.

    Raises
    ------
    UnsupportedFeatureError
        An option that the installed release lacks; the message has the releases and the pip line.
    ValueError
        ``lse_base`` is neither base, or contradicts ``return_lse_base``.

    Notes
    -----
    ``flashinfer.mla.trtllm_batch_decode_with_kv_cache_mla``; every parameter by keyword, since positions moved between
    releases.
    """
    if removed:
        refuse_removed("trtllm_batch_decode_with_kv_cache_mla", removed)
    return _bindings.flashinfer.mla.decode(
        {
            "query": query,
            "kv_cache": kv_cache,
            "workspace_buffer": workspace_buffer,
            "qk_nope_head_dim": qk_nope_head_dim,
            "kv_lora_rank": kv_lora_rank,
            "qk_rope_head_dim": qk_rope_head_dim,
            "block_tables": block_tables,
            "seq_lens": seq_lens,
            "max_seq_len": max_seq_len,
        },
        {
            "sparse_mla_top_k": sparse_mla_top_k,
            "out": out,
            "bmm1_scale": bmm1_scale,
            "bmm2_scale": bmm2_scale,
            "sinks": sinks,
            "skip_softmax_threshold_scale_factor": skip_softmax_threshold_scale_factor,
            "enable_pdl": enable_pdl,
            "backend": backend,
            "is_var_seq": is_var_seq,
            "uses_shared_paged_kv_idx": uses_shared_paged_kv_idx,
            "lse": lse,
            "return_lse": return_lse,
            "cute_dsl_impl": cute_dsl_impl,
            "kv_scale_format": kv_scale_format,
            "cum_seq_lens_q": cum_seq_lens_q,
            "max_q_len": max_q_len,
            "multi_ctas_kv_counter_buffer": multi_ctas_kv_counter_buffer,
            "sparse_mla_top_k_lens": sparse_mla_top_k_lens,
            "enable_dcp": enable_dcp,
            "cp_world": cp_world,
            "cp_rank": cp_rank,
            "causal_seqlens_kv_global": causal_seqlens_kv_global,
            "use_fp16_softmax": use_fp16_softmax,
            "return_lse_base": return_lse_base,
        },
        _base(lse_base, return_lse_base),
    )
