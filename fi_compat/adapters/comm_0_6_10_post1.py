"""AllReduce fusion of FlashInfer 0.6.10.post1 to 0.6.14: ``group`` decides, None is WORLD whatever comm_backend says."""

from __future__ import annotations

from typing import Any

from .comm_0_6_8 import UPSTREAMS as UPSTREAMS
from .comm_0_6_8 import _create, with_release
from .comm_0_6_10 import ALONE as ALONE
from .comm_0_6_10 import allreduce_fusion as allreduce_fusion
from .comm_0_6_10 import backend_for as backend_for
from .comm_0_6_10 import destroy_workspace as destroy_workspace
from .comm_0_6_10 import load_comm_module as load_comm_module
from .comm_0_6_10 import release as release
from .comm_0_6_10 import sufficient as sufficient

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
    """Call ``flashinfer.comm.create_allreduce_fusion_workspace`` with both group and comm_backend, which name the same ranks."""
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
        group=group,
    )
    return with_release(workspace, release)
