"""Names and signatures of every published release, read out of the wheels; nothing of upstream is imported.

The data is written by ``nox -s contracts`` (tests/support/make_contracts.py): one file per upstream, names folded into
intervals over the list of releases. ``contracts("flashinfer").find("flashinfer.fp4_quantize", "0.6.17")`` says what a name
is in a release, through re-exports, ``__getattr__`` exports, star imports and classes.
"""

from __future__ import annotations

import ast
import gzip
import json
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

__all__ = ["Contracts", "Definition", "Parameter", "contracts", "parameters"]

_ALIASES_FOLLOWED = 20


@dataclass(frozen=True)
class Parameter:
    """One parameter of a callable: its name, how it can be passed, and the source of its default (None: required)."""

    name: str
    kind: Literal["positional", "either", "keyword", "*", "**"]
    default: str | None


@dataclass(frozen=True)
class Definition:
    """What a dotted name is in one release.

    Attributes
    ----------
    kind : {"function", "class", "module", "value", "missing", "unknown"}
        "unknown" is a name that exists or may exist and whose signature is not recorded.
    name : str
        Where it is defined: "flashinfer.fused_moe.core.cutlass_fused_moe". For "missing", the part that is not there.
    signature : str or None
        Parameter list as source, without annotations; a class has its constructor's.
    line : int
        Line of the definition in that release's file, 0 where it is not recorded.
    entry : dict
        The stored record.
    """

    kind: Literal["function", "class", "module", "value", "missing", "unknown"]
    name: str
    signature: str | None = None
    line: int = 0
    entry: Any = None


@cache
def parameters(signature: str) -> tuple[Parameter, ...]:
    """Parse a stored parameter list."""
    function = ast.parse(f"def f({signature}): pass").body[0]
    assert isinstance(function, ast.FunctionDef)  # noqa: S101 - what was parsed is one def
    a = function.args
    places: list[tuple[str, Literal["positional", "either"]]] = [(p.arg, "positional") for p in a.posonlyargs]
    places += [(p.arg, "either") for p in a.args]
    missing = len(places) - len(a.defaults)
    found = [Parameter(name, kind, None if i < missing else ast.unparse(a.defaults[i - missing])) for i, (name, kind) in enumerate(places)]
    if a.vararg:
        found.append(Parameter(a.vararg.arg, "*", ""))
    found += [Parameter(p.arg, "keyword", None if d is None else ast.unparse(d)) for p, d in zip(a.kwonlyargs, a.kw_defaults, strict=True)]
    if a.kwarg:
        found.append(Parameter(a.kwarg.arg, "**", ""))
    return tuple(found)


