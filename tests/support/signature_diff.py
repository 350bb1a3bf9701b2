"""Print a classified diff of FlashInfer's public signatures: ``signature_diff.py OLD_FOLDER NEW_FOLDER``.

Classes: added and removed functions; parameters added at the end, inserted (positional callers shift), removed, made
keyword-only, now required or optional, and defaults that changed.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path


def functions(root: Path) -> dict[str, tuple[list[tuple[str, str | None]], list[tuple[str, str | None]]]]:
    """Return ``module.name`` to (positional parameters, keyword-only parameters), each with its default's source."""
    found = {}
    for path in sorted((root / "flashinfer").rglob("*.py")):
        if "/data/" in str(path):
            continue
        module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        try:
            tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
        except SyntaxError:
            continue
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
                continue
            if any("overload" in ast.unparse(d) for d in node.decorator_list):
                continue
            a = node.args
            positional = [*a.posonlyargs, *a.args]
            defaults: list[str | None] = [None] * (len(positional) - len(a.defaults)) + [ast.unparse(d) for d in a.defaults]
            keyword = [(k.arg, ast.unparse(d) if d is not None else None) for k, d in zip(a.kwonlyargs, a.kw_defaults, strict=True)]
            found[f"{module}.{node.name}"] = ([(p.arg, d) for p, d in zip(positional, defaults, strict=True)], keyword)
    return found


def changes(old, new) -> list[str]:
    """Return the classified changes of one function."""
    out = []
    before, after = [n for n, _ in old[0]], [n for n, _ in new[0]]
    common = [n for n in after if n in before]
    last = max((after.index(n) for n in common), default=-1)
    for i, name in enumerate(after):
        if name not in before:
            required = ", REQUIRED" if new[0][i][1] is None else ""
            out.append(f"INSERTED at {i}: {name} (positional callers shift)" if i < last else f"added at the end: {name}{required}")
    gone = [n for n in before if n not in after]
    keyword = dict(new[1])
    out += [f"made keyword-only: {n}" if n in keyword else f"REMOVED: {n}" for n in gone]
    out += [f"REMOVED: {n}" for n in dict(old[1]) if n not in keyword and n not in after]
    out += [
        f"added, keyword-only: {n}{', REQUIRED' if default is None else ''}"
        for n, default in keyword.items()
        if n not in dict(old[1]) and n not in before
    ]
    moved = [n for n in common if before.index(n) - sum(g in before[: before.index(n)] for g in gone) != common.index(n)]
    out += [f"MOVED: {n}" for n in moved]
    defaults_old, defaults_new = dict([*old[0], *old[1]]), dict([*new[0], *new[1]])
    for n, default in defaults_new.items():
        if n not in defaults_old or defaults_old[n] == default:
            continue
        # None is a parameter without a default; a default of None is the text "None".
        if default is None:
            out.append(f"NOW REQUIRED: {n} (its default was {defaults_old[n]})")
        elif defaults_old[n] is None:
            out.append(f"now optional: {n}={default}")
        else:
            out.append(f"DEFAULT CHANGED: {n} {defaults_old[n]} -> {default}")
    return out


if __name__ == "__main__":
    old_functions, new_functions = functions(Path(sys.argv[1])), functions(Path(sys.argv[2]))
    total = 0
    for name in sorted({*old_functions, *new_functions}):
        if name not in new_functions:
            print(f"removed   {name}")
        elif name not in old_functions:
            print(f"added     {name}")
        else:
            for change in changes(old_functions[name], new_functions[name]):
                print(f"changed   {name}: {change}")
                total += 1
    print(f"{len(old_functions)} functions before, {len(new_functions)} after, {total} changes of parameters")
