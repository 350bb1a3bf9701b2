"""The audit: what is followed, what is judged, how it is reported, and what bad input does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fi_compat.audit import _report, audit
from fi_compat.audit._judge import binding_error
from fi_compat.audit._sites import sites_of
from fi_compat.cli import main


def found(source: str, **options: str):
    """Return the sites of a text as ``(dotted, is a call)``, in their order."""
    return [(s.dotted, s.call) for s in sites_of(source.encode(), "engine.module").sites]


def findings(tmp_path, source: str, spec: str = ">=0.6.8", name: str = "engine.py"):
    (tmp_path / name).write_text(source)
    return audit(tmp_path, flashinfer=spec).findings


CALL = ("flashinfer.fp4_quantize", True)


@pytest.mark.parametrize(
    "source",
    [
        "import flashinfer\nflashinfer.fp4_quantize(x)",
        "import flashinfer as f\nf.fp4_quantize(x)",
        "from flashinfer import fp4_quantize\nfp4_quantize(x)",
        "from flashinfer import fp4_quantize as q\nq(x)",
        "def f():\n    from flashinfer import fp4_quantize\n    return fp4_quantize(x)",
        "from flashinfer import fp4_quantize\ndef f():\n    return fp4_quantize(x)",
        "try:\n    from flashinfer import fp4_quantize\nexcept ImportError:\n    fp4_quantize = None\nfp4_quantize(x)",
        "if ok:\n    from flashinfer import fp4_quantize\nelse:\n    from other import fp4_quantize\nfp4_quantize(x)",
        "from flashinfer import fp4_quantize\nfp4_quantize = torch.compiler.disable(fp4_quantize)\nfp4_quantize(x)",
        "import flashinfer\nq = flashinfer.fp4_quantize\nq(x)",
        "from functools import partial\nfrom flashinfer import fp4_quantize\np = partial(fp4_quantize, x)\np()",
        "q = _lazy_import_wrapper('flashinfer', 'fp4_quantize')\nq(x)",
        "import importlib\nm = importlib.import_module('flashinfer')\nm.fp4_quantize(x)",
        "import flashinfer\nq = getattr(flashinfer, 'fp4_quantize')\nq(x)",
        "class A:\n    def g(self):\n        self.q(x)\n    def __init__(self):\n        import flashinfer\n        self.q = flashinfer.fp4_quantize",
        "import flashinfer\nq = flashinfer.fp4_quantize if ok else None\nq(x)",
        "def f():\n    global q\n    from flashinfer import fp4_quantize as q\ndef g():\n    q(x)",
        "async def f():\n    from flashinfer import fp4_quantize\n    with a as b:\n        for i in r:\n            fp4_quantize(x)",
        "from flashinfer import fp4_quantize\n[fp4_quantize(i) for i in x]",
        "from flashinfer import fp4_quantize\nf = lambda v: fp4_quantize(v)",
        "class A:\n    class B:\n        def f(self):\n            from flashinfer import fp4_quantize\n            fp4_quantize(x)",
    ],
)
def test_a_call_is_followed(source) -> None:
    """Imports at any depth, aliases, branches, wrappers, partials, lazy importers, attributes of self."""
    assert CALL in found(source)


@pytest.mark.parametrize(
    "source",
    [
        "from flashinfer import fp4_quantize\nfp4_quantize = mine\nfp4_quantize(x)",
        "from flashinfer import fp4_quantize\ndef f(fp4_quantize):\n    fp4_quantize(x)",
        "from flashinfer import fp4_quantize\ndef fp4_quantize(x): pass\nfp4_quantize(x)",
        "from mine import fp4_quantize\nfp4_quantize(x)",
        "import flashinfer\nflashinfer = fake\nflashinfer.fp4_quantize(x)",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from flashinfer import fp4_quantize\nfp4_quantize(x)",
        "# flashinfer.fp4_quantize(x)\ns = 'flashinfer.fp4_quantize(x)'",
        "from flashinfer import fp4_quantize\ndel fp4_quantize\nfp4_quantize(x)",
    ],
)
def test_what_is_not_upstreams_is_left_alone(source) -> None:
    """Shadowing, re-binding, parameters, comments and strings."""
    assert CALL not in found(source)


def test_methods_of_instances_are_followed() -> None:
    """Through a local name, and through an attribute that another method sets."""
    source = (
        "import flashinfer\nw = flashinfer.BatchDecodeWithPagedKVCacheWrapper(a)\nw.plan(b)\n"
        "class A:\n    def run(self):\n        self.w.run(1)\n    def __init__(self):\n        self.w = flashinfer.CuteDslMoEWrapper(1)\n"
    )
    calls = [d for d, call in found(source) if call]
    assert "flashinfer.BatchDecodeWithPagedKVCacheWrapper.plan" in calls
    assert "flashinfer.CuteDslMoEWrapper.run" in calls


def site(text: str):
    return next(s for s in sites_of(f"import flashinfer\nflashinfer.f{text}".encode(), "m").sites if s.call)


@pytest.mark.parametrize(
    ("text", "signature", "rule"),
    [
        ("(1)", "a", None),
        ("(1, 2)", "a", "too-many-positionals"),
        ("()", "a", "missing-argument"),
        ("(b=1)", "a", "unknown-keyword"),
        ("(1, a=1)", "a", "too-many-positionals"),
        ("(*x)", "a", None),
        ("(**x)", "a", None),
        ("(*x, b=1)", "a", "unknown-keyword"),
        ("(1, 2, 3)", "a, *args", None),
        ("(a=1, q=2)", "a, **kwargs", None),
        ("(a=1)", "a, /", "unknown-keyword"),
        ("(1, 2)", "a, *, b", "too-many-positionals"),
        ("(1, b=2)", "a, *, b", None),
        ("(1)", "a, *, b", "missing-argument"),
    ],
)
def test_what_binds(text, signature, rule) -> None:
    """As inspect would, and never "ok" for what a star hides."""
    error = binding_error(site(text), signature)
    assert (error and error[0]) == rule


def test_b02_an_unknown_keyword_on_the_releases_without_it(tmp_path) -> None:
    """B02: group= appears in 0.6.10.post1."""
    source = "from flashinfer.comm import create_allreduce_fusion_workspace as c\nc(backend='trtllm', world_size=2, rank=0, max_token_num=8, hidden_dim=64, dtype=d, group=g)\n"
    broken = [f for f in findings(tmp_path, source) if f.severity == "break"]
    assert [f.rule for f in broken] == ["unknown-keyword"]
    assert broken[0].releases == ("0.6.8", "0.6.8.post1", "0.6.9", "0.6.10")
    assert "fi_compat.comm" in broken[0].remedy


def test_b01_b03_b09_b10_keywords_and_arguments_that_no_release_takes(tmp_path) -> None:
    """B01, B03, B04, B09, B10: activation at 0.6.14 only; tile_tokens_dim and a fork's bsz_tensor never; new required arguments."""
    source = (
        "import flashinfer\n"
        "flashinfer.CuteDslMoEWrapper(num_experts=8, top_k=2, hidden_size=256, intermediate_size=512, activation='silu')\n"
        "flashinfer.trtllm_fp8_block_scale_moe(*a, tile_tokens_dim=8)\n"
        "flashinfer.mla.BatchMLAPagedAttentionWrapper(w, bsz_tensor=b)\n"
        "flashinfer.append_paged_kv_cache(k, v, kv, indices, indptr)\n"
    )
    rules = {f.line: (f.rule, len(f.releases)) for f in findings(tmp_path, source) if f.severity == "break"}
    assert rules[2] == ("unknown-keyword", 27)
    assert rules[3] == ("unknown-keyword", 28)
    assert rules[4] == ("unknown-keyword", 28)
    assert rules[5] == ("missing-argument", 28)


