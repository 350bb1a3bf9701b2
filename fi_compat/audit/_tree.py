"""Walks an engine's source, reads the files that matter, and judges what they call."""

from __future__ import annotations

import os
import re
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fi_compat import _resolver, _table
from fi_compat.contracts import contracts

from ._judge import judge
from ._sites import UPSTREAMS, FileSites, sites_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ._judge import Finding
    from ._scopes import Values
    from ._sites import Site

    Exports = dict[str, dict[str, Values]]

__all__ = ["Report", "analysed_sites", "audit", "flashinfer_releases", "triton_kernels_trees"]

#: A file larger than this is data, not an engine's code.
LARGEST: Final = 10_000_000
#: How many files may hand an upstream name on to each other.
HOPS: Final = 3
_WORTH_A_POOL: Final = 64
_LEFT_OUT: Final = frozenset({".git", ".hg", ".nox", ".tox", ".venv", "__pycache__", "node_modules", "build", "dist"})
_MENTIONS: Final = re.compile(b"|".join(u.encode() for u in UPSTREAMS))
_IMPORTS: Final = re.compile(rb"(?m)^[ \t]*(?:from|import)[ \t]+([^\n]*)")
_WORDS: Final = re.compile(rb"\w+")
_IGNORE: Final = re.compile(r"#\s*fi-compat:\s*ignore(?:\[([\w\-, ]+)\])?")


@dataclass
class Report:
    """What an audit found.

    Attributes
    ----------
    findings : list of Finding
        Sorted by file and line.
    releases : dict of str to tuple of str
        Upstream -> the releases that were asked about.
    files, sites : int
        Files that mention an upstream or import one that hands it on; references and calls in them.
    skipped : list of tuple of str and str
        Files that could not be analysed, and why.
    """

    findings: list[Finding] = field(default_factory=list)
    releases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    files: int = 0
    sites: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)


def flashinfer_releases(spec: str) -> tuple[str, ...]:
    """Return the recorded releases that a PEP 440 specifier admits.

    Raises
    ------
    ValueError
        It is no specifier, or admits none.
    """
    from packaging.specifiers import InvalidSpecifier

    recorded = contracts("flashinfer").releases
    try:
        found = tuple(r for r in recorded if spec.strip() and _resolver.holds(r, spec))
    except InvalidSpecifier:
        found = ()
    if not found:
        raise ValueError(
            f"audit: {spec!r} admits none of the recorded FlashInfer releases; needed something like '>=0.6.8,<=0.7.4' or '==0.6.17'"
        )
    return found


def triton_kernels_trees(generations: str) -> tuple[str, ...]:
    """Return the recorded trees of a comma-separated list of generations or variants.

    Raises
    ------
    ValueError
        One of them is none.
    """
    found: list[str] = []
    for wanted in (g.strip() for g in generations.split(",")):
        names = [t.name for t in _table.TREES if wanted in {t.name, t.generation, t.variant}]
        if not names:
            known = ", ".join(dict.fromkeys(t.variant for t in _table.TREES))
            raise ValueError(f"audit: no generation {wanted!r} of triton_kernels; known are {known}")
        found += [n for n in names if n not in found]
    return tuple(found)


def audit(path: str | Path, *, flashinfer: str = ">=0.6.8", triton_kernels: str = "") -> Report:
    """Say which upstream references and calls in a source tree break, or silently change, on which release.

    Parameters
    ----------
    path : str or Path
        A file, or a folder. Nothing in it is imported or run.
    flashinfer : str
        PEP 440 specifier of the releases to ask about; empty for none.
    triton_kernels : str
        Generations to ask about, comma-separated ("3.5.1,3.6"); empty for none.

    Returns
    -------
    Report
        Findings, and what was skipped.

    Raises
    ------
    ValueError
        The path does not exist, or a specifier admits nothing.
    """
    root = Path(path)
    if not root.exists():
        raise ValueError(f"audit: {root} does not exist")
    report = Report()
    if flashinfer or not triton_kernels:
        report.releases["flashinfer"] = flashinfer_releases(flashinfer)
    if triton_kernels:
        report.releases["triton_kernels"] = triton_kernels_trees(triton_kernels)
    for name, found, lines in _analysed(root, report):
        report.files += 1
        if found.problem:
            report.skipped.append((name, found.problem))
        report.sites += len(found.sites)
        for site in found.sites:
            upstream = site.dotted.partition(".")[0]
            if upstream not in report.releases:
                continue
            for finding in judge(site, name, upstream, report.releases[upstream]):
                if not _ignored(lines, site.line, site.end_line, finding.rule):
                    report.findings.append(finding)
    report.findings = _without_repeats(report.findings)
    return report


def analysed_sites(path: Path) -> list[Site]:
    """Return every reference and call in a source tree.

    Raises
    ------
    ValueError
        The path does not exist.
    """
    if not path.exists():
        raise ValueError(f"audit: {path} does not exist")
    return [site for _, found, _ in _analysed(path, Report()) for site in found.sites]


