"""One rank: ``worker.py SCENARIO RANK WORLD STORE RESULT TIMEOUT``; writes what it saw as JSON."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import traceback
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

os.environ.setdefault("FLASHINFER_CUDA_ARCH_LIST", "10.0a")
os.environ.setdefault("FLASHINFER_WORKSPACE_BASE", tempfile.mkdtemp(prefix="fi_compat_distributed_"))
warnings.simplefilter("ignore")

import torch
import torch.distributed as dist

torch.set_num_threads(1)

SUBGROUPS = ([0, 1], [2, 3], [1, 3])
SIZE = {"max_token_num": 8, "hidden_dim": 64, "dtype": torch.bfloat16}


def outcome(function: Any) -> Any:
    """Run something and return its value, or ``Type: message``."""
    try:
        return function()
    except Exception as error:  # noqa: BLE001 - the type is what is tested
        return f"{type(error).__name__}: {error}"


def groups_of(rank: int) -> list[Any]:
    """Make every subgroup on every rank, in the same order."""
    return [dist.new_group(ranks, backend="gloo") for ranks in SUBGROUPS]


def everything(rank: int) -> dict[str, Any]:
    """fi_compat on every subgroup, the refusals, destruction, and the op's arguments."""
    import device_memory

    device_memory.install()
    import fi_compat
    from fi_compat import comm

    result: dict[str, Any] = {"release": __import__("flashinfer").__version__, "adapter": fi_compat.active("flashinfer").adapter}
    groups = groups_of(rank)
    workspaces = []

    def create(ranks, group, **extra):
        return comm.create_allreduce_fusion_workspace(world_size=len(ranks), rank=ranks.index(rank), group=group, **{**SIZE, **extra})

    for ranks, group in zip(SUBGROUPS, groups, strict=True):
        if rank in ranks:
            device_memory.COLLECTIVES.clear()
            workspace = create(ranks, group)
            workspaces.append(workspace)
            # A collective whose ranks are not the group's would be a wrong meeting, whatever the buffers say.
            others = [c for c in device_memory.COLLECTIVES if c["ranks"] != ranks]
            sources = {c["src"] for c in device_memory.COLLECTIVES if c["name"] == "broadcast_object_list"}
            result[f"group {ranks}"] = {
                "peers": device_memory.peers(workspace),
                "others": others,
                "sources": sorted(sources),
                "class": type(workspace).__mro__[1].__name__,
                "backend": workspace.backend,
            }
    dist.barrier()
    world = list(range(4))
    workspace = create(world, None)
    result["WORLD"] = device_memory.peers(workspace)
    workspaces.append(workspace)
    from flashinfer.comm.mnnvl import TorchDistBackend

    mine, my_ranks = (groups[0], SUBGROUPS[0]) if rank < 2 else (groups[1], SUBGROUPS[1])
    workspace = create(my_ranks, None, comm_backend=TorchDistBackend(group=mine))
    result["comm_backend alone"] = device_memory.peers(workspace)
    workspaces.append(workspace)
    workspace = create(my_ranks, mine, comm_backend=TorchDistBackend(group=mine))
    result["both"] = device_memory.peers(workspace)
    workspaces.append(workspace)

    class Foreign:
        """A CommBackend of another kind, without a process group."""

        def Get_rank(self):
            return my_ranks.index(rank)

        def Get_size(self):
            return 2

        allgather = TorchDistBackend(group=mine).allgather
        bcast = fi_compat._bindings.flashinfer.comm.backend_for(mine).bcast
        barrier = TorchDistBackend(group=mine).barrier

    found = outcome(lambda: create(my_ranks, None, comm_backend=Foreign()))
    result["foreign alone"] = found if isinstance(found, str) else device_memory.peers(found)
    result["refusals"] = {
        "no group": outcome(lambda: comm.create_allreduce_fusion_workspace(world_size=2, rank=0, **SIZE)),
        "rank": outcome(lambda: comm.create_allreduce_fusion_workspace(world_size=2, rank=1 - my_ranks.index(rank), group=mine, **SIZE)),
        "world_size": outcome(lambda: comm.create_allreduce_fusion_workspace(world_size=4, rank=rank, group=mine, **SIZE)),
        "not a member": outcome(lambda: create_other(comm, groups, rank)),
        "mismatch": outcome(lambda: create(my_ranks, mine, comm_backend=TorchDistBackend(group=None))),
        "backend": outcome(lambda: create(my_ranks, mine, backend="nccl")),
    }

    # An exported memory handle that stays open keeps its memory.
    def memory_files() -> int:
        open_files = [f"/proc/self/fd/{n}" for n in os.listdir("/proc/self/fd")]
        return sum("memfd" in os.readlink(f) for f in open_files if os.path.lexists(f))

    before = memory_files()  # the foreign backend's own, which fi_compat cannot see, on 0.6.8 and 0.6.9
    again = create(my_ranks, mine)
    result["memory descriptors kept"] = memory_files() - before
    again.destroy()
    from flashinfer.comm import trtllm_ar

    references = getattr(trtllm_ar, "_symm_workspace_refs", {})
    result["references before"] = len(references)
    first = workspaces[0]
    result["sufficient"] = [
        comm.is_buffer_size_sufficient(first, num_tokens=n, hidden_dim=64, dtype=d, use_oneshot=o)
        for n, d, o in ((8, torch.bfloat16, None), (9, torch.bfloat16, True), (8, torch.float32, False))
    ]
    result["op"] = op(comm, first, device_memory)
    for workspace in [*workspaces, *([] if isinstance(found, str) else [found])]:
        workspace.destroy()
        workspace.destroy()
        comm.destroy_workspace(workspace)
    result["references after"] = len(references)
    result["left behind"] = sorted(
        set(workspaces[0].__dict__) & {"ipc_handles", "workspace_tensor", "mem_handles", "metadata", "_internal_workspace"}
    )
    naive = outcome(lambda: naive_leak(references, mine, my_ranks, rank))
    result["naive leak"] = naive
    return result


