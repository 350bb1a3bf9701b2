"""The only file that names versions: rows from release to adapter, marks of structure, known pairings.

Every constant is a fact about published packages, named for the behaviour, with the upstream release beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = [
    "COMPANION_REGIMES",
    "CUBIN_DIR_WINS",
    "CUBIN_LEFT_PYPI",
    "FEATURES",
    "FLASHINFER_INDEX",
    "FLASHINFER_RELEASES",
    "FLASHINFER_ROWS",
    "FLOORS",
    "FOUR_OVER_SIX_RELEASES",
    "FOUR_OVER_SIX_VARIABLES",
    "KNOWN_ISSUES",
    "NUMERIC_VARIABLES",
    "PAIRINGS",
    "TREES",
    "TRITON_KERNELS_OWNERS",
    "TRITON_KERNELS_ROWS",
    "TVM_FFI",
    "Feature",
    "FlashInferRow",
    "Tree",
    "TritonKernelsRow",
]


@dataclass(frozen=True)
class FlashInferRow:
    """One adapter module and the releases whose calls mean what it expects.

    ``marks`` are ``(file, function, parameter)``: a tree of unknown version has this row's meaning when all its marks
    are present. Bounds carry ``.dev0`` so that development builds and release candidates fall into a row.
    """

    adapter: str
    spec: str
    marks: tuple[tuple[str, str, str], ...]


_FP4: Final = "quantization/fp4_quantization.py"

_ALLREDUCE: Final = "comm/allreduce.py"
_CREATE: Final = "create_allreduce_fusion_workspace"

FLASHINFER_ROWS: Final[tuple[FlashInferRow, ...]] = (
    FlashInferRow(
        "flashinfer_0_6_8",
        ">=0.6.8.dev0,<0.6.10.dev0",
        ((_FP4, "fp4_quantize", "backend"),),
    ),
    # 0.6.10 alone moves to torch symmetric memory without a way to name the group in the public creator.
    FlashInferRow(
        "flashinfer_0_6_10",
        ">=0.6.10.dev0,<0.6.10.post1.dev0",
        ((_FP4, "fp4_quantize", "backend"), ("comm/torch_symmetric_memory.py", "_alloc_symm_buffer_bytes", "group_name")),
    ),
    FlashInferRow(
        "flashinfer_0_6_10_post1",
        ">=0.6.10.post1.dev0,<0.6.11.dev0",
        ((_FP4, "fp4_quantize", "backend"), (_ALLREDUCE, _CREATE, "group")),
    ),
    # 0.6.11 inserts is_global_scale_inversed at position 6 and gives a scale of numel == m a meaning of its own.
    FlashInferRow(
        "flashinfer_0_6_11",
        ">=0.6.11.dev0,<0.6.12.dev0",
        ((_FP4, "fp4_quantize", "is_global_scale_inversed"),),
    ),
    # 0.6.12 reads FLASHINFER_NVFP4_4OVER6 in C++ and has no parameter to say otherwise; its mxfp8_quantize
    # is the first whose cute-dsl kernel obeys sf_swizzle_layout.
    FlashInferRow(
        "flashinfer_0_6_12",
        ">=0.6.12.dev0,<0.6.15.dev0",
        ((_FP4, "fp4_quantize", "is_global_scale_inversed"), (_FP4, "_fp4_quantize_custom_op", "enable_pdl")),
    ),
    # 0.6.15 goes back to SymmDeviceMemory: comm_backend decides which ranks meet, and wins over group.
    FlashInferRow(
        "flashinfer_0_6_15",
        ">=0.6.15.dev0,<0.6.16.dev0",
        ((_FP4, "_fp4_quantize_custom_op", "enable_pdl"), ("fused_moe/core.py", "cutlass_fused_moe", "use_fused_finalize")),
    ),
    # 0.6.16's private planner takes a twentieth argument, the uniform query length.
    FlashInferRow(
        "flashinfer_0_6_16",
        ">=0.6.16.dev0,<0.7.1.dev0",
        ((_FP4, "_fp4_quantize_custom_op", "enable_pdl"), ("decode.py", "fast_decode_plan", "q_len_per_req")),
    ),
    # 0.7.1 adds nvfp4_4over6, whose None means off whatever the environment says.
    FlashInferRow(
        "flashinfer_0_7_1",
        ">=0.7.1.dev0,<0.7.4.dev0",
        ((_FP4, "fp4_quantize", "nvfp4_4over6"),),
    ),
    # 0.7.4's private planner takes a twenty-first argument.
    FlashInferRow(
        "flashinfer_0_7_4",
        ">=0.7.4.dev0",
        ((_FP4, "fp4_quantize", "nvfp4_4over6"), (_FP4, "fp4_quantize", "batch_invariant")),
    ),
)

#: Every published release that the contract suite runs on, oldest first. 0.7.3 was never published.
FLASHINFER_RELEASES: Final[tuple[str, ...]] = (
    "0.6.8",
    "0.6.8.post1",
    "0.6.9",
    "0.6.10",
    "0.6.10.post1",
    "0.6.11",
    "0.6.11.post1",
    "0.6.11.post2",
    "0.6.11.post3",
    "0.6.12",
    "0.6.13",
    "0.6.14",
    "0.6.15",
    "0.6.15.post1",
    "0.6.16",
    "0.6.16.post1",
    "0.6.16.post2",
    "0.6.16.post3",
    "0.6.16.post4",
    "0.6.17",
    "0.6.18",
    "0.6.18.post1",
    "0.7.0",
    "0.7.0.post1",
    "0.7.1",
    "0.7.2",
    "0.7.2.post1",
    "0.7.4",
)

#: 0.6.12 to 0.7.0.post1 quantize differently when this is on, and have no parameter to say otherwise.
FOUR_OVER_SIX_VARIABLES: Final = ("FLASHINFER_NVFP4_4OVER6",)
FOUR_OVER_SIX_RELEASES: Final = ">=0.6.12.dev0,<0.7.1.dev0"


@dataclass(frozen=True)
class CompanionRegime:
    """What FlashInfer itself does about a companion wheel of another version, by release of FlashInfer."""

    spec: str
    cubin: str
    jit_cache: str
    prefix_comparison: bool


#: jit/env.py of each release. The 0.6 line compares jit-cache with ``startswith``: 0.6.11 accepts 0.6.11.post1+cu130.
COMPANION_REGIMES: Final[tuple[CompanionRegime, ...]] = (
    CompanionRegime("<0.7.0.dev0", "raises RuntimeError at import", "raises RuntimeError at import", prefix_comparison=True),
    CompanionRegime(
        ">=0.7.0.dev0,<0.7.2.dev0",
        "raises RuntimeError at import",
        "raises RuntimeError when the first kernel is loaded",
        prefix_comparison=False,
    ),
    CompanionRegime(
        ">=0.7.2.dev0",
        "is ignored with a warning, and cubins are downloaded on demand (a slow start; a failure when offline)",
        "is ignored with a warning, and kernels are JIT-compiled (minutes at the first call)",
        prefix_comparison=False,
    ),
)

#: Upstream's own wheel index: flashinfer-cubin from 0.6.14 on is not on PyPI, flashinfer-jit-cache never was.
FLASHINFER_INDEX: Final = "https://flashinfer.ai/whl"
CUBIN_LEFT_PYPI: Final = "0.6.14"
#: Where FLASHINFER_CUBIN_DIR and flashinfer-cubin are both there, the variable counts from here on.
CUBIN_DIR_WINS: Final = ">=0.6.16.dev0"
#: What flashinfer-python asks of apache-tvm-ffi: ``(releases, specifier)``.
TVM_FFI: Final = (("<0.7.0.dev0", ">=0.1.6,<0.2"), (">=0.7.0.dev0", ">=0.1.11,<0.2"))

#: Variables that change what FlashInfer computes.
NUMERIC_VARIABLES: Final[dict[str, str]] = {
    "FLASHINFER_NVFP4_4OVER6": "NVFP4 scales are searched over two candidates (0.6.12 and newer)",
    "FLASHINFER_NVFP4_4OVER6_E4M3_USE_256": "the NVFP4 global-scale convention is 256 instead of 448 (0.6.12 and newer)",
    "FLASHINFER_NVFP4_4OVER6_ERR_MODE": "how the 4-over-6 candidates are compared (0.6.12 and newer)",
    "FLASHINFER_NVFP4_4OVER6_ERR_USE_FAST_MATH": "how the 4-over-6 error is computed (0.6.12 and newer)",
    "FLASHINFER_DISABLE_FP4_QUANT_FAST_MATH": "FP4 quantization without approximate reciprocals (0.6.13 and newer)",
    "TRTLLM_DISABLE_FP4_QUANT_FAST_MATH": "FP4 quantization without approximate reciprocals (0.6.12)",
}


@dataclass(frozen=True)
class KnownIssue:
    """A release that is known to be bad, keyed by release, Python and compute capability."""

    id: str
    distribution: str
    spec: str
    severity: str
    message: str
    remedy: str
    python: str = ""
    capability: tuple[int, ...] = ()
    with_distribution: str = ""
    with_spec: str = ""


KNOWN_ISSUES: Final[tuple[KnownIssue, ...]] = (
    KnownIssue(
        "allreduce-world",
        "flashinfer-python",
        ">=0.6.10.dev0,<0.6.10.post1.dev0",
        "warning",
        "0.6.10 makes the allreduce fusion workspace over WORLD whatever group the engine uses: it hangs, or meets the wrong ranks, where"
        " the tensor-parallel group is smaller (flashinfer#3247); fi_compat.create_allreduce_fusion_workspace is right",
        "pip install flashinfer-python==0.6.10.post1",
    ),
    KnownIssue(
        "comm-python",
        "flashinfer-python",
        ">=0.6.16.dev0,<0.6.16.post4.dev0",
        "error",
        "0.6.16 to 0.6.16.post3 cannot import flashinfer.comm on Python below 3.12 (TypeError: type 'array.array' is not subscriptable)",
        "pip install flashinfer-python==0.6.16.post4",
        python="<3.12",
    ),
    KnownIssue(
        "jit-cache-tvm-ffi",
        "flashinfer-jit-cache",
        ">=0.6.16.dev0,<0.6.16.post3.dev0",
        "error",
        "flashinfer-jit-cache 0.6.16 to .post2 was compiled against a newer apache-tvm-ffi: undefined symbol at the first kernel",
        "pip install --extra-index-url https://flashinfer.ai/whl flashinfer-python==0.6.16.post4 flashinfer-jit-cache==0.6.16.post4",
        with_distribution="apache-tvm-ffi",
        with_spec="<0.1.14",
    ),
    KnownIssue(
        "mm-fp4-sm120",
        "flashinfer-python",
        ">=0.6.12.dev0,<0.6.13.dev0",
        "warning",
        "mm_fp4 on 0.6.12 returned zeros for some M on SM120 (flashinfer#3398)",
        "pip install 'flashinfer-python>=0.6.13'",
        capability=(12,),
    ),
    KnownIssue(
        "throughput-0.6.15",
        "flashinfer-python",
        ">=0.6.15.dev0,<0.6.15.post1.dev0",
        "info",
        "a throughput regression was reported against 0.6.15 (sglang#31625)",
        "pip install flashinfer-python==0.6.15.post1",
    ),
    KnownIssue(
        "autotuner-cache-0.6.18",
        "flashinfer-python",
        ">=0.6.18.dev0,<0.6.19.dev0",
        "info",
        "the autotuner's cache of 0.6.18 is keyed by a digest of a whole file: throughput may differ from boot to boot (sglang#40420)",
        "let FlashInfer write its cache afresh, and do not parse it",
    ),
    KnownIssue(
        "xgrammar-tvm-ffi",
        "apache-tvm-ffi",
        ">=0.1.13.dev0,<0.1.14.dev0",
        "warning",
        "apache-tvm-ffi 0.1.13 with xgrammar below 0.1.32 crashes the interpreter at import (vllm-metal#570)",
        "pip install -U xgrammar apache-tvm-ffi",
        with_distribution="xgrammar",
        with_spec="<0.1.32",
    ),
)


@dataclass(frozen=True)
class Floor:
    """A real lower bound that a wheel's own metadata states too low or not at all."""

    id: str
    distribution: str
    spec: str
    when_distribution: str
    when_spec: str
    message: str
    severity: str = "warning"


