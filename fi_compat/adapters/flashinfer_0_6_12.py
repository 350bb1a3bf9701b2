"""FlashInfer 0.6.12 to 0.7.0.post1: the environment can switch NVFP4 "4 over 6" on, and no parameter can switch it off.

From 0.6.12 on the cute-dsl kernel of mxfp8_quantize obeys sf_swizzle_layout.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from fi_compat._options import refuse_four_over_six
from fi_compat._upstream import Upstream

from . import attention_0_6_8 as attention
from . import comm_0_6_10_post1 as comm
from . import flashinfer_0_6_11 as _before
from . import mla_0_6_8 as mla
from . import moe_0_6_12 as moe
from .flashinfer_0_6_8 import FP4_LEADING, NVFP4_LEADING, _mxfp8_quantize, _SfLayout
from .flashinfer_0_6_11 import block_scale_interleave as block_scale_interleave
from .flashinfer_0_6_11 import e2m1_and_ufp8sf_scale_to_float as e2m1_and_ufp8sf_scale_to_float
from .flashinfer_0_6_11 import mxfp4_quantize as mxfp4_quantize
from .flashinfer_0_6_11 import shuffle_matrix_a as shuffle_matrix_a
from .flashinfer_0_6_11 import shuffle_matrix_sf_a as shuffle_matrix_sf_a

if TYPE_CHECKING:
    from torch import Tensor

    from fi_compat.quantization import SfLayout

__all__ = [
    "UPSTREAMS",
    "attention",
    "block_scale_interleave",
    "comm",
    "e2m1_and_ufp8sf_scale_to_float",
    "fp4_quantize",
    "mla",
    "moe",
    "mxfp4_quantize",
    "mxfp8_quantize",
    "nvfp4_quantize",
    "shuffle_matrix_a",
    "shuffle_matrix_sf_a",
]


_refuse = partial(refuse_four_over_six, "fp4_quantize", "FlashInfer 0.6.12 to 0.7.0.post1", "0.7.1")
_fp4_quantize = Upstream("flashinfer", "fp4_quantize", before=_refuse, leading=FP4_LEADING)
_nvfp4_quantize = Upstream("flashinfer", "nvfp4_quantize", before=_refuse, leading=NVFP4_LEADING)

UPSTREAMS = {
    **_before.UPSTREAMS,
    "fp4_quantize": (_fp4_quantize,),
    "nvfp4_quantize": (_nvfp4_quantize, _SfLayout),
}

# functools.partial adds no Python frame.
fp4_quantize = partial(_before.fp4_quantize, upstream=_fp4_quantize)
nvfp4_quantize = partial(_before.nvfp4_quantize, upstream=_nvfp4_quantize)


def mxfp8_quantize(
    input: Tensor,
    is_sf_swizzled_layout: bool,
    alignment: int,
    enable_pdl: bool | None,
    backend: str,
    sf_swizzle_layout: SfLayout | None,
    batch_invariant: bool,
) -> tuple[Tensor, Tensor]:
    """Call ``flashinfer.mxfp8_quantize``; see ``fi_compat.quantization.mxfp8_quantize``."""
    options: dict[str, Any] = {}
    if batch_invariant:
        _mxfp8_quantize.require("batch_invariant", batch_invariant, ">=0.7.4")
        options["batch_invariant"] = True
    if sf_swizzle_layout is not None:
        options["sf_swizzle_layout"] = _SfLayout.call(int(sf_swizzle_layout))
    return _mxfp8_quantize.call(  # type: ignore[no-any-return]
        input=input, is_sf_swizzled_layout=is_sf_swizzled_layout, alignment=alignment, enable_pdl=enable_pdl, backend=backend, **options
    )
