"""What is installed: folders, distributions, marks of structure. Reads files, imports no upstream."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _table
from ._selection import FlashInferFacts, Owner, Problem, TritonKernelsFacts

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType


__all__ = [
    "dist_version",
    "distribution",
    "flashinfer_facts",
    "function_parameters",
    "locate",
    "record_owner",
    "triton_kernels_facts",
    "unresolved_imports",
]


def locate(name: str) -> tuple[str | None, str, bool, Problem | None]:
    """Find the folder of a top-level package without importing it.

    Returns
    -------
    tuple
        ``(root, via, namespace, problem)``: ``via`` is "sys.modules" when the package is already there (an engine may
        have aliased its vendored copy), else "sys.path"; ``namespace`` is True for a folder without ``__init__.py``.
    """
    loaded: ModuleType | None = sys.modules.get(name)
    if loaded is not None:
        paths = [str(p) for p in getattr(loaded, "__path__", ())]
        if paths:
            return paths[0], "sys.modules", getattr(loaded, "__file__", None) is None, None
        where = getattr(loaded, "__file__", None) or repr(loaded)
        problem = Problem(str(where), f"sys.modules[{name!r}] is not a package", f"remove or rename {where}")
        return None, "sys.modules", False, problem
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, OSError) as error:
        return None, "sys.path", False, Problem(name, f"looking for {name} failed: {error!r}", "check sys.path and *.pth files")
    if spec is None:
        return None, "sys.path", False, _file_in_the_way(name)
    if spec.submodule_search_locations is None:
        where = spec.origin or name
        problem = Problem(where, f"{where} is a single file where the package {name} should be", f"remove or rename {where}")
        return None, "sys.path", False, problem
    locations = [str(p) for p in spec.submodule_search_locations]
    return locations[0] if locations else None, "sys.path", spec.origin is None, None


def _unreadable(root: str) -> Problem | None:
    """Say why a package's folder cannot be listed, or None."""
    try:
        os.listdir(root)  # noqa: PTH208 - the error is the point
    except OSError as error:
        reason = error.strerror or repr(error)
        return Problem(root, f"{root} cannot be read: {reason}", f"make {root} readable or reinstall the package that owns it")
    return None


def _file_in_the_way(name: str) -> Problem | None:
    """Say why a package that has an entry on sys.path was not found there: the entry is a file, or unreadable."""
    for entry in sys.path:
        path = os.path.join(entry or os.getcwd(), name)  # noqa: PTH109, PTH118 - os.path is what sys.path is made of
        if not os.path.lexists(path):
            continue
        if os.path.isfile(path):  # noqa: PTH113
            return Problem(path, f"{path} is a file where the package {name} should be", f"remove or rename {path}")
        reason = "it cannot be read"
        try:
            os.listdir(path)  # noqa: PTH208
        except OSError as error:
            reason = error.strerror or repr(error)
        return Problem(path, f"{path} cannot be searched: {reason}", f"make {path} readable or reinstall the package")
    return None


def read_text(path: str | Path) -> str:
    """Read a source file as UTF-8, with undecodable bytes kept visible."""
    return Path(path).read_text(encoding="utf-8", errors="replace")


def distribution(name: str) -> Any:
    """Find an installed distribution by name, or None."""
    import importlib_metadata

    try:
        return importlib_metadata.distribution(name)
    except (importlib_metadata.PackageNotFoundError, ValueError, OSError):
        return None


def dist_version(name: str) -> tuple[str | None, Problem | None]:
    """Return the version in a distribution's METADATA, and what is wrong with it."""
    found = distribution(name)
    if found is None:
        return None, None
    where = str(getattr(found, "_path", name))
    remedy = f"pip install --force-reinstall --no-deps {name}"
    try:
        text = found.read_text("METADATA") or found.read_text("PKG-INFO")
    except (OSError, UnicodeDecodeError) as error:
        return None, Problem(where, f"{where}/METADATA cannot be read: {error}", remedy)
    match = re.search(r"(?m)^Version:[ \t]*(\S+)[ \t]*$", text or "")
    if match is None:
        return None, Problem(where, f"{where}/METADATA has no Version", remedy)
    return match.group(1), None