FLOORS: Final[tuple[Floor, ...]] = (
    Floor(
        "tvm-ffi-cutlass-dsl",
        "apache-tvm-ffi",
        ">=0.1.10",
        "nvidia-cutlass-dsl",
        ">=4.6.0.dev0",
        "cutlass-dsl 4.6.0 calls make_kwargs_wrapper(map_dataclass_to_tuple=...), which apache-tvm-ffi has from 0.1.10 on",
        "error",
    ),
    Floor(
        "cute-dsl-experimental",
        "nvidia-cutlass-dsl",
        ">=4.7.0",
        "flashinfer-python",
        ">=0.6.18.dev0",
        "backend='cute-dsl' of some 0.6.18 kernels needs cutlass.experimental, from cutlass-dsl 4.7.0 on (the wheel says >=4.6.2a0)",
    ),
)


@dataclass(frozen=True)
class Pairing:
    """A pair of triton and triton_kernels that works only in part."""

    id: str
    variants: tuple[str, ...]
    triton: str
    severity: str
    message: str
    remedy: str


PAIRINGS: Final[tuple[Pairing, ...]] = (
    Pairing(
        "triton-3.4-tree",
        ("3.4",),
        ">=3.5.dev0",
        "error",
        "a 3.4 tree's routing imports on this triton, its matmul_ogs does not (triton.language has no constexpr_function)",
        "pip install --no-deps 'sglang-kernel>=0.4.0', whose tree is newer, or triton 3.4 with the torch that pins it",
    ),
    Pairing(
        "triton-3.6-with-3.5.1",
        ("3.5.1",),
        ">=3.6.dev0,<3.7.dev0",
        "warning",
        "one unconfirmed report of an illegal address on 4 x H100 under piecewise graph capture with triton 3.6 and a 3.5.1 tree (sglang#25310);"
        " the pair is right at 64 tokens on an H200, and stock engines ship it",
        "if you see it: pip install --no-deps 'sglang-kernel>=0.4.2.post2', whose tree is of generation 3.6",
    ),
    Pairing(
        "triton-3.6-tree-bs1",
        ("3.6",),
        ">=3.6.dev0,<3.7.dev0",
        "info",
        "gpt-oss at batch size 1 was reported 30 % slower on an H200 with triton 3.6 and a 3.6 tree than with 3.5.1's (vllm#39236)",
        "measure; opt-flags constraints choose other blocks",
    ),
)


