"""Binding one callable of a package on disk."""

from __future__ import annotations

import itertools
import sys

import pytest

from fi_compat._upstream import Upstream

LEADING = ("a", "b")
_number = itertools.count()


@pytest.fixture
def upstream(tmp_path, monkeypatch):
    """Return an Upstream over a function written from its parameter list, which answers with what it was given."""

    def make(parameters: str) -> Upstream:
        module = f"upstream_on_disk_{next(_number)}"
        (tmp_path / f"{module}.py").write_text(f"def function({parameters}):\n    return dict(locals())\n", encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, module, raising=False)
        return Upstream(module, "function", leading=LEADING)

    return make


def test_what_is_passed_by_place_arrives_at_its_name(upstream) -> None:
    """The installed function begins as the adapter expects: it is called directly."""
    bound = upstream("a, b, c=3")
    assert bound.call(1, 2) == {"a": 1, "b": 2, "c": 3}
    assert bound.call.__name__ == "function", "no wrapper of ours"
    bound.reset()


@pytest.mark.parametrize("parameters", ["new, a, b", "b, a, new=0", "*, a, b, new=0", "a, new, b"])
def test_a_parameter_that_moved_is_passed_by_name(upstream, parameters) -> None:
    """A later release inserted, moved or made keyword-only one of the first parameters."""
    bound = upstream(parameters)
    for _ in range(2):
        assert bound.call(1, 2, new=0) == {"a": 1, "b": 2, "new": 0}
        assert bound.call(1, b=2, new=0) == {"a": 1, "b": 2, "new": 0}
    bound.reset()


def test_a_parameter_that_is_gone_is_an_error(upstream) -> None:
    """What has no place under its name is never given to another parameter."""
    bound = upstream("a, c")
    with pytest.raises(TypeError, match="'b'"):
        bound.call(1, 2)
    bound.reset()
