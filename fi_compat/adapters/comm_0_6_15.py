"""AllReduce fusion of FlashInfer 0.6.15 and newer: ``comm_backend`` wins over ``group``; alone it decides again."""

from __future__ import annotations

from .comm_0_6_8 import ALONE as ALONE
from .comm_0_6_10_post1 import UPSTREAMS as UPSTREAMS
from .comm_0_6_10_post1 import allreduce_fusion as allreduce_fusion
from .comm_0_6_10_post1 import backend_for as backend_for
from .comm_0_6_10_post1 import create_workspace as create_workspace
from .comm_0_6_10_post1 import destroy_workspace as destroy_workspace
from .comm_0_6_10_post1 import load_comm_module as load_comm_module
from .comm_0_6_10_post1 import release as release
from .comm_0_6_10_post1 import sufficient as sufficient

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
