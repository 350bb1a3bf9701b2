"""MLA decode of FlashInfer 0.7.1 and newer: ``return_lse_base`` says the base, whichever kernel runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fi_compat._unset import UNSET
from fi_compat.fused_moe._call import fill

from .mla_0_6_8 import RECORDED, _decode
from .mla_0_6_8 import UPSTREAMS as UPSTREAMS
from .mla_0_6_8 import merge_state as merge_state
from .mla_0_6_8 import merge_states as merge_states

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["UPSTREAMS", "decode", "merge_state", "merge_states"]


def decode(required: dict[str, Any], optional: dict[str, Any], lse_base: str) -> Tensor | tuple[Tensor, Tensor]:
    """Call the decode with the base that was asked for."""
    asked = optional["return_lse"] is not UNSET and optional["return_lse"]
    if not asked and optional["lse"] is not UNSET and optional["lse"] is not None:
        optional["return_lse"] = True
    fill(_decode, required, optional, RECORDED)
    if required.get("return_lse"):
        required["return_lse_base"] = lse_base
        out, lse = _decode.call(**required)
        return (out, lse) if asked else out
    return _decode.call(**required)
