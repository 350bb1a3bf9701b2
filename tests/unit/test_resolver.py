"""The pure choice, driven by tables of strings."""

from __future__ import annotations

import dataclasses

import pytest

from fi_compat import _table, adapter_for, errors, select
from fi_compat._selection import FlashInferFacts, Owner, Problem, TritonKernelsFacts

ALL_MARKS = frozenset(mark for row in _table.FLASHINFER_ROWS for mark in row.marks)
FP4 = "quantization/fp4_quantization.py"


def marks_of(adapter: str) -> frozenset[tuple[str, str, str]]:
    """Return the marks that a source of that row has: its own and those before it."""
    found: set[tuple[str, str, str]] = set()
    for row in _table.FLASHINFER_ROWS:
        found.update(row.marks)
        if row.adapter == adapter:
            break
    return frozenset(found)


@pytest.mark.parametrize(
    ("version", "adapter"),
    [
        ("0.6.8", "flashinfer_0_6_8"),
        ("0.6.8.post1", "flashinfer_0_6_8"),
        ("0.6.9", "flashinfer_0_6_8"),
        ("0.6.10.post1", "flashinfer_0_6_8"),
        ("0.6.11", "flashinfer_0_6_11"),
        ("0.6.11.post3", "flashinfer_0_6_11"),
        ("0.6.12", "flashinfer_0_6_12"),
        ("0.6.16.post4", "flashinfer_0_6_12"),
        ("0.7.0.post1", "flashinfer_0_6_12"),
        ("0.7.1", "flashinfer_0_7_1"),
        ("0.7.4", "flashinfer_0_7_1"),
        ("0.6.17+cu130", "flashinfer_0_6_12"),
        ("0.7.4+amd.1", "flashinfer_0_7_1"),
    ],
)
def test_a_published_release_is_served_by_version(version: str, adapter: str) -> None:
    """PEP 440 decides, post-releases and local segments included."""
    selection = select("flashinfer", FlashInferFacts(root="/site/flashinfer", file_version=version))
    assert selection.how == "version"
    # The rows may be split further; the meaning of fp4_quantize begins at the named release.
    assert selection.adapter == adapter_for("flashinfer", version)
    rank = [row.adapter for row in _table.FLASHINFER_ROWS].index
    assert rank(selection.adapter) >= rank(adapter)


def test_every_published_release_has_exactly_one_row() -> None:
    """No release falls between two rows or into both."""
    from packaging.specifiers import SpecifierSet

    for release in _table.FLASHINFER_RELEASES:
        rows = [row.adapter for row in _table.FLASHINFER_ROWS if SpecifierSet(row.spec).contains(release, prereleases=True)]
        assert len(rows) == 1, (release, rows)


@pytest.mark.parametrize("version", ["0.6.11.dev20260401", "0.6.11rc1", "0.6.11.dev0", "0.7.1.dev20260801+g1234"])
def test_a_development_build_is_checked_against_its_structure(version: str) -> None:
    """A build dated before the change has the older signature and gets the older adapter."""
    row = adapter_for("flashinfer", version)
    index = [r.adapter for r in _table.FLASHINFER_ROWS].index(row)
    facts = FlashInferFacts(root="/site/flashinfer", file_version=version, marks=marks_of(row))
    assert select("flashinfer", facts).adapter == row
    before = _table.FLASHINFER_ROWS[index - 1].adapter
    older = select("flashinfer", dataclasses.replace(facts, marks=marks_of(before)))
    assert older.adapter == before
    assert older.how == "structure"


@pytest.mark.parametrize("version", [None, "0.0.0+unknown", "not a version"])
def test_a_version_that_says_nothing_falls_back_on_structure(version: str | None) -> None:
    """The newest row whose marks are all there is taken."""
    for row in _table.FLASHINFER_ROWS:
        facts = FlashInferFacts(root="/site/flashinfer", file_version=version, marks=marks_of(row.adapter))
        selection = select("flashinfer", facts)
        assert selection.how == "structure"
        assert [m for m in row.marks if m not in marks_of(selection.adapter)] == []


