"""What is read from site directories on disk; nothing patches importlib.metadata."""

from __future__ import annotations

import logging
import os
import sys
import threading
import types

import pytest
import sites

import fi_compat
from fi_compat import _bindings, _installed, _resolver, errors


def test_a_plain_installation(site) -> None:
    """Version from _build_meta.py, owner from the distribution."""
    root = site(sites.flashinfer("0.6.11", "0.6.11", "0.6.11"))
    selection = fi_compat.active("flashinfer")
    assert (selection.version, selection.how, selection.root) == ("0.6.11", "version", str(root / "flashinfer"))
    assert selection.owner == "flashinfer-python 0.6.11"


def test_the_distribution_counts_where_the_file_is_missing(site) -> None:
    """Wheels before _build_meta.py existed."""
    site(sites.flashinfer(None, "0.6.12", "0.6.12"))
    assert fi_compat.active("flashinfer").version == "0.6.12"


def test_an_editable_install_found_through_a_path_file(site, tmp_path) -> None:
    """The checkout's folder is what is imported, the distribution is elsewhere."""
    checkout = sites.build(tmp_path / "checkout", {"flashinfer": sites.flashinfer("0.7.1", None, "0.7.1")["flashinfer"]})
    site(sites.dist_info("flashinfer-python", "0.7.1"))
    sys.path.append(str(checkout))
    try:
        assert fi_compat.active("flashinfer").root == str(checkout / "flashinfer")
    finally:
        sys.path.remove(str(checkout))


def test_a_shadowing_checkout_wins_and_is_told(site) -> None:
    """The file beside the code that is imported counts."""
    site(sites.flashinfer("0.6.11", None, "0.6.11"), sites.flashinfer("0.7.1", "0.7.1", "0.7.1"))
    selection = fi_compat.active("flashinfer")
    assert selection.version == "0.6.11"
    assert any("shadowed" in v.reason for v in selection.trace)


@pytest.mark.parametrize(
    ("version", "how"),
    [("0.0.0+unknown", "structure"), ("0.6.11.dev20260401", "version"), ("0.6.17+cu130", "version"), ("0.6.17+amd.1", "version")],
)
def test_odd_versions_have_an_answer(site, version, how) -> None:
    """Unknown, nightly, CUDA and vendor builds."""
    site(sites.flashinfer(version, version, "0.6.12"))
    assert fi_compat.active("flashinfer").how == how


@pytest.mark.parametrize(
    ("meta", "says"),
    [("__version__ = ", "cannot be parsed"), ("\x00", "cannot be parsed"), ("version = '1'\n", "has no __version__")],
)
def test_a_corrupt_build_meta_is_a_typed_error_that_names_the_file(site, meta, says) -> None:
    """Never a traceback from inside the resolver."""
    site(sites.flashinfer(meta=meta))
    with pytest.raises(errors.IncompatibleUpstreamError, match=rf"_build_meta\.py {says}.*pip install"):
        fi_compat.active("flashinfer")


def test_metadata_without_a_version_is_named(site) -> None:
    """The dist-info folder is in the message."""
    tree = sites.flashinfer(None, None)
    site({**tree, **sites.dist_info("flashinfer-python", None)})
    with pytest.raises(errors.IncompatibleUpstreamError, match="METADATA has no Version"):
        fi_compat.active("flashinfer")


def test_a_file_where_the_package_should_be(site) -> None:
    """Both a module and a file without a suffix are named."""
    root = site({"flashinfer.py": ""})
    with pytest.raises(errors.IncompatibleUpstreamError, match=str(root / "flashinfer.py")):
        fi_compat.active("flashinfer")
    root = site({"triton_kernels": "not a folder"})
    with pytest.raises(errors.IncompatibleUpstreamError, match=rf"{root}/triton_kernels is a file"):
        fi_compat.active("triton_kernels")


def test_a_half_uninstalled_flashinfer(site) -> None:
    """A folder with only leftovers is broken, not missing."""
    site({"flashinfer": {"data": {"x": ""}}})
    with pytest.raises(errors.IncompatibleUpstreamError, match=r"has no __init__\.py"):
        fi_compat.active("flashinfer")


