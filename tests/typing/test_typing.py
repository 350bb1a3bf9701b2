"""mypy on what users write: each adapter fits its Protocol, a seventh positional argument is rejected."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ADAPTERS = sorted(p.stem for p in (ROOT / "fi_compat" / "adapters").glob("*.py") if p.stem != "__init__")
PROTOCOLS = {
    "flashinfer": "FlashInferAdapter",
    "attention": "AttentionAdapter",
    "comm": "CommAdapter",
    "mla": "MlaAdapter",
    "moe": "FusedMoeAdapter",
    "triton": "TritonKernelsAdapter",
    "reference": "TritonKernelsAdapter",
    "matmul": "MatmulAdapter",
}


def mypy(tmp_path: Path, source: str) -> str:
    """Type-check a text against the working tree and return what mypy says."""
    file = tmp_path / "user.py"
    file.write_text(source)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        str(ROOT / "pyproject.toml"),
        "--cache-dir",
        str(ROOT / ".mypy_cache"),
        str(file),
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


def test_every_adapter_fits_its_protocol(tmp_path) -> None:
    """The module object itself is assigned to the Protocol."""
    assert len(ADAPTERS) >= 27
    lines = [
        f"from fi_compat._protocols import {', '.join(sorted(set(PROTOCOLS.values())))}",
        *(f"from fi_compat.adapters import {name}" for name in ADAPTERS),
        *(f"a_{name}: {PROTOCOLS[name.partition('_')[0]]} = {name}" for name in ADAPTERS),
    ]
    said = mypy(tmp_path, "\n".join(lines) + "\n")
    assert "Success" in said, said


def test_a_module_that_lacks_a_function_does_not_fit(tmp_path) -> None:
    """Meta-test: the check can fail."""
    said = mypy(
        tmp_path, "from fi_compat import errors\nfrom fi_compat._protocols import TritonKernelsAdapter\nx: TritonKernelsAdapter = errors\n"
    )
    assert "Incompatible types in assignment" in said


@pytest.mark.parametrize(
    ("call", "rejected"),
    [("fp4_quantize(x, x, 16, False, True, False)", False), ("fp4_quantize(x, x, 16, False, True, False, True)", True)],
)
def test_a_seventh_positional_argument_is_rejected(tmp_path, call, rejected) -> None:
    """`*_positional: NoReturn` accepts no value."""
    said = mypy(tmp_path, f"from typing import Any\nfrom fi_compat import fp4_quantize\ndef f(x: Any) -> None:\n    {call}\n")
    assert ("error" in said) == rejected, said


def test_a_misspelt_name_is_rejected(tmp_path) -> None:
    """There is no package-level __getattr__ that would accept anything."""
    assert "error" in mypy(tmp_path, "from fi_compat import fp4_quantise\n")
