"""MLA decode of FlashInfer 0.7.1 and newer: ``return_lse_base`` says the base, whichever kernel runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fi_compat._options import fill

from .mla_0_6_8 import UPSTREAMS as UPSTREAMS
from .mla_0_6_8 import _decode, lse_wanted
from .mla_0_6_8 import merge_state as merge_state
from .mla_0_6_8 import merge_states as merge_states

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["UPSTREAMS", "decode", "merge_state", "merge_states"]


def decode(required: dict[str, Any], optional: dict[str, Any], lse_base: str) -> Tensor | tuple[Tensor, Tensor]:
    """Call the decode with the base that was asked for."""
    asked, wanted = lse_wanted(optional)
    if not wanted:
        fill(_decode, required, optional)
        return _decode.call(**required)
    optional["return_lse"] = True
    fill(_decode, required, optional)
    out, lse = _decode.call(**required, return_lse_base=lse_base)
    return (out, lse) if asked else out
