"""Four real processes over gloo on one published release; device memory alone is replaced."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.version import Version

WORKER = Path(__file__).parent / "worker.py"
RELEASE = os.environ.get("FI_COMPAT_EXPECT_FLASHINFER", "")
ROOT = str(Path(__file__).parents[2])
#: One release per regime of facts 2.2; the naive calls that hang run on these only.
REGIMES = {"0.6.8": "comm_backend", "0.6.10": "WORLD", "0.6.12": "group", "0.6.17": "comm_backend wins"}
BROKEN_IMPORT = RELEASE in {"0.6.16", "0.6.16.post1", "0.6.16.post2", "0.6.16.post3"} and sys.version_info < (3, 12)


def pytest_report_header() -> str:
    return f"FlashInfer under test: {RELEASE}"


def run(scenario: str, tmp_path: Path, *, timeout: float = 30, limit: float = 120, ranks: int = 4) -> list[dict]:
    """Run a scenario on four ranks and return what each saw; a rank that is still running after ``limit`` is killed."""
    assert RELEASE, "run `nox -s distributed`"
    support = str(Path(__file__).parents[1] / "support")
    path = os.pathsep.join((os.environ["FI_COMPAT_OVERLAY"], ROOT, support))
    env = {**os.environ, "PYTHONPATH": path, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(WORKER), scenario, str(ranks), str(tmp_path), str(timeout), str(limit)]
    output = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout
    files = [tmp_path / f"{rank}.json" for rank in range(ranks)]
    found = [json.loads(f.read_text()) if f.exists() else {"died": True, "output": output[-2000:]} for f in files]
    for result in found:
        assert "crash" not in result, result["traceback"]
    return found


def test_b02_b43_b44_b45_a_group_is_honoured(tmp_path) -> None:
    """Subgroups [0,1], [2,3] and [1,3], WORLD, comm_backend alone; refusals; what is freed."""
    if BROKEN_IMPORT:
        # B14: a typed error that names the release that mends it; nothing else can be run here.
        code = "import fi_compat\ntry:\n    fi_compat.prepare('create_allreduce_fusion_workspace')\nexcept ImportError as error:\n    print(type(error).__name__, error)"
        env = {**os.environ, "PYTHONPATH": os.pathsep.join((os.environ["FI_COMPAT_OVERLAY"], ROOT)), "FLASHINFER_CUDA_ARCH_LIST": "10.0a"}
        said = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False).stdout
        assert said.startswith("UpstreamImportError")
        assert "pip install flashinfer-python==0.6.16.post4" in said
        return
    results = run("everything", tmp_path)
    for rank, result in enumerate(results):
        assert "hang" not in result, result
        assert "died" not in result, result
        assert result["release"] == RELEASE
        for ranks in ([0, 1], [2, 3], [1, 3]):
            if rank in ranks:
                found = result[f"group {ranks}"]
                assert found["peers"] == ranks
                assert found["others"] == [], "no collective over other ranks than the group's"
                assert found["sources"] in ([], [ranks[0]]), "a broadcast comes from the group's own root, by its global rank"
                assert (found["class"], found["backend"]) == ("TRTLLMAllReduceFusionWorkspace", "trtllm")
        assert result["WORLD"] == [0, 1, 2, 3]
        mine = [0, 1] if rank < 2 else [2, 3]
        assert result["comm_backend alone"] == mine
        assert result["both"] == mine
        if Version("0.6.10") <= Version(RELEASE) < Version("0.6.15"):
            assert result["foreign alone"].startswith(
                "ValueError: create_allreduce_fusion_workspace: found a Foreign without a process group"
            )
        else:
            assert result["foreign alone"] == mine
        refused = result["refusals"]
        assert "needed group=: upstream would wait for all of WORLD, or meet the wrong ranks" in refused["no group"]
        for name, says in {
            "rank": "needed 2 and",
            "world_size": "found world_size=4",
            "mismatch": "needed the same: leave comm_backend out",
            "backend": "found backend='nccl'",
        }.items():
            assert refused[name].startswith("ValueError"), (name, refused[name])
            assert says in refused[name], (name, refused[name])
        assert refused["not a member"].startswith(("ValueError", "TypeError")), refused["not a member"]
        assert result["sufficient"] == [True, False, False]
        assert result["references after"] == 0
        assert result["memory descriptors kept"] == 0, "an exported handle that stays open keeps its memory"
        assert result["left behind"] == []
        if Version(RELEASE) >= Version("0.6.10"):
            assert result["references before"] > 0
        if Version(RELEASE) >= Version("0.6.10.post1"):
            assert result["naive leak"] == 1, "upstream's destroy() leaves the symmetric-memory references"
        op = result["op"]
        for name in ("allreduce returns output", "rmsnorm returns norm_out", "quant returns quant_out"):
            assert op[name] is True, name
        assert op["pointers"] == [True, True]
        assert op["launch"][0] == "trtllm_allreduce_fusion"
        assert op["one flag each"] == [1, 1], "launch_with_pdl and trigger_completion_at_end reach one flag of the launch each"
        assert op["patterns"] == {}, "pattern numbers are upstream's"
        if Version(RELEASE) < Version("0.6.12"):
            assert "weight_bias=1.0 cannot be served" in op["weight_bias"]
        else:
            assert op["weight_bias"] == "True"
        assert op["moe"].startswith("ValueError")
    print(f"\nROW {RELEASE} {results[0]['adapter']} groups [0,1] [2,3] [1,3]: right, WORLD right, no group: refused")


@pytest.mark.parametrize(
    ("release", "style", "expected"),
    [
        ("0.6.8", "comm_backend", "ValueError: Global rank 0 is not part of group"),
        ("0.6.12", "comm_backend", "hangs"),
        ("0.6.10", "one group only", "hangs"),
        ("0.6.8", "one group only", "hangs"),
        ("0.6.17", "two groups", "crosses"),
    ],
)
def test_the_naive_call(tmp_path, release, style, expected) -> None:
    """The release's own TorchDistBackend and creator: wrong on 0.6.8, hanging on 0.6.10 and 0.6.12, crossing on 0.6.17."""
    if release != RELEASE:
        print(f"\nthe naive call {style!r} of {release} is not of this release ({RELEASE})")
        return
    results = run(f"naive={style}", tmp_path, timeout=3, limit=60)
    said = [r.get("outcome", "died or hung") for r in results]
    print(f"\nNAIVE {release} {style}: {said}")
    if expected == "crosses":
        assert said[:2] == [[0, 1], [0, 1]]
        assert said[2:] == [[0, 1], [0, 1]], "ranks 2 and 3 map the buffers of ranks 0 and 1, without an error"
    elif expected == "hangs":
        assert any("imed out" in str(s) or "onnection closed" in str(s) or "died or hung" in str(s) for s in said), said
        assert not any(isinstance(s, list) for s in said)
    else:
        assert any(str(s).startswith(expected) for s in said), said