def test_an_installed_distribution_without_its_folder(site) -> None:
    """Installed but broken, never not installed."""
    site(sites.dist_info("flashinfer-python", "0.6.8"))
    with pytest.raises(errors.IncompatibleUpstreamError, match="force-reinstall"):
        fi_compat.active("flashinfer")


def _as_nobody(function) -> str:
    """Run a function in a forked child without root's rights, and return what it printed."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if os.getuid() == 0:
                os.setuid(65534)
            os.write(write, function().encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    with os.fdopen(read) as pipe:
        return pipe.read()


@pytest.mark.parametrize("upstream", ["flashinfer", "triton_kernels"])
def test_an_unreadable_directory_is_a_typed_error_that_names_it(site, upstream, tmp_path) -> None:
    """Installed but unreadable is never reported as not installed."""
    root = site({**sites.flashinfer(), **sites.owned("3.6")})
    for folder in (tmp_path, *tmp_path.parents):
        if folder.owner() == "root" and str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    (root / upstream).chmod(0)

    def look() -> str:
        try:
            fi_compat.active(upstream)
        except Exception as error:  # noqa: BLE001 - the type is what is tested
            return f"{type(error).__name__}: {error}"
        return "no error"

    try:
        said = _as_nobody(look)
    finally:
        (root / upstream).chmod(0o755)
    assert said.startswith("IncompatibleUpstreamError"), said
    assert str(root / upstream) in said


@pytest.mark.parametrize("variant", ["3.4", "3.5.1", "3.6", "3.8", "3.8-shuffled", "3.8-tokenspeed"])
def test_every_tree_is_recognised_with_its_owner(site, variant) -> None:
    """By structure, and the owner by RECORD."""
    site(sites.owned(variant))
    selection = fi_compat.active("triton_kernels")
    assert (selection.variant, selection.owner) == (variant, "sglang-kernel 0.4.0")


def test_the_owner_is_found_under_any_distribution_name(site) -> None:
    """A rebuilt wheel under a private name."""
    site(sites.owned("3.6", "my-kernels", "1.0"))
    assert fi_compat.active("triton_kernels").owner == "my-kernels 1.0"


def test_a_distribution_elsewhere_owns_nothing_of_the_tree_that_wins(site) -> None:
    """B66: the copy that is first on sys.path counts, and its owner."""
    site({"triton_kernels": sites.tree("3.5.1")}, sites.owned("3.6"))
    selection = fi_compat.active("triton_kernels")
    assert (selection.variant, selection.owner) == ("3.5.1", "")


def test_an_alias_in_sys_modules_counts_first(site, monkeypatch, tmp_path) -> None:
    """vLLM installs its vendored copy under the public name."""
    site(sites.owned("3.6"))
    vendored = sites.build(tmp_path / "vllm" / "third_party" / "triton_kernels", sites.tree("3.5.1"))
    alias = types.ModuleType("vllm.third_party.triton_kernels")
    alias.__path__ = [str(vendored)]
    alias.__file__ = str(vendored / "__init__.py")
    monkeypatch.setitem(sys.modules, "triton_kernels", alias)
    selection = fi_compat.active("triton_kernels")
    assert (selection.variant, selection.root) == ("3.5.1", str(vendored))
    assert any("sys.modules" in v.reason for v in selection.trace)


def test_a_vendored_copy_that_is_not_aliased_yet_is_mentioned(site) -> None:
    """Not installed, but vllm has one that importing it aliases."""
    site({"vllm": {"__init__.py": "", "third_party": {"triton_kernels": {"__init__.py": ""}}}})
    with pytest.raises(errors.UpstreamNotInstalledError, match="vLLM's own copy"):
        fi_compat.active("triton_kernels")


OVERLAYS = [
    ("3.5.1", "3.6"),
    ("3.6", "3.5.1"),
    ("3.6", "3.8"),
    ("3.8", "3.6"),
    ("3.5.1", "3.8"),
    ("3.8", "3.5.1"),
    ("3.4", "3.8-shuffled"),
    ("3.8-shuffled", "3.8"),
    ("3.5.1", "3.4"),
]


@pytest.mark.parametrize(("first", "second"), OVERLAYS)
def test_an_overlay_of_two_trees_is_refused_with_the_pip_line(site, first, second) -> None:
    """pip installs sgl-kernel and sglang-kernel over each other without a word; hashes tell which lost."""
    one, two = sites.owned(first, "sgl-kernel", "0.3.21"), sites.owned(second, "sglang-kernel", "0.4.3")
    site(merge(one, two))
    with pytest.raises(errors.IncompatibleUpstreamError, match=r"mix of two trees.*pip uninstall -y sglang-kernel sgl-kernel"):
        fi_compat.active("triton_kernels")


def merge(one, two):
    """Lay one nested dict over another."""
    out = dict(one)
    for name, content in two.items():
        out[name] = merge(out[name], content) if isinstance(content, dict) and isinstance(out.get(name), dict) else content
    return out


def test_after_uninstalling_one_of_two_owners_only_leftovers_remain(site) -> None:
    """B77: `pip uninstall sgl-kernel` removes the shared files; a namespace package with a few files is left."""
    site(
        {
            "triton_kernels": {"tensor_details": {"ragged_tensor.py": ""}, "reduce.py": ""},
            **sites.dist_info("sglang-kernel", "0.4.3", ["triton_kernels/topk.py,,"]),
        }
    )
    with pytest.raises(errors.IncompatibleUpstreamError, match=r"left over.*sglang-kernel 0\.4\.3.*force-reinstall sglang-kernel==0\.4\.3"):
        fi_compat.active("triton_kernels")


def test_the_unrelated_distribution_is_named(site) -> None:
    """B68: triton-kernels 0.1.0."""
    site({**sites.UNRELATED, **sites.dist_info("triton-kernels", "0.1.0", sites.record_of(sites.UNRELATED))})
    with pytest.raises(errors.IncompatibleUpstreamError, match=r"unrelated project: found triton-kernels 0\.1\.0"):
        fi_compat.active("triton_kernels")
    assert fi_compat.has("moe.available") is False


def test_a_real_tree_beside_the_unrelated_distribution_works(site) -> None:
    """Both own __init__.py and nothing else in common."""
    site({**merge(sites.UNRELATED, sites.owned("3.6")), **sites.dist_info("triton-kernels", "0.1.0", sites.record_of(sites.UNRELATED))})
    assert fi_compat.active("triton_kernels").owner == "sglang-kernel 0.4.0"


def test_imports_that_lead_nowhere_are_found(site) -> None:
    """The deep check of the doctor: a module imports a name that the other generation's file does not define."""
    root = site(
        {
            "triton_kernels": {
                "__init__.py": "",
                "topk.py": "from .tensor import SparseMatrix, Tensor\nfrom triton_kernels.gone import x\n",
                "tensor.py": "if True:\n    class Tensor: ...\n",
            }
        }
    )
    missing = _installed.unresolved_imports(str(root / "triton_kernels"), ["topk.py"])
    assert missing == (
        "topk.py imports SparseMatrix from tensor.py, which does not define it",
        "topk.py imports triton_kernels.gone, which is not there",
    )