def test_b13_b23_names_that_are_not_there_yet(tmp_path) -> None:
    """B13: set_autotune_process_group is first in 0.6.16. B23: sparse_mla_sm120_decode_dsv4 is first in 0.6.14."""
    source = (
        "def f():\n    from flashinfer.autotuner import set_autotune_process_group\n"
        "    from flashinfer.mla._sparse_mla_sm120 import sparse_mla_sm120_decode_dsv4\n"
    )
    first, second = findings(tmp_path, source)
    assert (first.rule, first.releases[-1]) == ("missing-name", "0.6.15.post1")
    assert (second.rule, second.releases[-1]) == ("missing-name", "0.6.13")
    assert audit(tmp_path, flashinfer="==0.6.14").findings[0].line == 2
    assert not audit(tmp_path, flashinfer="==0.6.17").findings


def test_b15_availability_is_not_monotone(tmp_path) -> None:
    """B15: in 0.6.16 to .post2 and from 0.6.18 on."""
    (only,) = findings(tmp_path, "from flashinfer.fused_moe import preprocess_moe_weights_for_sm90_mixed_gemm_humming\n")
    assert "0.6.16" not in only.releases
    assert {"0.6.15.post1", "0.6.16.post3", "0.6.17"} <= set(only.releases)
    assert "0.6.18" not in only.releases
    assert "0.6.8 to 0.6.15.post1, 0.6.16.post3 to 0.6.17" in _report.to_text(audit(tmp_path))


