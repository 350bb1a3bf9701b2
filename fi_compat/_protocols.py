"""What an adapter module must offer; mypy checks each module against these in tests/typing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from ._routing import Routing, RoutingTensors
    from ._upstream import Upstream
    from .fused_moe._results import DeferredFinalize, MoEWithLora
    from .quantization import SfLayout

__all__ = [
    "AttentionAdapter",
    "CommAdapter",
    "FlashInferAdapter",
    "FusedMoeAdapter",
    "MatmulAdapter",
    "MlaAdapter",
    "TritonKernelsAdapter",
]


class _FP4Quantize(Protocol):
    def __call__(
        self,
        input: Tensor,
        global_scale: Tensor | None,
        sf_vec_size: int,
        sf_use_ue8m0: bool,
        is_sf_swizzled_layout: bool,
        is_sf_8x4_layout: bool,
        is_global_scale_inversed: bool,
        per_token_scale: bool,
        enable_pdl: bool | None,
        backend: str,
        nvfp4_4over6: Any,
        batch_invariant: bool,
    ) -> tuple[Tensor, Tensor]: ...


class _NVFP4Quantize(Protocol):
    def __call__(
        self,
        a: Tensor,
        a_global_sf: Tensor,
        sfLayout: SfLayout,
        do_shuffle: bool,
        sf_vec_size: int,
        enable_pdl: bool | None,
        backend: str,
        per_token_activation: bool,
        expanded_idx_to_permuted_idx: Tensor | None,
        out_scale: Tensor | None,
        nvfp4_4over6: Any,
        batch_invariant: bool,
    ) -> tuple[Tensor, ...]: ...


class CommAdapter(Protocol):
    """The functions of ``fi_compat.adapters.comm_*``."""

    @property
    def UPSTREAMS(self) -> Mapping[str, tuple[Upstream, ...]]: ...  # noqa: N802 - a module constant

    @property
    def ALONE(self) -> bool: ...  # noqa: N802 - a module constant

    def backend_for(self, group: Any, /) -> Any: ...

    def create_workspace(self, backend: str, group: Any, comm_backend: Any, size: dict[str, Any], /) -> Any: ...

    def destroy_workspace(self, workspace: Any, /) -> None: ...

    def sufficient(self, workspace: Any, num_tokens: int, hidden_dim: int, dtype: Any, use_oneshot: bool | None, /) -> bool: ...

    def load_comm_module(self) -> None: ...

    def allreduce_fusion(
        self,
        input: Tensor,
        workspace: Any,
        pattern: int,
        launch_with_pdl: Any,
        trigger_completion_at_end: Any,
        output: Tensor | None,
        residual_out: Tensor | None,
        norm_out: Tensor | None,
        quant_out: Tensor | None,
        scale_out: Tensor | None,
        residual_in: Tensor | None,
        rms_gamma: Tensor | None,
        rms_eps: Any,
        scale_factor: Any,
        layout_code: int | None,
        use_oneshot: bool | None,
        fp32_acc: Any,
        moe: dict[str, Any] | None,
        /,
    ) -> Tensor: ...


class _FusedMoe(Protocol):
    def __call__(self, required: dict[str, Any], optional: dict[str, Any], /) -> Tensor | DeferredFinalize | MoEWithLora: ...


class FusedMoeAdapter(Protocol):
    """The functions of ``fi_compat.adapters.moe_*``: what is needed and what was perhaps set, by name."""

    @property
    def UPSTREAMS(self) -> Mapping[str, tuple[Upstream, ...]]: ...  # noqa: N802 - a module constant

    @property
    def trtllm_fp4_block_scale_moe(self) -> _FusedMoe: ...

    @property
    def trtllm_fp4_block_scale_routed_moe(self) -> _FusedMoe: ...

    @property
    def trtllm_fp8_block_scale_moe(self) -> _FusedMoe: ...

    @property
    def trtllm_fp8_block_scale_routed_moe(self) -> _FusedMoe: ...

    @property
    def trtllm_bf16_moe(self) -> _FusedMoe: ...

    @property
    def trtllm_bf16_routed_moe(self) -> _FusedMoe: ...

    def cutlass_fused_moe(self, required: dict[str, Any], optional: dict[str, Any], /) -> Tensor: ...

    def cute_dsl_moe(self, required: dict[str, Any], optional: dict[str, Any], /) -> Any: ...


class MlaAdapter(Protocol):
    """The functions of ``fi_compat.adapters.mla_*``."""

    @property
    def UPSTREAMS(self) -> Mapping[str, tuple[Upstream, ...]]: ...  # noqa: N802 - a module constant

    def decode(self, required: dict[str, Any], optional: dict[str, Any], lse_base: str, /) -> Tensor | tuple[Tensor, Tensor]: ...

    def merge_state(self, v_a: Tensor, s_a: Tensor, v_b: Tensor, s_b: Tensor, lse_base: str, /) -> tuple[Tensor, Tensor]: ...

    def merge_states(self, v: Tensor, s: Tensor, lse_base: str, /) -> tuple[Tensor, Tensor]: ...


class AttentionAdapter(Protocol):
    """The functions of ``fi_compat.adapters.attention_*``."""

    def planner_tail(
        self, kind: str, q_len: int, uniform_q_len: int, fixed_split_size: int, disable_split_kv: bool, /
    ) -> tuple[int | bool, ...]: ...


class FlashInferAdapter(Protocol):
    """The functions of ``fi_compat.adapters.flashinfer_*``; positional, since only fi_compat calls them."""

    @property
    def UPSTREAMS(self) -> Mapping[str, tuple[Upstream, ...]]: ...  # noqa: N802 - a module constant

    @property
    def comm(self) -> CommAdapter: ...

    @property
    def moe(self) -> FusedMoeAdapter: ...

    @property
    def mla(self) -> MlaAdapter: ...

    @property
    def attention(self) -> AttentionAdapter: ...

    # Attributes, not methods: some modules make them with functools.partial.
    @property
    def fp4_quantize(self) -> _FP4Quantize: ...

    @property
    def nvfp4_quantize(self) -> _NVFP4Quantize: ...

    def mxfp4_quantize(
        self, a: Tensor, backend: str, enable_pdl: bool | None, sfLayout: SfLayout, batch_invariant: bool, /
    ) -> tuple[Tensor, Tensor]: ...

    def mxfp8_quantize(
        self,
        input: Tensor,
        is_sf_swizzled_layout: bool,
        alignment: int,
        enable_pdl: bool | None,
        backend: str,
        sf_swizzle_layout: SfLayout | None,
        batch_invariant: bool,
        /,
    ) -> tuple[Tensor, Tensor]: ...

    def block_scale_interleave(self, unswizzled_sf: Tensor, out: Tensor | None, /) -> Tensor: ...

    def e2m1_and_ufp8sf_scale_to_float(
        self,
        e2m1_tensor: Tensor,
        ufp8_scale_tensor: Tensor,
        global_scale_tensor: Tensor | None,
        sf_vec_size: int,
        ufp8_type: int,
        is_sf_swizzled_layout: bool,
        is_sf_8x4_layout: bool,
        /,
    ) -> Tensor: ...

    def shuffle_matrix_a(self, input_tensor: Tensor, epilogue_tile_m: int, /) -> Tensor: ...

    def shuffle_matrix_sf_a(self, input_tensor: Tensor, epilogue_tile_m: int, num_elts_per_sf: int, /) -> Tensor: ...


class MatmulAdapter(Protocol):
    """The functions of ``fi_compat.adapters.matmul_*``, the MoE layer's half of a triton_kernels adapter."""

    @property
    def UPSTREAMS(self) -> Mapping[str, tuple[Upstream, ...]]: ...  # noqa: N802 - a module constant

    @property
    def NAMES(self) -> Mapping[str, str]: ...  # noqa: N802 - a module constant

    @property
    def MX_AXIS(self) -> int: ...  # noqa: N802 - a module constant

    def matmul_ogs(
        self,
        x: Tensor,
        w: Any,
        bias: Tensor | None,
        routing_data: Any,
        gather_indx: Any,
        scatter_indx: Any,
        precision_config: Any,
        betas: Tensor | None,
        gammas: Tensor | None,
        out_alpha: float | None,
        y: Tensor | None,
        fused_activation: Any,
        epilogue: Any,
        /,
    ) -> Tensor: ...

    def precision_config(self, options: dict[str, Any], /) -> Any: ...

    def activation(self, alpha: float, limit: float | None, /) -> Any: ...

    def layouts(self, num_warps: int, /) -> tuple[Any, Any]: ...

    def wrap(self, tensor: Tensor, /, *, fp4: bool) -> Any: ...

    def convert(self, tensor: Any, layout: Any, /) -> Any: ...

    def constraint_names(self) -> frozenset[str]: ...

    def constraints_module(self) -> Any: ...

    def exchange_constraints(self, constraints: dict[str, Any], /) -> dict[str, Any]: ...


class TritonKernelsAdapter(Protocol):
    """The functions of ``fi_compat.adapters.triton_kernels_*`` and of the reference backend."""

    @property
    def UPSTREAMS(self) -> Mapping[str, tuple[Upstream, ...]]: ...  # noqa: N802 - a module constant

    @property
    def SLOTS_BY_VALUE(self) -> bool: ...  # noqa: N802 - a module constant

    @property
    def matmul(self) -> Any: ...

    def runs_on_cpu(self) -> bool: ...

    def routing(
        self,
        logits: Tensor,
        n_expts_act: int,
        sm_first: bool,
        expt_indx: Tensor | None,
        simulated_ep: int,
        n_rows: int | Tensor | None,
        slot_order: str,
        /,
    ) -> Routing: ...

    def routing_from_topk(self, topk_ids: Tensor, topk_weights: Tensor, n_experts: int, n_rows: int | Tensor | None, /) -> Routing: ...

    def from_tensors(self, tensors: RoutingTensors, /) -> Routing: ...
