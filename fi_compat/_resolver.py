"""Chooses the adapter: ``select`` is pure, ``active`` gathers the facts once and keeps the answer."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, NoReturn

from . import _table
from ._selection import FlashInferFacts, Owner, Selection, TritonKernelsFacts, Verdict
from .errors import (
    ConfigurationError,
    IncompatibleUpstreamError,
    UnknownUpstreamError,
    UpstreamNotInstalledError,
)

if TYPE_CHECKING:
    from packaging.version import Version

    from ._selection import Problem

__all__ = ["UPSTREAMS", "active", "adapter_for", "holds", "parse", "reset", "select"]

_log = logging.getLogger(__name__)

UPSTREAMS = ("flashinfer", "triton_kernels")
_NEWEST_FIRST = _table.FLASHINFER_ROWS[::-1]
_PIP_FLASHINFER = f"pip install 'flashinfer-python>={_table.FLASHINFER_RELEASES[0]}'"
_PIP_TRITON_KERNELS = "pip install --no-deps sglang-kernel (or tokenspeed-triton-kernels), or import vllm, which vendors it"

_lock = threading.RLock()
_selected: dict[str, Selection] = {}


def select(upstream: str, facts: FlashInferFacts | TritonKernelsFacts) -> Selection:
    """Choose the adapter for an upstream from facts alone; nothing is read or imported.

    Parameters
    ----------
    upstream : {"flashinfer", "triton_kernels"}
        Which upstream the facts are about.
    facts : FlashInferFacts or TritonKernelsFacts
        What is installed.

    Returns
    -------
    Selection
        The adapter, how it was chosen, and a trace of all candidates.

    Raises
    ------
    UpstreamNotInstalledError
        Nothing of that name is installed.
    IncompatibleUpstreamError
        It is too old, broken, mixed of two trees, or an unrelated project.
    UnknownUpstreamError
        It cannot be recognised, or is newer than tested while ``FI_COMPAT_STRICT=1``.
    ConfigurationError
        An override names an adapter that does not exist.
    """
    if upstream == "flashinfer" and isinstance(facts, FlashInferFacts):
        return _select_flashinfer(facts)
    if upstream == "triton_kernels" and isinstance(facts, TritonKernelsFacts):
        return _select_triton_kernels(facts)
    raise ValueError(f"select() needs one of {UPSTREAMS} and the facts of that upstream; found {upstream!r} with {type(facts).__name__}")


def adapter_for(upstream: str, version: str) -> str:
    """Name the adapter that would serve a release of FlashInfer or a generation of triton_kernels.

    Parameters
    ----------
    upstream : {"flashinfer", "triton_kernels"}
        Which upstream.
    version : str
        A PEP 440 version ("0.6.17"), or a generation or variant ("3.6", "3.8-tokenspeed").

    Returns
    -------
    str
        Name of a module under ``fi_compat.adapters``.

    Raises
    ------
    IncompatibleUpstreamError
        The release is older than any adapter.
    UnknownUpstreamError
        There is no such version or generation.
    """
    if upstream == "flashinfer":
        parsed = parse(version)
        if parsed is None:
            raise UnknownUpstreamError(f"adapter_for: {version!r} is not a PEP 440 version; give a release such as '0.6.17'")
        row = _row_by_version(parsed)
        if row is None:
            _too_old(version, "")
        return row.adapter
    if upstream == "triton_kernels":
        for generation in _table.TRITON_KERNELS_ROWS:
            if version in {generation.generation, generation.variant}:
                return generation.adapter
        known = ", ".join(dict.fromkeys(r.variant for r in _table.TRITON_KERNELS_ROWS))
        raise UnknownUpstreamError(f"adapter_for: no generation {version!r} of triton_kernels; known are {known}")
    raise ValueError(f"adapter_for: upstream must be one of {UPSTREAMS}, found {upstream!r}")


def active(upstream: str) -> Selection:
    """Return the adapter that serves what is installed here. Imports no upstream.

    The answer is kept for the process; a failure is not, so that a later call can succeed.
    """
    found = _selected.get(upstream)
    if found is not None:
        return found
    if upstream not in UPSTREAMS:
        raise ValueError(f"active: upstream must be one of {UPSTREAMS}, found {upstream!r}")
    from . import _installed

    with _lock:
        found = _selected.get(upstream)
        if found is None:
            facts = _installed.flashinfer_facts() if upstream == "flashinfer" else _installed.triton_kernels_facts()
            found = select(upstream, facts)
            _report(found, facts)
            _selected[upstream] = found
    return found


def reset() -> None:
    """Forget what was resolved; the next call looks again. For tests and for the child of a fork."""
    _selected.clear()


def _report(selection: Selection, facts: FlashInferFacts | TritonKernelsFacts) -> None:
    for verdict in selection.trace:
        _log.debug("%s: %s %s: %s", selection.upstream, "took" if verdict.accepted else "rejected", verdict.candidate, verdict.reason)
    _log.info(
        "%s %s at %s: adapter %s by %s",
        selection.upstream,
        selection.variant or selection.version,
        selection.root,
        selection.adapter,
        selection.how,
    )
    guessed = selection.upstream == "flashinfer" and selection.how == "structure"
    if guessed or facts.override:
        _log.warning(
            "%s %s: adapter %s was chosen by %s, not by a tested release; run the contract suite before you rely on it",
            selection.upstream,
            selection.version,
            selection.adapter,
            selection.how,
        )


def parse(version: str) -> Version | None:
    """Parse a PEP 440 version, or return None."""
    from packaging.version import InvalidVersion, Version

    try:
        return Version(version)
    except InvalidVersion:
        return None


def holds(version: str | None, spec: str) -> bool:
    """Say whether a version is one and satisfies a specifier; pre-releases count, local segments are ignored."""
    from packaging.specifiers import SpecifierSet

    parsed = parse(version) if version else None
    return parsed is not None and SpecifierSet(spec).contains(parsed.public, prereleases=True)


def _row_by_version(version: Version) -> _table.FlashInferRow | None:
    return next((row for row in _NEWEST_FIRST if holds(version.public, row.spec)), None)


def _row_by_structure(marks: frozenset[tuple[str, str, str]], trace: list[Verdict]) -> _table.FlashInferRow | None:
    for row in _NEWEST_FIRST:
        missing = [mark for mark in row.marks if mark not in marks]
        if not missing:
            trace.append(Verdict(row.adapter, True, "its marks of structure are all there"))
            return row
        file, function, parameter = missing[0]
        trace.append(Verdict(row.adapter, False, f"{function} in {file} has no parameter {parameter}"))
    return None


def _broken(upstream: str, problem: Problem) -> NoReturn:
    raise IncompatibleUpstreamError(
        f"{upstream} is installed but broken: {problem.what}; needed is a complete installation: {problem.remedy}"
    )


def _too_old(version: str, root: str) -> NoReturn:
    oldest = _table.FLASHINFER_RELEASES[0]
    where = f" at {root}" if root else ""
    raise IncompatibleUpstreamError(
        f"FlashInfer {version}{where} is older than any adapter: found {version}, needed >={oldest}: pip install -U 'flashinfer-python>={oldest}'"
    )


def _select_flashinfer(facts: FlashInferFacts) -> Selection:
    trace: list[Verdict] = []
    version = facts.file_version or facts.dist_version
    if facts.root is None:
        if facts.problems:
            _broken("flashinfer", facts.problems[0])
        if facts.dist_version is not None:
            raise IncompatibleUpstreamError(
                f"flashinfer is installed but broken: the distribution flashinfer-python {facts.dist_version} is there and the folder"
                " flashinfer is not; needed is a complete installation: pip install --force-reinstall --no-deps"
                f" flashinfer-python=={facts.dist_version}"
            )
        raise UpstreamNotInstalledError(f"flashinfer is not installed: no such package on sys.path; needed is >=0.6.8: {_PIP_FLASHINFER}")
    if facts.problems:
        _broken("flashinfer", facts.problems[0])
    if facts.file_version and facts.dist_version and parse(facts.file_version) != parse(facts.dist_version):
        trace.append(
            Verdict(
                f"flashinfer-python {facts.dist_version}",
                False,
                f"shadowed by {facts.root}, whose _build_meta.py says {facts.file_version}; the file counts",
            )
        )
    if facts.via == "sys.modules":
        trace.append(Verdict(facts.root, True, "already in sys.modules"))

    def chosen(adapter: str, how: str) -> Selection:
        owner = f"flashinfer-python {facts.dist_version}" if facts.dist_version else ""
        return Selection("flashinfer", adapter, version or "0.0.0+unknown", "", how, facts.root or "", owner, "", tuple(trace))  # type: ignore[arg-type]

    if facts.override:
        known = [row.adapter for row in _table.FLASHINFER_ROWS]
        if facts.override not in known:
            raise ConfigurationError(
                f"FI_COMPAT_FLASHINFER_ADAPTER={facts.override!r} names no adapter; known are {', '.join(known)}: unset it or name one of these"
            )
        trace.append(Verdict(facts.override, True, "named by FI_COMPAT_FLASHINFER_ADAPTER"))
        return chosen(facts.override, "override")
    parsed = parse(version) if version else None
    if parsed is None and version is not None:
        trace.append(Verdict(version, False, "not a PEP 440 version"))
    newest = parse(_table.FLASHINFER_RELEASES[-1])
    assert newest is not None  # noqa: S101 - the table's own constant
    unknown = parsed is None or parsed.base_version == "0.0.0"
    tested = version in _table.FLASHINFER_RELEASES or (parsed is not None and parsed.public in _table.FLASHINFER_RELEASES)
    if not unknown and parsed is not None:
        row = _row_by_version(parsed)
        if row is None:
            _too_old(str(version), facts.root)
        newer = parsed.release > newest.release or (parsed.release == newest.release and parsed.is_postrelease)
        if not newer:
            missing = [m for m in row.marks if facts.marks is not None and m not in facts.marks]
            if tested or not missing:
                trace.extend(Verdict(r.adapter, False, f"{version} is not {r.spec}") for r in _NEWEST_FIRST if r is not row)
                trace.append(Verdict(row.adapter, True, f"{version} is {row.spec}"))
                return chosen(row.adapter, "version")
            trace.append(Verdict(row.adapter, False, f"{version} is {row.spec}, but {missing[0][1]} has no parameter {missing[0][2]}"))
        else:
            trace.append(Verdict(row.adapter, False, f"{version} is newer than the newest tested release, {newest}"))
            if facts.strict:
                raise UnknownUpstreamError(
                    f"FlashInfer {version} is newer than tested: found {version} at {facts.root}, tested up to {newest}, and FI_COMPAT_STRICT"
                    f" is set: pip install flashinfer-python=={newest}, or unset FI_COMPAT_STRICT"
                )
    else:
        trace.append(Verdict(version or "no version", False, "says nothing about the release; looking at the source"))
        if facts.strict:
            raise UnknownUpstreamError(
                f"FlashInfer at {facts.root} has no usable version: found {version}, needed a release up to {newest}, and FI_COMPAT_STRICT is"
                f" set: pip install flashinfer-python=={newest}, or unset FI_COMPAT_STRICT"
            )
    row = _row_by_structure(facts.marks or frozenset(), trace)
    if row is None:
        raise UnknownUpstreamError(
            f"FlashInfer at {facts.root} cannot be recognised: found version {version} and none of the known marks of structure, needed a"
            f" release from 0.6.8 on: {_PIP_FLASHINFER}"
        )
    return chosen(row.adapter, "structure")


def _reinstall(owners: tuple[Owner, ...], root: str) -> str:
    """Return the pip line that replaces a mixed or half-removed tree by one whole one."""
    names = [o.name for o in owners]
    real = [o for o in owners if o.name != _table.UNRELATED_TRITON_KERNELS]
    keep = max(real, key=lambda o: (o.matching, o.files), default=None)
    install = f"pip install --no-deps --force-reinstall {keep.name}=={keep.version}" if keep else _PIP_TRITON_KERNELS
    uninstall = f"pip uninstall -y {' '.join(names)}; " if names else ""
    return f"{uninstall}rm -r {root}; {install}"


def _select_triton_kernels(facts: TritonKernelsFacts) -> Selection:
    known = list(dict.fromkeys(row.adapter for row in _table.TRITON_KERNELS_ROWS))
    if facts.override and facts.override not in {*known, "reference"}:
        raise ConfigurationError(
            f"FI_COMPAT_TRITON_KERNELS_ADAPTER={facts.override!r} names no adapter; known are {', '.join([*known, 'reference'])}: unset it or"
            " name one of these"
        )
    if facts.override == "reference":
        verdict = Verdict("reference", True, "named by FI_COMPAT_TRITON_KERNELS_ADAPTER")
        return Selection("triton_kernels", "reference", "reference", "reference", "override", "", "", "", (verdict,))
    root = facts.root
    owners = ", ".join(f"{o.name} {o.version}" for o in facts.owners)
    if root is None:
        if facts.problems:
            _broken("triton_kernels", facts.problems[0])
        if facts.owners:
            raise IncompatibleUpstreamError(
                f"triton_kernels is installed but broken: {owners} lists it and the folder is gone; needed is a complete installation: pip"
                f" install --no-deps --force-reinstall {facts.owners[0].name}=={facts.owners[0].version}"
            )
        vendored = f"; {facts.vendored} is vLLM's own copy, which importing vllm aliases" if facts.vendored else ""
        raise UpstreamNotInstalledError(
            f"triton_kernels is not installed: no such package on sys.path{vendored}; needed is a tree of generation 3.4 to 3.8: {_PIP_TRITON_KERNELS}"
        )
    if facts.problems:
        _broken("triton_kernels", facts.problems[0])
    trace: list[Verdict] = []
    if facts.via == "sys.modules":
        trace.append(Verdict(root, True, "already in sys.modules: what the engine imported or aliased counts"))
    if facts.namespace:
        trace.append(Verdict(root, True, "no __init__.py: a namespace package, which works when the rest is whole"))
    if facts.topk_parameters is None:
        _no_topk(facts, root, owners)
    row = _match(facts, trace)
    if row is None:
        raise UnknownUpstreamError(
            f"triton_kernels at {root} is of no known generation: found topk({', '.join(facts.topk_parameters or ())}), needed a tree of generation"
            f" 3.4, 3.5.1, 3.6 or 3.8: {_PIP_TRITON_KERNELS}, or name an adapter in FI_COMPAT_TRITON_KERNELS_ADAPTER"
        )
    real = [o for o in facts.owners if o.name != _table.UNRELATED_TRITON_KERNELS]
    foreign = sorted(facts.files & set(row.foreign))
    # Two distributions that both match the disk to the byte are one tree owned twice, which works.
    if foreign or (len(real) > 1 and any(o.changed or o.gone for o in real)) or facts.unresolved:
        _mixed(facts, root, row, foreign, real)
    missing = [f for f in row.requires if f not in facts.files]
    if missing:
        raise IncompatibleUpstreamError(
            f"triton_kernels at {root} is half-uninstalled: found generation {row.variant} without {missing[0]} (and {len(missing) - 1} more),"
            f" needed is the whole tree: {_reinstall(facts.owners, root)}"
        )
    if len(facts.owners) > len(real) and real:
        trace.append(Verdict("triton-kernels (unrelated project)", False, "shares only __init__.py with this tree, which works beside it"))
    trace.append(Verdict(row.variant, True, f"topk({', '.join(facts.topk_parameters or ())}) and its marker files"))
    adapter, how = (facts.override, "override") if facts.override else (row.adapter, "structure")
    if facts.override:
        trace.append(Verdict(facts.override, True, "named by FI_COMPAT_TRITON_KERNELS_ADAPTER"))
    best = max(real, key=lambda o: (o.matching, o.files), default=None)
    owner = f"{best.name} {best.version}" if best else ""
    return Selection("triton_kernels", adapter, row.generation, row.variant, how, root, owner, row.triton_range, tuple(trace))  # type: ignore[arg-type]


def _no_topk(facts: TritonKernelsFacts, root: str, owners: str) -> NoReturn:
    if facts.files & set(_table.UNRELATED_MARKS):
        raise IncompatibleUpstreamError(
            f"triton_kernels at {root} is an unrelated project: found {owners or 'triton-kernels 0.1.0'} (add_vectors, rotary_embedding), needed"
            f" the Triton project's MoE kernels: pip uninstall -y triton-kernels; {_PIP_TRITON_KERNELS}"
        )
    left = ", ".join(sorted(f for f in facts.files if not f.startswith("text:"))[:3]) or "nothing that is known"
    raise IncompatibleUpstreamError(
        f"triton_kernels at {root} is left over from an uninstalled package: found {left} and no topk() in topk.py"
        f"{f' (listed by {owners})' if owners else ''}, needed is a whole tree: {_reinstall(facts.owners, root)}"
    )


def _mixed(facts: TritonKernelsFacts, root: str, row: _table.TritonKernelsRow, foreign: list[str], real: list[Owner]) -> NoReturn:
    if len(real) > 1:
        counts = "; ".join(f"{o.name} {o.version} owns {o.files} files, {o.changed} changed, {o.gone} gone" for o in real)
        found = f"two distributions write into it ({counts})"
    elif foreign:
        found = f"topk() of generation {row.variant} beside {', '.join(foreign)} of another"
    else:
        found = facts.unresolved[0]
    raise IncompatibleUpstreamError(
        f"triton_kernels at {root} is a mix of two trees: {found}; needed is one whole tree: {_reinstall(facts.owners, root)}"
    )


def _match(facts: TritonKernelsFacts, trace: list[Verdict]) -> _table.TritonKernelsRow | None:
    parameters = set(facts.topk_parameters or ())
    found = None
    for row in _table.TRITON_KERNELS_ROWS:
        lacking = [p for p in row.has_parameters if p not in parameters] or [m for m in row.marks if m not in facts.files]
        excess = [p for p in row.lacks_parameters if p in parameters] or [m for m in row.absent if m in facts.files]
        if lacking:
            trace.append(Verdict(row.variant, False, f"{lacking[0]} is missing"))
        elif excess:
            trace.append(Verdict(row.variant, False, f"{excess[0]} is there"))
        elif found is None:
            found = row
    return found