def _without_repeats(findings: list[Finding]) -> list[Finding]:
    """Sort, and drop a missing name that is only the beginning of a longer one on the same line."""
    missing: dict[tuple[str, int], set[str]] = {}
    for f in findings:
        if f.rule == "missing-name":
            missing.setdefault((f.file, f.line), set()).add(f.name)
    kept = [f for f in findings if f.rule != "missing-name" or not any(f.name.startswith(f"{n}.") for n in missing[f.file, f.line])]
    return sorted(set(kept), key=lambda f: (f.file, f.line, f.rule, f.name, f.message))


def _ignored(lines: Sequence[str], first: int, last: int, rule: str) -> bool:
    """Say whether a comment on any line of the site silences the rule."""
    for text in islice(lines, first - 1, max(first, last)):
        found = _IGNORE.search(text) if "fi-compat" in text else None
        if found and (found.group(1) is None or rule in {r.strip() for r in found.group(1).split(",")}):
            return True
    return False


def _files(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    for folder, folders, names in os.walk(root, followlinks=False):
        folders[:] = sorted(f for f in folders if f not in _LEFT_OUT)
        yield from (Path(folder) / n for n in sorted(names) if n.endswith(".py"))


def _module_of(file: Path, root: Path, known: dict[Path, tuple[str, ...]]) -> tuple[str, bool]:
    """Return the dotted name of a file, from the topmost folder that is a package, and whether it is a package itself."""
    package = file.stem == "__init__"
    return ".".join((*_package_of(file.parent, root, known), *(() if package else (file.stem,)))), package


def _package_of(folder: Path, root: Path, known: dict[Path, tuple[str, ...]]) -> tuple[str, ...]:
    found = known.get(folder)
    if found is None:
        inside = (folder / "__init__.py").exists() or (folder != root and root in folder.parents)
        found = known[folder] = (*_package_of(folder.parent, root, known), folder.name) if inside and folder != folder.parent else ()
    return found


def _read(file: Path, report: Report) -> bytes | None:
    try:
        if file.stat().st_size > LARGEST:
            report.skipped.append((str(file), f"is larger than {LARGEST} bytes"))
            return None
        return file.read_bytes()
    except OSError as error:
        report.skipped.append((str(file), f"cannot be read: {error.strerror}"))
        return None


def _analysed(root: Path, report: Report) -> Iterator[tuple[str, FileSites, list[str]]]:
    """Yield each file that matters with its sites: those that mention an upstream, then those that import one of them."""
    sources = {file: raw for file in _files(root) if (raw := _read(file, report)) is not None}
    mentioning = [file for file, raw in sources.items() if _MENTIONS.search(raw)]
    folders: dict[Path, tuple[str, ...]] = {}
    modules = {file: _module_of(file, root, folders) for file in sources}
    results: dict[Path, FileSites] = {}
    exported: Exports = {}
    imported: dict[Path, tuple[frozenset[bytes], bool]] = {}
    pending = mentioning
    for _ in range(HOPS + 1):
        batch = pending
        fresh: set[str] = set()
        for file, found in zip(batch, _parsed([(sources[f], *modules[f]) for f in batch], exported), strict=True):
            results[file] = found
            module = modules[file][0]
            if found.exports and exported.get(module) != found.exports:
                exported[module] = found.exports
                fresh.add(module)
        if not fresh:
            break
        # A file that imports one of those and has a name that it exports, or a star, may use it or hand it on.
        pairs = {tuple(p.encode() for p in (["", *m.split(".")])[-2:]) for m in fresh}
        names = b"|".join(sorted({re.escape(n.encode()) for m in fresh for n in exported[m]}))
        uses = re.compile(rb"\b(?:" + names + rb")\b|import[ \t]+\*")
        pending = []
        for file, raw in sources.items():
            if file not in imported:
                lines = _IMPORTS.findall(raw)
                imported[file] = frozenset(_WORDS.findall(b" ".join(lines))), any(line.startswith(b".") for line in lines)
            words, relative = imported[file]
            if any(last in words and (relative or not near or near in words) for near, last in pairs) and uses.search(raw):
                pending.append(file)
        if not pending:
            break
    for file in sorted(results):
        if results[file].sites or _MENTIONS.search(sources[file]):
            raw = sources[file]
            yield str(file), results[file], raw.decode("utf-8", "replace").splitlines() if b"fi-compat" in raw else []


def _parsed(jobs: list[tuple[bytes, str, bool]], exported: Exports) -> list[FileSites]:
    if len(jobs) < _WORTH_A_POOL or (os.cpu_count() or 1) < 2:
        return [_one((*job, exported)) for job in jobs]
    with ProcessPoolExecutor() as pool:
        return list(pool.map(_one, [(*job, exported) for job in jobs], chunksize=8))


def _one(job: tuple[bytes, str, bool, Exports]) -> FileSites:
    source, module, package, exported = job
    return sites_of(source, module, package=package, exported=exported)