def create_other(comm, groups, rank):
    """Ask for a workspace of a group that this rank is not in; torch gives such a rank a placeholder."""
    index = 1 if rank < 2 else 0
    ranks = SUBGROUPS[index]
    return comm.create_allreduce_fusion_workspace(world_size=2, rank=0, group=groups[index] or ranks, **SIZE)


def naive_leak(references, group, ranks, rank) -> int:
    """Create and destroy natively in the way that works on the release, and count what stays."""
    import inspect

    import flashinfer.comm as native

    from fi_compat import _bindings

    function = native.create_allreduce_fusion_workspace
    options = {"group": group} if "group" in inspect.signature(function).parameters else {}
    if native.__name__ and _bindings.flashinfer.comm.__name__.endswith("comm_0_6_10"):
        return -1
    before = len(references)
    workspace = function(
        backend="trtllm", world_size=2, rank=ranks.index(rank), comm_backend=_bindings.flashinfer.comm.backend_for(group), **SIZE, **options
    )
    workspace.destroy()
    leaked = len(references) - before
    references.clear()
    workspace = function(
        backend="trtllm", world_size=2, rank=ranks.index(rank), comm_backend=_bindings.flashinfer.comm.backend_for(group), **SIZE, **options
    )
    from fi_compat import comm

    comm.destroy_workspace(workspace)
    comm.destroy_workspace(workspace)
    assert not references, "destroy_workspace frees a native one too"
    return leaked


