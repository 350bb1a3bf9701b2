"""One published tree of triton_kernels, first on sys.path of this process, under Triton's CPU interpreter."""

from __future__ import annotations

import os
import warnings

import pytest

os.environ.setdefault("TRITON_INTERPRET", "1")
TREE = os.environ.get("FI_COMPAT_EXPECT_TREE", "")


def pytest_report_header() -> str:
    import strategies

    return f"triton_kernels under test: {TREE or 'NONE (run nox -s generations)'}; hypothesis seed {strategies.SEED}, {strategies.EXAMPLES} examples"


@pytest.fixture(scope="session")
def tree():
    """Return the table's entry of the tree under test."""
    from fi_compat import _table

    assert TREE, "run `nox -s generations`: no tree was named"
    return next(t for t in _table.TREES if t.name == TREE)


@pytest.fixture(scope="session", autouse=True)
def interpreter(tree) -> None:
    """Let the interpreter unwrap upstream's Tensor, as the GPU launcher does."""
    from fi_compat import _interpreter

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _interpreter.let_interpreter_unwrap()
