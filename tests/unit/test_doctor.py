"""The doctor: every check both ways, public reports by their ids, output, guards, speed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import sites

import fi_compat
from fi_compat import _doctor_checks, _doctor_facts, _doctor_finding, _doctor_wheels, _table, cli, doctor
from fi_compat._doctor_facts import Facts, Gpu
from fi_compat._selection import FlashInferFacts

RUN = str(Path(fi_compat.__file__).parent.parent)


def facts_of(version: str = "0.6.17", **changes) -> Facts:
    """Return facts of a FlashInfer of one version and whatever else a case needs."""
    facts = Facts(
        versions={"flashinfer-python": version},
        paths={"flashinfer-python": "/site/flashinfer_python.dist-info"},
        tools={"nvcc": "/nvcc", "ninja": "/ninja"},
    )
    facts.flashinfer = FlashInferFacts(root="/site/flashinfer", file_version=version, dist_version=version)
    facts.flashinfer_selection = fi_compat.select("flashinfer", facts.flashinfer) if version in _table.FLASHINFER_RELEASES else None
    for name, value in changes.items():
        if name == "versions":
            facts.versions.update(value)
        else:
            setattr(facts, name, value)
    return facts


def found(facts: Facts, prefix: str):
    """Return the findings whose id begins with a prefix."""
    return [f for f in doctor.examine(facts) if f.id.startswith(prefix)]


def examine(site, tree, **environment):
    """Build a site directory, gather its facts as the command does, and examine them."""
    site(tree)
    facts = _doctor_facts.gather(gpu=False)
    # Only what the site has: the test environment's own distributions are not the case.
    facts.environment = environment
    facts.tools = {"nvcc": "/nvcc", "ninja": "/ninja"}
    return facts


def cubin(version: str):
    return sites.dist_info("flashinfer-cubin", version)


# --- kind C: companion wheels ----------------------------------------------------------------------------------------------


def test_b24_cubin_older_than_python(site) -> None:
    """vllm#49804: pip install -U vllm leaves the stale wheel; the pip line, never the bypass."""
    facts = examine(site, {**sites.flashinfer("0.6.14", "0.6.14", "0.6.12"), **cubin("0.6.13")})
    (finding,) = found(facts, "flashinfer-cubin.version")
    assert finding.severity == "error"
    assert "raises RuntimeError at import" in finding.message
    assert ("flashinfer-python", "0.6.14") in finding.evidence
    assert "0.6.13" in str(finding.evidence)
    assert finding.remedy.startswith("pip install --extra-index-url https://flashinfer.ai/whl flashinfer-cubin==0.6.14")
    assert "DISABLE_VERSION_CHECK" not in doctor.render(doctor.examine(facts), 2)


def test_b25_the_stale_wheel_may_also_be_uninstalled(site) -> None:
    """flashinfer#4781: nothing depends on it."""
    facts = examine(site, {**sites.flashinfer("0.7.1", "0.7.1", "0.7.1"), **cubin("0.6.18")})
    (finding,) = found(facts, "flashinfer-cubin.version")
    assert "or pip uninstall -y flashinfer-cubin" in finding.remedy


def test_b26_an_unpinned_install_over_a_container(site) -> None:
    """Export-Deploy#679: cubin 0.6.8.post1 under 0.6.10; both were on PyPI then."""
    facts = examine(site, {**sites.flashinfer("0.6.10", "0.6.10", "0.6.8"), **cubin("0.6.8.post1")})
    (finding,) = found(facts, "flashinfer-cubin.version")
    assert finding.remedy == "pip install flashinfer-cubin==0.6.10"


def test_b28_cubin_newer_than_python(site) -> None:
    """nemotron#8: cubin 0.6.13 under 0.6.8."""
    facts = examine(site, {**sites.flashinfer("0.6.8", "0.6.8"), **cubin("0.6.13")})
    assert found(facts, "flashinfer-cubin.version")[0].severity == "error"


