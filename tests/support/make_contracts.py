"""Reads the names and signatures of every release out of published packages; writes fi_compat/contracts/*.json.gz.

``python make_contracts.py OUT.json.gz UPSTREAM NAME=FOLDER...`` where each FOLDER holds one release's package. Nothing is
imported: each file is parsed with ``ast``, once for all releases that share its bytes.
"""

from __future__ import annotations

import ast
import gzip
import hashlib
import json
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

#: Folders of generated kernels and build inputs: no engine imports from them, and 0.7.4 has 60 MB of them.
LEFT_OUT = (
    "data",
    "experimental",
    "moe_ep/kernel_src",
    "attention/prims_ts",
    "fused_moe/backends",
    "attn_scores",
    "topk_varlen/kernels",
    "gdn_kernels/delta_rule_dsl",
    "trace",
    "jit/attention/generated",
)
#: Folders of kernels: public functions and the names of classes are kept, what is inside the classes is not.
KERNELS = (
    "comm/mnnvl_cutedsl",
    "cute_dsl/attention",
    "cute_dsl/sparse",
    "fused_moe/cake",
    "fused_moe/cute_dsl/blackwell",
    "fused_moe/cute_dsl/rubin",
    "fused_moe/cutile",
    "gdn_kernels",
    "gemm/batch_invariant",
    "gemm/kernels",
    "kda_kernels",
    "mamba/",
    "moe_ep/backends",
    "moe_ep/cute_dsl",
    "msa_ops/",
    "norm/kernels",
    "prims_ts",
    "quantization/kernels",
)
#: Generated modules of embedded kernels; what such a module offers is not known.
LARGEST = 700_000


def signature(function: ast.FunctionDef | ast.AsyncFunctionDef, drop_first: bool = False) -> str:
    """Return the parameter list as source, without annotations."""
    a = function.args
    for parameter in (*a.posonlyargs, *a.args, *a.kwonlyargs, *(p for p in (a.vararg, a.kwarg) if p)):
        parameter.annotation = None
    if drop_first and (a.posonlyargs or a.args):
        (a.posonlyargs or a.args).pop(0)
        if len(a.defaults) > len(a.posonlyargs) + len(a.args):
            a.defaults.pop(0)
    return ast.unparse(a)


def _decorators(node: Any) -> list[str]:
    return [ast.unparse(d.func if isinstance(d, ast.Call) else d).rpartition(".")[2] for d in node.decorator_list]


def _function(node: Any, drop_first: bool = False) -> dict[str, Any] | None:
    decorators = _decorators(node)
    if "overload" in decorators:
        return None
    entry: dict[str, Any] = {"k": "f", "s": signature(node, drop_first), "l": node.lineno}
    if "backend_requirement" in decorators:
        entry["s"] += f"{'' if '*' in entry['s'] else (', *' if entry['s'] else '*')}, skip_check=False"
    if node.name == "__getattr__":
        entry["k"] = "v"
    return entry


