"""The doctor's checks: each a small function from facts to findings, with an id, evidence and one remedy line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from . import _table
from ._doctor_finding import Finding, flashinfer_version, holds, public, version_of
from ._doctor_wheels import companion_remedy, companions, cuda_segment, variables
from ._selection import Selection
from .errors import FiCompatError, UpstreamNotInstalledError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ._doctor_facts import Facts

__all__ = ["CHECKS"]


def upstream_flashinfer(facts: Facts) -> Iterator[Finding]:
    """Say which adapter serves FlashInfer, or why none can."""
    yield from _upstream("flashinfer", facts.flashinfer_selection)


def upstream_triton_kernels(facts: Facts) -> Iterator[Finding]:
    """Say which adapter serves triton_kernels, who owns it, or why none can."""
    yield from _upstream("triton_kernels", facts.triton_kernels_selection)
    found = facts.triton_kernels
    if found is not None and found.root and isinstance(facts.triton_kernels_selection, Selection):
        if not found.owners and found.via == "sys.path":
            yield Finding(
                "triton_kernels.owner",
                "info",
                "no distribution lists this tree: pip can neither upgrade nor remove it",
                (("root", found.root),),
            )
        if any(o.name == _table.UNRELATED_TRITON_KERNELS for o in found.owners) and len(found.owners) > 1:
            yield Finding(
                "triton_kernels.unrelated",
                "warning",
                "the unrelated distribution triton-kernels shares __init__.py with this tree: it works, and uninstalling triton-kernels takes that"
                " file away",
                tuple((o.name, o.version) for o in found.owners),
                "pip uninstall -y triton-kernels",
            )


def _upstream(name: str, selection: Selection | FiCompatError | None) -> Iterator[Finding]:
    if isinstance(selection, Selection):
        guess = selection.how != "version" and name == "flashinfer"
        owner = f", from {selection.owner}" if selection.owner else ""
        yield Finding(
            f"{name}.adapter",
            "warning" if guess else "ok",
            f"{name} {selection.variant or selection.version}{owner}: adapter {selection.adapter}, chosen by {selection.how}",
            (("root", selection.root), *(("trace", f"{v.candidate}: {v.reason}") for v in selection.trace if v.accepted)),
            "run the contract suite on this release before relying on it: nox -s newest" if guess else "",
        )
    elif isinstance(selection, UpstreamNotInstalledError):
        yield Finding(f"{name}.adapter", "info", f"{name} is not installed", (), _remedy(str(selection)))
    elif isinstance(selection, FiCompatError):
        yield Finding(f"{name}.adapter", "error", str(selection), ((type(selection).__name__, name),), _remedy(str(selection)))


def _remedy(message: str) -> str:
    """Return the pip line that a typed error ends in."""
    match = re.search(r"(?:pip (?:install|uninstall) .*)$", message)
    return match.group(0) if match else ""


def overrides(facts: Facts) -> Iterator[Finding]:
    """Name fi_compat's own overrides that are set."""
    for name in ("FI_COMPAT_FLASHINFER_ADAPTER", "FI_COMPAT_TRITON_KERNELS_ADAPTER"):
        value = facts.environment.get(name)
        if value:
            yield Finding(
                f"environment.{name}",
                "warning",
                f"{name}={value} chooses the adapter, not what is installed",
                ((name, value),),
                f"unset {name}",
            )


def pairing(facts: Facts) -> Iterator[Finding]:
    """Compare triton with the triton_kernels tree."""
    selection = facts.triton_kernels_selection
    triton = facts.versions.get("triton")
    if not isinstance(selection, Selection) or selection.adapter == "reference":
        return
    evidence = (("triton_kernels", f"{selection.variant} at {selection.root}"), ("triton", triton or "not installed"))
    if triton is None:
        yield Finding(
            "triton.pair", "error", "triton_kernels is there and triton is not", evidence, f"pip install 'triton{selection.triton_range}'"
        )
        return
    for pair in _table.PAIRINGS:
        if selection.variant in pair.variants and holds(triton, pair.triton):
            yield Finding(f"triton.pair.{pair.id}", pair.severity, pair.message, evidence, pair.remedy)
            return
    if not holds(triton, selection.triton_range):
        yield Finding(
            "triton.pair",
            "error",
            f"a {selection.variant} tree does not import on triton {triton}: it needs {selection.triton_range}",
            evidence,
            f"pip install 'triton{selection.triton_range}' (with the torch that pins it), or a kernel wheel whose tree goes with triton {triton}",
        )
        return
    yield Finding("triton.pair", "ok", f"triton {triton} imports a {selection.variant} tree", evidence)