@pytest.mark.parametrize("version", ["0.7.4.post1", "0.7.5", "0.8.0.dev1", "1.0"])
def test_newer_than_tested_is_a_guess_by_structure_and_an_error_under_strict(version: str) -> None:
    """FI_COMPAT_STRICT=1 turns the guess into a typed error that names both versions."""
    facts = FlashInferFacts(root="/site/flashinfer", file_version=version, marks=ALL_MARKS)
    selection = select("flashinfer", facts)
    assert (selection.how, selection.adapter) == ("structure", _table.FLASHINFER_ROWS[-1].adapter)
    with pytest.raises(errors.UnknownUpstreamError, match=r"newer than tested.*pip install flashinfer-python==0\.7\.4"):
        select("flashinfer", dataclasses.replace(facts, strict=True))


@pytest.mark.parametrize("version", ["0.6.7.post3", "0.2.5", "0.6.0"])
def test_b07_older_than_the_oldest_adapter_is_an_error(version: str) -> None:
    """Never a guess: the message has the pip line (sglang#5353 ran FlashInfer 0.2.5)."""
    with pytest.raises(errors.IncompatibleUpstreamError, match=r"pip install -U 'flashinfer-python>=0\.6\.8'"):
        select("flashinfer", FlashInferFacts(root="/site/flashinfer", file_version=version))
    with pytest.raises(errors.IncompatibleUpstreamError):
        adapter_for("flashinfer", version)


def test_versions_are_not_compared_as_strings() -> None:
    """0.6.10 is newer than 0.6.9."""
    ranks = [row.adapter for row in _table.FLASHINFER_ROWS]
    assert ranks.index(adapter_for("flashinfer", "0.6.10")) >= ranks.index(adapter_for("flashinfer", "0.6.9"))


def test_a_shadowing_checkout_counts_and_is_in_the_trace() -> None:
    """_build_meta.py beats the distribution's metadata."""
    selection = select("flashinfer", FlashInferFacts(root="/src/flashinfer", file_version="0.6.11", dist_version="0.7.1"))
    assert selection.adapter == adapter_for("flashinfer", "0.6.11")
    assert any("shadowed by /src/flashinfer" in verdict.reason for verdict in selection.trace)


def test_the_trace_names_every_candidate_with_a_reason() -> None:
    """One accepted row, and each other row rejected with its bounds."""
    trace = select("flashinfer", FlashInferFacts(root="/site/flashinfer", file_version="0.6.12")).trace
    assert [v.accepted for v in trace].count(True) == 1
    assert {v.candidate for v in trace} == {row.adapter for row in _table.FLASHINFER_ROWS}
    assert all(v.reason for v in trace)


def test_an_override_names_an_adapter_or_is_refused() -> None:
    """There is no switch that skips the check, only one that names what it wants."""
    facts = FlashInferFacts(root="/site/flashinfer", file_version="0.7.4", override="flashinfer_0_6_8")
    assert (select("flashinfer", facts).adapter, select("flashinfer", facts).how) == ("flashinfer_0_6_8", "override")
    with pytest.raises(errors.ConfigurationError, match="FI_COMPAT_FLASHINFER_ADAPTER='1' names no adapter; known are flashinfer_0_6_8"):
        select("flashinfer", dataclasses.replace(facts, override="1"))


def test_not_installed_and_broken_are_told_apart() -> None:
    """A distribution without its folder is broken, not missing."""
    with pytest.raises(errors.UpstreamNotInstalledError, match="pip install"):
        select("flashinfer", FlashInferFacts(root=None))
    with pytest.raises(errors.IncompatibleUpstreamError, match="folder flashinfer is not"):
        select("flashinfer", FlashInferFacts(root=None, dist_version="0.6.8"))
    problem = Problem("/site/flashinfer/_build_meta.py", "/site/flashinfer/_build_meta.py cannot be parsed", "reinstall")
    with pytest.raises(errors.IncompatibleUpstreamError, match=r"_build_meta\.py cannot be parsed"):
        select("flashinfer", FlashInferFacts(root="/site/flashinfer", problems=(problem,)))


