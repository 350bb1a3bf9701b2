"""The command line: argparse, nothing else needed; tables are aligned text."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ._version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main", "table"]

_USAGE = 64


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        self.print_usage(sys.stderr)
        self.exit(_USAGE, f"{self.prog}: {message}\n")


def table(rows: Sequence[Sequence[str]]) -> str:
    """Align rows of text into columns, the first row being the heading."""
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])


def _explain(args: argparse.Namespace) -> int:
    from ._explain import explain

    try:
        print(explain(args.name))
    except ValueError as error:
        print(error, file=sys.stderr)
        return _USAGE
    return 0


def _matrix(args: argparse.Namespace) -> int:
    from ._explain import matrix

    rows = [("upstream", "release or tree", "range or variant", "adapter"), *matrix()]
    if args.markdown:
        print("\n".join("| " + " | ".join(row) + " |" for row in (rows[0], ["---"] * 4, *rows[1:])))
    else:
        print(table(rows))
    return 0


def _doctor(args: argparse.Namespace) -> int:
    from . import doctor

    findings = doctor.examine()
    status = doctor.exit_status(findings, strict=args.strict)
    if args.json:
        print(doctor.to_json(findings, status, share=args.share))
    elif not (sys.stdout.isatty() and doctor.render_rich(findings, status)):
        print(doctor.render(findings, status))
    return status


def _constraints(args: argparse.Namespace) -> int:
    from . import doctor

    try:
        print(doctor.constraints(args.flashinfer))
    except ValueError as error:
        print(error, file=sys.stderr)
        return _USAGE
    return 0


def _demo(args: argparse.Namespace) -> int:
    from . import demo

    return demo.main(args)


def _audit(args: argparse.Namespace) -> int:
    from .audit import _report, audit

    try:
        report = audit(args.path, flashinfer=args.flashinfer, triton_kernels=args.triton_kernels)
        known = set(json.loads(Path(args.baseline).read_text(encoding="utf-8"))) if args.baseline else set()
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return _USAGE
    if args.write_baseline:
        Path(args.write_baseline).write_text(
            json.dumps(sorted({_report.fingerprint(f) for f in report.findings}), indent=1), encoding="utf-8"
        )
    report.findings = [f for f in report.findings if _report.fingerprint(f) not in known]
    if args.json:
        print(_report.to_json(report))
    elif args.sarif:
        print(_report.to_sarif(report, Path(args.path)))
    elif args.matrix:
        print(table(_report.matrix(report)))
    else:
        print(_report.to_text(report, by_release=args.by_release))
    return _report.exit_status(report, args.fail_on)


def _diff(args: argparse.Namespace) -> int:
    from .audit._diff import diff

    try:
        lines = diff(args.old, args.new, Path(args.used_by) if args.used_by else None)
    except ValueError as error:
        print(error, file=sys.stderr)
        return _USAGE
    print("\n".join(lines) if lines else f"nothing that is recorded differs between {args.old} and {args.new}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="fi-compat", description="One stable API over FlashInfer and triton_kernels.")
    parser.add_argument("--version", action="version", version=f"fi_compat {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    doctor = commands.add_parser("doctor", help="does this environment work, and if not, what to type")
    doctor.add_argument("--json", action="store_true", help="the report as JSON (schema 1)")
    doctor.add_argument("--share", action="store_true", help="with --json: redact home folders, user names and secrets")
    doctor.add_argument("--strict", action="store_true", help="a warning is an error (exit status 2)")
    doctor.set_defaults(run=_doctor)
    constraints = commands.add_parser("constraints", help="a pip constraints file with the companions of a FlashInfer release")
    constraints.add_argument("--flashinfer", required=True, metavar="X", help="a release, 0.6.17")
    constraints.set_defaults(run=_constraints)
    audit = commands.add_parser("audit", help="which calls in a source tree break, or silently change, on which release")
    audit.add_argument("path", metavar="PATH", help="a file or a folder; nothing in it is imported or run")
    audit.add_argument("--flashinfer", default=">=0.6.8", metavar="SPEC", help="releases to ask about, '>=0.6.8,<=0.7.4'")
    audit.add_argument("--triton-kernels", default="", metavar="GENERATIONS", help="generations to ask about, '3.5.1,3.6'")
    audit.add_argument("--fail-on", choices=["break", "silent", "never"], default="break", help="what makes the exit status 1")
    audit.add_argument("--by-release", action="store_true", help="group by release instead of by file")
    audit.add_argument("--baseline", metavar="FILE", help="leave out what this file lists")
    audit.add_argument("--write-baseline", metavar="FILE", help="list what was found in this file")
    shape = audit.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="the report as JSON (schema 1)")
    shape.add_argument("--sarif", action="store_true", help="the report as SARIF 2.1.0")
    shape.add_argument("--matrix", action="store_true", help="how much breaks on each release")
    audit.set_defaults(run=_audit)
    diff = commands.add_parser("diff", help="what moved between two FlashInfer releases")
    diff.add_argument("old", metavar="OLD", help="a release, 0.6.11")
    diff.add_argument("new", metavar="NEW", help="a release, 0.6.17")
    diff.add_argument("--used-by", metavar="PATH", help="only what this source tree refers to")
    diff.set_defaults(run=_diff)
    explain = commands.add_parser("explain", help="what serves an upstream or a function here, and why")
    explain.add_argument("name", metavar="NAME", help="flashinfer, triton_kernels, or a stable function")
    explain.set_defaults(run=_explain)
    matrix = commands.add_parser("matrix", help="which adapter serves which release")
    matrix.add_argument("--markdown", action="store_true", help="as the README has it")
    matrix.set_defaults(run=_matrix)
    demo = commands.add_parser("demo", help="route the same logits and bind the same call on what is installed")
    demo.add_argument("--tree", action="append", default=[], metavar="NAME=FOLDER", help="a folder that holds a triton_kernels tree")
    demo.add_argument("--flashinfer", action="append", default=[], metavar="RELEASE=FOLDER", help="a folder that holds a FlashInfer")
    demo.add_argument("--moe", action="store_true", help="an MXFP4 MoE layer: on the GPU with the installed tree, else in plain torch")
    demo.add_argument("--child", choices=["routing", "fp4_quantize"], help=argparse.SUPPRESS)
    demo.set_defaults(run=_demo)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0 fine, 1 and 2 by command, 64 wrong usage."""
    parser = _parser()
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help()
        return 0
    return int(args.run(args))
