"""AllReduce fusion of FlashInfer 0.6.8 to 0.6.9: ``comm_backend`` decides which ranks meet; there is no ``group``."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from fi_compat._unset import UNSET
from fi_compat._upstream import Upstream, import_upstream

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "ALONE",
    "UPSTREAMS",
    "allreduce_fusion",
    "backend_for",
    "create_workspace",
    "destroy_workspace",
    "load_comm_module",
    "release",
    "sufficient",
    "with_release",
]

#: Whether a comm_backend alone, of any class, decides which ranks meet.
ALONE = True

_create = Upstream("flashinfer.comm", "create_allreduce_fusion_workspace")
_allreduce_fusion = Upstream("flashinfer.comm", "allreduce_fusion")
_TorchDistBackend = Upstream("flashinfer.comm.mnnvl", "TorchDistBackend")
_get_trtllm_comm_module = Upstream("flashinfer.comm.trtllm_ar", "get_trtllm_comm_module")
_Strategy = Upstream("flashinfer.comm.trtllm_mnnvl_ar", "MNNVLAllreduceFusionStrategy")

UPSTREAMS = {
    "create_allreduce_fusion_workspace": (_create, _TorchDistBackend),
    "allreduce_fusion": (_allreduce_fusion,),
}

_classes: dict[type, type] = {}
_lock = threading.Lock()


def backend_for(group: Any) -> Any:
    """Return a TorchDistBackend over exactly ``group``, whose ``bcast`` sends from the group's own root.

    Upstream's passes the group-local root as a global rank up to 0.6.12: ValueError for a group without global rank 0, and
    another sender where global rank 0 is in the group but not its rank 0.
    """
    base: Any = _TorchDistBackend.bind()
    with _lock:
        made = _classes.get(base)
        if made is None:

            class GroupBackend(base):  # type: ignore[misc]
                def barrier(self) -> None:
                    note_descriptors(self)
                    super().barrier()

                def bcast(self, data: Any, root: int) -> Any:
                    import torch.distributed as dist

                    group = self._group if self._group is not None else dist.group.WORLD
                    box = [data]
                    dist.broadcast_object_list(box, src=dist.get_global_rank(group, root), group=group)
                    return box[0]

            made = _classes[base] = GroupBackend
    return made(group=group)


def note_descriptors(backend: Any) -> None:
    """Note the descriptors that the exchange calling this barrier has open for this rank's own buffer.

    Up to 0.6.9 ``PosixFDHandleExchanger.allgather`` sends a rank's exported handle to itself too, and neither descriptor is ever
    closed: each keeps the buffer's memory (512 MiB on an H200, by the multicast granularity) after the handle is released, so
    about 85 workspaces fill the card. The exchange keeps them in its locals only.
    """
    caller = sys._getframe(2)  # noqa: SLF001 - see above: nothing else holds them
    found = caller.f_locals
    if caller.f_code.co_name != "allgather" or type(found.get("self")).__name__ != "PosixFDHandleExchanger":
        return
    exchanger, received = found["self"], found.get("result") or []
    own = [found.get("local_handle"), received[exchanger.rank] if exchanger.rank < len(received) else None]
    noted = backend.__dict__.setdefault("exported", set())
    noted.update(fd for fd in own if isinstance(fd, int))


def close_descriptors(backend: Any) -> None:
    """Close what ``note_descriptors`` noted: the mapped memory does not need it."""
    exported = getattr(backend, "exported", None)
    while exported:
        with contextlib.suppress(OSError):
            os.close(exported.pop())


def create_workspace(backend: str, group: Any, comm_backend: Any, size: dict[str, Any]) -> Any:
    """Call ``flashinfer.comm.create_allreduce_fusion_workspace``; ``group`` is in the comm_backend already."""
    del group
    try:
        workspace = _create.call(backend=backend, comm_backend=comm_backend, **size)
    finally:
        close_descriptors(comm_backend)
    return with_release(workspace, release)


def with_release(workspace: Any, free: Any) -> Any:
    """Make a workspace an instance of a subclass of its own class whose ``destroy()`` frees all and may be called twice."""
    base: Any = type(workspace)
    if base in _classes.values():
        return workspace
    with _lock:
        made = _classes.get(base)
        if made is None:

            class Workspace(base):  # type: ignore[misc]
                def destroy(self) -> None:
                    """Free everything that creation allocated; a second call does nothing."""
                    if not getattr(self, "_destroyed", False):
                        free(self, super().destroy)

            Workspace.__name__ = Workspace.__qualname__ = base.__name__
            made = _classes[base] = Workspace
    workspace.__class__ = made
    return workspace


def release(workspace: Any, destroy: Any) -> None:
    """Free a workspace: upstream's own destroy, and the tuple that it leaves behind."""
    destroy()
    workspace.__dict__.pop("_internal_workspace", None)


def destroy_workspace(workspace: Any) -> None:
    """Free a workspace, one of ours or upstream's own, once."""
    with_release(workspace, release).destroy()


def sufficient(workspace: Any, num_tokens: int, hidden_dim: int, dtype: Any, use_oneshot: bool | None) -> bool:
    """Ask a workspace whether it can hold a call; the fifth argument is use_oneshot or a strategy, by backend."""
    method = type(workspace).is_buffer_size_sufficient
    # functools.cache on the method would keep the workspace alive for ever.
    function = getattr(method, "__wrapped__", method)
    arguments = (workspace, workspace.world_size, num_tokens, hidden_dim, dtype)
    if workspace.backend == "trtllm" or use_oneshot is None:
        return bool(function(*arguments))
    strategy: Any = _Strategy.bind()
    return bool(function(*arguments, strategy.ONESHOT if use_oneshot else strategy.TWOSHOT))


def load_comm_module() -> None:
    """Build or load the compiled module now: minutes where there is neither flashinfer-jit-cache nor an earlier build."""
    import_upstream("flashinfer.comm")
    _get_trtllm_comm_module.call()


#: Patterns whose result is the quantized tensor; upstream's trtllm backend returns norm_out for some of them.
_QUANTIZED = frozenset({2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14})


def allreduce_fusion(
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
) -> Tensor:
    """Call ``flashinfer.comm.allreduce_fusion``; see ``fi_compat.comm.allreduce_fusion``."""
    options = {name: value for name, value in moe.items() if value is not UNSET and value is not None} if moe else {}
    for name, value in options.items():
        if name not in _allreduce_fusion.parameters:
            _allreduce_fusion.require(name, value, _SINCE[name])
    if launch_with_pdl is not UNSET:
        options["launch_with_pdl"] = launch_with_pdl
    if trigger_completion_at_end is not UNSET:
        options["trigger_completion_at_end"] = trigger_completion_at_end
    if rms_eps is not UNSET:
        options["rms_eps"] = rms_eps
    if fp32_acc is not UNSET:
        options["fp32_acc"] = fp32_acc
    result = _allreduce_fusion.call(
        input=input,
        workspace=workspace,
        pattern=pattern,
        output=output,
        residual_out=residual_out,
        norm_out=norm_out,
        quant_out=quant_out,
        scale_out=scale_out,
        residual_in=residual_in,
        rms_gamma=rms_gamma,
        scale_factor=scale_factor,
        layout_code=layout_code,
        use_oneshot=use_oneshot,
        **options,
    )
    if quant_out is not None and pattern in _QUANTIZED:
        return quant_out
    return norm_out if norm_out is not None and pattern != 0 else result


_SINCE = {"block_quant_group_size": ">=0.6.11", "weight_bias": ">=0.6.12", "moe_finalize_backend": ">=0.7.1"}
