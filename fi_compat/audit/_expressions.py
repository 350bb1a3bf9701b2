"""Follows expressions: what they may hold, and the references and calls inside them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from ._scopes import GUARD_WORDS, UNKNOWN, UPSTREAMS, FileSites, Scope, Site, Value, Values

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Expressions"]


class Expressions:
    """The names and expressions of one file."""

    def __init__(self, module: str, package: bool, exported: Mapping[str, Mapping[str, Values]]) -> None:
        self.module = module
        self.package = package
        self.exported = exported
        self.found = FileSites()
        self.guards = 0
        self.later: list[tuple[Any, Scope]] = []
        self._seen: set[tuple[str, int, int, bool]] = set()

    # Names.

    def bind(self, scope: Scope, name: str, values: Values) -> None:
        if name in scope.globals:
            top = scope
            while top.parent is not None:
                top = top.parent
            top.bindings[name] = top.bindings.get(name, frozenset()) | values
            return
        scope.bindings[name] = values

    def assign(self, target: ast.expr, source: ast.expr | None, values: Values, scope: Scope) -> None:
        if isinstance(target, ast.Name):
            self.bind(scope, target.id, values)
        elif isinstance(target, ast.Tuple | ast.List):
            parts = source.elts if isinstance(source, ast.Tuple | ast.List) and len(source.elts) == len(target.elts) else None
            for i, element in enumerate(target.elts):
                self.assign(element, None, self.expression(parts[i], scope) if parts else UNKNOWN, scope)
        elif isinstance(target, ast.Attribute):
            if isinstance(target.value, ast.Name):
                owner = self._self(target.value.id, scope)
                if owner is not None:
                    owner[target.attr] = owner.get(target.attr, frozenset()) | values
                    return
            self.expression(target.value, scope)
        elif isinstance(target, ast.Subscript | ast.Starred):
            self.expression(target.value, scope)

    def _self(self, name: str, scope: Scope | None) -> dict[str, Values] | None:
        while scope is not None:
            if scope.self_name == name and scope.self_values is not None:
                return scope.self_values
            if name in scope.bindings:
                return None
            scope = scope.parent
        return None

    # Expressions.

    def expression(self, node: ast.AST, scope: Scope) -> Values:  # noqa: PLR0911 - one return per kind of expression
        """Return what an expression may hold, and note the sites inside it."""
        if isinstance(node, ast.Name):
            return scope.find(node.id)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, scope)
        if isinstance(node, ast.Call):
            return self._call(node, scope)
        if isinstance(node, ast.Lambda):
            inside = Scope(scope, {a.arg: UNKNOWN for a in (*node.args.args, *node.args.kwonlyargs)})
            self.expression(node.body, inside)
            return UNKNOWN
        if isinstance(node, ast.IfExp):
            self.expression(node.test, scope)
            guard = any(word in ast.unparse(node.test) for word in GUARD_WORDS)
            self.guards += guard
            values = self.expression(node.body, scope) | self.expression(node.orelse, scope)
            self.guards -= guard
            return values
        if isinstance(node, ast.BoolOp):
            return frozenset().union(*(self.expression(v, scope) for v in node.values))
        if isinstance(node, ast.NamedExpr):
            values = self.expression(node.value, scope)
            self.assign(node.target, node.value, values, scope)
            return values
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            inside = Scope(scope)
            for generator in node.generators:
                self.expression(generator.iter, inside)
                self.assign(generator.target, None, UNKNOWN, inside)
                for test in generator.ifs:
                    self.expression(test, inside)
            for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
                self.expression(part, inside)
            return UNKNOWN
        for child in ast.iter_child_nodes(node):
            self.expression(child, scope)
        return UNKNOWN

    def _attribute(self, node: ast.Attribute, scope: Scope) -> Values:
        if isinstance(node.value, ast.Name):
            owner = self._self(node.value.id, scope)
            if owner is not None:
                return owner.get(node.attr, UNKNOWN)
        found: set[Value] = set()
        for value in self.expression(node.value, scope):
            if value is None:
                found.add(None)
            elif value[0] in {"ref", "inst"}:
                dotted = f"{value[1]}.{node.attr}"
                self.refer(dotted, node)
                found.add(("ref", dotted))
            elif value[0] == "engine":
                exported = self.exported.get(value[1], {}).get(node.attr)
                found |= exported if exported is not None else {("engine", f"{value[1]}.{node.attr}")}
            else:
                found.add(None)
        return frozenset(found)

    def _call(self, node: ast.Call, scope: Scope) -> Values:
        held = self.expression(node.func, scope)
        arguments = [self.expression(a.value if isinstance(a, ast.Starred) else a, scope) for a in node.args]
        keywords = {k.arg: self.expression(k.value, scope) for k in node.keywords}
        special = self._special(node, arguments)
        if special is not None:
            return special
        found: set[Value] = set()
        for value in held:
            if value is None or value[0] == "engine":
                continue
            if value[0] == "ref":
                self.call(value[1], node, 0, ())
                found.add(("inst", value[1]))
            elif value[0] == "partial":
                self.call(value[1], node, value[2], value[3])
        if not found and len(node.args) == 1 and not keywords and arguments[0] != UNKNOWN and not any(v for v in held):
            # ``name = wrap(name)``: a decorator applied by hand keeps the signature.
            wrapped = {v for v in arguments[0] if v is not None and v[0] == "ref"}
            return frozenset(wrapped | {None}) if wrapped and _wraps(node.func) else UNKNOWN
        return frozenset(found) or UNKNOWN

    def _special(self, node: ast.Call, arguments: list[Values]) -> Values | None:
        """partial(), getattr(), import_module() and lazy importers of ``(module, name)``."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
        texts = [a.value if isinstance(a, ast.Constant) and isinstance(a.value, str) else None for a in node.args]
        if name == "partial" and node.args:
            keywords = tuple(k.arg for k in node.keywords if k.arg)
            known = all(k.arg for k in node.keywords) and not any(isinstance(a, ast.Starred) for a in node.args)
            partials = {("partial", v[1], len(node.args) - 1, keywords) for v in arguments[0] if v is not None and v[0] == "ref"}
            return frozenset(partials) if known and partials else UNKNOWN
        if name == "getattr" and len(node.args) in {2, 3} and texts[1]:
            found: set[Value] = set()
            optional = len(node.args) == 3
            for value in arguments[0]:
                if value is not None and value[0] == "ref":
                    self.guards += optional
                    self.refer(f"{value[1]}.{texts[1]}", node)
                    self.guards -= optional
                    found.add(("ref", f"{value[1]}.{texts[1]}"))
            return frozenset(found | ({None} if optional else set())) or UNKNOWN
        if name in {"hasattr", "find_spec", "has_module"}:
            return UNKNOWN
        if texts and texts[0] and texts[0].partition(".")[0] in UPSTREAMS and all(p.isidentifier() for p in texts[0].split(".")):
            if name == "import_module":
                self.refer(texts[0], node)
                return frozenset({("ref", texts[0])})
            if len(texts) == 2 and texts[1] and texts[1].isidentifier():
                dotted = f"{texts[0]}.{texts[1]}"
                # Resolved at first use, and engines turn a failure into "not available".
                self.guards += 1
                self.refer(dotted, node)
                self.guards -= 1
                return frozenset({("ref", dotted)})
        return None

    # Sites.

    def refer(self, dotted: str, node: Any) -> None:
        key = (dotted, node.lineno, node.col_offset, False)
        if key not in self._seen:
            self._seen.add(key)
            self.found.sites.append(
                Site(dotted, node.lineno, node.col_offset, call=False, guarded=bool(self.guards), end_line=node.end_lineno or node.lineno)
            )

    def call(self, dotted: str, node: ast.Call, places: int, given: tuple[str, ...]) -> None:
        key = (dotted, node.lineno, node.col_offset, True)
        if key in self._seen:
            return
        self._seen.add(key)
        positional = [a for a in node.args if not isinstance(a, ast.Starred)]
        integers: list[tuple[int | str, int]] = [(places + i, a.value) for i, a in enumerate(positional) if _is_integer(a)]  # type: ignore[attr-defined]
        integers += [(k.arg, k.value.value) for k in node.keywords if k.arg and _is_integer(k.value)]  # type: ignore[attr-defined]
        self.found.sites.append(
            Site(
                dotted,
                node.lineno,
                node.col_offset,
                call=True,
                guarded=bool(self.guards),
                positional=places + len(positional),
                keywords=(*given, *(k.arg for k in node.keywords if k.arg)),
                integers=tuple(integers),
                star=len(positional) != len(node.args),
                double_star=any(k.arg is None for k in node.keywords),
                end_line=node.end_lineno or node.lineno,
            )
        )


def _wraps(function: ast.expr) -> bool:
    name = ast.unparse(function).rpartition(".")[2].lower()
    return any(word in name for word in ("wrap", "decorat", "disable", "compile", "cache", "trace", "profile", "register", "with_"))


def _is_integer(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool)