def _class(node: ast.ClassDef) -> dict[str, Any]:
    bases = [ast.unparse(b) for b in node.bases]
    entry: dict[str, Any] = {"k": "c", "l": node.lineno, "b": bases, "m": {}}
    if "dataclass" in _decorators(node):
        entry["d"] = 1
    fields: list[str] = []
    keywords: list[str] = []
    values: dict[str, Any] = {}
    body = list(node.body)
    while body:
        item = body.pop(0)
        if isinstance(item, ast.If | ast.Try | ast.With):
            body = [*item.body, *body]
        elif isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = _decorators(item)
            if "property" in decorators or "cached_property" in decorators or "setter" in decorators:
                entry["m"].setdefault(item.name, {"k": "v"})
                continue
            found = _function(item, drop_first="staticmethod" not in decorators)
            if found:
                entry["m"][item.name] = found
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            if "ClassVar" not in ast.unparse(item.annotation):
                value, keyword = item.value, False
                if isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] == "field":
                    options = {k.arg: k.value for k in value.keywords}
                    if isinstance(options.get("init"), ast.Constant) and not options["init"].value:  # type: ignore[attr-defined]
                        continue
                    value = options.get("default", options.get("default_factory"))
                    keyword = isinstance(options.get("kw_only"), ast.Constant) and bool(options["kw_only"].value)  # type: ignore[attr-defined]
                (keywords if keyword else fields).append(item.target.id + (f"={ast.unparse(value)}" if value is not None else ""))
            entry["m"].setdefault(item.target.id, {"k": "v"})
        elif isinstance(item, ast.Assign):
            for target in item.targets:
                if isinstance(target, ast.Name):
                    if isinstance(item.value, ast.Name) and item.value.id in entry["m"]:
                        entry["m"][target.id] = {"k": "a", "t": item.value.id}
                        continue
                    entry["m"].setdefault(target.id, {"k": "v"})
                    value = item.value.elts[0] if isinstance(item.value, ast.Tuple) and len(item.value.elts) == 1 else item.value
                    if isinstance(value, ast.Constant) and isinstance(value.value, int | str):
                        values[target.id] = value.value
    if any(isinstance(d, ast.Call) and "kw_only=True" in ast.unparse(d) for d in node.decorator_list):
        fields.insert(0, "*")
    if keywords:
        fields += keywords if "*" in fields else ["*", *keywords]
    if fields and ("d" in entry or any("NamedTuple" in b for b in bases)):
        entry["f"] = fields
    if any(b.rpartition(".")[2] in {"Enum", "IntEnum", "IntFlag", "Flag", "StrEnum"} for b in bases):
        entry["e"] = values
    # Attributes that instances get in their methods: used to tell a missing one from one set later.
    attributes = {
        target.attr
        for method in node.body
        if isinstance(method, ast.FunctionDef)
        for statement in ast.walk(method)
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    }
    entry["i"] = sorted(a for a in attributes if a not in entry["m"])
    return entry