@dataclass(frozen=True)
class TritonKernelsRow:
    """One generation of triton_kernels, told apart by structure since no usable version exists.

    Parameters of ``topk()`` decide; ``variant`` tells trees of one generation apart. ``requires`` are files without
    which the generation cannot route (a half-uninstalled tree lacks some), ``foreign`` are files that only another
    generation has (an overlay of two trees has some).
    """

    generation: str
    variant: str
    adapter: str
    triton_range: str
    has_parameters: tuple[str, ...]
    lacks_parameters: tuple[str, ...]
    marks: tuple[str, ...]
    absent: tuple[str, ...]
    requires: tuple[str, ...]
    foreign: tuple[str, ...]


_LEGACY_REQUIRES: Final = (
    "topk.py",
    "tensor.py",
    "routing.py",
    "routing_details/_routing_compute.py",
    "routing_details/_expt_data.py",
    "topk_details/_topk_forward.py",
    "reduction_details/reduce_bitmatrix.py",
)
_RAGGED_REQUIRES: Final = (
    "topk.py",
    "tensor.py",
    "tensor_details/ragged_tensor.py",
    "tensor_details/bitmatrix.py",
    "tensor_details/bitmatrix_details/sum_bitmatrix_rows.py",
    "topk_details/_topk_forward.py",
)
_BLACKWELL_VALUE: Final = "tensor_details/layout_details/blackwell_value.py"
_SHUFFLED: Final = "tensor_details/layout_details/blackwell_value_shuffled.py"
#: Not a file: the text ``can_preserve_storage_as`` in tensor_details/layout_details/base.py.
PRESERVE_STORAGE_MARK: Final = "text:can_preserve_storage_as"

