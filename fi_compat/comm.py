"""AllReduce fusion with a group that is honoured on every FlashInfer release from 0.6.8 on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _bindings
from ._unset import UNSET, Unset

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Literal

    from torch import Tensor
    from torch import dtype as torch_dtype
    from torch.distributed import ProcessGroup

__all__ = [
    "AllReduceFusion",
    "AllReduceFusionPattern",
    "allreduce_fusion",
    "create_allreduce_fusion_workspace",
    "destroy_workspace",
    "is_buffer_size_sufficient",
]


class AllReduceFusionPattern:
    """Patterns of ``allreduce_fusion``; names and values are upstream's, which never changed (0.6.8 to 0.7.4).

    8 and 9 appeared in 0.6.11, 10 and 11 in 0.6.15, 12 in 0.7.2.post1, 13 and 14 in 0.7.4.
    """

    kAllReduce = 0
    kARResidualRMSNorm = 1
    kARResidualRMSNormFP8Quant = 2
    kARResidualRMSNormFP4Quant = 3
    kARResidualRMSNormOutFP8Quant = 4
    kARResidualRMSNormOutFP4Quant = 5
    kMoEReductionARResidualRMSNorm = 6
    kMoEFinalizeARResidualRMSNorm = 7
    kARResidualRMSNormPerTokenGroupFP8PackedQuant = 8
    kARResidualRMSNormOutPerTokenGroupFP8PackedQuant = 9
    kARResidualRMSNormDynamicFP8Quant = 10
    kARResidualRMSNormOutDynamicFP8Quant = 11
    kMoEFinalizeARResidualRMSNormFP8Quant = 12
    kARResidualRMSNormMXFP8Quant = 13
    kARResidualRMSNormOutMXFP8Quant = 14


def create_allreduce_fusion_workspace(
    backend: Literal["trtllm", "mnnvl", "auto"] = "trtllm",
    *,
    world_size: int,
    rank: int,
    max_token_num: int,
    hidden_dim: int,
    dtype: torch_dtype,
    group: ProcessGroup | None = None,
    comm_backend: Any = None,
    gpus_per_node: int | None = None,
    force_oneshot_support: bool = False,
) -> Any:
    """Create the workspace of ``allreduce_fusion`` over exactly the ranks of a group.

    Parameters
    ----------
    backend : {"trtllm", "mnnvl", "auto"}
        "trtllm" by default, whatever the release's own default is. "auto" picks mnnvl always up to 0.6.15.post1, and by a
        collective vote from 0.6.16 on. "mnnvl" needs NVLink multicast; it is always given a comm_backend here, since upstream
        goes to MPI without one.
    world_size, rank : int
        Size of the group, and this process's rank in it.
    max_token_num, hidden_dim : int
        Largest problem, in tokens and elements a token.
    dtype : torch.dtype
        float16, bfloat16 or float32.
    group : ProcessGroup, optional
        The ranks that meet; any backend, gloo included. None is the comm_backend's own group, or WORLD where that has exactly
        ``world_size`` ranks.
    comm_backend : CommBackend, optional
        How handles are exchanged; made from ``group`` when it is not given. An upstream ``TorchDistBackend`` is replaced by one
        whose ``bcast`` sends from the right rank (wrong up to 0.6.12).
    gpus_per_node : int, optional
        For mnnvl.
    force_oneshot_support : bool
        For mnnvl: size the buffer for one-shot up to the largest problem.

    Returns
    -------
    AllReduceFusionWorkspace
        Instance of a subclass of upstream's class; ``destroy()`` frees everything and may be called twice.

    Raises
    ------
    ValueError
        Neither group nor comm_backend in a WORLD larger than ``world_size`` (upstream hangs, or meets the wrong peers); ``rank`` or
        ``world_size`` contradict the group; this process is not in the group; group and comm_backend name other ranks; a
        comm_backend without a group where the release would meet over WORLD (0.6.10 to 0.6.14).
    UnsupportedFeatureError
        What the installed release cannot do for a subgroup.
    UpstreamImportError
        ``flashinfer.comm`` cannot be imported (0.6.16 to 0.6.16.post3 on Python below 3.12).

    Notes
    -----
    ``flashinfer.comm.create_allreduce_fusion_workspace``; ``group`` appeared in 0.6.10.post1. Which ranks meet follows
    comm_backend up to 0.6.9 and from 0.6.15 on, ``group`` from 0.6.10.post1 to 0.6.14, and WORLD always at 0.6.10, where the
    workspace is built through the low-level creator. All ranks of the group must call it. A peer that dies inside is noticed by
    the group's timeout, and at 0.6.10 to 0.6.14 by that of the store behind torch's symmetric memory.
    """
    from ._groups import resolve_group

    if backend not in {"trtllm", "mnnvl", "auto"}:
        raise ValueError(f"create_allreduce_fusion_workspace: found backend={backend!r}, needed 'trtllm', 'mnnvl' or 'auto'")
    comm = _bindings.flashinfer.comm
    group, comm_backend = resolve_group(comm, world_size, rank, group, comm_backend)
    size = {
        "world_size": world_size,
        "rank": rank,
        "max_token_num": max_token_num,
        "hidden_dim": hidden_dim,
        "dtype": dtype,
        "gpus_per_node": gpus_per_node,
        "force_oneshot_support": force_oneshot_support,
    }
    return comm.create_workspace(backend, group, comm_backend, size)


def destroy_workspace(workspace: Any) -> None:
    """Free a workspace, made here or by upstream, with what upstream leaks (0.6.10 on: symmetric-memory references).

    Parameters
    ----------
    workspace : AllReduceFusionWorkspace
        A second call on the same one does nothing. Graphs that captured it must not be replayed afterwards.
    """
    _bindings.flashinfer.comm.destroy_workspace(workspace)


def is_buffer_size_sufficient(
    workspace: Any, *, num_tokens: int, hidden_dim: int, dtype: torch_dtype, use_oneshot: bool | None = None
) -> bool:
    """Say whether a workspace can hold a call.

    Parameters
    ----------
    workspace : AllReduceFusionWorkspace
        Made here or by upstream, not destroyed.
    num_tokens, hidden_dim : int
        Shape of the call's input.
    dtype : torch.dtype
        Its dtype.
    use_oneshot : bool, optional
        As the call will say it; upstream's fifth argument is use_oneshot for trtllm and a strategy for mnnvl.

    Returns
    -------
    bool
        False also when the dtype needs another kind of buffer (float32).
    """
    return _bindings.flashinfer.comm.sufficient(workspace, num_tokens, hidden_dim, dtype, use_oneshot)


def allreduce_fusion(
    input: Tensor,
    workspace: Any,
    pattern: int,
    *,
    launch_with_pdl: bool | Unset = UNSET,
    trigger_completion_at_end: bool | Unset = UNSET,
    output: Tensor | None = None,
    residual_out: Tensor | None = None,
    norm_out: Tensor | None = None,
    quant_out: Tensor | None = None,
    scale_out: Tensor | None = None,
    residual_in: Tensor | None = None,
    rms_gamma: Tensor | None = None,
    rms_eps: float | Unset = UNSET,
    scale_factor: Tensor | float | None = None,
    layout_code: int | None = None,
    use_oneshot: bool | None = None,
    fp32_acc: bool | Unset = UNSET,
    moe_reduction_device_num_experts: int | None = None,
    moe_reduction_scale_input: Tensor | None = None,
    moe_reduction_active_experts_token_input: Tensor | None = None,
    moe_reduction_token_input: Tensor | None = None,
    expanded_idx_to_permuted_idx: Tensor | None = None,
    expert_scale_factor: Tensor | None = None,
    shared_expert_output: Tensor | None = None,
    block_quant_group_size: int | None = None,
    weight_bias: float | Unset = UNSET,
    moe_finalize_backend: str | Unset = UNSET,
) -> Tensor:
    """Sum a tensor over the ranks of a workspace, with what follows it fused in.

    Parameters
    ----------
    input : Tensor
        ``[num_tokens, hidden_dim]``, contiguous, on the workspace's device.
    workspace : AllReduceFusionWorkspace
        From ``create_allreduce_fusion_workspace``; its group is the one that sums.
    pattern : int
        One of ``AllReduceFusionPattern``.
    launch_with_pdl, trigger_completion_at_end : bool
        Programmatic dependent launch. The latter was inserted before ``output`` in 0.6.8; UNSET lets upstream decide.
    output, residual_out, norm_out, quant_out, scale_out : Tensor, optional
        Where results go, by pattern.
    residual_in, rms_gamma, rms_eps
        Residual and RMSNorm weight ``[hidden_dim]`` of the norm patterns.
    scale_factor, layout_code
        Of the quantizing patterns.
    use_oneshot : bool, optional
        None lets upstream decide. With mnnvl it is ignored up to 0.6.12; with trtllm two-shot needs more tokens than ranks.
    fp32_acc : bool
        Accumulate in float32.
    moe_reduction_device_num_experts, moe_reduction_scale_input, moe_reduction_active_experts_token_input, moe_reduction_token_input
        Of ``kMoEReductionARResidualRMSNorm``.
    expanded_idx_to_permuted_idx, expert_scale_factor, shared_expert_output
        Of ``kMoEFinalizeARResidualRMSNorm``.
    block_quant_group_size : int, optional
        0.6.11 and newer.
    weight_bias : float
        0.6.12 and newer.
    moe_finalize_backend : str
        0.7.1 and newer.

    Returns
    -------
    Tensor
        ``quant_out`` for the quantizing patterns where it was given, else ``norm_out``, else ``output``: what upstream returns for
        the same call differs by backend and release, the tensors given are always filled.

    Raises
    ------
    UnsupportedFeatureError
        An option that the installed release lacks.

    Notes
    -----
    ``flashinfer.comm.allreduce_fusion``.
    """
    moe = None
    if (
        moe_reduction_device_num_experts is not None
        or expanded_idx_to_permuted_idx is not None
        or block_quant_group_size is not None
        or weight_bias is not UNSET
        or moe_finalize_backend is not UNSET
        or moe_reduction_token_input is not None
    ):
        moe = {
            "moe_reduction_device_num_experts": moe_reduction_device_num_experts,
            "moe_reduction_scale_input": moe_reduction_scale_input,
            "moe_reduction_active_experts_token_input": moe_reduction_active_experts_token_input,
            "moe_reduction_token_input": moe_reduction_token_input,
            "expanded_idx_to_permuted_idx": expanded_idx_to_permuted_idx,
            "expert_scale_factor": expert_scale_factor,
            "shared_expert_output": shared_expert_output,
            "block_quant_group_size": block_quant_group_size,
            "weight_bias": weight_bias,
            "moe_finalize_backend": moe_finalize_backend,
        }
    elif (
        moe_reduction_scale_input is not None
        or moe_reduction_active_experts_token_input is not None
        or expert_scale_factor is not None
        or shared_expert_output is not None
    ):
        raise ValueError(
            "allreduce_fusion: found an option of a MoE pattern without moe_reduction_token_input or expanded_idx_to_permuted_idx, which these"
            " patterns need"
        )
    return _bindings.flashinfer.comm.allreduce_fusion(
        input,
        workspace,
        pattern,
        launch_with_pdl,
        trigger_completion_at_end,
        output,
        residual_out,
        norm_out,
        quant_out,
        scale_out,
        residual_in,
        rms_gamma,
        rms_eps,
        scale_factor,
        layout_code,
        use_oneshot,
        fp32_acc,
        moe,
    )


class AllReduceFusion:
    """AllReduce fusion for a group, with the fallback and the bookkeeping that engines write by hand.

    Parameters
    ----------
    group : ProcessGroup
        The ranks; this process must be one. No collective is issued on it before all ranks agreed that fusion cannot be used,
        since a group whose collective timed out is dead: agreement and creation go over a gloo group of the same ranks.
    timeout : timedelta or float
        How long a rank waits for the others in agreement and creation; seconds when a number.

    Attributes
    ----------
    unavailable_reason : str or None
        Why calls fall back to torch.distributed, the same on all ranks; None while they do not.

    Notes
    -----
    All ranks of the group call ``reserve`` and the two operations in the same order with the same shapes. There is no vote per
    call. While a stream captures, nothing is created, grown, voted or fallen back to: a missing or too small workspace is
    ``ConfigurationError``; call ``reserve`` before. Growth keeps the old workspace until ``close()``, since captured graphs hold its
    pointers. The build of the compiled module (minutes, once) is outside ``timeout``, with its progress watched. What bounds the
    death of a peer inside creation is ``timeout`` up to 0.6.9 and from 0.6.15 on, and the timeout of the store behind torch's
    symmetric memory (the default group's) from 0.6.10 to 0.6.14. After a fork the child cannot use it.
    """

    def __init__(self, group: ProcessGroup, *, timeout: timedelta | float) -> None:
        from ._allreduce import Manager

        self._manager = Manager(group, timeout)

    @property
    def unavailable_reason(self) -> str | None:
        """Why calls fall back, or None."""
        return self._manager.unavailable_reason

    def reserve(self, max_token_num: int, hidden_dim: int, dtype: torch_dtype) -> None:
        """Agree on, create or grow the workspace for calls of up to this size; all ranks call it, before capture.

        Parameters
        ----------
        max_token_num, hidden_dim : int
            Largest problem.
        dtype : torch.dtype
            Of the inputs.

        Raises
        ------
        ValueError
            The ranks disagree about the size or the dtype.
        GroupError
            A rank did not answer within the timeout; the manager is closed.
        ConfigurationError
            Closed, used after a fork, or called while a stream captures.
        """
        self._manager.reserve(max_token_num, hidden_dim, dtype)

    def allreduce(self, input: Tensor, *, output: Tensor | None = None, launch_with_pdl: bool = False) -> Tensor:
        """Sum ``input`` ``[num_tokens, hidden_dim]`` over the group.

        Parameters
        ----------
        input : Tensor
            Contiguous; unchanged.
        output : Tensor, optional
            Where the sum goes.
        launch_with_pdl : bool
            Programmatic dependent launch.

        Returns
        -------
        Tensor
            ``output``, or a new tensor.

        Raises
        ------
        ConfigurationError
            Closed, used after a fork, or no sufficient workspace while a stream captures.
        """
        return self._manager.allreduce(input, output, launch_with_pdl)

    def allreduce_residual_rmsnorm(
        self,
        input: Tensor,
        residual_in: Tensor,
        rms_gamma: Tensor,
        rms_eps: float = 1e-6,
        *,
        residual_out: Tensor | None = None,
        norm_out: Tensor | None = None,
        launch_with_pdl: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Sum ``input`` over the group, add the residual, and normalise.

        Parameters
        ----------
        input, residual_in : Tensor
            ``[num_tokens, hidden_dim]``, contiguous.
        rms_gamma : Tensor
            ``[hidden_dim]``.
        rms_eps : float
            Added to the mean square.
        residual_out, norm_out : Tensor, optional
            Where the results go.
        launch_with_pdl : bool
            Programmatic dependent launch.

        Returns
        -------
        tuple of Tensor
            ``(norm_out, residual_out)``.

        Raises
        ------
        ConfigurationError
            As for ``allreduce``.
        """
        return self._manager.allreduce_residual_rmsnorm(input, residual_in, rms_gamma, rms_eps, residual_out, norm_out, launch_with_pdl)

    def close(self) -> None:
        """Free all workspaces, retired ones too, and the control group; a second call does nothing."""
        self._manager.close()

    def __enter__(self) -> AllReduceFusion:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
