"""The recorded names and signatures, and what is generated from them."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from fi_compat import _table, fused_moe, mla
from fi_compat.contracts import contracts, parameters

ROOT = Path(fused_moe.__file__).parents[2]
SUPPORT = Path(__file__).parents[1] / "support"


def test_every_release_and_tree_of_the_table_is_recorded() -> None:
    """And the release before the oldest, from which engines come."""
    assert contracts("flashinfer").releases == ("0.6.7.post3", *_table.FLASHINFER_RELEASES)
    assert contracts("triton_kernels").releases == tuple(t.name for t in _table.TREES)
    with pytest.raises(ValueError, match="must be 'flashinfer' or 'triton_kernels'"):
        contracts("torch")


def test_the_data_is_small() -> None:
    """Under 1 MiB in the wheel."""
    files = list((Path(fused_moe.__file__).parents[1] / "contracts").glob("*.gz"))
    assert len(files) == 2
    assert sum(f.stat().st_size for f in files) < 2**20


@pytest.mark.parametrize(
    ("dotted", "release", "kind", "name"),
    [
        ("flashinfer.fp4_quantize", "0.6.17", "function", "flashinfer.quantization.fp4_quantization.fp4_quantize"),
        ("flashinfer.fp4_quantization.fp4_quantize", "0.6.17", "function", "flashinfer.quantization.fp4_quantization.fp4_quantize"),
        ("flashinfer.mla", "0.6.7.post3", "module", "flashinfer.mla"),
        ("flashinfer.comm.MoeAlltoAll", "0.7.2", "class", "flashinfer.comm.trtllm_moe_alltoall.MoeAlltoAll"),
        ("flashinfer.comm.MoeAlltoAll", "0.7.4", "missing", "flashinfer.comm.MoeAlltoAll"),
        ("flashinfer.fused_moe.CuteDslNvfp4Runner", "0.7.4", "value", "flashinfer.fused_moe.CuteDslNvfp4Runner"),
        ("flashinfer.autotuner.set_autotune_process_group", "0.6.15", "missing", "flashinfer.autotuner.set_autotune_process_group"),
        ("flashinfer.ActivationType.Situ", "0.6.15", "missing", "flashinfer.tllm_enums.ActivationType.Situ"),
        ("flashinfer.ActivationType.Situ", "0.6.16", "value", "flashinfer.tllm_enums.ActivationType.Situ"),
        ("flashinfer.experimental.anything", "0.7.4", "unknown", "flashinfer.experimental.anything"),
        ("torch.empty", "0.7.4", "unknown", "torch.empty"),
    ],
)
def test_what_a_name_is_in_a_release(dotted, release, kind, name) -> None:
    """Through re-exports, stub modules, module __getattr__, enums, and folders that are not recorded."""
    found = contracts("flashinfer").find(dotted, release)
    assert (found.kind, found.name) == (kind, name)


def test_constructors_methods_and_aliases_have_signatures() -> None:
    """A class answers with its constructor's parameters, without self; ``begin_forward = plan`` has plan's."""
    recorded = contracts("flashinfer")
    made = recorded.find("flashinfer.CuteDslMoEWrapper", "0.6.14")
    assert [p.name for p in parameters(str(made.signature))][-1] == "activation"
    plan = recorded.find("flashinfer.BatchPrefillWithPagedKVCacheWrapper.plan", "0.6.17")
    begin = recorded.find("flashinfer.BatchPrefillWithPagedKVCacheWrapper.begin_forward", "0.6.17")
    assert plan.signature == begin.signature
    assert plan.line > 0
    assert "triton_kernels.matmul_ogs" in contracts("triton_kernels").modules
    assert contracts("triton_kernels").find("triton_kernels.routing.routing", "R1").kind == "function"
    assert contracts("triton_kernels").find("triton_kernels.routing.routing", "R2").kind == "missing"


def test_parameters_are_parsed_with_their_kinds() -> None:
    """Positional-only, either, keyword-only, star and double star."""
    found = parameters("a, /, b, c=1, *args, d, e=None, **kwargs")
    assert [(p.name, p.kind, p.default) for p in found] == [
        ("a", "positional", None),
        ("b", "either", None),
        ("c", "either", "1"),
        ("args", "*", ""),
        ("d", "keyword", None),
        ("e", "keyword", "None"),
        ("kwargs", "**", ""),
    ]


def test_enum_values_are_recorded() -> None:
    """Also those written as one-element tuples."""
    recorded = contracts("flashinfer")
    assert recorded.find("flashinfer.tllm_enums.ActivationType", "0.6.14").entry["e"]["Identity"] == 9
    assert recorded.find("flashinfer.tllm_enums.RoutingMethodType", "0.6.8").entry["e"]["TopK"] == 5


def test_the_generated_functions_are_those_of_the_recorded_signatures(tmp_path) -> None:
    """Running the generator again gives the same bytes."""
    package = Path(fused_moe.__file__).parents[1]
    (tmp_path / "fi_compat" / "fused_moe").mkdir(parents=True)
    subprocess.run([sys.executable, str(SUPPORT / "make_functions.py"), str(tmp_path)], check=True, cwd=package.parent)
    written = list((tmp_path / "fi_compat").rglob("*.py"))
    assert len(written) == 6
    for file in written:
        assert file.read_text() == (package / file.relative_to(tmp_path / "fi_compat")).read_text(), file.name


@pytest.mark.parametrize(
    ("function", "dotted"),
    [
        *((getattr(fused_moe, n), f"flashinfer.fused_moe.{n}") for n in fused_moe.__all__ if n.startswith(("trtllm", "cutlass"))),
        (fused_moe.cute_dsl_moe, "flashinfer.fused_moe.CuteDslMoEWrapper"),
        (mla.trtllm_batch_decode_with_kv_cache_mla, "flashinfer.mla.trtllm_batch_decode_with_kv_cache_mla"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_every_parameter_of_any_release_is_there_by_keyword(function, dotted) -> None:
    """The union over 0.6.8 to 0.7.4, required where every release requires it."""
    recorded = contracts("flashinfer")
    union: dict[str, bool] = {}
    for release in _table.FLASHINFER_RELEASES:
        for p in parameters(str(recorded.find(dotted, release).signature)):
            union[p.name] = union.get(p.name, True) and p.default is None
    ours = inspect.signature(function).parameters
    assert set(union) == {n for n in ours if n not in {"removed", "lse_base"}}
    for name, required in union.items():
        assert ours[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert (ours[name].default is inspect.Parameter.empty) == required, name


def test_reading_the_wheel_again_gives_the_same_records(tmp_path) -> None:
    """The reader on a small package: re-exports, branches, lazy names, classes, enums and decorators."""
    sys.path.insert(0, str(SUPPORT))
    import make_contracts

    package = tmp_path / "one" / "flashinfer"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from .core import f as f, C\ntry:\n    from .gone import g\nexcept ImportError:\n    g = None\n")
    (package / "core.py").write_text(
        "from enum import IntEnum\nfrom dataclasses import dataclass\n_LAZY = {'lazy': '.x'}\n"
        "@overload\ndef f(a: str): ...\n@backend_requirement({})\ndef f(a, b=1): ...\n"
        "class C:\n    def __init__(self, x, *, y=2): self.z = x\n    @staticmethod\n    def s(q): ...\n    run = s\n"
        "class E(IntEnum):\n    A = (0,)\n    B = 7\n@dataclass\nclass D:\n    n: int\n    m: int = 3\n"
        "def __getattr__(name):\n    if name in _LAZY:\n        return 1\n    raise AttributeError\n"
    )
    first = make_contracts.build("flashinfer", {"1": tmp_path / "one"})
    names = {n: first["objects"][i[0][2]] for n, i in first["modules"]["flashinfer.core"]["names"].items()}
    assert names["f"]["s"] == "a, b=1, *, skip_check=False"
    assert names["C"]["m"]["__init__"]["s"] == "x, *, y=2"
    assert names["C"]["m"]["s"]["s"] == "q"
    assert names["C"]["i"] == ["z"]
    assert names["E"]["e"] == {"A": 0, "B": 7}
    assert names["D"]["f"] == ["n", "m=3"]
    assert names["lazy"] == {"k": "v"}
    out = tmp_path / "a.gz"
    make_contracts.write(first, out)
    make_contracts.write(make_contracts.build("flashinfer", {"1": tmp_path / "one"}), tmp_path / "b.gz")
    assert out.read_bytes() == (tmp_path / "b.gz").read_bytes()