TRITON_KERNELS_ROWS: Final[tuple[TritonKernelsRow, ...]] = (
    TritonKernelsRow(
        "3.4",
        "3.4",
        "triton_kernels_3_5_1",
        ">=3.4,<3.5",
        ("return_bitmatrix",),
        (),
        (),
        (_BLACKWELL_VALUE,),
        _LEGACY_REQUIRES,
        (
            "tensor_details/ragged_tensor.py",
            "tensor_details/bitmatrix.py",
            "matmul.py",
            "reduce.py",
            "matmul_ogs_details/_reduce_grouped.py",
        ),
    ),
    TritonKernelsRow(
        "3.5.1",
        "3.5.1",
        "triton_kernels_3_5_1",
        ">=3.5",
        ("return_bitmatrix",),
        (),
        (_BLACKWELL_VALUE,),
        (),
        _LEGACY_REQUIRES,
        (
            "tensor_details/ragged_tensor.py",
            "tensor_details/bitmatrix.py",
            "matmul.py",
            "reduce.py",
            "matmul_ogs_details/_finalize_matmul.py",
        ),
    ),
    TritonKernelsRow(
        "3.6",
        "3.6",
        "triton_kernels_3_6",
        ">=3.5",
        ("all_gather",),
        ("symm_mem_pool", "return_bitmatrix"),
        (),
        (),
        (*_RAGGED_REQUIRES, "matmul_ogs.py"),
        ("routing.py", "routing_details/_expt_data.py", "matmul.py", "tensor_details/dtype.py"),
    ),
    TritonKernelsRow(
        "3.8",
        "3.8",
        "triton_kernels_3_8",
        ">=3.5",
        ("symm_mem_pool",),
        ("return_bitmatrix",),
        (),
        (_SHUFFLED,),
        (*_RAGGED_REQUIRES, "tensor_details/dtype.py"),
        ("routing.py", "routing_details/_expt_data.py", "matmul_ogs.py"),
    ),
    TritonKernelsRow(
        "3.8",
        "3.8-tokenspeed",
        "triton_kernels_3_8",
        ">=3.8",
        ("symm_mem_pool",),
        ("return_bitmatrix",),
        (_SHUFFLED,),
        (PRESERVE_STORAGE_MARK,),
        (*_RAGGED_REQUIRES, "tensor_details/dtype.py"),
        ("routing.py", "routing_details/_expt_data.py", "matmul_ogs.py"),
    ),
    TritonKernelsRow(
        "3.8",
        "3.8-shuffled",
        "triton_kernels_3_8",
        ">=3.8",
        ("symm_mem_pool",),
        ("return_bitmatrix",),
        (_SHUFFLED, PRESERVE_STORAGE_MARK),
        (),
        (*_RAGGED_REQUIRES, "tensor_details/dtype.py"),
        ("routing.py", "routing_details/_expt_data.py", "matmul_ogs.py"),
    ),
)

