"""Stands for device memory, so that upstream's own workspace creation runs on CPUs with real process groups.

Only what allocates or maps device memory is replaced. The release's own handle exchange runs (sockets, file descriptors,
its CommBackend's collectives), on file descriptors that say which global rank they belong to.
"""

from __future__ import annotations

import inspect
import os
import sys
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

#: What a peer's buffer "address" is: this plus its global rank.
BASE = 1000
LAUNCHES: list[tuple[str, tuple[Any, ...]]] = []
COLLECTIVES: list[dict[str, Any]] = []
#: Called at each allocation; a test makes one rank fail, die or wait here.
HOOK: list[Any] = []


class SymmDeviceMemory:
    """The release's constructor signature; exchanges descriptors with the release's own exchanger."""

    def __init__(
        self,
        buf_size,
        group_size,
        group_rank,
        device_idx,
        comm_backend_for_handle_transfer=None,
        enable_multicast=True,
        allocate_signal_pads=True,
        **_: Any,
    ) -> None:
        for hook in HOOK:
            hook()
        self.mapped = True
        comm = comm_backend_for_handle_transfer
        mine = os.memfd_create("buffer")
        os.write(mine, str(dist.get_rank()).encode())
        mnnvl = sys.modules["flashinfer.comm.mnnvl"]
        exchanger = getattr(mnnvl, "PosixFDHandleExchanger", None)
        if exchanger is not None and "comm_backend" in inspect.signature(exchanger.__init__).parameters:
            exchange = exchanger(comm, group_rank, group_size)
            descriptors = exchange.allgather(mine)
            if enable_multicast:
                # Up to 0.6.9 rank 0's multicast handle goes to all.
                exchange.broadcast(mine, root=0)
            exchange.close()
        else:
            from flashinfer.comm.fd_exchange import exchange_fds

            descriptors = exchange_fds(comm, mine)
        self.peers = [int(os.pread(descriptors[p], 16, 0)) for p in range(group_size)]
        self.uc_ptrs = [BASE + peer for peer in self.peers]
        # Up to 0.6.9 upstream closes the others' descriptors and forgets its own two.
        forgotten = (
            {mine, descriptors[group_rank]}
            if hasattr(mnnvl, "HandleExchanger") and exchanger is not None and enable_forgetting()
            else set()
        )
        for descriptor in {*descriptors, mine} - forgotten:
            os.close(descriptor)

    def get_buffer_ptrs_host(self) -> list[int]:
        return list(self.uc_ptrs)


def enable_forgetting() -> bool:
    """Say whether the release under test forgets its own exported descriptors (0.6.8 to 0.6.9)."""
    from packaging.version import Version

    return Version(sys.modules["flashinfer"].__version__) < Version("0.6.10")


def _rendezvous(tensor: torch.Tensor, group: str) -> Any:
    """Meet over the named group, as torch's symmetric memory does over its store."""
    import torch.distributed.distributed_c10d as c10d

    for hook in HOOK:
        hook()
    process_group = c10d._resolve_process_group(group)
    ranks: list[Any] = [None] * dist.get_world_size(process_group)
    dist.all_gather_object(ranks, dist.get_rank(), group=process_group)

    def get_buffer(peer, *_args, **_kwargs):
        return SimpleNamespace(data_ptr=lambda: BASE + ranks[peer])

    return SimpleNamespace(get_buffer=get_buffer, peers=ranks)


class _Cudart:
    def cudaMalloc(self, size):
        import ctypes

        return ctypes.c_void_p(77)

    def cudaMemset(self, *args) -> None: ...

    def cudaMemcpy(self, *args) -> None: ...

    def cudaFree(self, *args) -> None: ...


def install() -> None:
    """Import the release's ``flashinfer.comm`` and put the stand-ins in place."""
    import flashinfer.comm  # noqa: F401
    import torch.distributed._symmetric_memory as symm_mem
    from flashinfer.comm import allreduce, trtllm_ar
    from flashinfer.jit import core

    class Module:
        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return lambda *args: LAUNCHES.append((name, args))

    core.JitSpec.build_and_load = lambda self, *a, **k: Module()
    trtllm_ar.SymmDeviceMemory = SymmDeviceMemory
    allreduce.SymmDeviceMemory = SymmDeviceMemory
    trtllm_ar.cudart = _Cudart()
    symm_mem.empty = lambda *size, dtype=None, device=None: torch.zeros(1)
    symm_mem.rendezvous = _rendezvous
    if hasattr(allreduce, "is_confidential_compute"):
        allreduce.is_confidential_compute = lambda: False
    torch.cuda.current_device = lambda: 0
    torch.cuda.device_count = lambda: 1
    torch.cuda.is_available = lambda: True
    torch.cuda.is_current_stream_capturing = lambda: False
    torch.cuda.synchronize = lambda *a: None
    real_tensor = torch.tensor
    torch.tensor = lambda data, **k: real_tensor(data, **{n: v for n, v in k.items() if n != "device"})
    for name in ("broadcast_object_list", "all_gather_object", "barrier"):
        _record(name)


def _record(name: str) -> None:
    """Note which ranks take part in each collective, and from which global rank a broadcast comes."""
    real = getattr(dist, name)

    def recorded(*args: Any, **kwargs: Any) -> Any:
        group = kwargs.get("group") or dist.group.WORLD
        COLLECTIVES.append({"name": name, "ranks": list(dist.get_process_group_ranks(group)), "src": kwargs.get("src")})
        return real(*args, **kwargs)

    setattr(dist, name, recorded)


def peers(workspace: Any) -> list[int]:
    """Return the global ranks whose buffers a workspace points to, and check that all three buffers agree."""
    found = [[pointer - BASE for pointer in buffer] for buffer in workspace.ipc_handles]
    assert found[0] == found[1] == found[2], found
    return found[0]
