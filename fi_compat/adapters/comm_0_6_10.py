"""AllReduce fusion of FlashInfer 0.6.10 exactly: the public creator meets over WORLD always, the low-level one takes a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fi_compat._upstream import Upstream
from fi_compat.errors import UnsupportedFeatureError

from .comm_0_6_8 import ALONE as _ALONE
from .comm_0_6_8 import UPSTREAMS as _BEFORE
from .comm_0_6_8 import _classes, _create, with_release
from .comm_0_6_8 import allreduce_fusion as allreduce_fusion
from .comm_0_6_8 import backend_for as backend_for
from .comm_0_6_8 import load_comm_module as load_comm_module
from .comm_0_6_8 import release as _release
from .comm_0_6_8 import sufficient as sufficient

if TYPE_CHECKING:
    from collections.abc import Callable

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
]

#: The group decides; a comm_backend alone only bars at the end.
ALONE = not _ALONE

_low_level = Upstream("flashinfer.comm.trtllm_ar", "trtllm_create_ipc_workspace_for_all_reduce_fusion")
_drop_references = Upstream("flashinfer.comm.trtllm_ar", "trtllm_destroy_ipc_workspace_for_all_reduce_fusion")
_Workspace = Upstream("flashinfer.comm.allreduce", "TRTLLMAllReduceFusionWorkspace")

UPSTREAMS = {**_BEFORE, "create_allreduce_fusion_workspace": (*_BEFORE["create_allreduce_fusion_workspace"], _low_level, _Workspace)}


def create_workspace(
    backend: str,
    world_size: int,
    rank: int,
    max_token_num: int,
    hidden_dim: int,
    dtype: Any,
    group: Any,
    comm_backend: Any,
    gpus_per_node: int | None,
    force_oneshot_support: bool,
) -> Any:
    """Build a TRTLLMAllReduceFusionWorkspace over ``group`` through the low-level creator, as its own ``__init__`` does."""
    import torch
    import torch.distributed as dist

    if backend != "trtllm":
        if backend == "auto" and group is not None and dist.get_world_size(group) != dist.get_world_size():
            raise UnsupportedFeatureError(
                "create_allreduce_fusion_workspace: backend='auto' over a group smaller than WORLD cannot be served: found flashinfer 0.6.10,"
                " whose auto is mnnvl, needed backend='trtllm', or >=0.6.10.post1: pip install flashinfer-python==0.6.10.post1",
                feature="group",
                found="flashinfer 0.6.10",
                since=">=0.6.10.post1",
            )
        workspace = _create.call(
            backend=backend,
            world_size=world_size,
            rank=rank,
            max_token_num=max_token_num,
            hidden_dim=hidden_dim,
            dtype=dtype,
            gpus_per_node=gpus_per_node,
            comm_backend=comm_backend,
            force_oneshot_support=force_oneshot_support,
        )
        return with_release(workspace, release)
    kind: Any = _Workspace.bind()
    workspace = object.__new__(kind)
    # AllReduceFusionWorkspace.__init__; the class's own one would rendezvous over WORLD.
    super(kind, workspace).__init__(world_size, rank)
    workspace._destroyed = True
    made = _low_level.call(
        tp_rank=rank,
        tp_size=world_size,
        max_token_num=max_token_num,
        hidden_dim=hidden_dim,
        group=group,
        comm_backend=comm_backend,
        create_metadata=True,
        use_fp32_lamport=dtype == torch.float32,
        use_symm_dev_mem=True,
    )
    workspace._internal_workspace = made
    workspace.ipc_handles, workspace.workspace_tensor, workspace.mem_handles, workspace.metadata = made
    workspace._destroyed = False
    return with_release(workspace, release)


def release(workspace: Any, destroy: Callable[[], None]) -> None:
    """Free a workspace and, before it, the symmetric-memory references that upstream keeps by ``id(ipc_handles)``."""
    handles = workspace.__dict__.get("ipc_handles")
    if handles is not None:
        _drop_references.call(handles)
    _release(workspace, destroy)


def destroy_workspace(workspace: Any) -> None:
    """Free a workspace, one of ours or upstream's own, once."""
    if not getattr(workspace, "_destroyed", False):
        if type(workspace) in _classes.values():
            workspace.destroy()
        else:
            release(workspace, workspace.destroy)