#: Distributions known to put a top-level ``triton_kernels`` folder into site-packages. The last one is another project.
TRITON_KERNELS_OWNERS: Final = ("sglang-kernel", "sgl-kernel", "tokenspeed-triton-kernels", "triton-kernels")
UNRELATED_TRITON_KERNELS: Final = "triton-kernels"
#: Files of the unrelated distribution triton-kernels 0.1.0.
UNRELATED_MARKS: Final = ("add_vectors.py", "rotary_embedding.py")


@dataclass(frozen=True)
class Tree:
    """A published tree of triton_kernels that the generations suite reads out of a wheel."""

    name: str
    distribution: str
    version: str
    generation: str
    variant: str


TREES: Final[tuple[Tree, ...]] = (
    Tree("R0", "sgl-kernel", "0.3.18", "3.4", "3.4"),
    Tree("R1", "sglang-kernel", "0.4.0", "3.5.1", "3.5.1"),
    Tree("R2", "sglang-kernel", "0.4.2.post2", "3.6", "3.6"),
    Tree("R3", "sglang-kernel", "0.4.6.post1", "3.8", "3.8"),
    Tree("R4", "sglang-kernel", "0.4.10", "3.8", "3.8-shuffled"),
    Tree("FORK", "tokenspeed-triton-kernels", "1.0.0.post20260510", "3.8", "3.8-tokenspeed"),
)


#: Newest wheel of each kernel distribution that is known to carry a tree of the table; `nox -s newest` looks past it.
NEWEST_KERNEL_WHEELS: Final = {"sgl-kernel": "0.3.21", "sglang-kernel": "0.4.10", "tokenspeed-triton-kernels": "1.0.0.post20260510"}


@dataclass(frozen=True)
class Feature:
    """A capability that ``has()`` answers for.

    ``intervals`` are PEP 440 specifiers, any of which may hold, since availability is not monotone (0.6.16.post3
    removed what 0.6.18 brought back). For triton_kernels they list generations.
    """

    upstream: str
    intervals: tuple[str, ...]
    min_capability: tuple[int, int] | None = None
    max_capability: tuple[int, int] | None = None


