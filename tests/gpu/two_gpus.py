"""The allreduce workspace on two real GPUs: ``two_gpus.py OVERLAYS OUT [RELEASE ...]``.

Three processes: two own the GPUs and form the group, the third is in WORLD only and never joins a collective. The compiled
module is built beforehand and lies at ``flashinfer/data/aot/trtllm_comm/trtllm_comm.so`` of each overlay. NVLink multicast
stays off: only ``backend="trtllm"``, and the environment's variables are handed on.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

RELEASES = ("0.6.8.post1", "0.6.10", "0.6.10.post1", "0.6.12", "0.6.15.post1", "0.6.17", "0.7.0")
TOKENS = (1, 128, 2048)
HIDDEN = 4096


#: One GPU for all ranks (a machine with one): gloo carries the reference, since NCCL wants a GPU a rank.
SHARED = bool(os.environ.get("FI_COMPAT_SHARED_GPU"))


def descriptors() -> dict[str, str]:
    """Return this process's open files: an exported memory handle that stays open keeps its memory."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = f"{name} {os.readlink(f'/proc/self/fd/{name}')}"
        except OSError:
            continue
    return found


def device_of(rank: int) -> int:
    """Return the GPU of a rank."""
    return 0 if SHARED else rank % 2


def reference_sum(total: Any, group: Any) -> Any:
    """Sum a tensor over the group with torch.distributed."""
    import torch.distributed as dist

    if SHARED:
        host = total.cpu()
        dist.all_reduce(host, group=group)
        total.copy_(host)
    else:
        dist.all_reduce(total, group=group)
    return total


def relative(found: Any, wanted: Any) -> float:
    """Relative Frobenius error."""
    return float((found.float() - wanted.float()).norm() / wanted.float().norm())


def correctness(comm: Any, workspace: Any, group: Any, rank: int) -> dict[str, float]:
    """AllReduce and AllReduce + residual + RMSNorm against an fp32 NCCL reference."""
    import torch

    worst = {"allreduce": 0.0, "residual": 0.0, "norm": 0.0}
    for tokens in TOKENS:
        generator = torch.Generator(device="cuda").manual_seed(100 * tokens + rank)
        x = torch.randn(tokens, HIDDEN, generator=generator, device="cuda").bfloat16()
        total = x.float()
        reference_sum(total, group)
        out = torch.full_like(x, float("nan"))
        comm.allreduce_fusion(x, workspace, comm.AllReduceFusionPattern.kAllReduce, output=out)
        same = torch.Generator(device="cuda").manual_seed(7)
        residual = torch.randn(tokens, HIDDEN, generator=same, device="cuda").bfloat16()
        gamma = torch.rand(HIDDEN, generator=same, device="cuda").bfloat16()
        norm, res = torch.full_like(x, float("nan")), torch.full_like(x, float("nan"))
        comm.allreduce_fusion(
            x,
            workspace,
            comm.AllReduceFusionPattern.kARResidualRMSNorm,
            residual_in=residual,
            rms_gamma=gamma,
            rms_eps=1e-6,
            residual_out=res,
            norm_out=norm,
        )
        torch.cuda.synchronize()
        wanted = total + residual.float()
        wanted_norm = wanted * torch.rsqrt(wanted.pow(2).mean(-1, keepdim=True) + 1e-6) * gamma.float()
        for name, found, expected in (("allreduce", out, total), ("residual", res, wanted), ("norm", norm, wanted_norm)):
            worst[name] = max(worst[name], relative(found, expected))
    return worst


def graph(comm: Any, workspace: Any, group: Any, rank: int) -> float:
    """Capture and replay; returns the worst error over three inputs."""
    import torch

    x, out = torch.zeros(128, HIDDEN, device="cuda", dtype=torch.bfloat16), torch.zeros(128, HIDDEN, device="cuda", dtype=torch.bfloat16)
    call = lambda: comm.allreduce_fusion(x, workspace, comm.AllReduceFusionPattern.kAllReduce, output=out)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        call()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        call()
    worst = 0.0
    for step in range(3):
        x.copy_(torch.randn(128, HIDDEN, generator=torch.Generator(device="cuda").manual_seed(step * 10 + rank), device="cuda"))
        total = x.float()
        reference_sum(total, group)
        out.fill_(float("nan"))
        captured.replay()
        torch.cuda.synchronize()
        worst = max(worst, relative(out, total))
    return worst