class _Module:
    def __init__(self, name: str, package: bool) -> None:
        self.name = name
        self.package = package
        self.names: dict[str, Any] = {}
        self.stars: list[str] = []
        self.exported: list[str] | None = None
        self.open = False
        self.tables: dict[str, list[str]] = {}

    def absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        if not self.package:
            parts.pop()
        parts = parts[: len(parts) - node.level + 1]
        return ".".join([*parts, *([node.module] if node.module else [])])

    def put(self, name: str, entry: dict[str, Any] | None, otherwise: bool) -> None:
        """Keep a name; what an except or else branch defines never replaces what the first branch does."""
        if entry is not None and not (otherwise and name in self.names):
            self.names[name] = entry

    def read(self, body: list[ast.stmt], otherwise: bool = False) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.put(node.name, _function(node), otherwise)
                if node.name == "__getattr__":
                    self._lazy(node)
            elif isinstance(node, ast.ClassDef):
                self.put(node.name, _class(node), otherwise)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    bound = alias.asname or alias.name.partition(".")[0]
                    self.put(bound, {"k": "a", "t": alias.name if alias.asname else bound}, otherwise)
            elif isinstance(node, ast.ImportFrom):
                module = self.absolute(node)
                for alias in node.names:
                    if alias.name == "*":
                        self.stars.append(module)
                    else:
                        self.put(alias.asname or alias.name, {"k": "a", "t": f"{module}.{alias.name}"}, otherwise)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                self._assign(node, otherwise)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id == "__all__":
                self.exported = (self.exported or []) + _strings(node.value)
            elif isinstance(node, ast.If):
                test = ast.unparse(node.test)
                if "TYPE_CHECKING" in test:
                    self.read(node.orelse, otherwise)
                    continue
                self.read(node.body, otherwise)
                self.read(node.orelse, True)
            elif isinstance(node, ast.Try):
                self.read([*node.body, *node.orelse, *node.finalbody], otherwise)
                for handler in node.handlers:
                    self.read(handler.body, True)
            elif isinstance(node, ast.With):
                self.read(node.body, otherwise)
            elif isinstance(node, ast.For) or (isinstance(node, ast.Expr) and "globals()" in ast.unparse(node)):
                self.open = self.open or "globals()" in ast.unparse(node)

    def _assign(self, node: ast.Assign | ast.AnnAssign, otherwise: bool) -> None:
        if node.value is None:
            return
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            for name in target.elts if isinstance(target, ast.Tuple) else [target]:
                if not isinstance(name, ast.Name):
                    continue
                if name.id == "__all__":
                    self.exported = _strings(node.value)
                    continue
                if isinstance(node.value, ast.Dict | ast.Set | ast.Tuple | ast.List | ast.Call):
                    self.tables[name.id] = _strings(node.value)
                if isinstance(node.value, ast.Name) and node.value.id in self.names:
                    entry: dict[str, Any] = {"k": "a", "t": f"{self.name}.{node.value.id}"}
                elif isinstance(node.value, ast.Constant) and node.value.value is None:
                    # A name that a failed import leaves as None.
                    entry = {"k": "v"}
                    otherwise = True
                else:
                    entry = {"k": "v"}
                self.put(name.id, entry, otherwise)

    def _lazy(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Names that a module's __getattr__ answers for: literals it compares with, and the tables that it looks into."""
        found: list[str] = []
        for part in ast.walk(node):
            if isinstance(part, ast.Compare):
                found += [s for c in part.comparators for s in _strings(c)]
                found += [s for c in part.comparators if isinstance(c, ast.Name) for s in self.tables.get(c.id, [])]
            elif isinstance(part, ast.Name) and part.id in self.tables:
                found += self.tables[part.id]
        found = [f for f in found if f.isidentifier()]
        if not found:
            self.open = True
        for name in found:
            self.names.setdefault(name, {"k": "v"})


def _strings(node: ast.AST) -> list[str]:
    return [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def read_module(job: tuple[str, bool, str]) -> dict[str, Any]:
    """Parse one file and return what it defines."""
    name, package, path = job
    module = _Module(name, package)
    raw = Path(path).read_bytes()
    if len(raw) > LARGEST or "/".join(name.split(".")[1:]) in LEFT_OUT:
        # That it is there is recorded, and what it offers is not known.
        return {"open": 1, "names": {}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module.read(ast.parse(raw).body)
    relative = "/".join(name.split(".")[1:])
    if relative.startswith(KERNELS):
        module.names = {n: {"k": "c", "o": 1} if e["k"] == "c" else e for n, e in module.names.items() if not n.startswith("_")}
    result: dict[str, Any] = {"names": module.names, **({"private": 1} if relative.startswith(KERNELS) else {})}
    if module.stars:
        result["stars"] = module.stars
    if module.exported is not None:
        result["all"] = sorted(set(module.exported))
    if module.open:
        result["open"] = 1
    return result


def modules(folder: Path, package: str) -> dict[str, tuple[bool, Path]]:
    """Return every module of a package: name -> (is a package, file)."""
    found = {}
    root = folder / package
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root).as_posix()
        left = next((left for left in LEFT_OUT if relative.startswith(f"{left}/")), None)
        if "__pycache__" in relative or (left is not None and relative != f"{left}/__init__.py"):
            continue
        parts = [package, *relative.removesuffix(".py").split("/")]
        is_package = parts[-1] == "__init__"
        if is_package:
            parts.pop()
        found[".".join(parts)] = (is_package, path)
    return found


def build(package: str, folders: dict[str, Path]) -> dict[str, Any]:
    """Read all releases and fold them into intervals."""
    releases = list(folders)
    per_release = [modules(folder, package) for folder in folders.values()]
    jobs: dict[tuple[str, str], tuple[str, bool, str]] = {}
    keys: list[dict[str, tuple[str, str]]] = []
    for found in per_release:
        mine = {}
        for name, (is_package, path) in found.items():
            key = (name, hashlib.sha256(path.read_bytes()).hexdigest())
            jobs.setdefault(key, (name, is_package, str(path)))
            mine[name] = key
        keys.append(mine)
    with ProcessPoolExecutor() as pool:
        parsed = dict(zip(jobs, pool.map(read_module, jobs.values(), chunksize=16), strict=True))
    return fold(releases, [{name: parsed[key] for name, key in mine.items()} for mine in keys])


def fold(releases: list[str], contents: list[dict[str, Any]]) -> dict[str, Any]:
    """Fold what each release has into ``[first, last, object]`` intervals over the list of releases."""
    objects: dict[str, int] = {}

    def intern(entry: Any) -> int:
        return objects.setdefault(json.dumps(entry, sort_keys=True, separators=(",", ":")), len(objects))

    def strip(entry: dict[str, Any], name: str, lines: dict[str, int]) -> dict[str, Any]:
        entry = dict(entry)
        if "l" in entry:
            lines[name] = entry.pop("l")
        if "m" in entry:
            entry["m"] = {n: strip(m, f"{name}.{n}", lines) for n, m in entry["m"].items()}
        return entry

    folded: dict[str, Any] = {}
    for index, release in enumerate(contents):
        for module, content in release.items():
            target = folded.setdefault(module, {"in": [], "names": {}, "lines": {}, "extra": []})
            _extend(target["in"], index, None)
            extra = {k: content[k] for k in ("stars", "all", "open", "private") if k in content}
            if extra:
                _extend(target["extra"], index, intern(extra))
            lines: dict[str, int] = {}
            for name, entry in content["names"].items():
                _extend(target["names"].setdefault(name, []), index, intern(strip(entry, name, lines)))
            for name, line in lines.items():
                _extend(target["lines"].setdefault(name, []), index, line)
    for target in folded.values():
        target["names"] = dict(sorted(target["names"].items()))
        target["lines"] = {n: [i for interval in v for i in interval] for n, v in sorted(target["lines"].items())}
    left_out = [f"{releases and next(iter(folded)).partition('.')[0]}.{path.replace('/', '.')}" for path in LEFT_OUT]
    return {
        "schema": 1,
        "releases": releases,
        "left_out": left_out,
        "objects": [json.loads(o) for o in objects],
        "modules": dict(sorted(folded.items())),
    }


def _extend(intervals: list[list[int]], index: int, value: int | None) -> None:
    tail = [] if value is None else [value]
    if intervals and intervals[-1][1] == index - 1 and intervals[-1][2:] == tail:
        intervals[-1][1] = index
    else:
        intervals.append([index, index, *tail])


def at(data: dict[str, Any], index: int) -> dict[str, Any]:
    """Return what one release has: module -> name -> ``[object, line]``, and what else is said of a module."""
    found: dict[str, Any] = {}
    for module, record in data["modules"].items():
        if not any(first <= index <= last for first, last in record["in"]):
            continue
        names = {n: data["objects"][i[2]] for n, intervals in record["names"].items() for i in intervals if i[0] <= index <= i[1]}
        flat = {n: [v[i : i + 3] for i in range(0, len(v), 3)] for n, v in record["lines"].items()}
        lines = {n: i[2] for n, intervals in flat.items() for i in intervals if i[0] <= index <= i[1]}
        extra = [data["objects"][i[2]] for i in record["extra"] if i[0] <= index <= i[1]]
        found[module] = {"names": names, "lines": lines, "extra": extra}
    return found


def write(data: dict[str, Any], out: Path) -> None:
    """Write the same bytes for the same data."""
    out.write_bytes(gzip.compress(json.dumps(data, separators=(",", ":")).encode(), 9, mtime=0))


def main() -> None:
    """Read the folders named and write one file."""
    out, package, *pairs = sys.argv[1:]
    folders = {name: Path(folder) for name, _, folder in (p.partition("=") for p in pairs)}
    data = build(package, folders)
    write(data, Path(out))
    print(f"{out}: {len(data['releases'])} releases, {len(data['modules'])} modules, {Path(out).stat().st_size} bytes")


if __name__ == "__main__":
    main()