def _build_meta_version(root: str) -> tuple[str | None, Problem | None]:
    """Read ``__version__`` out of FlashInfer's ``_build_meta.py`` with ast."""
    path = Path(root, "_build_meta.py")
    remedy = "pip install --force-reinstall --no-deps flashinfer-python"
    try:
        if not path.exists():
            return None, None
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError) as error:
        return None, Problem(str(path), f"{path} cannot be parsed: {error}", remedy)
    for node in tree.body:
        if (
            isinstance(node, (ast.Assign, ast.AnnAssign))
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
            and any(isinstance(t, ast.Name) and t.id == "__version__" for t in getattr(node, "targets", None) or [node.target])  # type: ignore[union-attr]
        ):
            return node.value.value, None
    return None, Problem(str(path), f"{path} has no __version__", remedy)


def function_parameters(source: str, name: str) -> tuple[str, ...] | None:
    """Return the parameter names of the last top-level ``def name`` in a source text, or None.

    Only the signature is parsed: the whole of fp4_quantization.py in 0.7.4 takes 40 ms, its signature less than one.
    """
    found: tuple[str, ...] | None = None
    for match in re.finditer(rf"(?m)^(?:async )?def {re.escape(name)}\(", source):
        depth, position = 1, match.end()
        for position in range(match.end(), len(source)):
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(source[position], 0)
            if depth == 0:
                break
        try:
            node = ast.parse(source[match.start() : position + 1] + ": pass").body[0]
        except SyntaxError:
            continue
        args = node.args  # type: ignore[attr-defined]
        found = tuple(a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs))
    return found


def _flashinfer_marks(root: str) -> frozenset[tuple[str, str, str]]:
    """Return which marks of the table the FlashInfer source below ``root`` has."""
    wanted = {mark for row in _table.FLASHINFER_ROWS for mark in row.marks}
    sources: dict[str, str] = {}
    found = set()
    for file, function, parameter in wanted:
        if file not in sources:
            try:
                sources[file] = read_text(Path(root, file))
            except OSError:
                sources[file] = ""
        if parameter in (function_parameters(sources[file], function) or ()):
            found.add((file, function, parameter))
    return frozenset(found)


def _strict() -> bool:
    return os.environ.get("FI_COMPAT_STRICT", "") not in {"", "0"}


def flashinfer_facts() -> FlashInferFacts:
    """Gather what ``select`` needs to choose an adapter for the installed FlashInfer."""
    root, via, _, problem = locate("flashinfer")
    problems = [problem] if problem else []
    file_version = None
    if root is not None and (problem := _unreadable(root)) is not None:
        return FlashInferFacts(root=root, via=via, problems=(problem,), override=os.environ.get("FI_COMPAT_FLASHINFER_ADAPTER") or None)
    if root is not None:
        file_version, problem = _build_meta_version(root)
        problems += [problem] if problem else []
        missing = next((f for f in ("__init__.py", "quantization") if not Path(root, f).exists()), None)
        if missing is not None:
            problems.append(
                Problem(
                    root,
                    f"{root} has no {missing}: a half-uninstalled FlashInfer, or a folder of that name",
                    f"remove {root}, then pip install --force-reinstall --no-deps flashinfer-python",
                )
            )
    recorded, problem = dist_version("flashinfer-python")
    problems += [problem] if problem else []
    version = file_version or recorded
    marks = _flashinfer_marks(root) if root is not None and version not in _table.FLASHINFER_RELEASES else None
    return FlashInferFacts(
        root=root,
        file_version=file_version,
        dist_version=recorded,
        via=via,
        marks=marks,
        problems=tuple(problems),
        override=os.environ.get("FI_COMPAT_FLASHINFER_ADAPTER") or None,
        strict=_strict(),
        python=sys.version_info[:2],
    )


