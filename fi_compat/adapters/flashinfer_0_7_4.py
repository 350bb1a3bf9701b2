"""FlashInfer 0.7.4 and newer: the private planner takes 21 arguments."""

from __future__ import annotations

from . import attention_0_7_4 as attention
from . import comm_0_6_15 as comm
from . import mla_0_7_1 as mla
from . import moe_0_6_15 as moe
from .flashinfer_0_7_1 import UPSTREAMS as UPSTREAMS
from .flashinfer_0_7_1 import block_scale_interleave as block_scale_interleave
from .flashinfer_0_7_1 import e2m1_and_ufp8sf_scale_to_float as e2m1_and_ufp8sf_scale_to_float
from .flashinfer_0_7_1 import fp4_quantize as fp4_quantize
from .flashinfer_0_7_1 import mxfp4_quantize as mxfp4_quantize
from .flashinfer_0_7_1 import mxfp8_quantize as mxfp8_quantize
from .flashinfer_0_7_1 import nvfp4_quantize as nvfp4_quantize
from .flashinfer_0_7_1 import shuffle_matrix_a as shuffle_matrix_a
from .flashinfer_0_7_1 import shuffle_matrix_sf_a as shuffle_matrix_sf_a

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