_ALL: Final = (">=0.6.8.dev0",)
_HUMMING: Final = (">=0.6.16.dev0,<0.6.16.post3.dev0", ">=0.6.18.dev0")
_GENERATIONS: Final = ("3.4", "3.5.1", "3.6", "3.8")

FEATURES: Final[dict[str, Feature]] = {
    "fp4_quantize": Feature("flashinfer", _ALL, (10, 0)),
    "fp4_quantize.is_global_scale_inversed": Feature("flashinfer", (">=0.6.11.dev0",), (10, 0)),
    "fp4_quantize.per_token_scale": Feature("flashinfer", (">=0.6.11.dev0",), (10, 0)),
    "fp4_quantize.nvfp4_4over6": Feature("flashinfer", (">=0.7.1.dev0",), (10, 0)),
    "fp4_quantize.batch_invariant": Feature("flashinfer", (">=0.7.4.dev0",), (10, 0)),
    "nvfp4_quantize": Feature("flashinfer", _ALL, (10, 0)),
    "nvfp4_quantize.per_token_activation": Feature("flashinfer", (">=0.6.11.dev0",), (10, 0)),
    "mxfp4_quantize": Feature("flashinfer", _ALL, (10, 0)),
    "mxfp8_quantize": Feature("flashinfer", _ALL, (10, 0)),
    "block_scale_interleave.out": Feature("flashinfer", (">=0.7.2.post1.dev0",), (10, 0)),
    "allreduce.workspace": Feature("flashinfer", _ALL, (9, 0)),
    "allreduce.group": Feature("flashinfer", _ALL, (9, 0)),
    "allreduce.block_quant": Feature("flashinfer", (">=0.6.11.dev0",), (9, 0)),
    "allreduce.weight_bias": Feature("flashinfer", (">=0.6.12.dev0",), (9, 0)),
    "fused_moe.trtllm": Feature("flashinfer", _ALL, (10, 0)),
    "fused_moe.cutlass": Feature("flashinfer", _ALL, (9, 0)),
    "fused_moe.situ": Feature("flashinfer", (">=0.6.16.dev0",), (9, 0)),
    # Served on every release: packed where upstream takes no pair.
    "fused_moe.routed_tuple": Feature("flashinfer", _ALL, (10, 0)),
    "fused_moe.per_token_scale": Feature("flashinfer", (">=0.6.11.dev0",), (10, 0)),
    "fused_moe.gemm1_lora_delta": Feature("flashinfer", (">=0.6.13.dev0",), (10, 0)),
    "fused_moe.num_fused_shared_experts": Feature("flashinfer", (">=0.6.15.dev0",), (10, 0)),
    "fused_moe.sm90_mixed_gemm": Feature("flashinfer", (">=0.6.10.dev0",), (9, 0), (9, 0)),
    "fused_moe.nvfp4_4over6": Feature("flashinfer", (">=0.7.4.dev0",), (10, 0)),
    "cute_dsl.moe": Feature("flashinfer", _ALL, (10, 0), (10, 7)),
    "cute_dsl.moe.relu2": Feature("flashinfer", (">=0.6.14.dev0",), (10, 0), (10, 7)),
    "cute_dsl.moe.situ": Feature("flashinfer", (">=0.6.18.dev0",), (10, 0), (10, 7)),
    "mla.decode": Feature("flashinfer", _ALL, (10, 0)),
    "mla.lse": Feature("flashinfer", (">=0.6.12.dev0",), (10, 0)),
    "mla.dcp": Feature("flashinfer", (">=0.6.17.dev0",), (10, 0), (10, 7)),
    "mla.merge_state": Feature("flashinfer", _ALL),
    "attention.planner_tail": Feature("flashinfer", _ALL),
    "attention.planner_tail.uniform_q_len": Feature("flashinfer", (">=0.6.16.dev0",)),
    "moe.available": Feature("triton_kernels", _GENERATIONS),
    "moe.routing": Feature("triton_kernels", _GENERATIONS),
    "moe.matmul_ogs": Feature("triton_kernels", _GENERATIONS),
    "moe.routing.native_simulated_ep": Feature("triton_kernels", ("3.4", "3.5.1")),
    "fused_moe.humming": Feature("flashinfer", _HUMMING, (9, 0), (9, 0)),
}
