"""The main job for a newcomer: the same calls on several releases and trees, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

__all__ = ["main"]


def main(args: argparse.Namespace) -> int:
    """Run the demo on the folders given, or on what is installed here."""
    if args.child:
        print(json.dumps(_routing() if args.child == "routing" else _fp4_quantize()))
        return 0
    if args.moe:
        return _moe()
    trees = dict(item.split("=", 1) for item in args.tree) or {"installed": ""}
    releases = dict(item.split("=", 1) for item in args.flashinfer) or {"installed": ""}
    print("The same logits [7 tokens, 8 experts], top-2, through fi_compat.routing on each tree (Triton's CPU interpreter):\n")
    ok = _show_routing([{"tree": name, **_child("routing", folder)} for name, folder in trees.items()])
    print("\nThe same call, fi_compat.fp4_quantize(x, scale, enable_pdl=True), as each release's own function receives it:\n")
    ok = _show_fp4([{"release": name, **_child("fp4_quantize", folder)} for name, folder in releases.items()]) and ok
    return 0 if ok else 2


def _moe() -> int:
    """Run a small gpt-oss-shaped layer and say how far it is from plain torch."""
    import torch

    from . import active, moe, prepare
    from .errors import FiCompatError

    hidden, experts, tokens, top_k = 256, 8, 16, 4
    generator = torch.Generator().manual_seed(0)

    def draw(low: int, high: int, *shape: int) -> Any:
        return torch.randint(low, high, shape, generator=generator, dtype=torch.uint8)

    w1 = (draw(0, 256, experts, 2 * hidden, hidden // 2), draw(118, 124, experts, 2 * hidden, hidden // 32))
    w2 = (draw(0, 256, experts, hidden, hidden // 2), draw(118, 124, experts, hidden, hidden // 32))
    x = torch.randn(tokens, hidden, generator=generator).bfloat16()
    logits = torch.randn(tokens, experts, generator=generator).bfloat16()
    plain = moe.moe_layer(x, logits, w1, None, None, w2, None, None, top_k, alpha=1.702, limit=7.0, backend="reference")
    print(f"plain torch on the CPU: {tokens} tokens, hidden {hidden}, {experts} experts, top-{top_k}: norm {plain.float().norm():.4f}")
    if not torch.cuda.is_available():
        print("no CUDA device here: the kernels need one")
        return 0
    try:
        prepare("routing", "matmul_ogs", "precision_config", "fused_swiglu", "prepare_mxfp4_weight")
        selection = active("triton_kernels")
    except FiCompatError as error:
        print(f"{type(error).__name__}: {error}")
        return 2
    v1, s1 = moe.prepare_mxfp4_weight(w1[0].cuda(), w1[1].cuda())
    v2, s2 = moe.prepare_mxfp4_weight(w2[0].cuda(), w2[1].cuda())
    pc1, pc2 = moe.precision_config(weight_scale=s1), moe.precision_config(weight_scale=s2)
    out = moe.moe_layer(x.cuda(), logits.cuda(), v1, None, pc1, v2, None, pc2, top_k, alpha=1.702, limit=7.0).float().cpu()
    off = float((out - plain.float()).norm() / plain.float().norm())
    print(f"triton_kernels {selection.variant} ({selection.adapter}) on {torch.cuda.get_device_name()}: relative error {off:.1e}")
    return 0 if off < 1e-2 else 2


def _child(what: str, folder: str) -> dict[str, Any]:
    """Run one part in a fresh process with a folder first on sys.path; two trees cannot live in one process."""
    print(f"  running {what} {folder and 'on ' + Path(folder).name} ...", file=sys.stderr, flush=True)
    path = os.pathsep.join(filter(None, [folder, str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]))
    env = {**os.environ, "PYTHONPATH": path, "TRITON_INTERPRET": "1", "PYTHONWARNINGS": "ignore"}
    with tempfile.TemporaryDirectory() as workspace:
        env.update({"FLASHINFER_WORKSPACE_BASE": workspace, "FLASHINFER_CUDA_ARCH_LIST": env.get("FLASHINFER_CUDA_ARCH_LIST", "10.0a")})
        command = [sys.executable, "-m", "fi_compat", "demo", "--child", what]
        result = subprocess.run(command, env=env, capture_output=True, text=True, check=False)  # noqa: S603 - our own interpreter and module
    try:
        found: dict[str, Any] = json.loads(result.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        lines = result.stderr.strip().splitlines()
        found = {"error": lines[-1] if lines else f"exit status {result.returncode}"}
    return found


def _routing() -> dict[str, Any]:
    """Route fixed logits and compare with the reference and with what an engine written for 3.5.1 would do."""
    import warnings

    import torch

    from . import _bindings, active, moe, reference
    from ._interpreter import let_interpreter_unwrap
    from .errors import FiCompatError

    warnings.simplefilter("ignore")
    try:
        selection = active("triton_kernels")
        if selection.adapter != "reference":
            let_interpreter_unwrap()
        logits = torch.randn(7, 8, generator=torch.Generator().manual_seed(0))
        found = moe.routing(logits, 2)
    except FiCompatError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    expected = reference.routing(logits, 2, by_value=_bindings.triton_kernels.SLOTS_BY_VALUE)
    same = all(
        torch.equal(a, b)
        for a, b in (
            (found.gather_indx.src_indx, expected.gather_indx.src_indx),
            (found.scatter_indx.src_indx, expected.scatter_indx.src_indx),
            (found.routing_data.expt_hist, expected.routing_data.expt_hist),
            (moe.ragged(found).block_schedule(16), moe.ragged(expected).block_schedule(16)),
        )
    )
    off = (found.routing_data.gate_scal - expected.routing_data.gate_scal).abs().max().item()
    reason = next(v.reason for v in reversed(selection.trace) if v.accepted)
    return {
        "generation": selection.variant,
        "adapter": selection.adapter,
        "why": reason,
        "equal": f"indices {'equal' if same else 'DIFFER'}, gates within {off:.0e}",
        "ok": same,
        "naive": _naive_routing(logits, moe.routing(logits, 2, slot_order="expert")),
    }


def _naive_routing(logits: Any, expected: Any) -> str:
    """Do what engines written for 3.5.1 do: import routing, or unpack topk's result."""
    import torch

    try:
        from triton_kernels.routing import routing

        _, gather, _ = routing(logits, 2)
    except ImportError as error:
        first = f"{type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001 - what it raises is the answer
        return f"{type(error).__name__}: {error}"
    else:
        return "works" if torch.equal(gather.src_indx, expected.gather_indx.src_indx) else "another order of slots"
    try:
        from triton_kernels.topk import topk

        _values, _indices, _bitmatrix = topk(logits, 2)
    except Exception as error:  # noqa: BLE001 - what it raises is the answer
        return f"{first}; then {type(error).__name__}: {error}"
    return first