def test_b29_a_pair_that_agrees_is_fine(site) -> None:
    """miles#629: and a mismatch in either direction is not."""
    facts = examine(site, {**sites.flashinfer("0.6.8", "0.6.8"), **cubin("0.6.8")})
    assert found(facts, "flashinfer-cubin.version")[0].severity == "ok"


def test_b30_a_bypass_that_outlives_its_cause(site) -> None:
    """labs-molt#43: set with nothing to bypass is a warning; "0" disables the check too."""
    facts = examine(site, {**sites.flashinfer("0.6.17", "0.6.17", "0.6.12"), **cubin("0.6.17")}, FLASHINFER_DISABLE_VERSION_CHECK="0")
    (finding,) = found(facts, "flashinfer.version-check")
    assert finding.severity == "warning"
    assert "any value does, 0 too" in finding.message
    facts = examine(site, {**sites.flashinfer("0.6.17", "0.6.17", "0.6.12"), **cubin("0.6.16")}, FLASHINFER_DISABLE_VERSION_CHECK="1")
    assert found(facts, "flashinfer.version-check")[0].severity == "error"
    assert found(examine(site, sites.flashinfer()), "flashinfer.version-check") == []


@pytest.mark.parametrize(
    ("python", "cache"), [("0.6.11", "0.6.11.post1+cu130"), ("0.6.16", "0.6.16.post3+cu130"), ("0.6.1", "0.6.11+cu130")]
)
def test_b32_a_wrong_pair_that_flashinfer_accepts(site, python, cache) -> None:
    """The 0.6 line compares by prefix."""
    facts = facts_of(python, versions={"flashinfer-jit-cache": cache})
    (finding,) = found(facts, "flashinfer-jit-cache.version")
    assert finding.severity == "error"
    assert "accepts it, since it compares by prefix" in finding.message


@pytest.mark.parametrize(("cuda", "severity"), [("12.9", "error"), ("13.1", "warning"), ("13.0", None), (None, None)])
def test_b33_the_local_segment_against_torchs_cuda(cuda, severity) -> None:
    """sglang#22741: jit-cache +cu130 beside a cu129 torch."""
    findings = found(facts_of("0.6.17", versions={"flashinfer-jit-cache": "0.6.17+cu130"}, torch_cuda=cuda), "flashinfer-jit-cache.cuda")
    assert [f.severity for f in findings] == ([severity] if severity else [])


def test_b35_b36_the_index_is_printed_with_the_pin() -> None:
    """vllm-omni#5258, vllm-gb10#61: cubin is not on PyPI from 0.6.14 on."""
    text = doctor.constraints("0.6.14")
    assert "--extra-index-url https://flashinfer.ai/whl" in text
    assert "flashinfer-cubin==0.6.14" in text
    assert "--extra-index-url" not in doctor.constraints("0.6.13")
    with pytest.raises(ValueError, match="known are"):
        doctor.constraints("9.9")


def test_b38_two_copies_of_tvm_ffi(site) -> None:
    """flashinfer#1913: two ABIs in one process."""
    site(
        {"tvm_ffi": {"__init__.py": ""}, **sites.dist_info("apache-tvm-ffi", "0.1.9")},
        {"tvm_ffi": {"__init__.py": ""}, **sites.dist_info("apache-tvm-ffi", "0.1.11")},
    )
    facts = _doctor_facts.gather(gpu=False)
    assert len(found(facts, "tvm_ffi.copies")) == 1
    assert len(found(facts, "apache-tvm-ffi.distributions")) == 1


def test_b39_known_bad_pairs() -> None:
    """vllm-metal#570: apache-tvm-ffi 0.1.13 beside an old xgrammar."""
    assert found(facts_of(versions={"apache-tvm-ffi": "0.1.13", "xgrammar": "0.1.30"}), "known.xgrammar-tvm-ffi")
    assert not found(facts_of(versions={"apache-tvm-ffi": "0.1.13", "xgrammar": "0.1.32"}), "known.xgrammar-tvm-ffi")
    assert not found(facts_of(versions={"apache-tvm-ffi": "0.1.12", "xgrammar": "0.1.30"}), "known.xgrammar-tvm-ffi")