def test_nothing_recognisable_is_unknown() -> None:
    """A folder called flashinfer with none of the marks is not guessed at."""
    with pytest.raises(errors.UnknownUpstreamError, match="cannot be recognised"):
        select("flashinfer", FlashInferFacts(root="/site/flashinfer", marks=frozenset()))


LEGACY = ("x", "k", "apply_softmax", "dim", "return_bitmatrix", "y_indx", "n_rows")
R2 = ("x", "k", "apply_softmax", "dim", "y_indx", "n_rows", "all_gather")
R3 = (*R2, "symm_mem_pool")


def facts_of(variant: str, **changes: object) -> TritonKernelsFacts:
    """Return the facts of a whole tree of a variant."""
    row = next(r for r in _table.TRITON_KERNELS_ROWS if r.variant == variant)
    parameters = {"3.4": LEGACY, "3.5.1": LEGACY, "3.6": R2}.get(variant, R3)
    facts = TritonKernelsFacts(root="/site/triton_kernels", files=frozenset((*row.requires, *row.marks)), topk_parameters=parameters)
    return dataclasses.replace(facts, **changes)


@pytest.mark.parametrize(
    ("variant", "generation", "adapter", "triton"),
    [
        ("3.4", "3.4", "triton_kernels_3_5_1", ">=3.4,<3.5"),
        ("3.5.1", "3.5.1", "triton_kernels_3_5_1", ">=3.5"),
        ("3.6", "3.6", "triton_kernels_3_6", ">=3.5"),
        ("3.8", "3.8", "triton_kernels_3_8", ">=3.5"),
        ("3.8-shuffled", "3.8", "triton_kernels_3_8", ">=3.8"),
        ("3.8-tokenspeed", "3.8", "triton_kernels_3_8", ">=3.8"),
    ],
)
def test_a_tree_is_told_by_its_structure(variant: str, generation: str, adapter: str, triton: str) -> None:
    """topk()'s parameters decide, marker files tell variants apart."""
    selection = select("triton_kernels", facts_of(variant))
    assert (selection.version, selection.variant, selection.adapter, selection.triton_range) == (generation, variant, adapter, triton)
    assert selection.how == "structure"
    assert adapter_for("triton_kernels", variant) == adapter


def test_routing_py_alone_does_not_make_a_tree_legacy() -> None:
    """B64, B65: a stale routing.py beside a 3.6 topk.py is a mix, named with the pip line."""
    facts = facts_of("3.6")
    with pytest.raises(errors.IncompatibleUpstreamError, match=r"mix of two trees.*routing\.py.*pip install"):
        select("triton_kernels", dataclasses.replace(facts, files=facts.files | {"routing.py"}))


def test_b77_two_owners_with_changed_files_are_refused_and_named() -> None:
    """sgl-kernel then sglang-kernel: pip installs both silently."""
    owners = (Owner("sgl-kernel", "0.3.21", 40, 14, 20, 6), Owner("sglang-kernel", "0.4.3", 41, 41, 0, 0))
    with pytest.raises(errors.IncompatibleUpstreamError) as info:
        select("triton_kernels", facts_of("3.6", owners=owners))
    assert "pip uninstall -y sgl-kernel sglang-kernel" in str(info.value)
    assert "pip install --no-deps --force-reinstall sglang-kernel==0.4.3" in str(info.value)


def test_two_owners_of_the_same_bytes_are_fine() -> None:
    """sgl-kernel 0.3.21 and sglang-kernel 0.4.0 ship the same tree."""
    owners = (Owner("sgl-kernel", "0.3.21", 40, 40, 0, 0), Owner("sglang-kernel", "0.4.0", 40, 40, 0, 0))
    assert select("triton_kernels", facts_of("3.5.1", owners=owners)).adapter == "triton_kernels_3_5_1"


def test_a_half_uninstalled_tree_is_refused() -> None:
    """A file that the generation cannot route without is gone."""
    facts = facts_of("3.6")
    with pytest.raises(errors.IncompatibleUpstreamError, match=r"half-uninstalled.*tensor_details/ragged_tensor\.py"):
        select("triton_kernels", dataclasses.replace(facts, files=facts.files - {"tensor_details/ragged_tensor.py"}))