def _fp4_quantize() -> dict[str, Any]:
    """Bind the stable call and the naive positional one to the installed release's own signature."""
    import inspect
    import warnings
    from types import SimpleNamespace

    warnings.simplefilter("ignore")
    from . import _device, active
    from .errors import FiCompatError

    try:
        selection = active("flashinfer")
        from ._bindings import resolve

        adapter = resolve("flashinfer")
        (upstream,) = adapter.UPSTREAMS["fp4_quantize"]
        signature = inspect.signature(upstream.bind())
    except FiCompatError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    import torch

    from . import fp4_quantize

    seen = SimpleNamespace(arguments={})

    def record(*args: Any, **kwargs: Any) -> tuple[None, None]:
        seen.arguments = signature.bind(*args, **kwargs).arguments
        return None, None

    upstream.call = record
    # No GPU here: the call ends at upstream's function, so lend the check a device.
    _device.BLACKWELL.add(-1)
    x, scale = torch.zeros(4, 64, dtype=torch.bfloat16), torch.ones(1)
    fp4_quantize(x, scale, enable_pdl=True)
    naive = signature.bind(x, scale, 16, False, True, False, True).arguments
    names = list(signature.parameters)
    return {
        "adapter": selection.adapter,
        "bound": {k: v for k, v in seen.arguments.items() if not isinstance(v, torch.Tensor)},
        "seventh": names[6],
        "naive": {names[6]: naive[names[6]]},
        "ok": seen.arguments.get("enable_pdl") is True and not seen.arguments.get("is_global_scale_inversed", False),
    }


def _show_routing(results: list[dict[str, Any]]) -> bool:
    from .cli import table

    rows = [("tree", "generation", "adapter", "chosen because", "against the reference", "an engine written for 3.5.1")]
    for found in results:
        if "error" in found:
            rows.append((found["tree"], "-", "-", found["error"], "-", "-"))
        else:
            rows.append((found["tree"], found["generation"], found["adapter"], _short(found["why"]), found["equal"], found["naive"]))
    print(table(rows))
    return all(found.get("ok") for found in results)


def _short(reason: str) -> str:
    """Shorten ``topk(x, k, ...)`` to the parameters that decide."""
    decisive = [p for p in ("return_bitmatrix", "symm_mem_pool", "all_gather") if p in reason]
    return f"topk() has {decisive[0]}" if decisive else reason


def _show_fp4(results: list[dict[str, Any]]) -> bool:
    from .cli import table

    names = list(dict.fromkeys(n for found in results for n in found.get("bound", {})))
    rows = [("FlashInfer", "adapter", *names, "a naive 7th positional True means")]
    for found in results:
        if "error" in found:
            rows.append((found["release"], found["error"], *("-" for _ in names), "-"))
            continue
        cells = (str(found["bound"].get(n, "(not there)")) for n in names)
        naive = ", ".join(f"{k}={v}" for k, v in found["naive"].items())
        rows.append((found["release"], found["adapter"], *cells, naive))
    print(table(rows))
    return all(found.get("ok") for found in results)
