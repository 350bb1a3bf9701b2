"""What changes without an error, as data: which callable, on which releases, for which calls, and what to do.

Each row is a SILENT fact that was read in, or run on, the published packages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["ENUM_PARAMETERS", "ROWS", "Row"]


@dataclass(frozen=True)
class Row:
    """One behaviour.

    Attributes
    ----------
    names : tuple of str
        Last parts of the callables' recorded names.
    intervals : tuple of str
        PEP 440 specifiers of the releases that behave so.
    lacks, has : tuple of str
        The call is concerned when it gives none of ``lacks`` and one of ``has`` (empty: any call).
    meaning, remedy : str
        One line each.
    """

    names: tuple[str, ...]
    intervals: tuple[str, ...]
    meaning: str
    remedy: str
    lacks: tuple[str, ...] = ()
    has: tuple[str, ...] = ()


_FP4_MOE: Final = ("trtllm_fp4_block_scale_moe", "trtllm_fp4_block_scale_routed_moe")

ROWS: Final[tuple[Row, ...]] = (
    Row(
        ("create_allreduce_fusion_workspace",),
        (">=0.6.10.dev0,<0.6.10.post1.dev0",),
        "the workspace meets over WORLD whatever comm_backend says: hangs where the group is smaller",
        "fi_compat.comm.create_allreduce_fusion_workspace(group=...)",
    ),
    Row(
        ("create_allreduce_fusion_workspace",),
        (">=0.6.10.post1.dev0,<0.6.15.dev0",),
        "without group= the workspace meets over WORLD",
        "pass group= and comm_backend=, or fi_compat.comm.create_allreduce_fusion_workspace",
        lacks=("group",),
    ),
    Row(
        ("create_allreduce_fusion_workspace",),
        ("<0.6.10.dev0", ">=0.6.15.dev0"),
        "without comm_backend= (or group= from 0.6.15 on) the workspace meets over WORLD: a hang, or a wrong sum",
        "pass comm_backend=, or fi_compat.comm.create_allreduce_fusion_workspace",
        lacks=("comm_backend", "group"),
    ),
    Row(
        ("fp4_quantize",),
        ("<0.7.4.dev0",),
        "on SM90 returns uninitialised memory up to 0.7.2.post1",
        "fi_compat.fp4_quantize, which refuses the device",
    ),
    Row(
        _FP4_MOE,
        ("<0.6.15.dev0",),
        "expert weights are labelled with the dtype of the logits and hold bfloat16",
        "fi_compat.fused_moe, or bfloat16 logits",
        has=("do_finalize",),
    ),
    Row(
        ("trtllm_batch_decode_with_kv_cache_mla",),
        (">=0.6.13.dev0,<0.7.1.dev0",),
        "the base of the LSE depends on the kernel that runs",
        "fi_compat.mla with lse_base=, or return_lse_base= from 0.7.1 on",
        has=("return_lse", "lse"),
    ),
    Row(
        ("trtllm_batch_decode_with_kv_cache_mla",),
        (">=0.7.1.dev0",),
        "without return_lse_base= the base of the LSE depends on the kernel that runs",
        "return_lse_base='base2', or fi_compat.mla",
        lacks=("return_lse_base",),
        has=("return_lse", "lse"),
    ),
    Row(
        ("interleave_moe_scales_for_sm90_mixed_gemm",),
        (">=0.6.10.dev0",),
        "the layout went 3-D (0.6.10), 5-D (0.6.16), 3-D (0.6.16.post3), 5-D (0.6.18): never keep the result for another release",
        "fi_compat.fused_moe.interleave_moe_scales_for_sm90_mixed_gemm, and key caches by version",
    ),
    Row(
        ("get_w2_permute_indices_with_cache", "_maybe_get_cached_w3_w1_permute_indices"),
        ("<0.6.18.dev0",),
        "the cache key is the kind and the shape: preparations of one shape get one permutation",
        "fi_compat.fused_moe, whose key has everything",
    ),
    Row(
        ("cutlass_fused_moe", *_FP4_MOE, "trtllm_mxint4_block_scale_moe"),
        (">=0.6.7",),
        "returns a list of one tensor, where the annotation may say Tensor",
        "take [0], or fi_compat.fused_moe",
    ),
    Row(
        ("trtllm_ragged_attention_deepseek",),
        (">=0.7.0.dev0",),
        "empty rows are assumed absent (skip_all_rows_active_check defaults to True)",
        "guard empty rows, or pass skip_all_rows_active_check=False",
        lacks=("skip_all_rows_active_check",),
    ),
    Row(
        ("CuteDslMoEWrapper",),
        ("<0.6.14.dev0",),
        "with use_cuda_graph=True every answer is a slice of one buffer",
        "clone it, or fi_compat.fused_moe.cute_dsl_moe",
        has=("use_cuda_graph",),
    ),
)

#: Parameters that take an upstream enum, and the integers that mean the same on every release.
ENUM_PARAMETERS: Final = {"activation_type": ("ActivationType", 7), "routing_method_type": ("RoutingMethodType", 6)}
