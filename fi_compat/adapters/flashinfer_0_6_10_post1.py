"""FlashInfer 0.6.10.post1: ``group`` is new in create_allreduce_fusion_workspace, and decides."""

from __future__ import annotations

from . import attention_0_6_8 as attention
from . import comm_0_6_10_post1 as comm
from . import mla_0_6_8 as mla
from . import moe_0_6_8 as moe
from .flashinfer_0_6_10 import UPSTREAMS as UPSTREAMS
from .flashinfer_0_6_10 import block_scale_interleave as block_scale_interleave
from .flashinfer_0_6_10 import e2m1_and_ufp8sf_scale_to_float as e2m1_and_ufp8sf_scale_to_float
from .flashinfer_0_6_10 import fp4_quantize as fp4_quantize
from .flashinfer_0_6_10 import mxfp4_quantize as mxfp4_quantize
from .flashinfer_0_6_10 import mxfp8_quantize as mxfp8_quantize
from .flashinfer_0_6_10 import nvfp4_quantize as nvfp4_quantize
from .flashinfer_0_6_10 import shuffle_matrix_a as shuffle_matrix_a
from .flashinfer_0_6_10 import shuffle_matrix_sf_a as shuffle_matrix_sf_a

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
