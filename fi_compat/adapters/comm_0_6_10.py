"""AllReduce fusion of FlashInfer 0.6.10 exactly: the public creator meets over WORLD always, the low-level one takes a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fi_compat._upstream import Upstream
from fi_compat.errors import UnsupportedFeatureError

from .comm_0_6_8 import ALONE as _ALONE
from .comm_0_6_8 import UPSTREAMS as _BEFORE
from .comm_0_6_8 import _create, with_release
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


def create_workspace(backend: str, group: Any, comm_backend: Any, size: dict[str, Any]) -> Any:
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
        return with_release(_create.call(backend=backend, comm_backend=comm_backend, **size), release)
    kind: Any = _Workspace.bind()
    workspace = object.__new__(kind)
    # AllReduceFusionWorkspace.__init__; the class's own one would rendezvous over WORLD.
    super(kind, workspace).__init__(size["world_size"], size["rank"])
    workspace._destroyed = True
    made = _low_level.call(
        tp_rank=size["rank"],
        tp_size=size["world_size"],
        max_token_num=size["max_token_num"],
        hidden_dim=size["hidden_dim"],
        group=group,
        comm_backend=comm_backend,
        create_metadata=True,
        use_fp32_lamport=size["dtype"] == torch.float32,
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
    with_release(workspace, release).destroy()
