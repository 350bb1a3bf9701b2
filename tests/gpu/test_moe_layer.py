"""The layer on the installed tree, for a machine with a CUDA device: `pytest -m gpu tests/gpu`; CI never runs it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu


def test_the_layer_on_the_installed_tree(tmp_path) -> None:
    """Error against plain torch, routing, repeated runs, graph replay, torch.compile, and the time against the native call."""
    spec = importlib.util.spec_from_file_location("moe_layer", Path(__file__).with_name("moe_layer.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    result = module.one_tree("installed", tmp_path)
    if "refused" in result:
        assert "UpstreamImportError" in result["refused"]
        return
    assert result["worst_error"] <= 1e-2
    for name in ("routing_bitwise", "repeat_equal", "graph_equal", "4096 tokens under capture"):
        assert result[name] is True, name
    assert result["compile"] == {"equal": True, "graphs": 1, "breaks": 0}
    assert result["time 64 tokens"]["ratio"] <= 1.02
    assert result["time 1 tokens"]["ratio"] <= 1.05
