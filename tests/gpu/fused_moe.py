"""Fused MoE and merging on an H200, release by release, against plain torch in float64.

``python fused_moe.py OUT.json RELEASE=FOLDER...``: each release in a process of its own, first on sys.path. The cutlass
module is compiled by FlashInfer's own JIT, minutes a release; ``--build`` does only that, for all releases at once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TOKENS, EXPERTS, SLOTS, HIDDEN, INTER = (1, 64, 300), 8, 2, 512, 512


def relative(found: Any, expected: Any) -> float:
    """Relative Frobenius error."""
    return float((found.double() - expected.double()).norm() / expected.double().norm())


def layer(x: Any, ids: Any, weights: Any, fc1: Any, fc2: Any) -> Any:
    """Swiglu MoE in float64: rows of up before those of gate."""
    import torch

    out = torch.zeros(x.shape, dtype=torch.float64, device=x.device)
    for expert in range(fc1.shape[0]):
        for slot in range(ids.shape[1]):
            rows = ids[:, slot] == expert
            if rows.any():
                up, gate = (x[rows].double() @ fc1[expert].double().T).chunk(2, dim=-1)
                y = (torch.nn.functional.silu(gate) * up) @ fc2[expert].double().T
                out[rows] += weights[rows, slot, None].double() * y
    return out


def routed(tokens: int, generator: Any) -> tuple[Any, Any]:
    """Two different experts per token, and weights."""
    import torch

    ids = torch.stack([torch.randperm(EXPERTS, generator=generator, device="cuda")[:SLOTS] for _ in range(tokens)]).to(torch.int32)
    return ids, torch.rand(tokens, SLOTS, generator=generator, device="cuda")


def cutlass_bf16(report: dict[str, Any]) -> None:
    """Plain bfloat16 weights, poisoned output."""
    import torch

    from fi_compat import fused_moe

    g = torch.Generator("cuda").manual_seed(0)
    fc1 = torch.randn(EXPERTS, 2 * INTER, HIDDEN, generator=g, device="cuda", dtype=torch.bfloat16) / HIDDEN**0.5
    fc2 = torch.randn(EXPERTS, HIDDEN, INTER, generator=g, device="cuda", dtype=torch.bfloat16) / INTER**0.5
    for tokens in TOKENS:
        x = torch.randn(tokens, HIDDEN, generator=g, device="cuda", dtype=torch.bfloat16)
        ids, weights = routed(tokens, g)
        output = torch.full((tokens, HIDDEN), float("nan"), dtype=torch.bfloat16, device="cuda")
        found = fused_moe.cutlass_fused_moe(
            input=x, token_selected_experts=ids, token_final_scales=weights, fc1_expert_weights=fc1, fc2_expert_weights=fc2,
            output_dtype=torch.bfloat16, quant_scales=[], output=output,
        )  # fmt: skip
        assert isinstance(found, torch.Tensor)
        assert found.data_ptr() == output.data_ptr()
        report[f"cutlass bf16, {tokens} tokens"] = relative(found, layer(x, ids, weights, fc1, fc2))


def dequantized(codes: Any, scales: Any) -> Any:
    """MXFP4 codes, low nibble first, and e8m0 scales as float64."""
    import torch

    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64, device=codes.device)
    wide = torch.stack([values[(codes & 15).long()], values[(codes >> 4).long()]], -1).flatten(-2)
    return wide * torch.exp2(scales.double() - 127).repeat_interleave(32, -1)


def mixed_input(report: dict[str, Any]) -> None:
    """MXFP4 weights with bfloat16 activations, interleaved by the installed release's helpers."""
    import torch

    import fi_compat
    from fi_compat import errors, fused_moe

    g = torch.Generator("cuda").manual_seed(1)

    def weights(rows: int, columns: int) -> tuple[Any, Any]:
        codes = torch.randint(0, 256, (EXPERTS, rows, columns // 2), generator=g, device="cuda", dtype=torch.uint8)
        return codes, torch.randint(118, 123, (EXPERTS, rows, columns // 32), generator=g, device="cuda", dtype=torch.uint8)

    (fc1, s1), (fc2, s2) = weights(2 * INTER, HIDDEN), weights(HIDDEN, INTER)
    if not fi_compat.has("fused_moe.sm90_mixed_gemm"):
        try:
            fused_moe.interleave_moe_scales_for_sm90_mixed_gemm(s1)
        except errors.UnsupportedFeatureError as error:
            report["SM90 mixed input"] = f"refused: {error}"
        return
    scales = [fused_moe.interleave_moe_scales_for_sm90_mixed_gemm(s) for s in (s1, s2)]
    report["SM90 scale layout"] = fused_moe.sm90_scale_layout(scales[0])
    packed = [fused_moe.interleave_moe_weights_for_sm90_mixed_gemm(w) for w in (fc1, fc2)]
    reference = dequantized(fc1, s1), dequantized(fc2, s2)
    for tokens in TOKENS:
        x = torch.randn(tokens, HIDDEN, generator=g, device="cuda", dtype=torch.bfloat16)
        ids, gates = routed(tokens, g)
        call = {
            "input": x, "token_selected_experts": ids, "token_final_scales": gates, "fc1_expert_weights": packed[0],
            "fc2_expert_weights": packed[1], "output_dtype": torch.bfloat16, "use_w4_group_scaling": True,
            "output": torch.full((tokens, HIDDEN), float("nan"), dtype=torch.bfloat16, device="cuda"),
        }  # fmt: skip
        found = fused_moe.cutlass_fused_moe(**call, quant_scales=[s.view(torch.int32) for s in scales])
        report[f"SM90 mixed input, {tokens} tokens"] = relative(found, layer(x, ids, gates, *reference))
    other = torch.zeros(EXPERTS, 2, 4, 16, 4, dtype=torch.int32, device="cuda") if scales[0].ndim == 3 else s1.view(torch.int32)
    try:
        fused_moe.cutlass_fused_moe(**call, quant_scales=[other, other])
        report["another release's layout"] = "TAKEN"
    except ValueError as error:
        report["another release's layout"] = f"refused: {error}"


def merging(report: dict[str, Any]) -> None:
    """merge_state and merge_states in both bases."""
    import torch

    from fi_compat import mla

    g = torch.Generator("cuda").manual_seed(2)
    v = torch.randn(33, 2, 8, 128, generator=g, device="cuda", dtype=torch.float16)
    s = torch.randn(33, 2, 8, generator=g, device="cuda") * 3
    for base in ("base2", "basee"):
        exp, log = (torch.exp2, torch.log2) if base == "base2" else (torch.exp, torch.log)
        total = exp(s.double()).sum(1)
        expected = (v.double() * exp(s.double())[..., None]).sum(1) / total[..., None], log(total)
        for name, found in (
            (
                "merge_state",
                mla.merge_state(v[:, 0].contiguous(), s[:, 0].contiguous(), v[:, 1].contiguous(), s[:, 1].contiguous(), lse_base=base),
            ),
            ("merge_states", mla.merge_states(v, s, lse_base=base)),
        ):
            report[f"{name}, {base}"] = [relative(a, b) for a, b in zip(found, expected, strict=True)]


def child(release: str) -> None:
    """Run all on one release and print a JSON line."""
    import flashinfer
    import torch

    import fi_compat

    assert flashinfer.__version__ == release, (flashinfer.__version__, release)
    report: dict[str, Any] = {"adapter": fi_compat.active("flashinfer").adapter, "torch": torch.__version__}
    chosen = os.environ.get("FI_COMPAT_PARTS", "merging,cutlass_bf16,mixed_input").split(",")
    for part in [p for p in (merging, cutlass_bf16, mixed_input) if p.__name__ in chosen]:
        start = time.monotonic()
        try:
            part(report)
            torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001 - one part's failure is a row, not the end
            report[part.__name__] = f"{type(error).__name__}: {str(error)[:600]}"
        report[f"seconds, {part.__name__}"] = round(time.monotonic() - start, 1)
    print("REPORT " + json.dumps(report), flush=True)


def build() -> None:
    """Compile the cutlass module; nothing is run."""
    from flashinfer.jit.fused_moe import gen_cutlass_fused_moe_sm90_module

    start = time.monotonic()
    gen_cutlass_fused_moe_sm90_module(False).build(verbose=False) if hasattr(
        gen_cutlass_fused_moe_sm90_module(False), "build"
    ) else gen_cutlass_fused_moe_sm90_module(False).build_and_load()
    print(f"BUILT in {time.monotonic() - start:.0f} s", flush=True)


def main() -> None:
    """Start one process per release."""
    arguments = sys.argv[1:]
    if arguments[0] == "--child":
        child(arguments[1])
        return
    if arguments[0] == "--build-child":
        build()
        return
    only_build = arguments[0] == "--build"
    out, *pairs = arguments[1:] if only_build else arguments
    releases = dict(p.partition("=")[::2] for p in (pairs if not only_build else [out, *pairs]))
    processes, results = {}, {}
    for release, folder in releases.items():
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, str(ROOT), os.environ.get("PYTHONPATH", "")])}
        environment |= {"FLASHINFER_WORKSPACE_BASE": f"/tmp/fi_jit_{release}", "FLASHINFER_CUDA_ARCH_LIST": "9.0a"}
        command = [sys.executable, __file__, *(["--build-child"] if only_build else ["--child", release])]
        processes[release] = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if not only_build:
            processes[release].wait()
    for release, process in processes.items():
        text = process.communicate()[0]
        print(f"== {release}: exit {process.returncode}\n{text[-1500:]}", flush=True)
        line = next((line for line in text.splitlines() if line.startswith("REPORT ")), None)
        results[release] = json.loads(line[7:]) if line else {"failed": text[-800:]}
    if not only_build:
        Path(out).write_text(json.dumps({"date": time.strftime("%Y-%m-%d"), "releases": results}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
