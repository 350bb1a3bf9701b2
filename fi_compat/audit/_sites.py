"""Finds, in one parsed file, every reference to an upstream name and every call of one: which name, how it is called, and where.

Nothing is imported or run. Names are followed in the order of the statements, scope by scope: imports at any depth, aliases,
``name = wrap(name)``, partials, lazy importers, instances of known classes and attributes set on ``self``. A branch that may
or may not run leaves both meanings; star-arguments leave a call half-known, never "ok".
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from ._expressions import Expressions
from ._scopes import GUARD_WORDS, UNKNOWN, UPSTREAMS, FileSites, Scope, Site, Values, catches, leaves, merged

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["UPSTREAMS", "FileSites", "Site", "sites_of"]


class _Reader(Expressions):
    # Statements, in order.

    def block(self, body: Iterable[ast.stmt], scope: Scope) -> None:
        for node in body:
            self.statement(node, scope)

    def statement(self, node: ast.stmt, scope: Scope) -> None:
        handler = getattr(self, f"_{type(node).__name__}", None)
        if handler is not None:
            handler(node, scope)
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                self.statement(child, scope)
            else:
                self.expression(child, scope)

    def _Import(self, node: ast.Import, scope: Scope) -> None:  # noqa: N802 - named for the node
        for alias in node.names:
            top = alias.name.partition(".")[0]
            if top in UPSTREAMS:
                self.refer(alias.name, node)
                dotted = alias.name if alias.asname else top
                self.bind(scope, alias.asname or top, frozenset({("ref", dotted)}))
            elif alias.name in self.exported and alias.asname:
                self.bind(scope, alias.asname, frozenset({("engine", alias.name)}))
            else:
                self.bind(scope, alias.asname or top, frozenset({("engine", alias.name if alias.asname else top)}))

    def _ImportFrom(self, node: ast.ImportFrom, scope: Scope) -> None:  # noqa: N802
        module = self._absolute(node)
        for alias in node.names:
            name = alias.asname or alias.name
            if module.partition(".")[0] in UPSTREAMS:
                if alias.name == "*":
                    self.refer(module, node)
                    continue
                self.refer(f"{module}.{alias.name}", node)
                self.bind(scope, name, frozenset({("ref", f"{module}.{alias.name}")}))
            elif alias.name == "*":
                for exported, values in self.exported.get(module, {}).items():
                    self.bind(scope, exported, values)
            else:
                known = self.exported.get(module, {}).get(alias.name)
                self.bind(scope, name, frozenset({("engine", f"{module}.{alias.name}")}) if known is None else known)

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.module.split(".")
        if not self.package:
            parts = parts[:-1]
        parts = parts[: len(parts) - node.level + 1]
        return ".".join([*parts, *([node.module] if node.module else [])])

    def _FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:  # noqa: N802
        for decorator in node.decorator_list:
            self.expression(decorator, scope)
        for default in (*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)):
            self.expression(default, scope)
        self.bind(scope, node.name, UNKNOWN)
        self.later.append((node, scope))

    _AsyncFunctionDef = _FunctionDef

    def _ClassDef(self, node: ast.ClassDef, scope: Scope) -> None:  # noqa: N802
        for base in (*node.bases, *(k.value for k in node.keywords)):
            self.expression(base, scope)
        inside = Scope(scope)
        inside.self_values = {}
        self.bind(scope, node.name, UNKNOWN)
        self.block(node.body, inside)
        # Methods see module and function scopes, not the class body; what they set on self they share.
        mine = [(f, s) for f, s in self.later if s is inside]
        self.later = [(f, s) for f, s in self.later if s is not inside]
        self.later.append((("class", mine, inside), scope))

    def _Assign(self, node: ast.Assign, scope: Scope) -> None:  # noqa: N802
        values = self.expression(node.value, scope)
        for target in node.targets:
            self.assign(target, node.value, values, scope)

    def _AnnAssign(self, node: ast.AnnAssign, scope: Scope) -> None:  # noqa: N802
        if node.value is not None:
            self.assign(node.target, node.value, self.expression(node.value, scope), scope)

    def _AugAssign(self, node: ast.AugAssign, scope: Scope) -> None:  # noqa: N802
        self.expression(node.value, scope)
        self.assign(node.target, None, UNKNOWN, scope)

    def _Global(self, node: ast.Global, scope: Scope) -> None:  # noqa: N802
        scope.globals.update(node.names)

    def _Delete(self, node: ast.Delete, scope: Scope) -> None:  # noqa: N802
        for target in node.targets:
            self.assign(target, None, UNKNOWN, scope)

    def _For(self, node: ast.For | ast.AsyncFor, scope: Scope) -> None:  # noqa: N802
        self.expression(node.iter, scope)
        self.assign(node.target, None, UNKNOWN, scope)
        self.branches(scope, node.body, [])
        self.block(node.orelse, scope)

    _AsyncFor = _For

    def _While(self, node: ast.While, scope: Scope) -> None:  # noqa: N802
        self.expression(node.test, scope)
        self.branches(scope, node.body, [])
        self.block(node.orelse, scope)

    def _With(self, node: ast.With | ast.AsyncWith, scope: Scope) -> None:  # noqa: N802
        suppressed = False
        for item in node.items:
            values = self.expression(item.context_expr, scope)
            suppressed = suppressed or "suppress(" in ast.unparse(item.context_expr)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, None, values, scope)
        self.guards += suppressed
        self.block(node.body, scope)
        self.guards -= suppressed

    _AsyncWith = _With

    def _If(self, node: ast.If, scope: Scope) -> None:  # noqa: N802
        text = ast.unparse(node.test)
        if "TYPE_CHECKING" in text:
            # What is imported here never runs, and names an engine's annotations only.
            self.block(node.orelse, scope)
            return
        self.expression(node.test, scope)
        guard = any(word in text for word in GUARD_WORDS)
        self.guards += guard
        self.branches(scope, node.body, node.orelse)
        self.guards -= guard

    def _Try(self, node: ast.Try, scope: Scope) -> None:  # noqa: N802
        caught = any(catches(handler) for handler in node.handlers)
        before = dict(scope.bindings)
        self.guards += caught
        self.block(node.body, scope)
        self.guards -= caught
        self.block(node.orelse, scope)
        after = scope.bindings
        for handler in node.handlers:
            scope.bindings = {**before, **({handler.name: UNKNOWN} if handler.name else {})}
            self.guards += 1
            self.block(handler.body, scope)
            self.guards -= 1
            if not leaves(handler.body):
                after = merged(after, scope.bindings)
        scope.bindings = after
        self.block(node.finalbody, scope)

    _TryStar = _Try

    def _Match(self, node: ast.Match, scope: Scope) -> None:  # noqa: N802
        self.expression(node.subject, scope)
        for case in node.cases:
            self.branches(scope, case.body, [])

    def branches(self, scope: Scope, first: list[ast.stmt], second: list[ast.stmt]) -> None:
        """Run two alternatives from the same state and keep what either may leave."""
        before = scope.bindings
        scope.bindings = dict(before)
        self.block(first, scope)
        left = scope.bindings
        scope.bindings = dict(before)
        self.block(second, scope)
        right = scope.bindings
        if leaves(first):
            scope.bindings = right
        elif leaves(second):
            scope.bindings = left
        else:
            scope.bindings = merged(left, right)

    # Bodies of functions, once the module's names are known.

    def bodies(self) -> None:
        while self.later:
            item, scope = self.later.pop(0)
            if isinstance(item, tuple):
                self._methods(item[1], item[2], scope)
            else:
                self._body(item, scope, None)

    def _methods(self, methods: list[tuple[Any, Scope]], inside: Scope, outer: Scope) -> None:
        # Twice: a method may use what one further down sets on self. Sites are noted once.
        values = inside.self_values if inside.self_values is not None else {}
        for _ in range(2):
            pending = self.later
            for function, _scope in methods:
                self.later = []
                if isinstance(function, tuple):  # a class inside the class
                    self._methods(function[1], function[2], outer)
                    continue
                self._body(function, outer, values)
                self.bodies()
            self.later = pending

    def _body(self, function: Any, scope: Scope, self_values: dict[str, Values] | None) -> None:
        a = function.args
        names = [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)] + [p.arg for p in (a.vararg, a.kwarg) if p]
        inside = Scope(scope, dict.fromkeys(names, UNKNOWN))
        static = any(ast.unparse(d).endswith(("staticmethod", "classmethod")) for d in function.decorator_list)
        if self_values is not None and names and not static:
            inside.self_name = names[0]
            inside.self_values = self_values
            del inside.bindings[names[0]]
        guards, self.guards = self.guards, 0
        self.block(function.body, inside)
        self.guards = guards


def sites_of(source: bytes, module: str, *, package: bool = False, exported: Mapping[str, Mapping[str, Values]] | None = None) -> FileSites:
    """Parse a file and return its sites.

    Parameters
    ----------
    source : bytes
        The file.
    module : str
        Its dotted name in the engine, for relative imports: "sglang.srt.layers.moe".
    package : bool
        It is an ``__init__.py``.
    exported : mapping, optional
        Upstream names that other modules of the engine hand on: module -> name -> values.

    Returns
    -------
    FileSites
        With ``problem`` set where the file cannot be parsed.
    """
    import warnings

    reader = _Reader(module, package, exported or {})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reader.found.problem = f"does not parse: {type(error).__name__}: {error}"
        return reader.found
    top = Scope(None)
    try:
        reader.block(tree.body, top)
        reader.bodies()
    except RecursionError as error:
        reader.found.problem = f"is nested too deep: {error}"
    reader.found.exports = {
        name: values for name, values in top.bindings.items() if any(v is not None and v[0] in {"ref", "partial", "inst"} for v in values)
    }
    return reader.found