def record_owner(dist: Any, package: str, root: str | None, *, hashes: bool) -> Owner | None:
    """Say how much of a package's folder a distribution's RECORD owns, or None when it lists nothing of it.

    Parameters
    ----------
    dist : Distribution
        An installed distribution.
    package : str
        Top-level folder, "triton_kernels".
    root : str or None
        The folder that is imported; a distribution that is installed elsewhere owns nothing of it.
    hashes : bool
        Compare the recorded sha256 of each file with the file on disk (1 ms a file).
    """
    import base64
    import csv
    import hashlib

    record = dist.read_text("RECORD")
    if not record or f"{package}/" not in record:
        return None
    base = Path(str(dist.locate_file("")))
    if root is not None and base.joinpath(package).resolve() != Path(root).resolve():
        return None
    rows = [r for r in csv.reader(record.splitlines()) if r and r[0].startswith(f"{package}/") and r[0].endswith(".py")]
    matching = changed = gone = 0
    if hashes:
        for name, digest, *_ in rows:
            try:
                data = base.joinpath(name).read_bytes()
            except OSError:
                gone += 1
                continue
            actual = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            if digest == f"sha256={actual}":
                matching += 1
            else:
                changed += 1
    version = dist_version(dist.name)[0] or "?"
    return Owner(dist.name, version, len(rows), matching, changed, gone)


def _triton_kernels_owners(root: str | None, *, hashes: bool) -> tuple[Owner, ...]:
    """Return the distributions whose RECORD lists the triton_kernels folder; the known names first, then all."""
    import importlib_metadata

    dists = [d for d in map(distribution, _table.TRITON_KERNELS_OWNERS) if d is not None]
    owners = [o for d in dists if (o := record_owner(d, "triton_kernels", root, hashes=hashes))]
    if owners or root is None:
        return tuple(owners)
    parent = str(Path(root).parent)
    for dist in importlib_metadata.distributions(path=[parent]):
        owner = record_owner(dist, "triton_kernels", root, hashes=hashes)
        if owner is not None:
            owners.append(owner)
    return tuple(owners)


def unresolved_imports(root: str, entries: Iterable[str], package: str = "triton_kernels") -> tuple[str, ...]:
    """Follow the imports of ``entries`` inside the package by ast and return those that lead nowhere.

    A half-uninstalled tree and an overlay of two trees show here: a module of one generation imports a name that the
    file of the other does not define.
    """
    seen: dict[str, ast.Module | None] = {}

    def parsed(relative: str) -> ast.Module | None:
        if relative not in seen:
            try:
                seen[relative] = ast.parse(read_text(Path(root, relative)))
            except (OSError, SyntaxError, ValueError):
                seen[relative] = None
        return seen[relative]

    def module_file(parts: list[str]) -> str | None:
        stem = "/".join(parts)
        for candidate in (f"{stem}.py", f"{stem}/__init__.py" if stem else "__init__.py"):
            if Path(root, candidate).is_file():
                return candidate
        return stem if Path(root, stem).is_dir() else None

    missing: list[str] = []
    queue = list(entries)
    done: set[str] = set()
    while queue:
        current = queue.pop()
        if current in done or not current.endswith(".py"):
            continue
        done.add(current)
        tree = parsed(current)
        if tree is None:
            missing.append(f"{current}: missing or not parseable")
            continue
        here = current.split("/")[:-1]
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom):
                continue
            parts = (node.module or "").split(".") if node.module else []
            if node.level:
                parts = here[: len(here) - node.level + 1] + parts
            elif parts[:1] == [package]:
                parts = parts[1:]
            else:
                continue
            target = module_file(parts)
            if target is None:
                missing.append(f"{current} imports {'.'.join([package, *parts])}, which is not there")
                continue
            queue.append(target)
            source = parsed(target) if target.endswith(".py") else None
            for alias in node.names:
                submodule = module_file([*parts, alias.name])
                if submodule is not None:
                    queue.append(submodule)
                elif source is not None and alias.name != "*" and alias.name not in _defined(source):
                    missing.append(f"{current} imports {alias.name} from {target}, which does not define it")
    return tuple(dict.fromkeys(missing))