def test_b41_b42_an_engines_own_pins(site) -> None:
    """sglang#65, Relax#8: the engine's requirement is compared, whichever backend it will use."""
    sglang = sites.dist_info("sglang", "0.5.9", requires=("flashinfer_python==0.6.4", "torch>=2", 'sgl-kernel==1 ; extra == "x"'))
    facts = examine(site, {**sites.flashinfer("0.6.8", "0.6.8"), **sglang})
    (finding,) = found(facts, "sglang.pin.flashinfer-python")
    assert "asks for flashinfer-python==0.6.4, found 0.6.8" in finding.message
    assert finding.remedy == "pip install 'flashinfer-python==0.6.4'"
    ok = sites.dist_info("vllm", "0.33.0", requires=("flashinfer-python>=0.6.8",))
    assert not found(examine(site, {**sites.flashinfer("0.6.8", "0.6.8"), **ok}), "vllm.pin")


@pytest.mark.parametrize(
    ("version", "cubin_says", "cache_says"),
    [
        ("0.6.8", ("error", "raises RuntimeError at import"), ("error", "raises RuntimeError at import")),
        ("0.7.0", ("error", "raises RuntimeError at import"), ("error", "when the first kernel is loaded")),
        ("0.7.1", ("error", "raises RuntimeError at import"), ("error", "when the first kernel is loaded")),
        ("0.7.2", ("warning", "downloaded on demand"), ("warning", "JIT-compiled")),
        ("0.7.4", ("warning", "downloaded on demand"), ("warning", "JIT-compiled")),
    ],
)
def test_the_three_regimes_are_worded_as_they_are(version, cubin_says, cache_says) -> None:
    """jit/env.py of each release."""
    facts = facts_of(version, versions={"flashinfer-cubin": "0.5.0", "flashinfer-jit-cache": "0.5.0+cu130"})
    for name, (severity, says) in (("flashinfer-cubin", cubin_says), ("flashinfer-jit-cache", cache_says)):
        (finding,) = found(facts, f"{name}.version")
        assert finding.severity == severity
        assert says in finding.message


# --- kinds F and I: triton_kernels packaging, guards -----------------------------------------------------------------------


def test_b64_b65_b68_which_generation_and_whose(site) -> None:
    """A tree without routing.py is named by its generation; the unrelated project is named as such."""
    facts = examine(site, sites.owned("3.6"))
    (finding,) = found(facts, "triton_kernels.adapter")
    assert "triton_kernels 3.6, from sglang-kernel 0.4.0: adapter triton_kernels_3_6" in finding.message
    facts = examine(site, {**sites.UNRELATED, **sites.dist_info("triton-kernels", "0.1.0", sites.record_of(sites.UNRELATED))})
    (finding,) = found(facts, "triton_kernels.adapter")
    assert finding.severity == "error"
    assert finding.remedy.startswith("pip uninstall -y triton-kernels")


def test_b66_which_copy_wins(site) -> None:
    """vllm#36004: an older package shadows the vendored one."""
    first = site({"triton_kernels": sites.tree("3.5.1")}, sites.owned("3.6"))
    facts = _doctor_facts.gather(gpu=False)
    (finding,) = found(facts, "triton_kernels.copies")
    assert finding.evidence[0][1] == str(first / "triton_kernels")
    assert "the first wins" in finding.message
    assert not found(examine(site, {}), "flashinfer.copies")