def test_b18_b19_modules_and_functions_that_are_nowhere(tmp_path) -> None:
    """B18, B19, B64, B65: a module or name that no release of the range has."""
    source = "import flashinfer.no_such_module\nfrom flashinfer.norm import no_such_norm\n"
    assert [(f.rule, len(f.releases)) for f in findings(tmp_path, source)] == [("missing-name", 28)] * 2
    (tmp_path / "engine.py").write_text("from triton_kernels.routing import routing\n")
    report = audit(tmp_path, flashinfer="", triton_kernels="3.5.1,3.6,3.8")
    assert [f.releases for f in report.findings] == [("R2", "R3", "R4", "FORK")]


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("from triton_kernels.routing import routing", "from fi_compat.moe import routing"),
        ("from triton_kernels.matmul_ogs import matmul_ogs", "from fi_compat.moe import matmul_ogs"),
        ("from flashinfer.comm.none import allreduce_fusion", "from fi_compat.comm import allreduce_fusion"),
        ("from flashinfer.none import merge_state", "from fi_compat.mla import merge_state"),
        ("from flashinfer.none import CuteDslMoEWrapper", "from fi_compat.fused_moe import cute_dsl_moe"),
        ("from flashinfer.none import shuffle_matrix_a", "from fi_compat.quantization import shuffle_matrix_a"),
        ("from flashinfer.autotuner import set_autotune_process_group", "there on 0.6.16 to 0.7.4"),
    ],
)
def test_the_remedy_is_an_import_that_works_or_the_releases_that_have_it(tmp_path, line, remedy) -> None:
    """Where the stable API serves the name, the module that has it."""
    (tmp_path / "engine.py").write_text(f"{line}\n")
    (only,) = audit(tmp_path, triton_kernels="3.8", flashinfer=">=0.6.8").findings
    assert only.remedy == remedy


def test_b51_a_positional_shift_is_silent(tmp_path) -> None:
    """B51: the seventh place of fp4_quantize, and only across the release that moved it."""
    source = "from flashinfer import fp4_quantize\nfp4_quantize(x, s, 16, False, True, False, True)\n"
    shift = next(f for f in findings(tmp_path, source) if f.rule == "positional-shift")
    assert "enable_pdl from 0.6.8, is_global_scale_inversed from 0.6.11" in shift.message
    assert not [f for f in findings(tmp_path, source, ">=0.6.11") if f.rule == "positional-shift"]


