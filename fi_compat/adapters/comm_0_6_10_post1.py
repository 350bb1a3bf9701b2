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


def create_workspace(backend: str, group: Any, comm_backend: Any, size: dict[str, Any]) -> Any:
    """Call ``flashinfer.comm.create_allreduce_fusion_workspace`` with both group and comm_backend, which name the same ranks."""
    return with_release(_create.call(backend=backend, group=group, comm_backend=comm_backend, **size), release)
