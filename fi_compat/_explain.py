"""Says in words what the resolver chose; see ``fi_compat.explain``."""

from __future__ import annotations

import difflib

from . import _installed, _resolver, _table
from ._prepare import STABLE
from .errors import FiCompatError

__all__ = ["explain", "matrix"]


def explain(name: str) -> str:
    """Explain an upstream or a stable function."""
    if name in _resolver.UPSTREAMS:
        return "\n".join(_upstream(name))
    if name in STABLE:
        return "\n".join(_function(name))
    known = [*_resolver.UPSTREAMS, *STABLE]
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    raise ValueError(f"explain: no upstream or stable function {name!r}; known are {', '.join(close or known)}")


def _upstream(name: str) -> list[str]:
    try:
        selection = _resolver.active(name)
    except FiCompatError as error:
        return [f"{name}: {type(error).__name__}: {error}"]
    lines = [
        f"{name} {selection.variant or selection.version} at {selection.root or 'nowhere (plain torch)'}",
        f"  adapter   fi_compat.adapters.{selection.adapter}, chosen by {selection.how}",
    ]
    if selection.owner:
        lines.append(f"  owner     {selection.owner}")
    if selection.triton_range:
        lines.append(f"  triton    imports on {selection.triton_range}")
    lines.extend(f"  {'took' if v.accepted else 'rejected':9} {v.candidate}: {v.reason}" for v in selection.trace)
    return lines


def _end(name: str) -> tuple[str, str, tuple[str, ...]]:
    """Return the module and the name that a stable function ends in, and the files that may define it."""
    if name in {"merge_state", "merge_states"}:
        return "flashinfer", name, ("cascade.py",)
    if name == "trtllm_batch_decode_with_kv_cache_mla":
        return "flashinfer.mla", name, ("mla/_core.py",)
    if name in {"create_allreduce_fusion_workspace", "allreduce_fusion"}:
        return "flashinfer.comm", name, ("comm/allreduce.py",)
    if name == "maybe_get_cached_w3_w1_permute_indices":
        return "flashinfer.fused_moe.core", f"_{name}", ("fused_moe/core.py",)
    if "moe" in name or "permute" in name:
        return "flashinfer.fused_moe", name, ("fused_moe/core.py", "fused_moe/prepare.py")
    return "flashinfer", name, ("quantization/fp4_quantization.py", "quantization/fp8_quantization.py")


def _function(name: str) -> list[str]:
    upstream = STABLE[name]
    lines = [f"{name} is served by {upstream}"]
    try:
        selection = _resolver.active(upstream)
    except FiCompatError as error:
        return [*lines, f"  {type(error).__name__}: {error}"]
    lines.append(f"  {upstream} {selection.variant or selection.version}, adapter {selection.adapter} ({selection.how})")
    if upstream == "flashinfer":
        module, target, files = _end(name)
        for file in files:
            try:
                found = _installed.function_parameters(_installed.read_text(f"{selection.root}/{file}"), target)
            except OSError:
                continue
            if found:
                lines.append(f"  ends in {module}.{target}({', '.join(found)})")
                break
    else:
        target = {"triton_kernels_3_5_1": "triton_kernels.routing", "reference": "fi_compat's plain torch"}.get(
            selection.adapter, "triton_kernels.topk.topk and make_ragged_tensor_metadata"
        )
        lines.append(f"  ends in {target}")
    lacking = [f for f, known in _table.FEATURES.items() if f.startswith(f"{name}.") and known.upstream == upstream]
    from ._features import has

    for feature in lacking:
        intervals = " or ".join(_table.FEATURES[feature].intervals).replace(".dev0", "")
        lines.append(f"  {feature.partition('.')[2]}: {'yes' if has(feature) else f'not in this release (needs {intervals})'}")
    return lines


def matrix() -> list[tuple[str, str, str, str]]:
    """Return ``(upstream, release or tree, generation or range, adapter)`` for everything that is tested."""
    rows = [
        (
            "flashinfer",
            release,
            next(r.spec for r in _table.FLASHINFER_ROWS if r.adapter == _resolver.adapter_for("flashinfer", release)),
            _resolver.adapter_for("flashinfer", release),
        )
        for release in _table.FLASHINFER_RELEASES
    ]
    rows += [
        ("triton_kernels", f"{t.distribution} {t.version}", t.variant, _resolver.adapter_for("triton_kernels", t.variant))
        for t in _table.TREES
    ]
    return rows
