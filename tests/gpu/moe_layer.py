"""The MXFP4 MoE layer on a real GPU: ``moe_layer.py TREES OUT NAME ...``; one process a tree, one JSON line each.

For each tree: error against plain torch from the MXFP4 bytes, routing against its contract, repeated runs, CUDA-graph replay,
torch.compile, and the time of the layer written natively for that tree against fi_compat's, interleaved, with kernel counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ALPHA, LIMIT, TOP_K = 1.702, 7.0, 4
TOKENS = (1, 7, 64, 1024)
SHAPES = ((512, 32), (2880, 32), (512, 128), (2880, 128))


def make(hidden: int, experts: int) -> dict[str, Any]:
    """Return random MXFP4 weights as checkpoints have them, the same in every process."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(hidden + experts)
    draw = lambda *shape: torch.randint(0, 256, shape, generator=generator, device="cuda", dtype=torch.uint8)
    scales = lambda *shape: torch.randint(118, 124, shape, generator=generator, device="cuda", dtype=torch.uint8)
    return {
        "w1": (draw(experts, 2 * hidden, hidden // 2), scales(experts, 2 * hidden, hidden // 32)),
        "w2": (draw(experts, hidden, hidden // 2), scales(experts, hidden, hidden // 32)),
        "b1": torch.randn(experts, 2 * hidden, generator=generator, device="cuda"),
        "b2": torch.randn(experts, hidden, generator=generator, device="cuda"),
    }


def inputs(tokens: int, hidden: int, experts: int) -> tuple[Any, Any]:
    """Return activations and logits, the same in every process."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(tokens)
    x = torch.randn(tokens, hidden, generator=generator, device="cuda").bfloat16()
    return x, torch.randn(tokens, experts, generator=generator, device="cuda").bfloat16()


def native_layer(variant: str, w1: Any, pc1: Any, w2: Any, pc2: Any, b1: Any, b2: Any) -> Any:
    """Return the layer as an engine writes it for one generation."""
    if variant in {"3.4", "3.5.1"}:
        from triton_kernels.matmul_ogs import FnSpecs, FusedActivation, matmul_ogs
        from triton_kernels.routing import routing
        from triton_kernels.swiglu import swiglu_fn

        act = FusedActivation(FnSpecs("swiglu", swiglu_fn, ("alpha", "limit")), (ALPHA, LIMIT), 2)

        def layer(x: Any, logits: Any) -> Any:
            rd, gather, scatter = routing(logits, TOP_K)
            h = matmul_ogs(x, w1, b1, rd, gather_indx=gather, precision_config=pc1, fused_activation=act)
            return matmul_ogs(h, w2, b2, rd, scatter_indx=scatter, precision_config=pc2, gammas=rd.gate_scal)

        return layer
    from triton_kernels.swiglu import swiglu_fn
    from triton_kernels.tensor import make_ragged_tensor_metadata
    from triton_kernels.topk import topk

    if variant == "3.6":
        from triton_kernels.matmul_ogs import FusedActivation, GatherIndx, RoutingData, ScatterIndx, matmul_ogs
        from triton_kernels.specialize import FnSpecs

        act = FusedActivation(FnSpecs("swiglu", swiglu_fn, ("alpha", "limit"), reduction_n=2), (ALPHA, LIMIT))

        def layer(x: Any, logits: Any) -> Any:
            sparse = topk(logits, TOP_K)
            column, row = sparse.mask_metadata.col_sorted_indx, sparse.mask_metadata.row_sorted_indx
            ragged = make_ragged_tensor_metadata(sparse.mask_metadata.col_sum, column.shape[0])
            gates = sparse.vals.flatten()[column]
            rd = RoutingData(gates, ragged.slice_sizes, logits.shape[1], TOP_K, ragged)
            h = matmul_ogs(x, w1, b1, rd, gather_indx=GatherIndx(column, row), precision_config=pc1, fused_activation=act)
            return matmul_ogs(h, w2, b2, rd, scatter_indx=ScatterIndx(row, column), precision_config=pc2, gammas=gates)

        return layer
    import torch
    from triton_kernels.matmul import FusedActivation, matmul
    from triton_kernels.reduce import reduce
    from triton_kernels.specialize import FnSpecs

    act = FusedActivation(FnSpecs("swiglu", swiglu_fn, ("alpha", "limit"), reduction_n=2), (ALPHA, LIMIT))

    def layer(x: Any, logits: Any) -> Any:
        sparse = topk(logits, TOP_K)
        column = sparse.mask_metadata.col_sorted_indx
        ragged = make_ragged_tensor_metadata(sparse.mask_metadata.col_sum, column.shape[0])
        rows = torch.div(column, TOP_K, rounding_mode="floor")
        h = matmul(x, w1, b1, a_ragged_metadata=ragged, gather_indx=rows, precision_config=pc1, fused_activation=act)
        out = matmul(h, w2, b2, a_ragged_metadata=ragged, scatter_indx=column, precision_config=pc2, gammas=sparse.vals.flatten()[column])
        return reduce(out.view(x.shape[0], TOP_K, -1), dim=1)[0]

    return layer


def replayable(function: Any) -> Any:
    """Capture a call into a CUDA graph, after warm-up on a side stream."""
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        result = function()
    return captured, result


def kernels(function: Any) -> int:
    """Count the kernels of one call."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    function()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        function()
        torch.cuda.synchronize()
    return sum(e.count for e in seen.key_averages() if e.device_type == torch.autograd.DeviceType.CUDA)


def interleaved(ways: dict[str, Any], repeats: int = 15, calls: int = 100) -> dict[str, float]:
    """Median microseconds a call of each way, taken in turn."""
    import torch

    spent: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            for _ in range(5):
                way()
            first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda.synchronize()
            first.record()
            for _ in range(calls):
                way()
            last.record()
            torch.cuda.synchronize()
            spent[name].append(first.elapsed_time(last) / calls * 1e3)
    return {name: sorted(values)[len(values) // 2] for name, values in spent.items()}


def one_tree(name: str, exchange: Path) -> dict[str, Any]:
    """Run everything for the tree on sys.path."""
    import torch
    import triton

    import fi_compat
    from fi_compat import errors, moe, reference

    variant = fi_compat.active("triton_kernels").variant
    result: dict[str, Any] = {"tree": name, "variant": variant, "triton": triton.__version__, "torch": torch.__version__}
    try:
        fi_compat.prepare("routing", "matmul_ogs", "precision_config", "fused_swiglu", "prepare_mxfp4_weight")
    except errors.UpstreamImportError as error:
        return {**result, "refused": f"{type(error).__name__}: {error}"}
    errors_seen: dict[str, float] = {}
    against_r1: dict[str, float] = {}
    routing_ok = repeat_ok = graph_ok = True
    for hidden, experts in SHAPES:
        weights = make(hidden, experts)
        w1, s1 = moe.prepare_mxfp4_weight(*weights["w1"])
        w2, s2 = moe.prepare_mxfp4_weight(*weights["w2"])
        pc1, pc2 = moe.precision_config(weight_scale=s1), moe.precision_config(weight_scale=s2)
        native = native_layer(variant, w1, pc1, w2, pc2, weights["b1"], weights["b2"])
        for tokens in TOKENS:
            x, logits = inputs(tokens, hidden, experts)
            call = lambda: moe.moe_layer(x, logits, w1, weights["b1"], pc1, w2, weights["b2"], pc2, TOP_K, alpha=ALPHA, limit=LIMIT)
            out = call()
            key = f"{tokens}x{hidden}x{experts}"
            expected = moe.moe_layer(
                x,
                logits,
                weights["w1"],
                weights["b1"],
                None,
                weights["w2"],
                weights["b2"],
                None,
                TOP_K,
                alpha=ALPHA,
                limit=LIMIT,
                backend="reference",
            )
            assert out.shape == expected.shape == (tokens, hidden), (out.shape, expected.shape)
            errors_seen[key] = float((out.float() - expected.float()).norm() / expected.float().norm())
            file = exchange / f"{key}.pt"
            if name == "R1":
                torch.save(out.cpu(), file)
            elif file.exists():
                first = torch.load(file).float()
                against_r1[key] = float((out.float().cpu() - first).norm() / first.norm())
            found = moe.routing(logits, TOP_K)
            wanted = reference.routing(logits, TOP_K, by_value=variant.startswith("3.8"))
            routing_ok &= torch.equal(found.gather_indx.src_indx, wanted.gather_indx.src_indx)
            routing_ok &= torch.equal(found.routing_data.expt_hist, wanted.routing_data.expt_hist)
            routing_ok &= torch.equal(moe.ragged(found).block_schedule(16), moe.ragged(wanted).block_schedule(16))
            repeat_ok &= all(torch.equal(call(), out) for _ in range(3))
            captured, replayed = replayable(call)
            replayed.fill_(float("nan"))
            captured.replay()
            torch.cuda.synchronize()
            graph_ok &= torch.equal(replayed, out)
            if (hidden, experts) == (2880, 32) and tokens in {1, 64}:
                native_graph, native_out = replayable(lambda: native(x, logits))
                native_graph.replay()
                torch.cuda.synchronize()
                times = interleaved({"native": native_graph.replay, "fi_compat": captured.replay})
                result[f"time {tokens} tokens"] = {
                    **{f"{k}_us": round(v, 2) for k, v in times.items()},
                    "ratio": round(times["fi_compat"] / times["native"], 4),
                    "kernels": {"native": kernels(lambda: native(x, logits)), "fi_compat": kernels(call)},
                    "equal": torch.equal(native_out.view_as(out), out),
                }
    result |= {
        "worst_error": max(errors_seen.values()),
        "errors": {k: round(v, 6) for k, v in errors_seen.items()},
        "worst_against_R1": max(against_r1.values(), default=None),
        "routing_bitwise": routing_ok,
        "repeat_equal": repeat_ok,
        "graph_equal": graph_ok,
    }
    # The unconfirmed report of a crash: 4,096 tokens under capture.
    weights = make(2880, 32)
    w1, s1 = moe.prepare_mxfp4_weight(*weights["w1"])
    w2, s2 = moe.prepare_mxfp4_weight(*weights["w2"])
    pc1, pc2 = moe.precision_config(weight_scale=s1), moe.precision_config(weight_scale=s2)
    x, logits = inputs(4096, 2880, 32)
    layer = lambda a, b: moe.moe_layer(a, b, w1, weights["b1"], pc1, w2, weights["b2"], pc2, TOP_K, alpha=ALPHA, limit=LIMIT)
    eager = layer(x, logits)
    captured, replayed = replayable(lambda: layer(x, logits))
    for _ in range(20):
        captured.replay()
    torch.cuda.synchronize()
    result["4096 tokens under capture"] = bool(torch.equal(replayed, eager))
    # torch.compile: one graph, no recompile over 10 calls.
    import torch._dynamo

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    x, logits = inputs(64, 2880, 32)
    compiled = torch.compile(layer, fullgraph=True)
    same = all(torch.equal(compiled(x, logits), layer(x, logits)) for _ in range(10))
    stats = torch._dynamo.utils.counters["stats"]
    result["compile"] = {"equal": same, "graphs": stats.get("unique_graphs"), "breaks": len(torch._dynamo.utils.counters["graph_break"])}
    # Constraints: refused by name, and seen by a worker thread.
    try:
        with moe.opt_flags_constraints(no_such_thing=1):
            pass
    except errors.UnsupportedFeatureError as error:
        result["unknown constraint"] = str(error)[:80]
    import threading

    with moe.opt_flags_constraints(block_k=64 if variant in {"3.4", "3.5.1", "3.6"} else 128):
        seen: list[Any] = []

        def work() -> None:
            try:
                seen.append(layer(x, logits).shape)
            except Exception as error:  # noqa: BLE001 - shown
                seen.append(f"{type(error).__name__}: {str(error)[:100]}")

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    result["constraint in a thread"] = str(seen)
    return result


def main() -> None:
    if sys.argv[1] == "--tree":
        start = time.monotonic()
        result = one_tree(sys.argv[2], Path(sys.argv[3]))
        result["seconds"] = round(time.monotonic() - start, 1)
        print("RESULT " + json.dumps(result), flush=True)
        return
    trees, out, names = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    exchange = Path("/tmp/fi_compat_moe")
    exchange.mkdir(exist_ok=True)
    root = str(Path(__file__).parents[2])
    report: list[dict[str, Any]] = json.loads(out.read_text()) if out.exists() else []
    for name in names:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(trees / name), root, os.environ.get("PYTHONPATH", "")))}
        command = [sys.executable, "-W", "ignore", __file__, "--tree", name, str(exchange)]
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=280, check=False)
            line = next((x for x in reversed(done.stdout.splitlines()) if x.startswith("RESULT ")), None)
            report.append(json.loads(line[7:]) if line else {"tree": name, "died": done.returncode, "stderr": done.stderr[-1500:]})
        except subprocess.TimeoutExpired as error:
            report.append({"tree": name, "died": "timeout", "stderr": str(error.stderr)[-800:]})
        print(json.dumps(report[-1])[:3000], flush=True)
        out.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
