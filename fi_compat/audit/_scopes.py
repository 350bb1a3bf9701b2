"""What names hold while a file is read: scopes, values, and the sites that come out."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["GUARD_WORDS", "UNKNOWN", "UPSTREAMS", "FileSites", "Scope", "Site", "Value", "Values", "catches", "leaves", "merged"]

UPSTREAMS: Final = ("flashinfer", "triton_kernels")

#: What a name may hold: ("ref", dotted), ("inst", dotted of its class), ("partial", dotted, places, keywords), or None.
Value = tuple[Any, ...] | None
Values = frozenset[Value]
UNKNOWN: Final[Values] = frozenset({None})

#: Words in a condition that say the code knows about releases.
GUARD_WORDS: Final = (
    "version",
    "hasattr",
    "find_spec",
    "available",
    "supports",
    "has_",
    "signature",
    "is not None",
    "is None",
    "installed",
)
_CATCHING: Final = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", "TypeError", "Exception", "BaseException"})


@dataclass(frozen=True)
class Site:
    """One reference to an upstream name, or one call of it.

    ``positional`` is the number of positional arguments, ``integers`` their values and those of keywords where they are
    integer literals (by place or name); ``star`` and ``double_star`` say that some arguments are not known.
    """

    dotted: str
    line: int
    column: int
    call: bool
    guarded: bool
    positional: int = 0
    keywords: tuple[str, ...] = ()
    integers: tuple[tuple[int | str, int], ...] = ()
    star: bool = False
    double_star: bool = False
    end_line: int = 0


@dataclass
class FileSites:
    """What one file has: its sites, and the upstream names that others can import from it."""

    sites: list[Site] = field(default_factory=list)
    exports: dict[str, Values] = field(default_factory=dict)
    problem: str = ""


class Scope:
    """Names of a module, class, function or comprehension, and what they may hold at this point."""

    __slots__ = ("bindings", "globals", "parent", "self_name", "self_values")

    def __init__(self, parent: Scope | None, bindings: dict[str, Values] | None = None) -> None:
        self.parent = parent
        self.bindings = bindings if bindings is not None else {}
        self.globals: set[str] = set()
        self.self_name = ""
        self.self_values: dict[str, Values] | None = None

    def find(self, name: str) -> Values:
        """Look a name up here and outwards."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.bindings and name not in scope.globals:
                return scope.bindings[name]
            scope = scope.parent
        return UNKNOWN


def catches(handler: ast.ExceptHandler) -> bool:
    """Say whether a handler catches what a missing name or a wrong call raises."""
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(ast.unparse(t).rpartition(".")[2] in _CATCHING for t in types)


def leaves(body: list[ast.stmt]) -> bool:
    """Say whether what follows a block is not reached from its end."""
    return bool(body) and isinstance(body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)


def merged(left: dict[str, Values], right: dict[str, Values]) -> dict[str, Values]:
    """Keep what either branch may leave."""
    return {name: left.get(name, UNKNOWN) | right.get(name, UNKNOWN) for name in {*left, *right}}