@pytest.mark.parametrize(
    ("variant", "triton", "severity", "says"),
    [
        ("3.6", "3.2.0", "error", "does not import on triton 3.2.0: it needs >=3.5"),
        ("3.8-shuffled", "3.6.0", "error", "it needs >=3.8"),
        ("3.4", "3.6.0", "error", "its matmul_ogs does not"),
        ("3.4", "3.4.0", "ok", "imports"),
        ("3.5.1", "3.6.0", "warning", "illegal address"),
        ("3.5.1", "3.5.1", "ok", "imports"),
        ("3.6", "3.6.0", "info", "30 % slower"),
        ("3.8", "3.9.0", "ok", "imports"),
        ("3.6", None, "error", "triton is not"),
    ],
)
def test_b70_b83_b86_triton_against_the_tree(site, variant, triton, severity, says) -> None:
    """vLLM-Kunlun#311, sglang#25310 (a warning: unconfirmed, and shipped by stock engines), vllm#39236."""
    extra = sites.dist_info("triton", triton) if triton else {}
    facts = examine(site, {**sites.owned(variant), **extra})
    if triton is None:
        facts.versions.pop("triton", None)
    (finding,) = found(facts, "triton.pair")
    assert (finding.severity, says in finding.message) == (severity, True), finding


def test_b72_b73_b74_the_generation_tells_what_was_renamed(site) -> None:
    """CDNA4/GFX950 names, weight_scale/b_mx_scale, RoutingData: 3.8 is told from 3.6, so an adapter can translate."""
    variants = {}
    for variant in ("3.6", "3.8", "3.8-shuffled", "3.8-tokenspeed"):
        facts = examine(site, sites.owned(variant))
        variants[variant] = facts.triton_kernels_selection.adapter
    assert variants == {
        "3.6": "triton_kernels_3_6",
        "3.8": "triton_kernels_3_8",
        "3.8-shuffled": "triton_kernels_3_8",
        "3.8-tokenspeed": "triton_kernels_3_8",
    }


def test_b75_b77_the_owner_is_named_by_record(site) -> None:
    """sglang#25325: whose copy is it."""
    facts = examine(site, sites.owned("3.8", "sglang-kernel", "0.4.7"))
    assert "from sglang-kernel 0.4.7" in found(facts, "triton_kernels.adapter")[0].message
    facts = examine(site, {"triton_kernels": sites.tree("3.6")})
    assert found(facts, "triton_kernels.owner")[0].severity == "info"


def test_b95_one_page_says_what_is_stable(site) -> None:
    """flashinfer#988: the surface is the documented names, and doctor says which adapter serves them."""
    assert set(fi_compat.__all__) >= {"fp4_quantize", "routing", "create_allreduce_fusion_workspace"}
    assert found(examine(site, sites.flashinfer()), "flashinfer.adapter")[0].severity == "ok"


def test_b84_b88_advisories(site) -> None:
    """sglang#31625, sglang#40420: information with the release that mends it."""
    assert found(facts_of("0.6.15"), "known.throughput-0.6.15")[0].severity == "info"
    assert not found(facts_of("0.6.15.post1"), "known.throughput-0.6.15")
    assert found(facts_of("0.6.18"), "known.autotuner-cache-0.6.18")


# --- releases known bad, floors, devices ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "python", "fires"),
    [("0.6.16", (3, 11, 7), True), ("0.6.16.post3", (3, 10, 1), True), ("0.6.16.post4", (3, 11, 7), False), ("0.6.16", (3, 12, 0), False)],
)
def test_b14_comm_on_an_old_python(version, python, fires) -> None:
    """verl-omni#506."""
    findings = found(facts_of(version, python=python), "known.comm-python")
    assert bool(findings) == fires
    if fires:
        assert (findings[0].severity, findings[0].remedy) == ("error", "pip install flashinfer-python==0.6.16.post4")


