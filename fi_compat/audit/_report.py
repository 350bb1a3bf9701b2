"""An audit's findings as text, JSON, SARIF 2.1.0 and a table of releases."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fi_compat._version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ._judge import Finding
    from ._tree import Report

__all__ = ["exit_status", "fingerprint", "matrix", "to_json", "to_sarif", "to_text"]

RULES: Final = {
    "missing-name": "The release has no such name.",
    "unknown-keyword": "The release's callable has no such parameter.",
    "missing-argument": "The release's callable needs a parameter that the call does not give.",
    "too-many-positionals": "The release's callable takes fewer positional arguments.",
    "positional-shift": "A positional argument is another parameter on another release.",
    "default-moved": "A default that the call relies on differs between releases.",
    "enum-integer": "An integer means another enum member on another release.",
    "behaviour": "The same call means something else on another release.",
}
_LEVELS: Final = {"break": "error", "silent": "warning", "info": "note"}


def ranges(found: Iterable[str], asked: tuple[str, ...]) -> str:
    """Say a set of releases as ranges of those asked about: "0.6.8 to 0.6.13, 0.7.4"."""
    wanted = set(found)
    parts: list[list[str]] = []
    before = None
    for index, release in enumerate(asked):
        if release in wanted:
            if before != index - 1 or not parts:
                parts.append([release])
            elif len(parts[-1]) == 1:
                parts[-1].append(release)
            else:
                parts[-1][1] = release
            before = index
    return ", ".join(" to ".join(p) for p in parts)


def to_text(report: Report, *, by_release: bool = False) -> str:
    """Return the findings grouped by file, or by release."""
    lines: list[str] = []
    if by_release:
        for asked in report.releases.values():
            for release in asked:
                here = [f for f in report.findings if release in f.releases]
                lines.append(f"{release}: {len(here)} findings")
                lines += [f"  {f.severity:6} {f.file}:{f.line}: {f.name}: {f.message}" for f in here]
    else:
        file = None
        for f in report.findings:
            if f.file != file:
                file = f.file
                lines.append(file)
            where = ranges(f.releases, next(a for a in report.releases.values() if set(f.releases) <= set(a)))
            lines.append(f"  {f.line}: {f.severity} [{f.rule}] {f.name}: {f.message} ({where})" + (f"; {f.remedy}" if f.remedy else ""))
    lines += [f"skipped {name}: {why}" for name, why in report.skipped]
    counts = Counter(f.severity for f in report.findings)
    lines.append(
        f"{report.files} files, {report.sites} references and calls: {counts['break']} break, {counts['silent']} silent, {counts['info']} guarded;"
        f" {len(report.skipped)} files skipped"
    )
    return "\n".join(lines)


def to_json(report: Report) -> str:
    """Return the report as JSON, schema 1."""
    document: dict[str, Any] = {
        "schema": 1,
        "fi_compat": __version__,
        "releases": report.releases,
        "files": report.files,
        "sites": report.sites,
        "findings": [{**asdict(f), "fingerprint": fingerprint(f)} for f in report.findings],
        "skipped": [{"file": name, "why": why} for name, why in report.skipped],
    }
    return json.dumps(document, indent=1)


def fingerprint(finding: Finding) -> str:
    """Return what tells a finding from others when lines move: file, rule, name and message."""
    text = "\0".join((Path(finding.file).as_posix(), finding.rule, finding.name, finding.message))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def to_sarif(report: Report, root: Path) -> str:
    """Return the report as SARIF 2.1.0, for code hosts."""
    base = root if root.is_dir() else root.parent
    results = [
        {
            "ruleId": f.rule,
            "level": _LEVELS[f.severity],
            "message": {"text": f"{f.name}: {f.message} (on {', '.join(f.releases)})" + (f"; {f.remedy}" if f.remedy else "")},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": Path(f.file).relative_to(base).as_posix(), "uriBaseId": "ROOT"},
                        "region": {"startLine": f.line},
                    }
                }
            ],
            "partialFingerprints": {"fiCompat/v1": fingerprint(f)},
        }
        for f in report.findings
    ]
    driver = {
        "name": "fi-compat",
        "version": __version__,
        "informationUri": "https://pypi.org/project/fi-compat/",
        "rules": [{"id": rule, "shortDescription": {"text": text}} for rule, text in RULES.items()],
    }
    run = {
        "tool": {"driver": driver},
        "originalUriBaseIds": {"ROOT": {"uri": base.resolve().as_uri() + "/"}},
        "results": results,
    }
    return json.dumps({"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}, indent=1)


def matrix(report: Report) -> list[tuple[str, ...]]:
    """Return, for each release, how many references are missing, calls cannot bind, and calls silently change."""
    rows: list[tuple[str, ...]] = [("release", "missing", "cannot bind", "silent", "guarded")]
    for asked in report.releases.values():
        for release in asked:
            here = [f for f in report.findings if release in f.releases]
            broken = [f for f in here if f.severity == "break"]
            missing = sum(f.rule == "missing-name" for f in broken)
            silent, guarded = (sum(f.severity == s for f in here) for s in ("silent", "info"))
            rows.append((release, str(missing), str(len(broken) - missing), str(silent), str(guarded)))
    return rows


def exit_status(report: Report, fail_on: str) -> int:
    """Return 1 where something at least as bad as ``fail_on`` was found, else 0."""
    bad = {"never": set(), "break": {"break"}, "silent": {"break", "silent"}}[fail_on]
    return int(any(f.severity in bad for f in report.findings))
