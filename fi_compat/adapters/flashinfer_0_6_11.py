"""FlashInfer 0.6.11 to 0.6.11.post3: is_global_scale_inversed is new, and ``numel == m`` means one scale per row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fi_compat._upstream import Upstream, unsupported

from . import attention_0_6_8 as attention
from . import comm_0_6_10_post1 as comm
from . import mla_0_6_8 as mla
from . import moe_0_6_8 as moe
from .flashinfer_0_6_8 import UPSTREAMS as UPSTREAMS
from .flashinfer_0_6_8 import _fp4_quantize
from .flashinfer_0_6_8 import block_scale_interleave as block_scale_interleave
from .flashinfer_0_6_8 import e2m1_and_ufp8sf_scale_to_float as e2m1_and_ufp8sf_scale_to_float
from .flashinfer_0_6_8 import mxfp4_quantize as mxfp4_quantize
from .flashinfer_0_6_8 import mxfp8_quantize as mxfp8_quantize
from .flashinfer_0_6_8 import nvfp4_quantize as nvfp4_quantize
from .flashinfer_0_6_8 import shuffle_matrix_a as shuffle_matrix_a
from .flashinfer_0_6_8 import shuffle_matrix_sf_a as shuffle_matrix_sf_a

if TYPE_CHECKING:
    from torch import Tensor

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


def fp4_quantize(
    input: Tensor,
    global_scale: Tensor | None,
    sf_vec_size: int,
    sf_use_ue8m0: bool,
    is_sf_swizzled_layout: bool,
    is_sf_8x4_layout: bool,
    is_global_scale_inversed: bool,
    per_token_scale: bool,  # noqa: ARG001 - from 0.6.11 on the number of elements says it, and the public function has checked that
    enable_pdl: bool | None,
    backend: str,
    nvfp4_4over6: Any,
    batch_invariant: bool,
    *,
    upstream: Upstream = _fp4_quantize,
) -> tuple[Tensor, Tensor]:
    """Call ``flashinfer.fp4_quantize``; see ``fi_compat.quantization.fp4_quantize``."""
    if nvfp4_4over6 is not None:
        raise unsupported("fp4_quantize", "nvfp4_4over6", "flashinfer", ">=0.7.1")
    if batch_invariant:
        raise unsupported("fp4_quantize", "batch_invariant=True", "flashinfer", ">=0.7.4")
    if is_global_scale_inversed and backend == "cute-dsl":
        # Upstream does not forward it to the cute-dsl kernel, 0.6.11 to 0.7.4.
        raise unsupported("fp4_quantize", "is_global_scale_inversed=True with backend='cute-dsl'", "flashinfer", "with backend='cuda'")
    return upstream.call(  # type: ignore[no-any-return]
        input,
        global_scale,
        sf_vec_size,
        sf_use_ue8m0,
        is_sf_swizzled_layout,
        is_sf_8x4_layout,
        is_global_scale_inversed=is_global_scale_inversed,
        enable_pdl=enable_pdl,
        backend=backend,
    )