def test_b15_b43_b44_b59_releases_known_bad() -> None:
    """jit-cache 0.6.16 against tvm-ffi, 0.6.10 with subgroups, 0.6.12 on SM120."""
    assert found(
        facts_of("0.6.16", versions={"flashinfer-jit-cache": "0.6.16+cu130", "apache-tvm-ffi": "0.1.13"}), "known.jit-cache-tvm-ffi"
    )
    assert not found(
        facts_of("0.6.16", versions={"flashinfer-jit-cache": "0.6.16+cu130", "apache-tvm-ffi": "0.1.14"}), "known.jit-cache-tvm-ffi"
    )
    assert found(facts_of("0.6.10"), "known.allreduce-world")
    assert not found(facts_of("0.6.10.post1"), "known.allreduce-world")
    sm120 = [Gpu("RTX PRO 6000", (12, 0), "nvidia-smi")]
    assert found(facts_of("0.6.12", gpus=sm120), "known.mm-fp4-sm120")
    assert not found(facts_of("0.6.12"), "known.mm-fp4-sm120")
    assert not found(facts_of("0.6.13", gpus=sm120), "known.mm-fp4-sm120")


def test_b11_b21_real_floors() -> None:
    """cutlass-dsl 4.6.0 needs tvm-ffi 0.1.10; cute-dsl in 0.6.18 needs cutlass-dsl 4.7."""
    assert (
        found(facts_of("0.6.12", versions={"nvidia-cutlass-dsl": "4.6.0", "apache-tvm-ffi": "0.1.9"}), "apache-tvm-ffi.")[0].severity
        == "error"
    )
    assert not found(facts_of("0.6.12", versions={"nvidia-cutlass-dsl": "4.6.0", "apache-tvm-ffi": "0.1.10"}), "apache-tvm-ffi.")
    assert found(facts_of("0.6.18", versions={"nvidia-cutlass-dsl": "4.6.2"}), "nvidia-cutlass-dsl.cute-dsl")
    assert not found(facts_of("0.6.18", versions={"nvidia-cutlass-dsl": "4.7.0"}), "nvidia-cutlass-dsl.cute-dsl")


def test_b19_floors_of_the_installed_metadata() -> None:
    """What the wheel itself asks for."""
    facts = facts_of(
        "0.6.17",
        versions={"apache-tvm-ffi": "0.1.5"},
        requires={"flashinfer-python": ["apache-tvm-ffi<0.2,>=0.1.6", "torch", "nonsense ;;"]},
    )
    (finding,) = found(facts, "apache-tvm-ffi.floor")
    assert finding.remedy == "pip install 'apache-tvm-ffi<0.2,>=0.1.6'"
    facts.versions["apache-tvm-ffi"] = "0.1.6"
    assert not found(facts, "apache-tvm-ffi.floor")


def test_the_libs_overlay_of_cutlass_dsl() -> None:
    """nvidia-cutlass-dsl beside library wheels of another version."""
    assert found(facts_of(versions={"nvidia-cutlass-dsl": "4.7.0", "nvidia-cutlass-dsl-libs-base": "4.6.0"}), "nvidia-cutlass-dsl.libs")
    assert not found(facts_of(versions={"nvidia-cutlass-dsl": "4.7.0", "nvidia-cutlass-dsl-libs-base": "4.7.0"}), "nvidia-cutlass-dsl.libs")


def test_compilers_where_there_is_no_jit_cache() -> None:
    """nvcc and ninja."""
    assert found(facts_of(tools={"nvcc": None, "ninja": "/n"}), "flashinfer.jit")[0].severity == "warning"
    assert "pip install ninja" in found(facts_of(tools={"nvcc": "/n", "ninja": None}), "flashinfer.jit")[0].remedy
    assert found(facts_of(), "flashinfer.jit")[0].severity == "info"
    assert not found(facts_of(versions={"flashinfer-jit-cache": "0.6.17+cu130"}), "flashinfer.jit")