class Contracts:
    """The recorded names of one upstream over all its releases."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self._found: dict[tuple[str, int], Definition] = {}

    @cached_property
    def _data(self) -> dict[str, Any]:
        raw = gzip.decompress((Path(__file__).parent / f"{self.upstream}.json.gz").read_bytes())
        data: dict[str, Any] = json.loads(raw)
        return data

    @cached_property
    def releases(self) -> tuple[str, ...]:
        """Releases (of FlashInfer) or trees (of triton_kernels), oldest first."""
        return tuple(self._data["releases"])

    @cached_property
    def modules(self) -> frozenset[str]:
        """Every module of any release."""
        return frozenset(self._data["modules"])

    def find(self, dotted: str, release: str | int) -> Definition:
        """Say what a dotted name is in a release.

        Parameters
        ----------
        dotted : str
            "flashinfer.fused_moe.cutlass_fused_moe", "flashinfer.CuteDslMoEWrapper.run".
        release : str or int
            One of ``releases``, or its index.

        Returns
        -------
        Definition
            Of kind "missing" where the release has no such name.
        """
        index = release if isinstance(release, int) else self.releases.index(release)
        found = self._found.get((dotted, index))
        if found is None:
            found = self._found[dotted, index] = self._walk(dotted.split("."), index, 0)
        return found

    def exports(self, module: str, release: str | int) -> frozenset[str]:
        """Return the names that ``from module import *`` binds in a release."""
        index = release if isinstance(release, int) else self.releases.index(release)
        record = self._data["modules"].get(module)
        if record is None:
            return frozenset()
        extra = self._at(record["extra"], index) or {}
        if "all" in extra:
            return frozenset(extra["all"])
        names = {n for n, intervals in record["names"].items() if not n.startswith("_") and self._at(intervals, index) is not None}
        for star in extra.get("stars", ()):
            names |= self.exports(star, index)
        return frozenset(names)

    def _at(self, intervals: list[list[int]], index: int) -> Any:
        for interval in intervals:
            if interval[0] <= index <= interval[1]:
                return self._data["objects"][interval[2]]
        return None

    def _exists(self, module: str, index: int) -> bool:
        record = self._data["modules"].get(module)
        return record is not None and any(first <= index <= last for first, last in record["in"])

    def _line(self, module: str, name: str, index: int) -> int:
        flat = self._data["modules"][module]["lines"].get(name, ())
        for i in range(0, len(flat), 3):
            if flat[i] <= index <= flat[i + 1]:
                return int(flat[i + 2])
        return 0

    def _walk(self, parts: list[str], index: int, depth: int) -> Definition:  # noqa: PLR0911 - one return per kind of name
        module = parts[0]
        if module != self.upstream or depth > _ALIASES_FOLLOWED:
            return Definition("unknown", ".".join(parts))
        position = 1
        while True:
            if not self._exists(module, index):
                return Definition("missing", module)
            if module in self._data["left_out"]:
                return Definition("unknown" if position < len(parts) else "module", ".".join(parts))
            if position == len(parts):
                return Definition("module", module)
            name = parts[position]
            record = self._data["modules"][module]
            entry = self._at(record["names"].get(name, ()), index)
            if entry is None:
                entry = self._from_stars(module, name, index)
            submodule = f"{module}.{name}"
            if entry is not None and not (entry["k"] == "a" and entry["t"] == submodule):
                return self._entry(module, parts[position:], entry, index, depth)
            if self._exists(submodule, index):
                module, position = submodule, position + 1
                continue
            extra = self._at(record["extra"], index) or {}
            # Of folders of kernels, private names are not recorded.
            if extra.get("open") or (extra.get("private") and name.startswith("_")) or (name.startswith("__") and name.endswith("__")):
                return Definition("unknown", ".".join(parts))
            return Definition("missing", submodule)

    def _from_stars(self, module: str, name: str, index: int) -> Any:
        extra = self._at(self._data["modules"][module]["extra"], index) or {}
        for star in extra.get("stars", ()):
            if not star.startswith(self.upstream):
                return {"k": "v"}
            if name in self.exports(star, index):
                return {"k": "a", "t": f"{star}.{name}"}
        return None

    def _entry(self, module: str, parts: list[str], entry: Any, index: int, depth: int) -> Definition:
        name, rest = parts[0], parts[1:]
        if entry["k"] == "a":
            return self._walk([*entry["t"].split("."), *rest], index, depth + 1)
        where = f"{module}.{name}"
        if entry["k"] == "v" or (rest and entry["k"] == "f"):
            return Definition("unknown" if rest else "value", where, entry=entry)
        if entry["k"] == "f":
            return Definition("function", where, entry["s"], self._line(module, name, index), entry)
        if not rest:
            return Definition("class", where, self._constructor(module, entry, index, depth), self._line(module, name, index), entry)
        return self._member(module, name, entry, rest, index, depth)

    def _bases(self, module: str, entry: Any, index: int, depth: int) -> list[Definition]:
        return [self._base(module, base.partition("[")[0], index, depth) for base in entry.get("b", ())]

    def _base(self, module: str, base: str, index: int, depth: int) -> Definition:
        if base in {"object", "ABC", "abc.ABC", "Generic", "Protocol"}:
            return Definition("value", base)
        if self._at(self._data["modules"][module]["names"].get(base.partition(".")[0], ()), index) is None:
            return Definition("unknown", base)
        return self._walk([*module.split("."), *base.split(".")], index, depth + 1)

    def _constructor(self, module: str, entry: Any, index: int, depth: int) -> str | None:  # noqa: PLR0911 - one per kind of class
        """Return the parameters that calling the class takes, None where they are not known."""
        if entry.get("o") or "e" in entry or depth > _ALIASES_FOLLOWED:
            return None
        init = entry["m"].get("__init__") or entry["m"].get("__new__")
        if init is not None and init["k"] == "f":
            return str(init["s"])
        bases = self._bases(module, entry, index, depth)
        if "f" in entry or "d" in entry:
            inherited = [] if all(b.kind == "value" for b in bases) else [b.signature for b in bases if b.kind == "class"]
            if any(s is None for s in inherited) or any(b.kind == "unknown" and not b.name.endswith("NamedTuple") for b in bases):
                return None
            if inherited and not all("d" in b.entry for b in bases if b.kind == "class"):
                return None
            fields = ", ".join([*(s for s in inherited if s), *entry.get("f", ())])
            try:
                parameters(fields)
            except SyntaxError:  # a field without a default after one with, or two stars: made by hand
                return None
            return fields
        for base in bases:
            if base.kind == "class":
                return base.signature
            if base.kind == "unknown":
                return None
        return "" if not entry.get("b") else None

    def _member(  # noqa: PLR0911 - one return per kind of member
        self, module: str, name: str, entry: Any, rest: list[str], index: int, depth: int
    ) -> Definition:
        member = rest[0]
        where = f"{module}.{name}.{member}"
        if entry.get("o"):
            return Definition("unknown", where)
        found = entry["m"].get(member)
        if found is not None and found["k"] == "a":
            found = entry["m"].get(found["t"])
        if found is not None:
            if found["k"] == "f" and len(rest) == 1:
                return Definition("function", where, found["s"], self._line(module, f"{name}.{member}", index), found)
            return Definition("unknown" if len(rest) > 1 else "value", where, entry=found)
        if member in entry.get("i", ()):
            return Definition("unknown" if len(rest) > 1 else "value", where)
        if member.startswith("__") or "__getattr__" in entry["m"]:
            return Definition("unknown", where)
        if "e" in entry and member in {"name", "value"}:
            return Definition("value", where)
        for base in self._bases(module, entry, index, depth):
            if base.kind == "unknown":
                known = base.name.rpartition(".")[2] in {"Enum", "IntEnum", "Flag", "IntFlag", "StrEnum"}
                if not known:
                    return Definition("unknown", where)
            elif base.kind == "class":
                inherited = self._walk([*base.name.split("."), *rest], index, depth + 1)
                if inherited.kind != "missing":
                    return inherited
        return Definition("missing", where)


@cache
def contracts(upstream: str) -> Contracts:
    """Return the recorded names of "flashinfer" or "triton_kernels".

    Raises
    ------
    ValueError
        Another upstream.
    """
    if upstream not in {"flashinfer", "triton_kernels"}:
        raise ValueError(f"contracts: upstream must be 'flashinfer' or 'triton_kernels', found {upstream!r}")
    return Contracts(upstream)
