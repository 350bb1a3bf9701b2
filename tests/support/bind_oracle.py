"""Compares an audit with the really imported release: ``python bind_oracle.py ENGINE_FOLDER``, the release first on sys.path.

Each reference is looked up by import, each call is bound with ``inspect.signature(...).bind``; prints counts, precision and
recall of "breaks" as JSON. What the import itself cannot answer (a module that needs a GPU or a compiler) is counted apart.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import flashinfer

from fi_compat.audit._judge import binding_error
from fi_compat.audit._tree import analysed_sites
from fi_compat.contracts import contracts


def imported(dotted: str) -> tuple[str, Any]:
    """Return ("found", object), ("missing", None) or ("cannot tell", None)."""
    parts = dotted.split(".")
    value: Any = None
    for position in range(len(parts), 0, -1):
        name = ".".join(parts[:position])
        try:
            value = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
                return "cannot tell", None
            continue
        except BaseException:  # noqa: BLE001 - FlashInfer raises what it likes at import
            return "cannot tell", None
        for part in parts[position:]:
            if inspect.isroutine(value):
                return "cannot tell", None  # an attribute of what a function returned
            if not hasattr(value, part):
                # What only a compiler or a GPU brings is absent here whatever the release.
                return ("cannot tell", None) if inspect.isclass(value) or "cute" in dotted.lower() else ("missing", None)
            value = getattr(value, part)
        return "found", value
    return "missing", None


def main() -> None:
    """Compare every distinct reference and call."""
    release = flashinfer.__version__
    recorded = contracts("flashinfer")
    counts: Counter[str] = Counter()
    wrong = []
    for site in {
        (s.dotted, s.call, s.positional, s.keywords, s.star, s.double_star): s for s in analysed_sites(Path(sys.argv[1]))
    }.values():
        if not site.dotted.startswith("flashinfer"):
            continue
        definition = recorded.find(site.dotted, release)
        verdict, value = imported(site.dotted)
        if verdict == "cannot tell" or (site.call and (site.star or site.double_star)):
            counts["cannot tell"] += 1
            continue
        ours: bool | None = definition.kind == "missing"
        theirs = verdict == "missing"
        if site.call and not ours and not theirs:
            if definition.signature is None:
                counts["cannot tell"] += 1
                continue
            try:
                signature = inspect.signature(value)
            except (TypeError, ValueError):
                counts["cannot tell"] += 1
                continue
            instance = inspect.isfunction(value) and "." in value.__qualname__ and next(iter(signature.parameters), "") == "self"
            try:
                signature.bind(*[None] * (site.positional + instance), **dict.fromkeys(site.keywords))
            except TypeError:
                theirs = True
            ours = binding_error(site, definition.signature) is not None
        counts[f"{'call' if site.call else 'reference'}: audit {'break' if ours else 'ok'}, import {'break' if theirs else 'ok'}"] += 1
        if bool(ours) != theirs:
            wrong.append(f"{site.dotted}({site.positional}, {site.keywords}) line {site.line}")
    hit = sum(v for k, v in counts.items() if "audit break, import break" in k)
    false = sum(v for k, v in counts.items() if "audit break, import ok" in k)
    missed = sum(v for k, v in counts.items() if "audit ok, import break" in k)
    print(
        json.dumps(
            {
                "release": release,
                **counts,
                "precision": round(hit / (hit + false), 4) if hit + false else None,
                "recall": round(hit / (hit + missed), 4) if hit + missed else None,
                "wrong": wrong[:20],
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