def test_devices(site) -> None:
    """Below 10.0 FP4 is refused; SM12x wants the warps patch; mixed devices are named."""
    h200, b200, sm120 = Gpu("H200", (9, 0), "nvidia-smi"), Gpu("B200", (10, 0), "nvidia-smi"), Gpu("RTX", (12, 0), "nvidia-smi")
    assert found(facts_of(gpus=[h200]), "gpu.fp4")
    assert found(facts_of(gpus=[b200]), "gpu.capability")[0].severity == "ok"
    assert found(facts_of(gpus=[h200, b200]), "gpu.mixed")
    facts = examine(site, {**sites.flashinfer(), **sites.owned("3.6")})
    facts.gpus = [sm120]
    assert found(facts, "gpu.sm120-warps")


def test_the_unrelated_distribution_beside_a_whole_tree(site) -> None:
    """It shares __init__.py: a warning, since uninstalling it takes that file away."""
    tree = sites.owned("3.6")
    other = sites.dist_info("triton-kernels", "0.1.0", sites.record_of({"triton_kernels": {"__init__.py": ""}}))
    (finding,) = found(examine(site, {**tree, **other}), "triton_kernels.unrelated")
    assert (finding.severity, finding.remedy) == ("warning", "pip uninstall -y triton-kernels")
    assert not found(examine(site, tree), "triton_kernels.unrelated")


def test_checks_that_find_nothing_say_nothing(site) -> None:
    """The other side of those that are only shown firing above."""
    h200, b200 = Gpu("H200", (9, 0), "nvidia-smi"), Gpu("B200", (10, 0), "nvidia-smi")
    assert not found(facts_of(gpus=[b200]), "gpu.fp4")
    assert not found(facts_of(gpus=[h200, h200]), "gpu.mixed")
    assert not found(facts_of("0.6.17"), "known.autotuner-cache-0.6.18")
    facts = examine(site, {**sites.flashinfer(), **sites.owned("3.5.1")})
    facts.gpus = [Gpu("RTX", (12, 0), "nvidia-smi")]
    assert not found(facts, "gpu.sm120-warps")
    for name in ("triton_kernels.owner", "triton_kernels.copies", "tvm_ffi.copies", "apache-tvm-ffi.distributions", "environment."):
        assert not found(facts, name), name


@pytest.mark.parametrize(
    ("version", "variable", "value", "severity"),
    [
        ("0.6.12", "FLASHINFER_NVFP4_4OVER6", "1", "error"),
        ("0.6.12", "FLASHINFER_NVFP4_4OVER6", "0", "warning"),
        ("0.7.1", "FLASHINFER_NVFP4_4OVER6", "1", "warning"),
        ("0.6.17", "FLASHINFER_DISABLE_FP4_QUANT_FAST_MATH", "1", "warning"),
    ],
)
def test_variables_that_change_numerics(version, variable, value, severity) -> None:
    """4 over 6 is an error where fp4_quantize is refused for it."""
    (finding,) = found(facts_of(version, environment={variable: value}), f"environment.{variable}")
    assert finding.severity == severity
    assert not found(facts_of(version), "environment.")


def test_other_variables() -> None:
    """FLASHINFER_CUBIN_DIR beside the package, and our own overrides."""
    facts = facts_of("0.6.16", environment={"FLASHINFER_CUBIN_DIR": "/c"}, versions={"flashinfer-cubin": "0.6.16"})
    assert "the variable counts" in found(facts, "environment.FLASHINFER_CUBIN_DIR")[0].message
    facts = facts_of("0.6.15", environment={"FLASHINFER_CUBIN_DIR": "/c"}, versions={"flashinfer-cubin": "0.6.15"})
    assert "the package counts" in found(facts, "environment.FLASHINFER_CUBIN_DIR")[0].message
    assert found(facts_of(environment={"FI_COMPAT_FLASHINFER_ADAPTER": "x"}), "environment.FI_COMPAT_FLASHINFER_ADAPTER")


def test_a_guess_is_a_warning(site) -> None:
    """A release newer than tested, and what to run."""
    facts = examine(site, sites.flashinfer("0.9.0", "0.9.0", "0.7.4"))
    (finding,) = found(facts, "flashinfer.adapter")
    assert finding.severity == "warning"
    assert "nox -s newest" in finding.remedy