def op(comm, workspace, device_memory) -> dict[str, Any]:
    """Call allreduce_fusion and return what reached the launch."""
    x, residual, gamma = (
        torch.ones(4, 64, dtype=torch.bfloat16),
        torch.ones(4, 64, dtype=torch.bfloat16),
        torch.ones(64, dtype=torch.bfloat16),
    )
    out, norm, res, quant = (torch.empty_like(x) for _ in range(4))
    device_memory.LAUNCHES.clear()
    found = {}
    result = comm.allreduce_fusion(
        x, workspace, comm.AllReduceFusionPattern.kAllReduce, output=out, launch_with_pdl=True, trigger_completion_at_end=False
    )
    found["allreduce returns output"] = result.data_ptr() == out.data_ptr()
    name, args = device_memory.LAUNCHES[-1]
    found["launch"] = [name, [a for a in args if isinstance(a, bool)]]
    flags = []
    for pdl, trigger in ((True, False), (False, False), (True, True)):
        comm.allreduce_fusion(
            x, workspace, comm.AllReduceFusionPattern.kAllReduce, output=out, launch_with_pdl=pdl, trigger_completion_at_end=trigger
        )
        flags.append([a for a in device_memory.LAUNCHES[-1][1] if isinstance(a, bool)])
    found["one flag each"] = [sum(a != b for a, b in zip(flags[0], other, strict=True)) for other in flags[1:]]
    found["pointers"] = [any(isinstance(a, torch.Tensor) and a.data_ptr() == t.data_ptr() for a in args) for t in (x, out)]
    result = comm.allreduce_fusion(
        x,
        workspace,
        comm.AllReduceFusionPattern.kARResidualRMSNorm,
        residual_in=residual,
        rms_gamma=gamma,
        norm_out=norm,
        residual_out=res,
        rms_eps=1e-5,
    )
    found["rmsnorm returns norm_out"] = result.data_ptr() == norm.data_ptr()
    result = comm.allreduce_fusion(
        x,
        workspace,
        comm.AllReduceFusionPattern.kARResidualRMSNormOutFP8Quant,
        residual_in=residual,
        rms_gamma=gamma,
        norm_out=norm,
        residual_out=res,
        quant_out=quant,
        scale_factor=torch.ones(1),
    )
    found["quant returns quant_out"] = result.data_ptr() == quant.data_ptr()
    found["weight_bias"] = outcome(
        lambda: str(
            comm.allreduce_fusion(
                x, workspace, 1, residual_in=residual, rms_gamma=gamma, norm_out=norm, residual_out=res, weight_bias=1.0
            ).data_ptr()
            == norm.data_ptr()
        )
    )
    found["moe"] = outcome(lambda: str(comm.allreduce_fusion(x, workspace, 7, shared_expert_output=x)))
    import inspect

    import flashinfer.comm as native

    parameters = inspect.signature(native.AllReduceFusionPattern) if False else vars(native.AllReduceFusionPattern)
    ours = {n: v for n, v in vars(comm.AllReduceFusionPattern).items() if n.startswith("k")}
    found["patterns"] = {n: v for n, v in parameters.items() if n.startswith("k") and ours.get(n) != v}
    return found


def naive(rank: int, style: str) -> dict[str, Any]:
    """The call that engines write, on every rank of two groups of two or on one group alone."""
    import device_memory

    device_memory.install()
    import flashinfer.comm as native
    from flashinfer.comm.mnnvl import TorchDistBackend

    groups = groups_of(rank)
    if style == "comm_backend":
        # Up to 0.6.12 a subgroup without global rank 0: ValueError from bcast.
        ranks, group = SUBGROUPS[2], groups[2]
        if rank not in ranks:
            time.sleep(8)  # stays alive, as an idle data-parallel rank does
            return {"outcome": "not in the group"}
        options = {"comm_backend": TorchDistBackend(group=group)}
    else:
        ranks = SUBGROUPS[0] if rank < 2 else SUBGROUPS[1]
        options = {}
        if style == "one group only" and rank >= 2:
            time.sleep(8)  # stays alive, as an idle data-parallel rank does
            return {"outcome": "not in the group"}
    found = outcome(
        lambda: device_memory.peers(
            native.create_allreduce_fusion_workspace(backend="trtllm", world_size=2, rank=ranks.index(rank), **SIZE, **options)
        )
    )
    return {"outcome": found, "expected": ranks}