def copies(facts: Facts) -> Iterator[Finding]:
    """Name packages of which two copies are on sys.path, and the one that wins."""
    for name, found in facts.copies.items():
        if len(found) > 1:
            yield Finding(
                f"{name}.copies",
                "warning",
                f"{len(found)} copies of {name} are on sys.path; the first wins",
                tuple((name, p) for p in found),
                f"remove all but one: {', '.join(found[1:])} {'is' if len(found) == 2 else 'are'} never imported",
            )
    for name in ("flashinfer-python", "apache-tvm-ffi", "triton", "torch"):
        if name in facts.duplicates:
            yield Finding(
                f"{name}.distributions",
                "warning",
                f"{name} is recorded more than once; the first counts",
                tuple((name, p) for p in facts.duplicates[name]),
                f"pip uninstall -y {name} until none is left, then install it once",
            )


def known_issues(facts: Facts) -> Iterator[Finding]:
    """Name releases that are known to be bad, by release, Python and compute capability."""
    python = ".".join(map(str, facts.python))
    for issue in _table.KNOWN_ISSUES:
        version = version_of(facts, issue.distribution)
        if not holds(version, issue.spec) or (issue.python and not holds(python, issue.python)):
            continue
        if issue.with_distribution and not holds(facts.versions.get(issue.with_distribution), issue.with_spec):
            continue
        if issue.capability and not any(gpu.capability[0] in issue.capability for gpu in facts.gpus):
            continue
        yield Finding(
            f"known.{issue.id}", issue.severity, issue.message, ((issue.distribution, str(version)), ("python", python)), issue.remedy
        )