def test_a_tree_that_is_not_whole(site) -> None:
    """Deep: an import inside it leads nowhere."""
    tree = sites.owned("3.6")
    tree["triton_kernels"]["tensor.py"] = "from .gone import x\n"
    facts = examine(site, tree)
    assert found(facts, "triton_kernels.")[0].severity == "error"


# --- output, guards, speed ---------------------------------------------------------------------------------------------------


def test_every_check_is_guarded(monkeypatch) -> None:
    """The report always prints."""

    def broken(facts):
        raise RuntimeError("boom")

    monkeypatch.setattr(doctor, "CHECKS", (broken, _doctor_wheels.companions))
    (finding,) = doctor.examine(facts_of())
    assert "broken failed: RuntimeError: boom" in finding.message
    monkeypatch.setattr(_doctor_facts, "_upstreams", broken)
    monkeypatch.undo()
    facts = facts_of(problems=["copies: OSError"])
    assert found(facts, "doctor.probe")


def test_exit_statuses() -> None:
    """0 fine, 1 a warning or a guess, 2 an error; --strict makes a warning an error."""
    make = lambda severity: [_doctor_finding.Finding("x", severity, "m")]
    assert [doctor.exit_status(make(s)) for s in _doctor_finding.SEVERITIES] == [0, 0, 1, 2]
    assert doctor.exit_status(make("warning"), strict=True) == 2
    assert doctor.exit_status(make("info"), strict=True) == 0
    assert doctor.exit_status([]) == 0


def test_the_json_report_and_what_share_redacts(monkeypatch) -> None:
    """Schema 1; home folders, user names, secrets and credentials in URLs do not leave the machine."""
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("USER", "somebody")
    finding = _doctor_finding.Finding(
        "x",
        "warning",
        "m",
        (("root", "/home/somebody/site"), ("index", "https://me:pw@host/simple"), ("env", "API_TOKEN=abc123"), ("other", "/home/else/x")),
        "r",
    )
    plain = json.loads(doctor.to_json([finding], 1))
    assert set(plain) == {"schema", "fi_compat", "python", "platform", "status", "findings"}
    assert plain["schema"] == doctor.SCHEMA == 1
    assert set(plain["findings"][0]) == {"id", "severity", "message", "evidence", "remedy"}
    text = doctor.to_json([finding], 1, share=True)
    json.loads(text)
    for secret in ("somebody", "me:pw", "abc123", "/home/else"):
        assert secret not in text
    assert "~/site" in text


def test_every_finding_that_is_not_fine_has_a_remedy_of_one_line() -> None:
    """Data of the table included."""
    for issue in _table.KNOWN_ISSUES:
        assert issue.remedy
        assert "\n" not in issue.remedy
        assert issue.severity in _doctor_finding.SEVERITIES
    for check in _doctor_checks.CHECKS:
        assert check.__doc__