def manager(rank: int) -> dict[str, Any]:
    """The manager where nothing dies: failure at creation, growth, misuse, overlapping groups, the caller's group."""
    import device_memory

    device_memory.install()
    from fi_compat import comm

    result: dict[str, Any] = {}
    groups = groups_of(rank)
    mine, ranks = (groups[0], SUBGROUPS[0]) if rank < 2 else (groups[1], SUBGROUPS[1])
    x = torch.full((4, 64), float(rank + 1))
    expected = torch.full((4, 64), float(sum(r + 1 for r in ranks)))

    def caller_group_works() -> bool:
        t = torch.full((2,), float(rank))
        dist.all_reduce(t, group=mine)
        return bool((t == float(sum(ranks))).all())

    # Created and used.
    with comm.AllReduceFusion(mine, timeout=10) as fusion:
        fusion.reserve(8, 64, torch.float32)
        result["reason"] = fusion.unavailable_reason
        result["peers"] = device_memory.peers(fusion._manager._workspace)
        device_memory.LAUNCHES.clear()
        out = torch.empty_like(x)
        result["returns output"] = fusion.allreduce(x, output=out) is out
        result["launches"] = [n for n, _ in device_memory.LAUNCHES]
        norm, res = fusion.allreduce_residual_rmsnorm(x, x, torch.ones(64))
        result["norm shapes"] = [list(norm.shape), list(res.shape)]
        result["caller 1"] = caller_group_works()
        first = fusion._manager._workspace
        collectives = len(device_memory.COLLECTIVES)
        fusion.allreduce(x)
        result["no vote per call"] = len(device_memory.COLLECTIVES) == collectives
        # A later call that is too large grows; the old workspace stays for captured graphs.
        big = torch.ones(32, 64)
        fusion.allreduce(big)
        result["grown"] = fusion._manager._workspace is not first and fusion._manager._retired == [first] and not first._destroyed
        # While a stream captures nothing is created, grown or voted.
        torch.cuda.is_current_stream_capturing = lambda: True
        fusion.allreduce(x)
        collectives = len(device_memory.COLLECTIVES)
        result["capture too small"] = outcome(lambda: fusion.allreduce(torch.ones(64, 64)))
        result["capture reserve"] = outcome(lambda: fusion.reserve(512, 64, torch.float32))
        result["capture votes"] = len(device_memory.COLLECTIVES) - collectives
        torch.cuda.is_current_stream_capturing = lambda: False
        # A fork.
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(write, outcome(lambda: fusion.allreduce(x)).encode())
            fusion.close()
            os._exit(0)
        os.waitpid(pid, 0)
        result["fork"] = os.read(read, 4000).decode()
        result["after fork"] = fusion.allreduce(x).shape == x.shape
        last = fusion._manager._workspace
    result["freed"] = first._destroyed and last._destroyed
    fusion.close()
    result["use after close"] = outcome(lambda: fusion.allreduce(x))
    result["capture without reserve"] = None
    fresh = comm.AllReduceFusion(mine, timeout=10)
    torch.cuda.is_current_stream_capturing = lambda: True
    result["capture without reserve"] = outcome(lambda: fresh.allreduce(x))
    torch.cuda.is_current_stream_capturing = lambda: False
    fresh.close()
    # One rank raises at creation: all fall back, with the reason of that rank on all.
    failing = ranks[1]
    if rank == failing:
        device_memory.HOOK.append(lambda: (_ for _ in ()).throw(RuntimeError("out of device memory")))
    fusion = comm.AllReduceFusion(mine, timeout=3)
    start = time.monotonic()
    total = fusion.allreduce(x)
    result["fallback seconds"] = time.monotonic() - start
    device_memory.HOOK.clear()
    result["fallback reason"] = fusion.unavailable_reason
    result["fallback equal"] = bool(torch.equal(total, expected))
    norm, res = fusion.allreduce_residual_rmsnorm(x, x, torch.full((64,), 2.0), 1e-6)
    wanted = expected + x
    result["fallback residual"] = bool(torch.allclose(res, wanted))
    result["fallback norm"] = bool(torch.allclose(norm, torch.nn.functional.rms_norm(wanted, (64,), torch.full((64,), 2.0), 1e-6)))
    torch.cuda.is_current_stream_capturing = lambda: True
    result["fallback capture"] = outcome(lambda: fusion.allreduce(x))
    torch.cuda.is_current_stream_capturing = lambda: False
    result["caller 2"] = caller_group_works()
    fusion.close()
    # Ranks that disagree.
    fusion = comm.AllReduceFusion(mine, timeout=3)
    result["disagree"] = outcome(lambda: fusion.reserve(8 + ranks.index(rank), 64, torch.float32))
    fusion.close()
    # An argument that no rank can serve.
    fusion = comm.AllReduceFusion(mine, timeout=3)
    fusion.reserve(8, 64, torch.float64)
    result["dtype"] = fusion.unavailable_reason
    fusion.close()
    # Overlapping groups: [0, 1] or [2, 3], and [1, 3] at the same time.
    first = comm.AllReduceFusion(mine, timeout=10)
    first.reserve(8, 64, torch.float32)
    if rank in SUBGROUPS[2]:
        with comm.AllReduceFusion(groups[2], timeout=10) as second:
            second.reserve(8, 64, torch.float32)
            result["overlap"] = [device_memory.peers(first._manager._workspace), device_memory.peers(second._manager._workspace)]
    first.allreduce(x)
    first.close()
    result["wrong group"] = outcome(lambda: comm.AllReduceFusion(3, timeout=3))
    result["caller 3"] = caller_group_works()
    return result


