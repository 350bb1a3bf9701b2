"""Binds stable functions ahead of time; see ``fi_compat.prepare``."""

from __future__ import annotations

import difflib
import logging
from typing import Final

from . import _bindings, _resolver
from .errors import ConfigurationError, FiCompatError, UnsupportedFeatureError

__all__ = ["STABLE", "prepare"]

_log = logging.getLogger(__name__)

#: Every stable function and the upstream that it ends in.
STABLE: Final[dict[str, str]] = {
    "fp4_quantize": "flashinfer",
    "nvfp4_quantize": "flashinfer",
    "mxfp4_quantize": "flashinfer",
    "mxfp8_quantize": "flashinfer",
    "block_scale_interleave": "flashinfer",
    "e2m1_and_ufp8sf_scale_to_float": "flashinfer",
    "shuffle_matrix_a": "flashinfer",
    "shuffle_matrix_sf_a": "flashinfer",
    "create_allreduce_fusion_workspace": "flashinfer",
    "allreduce_fusion": "flashinfer",
    "trtllm_fp4_block_scale_moe": "flashinfer",
    "trtllm_fp4_block_scale_routed_moe": "flashinfer",
    "trtllm_fp8_block_scale_moe": "flashinfer",
    "trtllm_fp8_block_scale_routed_moe": "flashinfer",
    "trtllm_bf16_moe": "flashinfer",
    "trtllm_bf16_routed_moe": "flashinfer",
    "cutlass_fused_moe": "flashinfer",
    "cute_dsl_moe": "flashinfer",
    "get_w2_permute_indices_with_cache": "flashinfer",
    "maybe_get_cached_w3_w1_permute_indices": "flashinfer",
    "interleave_moe_scales_for_sm90_mixed_gemm": "flashinfer",
    "interleave_moe_weights_for_sm90_mixed_gemm": "flashinfer",
    "trtllm_batch_decode_with_kv_cache_mla": "flashinfer",
    "merge_state": "flashinfer",
    "merge_states": "flashinfer",
    "routing": "triton_kernels",
    "routing_from_topk": "triton_kernels",
    "matmul_ogs": "triton_kernels",
    "precision_config": "triton_kernels",
    "fused_swiglu": "triton_kernels",
    "prepare_mxfp4_weight": "triton_kernels",
}


def prepare(*names: str) -> None:
    """Bind ``names``, or all that the installed upstreams can serve, and register the ops."""
    for name in names:
        if name not in STABLE:
            close = difflib.get_close_matches(name, STABLE, n=3, cutoff=0.4)
            raise ValueError(f"prepare: no stable function {name!r}; known are {', '.join(close or STABLE)}")
    for name in names or STABLE:
        try:
            _bind(name)
        except ConfigurationError:
            raise
        except FiCompatError as error:
            if names:
                raise
            _log.info("prepare: %s is left out: %s", name, error)
    if _bindings.float32 is not None:
        from . import _ops

        _ops.register()


def _bind(name: str) -> None:
    adapter = _bindings.resolve(STABLE[name])
    families = [f for f in (adapter, *(getattr(adapter, part, None) for part in ("comm", "moe", "mla", "matmul"))) if f is not None]
    needed = next((f.UPSTREAMS[name] for f in families if name in f.UPSTREAMS), None)
    if needed is None:
        selection = _resolver.active(STABLE[name])
        raise UnsupportedFeatureError(
            f"{name} is not served by adapter {selection.adapter}: found {selection.upstream} {selection.version}",
            feature=name,
            found=f"{selection.upstream} {selection.version}",
        )
    for upstream in needed:
        if upstream.before is not None:
            upstream.before()
        upstream.bind()