def test_leftovers_without_topk_are_refused() -> None:
    """`pip uninstall sgl-kernel` leaves six files, and sglang's own check still says yes."""
    facts = TritonKernelsFacts(root="/site/triton_kernels", namespace=True, files=frozenset({"tensor_details/ragged_tensor.py"}))
    with pytest.raises(
        errors.IncompatibleUpstreamError, match=r"left over from an uninstalled package: found tensor_details/ragged_tensor\.py"
    ):
        select("triton_kernels", facts)


def test_b68_the_unrelated_project_is_named() -> None:
    """PyPI's triton-kernels 0.1.0 is not the Triton project's."""
    facts = TritonKernelsFacts(root="/site/triton_kernels", files=frozenset({"add_vectors.py"}), owners=(Owner("triton-kernels", "0.1.0"),))
    with pytest.raises(
        errors.IncompatibleUpstreamError, match=r"unrelated project.*triton-kernels 0\.1\.0.*pip uninstall -y triton-kernels"
    ):
        select("triton_kernels", facts)


def test_the_unrelated_project_beside_a_whole_tree_is_fine() -> None:
    """They share only __init__.py, which is empty in both."""
    facts = facts_of("3.6", owners=(Owner("sglang-kernel", "0.4.3", 41), Owner("triton-kernels", "0.1.0", 7)))
    selection = select("triton_kernels", dataclasses.replace(facts, files=facts.files | {"add_vectors.py"}))
    assert selection.owner == "sglang-kernel 0.4.3"


def test_a_namespace_package_that_is_whole_works() -> None:
    """Uninstalling the unrelated project deletes __init__.py, and the rest still imports."""
    selection = select("triton_kernels", facts_of("3.6", namespace=True))
    assert any("namespace" in verdict.reason for verdict in selection.trace)


def test_an_unknown_topk_is_unknown() -> None:
    """A generation that nobody has seen is not guessed at."""
    with pytest.raises(errors.UnknownUpstreamError, match=r"topk\(x, k\)"):
        select("triton_kernels", facts_of("3.6", topk_parameters=("x", "k")))


def test_the_reference_backend_is_an_override_only() -> None:
    """Never a silent fallback: without the variable a missing tree is an error with the pip line."""
    assert select("triton_kernels", TritonKernelsFacts(root=None, override="reference")).adapter == "reference"
    with pytest.raises(errors.UpstreamNotInstalledError, match=r"pip install .*sglang-kernel"):
        select("triton_kernels", TritonKernelsFacts(root=None))
    with pytest.raises(errors.ConfigurationError, match="FI_COMPAT_TRITON_KERNELS_ADAPTER='torch' names no adapter"):
        select("triton_kernels", TritonKernelsFacts(root=None, override="torch"))


def test_select_and_adapter_for_refuse_other_names() -> None:
    """The message lists what there is."""
    with pytest.raises(ValueError, match="flashinfer"):
        select("vllm", TritonKernelsFacts(root=None))
    with pytest.raises(ValueError, match="flashinfer"):
        adapter_for("vllm", "1")
    with pytest.raises(errors.UnknownUpstreamError, match=r"3\.8-tokenspeed"):
        adapter_for("triton_kernels", "2.0")
    with pytest.raises(errors.UnknownUpstreamError, match="PEP 440"):
        adapter_for("flashinfer", "latest")


def test_every_error_is_also_what_callers_catch() -> None:
    """ImportError, NotImplementedError, RuntimeError and ValueError, and our base."""
    parents = {
        errors.UpstreamNotInstalledError: ImportError,
        errors.UpstreamImportError: ImportError,
        errors.UnknownUpstreamError: ImportError,
        errors.IncompatibleUpstreamError: ImportError,
        errors.UnsupportedFeatureError: NotImplementedError,
        errors.UnsupportedDeviceError: RuntimeError,
        errors.ConfigurationError: ValueError,
    }
    for kind, parent in parents.items():
        assert issubclass(kind, parent)
        assert issubclass(kind, errors.FiCompatError)
    error = errors.UnsupportedFeatureError("m", feature="f", found="x", since="y")
    assert (error.feature, error.found, error.since) == ("f", "x", "y")
