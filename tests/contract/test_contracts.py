"""The recorded signatures against the really imported release: ``inspect.signature`` is the oracle."""

from __future__ import annotations

import importlib
import inspect
import os
from pathlib import Path

import pytest

from fi_compat.audit._judge import binding_error
from fi_compat.audit._sites import sites_of
from fi_compat.contracts import contracts, parameters

MODULES = (
    "flashinfer",
    "flashinfer.fused_moe",
    "flashinfer.mla",
    "flashinfer.quantization",
    "flashinfer.gemm",
    "flashinfer.norm",
    "flashinfer.sampling",
)
KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "positional",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "either",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}


def callables(release: str) -> dict[str, object]:
    """Return every recorded function and class that the imported release has under the same name."""
    recorded = contracts("flashinfer")
    found = {}
    for module in MODULES:
        imported = importlib.import_module(module)
        for name in dir(imported):
            definition = recorded.find(f"{module}.{name}", release)
            if definition.kind in {"function", "class"} and definition.signature is not None and callable(getattr(imported, name)):
                found[f"{module}.{name}"] = getattr(imported, name)
    return found


def test_recorded_signatures_are_those_of_the_imported_release(release) -> None:
    """Names, kinds and which have a default, for every public callable of seven modules."""
    recorded = contracts("flashinfer")
    compared = 0
    for dotted, function in callables(release).items():
        try:
            there = inspect.signature(function)
        except (TypeError, ValueError):
            continue
        expected = [(p.name, KINDS[p.kind], p.default is not p.empty) for p in there.parameters.values()]
        found = [(p.name, p.kind, p.default is not None) for p in parameters(str(recorded.find(dotted, release).signature))]
        # @backend_requirement's wrapper takes skip_check, and shows the signature of what it wraps.
        found = [(name, kind, kind not in {"*", "**"} and default) for name, kind, default in found if name != "skip_check"]
        if any(p.kind is p.VAR_KEYWORD for p in there.parameters.values()) and len(expected) <= 2:
            continue  # a wrapper that hides the function it calls
        assert found == expected, dotted
        compared += 1
    assert compared >= 150


def test_every_name_that_is_recorded_as_missing_is_missing(release) -> None:
    """Names that any release has, asked of this one: the import system agrees."""
    recorded = contracts("flashinfer")
    asked = 0
    for module in ("flashinfer", "flashinfer.fused_moe", "flashinfer.quantization"):
        imported = importlib.import_module(module)
        names = {n for r in recorded.releases for n in recorded.exports(module, r)}
        for name in sorted(names):
            kind = recorded.find(f"{module}.{name}", release).kind
            if kind == "missing":
                assert not hasattr(imported, name), f"{module}.{name}"
                asked += 1
            elif kind in {"function", "class"} and "cute" not in name.lower() and hasattr(imported, name):
                asked += 1
    assert asked >= 100


def test_reading_this_release_again_gives_what_is_recorded(release) -> None:
    """Every module, name, parameter list and line, read out of the published wheel once more."""
    import make_contracts

    stored = contracts("flashinfer")
    fresh = make_contracts.build("flashinfer", {release: Path(os.environ["FI_COMPAT_OVERLAY"])})
    recorded = make_contracts.at(stored._data, stored.releases.index(release))
    assert make_contracts.at(fresh, 0) == recorded
    assert len(recorded) > 100


CALLS = [
    ("(1)", [1], {}),
    ("(1, 2)", [1, 2], {}),
    ("(*range(7))", None, {}),
    ("(1, backend='cuda')", [1], {"backend": "cuda"}),
    ("(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)", list(range(1, 13)), {}),
    ("(no_such=1)", [], {"no_such": 1}),
]


@pytest.mark.parametrize(("text", "places", "keywords"), CALLS, ids=[c[0] for c in CALLS])
def test_what_cannot_bind_is_what_inspect_says_cannot(release, text, places, keywords) -> None:
    """Each public callable with six shapes of calls: no false break, and none missed."""
    recorded = contracts("flashinfer")
    agreed = 0
    for dotted, function in callables(release).items():
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            continue
        if any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
            continue
        site = next(s for s in sites_of(f"import {dotted.rpartition('.')[0]}\n{dotted}{text}\n".encode(), "engine").sites if s.call)
        error = binding_error(site, str(recorded.find(dotted, release).signature))
        if places is None:
            assert error is None or error[0] != "missing-argument", "star-arguments leave a call half-known"
            agreed += 1
            continue
        try:
            signature.bind(*places, **keywords)
        except TypeError:
            assert error is not None, dotted
        else:
            assert error is None, (dotted, error)
        agreed += 1
    assert agreed >= 150