def test_sixteen_threads_get_one_adapter(site) -> None:
    """Concurrent first calls resolve once."""
    site(sites.flashinfer())
    found = []
    threads = [threading.Thread(target=lambda: found.append(fi_compat.active("flashinfer"))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    assert all(f is found[0] for f in found)


def test_after_a_failed_resolution_a_later_one_can_succeed(site) -> None:
    """A failure is not kept."""
    site({})
    with pytest.raises(errors.UpstreamNotInstalledError):
        fi_compat.active("triton_kernels")
    site(sites.owned("3.6"))
    assert fi_compat.active("triton_kernels").variant == "3.6"


def test_logging_says_info_once_and_warns_on_a_guess(site, caplog) -> None:
    """DEBUG each verdict, INFO one line per upstream, WARNING for a guess or an override."""
    site(sites.flashinfer("0.8.0", "0.8.0", "0.7.4"))
    with caplog.at_level(logging.DEBUG, "fi_compat"):
        fi_compat.active("flashinfer")
        fi_compat.active("flashinfer")
    levels = [r.levelname for r in caplog.records]
    assert levels.count("INFO") == 1
    assert levels.count("WARNING") == 1
    assert levels.count("DEBUG") >= 2


def test_environment_overrides(site, monkeypatch) -> None:
    """They name an adapter; unknown names are refused with the known ones."""
    site(sites.flashinfer("0.7.4", "0.7.4", "0.7.4"))
    monkeypatch.setenv("FI_COMPAT_FLASHINFER_ADAPTER", "flashinfer_0_6_8")
    assert fi_compat.active("flashinfer").how == "override"
    _resolver.reset()
    monkeypatch.setenv("FI_COMPAT_FLASHINFER_ADAPTER", "nope")
    with pytest.raises(errors.ConfigurationError, match="known are"):
        fi_compat.active("flashinfer")
    monkeypatch.setenv("FI_COMPAT_TRITON_KERNELS_ADAPTER", "reference")
    assert fi_compat.active("triton_kernels").adapter == "reference"


@pytest.mark.parametrize("error", ["AssertionError('no GPU')", "TypeError('array.array')", "SystemExit(3)", "RuntimeError('cubin')"])
def test_b91_an_upstream_whose_import_raises_becomes_a_typed_error(site, error) -> None:
    """Whatever it raises, and the original is the cause; sglang-kt's eager gate hid it."""
    from fi_compat._upstream import Upstream

    root = site(sites.flashinfer())
    (root / "flashinfer" / "__init__.py").write_text(f"raise {error}\n")
    fi_compat.active("flashinfer")
    with pytest.raises(errors.UpstreamImportError, match=error.partition("(")[0]) as info:
        Upstream("flashinfer", "fp4_quantize").bind()
    assert type(info.value.__cause__).__name__ == error.partition("(")[0]
    assert "0.6.8" in str(info.value)


def test_b14_comm_on_an_old_python_names_the_release_that_mends_it(site) -> None:
    """0.6.16 to 0.6.16.post3 subscript array.array at import."""
    from fi_compat._upstream import import_upstream

    root = site(sites.flashinfer("0.6.16", "0.6.16", "0.6.12"))
    (root / "flashinfer" / "__init__.py").write_text("")
    sites.build(root / "flashinfer", {"comm": {"__init__.py": "raise TypeError(\"type 'array.array' is not subscriptable\")\n"}})
    fi_compat.active("flashinfer")
    with pytest.raises(errors.UpstreamImportError) as info:
        import_upstream("flashinfer.comm")
    assert ("0.6.16.post4" in str(info.value)) == (sys.version_info < (3, 12))


def test_b18_a_submodule_that_is_missing_is_named(site) -> None:
    """find_spec('flashinfer') proves nothing about flashinfer.comm (vllm#20912)."""
    from fi_compat._upstream import import_upstream

    root = site(sites.flashinfer())
    (root / "flashinfer" / "__init__.py").write_text("")
    with pytest.raises(errors.UpstreamImportError, match=r"No module named 'flashinfer\.comm'"):
        import_upstream("flashinfer.comm")


def test_an_upstream_callable_binds_once_and_probes_its_parameters(site) -> None:
    """The first call binds; a parameter that is missing is a typed error with the release that has it."""
    from fi_compat._upstream import Upstream

    root = site(sites.flashinfer())
    (root / "flashinfer" / "__init__.py").write_text("def f(a, *, b=1):\n    return a, b\n")
    fi_compat.active("flashinfer")
    upstream = Upstream("flashinfer", "f")
    assert upstream.call(1, b=2) == (1, 2)
    assert upstream.call is sys.modules["flashinfer"].f
    assert "b" in upstream.parameters
    with pytest.raises(
        errors.UnsupportedFeatureError, match=r"c=3 cannot be served: found flashinfer 0\.6\.8, needed flashinfer >=0\.7\.1"
    ):
        upstream.require("c", 3, ">=0.7.1")
    with pytest.raises(errors.UnsupportedFeatureError, match="gone is not in flashinfer"):
        Upstream("flashinfer", "gone").bind()
    _bindings.reset()
    assert upstream.call is not sys.modules["flashinfer"].f


def test_function_parameters_reads_only_the_signature() -> None:
    """Nested brackets, defaults with calls, overloads, keyword-only."""
    source = "def f(a: dict[str, int] = g((1, 2)), *, b=[1]):\n    pass\ndef f(x, y): ...\ndef g(:\n"
    assert _installed.function_parameters(source, "f") == ("x", "y")
    assert _installed.function_parameters(source, "g") is None
    assert _installed.function_parameters(source, "h") is None


def test_has_require_features_and_versions(site) -> None:
    """For the installed release, never raising for a known feature."""
    site({**sites.flashinfer("0.6.16.post3", "0.6.16.post3", "0.6.12"), **sites.owned("3.6")})
    assert fi_compat.has("fp4_quantize")
    assert fi_compat.has("moe.available")
    assert fi_compat.has("fused_moe.humming") is False
    assert fi_compat.has("fp4_quantize.batch_invariant") is False
    with pytest.raises(ValueError, match=r"did you mean 'fp4_quantize"):
        fi_compat.has("fp4_quantise")
    with pytest.raises(errors.UnsupportedFeatureError, match=r"found flashinfer 0\.6\.16\.post3, needed flashinfer >=0\.7\.4: pip install"):
        fi_compat.require("fp4_quantize.batch_invariant")
    fi_compat.require("fp4_quantize")
    assert set(fi_compat.features()) >= {"fp4_quantize", "moe.available"}
    assert fi_compat.check_version("flashinfer-python", ">=0.6.16,<0.6.17")
    assert not fi_compat.check_version("flashinfer-python", ">=0.6.17")
    assert not fi_compat.check_version("no-such-thing", ">=1")
    with pytest.raises(ValueError, match="PEP 440"):
        fi_compat.check_version("flashinfer-python", "latest")
    fi_compat.assert_version("flashinfer-python", "==0.6.16.post3")
    with pytest.raises(errors.UnsupportedFeatureError, match="because"):
        fi_compat.assert_version("flashinfer-python", ">=1", "because")
    with pytest.raises(errors.UpstreamNotInstalledError):
        fi_compat.assert_version("no-such-thing", ">=1")


def test_b15_api_can_shrink_in_a_post_release(site) -> None:
    """Humming is in 0.6.16 to .post2, gone in .post3 to 0.6.17, back in 0.6.18."""
    answers = {}
    for version in ("0.6.15", "0.6.16", "0.6.16.post2", "0.6.16.post3", "0.6.16.post4", "0.6.17", "0.6.18", "0.7.4"):
        site(sites.flashinfer(version, version, "0.6.12"))
        answers[version] = fi_compat.has("fused_moe.humming")
    assert [v for v, a in answers.items() if a] == ["0.6.16", "0.6.16.post2", "0.6.18", "0.7.4"]


def test_b90_versions_are_pep_440(site) -> None:
    """Pre- and post-releases count, local segments do not."""
    site(sites.flashinfer("0.6.10+cu130", "0.6.10+cu130"))
    assert fi_compat.check_version("flashinfer-python", ">0.6.9,<=0.6.10")
    assert fi_compat.check_version("flashinfer-python", "==0.6.10")


def test_b41_a_missing_requirement_is_said_at_the_call(site) -> None:
    """Not a warning at import and an unrelated failure later."""
    site(sites.flashinfer("0.6.8", "0.6.8"))
    with pytest.raises(errors.UnsupportedFeatureError, match=r"found 0\.6\.8, needed >=0\.6\.9"):
        fi_compat.assert_version("flashinfer-python", ">=0.6.9")


def test_explain_names_the_choice_and_what_it_lacks(site) -> None:
    """For an upstream and for a function."""
    site({**sites.flashinfer("0.6.11", "0.6.11", "0.6.11"), **sites.owned("3.6")})
    text = fi_compat.explain("flashinfer")
    assert "rejected" in text
    assert "took" in text
    text = fi_compat.explain("fp4_quantize")
    assert "ends in flashinfer.fp4_quantize(input" in text
    assert "batch_invariant: not in this release (needs >=0.7.4)" in text
    assert "3.6" in fi_compat.explain("routing")
    with pytest.raises(ValueError, match="fp4_quantize"):
        fi_compat.explain("fp4_quantise")


def test_b94_a_cherry_picked_build_is_probed_not_looked_up(site) -> None:
    """A vendor build of 0.6.11.dev without the parameter gets the adapter of its source."""
    site(sites.flashinfer("0.6.11.dev1+g1234", "0.6.11.dev1+g1234", "0.6.8"))
    assert fi_compat.active("flashinfer").how == "structure"
