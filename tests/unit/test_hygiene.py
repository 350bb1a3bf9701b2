"""What `import fi_compat` and resolution load, measured in fresh interpreters."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import sites

import fi_compat

FORBIDDEN = {
    "torch",
    "triton",
    "flashinfer",
    "triton_kernels",
    "numpy",
    "packaging",
    "importlib_metadata",
    "rich",
    "dataclasses",
    "inspect",
    "argparse",
}
#: What resolution may never import; it needs packaging and importlib_metadata.
UPSTREAMS = {"torch", "triton", "flashinfer", "triton_kernels", "numpy"}
PACKAGE_PARENT = str(Path(fi_compat.__file__).parent.parent)


def loaded(code: str, *paths: str) -> set[str]:
    """Run code in a fresh interpreter and return the top-level modules it loaded."""
    program = f"import sys; sys.path[:0] = {[*paths, PACKAGE_PARENT]!r}\nimport sys as _s; before = set(_s.modules)\n{code}\nimport json; print(json.dumps(sorted(set(_s.modules) - before)))"
    result = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return {name.partition(".")[0] for name in json.loads(result.stdout.splitlines()[-1])}


def test_import_loads_no_upstream_and_none_of_our_dependencies() -> None:
    """`import fi_compat` costs a few modules of ours and little of the standard library."""
    assert not loaded("import fi_compat") & FORBIDDEN


def test_import_loads_exactly_these_modules_of_ours() -> None:
    """The set is a promise: a new one is a decision."""
    program = f"import sys; sys.path.insert(0, {PACKAGE_PARENT!r}); import fi_compat; print([m for m in sys.modules if m.startswith('fi_compat')])"
    result = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert set(eval(result.stdout)) <= {
        "fi_compat",
        "fi_compat._bindings",
        "fi_compat._device",
        "fi_compat._handles",
        "fi_compat._routing",
        "fi_compat._unset",
        "fi_compat._version",
        "fi_compat.comm",
        "fi_compat.errors",
        "fi_compat.moe",
        "fi_compat.patches",
        "fi_compat.quantization",
    }


@pytest.mark.parametrize(
    "call",
    [
        "active('flashinfer')",
        "active('triton_kernels')",
        "has('fp4_quantize')",
        "check_version('flashinfer-python', '>=0.6')",
        "explain('fp4_quantize')",
        "features()",
    ],
)
def test_resolution_imports_no_upstream(tmp_path, call) -> None:
    """In the presence of both upstreams; the fake FlashInfer raises when it is imported."""
    root = sites.build(tmp_path, {**sites.flashinfer(), **sites.owned("3.6")})
    assert not loaded(f"import fi_compat; fi_compat.{call}", str(root)) & UPSTREAMS


@pytest.mark.parametrize("name", sorted(FORBIDDEN - {"torch", "triton", "flashinfer", "triton_kernels", "numpy", "rich"}))
def test_the_hygiene_test_can_fail(name) -> None:
    """Meta-test: a module that is imported is seen."""
    assert name in loaded(f"import {name}; import fi_compat")


def test_the_resolver_test_can_fail(tmp_path) -> None:
    """Meta-test: an upstream that is imported is seen, and the fake FlashInfer does raise."""
    root = sites.build(tmp_path, sites.owned("3.6"))
    assert "triton_kernels" in loaded("import triton_kernels; import fi_compat", str(root))
    root = sites.build(tmp_path / "other", sites.flashinfer())
    with pytest.raises(subprocess.CalledProcessError):
        loaded("import flashinfer", str(root))


def test_every_module_defines_all_and_every_public_function_has_a_docstring() -> None:
    """Names are listed, and listed names exist."""
    import ast

    for path in Path(fi_compat.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = [
            n
            for n in tree.body
            if isinstance(n, (ast.Assign, ast.AnnAssign))
            for t in (n.targets if isinstance(n, ast.Assign) else [n.target])
            if isinstance(t, ast.Name) and t.id == "__all__"
        ]
        assert names, f"{path} has no __all__"
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
                assert ast.get_docstring(node), f"{path}:{node.lineno} {node.name} has no docstring"


def test_only_the_table_names_versions() -> None:
    """A version comparison anywhere else belongs in the table or in an adapter of its own."""
    import re

    for path in Path(fi_compat.__file__).parent.rglob("*.py"):
        if path.name == "_table.py" or path.parent.name in {"contracts", "audit"}:
            continue
        source = path.read_text(encoding="utf-8")
        assert not re.search(r"(?m)^\s*if .*(Version\(|__version__ *[<>=])", source), path


def test_modules_are_short() -> None:
    """None over 350 lines of code, docstrings and comments not counted; the table is data, kept in one place."""
    import ast

    for path in Path(fi_compat.__file__).parent.rglob("*.py"):
        if path.name == "_table.py":
            continue
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        docs = {
            line
            for node in ast.walk(tree)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)) and ast.get_docstring(node)
            for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
        }
        code = [n for n, line in enumerate(source.splitlines(), 1) if n not in docs and line.strip() and not line.strip().startswith("#")]
        assert len(code) <= 350, f"{path}: {len(code)}"


def test_a_seventh_positional_argument_is_a_type_error_that_says_why() -> None:
    """B51: enable_pdl up to 0.6.10.post1, is_global_scale_inversed after."""
    with pytest.raises(TypeError, match=r"seventh is enable_pdl up to FlashInfer 0\.6\.10\.post1 and is_global_scale_inversed after"):
        fi_compat.fp4_quantize(None, None, 16, False, True, False, True)  # type: ignore[arg-type]
