"""torchao as an oracle: imported once, its own import-time warnings let through."""

from __future__ import annotations

import logging
import warnings

import pytest


@pytest.fixture(scope="session", autouse=True)
def torchao() -> None:
    """Import torchao before warnings are errors: it registers enums the old way and misses its CUDA libraries here."""
    logging.getLogger("torchao").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torchao.prototype.mx_formats  # noqa: F401
