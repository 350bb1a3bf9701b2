"""``fi-compat doctor``: does this environment work, and if not, what to type. Imports nothing of what it examines."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._doctor_checks import CHECKS
from ._doctor_finding import SEVERITIES, Finding, holds
from ._version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._doctor_facts import Facts

__all__ = ["SCHEMA", "constraints", "examine", "exit_status", "render", "to_json"]

#: Version of the JSON report; a field is only ever added within one version.
SCHEMA = 1


def examine(facts: Facts | None = None, *, gpu: bool = True) -> list[Finding]:
    """Run every check and return the findings, the worst first.

    Parameters
    ----------
    facts : Facts, optional
        What to examine; this environment by default.
    gpu : bool
        Ask for the devices (bounded by 1 and 3 seconds).

    Returns
    -------
    list of Finding
        Always; a check that fails is a finding of its own.
    """
    if facts is None:
        from ._doctor_facts import gather

        facts = gather(gpu=gpu)
    findings: list[Finding] = []
    for check in CHECKS:
        try:
            findings.extend(check(facts))
        except Exception as error:  # noqa: BLE001 - the report always prints
            findings.append(Finding("doctor.check", "warning", f"the check {check.__name__} failed: {type(error).__name__}: {error}"))
    return sorted(findings, key=lambda f: -SEVERITIES.index(f.severity))


def exit_status(findings: Sequence[Finding], *, strict: bool = False) -> int:
    """Return 0 for fine, 1 for a warning or a guess, 2 for an error; with ``strict`` a warning is an error."""
    worst = max((SEVERITIES.index(f.severity) for f in findings), default=0)
    if worst == SEVERITIES.index("error"):
        return 2
    if worst == SEVERITIES.index("warning"):
        return 2 if strict else 1
    return 0


def to_json(findings: Sequence[Finding], status: int, *, share: bool = False) -> str:
    """Return the report as JSON, one object.

    Parameters
    ----------
    findings : sequence of Finding
        From ``examine``.
    status : int
        From ``exit_status``.
    share : bool
        Redact home folders, user names and values that look secret.

    Returns
    -------
    str
        ``{"schema": 1, "fi_compat", "python", "platform", "status", "findings": [{"id", "severity", "message",
        "evidence": [{"name", "value"}], "remedy"}]}``.
    """
    report: dict[str, Any] = {
        "schema": SCHEMA,
        "fi_compat": __version__,
        "python": sys.version.split()[0],
        "platform": sys.platform,
        "status": status,
        "findings": [
            {
                "id": f.id,
                "severity": f.severity,
                "message": f.message,
                "evidence": [{"name": n, "value": v} for n, v in f.evidence],
                "remedy": f.remedy,
            }
            for f in findings
        ],
    }
    text = json.dumps(report, indent=2)
    return redact(text) if share else text


def redact(text: str) -> str:
    """Replace home folders, user names and secrets in a report that leaves the machine."""
    home = os.environ.get("HOME") or str(Path("~").expanduser())
    if len(home) > 1:
        text = text.replace(home, "~")
    text = re.sub(r"(/(?:home|Users)/)[^/\"\\ ]+", r"\1<user>", text)
    user = os.environ.get("USER") or os.environ.get("LOGNAME") or ""
    if len(user) > 3:  # short names would take ordinary words away
        text = re.sub(rf"\b{re.escape(user)}\b", "<user>", text)
    text = re.sub(r"(https?://)[^/@\s\"]+@", r"\1<redacted>@", text)
    return re.sub(r"(?i)((?:token|secret|password|api_?key)[\"=: ]+)[^\s\",]+", r"\1<redacted>", text)


def render(findings: Sequence[Finding], status: int) -> str:
    """Return the report as plain text."""
    words = {
        0: "this environment works",
        1: "this environment works, with warnings or on a guess",
        2: "an upstream is unusable here, or will fail",
    }
    lines = [f"fi_compat {__version__} doctor, Python {sys.version.split()[0]}", ""]
    width = max((len(f.severity) for f in findings), default=2)
    for finding in findings:
        lines.append(f"{finding.severity.upper():{width}}  {finding.id}: {finding.message}")
        if finding.severity != "ok":
            lines.extend(f"{'':{width}}    {name}: {value}" for name, value in finding.evidence)
        if finding.remedy:
            lines.append(f"{'':{width}}    -> {finding.remedy}")
    lines += ["", f"{words[status]} (exit status {status})"]
    return "\n".join(lines)


def render_rich(findings: Sequence[Finding], status: int) -> bool:
    """Print the report as a table with rich; False where rich is not installed."""
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    colours = {"ok": "green", "info": "blue", "warning": "yellow", "error": "red"}
    table = Table(title=f"fi_compat {__version__} doctor, Python {sys.version.split()[0]}", show_lines=True)
    for name in ("", "check", "finding and remedy"):
        table.add_column(name, overflow="fold")
    for finding in findings:
        text = Text(finding.message)
        if finding.severity != "ok":
            for name, value in finding.evidence:
                text.append(f"\n  {name}: {value}", style="dim")
        if finding.remedy:
            text.append(f"\n-> {finding.remedy}", style="bold")
        table.add_row(Text(finding.severity, style=colours[finding.severity]), Text(finding.id), text)
    console = Console()
    console.print(table)
    console.print(f"exit status {status}")
    return True


def constraints(version: str) -> str:
    """Return a pip constraints file with the companions that go with a FlashInfer release.

    Parameters
    ----------
    version : str
        A release of the table, "0.6.17".

    Returns
    -------
    str
        Lines for ``pip install -c``.

    Raises
    ------
    ValueError
        The table does not know the release.
    """
    from . import _table

    if version not in _table.FLASHINFER_RELEASES:
        raise ValueError(f"constraints: no release {version!r} in the table; known are {', '.join(_table.FLASHINFER_RELEASES)}")
    lines = [f"# what goes with flashinfer-python {version}; made by `fi-compat constraints --flashinfer {version}`"]
    if holds(version, f">={_table.CUBIN_LEFT_PYPI}.dev0"):
        lines.append(f"--extra-index-url {_table.FLASHINFER_INDEX}")
    lines += [f"flashinfer-python=={version}", f"flashinfer-cubin=={version}", f"flashinfer-jit-cache=={version}"]
    lines += [
        f"{floor.distribution}{floor.spec}"
        for floor in _table.FLOORS
        if floor.when_distribution == "flashinfer-python" and holds(version, floor.when_spec)
    ]
    lines += [f"apache-tvm-ffi{spec}" for releases, spec in _table.TVM_FFI if holds(version, releases)]
    return "\n".join(lines)
