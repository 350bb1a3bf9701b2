"""MLA decode of FlashInfer 0.6.8 to 0.7.0.post1: the base of the LSE is whatever the kernel that ran uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fi_compat import _device
from fi_compat._options import fill
from fi_compat._unset import UNSET
from fi_compat._upstream import Upstream

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["UPSTREAMS", "decode", "lse_wanted", "merge_state", "merge_states"]

LOG2_E: Final = 1.4426950408889634
LN_2: Final = 0.6931471805599453
_BLACKWELL: Final = 10
#: Block sizes and head counts that trtllm-gen serves; outside them "auto" takes the cute-dsl kernel.
_BLOCKS: Final = (32, 64)
_HEADS: Final = range(65, 128)

_decode = Upstream("flashinfer.mla", "trtllm_batch_decode_with_kv_cache_mla")
_merge_state = Upstream("flashinfer", "merge_state")
_merge_states = Upstream("flashinfer", "merge_states")

UPSTREAMS = {
    "trtllm_batch_decode_with_kv_cache_mla": (_decode,),
    "merge_state": (_merge_state,),
    "merge_states": (_merge_states,),
}


def _given(value: Any) -> bool:
    return value is not UNSET and value is not None


def lse_wanted(optional: dict[str, Any]) -> tuple[bool, bool]:
    """Say whether the LSE is to be returned, and whether it is wanted at all: a buffer for it may be given instead."""
    asked = bool(optional["return_lse"])
    return asked, asked or _given(optional["lse"])


def decode(required: dict[str, Any], optional: dict[str, Any], lse_base: str) -> Tensor | tuple[Tensor, Tensor]:
    """Call the decode and convert the LSE where the kernel that ran has the other base."""
    asked, wanted = lse_wanted(optional)
    if not wanted:
        fill(_decode, required, optional)
        return _decode.call(**required)
    # 0.6.12 drops a buffer for the LSE unless it is also to be returned.
    optional["return_lse"] = True
    natural = _is_natural(required, optional)
    fill(_decode, required, optional)
    out, lse = _decode.call(**required)
    if natural != (lse_base == "basee"):
        # In place: a buffer of the caller's has the base that was asked for, too.
        lse.mul_(LOG2_E if natural else LN_2)
    return (out, lse) if asked else out


def _is_natural(required: dict[str, Any], optional: dict[str, Any]) -> bool:
    """Settle which kernel runs, and say whether it writes natural logarithms (the monolithic cute-dsl kernel alone does)."""
    backend = optional["backend"]
    if backend is UNSET or backend == "auto":
        if optional["enable_dcp"] or _given(optional["cum_seq_lens_q"]):
            return True  # served by that kernel alone
        query, kv_cache = required["query"], required["kv_cache"]
        if _device.capability(query.get_device())[0] != _BLACKWELL:
            return False
        # From 0.6.13 on "auto" may time both kernels and keep either; the base must not depend on the clock.
        served = kv_cache.shape[-2] in _BLOCKS and query.shape[-2] not in _HEADS
        backend = optional["backend"] = "trtllm-gen" if served else "cute-dsl"
    return bool(backend == "cute-dsl")


def merge_state(v_a: Tensor, s_a: Tensor, v_b: Tensor, s_b: Tensor, lse_base: str) -> tuple[Tensor, Tensor]:
    """Call ``flashinfer.merge_state``, which works in base 2."""
    if lse_base == "base2":
        return _merge_state.call(v_a, s_a, v_b, s_b)  # type: ignore[no-any-return]
    v, s = _merge_state.call(v_a, s_a * LOG2_E, v_b, s_b * LOG2_E)
    return v, s * LN_2


def merge_states(v: Tensor, s: Tensor, lse_base: str) -> tuple[Tensor, Tensor]:
    """Call ``flashinfer.merge_states``, which works in base 2."""
    if lse_base == "base2":
        return _merge_states.call(v, s)  # type: ignore[no-any-return]
    merged, lse = _merge_states.call(v, s * LOG2_E)
    return merged, lse * LN_2