def test_b52_b53_integers_of_enums_that_moved(tmp_path) -> None:
    """B52, B53: 9 is Identity from 0.6.14 on, whatever a private copy calls it."""
    source = "from flashinfer.fused_moe import cutlass_fused_moe\ncutlass_fused_moe(*a, activation_type=9)\ncutlass_fused_moe(*a, activation_type=3)\n"
    integers = [f for f in findings(tmp_path, source, "==0.6.17") if f.rule == "enum-integer"]
    assert [(f.line, f.message) for f in integers] == [(2, "activation_type=9 is Identity")]


def test_b57_b63_behaviour_and_defaults(tmp_path) -> None:
    """B57: a list where a tensor is annotated. B63: the default backend is 'auto' at 0.7.4."""
    source = "import flashinfer\nflashinfer.fp4_quantize(x, s)\nflashinfer.fused_moe.cutlass_fused_moe(*a)\n"
    rules = {(f.rule, f.line) for f in findings(tmp_path, source)}
    assert {("default-moved", 2), ("behaviour", 3)} <= rules


def test_guarded_sites_are_information(tmp_path) -> None:
    """A try that catches it, or a condition on what is installed."""
    source = (
        "try:\n    from flashinfer.autotuner import set_autotune_process_group\nexcept ImportError:\n    pass\n"
        "import flashinfer\nif hasattr(flashinfer, 'no_such'):\n    flashinfer.no_such(1)\n"
    )
    assert {f.severity for f in findings(tmp_path, source, "==0.6.8")} == {"info"}
    assert main(["audit", str(tmp_path), "--flashinfer", "==0.6.8"]) == 0


def test_names_are_followed_through_files_that_hand_them_on(tmp_path) -> None:
    """Two hops of re-exports, by relative and absolute imports."""
    package = tmp_path / "engine"
    (package / "sub").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "sub" / "__init__.py").write_text("")
    (package / "compat.py").write_text("from flashinfer import fp4_quantize as quantize\n")
    (package / "sub" / "again.py").write_text("from ..compat import quantize\n")
    (package / "use.py").write_text("from engine.sub.again import quantize\nquantize(x, s, 16, False, True, False, True)\n")
    shifts = [f for f in audit(tmp_path).findings if f.rule == "positional-shift"]
    assert [f.file.endswith("use.py") for f in shifts] == [True]


def test_a_comment_silences_a_rule(tmp_path) -> None:
    """On any line of the call; another rule's comment does not."""
    source = "import flashinfer\nflashinfer.gone(  # fi-compat: ignore[missing-name]\n    1)\nflashinfer.lost(1)  # fi-compat: ignore[default-moved]\n"
    assert [f.name for f in findings(tmp_path, source)] == ["flashinfer.lost"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"def f(:\n  flashinfer", "does not parse"),
        (b"flashinfer\0x", "does not parse"),
        (b"# -*- coding: nope -*-\nflashinfer", "does not parse"),
    ],
)
def test_files_that_do_not_parse_are_reported_and_the_rest_is_analysed(tmp_path, content, why) -> None:
    """Another Python's syntax, NUL bytes, an unknown encoding."""
    (tmp_path / "bad.py").write_bytes(content)
    report_findings = findings(tmp_path, "import flashinfer.gone\n")
    assert len(report_findings) == 1
    report = audit(tmp_path)
    assert [(Path(name).name, why in problem) for name, problem in report.skipped] == [("bad.py", True)]
    assert "skipped" in _report.to_text(report)


def test_large_files_and_symlink_loops_are_no_trap(tmp_path) -> None:
    """A 10 MB file is skipped and said so; a loop of links is not followed."""
    (tmp_path / "large.py").write_bytes(b"# flashinfer\n" + b"x = 1\n" * 1_700_000)
    (tmp_path / "loop").symlink_to(tmp_path)
    report = audit(tmp_path)
    assert [Path(name).name for name, _ in report.skipped] == ["large.py"]