def command(*arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command line in a fresh interpreter."""
    environment = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": RUN, **(env or {})}
    return subprocess.run(
        [sys.executable, "-m", "fi_compat", *arguments], env=environment, cwd=cwd, capture_output=True, text=True, check=False
    )


def test_the_command(tmp_path) -> None:
    """Plain where there is no terminal; JSON; a broken upstream; nothing imported (the fake FlashInfer raises)."""
    root = sites.build(tmp_path, {**sites.flashinfer("0.6.14", "0.6.14", "0.6.12"), **cubin("0.6.13")})
    env = {"PYTHONPATH": f"{root}{os.pathsep}{RUN}"}
    result = command("doctor", env=env)
    assert result.returncode == 2
    assert "flashinfer-cubin 0.6.13 is not of flashinfer-python 0.6.14" in result.stdout
    assert "collect_env" not in result.stdout
    (root / "flashinfer" / "collect_env.py").write_text("")
    assert "python -m flashinfer.collect_env" in command("doctor", env=env).stdout
    result = command("doctor", "--json", env=env)
    assert json.loads(result.stdout)["status"] == 2
    (root / "flashinfer" / "_build_meta.py").write_text("nonsense = = 1")
    result = command("doctor", env=env)
    assert result.returncode == 2
    assert "cannot be parsed" in result.stdout
    assert "Traceback" not in result.stdout + result.stderr
    assert command("doctor", "--nonsense").returncode == 64
    assert command("constraints", "--flashinfer", "0.6.17").returncode == 0
    assert command("constraints", "--flashinfer", "nope").returncode == 64
    assert command().returncode == 0
    assert "doctor" in command().stdout


def test_it_works_without_anything_in_a_read_only_home_and_with_safe_path(tmp_path) -> None:
    """No torch, no upstream, PYTHONSAFEPATH, no home to write to."""
    result = command("doctor", env={"HOME": "/proc/nowhere", "PYTHONSAFEPATH": "1"}, cwd=tmp_path)
    assert result.returncode in {0, 1}, result.stdout + result.stderr
    assert "flashinfer is not installed" in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_it_imports_no_upstream(tmp_path) -> None:
    """Proved by the modules that are loaded after it ran."""
    root = sites.build(tmp_path, {**sites.flashinfer(), **sites.owned("3.6"), "torch": {"__init__.py": "raise RuntimeError('imported')"}})
    code = "import sys; from fi_compat import doctor; doctor.examine(); print([m for m in ('torch', 'triton', 'flashinfer', 'triton_kernels', 'numpy') if m in sys.modules])"
    env = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": f"{root}{os.pathsep}{RUN}"}
    result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_it_opens_a_bounded_number_of_files(tmp_path) -> None:
    """A fact that does not wobble: the doctor of a clean environment opens few files; seconds are a benchmark's."""
    root = sites.build(tmp_path, {**sites.flashinfer(), **sites.owned("3.6")})
    code = (
        "import sys; opened = []\n"
        f"sys.addaudithook(lambda e, a: opened.append(a[0]) if e == 'open' and str(a[0]).startswith({str(root)!r}) else None)\n"
        "from fi_compat import doctor; doctor.examine(gpu=False); print(len(opened))"
    )
    env = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": f"{root}{os.pathsep}{RUN}"}
    result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert int(result.stdout) < 60


def test_a_hung_driver_is_bounded(monkeypatch, tmp_path) -> None:
    """nvidia-smi that never answers costs its limit and no more."""
    fake = tmp_path / "nvidia-smi"
    fake.write_text("#!/bin/sh\nexec sleep 60\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(_doctor_facts, "_GPU_SECONDS", 0.2)
    start = time.monotonic()
    assert _doctor_facts._gpus() == []
    assert time.monotonic() - start < 10
    fake.write_text("#!/bin/sh\necho 'NVIDIA H200, 9.0'\n")
    assert _doctor_facts._gpus() == [Gpu("NVIDIA H200", (9, 0), "nvidia-smi")]


def test_torchs_cuda_is_read_from_its_version_file(site) -> None:
    """Without importing it."""
    site(
        {
            "torch": {
                "__init__.py": "raise RuntimeError",
                "version.py": "from typing import Optional\n__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\n",
            }
        }
    )
    facts = _doctor_facts.gather(gpu=False)
    assert facts.torch_cuda == "13.0"
    site({"torch": {"__init__.py": "", "version.py": "cuda: Optional[str] = None\n"}})
    assert _doctor_facts.gather(gpu=False).torch_cuda is None


def test_main_returns_the_status(capsys, site) -> None:
    """In process, for coverage of the dispatch."""
    site(sites.flashinfer())
    assert cli.main(["doctor", "--json", "--share"]) in {0, 1}
    assert json.loads(capsys.readouterr().out)["schema"] == 1
