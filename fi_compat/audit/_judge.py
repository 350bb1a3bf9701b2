"""Judges one site against the recorded releases: what breaks where, and what silently changes."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from fi_compat import _resolver
from fi_compat.contracts import contracts, parameters

from ._rows import ENUM_PARAMETERS, ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fi_compat.contracts import Definition, Parameter

    from ._sites import Site

__all__ = ["Finding", "binding_error", "judge"]

#: Where the stable functions are; importing them imports no upstream.
_MODULES = ("quantization", "moe", "fused_moe", "comm", "mla")

Severity = Literal["break", "silent", "info"]


@dataclass(frozen=True)
class Finding:
    """One thing wrong with one site.

    Attributes
    ----------
    rule : str
        "missing-name", "unknown-keyword", "missing-argument", "too-many-positionals", "positional-shift", "default-moved",
        "enum-integer" or "behaviour".
    severity : {"break", "silent", "info"}
        "info" where the code is guarded by a try or a condition on what is installed.
    file, line : str, int
        Where.
    name : str
        The upstream name, as the code reaches it.
    releases : tuple of str
        On which releases.
    message, remedy : str
        What happens, and the call that is right on all.
    """

    rule: str
    severity: Severity
    file: str
    line: int
    name: str
    releases: tuple[str, ...]
    message: str
    remedy: str


def binding_error(site: Site, signature: str) -> tuple[str, str] | None:
    """Return the rule and the words for a call that a parameter list does not take, None where it binds or cannot be known."""
    found = parameters(signature)
    places = [p for p in found if p.kind in {"positional", "either"}]
    stars = {p.kind for p in found}
    if site.positional > len(places) and "*" not in stars:
        return "too-many-positionals", f"takes {len(places)} positional arguments and gets {site.positional}"
    taken = {p.name for p in places[: site.positional]}
    known = {p.name for p in found if p.kind in {"either", "keyword"}}
    for keyword in site.keywords:
        if keyword not in known and "**" not in stars:
            return "unknown-keyword", f"has no parameter {keyword}"
        if keyword in taken:
            return "too-many-positionals", f"gets {keyword} by place and by name"
    if site.star or site.double_star:
        return None
    missing = [p.name for p in found if p.default is None and p.name not in taken and p.name not in site.keywords]
    if missing:
        return "missing-argument", f"needs {', '.join(missing)}"
    return None


def judge(site: Site, file: str, upstream: str, releases: Sequence[str]) -> Iterator[Finding]:
    """Yield what is wrong with a site on the releases that are asked about."""
    recorded = contracts(upstream)
    found = {release: recorded.find(site.dotted, release) for release in releases}

    def finding(rule: str, severity: Severity, where: Sequence[str], message: str, remedy: str = "") -> Finding:
        return Finding(
            rule,
            "info" if site.guarded and severity == "break" else severity,
            file,
            site.line,
            site.dotted,
            tuple(where),
            message,
            remedy or _remedy(site, found),
        )

    missing = [r for r, d in found.items() if d.kind == "missing"]
    if not site.call:
        if missing:
            what = found[missing[0]].name
            yield finding("missing-name", "break", missing, f"{what} does not exist")
        return
    errors: dict[tuple[str, str], list[str]] = {}
    bound: dict[str, tuple[Parameter, ...]] = {}
    for release, definition in found.items():
        if definition.kind in {"function", "class"} and definition.signature is not None:
            error = binding_error(site, definition.signature)
            if error:
                errors.setdefault(error, []).append(release)
            else:
                bound[release] = parameters(definition.signature)
    for (rule, words), where in errors.items():
        yield finding(rule, "break", where, f"{_last(site)} {words}")
    if upstream == "flashinfer":
        yield from _silent(site, found, bound, finding)


def _silent(site: Site, found: dict[str, Definition], bound: dict[str, tuple[Parameter, ...]], finding: Any) -> Iterator[Finding]:
    if not site.star:
        yield from _shifts(site, bound, finding)
    if not site.double_star and not site.star:
        yield from _defaults(site, bound, finding)
    yield from _integers(site, bound, finding)
    last = _last(site)
    for row in ROWS:
        if last not in row.names or (row.has and not set(row.has) & set(site.keywords)) or set(row.lacks) & set(site.keywords):
            continue
        if row.lacks and site.double_star:
            continue
        where = [r for r in found if found[r].kind != "missing" and any(_resolver.holds(r, i) for i in row.intervals)]
        if where:
            yield finding("behaviour", "silent", where, row.meaning, row.remedy)


def _moves(what: dict[str, list[str]]) -> tuple[str, list[str]]:
    """Say what something is from which release on, and name the releases after the first meaning."""
    words = ", ".join(f"{name} from {where[0]}" for name, where in what.items())
    return words, [release for name in list(what)[1:] for release in what[name]]


def _shifts(site: Site, bound: dict[str, tuple[Parameter, ...]], finding: Any) -> Iterator[Finding]:
    """Yield the places whose parameter differs between releases on which the call binds."""
    for place in range(site.positional):
        names: dict[str, list[str]] = {}
        for release, found in bound.items():
            if place < len(found) and found[place].kind in {"positional", "either"}:
                names.setdefault(found[place].name, []).append(release)
        if len(names) > 1:
            words, later = _moves(names)
            yield finding("positional-shift", "silent", later, f"argument {place} of {_last(site)} is {words}", "pass it by keyword")
            return


def _defaults(site: Site, bound: dict[str, tuple[Parameter, ...]], finding: Any) -> Iterator[Finding]:
    """Yield parameters that the call leaves out and whose default moved."""
    defaults: dict[str, dict[str, list[str]]] = {}
    for release, found in bound.items():
        for place, p in enumerate(found):
            if p.default and p.kind in {"either", "keyword"} and place >= site.positional and p.name not in site.keywords:
                defaults.setdefault(p.name, {}).setdefault(p.default, []).append(release)
    for name, values in defaults.items():
        if len(values) > 1:
            words, later = _moves(values)
            yield finding("default-moved", "silent", later, f"the default of {name} is {words}", f"pass {name}=")


def _integers(site: Site, bound: dict[str, tuple[Parameter, ...]], finding: Any) -> Iterator[Finding]:
    """Yield integers given to an enum parameter that mean another member on another release."""
    for key, value in site.integers:
        for release, found in bound.items():
            name = key if isinstance(key, str) else found[key].name if key < len(found) else ""
            enum = ENUM_PARAMETERS.get(name)
            if enum is not None and value >= enum[1]:
                members = contracts("flashinfer").find(f"flashinfer.tllm_enums.{enum[0]}", release).entry["e"]
                meaning = next((n for n, v in members.items() if v == value), "no member")
                yield finding("enum-integer", "silent", [release], f"{name}={value} is {meaning}", f"fi_compat.fused_moe.{enum[0]}.NAME")


def _last(site: Site) -> str:
    return site.dotted.rpartition(".")[2]


def _remedy(site: Site, found: dict[str, Definition]) -> str:
    """Name what is right on every release: fi_compat where it serves the name."""
    last = _last(site)
    ours = {"CuteDslMoEWrapper": "cute_dsl_moe"}.get(last, last)
    for module in _MODULES:
        if ours in importlib.import_module(f"fi_compat.{module}").__all__:
            return f"from fi_compat.{module} import {ours}"
    there = [r for r, d in found.items() if d.kind != "missing"]
    return f"there on {there[0]} to {there[-1]}" if there else ""