def in_regimes() -> bool:
    """The manager's fault tests run once per regime."""
    if RELEASE in REGIMES:
        return True
    print(f"\nthe manager's fault tests run on {', '.join(REGIMES)}, one release per regime, not on {RELEASE}")
    return False


def test_b47_b49_b50_the_manager(tmp_path) -> None:
    """Creation, use, growth, capture, fork, close, failure, disagreement, overlapping groups."""
    if not in_regimes():
        return
    for rank, result in enumerate(run("manager", tmp_path, timeout=20)):
        assert "hang" not in result, result
        assert "died" not in result, result
        ranks = [0, 1] if rank < 2 else [2, 3]
        assert result["reason"] is None
        assert result["peers"] == ranks
        for name in (
            "returns output",
            "no vote per call",
            "grown",
            "after fork",
            "freed",
            "fallback equal",
            "fallback residual",
            "fallback norm",
            "caller 1",
            "caller 2",
            "caller 3",
        ):
            assert result[name] is True, (name, result[name])
        assert result["launches"] == ["trtllm_allreduce_fusion"]
        assert result["capture votes"] == 0
        for name in ("capture too small", "capture reserve", "capture without reserve"):
            assert result[name].startswith("ConfigurationError: AllReduceFusion: found a stream that captures"), (name, result[name])
            assert "reserve() with that size before capture" in result[name]
        assert result["fallback capture"].startswith("ConfigurationError"), result["fallback capture"]
        assert "a fork of" in result["fork"]
        assert "found a closed manager" in result["use after close"]
        assert result["fallback reason"] == f"rank {ranks[1]}: RuntimeError: out of device memory"
        assert result["fallback seconds"] < 30
        assert result["disagree"].startswith("ValueError: AllReduceFusion.reserve: found different sizes")
        assert "float64" in result["dtype"]
        if rank in {1, 3}:
            assert result["overlap"] == [ranks, [1, 3]]
        assert result["wrong group"].startswith("ValueError")


def test_a_rank_that_dies_inside_creation(tmp_path) -> None:
    """The survivor hears of it within the timeout, and the manager is closed."""
    if not in_regimes():
        return
    result = run("killed", tmp_path, timeout=6, limit=60)[0]
    assert "hang" not in result, result
    assert result["outcome"].startswith(
        "GroupError: AllReduceFusion: agreeing on creation, where rank 1 is silent, over ranks [0, 1] was not answered"
    ), result
    # Where creation meets over torch's symmetric memory, the store's timeout (10 s here) bounds it, else the control group's.
    assert result["seconds"] < (30 if REGIMES[RELEASE] in {"WORLD", "group"} else 20)
    assert "closed manager" in result["after"]


def test_a_rank_that_never_arrives(tmp_path) -> None:
    """At the constructor, and at reserve()."""
    if not in_regimes():
        return
    results = run("absent", tmp_path, timeout=20, limit=60)
    assert results[0]["outcome"].startswith("GroupError: AllReduceFusion: making the control group over ranks [0, 1]"), results[0]
    assert results[2]["outcome"].startswith(
        "GroupError: AllReduceFusion: agreeing on preflight, where rank 3 is silent, over ranks [2, 3]"
    ), results[2]
    assert max(results[0]["seconds"], results[2]["seconds"]) < 10


def test_a_build_that_takes_longer_than_the_timeout(tmp_path) -> None:
    """Its progress is watched; the timeout is for silence."""
    if not in_regimes():
        return
    results = run("slow_build", tmp_path, timeout=20, limit=60)
    assert [r["outcome"] for r in results[:2]] == ["created", "created"], results[:2]
    assert results[0]["seconds"] > 3
