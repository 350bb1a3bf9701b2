"""The doctor's checks of FlashInfer's companion wheels, CUDA versions and environment variables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from . import _table
from ._doctor_finding import Finding, flashinfer_version, holds, public
from ._resolver import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._doctor_facts import Facts

__all__ = ["companion_remedy", "companions", "cuda_segment", "variables"]


def companions(facts: Facts) -> Iterator[Finding]:
    """Compare flashinfer-cubin and flashinfer-jit-cache with flashinfer-python, by PEP 440 public version."""
    version = flashinfer_version(facts)
    if version is None or parse(version) is None:
        return
    regime = next((r for r in _table.COMPANION_REGIMES if holds(version, r.spec)), None)
    bypass = facts.environment.get("FLASHINFER_DISABLE_VERSION_CHECK", "")
    mismatch = False
    for name, does in (("flashinfer-cubin", regime.cubin if regime else ""), ("flashinfer-jit-cache", regime.jit_cache if regime else "")):
        found = facts.versions.get(name)
        if found is None:
            continue
        evidence = (("flashinfer-python", version), (facts.paths.get(name, name), found))
        if public(found) == public(version):
            yield Finding(f"{name}.version", "ok", f"{name} {found} goes with flashinfer-python {version}", evidence)
            continue
        mismatch = True
        accepted = name == "flashinfer-jit-cache" and regime is not None and regime.prefix_comparison and found.startswith(version)
        if accepted:
            message = (
                f"{name} {found} is not of flashinfer-python {version}, and FlashInfer accepts it, since it compares by prefix: another ABI"
            )
        else:
            message = f"{name} {found} is not of flashinfer-python {version}: FlashInfer {does}"
        ignored = does.startswith("is ignored")
        yield Finding(f"{name}.version", "warning" if ignored else "error", message, evidence, companion_remedy(name, version, facts))
    if bypass:
        text = f"FLASHINFER_DISABLE_VERSION_CHECK={bypass} switches FlashInfer's own check off (any value does, 0 too)"
        if mismatch:
            yield Finding(
                "flashinfer.version-check",
                "error",
                f"{text}, and a companion wheel is of another release: kernels of another ABI are loaded",
                (("FLASHINFER_DISABLE_VERSION_CHECK", bypass),),
                "unset FLASHINFER_DISABLE_VERSION_CHECK, and mend the companion wheel above",
            )
        else:
            yield Finding(
                "flashinfer.version-check",
                "warning",
                f"{text}, and there is nothing to bypass",
                (("FLASHINFER_DISABLE_VERSION_CHECK", bypass),),
                "unset FLASHINFER_DISABLE_VERSION_CHECK",
            )


def companion_remedy(name: str, version: str, facts: Facts) -> str:
    """Return the pip line for a companion wheel, with upstream's index where PyPI does not have it."""
    base = public(version)
    if name == "flashinfer-jit-cache":
        cuda = (facts.torch_cuda or "13.0").replace(".", "")
        return f"pip install --extra-index-url {_table.FLASHINFER_INDEX}/cu{cuda} {name}=={base}+cu{cuda}, or pip uninstall -y {name}"
    if holds(version, f">={_table.CUBIN_LEFT_PYPI}.dev0"):
        return f"pip install --extra-index-url {_table.FLASHINFER_INDEX} {name}=={base} (not on PyPI since {_table.CUBIN_LEFT_PYPI}), or pip uninstall -y {name}"
    return f"pip install {name}=={base}"


def cuda_segment(facts: Facts) -> Iterator[Finding]:
    """Compare jit-cache's local segment (+cu130) with torch's CUDA."""
    found = facts.versions.get("flashinfer-jit-cache", "")
    match = re.search(r"\+cu(\d+)", found)
    if match is None or facts.torch_cuda is None:
        return
    wanted = facts.torch_cuda.replace(".", "")
    if match.group(1)[:2] != wanted[:2]:
        severity, text = "error", "another major version: its libraries do not load"
    elif match.group(1) != wanted:
        severity, text = "warning", "kernels built for another minor version are used"
    else:
        return
    version = flashinfer_version(facts) or found
    yield Finding(
        "flashinfer-jit-cache.cuda",
        severity,
        f"flashinfer-jit-cache {found} beside a torch of CUDA {facts.torch_cuda}: {text}",
        (("flashinfer-jit-cache", found), ("torch CUDA", facts.torch_cuda)),
        companion_remedy("flashinfer-jit-cache", version, facts),
    )


def variables(facts: Facts) -> Iterator[Finding]:
    """Name FlashInfer's variables that change numerics or start-up."""
    version = flashinfer_version(facts)
    for name, meaning in _table.NUMERIC_VARIABLES.items():
        value = facts.environment.get(name)
        if value is None:
            continue
        refused = name in _table.FOUR_OVER_SIX_VARIABLES and value == "1" and holds(version, _table.FOUR_OVER_SIX_RELEASES)
        yield Finding(
            f"environment.{name}",
            "error" if refused else "warning",
            f"{name}={value}: {meaning}"
            + (", and fi_compat refuses fp4_quantize: this release cannot be told otherwise" if refused else ""),
            ((name, value),),
            f"unset {name}",
        )
    directory = facts.environment.get("FLASHINFER_CUBIN_DIR")
    if directory and "flashinfer-cubin" in facts.versions:
        first = "the variable" if holds(version, _table.CUBIN_DIR_WINS) else "the package"
        yield Finding(
            "environment.FLASHINFER_CUBIN_DIR",
            "warning",
            f"FLASHINFER_CUBIN_DIR and flashinfer-cubin are both there; on this release {first} counts",
            (("FLASHINFER_CUBIN_DIR", directory),),
            "unset FLASHINFER_CUBIN_DIR, or pip uninstall -y flashinfer-cubin",
        )