def killed(rank: int) -> dict[str, Any]:
    """Rank 1 dies inside creation; rank 0 must hear of it within the timeout."""
    import device_memory

    device_memory.install()
    from fi_compat import comm

    groups = groups_of(rank)
    if rank >= 2:
        return {"outcome": "not in the group"}
    if rank == 1:
        device_memory.HOOK.append(lambda: os._exit(0))
    fusion = comm.AllReduceFusion(groups[0], timeout=3)
    start = time.monotonic()
    found = outcome(lambda: fusion.reserve(8, 64, torch.float32))
    return {"outcome": found, "seconds": time.monotonic() - start, "after": outcome(lambda: fusion.allreduce(torch.ones(1, 64)))}


def absent(rank: int) -> dict[str, Any]:
    """Rank 1 never arrives: not at the constructor, then not at reserve."""
    import device_memory

    device_memory.install()
    from fi_compat import comm

    groups = groups_of(rank)
    if rank < 2:
        if rank == 1:
            time.sleep(5)
            return {"outcome": "late"}
        start = time.monotonic()
        return {"outcome": outcome(lambda: comm.AllReduceFusion(groups[0], timeout=2)), "seconds": time.monotonic() - start}
    fusion = comm.AllReduceFusion(groups[1], timeout=2)
    if rank == 3:
        time.sleep(6)
        return {"outcome": "late"}
    start = time.monotonic()
    return {"outcome": outcome(lambda: fusion.reserve(8, 64, torch.float32)), "seconds": time.monotonic() - start}


def slow_build(rank: int) -> dict[str, Any]:
    """One rank builds the compiled module for longer than the timeout, and says so: nobody gives up."""
    import device_memory

    device_memory.install()
    from fi_compat import _bindings, comm

    groups = groups_of(rank)
    if rank >= 2:
        return {"outcome": "not in the group"}
    adapter = _bindings.resolve("flashinfer").comm
    if rank == 1:
        real = adapter.load_comm_module
        adapter.load_comm_module = lambda: (time.sleep(4), real())
    fusion = comm.AllReduceFusion(groups[0], timeout=1)
    start = time.monotonic()
    fusion.reserve(8, 64, torch.float32)
    seconds = time.monotonic() - start
    reason = fusion.unavailable_reason
    fusion.close()
    return {"outcome": reason or "created", "seconds": seconds}


def run(scenario: str, rank: int, world: int, port: int, path: str, timeout: float) -> None:
    """Be one rank; never returns."""
    store = dist.TCPStore("127.0.0.1", port, world, is_master=rank == 0, timeout=timedelta(seconds=max(timeout, 10)), use_libuv=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=timeout))
    name, _, argument = scenario.partition("=")
    try:
        result = globals()[name](rank, argument) if argument else globals()[name](rank)
    except BaseException as error:  # noqa: BLE001 - the parent shows it
        result = {"crash": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file)
    sys.stdout.flush()
    if rank == 0:
        # The store lives here: the others may still use it.
        deadline = time.monotonic() + 15
        others = [Path(path).with_name(f"{r}.json") for r in range(1, world)]
        while time.monotonic() < deadline and not all(f.exists() for f in others):
            time.sleep(0.05)
    os._exit(0)  # process groups of dead peers would wait in their destructors


def main() -> None:
    """Import once, fork the ranks, and wait for them until the limit; a rank that is still running then is killed."""
    scenario, world, folder, timeout, limit = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4]), float(sys.argv[5])
    import ctypes
    import sysconfig

    for path in sorted(Path(sysconfig.get_paths()["purelib"]).glob("nvidia/*/lib/libcudart.so.*")):
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)  # up to 0.6.13 flashinfer.comm needs one in the process
    import socket

    import flashinfer.comm  # noqa: F401 - 5 seconds of imports, once for all ranks; no thread and no group exists yet

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = {}
    for rank in range(world):
        pid = os.fork()
        if pid == 0:
            run(scenario, rank, world, port, f"{folder}/{rank}.json", timeout)
        children[pid] = rank
    deadline = time.monotonic() + limit
    while children and time.monotonic() < deadline:
        pid, _status = os.waitpid(-1, os.WNOHANG)
        if pid:
            children.pop(pid)
        else:
            time.sleep(0.02)
    for pid, rank in children.items():
        os.kill(pid, 9)
        with open(f"{folder}/{rank}.json", "w", encoding="utf-8") as file:
            json.dump({"hang": True}, file)


if __name__ == "__main__":
    main()