def times(comm: Any, workspace: Any, group: Any) -> dict[str, Any]:
    """Microseconds a call of fi_compat, the direct call and NCCL, interleaved; host time and GPU time."""
    import flashinfer.comm as native
    import torch
    import torch.distributed as dist

    result = {}
    for tokens in (1, 128):
        x = torch.randn(tokens, HIDDEN, device="cuda").bfloat16()
        out = torch.empty_like(x)
        ways = {
            "fi_compat": lambda: comm.allreduce_fusion(x, workspace, 0, output=out),
            "direct": lambda: native.allreduce_fusion(input=x, workspace=workspace, pattern=0, output=out),
            **({} if SHARED else {"nccl": lambda: dist.all_reduce(out, group=group)}),
        }
        spent: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(12):
            for name, way in ways.items():
                for _ in range(10):
                    way()
                torch.cuda.synchronize()
                first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                start = time.perf_counter()
                first.record()
                for _ in range(50):
                    way()
                last.record()
                host = (time.perf_counter() - start) / 50 * 1e6
                torch.cuda.synchronize()
                spent[name].append((host, first.elapsed_time(last) / 50 * 1e3))
        median = lambda values: sorted(values)[len(values) // 2]
        result[f"{tokens} tokens"] = {
            n: {"host_us": round(median([h for h, _ in s]), 2), "gpu_us": round(median([g for _, g in s]), 2)} for n, s in spent.items()
        }
    return result


def regime(rank: int) -> dict[str, Any]:
    """Everything for one release, on groups [0, 1] and [1, 2]; what was measured before a failure is kept."""
    result: dict[str, Any] = {}
    try:
        measure(rank, result)
    except Exception as error:  # noqa: BLE001 - shown with what came before it
        import traceback

        result["failed"] = f"{type(error).__name__}: {str(error)[:300]}"
        result["traceback"] = traceback.format_exc()[-900:]
    return result


def measure(rank: int, result: dict[str, Any]) -> None:
    """Fill ``result``."""
    import torch
    import torch.distributed as dist

    import fi_compat
    from fi_compat import _bindings, comm

    torch.cuda.set_device(device_of(rank))
    kind = "gloo" if SHARED else "nccl"
    groups = {"[0, 1]": ([0, 1], dist.new_group([0, 1], backend=kind)), "[1, 2]": ([1, 2], dist.new_group([1, 2], backend=kind))}
    store = dist.distributed_c10d._get_default_store()
    start = time.monotonic()
    fi_compat.prepare("create_allreduce_fusion_workspace", "allreduce_fusion")
    _bindings.flashinfer.comm.load_comm_module()
    result |= {"adapter": fi_compat.active("flashinfer").adapter, "load_s": round(time.monotonic() - start, 2)}
    size = {"max_token_num": max(TOKENS), "hidden_dim": HIDDEN, "dtype": torch.bfloat16}
    for name, (ranks, group) in groups.items():
        if rank in ranks:
            reference_sum(torch.ones(1, device="cuda"), group)
            mine = {"world_size": 2, "rank": ranks.index(rank), "group": group}
            before = descriptors()
            start = time.monotonic()
            workspace = comm.create_allreduce_fusion_workspace(**size, **mine)
            found: dict[str, Any] = {"create_s": round(time.monotonic() - start, 2)}
            result[name] = found
            found["new descriptors"] = sorted(set(descriptors().values()) - set(before.values()))[:8]
            found["descriptors"] = len(descriptors()) - len(before)
            found["errors"] = correctness(comm, workspace, group, rank)
            found["graph"] = graph(comm, workspace, group, rank)
            if name == "[0, 1]":
                found["times"] = times(comm, workspace, group)
            workspace.destroy()
            workspace.destroy()
            if name == "[0, 1]":
                free = []
                for cycle in range(25 if SHARED else 100):
                    workspace = comm.create_allreduce_fusion_workspace(max_token_num=128, hidden_dim=HIDDEN, dtype=torch.bfloat16, **mine)
                    workspace.destroy()
                    del workspace
                    torch.cuda.synchronize()
                    free.append(torch.cuda.mem_get_info()[0])
                    found["cycles"] = cycle + 1
                    # Another rank's buffers count too where the GPU is shared; the first ten cycles warm up.
                    found["growth_bytes"] = free[min(9, len(free) - 1)] - free[-1]
                with comm.AllReduceFusion(group, timeout=60) as fusion:
                    fusion.reserve(128, HIDDEN, torch.bfloat16)
                    x = torch.full((4, HIDDEN), float(rank + 1), device="cuda", dtype=torch.bfloat16)
                    found["manager"] = [fusion.unavailable_reason, float(fusion.allreduce(x)[0, 0])]
                real = _bindings.flashinfer.comm.create_workspace
                if rank == 1:

                    def fail(*_: Any) -> Any:
                        raise RuntimeError("made to fail")

                    _bindings.flashinfer.comm.create_workspace = fail
                with comm.AllReduceFusion(group, timeout=10) as fusion:
                    total = fusion.allreduce(x)
                    found["fallback"] = [fusion.unavailable_reason, float(total[0, 0])]
                _bindings.flashinfer.comm.create_workspace = real
        store.set(f"done/{name}/{rank}", "1")
        while not store.check([f"done/{name}/{r}" for r in range(3)]):
            time.sleep(0.05)  # the rank outside only waits; it joins no collective


def naive(rank: int) -> dict[str, Any]:
    """The call without a group, made by two of three ranks."""
    import flashinfer.comm as native
    import torch

    torch.cuda.set_device(device_of(rank))
    if rank == 2:
        time.sleep(22)
        return {"outcome": "idle"}
    start = time.monotonic()
    try:
        native.create_allreduce_fusion_workspace(
            backend="trtllm", world_size=2, rank=rank, max_token_num=128, hidden_dim=HIDDEN, dtype=torch.bfloat16
        )
        outcome = "created"
    except Exception as error:  # noqa: BLE001 - the answer
        outcome = f"{type(error).__name__}: {str(error)[:160]}"
    return {"outcome": outcome, "seconds": round(time.monotonic() - start, 1)}


def four(rank: int, style: str) -> dict[str, Any]:
    """Two groups of two in a WORLD of four that shares the two GPUs."""
    import flashinfer.comm as native
    import torch
    import torch.distributed as dist

    from fi_compat import comm

    torch.cuda.set_device(device_of(rank))
    pair = [0, 1] if rank < 2 else [2, 3]
    groups = [dist.new_group([0, 1], backend="gloo"), dist.new_group([2, 3], backend="gloo")]
    size = {"world_size": 2, "rank": rank % 2, "max_token_num": 128, "hidden_dim": HIDDEN, "dtype": torch.bfloat16}
    if style == "naive":
        workspace = native.create_allreduce_fusion_workspace(backend="trtllm", **size)
    else:
        refused = None
        try:
            comm.create_allreduce_fusion_workspace(**size)
        except ValueError as error:
            refused = str(error)[:120]
        workspace = comm.create_allreduce_fusion_workspace(**size, group=groups[rank // 2])
    print(f"rank {rank} created", flush=True)
    expected = float(sum(r + 1 for r in pair))
    x = torch.full((1, HIDDEN), float(rank + 1), device="cuda", dtype=torch.bfloat16)
    values = []
    for _ in range(6):
        out = torch.full_like(x, float("nan"))
        native.allreduce_fusion(input=x, workspace=workspace, pattern=0, output=out)
        torch.cuda.synchronize()
        values.append(float(out[0, 0]))
    return {
        "values": values,
        "expected": expected,
        "right": values == [expected] * 6,
        **({"refused without group": refused} if style != "naive" else {}),
    }


def spawn(scenario: str, overlay: Path, world: int, limit: float, timeout: float = 20) -> list[dict[str, Any]]:
    """Run a scenario on some ranks under a watchdog."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    root = str(Path(__file__).parents[2])
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(overlay), root, os.environ.get("PYTHONPATH", ""))),
        "FLASHINFER_DISABLE_VERSION_CHECK": "1",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__, "--rank", scenario, str(rank), str(world), str(port), str(timeout)],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]
    deadline = time.monotonic() + limit
    results = []
    for process in processes:
        try:
            out, err = process.communicate(timeout=max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            results.append({"outcome": f"hung, killed after {limit:.0f} s", "said": out[-200:], "stderr": err[-600:]})
            continue
        line = next((x for x in reversed(out.splitlines()) if x.startswith("RESULT ")), None)
        result = json.loads(line[7:]) if line else {"outcome": f"died with {process.returncode}"}
        if err.strip() and ("failed" in result or "outcome" in result):
            result["stderr"] = err[-900:]
        results.append(result)
    return results


def be_rank(scenario: str, rank: int, world: int, port: int, timeout: float) -> None:
    """Be one rank; never returns."""
    import torch.distributed as dist

    store = dist.TCPStore("127.0.0.1", port, world, is_master=rank == 0, timeout=timedelta(seconds=timeout))
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=timeout))
    name, _, argument = scenario.partition("=")
    try:
        result = globals()[name](rank, argument) if argument else globals()[name](rank)
    except Exception as error:  # noqa: BLE001 - the parent shows it
        import traceback

        result = {"outcome": f"{type(error).__name__}: {str(error)[:300]}", "traceback": traceback.format_exc()[-1200:]}
    print("RESULT " + json.dumps(result), flush=True)
    if rank == 0:
        time.sleep(3)  # the store lives here
    os._exit(0)


def main() -> None:
    if sys.argv[1] == "--rank":
        be_rank(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6]))
    overlays, out = Path(sys.argv[1]), Path(sys.argv[2])
    releases = sys.argv[3:] or RELEASES
    import torch

    report: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "devices": torch.cuda.device_count(),
        "torch": torch.__version__,
        "releases": {},
    }
    for release in releases:
        start = time.monotonic()
        report["releases"][release] = spawn("regime", overlays / release, 3, 120, timeout=30)
        print(release, f"{time.monotonic() - start:.0f} s", json.dumps(report["releases"][release])[:1800], flush=True)
        out.write_text(json.dumps(report, indent=1))
    for release, scenario, world, limit in (
        ("0.6.10", "naive", 3, 60),
        ("0.6.12", "naive", 3, 60),
        ("0.6.17", "four=fi_compat", 4, 60),
        ("0.6.17", "four=naive", 4, 45),
    ):
        if (overlays / release).exists():
            report.setdefault("naive", {})[f"{release} {scenario}"] = found = spawn(scenario, overlays / release, world, limit)
            print(release, scenario, json.dumps(found)[:1200], flush=True)
            out.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