@pytest.mark.parametrize(
    "arguments", [["nowhere"], [".", "--flashinfer", "==9.9"], [".", "--flashinfer", ""], [".", "--triton-kernels", "2.0"]]
)
def test_bad_input_is_one_line_and_64(tmp_path, monkeypatch, capsys, arguments) -> None:
    """A path that does not exist, releases that nothing is known of."""
    monkeypatch.chdir(tmp_path)
    assert main(["audit", *arguments]) == 64
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_exit_status_reports_and_baseline(tmp_path, capsys) -> None:
    """Text, JSON, SARIF, the matrix, --fail-on and a baseline."""
    (tmp_path / "engine.py").write_text("import flashinfer\nflashinfer.gone(1)\nflashinfer.fp4_quantize(x, s)\n")
    command = ["audit", str(tmp_path)]
    assert main(command) == 1
    assert "flashinfer.gone does not exist (0.6.8 to 0.7.4)" in capsys.readouterr().out
    assert main([*command, "--fail-on", "never"]) == 0
    assert main([*command, "--flashinfer", "==0.6.17", "--fail-on", "silent"]) == 1
    capsys.readouterr()
    main([*command, "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == 1
    assert document["findings"][0]["rule"] == "missing-name"
    main([*command, "--sarif"])
    sarif = json.loads(capsys.readouterr().out)
    assert sarif["version"] == "2.1.0"
    result = sarif["runs"][0]["results"][0]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "engine.py"
    assert {r["id"] for r in sarif["runs"][0]["tool"]["driver"]["rules"]} >= {r["ruleId"] for r in sarif["runs"][0]["results"]}
    main([*command, "--matrix"])
    assert "0.7.4" in capsys.readouterr().out
    main([*command, "--by-release", "--flashinfer", "==0.6.17"])
    assert "0.6.17: " in capsys.readouterr().out
    baseline = tmp_path / "baseline.json"
    main([*command, "--write-baseline", str(baseline)])
    capsys.readouterr()
    assert main([*command, "--baseline", str(baseline)]) == 0
    assert "0 break, 0 silent" in capsys.readouterr().out


def test_the_upgrade_note_is_limited_to_what_a_tree_uses(tmp_path, capsys) -> None:
    """What is new, gone, inserted, or has another default or value."""
    (tmp_path / "engine.py").write_text(
        "import flashinfer\nflashinfer.fp4_quantize(x)\nflashinfer.comm.MoeAlltoAll\nflashinfer.ActivationType\n"
    )
    assert main(["diff", "0.6.8", "0.7.4", "--used-by", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "flashinfer.comm.MoeAlltoAll: gone" in lines
    assert "flashinfer.fp4_quantize: parameter is_global_scale_inversed=False is new, inserted at 6 before enable_pdl" in lines
    assert "flashinfer.fp4_quantize: the default of backend was 'cuda', is 'auto'" in lines
    assert any(line.startswith("flashinfer.ActivationType: members were") for line in lines)
    assert not [line for line in lines if "mxfp8" in line]
    assert main(["diff", "0.6.16.post3", "0.6.18"]) == 0
    assert "use_wfp4afp8_humming=False is new, inserted at 26 before tune_max_num_tokens" in capsys.readouterr().out
    assert main(["diff", "0.6.8", "9.9"]) == 64
    assert "known are" in capsys.readouterr().err
    assert main(["diff", "0.6.8", "0.7.4", "--used-by", str(tmp_path / "nowhere")]) == 64
    assert main(["diff", "0.6.11", "0.6.11.post1", "--used-by", str(tmp_path)]) == 0
    assert "nothing that is recorded differs" in capsys.readouterr().out