def _unmet(facts: Facts, distribution: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield ``(name, specifier, installed version, requirement)`` for each requirement that what is installed does not satisfy."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    for text in facts.requires.get(distribution, []):
        try:
            wanted = Requirement(text)
        except InvalidRequirement:
            continue
        name, spec = canonicalize_name(wanted.name), str(wanted.specifier)
        found = facts.versions.get(name)
        if found is None or not spec or (wanted.marker is not None and not wanted.marker.evaluate({"extra": ""})):
            continue
        if not holds(found, spec):
            yield name, spec, found, text


def floors(facts: Facts) -> Iterator[Finding]:
    """Compare dependencies with the installed metadata's floors and with the real ones."""
    for name, spec, found, text in _unmet(facts, "flashinfer-python"):
        yield Finding(
            f"{name}.floor",
            "warning",
            f"{name} {found} is not what flashinfer-python asks for: {spec}",
            ((name, found), ("flashinfer-python", text)),
            f"pip install '{name}{spec}'",
        )
    for floor in _table.FLOORS:
        has, when = facts.versions.get(floor.distribution), version_of(facts, floor.when_distribution)
        if has is not None and holds(when, floor.when_spec) and not holds(has, floor.spec):
            yield Finding(
                f"{floor.distribution}.{floor.id}",
                floor.severity,
                floor.message,
                ((floor.distribution, has), (floor.when_distribution, str(when))),
                f"pip install '{floor.distribution}{floor.spec}'",
            )
    libs = {n: v for n, v in facts.versions.items() if n.startswith("nvidia-cutlass-dsl")}
    if len(set(map(public, libs.values()))) > 1:
        newest = libs.get("nvidia-cutlass-dsl", next(iter(libs.values())))
        yield Finding(
            "nvidia-cutlass-dsl.libs",
            "error",
            "nvidia-cutlass-dsl and its library wheels are of different versions: the libs overlay is mixed",
            tuple(sorted(libs.items())),
            f"pip install --force-reinstall nvidia-cutlass-dsl=={newest}",
        )


def compilers(facts: Facts) -> Iterator[Finding]:
    """Look for nvcc and ninja where there is no flashinfer-jit-cache."""
    version = flashinfer_version(facts)
    if version is None or "flashinfer-jit-cache" in facts.versions:
        return
    missing = [name for name in ("nvcc", "ninja") if not facts.tools.get(name)]
    if missing:
        yield Finding(
            "flashinfer.jit",
            "warning",
            f"no flashinfer-jit-cache, and no {' or '.join(missing)} to compile kernels with at the first call",
            tuple((name, str(facts.tools.get(name))) for name in ("nvcc", "ninja")),
            f"{companion_remedy('flashinfer-jit-cache', version, facts).split(', or ')[0]}"
            + (", or pip install ninja" if missing == ["ninja"] else ""),
        )
    else:
        yield Finding(
            "flashinfer.jit", "info", "no flashinfer-jit-cache: kernels are compiled at the first call (13 s to over 300 s a module)"
        )


def devices(facts: Facts) -> Iterator[Finding]:
    """Compare the GPUs with what the stable functions need."""
    if facts.gpus:
        gpu = facts.gpus[0]
        major, minor = gpu.capability
        evidence = ((gpu.name, f"{major}.{minor} by {gpu.via}"),)
        if gpu.capability < (10, 0) and flashinfer_version(facts) is not None:
            yield Finding(
                "gpu.fp4",
                "info",
                f"{gpu.name} ({major}.{minor}): fp4_quantize and its siblings need compute capability 10.0, and are refused here",
                evidence,
                "backend='reference' is plain torch",
            )
        elif (
            major == 12
            and isinstance(facts.triton_kernels_selection, Selection)
            and facts.triton_kernels_selection.version in {"3.6", "3.8"}
        ):
            yield Finding(
                "gpu.sm120-warps",
                "info",
                f"{gpu.name} ({major}.{minor}): MXFP4 matmuls of this tree use 1 warp without patch_sm120_min_warps()",
                evidence,
                "fi_compat.patch_sm120_min_warps()",
            )
        else:
            yield Finding("gpu.capability", "ok", f"{gpu.name}: compute capability {major}.{minor}", evidence)
    if len({g.capability for g in facts.gpus}) > 1:
        yield Finding(
            "gpu.mixed",
            "warning",
            "devices of different compute capability: kernels compiled for the first are not those of the others",
            tuple((g.name, f"{g.capability[0]}.{g.capability[1]}") for g in facts.gpus),
            "set CUDA_VISIBLE_DEVICES to devices of one kind",
        )


def engines(facts: Facts) -> Iterator[Finding]:
    """Compare installed engines' own pins with what is installed."""
    watched = {
        "flashinfer-python",
        "flashinfer-cubin",
        "flashinfer-jit-cache",
        "triton",
        "sglang-kernel",
        "sgl-kernel",
        "apache-tvm-ffi",
        "torch",
    }
    for engine in ("vllm", "sglang"):
        for name, spec, found, text in _unmet(facts, engine):
            if name in watched:
                yield Finding(
                    f"{engine}.pin.{name}",
                    "warning",
                    f"{engine} {facts.versions.get(engine)} asks for {name}{spec}, found {found}",
                    ((engine, text), (name, found)),
                    f"pip install '{name}{spec}'",
                )


def collect_env(facts: Facts) -> Iterator[Finding]:
    """Name FlashInfer's own report of hardware and library versions, where the release has it; nothing of it is repeated here."""
    if facts.tools.get("collect_env"):
        yield Finding(
            "flashinfer.collect-env",
            "info",
            "hardware and library versions in full, for a report to FlashInfer: python -m flashinfer.collect_env",
        )


def probes(facts: Facts) -> Iterator[Finding]:
    """Report parts of the examination that failed; the rest of the report stands."""
    for problem in facts.problems:
        yield Finding(
            "doctor.probe", "warning", f"a part of the examination failed: {problem}", (), "report this with the output of --json --share"
        )


CHECKS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    upstream_flashinfer,
    companions,
    cuda_segment,
    variables,
    overrides,
    upstream_triton_kernels,
    pairing,
    copies,
    known_issues,
    floors,
    compilers,
    devices,
    engines,
    collect_env,
    probes,
)