def _defined(tree: ast.Module) -> set[str]:
    """Return the names that a module binds at its top level, inside if and try as well."""
    names: set[str] = set()
    stack: list[ast.AST] = list(tree.body)
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update((a.asname or a.name).split(".")[0] for a in node.names)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            names.update(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        else:
            stack.extend(ast.iter_child_nodes(node))
    return names


def _marker_files(root: str) -> frozenset[str]:
    """Return which of the table's files and text marks exist below ``root``."""
    wanted = set(_table.UNRELATED_MARKS)
    for row in _table.TRITON_KERNELS_ROWS:
        wanted.update(row.marks, row.absent, row.requires, row.foreign)
    found = {name for name in wanted if not name.startswith("text:") and Path(root, name).is_file()}
    base = Path(root, "tensor_details/layout_details/base.py")
    try:
        if base.is_file() and "can_preserve_storage_as" in read_text(base):
            found.add(_table.PRESERVE_STORAGE_MARK)
    except OSError:
        pass
    return frozenset(found)


def vendored_triton_kernels() -> str | None:
    """Return the folder of the copy that vLLM vendors, where vLLM is installed and has not aliased it yet."""
    root, _, _, _ = locate("vllm")
    if root is None:
        return None
    folder = Path(root, "third_party", "triton_kernels")
    return str(folder) if folder.is_dir() else None


def triton_kernels_facts(*, deep: bool = False) -> TritonKernelsFacts:
    """Gather what ``select`` needs to choose an adapter for the installed triton_kernels.

    Parameters
    ----------
    deep : bool
        Compare hashes and follow imports always (the doctor); otherwise only when marks conflict.
    """
    override = os.environ.get("FI_COMPAT_TRITON_KERNELS_ADAPTER") or None
    root, via, namespace, problem = locate("triton_kernels")
    problems = [problem] if problem else []
    if root is None:
        return TritonKernelsFacts(
            root=None,
            via=via,
            problems=tuple(problems),
            vendored=vendored_triton_kernels(),
            override=override,
            strict=_strict(),
            owners=_triton_kernels_owners(None, hashes=False),
        )
    if (problem := _unreadable(root)) is not None:
        return TritonKernelsFacts(root=root, via=via, problems=(problem,), override=override)
    topk_parameters = None
    topk = Path(root, "topk.py")
    try:
        if topk.exists():
            topk_parameters = function_parameters(read_text(topk), "topk")
    except OSError as error:
        problems.append(
            Problem(
                str(topk),
                f"{topk} cannot be read: {error.strerror or error!r}",
                f"make {topk} readable or reinstall the package that owns it",
            )
        )
    files = _marker_files(root)
    owners = _triton_kernels_owners(root, hashes=deep)
    two_owners = len([o for o in owners if o.name != _table.UNRELATED_TRITON_KERNELS]) > 1
    unresolved: tuple[str, ...] = ()
    conflict = two_owners or any(
        files & set(row.foreign)
        for row in _table.TRITON_KERNELS_ROWS
        if topk_parameters is not None
        and set(row.has_parameters) <= set(topk_parameters)
        and not set(row.lacks_parameters) & set(topk_parameters)
    )
    if deep or conflict:
        owners = _triton_kernels_owners(root, hashes=True)
        entries = [f for f in ("topk.py", "routing.py", "tensor.py", "matmul_ogs.py", "matmul.py") if Path(root, f).is_file()]
        unresolved = unresolved_imports(root, entries)
    triton = distribution("triton")
    return TritonKernelsFacts(
        root=root,
        via=via,
        namespace=namespace,
        files=files,
        topk_parameters=topk_parameters,
        owners=owners,
        unresolved=unresolved,
        problems=tuple(problems),
        triton_version=dist_version("triton")[0] if triton else None,
        override=override,
        strict=_strict(),
    )
