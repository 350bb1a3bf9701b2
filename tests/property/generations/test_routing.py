"""routing on one published tree: equal to the reference by the contract, and to 3.5.1's recorded corpus."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import strategies
import torch
from hypothesis import given, seed
from hypothesis import strategies as st

import fi_compat
from fi_compat import _bindings, errors, moe, reference

BLOCKS = (16, 32, 64, 128)
INDEX_FIELDS = (
    "hist",
    "gather_src",
    "gather_dst",
    "scatter_src",
    "scatter_dst",
    "slice_sizes",
    "slice_offs",
    *(f"block_offs_{b}" for b in BLOCKS),
    *(f"block_schedule_{b}" for b in BLOCKS),
)
ran = {"routing": 0, "routing_from_topk": 0}


def fields(result) -> dict[str, torch.Tensor]:
    """Return every tensor of a routing under one set of names."""
    data, gather, scatter = result
    view = moe.ragged(result)
    return {
        "gates": data.gate_scal,
        "hist": data.expt_hist,
        "gather_src": gather.src_indx,
        "gather_dst": gather.dst_indx,
        "scatter_src": scatter.src_indx,
        "scatter_dst": scatter.dst_indx,
        "slice_sizes": view.slice_sizes,
        "slice_offs": view.slice_offs,
        **{f"block_offs_{b}": view.block_offs(b) for b in BLOCKS},
        **{f"block_schedule_{b}": view.block_schedule(b) for b in BLOCKS},
    }


def same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], *, exact_gates: bool) -> None:
    """Compare index fields bitwise, and gates bitwise or within the interpreter's artefacts.

    fp32: one unit in the last place of the softmax (3.8 sums in another order). bf16: Triton's interpreter truncates
    float32 to bfloat16 where torch and the GPU round, which is one bf16 unit, 3.9e-3.
    """
    for name in INDEX_FIELDS:
        assert found[name].dtype == expected[name].dtype == torch.int32, name
        assert torch.equal(found[name], expected[name]), name
    ours, theirs = found["gates"], expected["gates"]
    assert ours.dtype == theirs.dtype
    if exact_gates:
        assert torch.equal(ours.nan_to_num(7.0), theirs.nan_to_num(7.0))
    else:
        tolerance = {torch.float32: 2.5e-7, torch.float16: 1e-3, torch.bfloat16: 8e-3}[ours.dtype]
        torch.testing.assert_close(ours.float(), theirs.float(), rtol=0, atol=tolerance, equal_nan=True)


def test_the_published_tree_is_what_is_imported_and_recognised(tree) -> None:
    """By structure, with the distribution that owns it."""
    import triton_kernels.topk

    selection = fi_compat.active("triton_kernels")
    overlay = Path(os.environ["FI_COMPAT_OVERLAY"]).resolve()
    assert Path(triton_kernels.topk.__file__).resolve().is_relative_to(overlay)
    assert (selection.variant, selection.version, selection.how) == (tree.variant, tree.generation, "structure")
    assert Path(selection.root).resolve() == overlay / "triton_kernels"
    distribution = os.environ.get("FI_COMPAT_TREE_DISTRIBUTION", tree.distribution)
    assert selection.owner == f"{distribution} {os.environ.get('FI_COMPAT_TREE_VERSION', tree.version)}"
    assert fi_compat.has("moe.available")
    assert fi_compat.has("moe.routing")


@seed(strategies.SEED)
@strategies.SETTINGS
@given(strategies.routing_cases())
def test_routing_equals_the_reference(case) -> None:
    """Order, ties, inverse, histogram, block maps and tails, by the contract."""
    ran["routing"] += 1
    options = {k: v for k, v in case.items() if k != "slot_order"}
    by_value = _bindings.triton_kernels.SLOTS_BY_VALUE and case["slot_order"] == "upstream"
    found = fields(moe.routing(**case))
    expected = fields(reference.routing(**options, by_value=by_value))
    same(found, expected, exact_gates=False)
    assert found["scatter_src"] is found["gather_dst"] or torch.equal(found["scatter_src"], found["gather_dst"])
    source, destination = found["gather_src"], found["gather_dst"]
    used = source >= 0
    assert torch.equal(destination[source[used].long()], torch.arange(source.numel(), dtype=torch.int32)[used]), "inverse"
    if used.numel():
        assert bool((found["gates"][~used] == 0).all()), "gate tails are 0"


@seed(strategies.SEED)
@strategies.SETTINGS
@given(strategies.topk_cases())
def test_routing_from_topk_equals_the_reference(case) -> None:
    """Precomputed ids, -1 for experts of another rank."""
    ran["routing_from_topk"] += 1
    same(fields(moe.routing_from_topk(**case)), fields(moe.routing_from_topk(**case, backend="reference")), exact_gates=True)


def test_enough_examples_ran() -> None:
    """No silent shrinking of the property tests."""
    print(f"\nexamples: {ran}")
    assert min(ran.values()) >= strategies.EXAMPLES


@pytest.mark.parametrize("order", ["upstream", "expert"])
def test_the_corpus_equals_that_of_3_5_1(tree, order) -> None:
    """R1 writes inputs and outputs, the other trees read them: bitwise where the contract says so."""
    path = Path(os.environ["FI_COMPAT_CORPUS"]) / "corpus.pt"
    cases = strategies.corpus()
    if tree.name == "R1" and order == "upstream":
        torch.save([{"case": c, "fields": fields(moe.routing(**c))} for c in cases], path)
    if order == "expert" and not _bindings.triton_kernels.SLOTS_BY_VALUE:
        cases = cases[::10]  # the same path as "upstream" on these generations; a sample shows that the word is accepted
    recorded = torch.load(path)
    assert len(recorded) == 100
    if len(cases) < len(recorded):
        recorded = recorded[::10]
    by_value = _bindings.triton_kernels.SLOTS_BY_VALUE and order == "upstream"
    for number, (case, entry) in enumerate(zip(cases, recorded, strict=True)):
        for name, value in entry["case"].items():
            assert (
                torch.equal(value.nan_to_num(), case[name].nan_to_num())
                if isinstance(value, torch.Tensor) and value.is_floating_point()
                else True
            ), (number, name)
        found = fields(moe.routing(**case, slot_order=order))
        expected = entry["fields"]
        if not by_value or case["n_expts_act"] == 1 or "expt_indx" in case:
            same(found, expected, exact_gates=True)
            continue
        # 3.8's own slot order: everything but the numbering of a token's slots is 3.5.1's.
        k = case["n_expts_act"]
        for name in (n for n in INDEX_FIELDS if not n.startswith(("gather", "scatter"))):
            assert torch.equal(found[name], expected[name]), (number, name)
        ours, theirs = found["gather_src"], expected["gather_src"]
        assert torch.equal(torch.div(ours, k, rounding_mode="floor"), torch.div(theirs, k, rounding_mode="floor")), number
        torch.testing.assert_close(
            found["gates"].float(), expected["gates"].float(), rtol=0, atol=8e-3 if ours.dtype == torch.bfloat16 else 4e-3, equal_nan=True
        )


def test_the_plain_torch_backend_gives_3_5_1s_bits(tree) -> None:
    """On the same corpus, indices bitwise."""
    recorded = torch.load(Path(os.environ["FI_COMPAT_CORPUS"]) / "corpus.pt")
    for case, entry in zip(strategies.corpus(), recorded, strict=True):
        same(fields(moe.routing(**case, backend="reference")), entry["fields"], exact_gates=False)


X = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: moe.routing(X, 0), "n_expts_act=0 with 8 experts, needed 1 to 32"),
        (lambda: moe.routing(X, 9), "n_expts_act=9 with 8 experts"),
        (lambda: moe.routing(torch.zeros(2, 64), 33), "n_expts_act=33"),
        (lambda: moe.routing(X[0], 2), "needed \\[n_tokens, n_experts\\]"),
        (lambda: moe.routing(X.double(), 2), "float64"),
        (lambda: moe.routing(X.int(), 2), "int32"),
        (lambda: moe.routing(X, 2, simulated_ep=3), "simulated_ep=3 with 8 experts"),
        (lambda: moe.routing(X, 2, simulated_ep=0), "simulated_ep=0"),
        (lambda: moe.routing(X, 2, n_rows=6), "n_rows=6, needed 0 to 5"),
        (lambda: moe.routing(X, 2, n_rows=-1), "n_rows=-1"),
        (lambda: moe.routing(X, 2, n_rows=torch.tensor([1])), "needed one int32 element"),
        (lambda: moe.routing(X, 2, expt_indx=torch.zeros(5, 3, dtype=torch.int32)), "shape \\(5, 3\\), needed \\(5, 2\\)"),
        (lambda: moe.routing(X, 2, expt_indx=torch.zeros(5, 2)), "needed integers"),
        (lambda: moe.routing(X, 2, expt_indx=torch.zeros(5, 2, dtype=torch.int32)), "twice in one row"),
        (lambda: moe.routing(X, 1, expt_indx=torch.full((5, 1), 8)), "ids from 8 to 8, needed 0 to 7"),
        (lambda: moe.routing(X, 1, expt_indx=torch.full((5, 1), -1)), "routing_from_topk takes -1"),
        (lambda: moe.routing(torch.full((5, 8), float("nan")), 2), "NaN in logits"),
        (lambda: moe.routing(torch.full((5, 8), float("inf")), 2, sm_first=True), "only -inf and sm_first"),
        (lambda: moe.routing(X, 2, slot_order="value"), "slot_order='value'"),
        (lambda: moe.routing(X, 2, backend="cuda"), "backend='cuda'"),
        (lambda: moe.routing_from_topk(torch.zeros(2, 2), torch.zeros(2, 3), 4), "needed the same"),
        (lambda: moe.routing_from_topk(torch.zeros(2, 33, dtype=torch.int32), torch.zeros(2, 33), 64), "k=33"),
        (lambda: moe.routing_from_topk(torch.full((2, 1), -2), torch.zeros(2, 1), 4), "needed -1 to 3"),
        (lambda: moe.routing_from_topk(torch.full((2, 1), 4), torch.zeros(2, 1), 4), "ids from 4 to 4"),
    ],
)
def test_what_would_misroute_upstream_is_refused_before_a_kernel_runs(call, says) -> None:
    """Each of these corrupts memory, misroutes, or fails obscurely upstream."""
    with pytest.raises(ValueError, match=says):
        call()


def test_a_transposed_or_sliced_tensor_is_made_right() -> None:
    """Facts 1, limits: upstream reads other numbers when the last stride is not 1."""
    wide = torch.randn(8, 10, generator=torch.Generator().manual_seed(3))
    for logits in (wide.t(), wide[:, ::2]):
        assert logits.stride(1) != 1
        same(fields(moe.routing(logits, 2)), fields(moe.routing(logits.contiguous(), 2)), exact_gates=True)


def test_the_naive_call_on_a_transposed_tensor_is_wrong() -> None:
    """Upstream's own top-k, no check and no error, on every generation."""
    from triton_kernels.topk import topk

    logits = torch.randn(8, 10, generator=torch.Generator().manual_seed(3)).t()
    naive = topk(logits, 2)
    indices = naive[1] if isinstance(naive, tuple) else naive.indx
    right = moe.routing(logits, 2)
    wrong = {tuple(sorted(row)) for row in indices.tolist()}
    expected = torch.topk(logits, 2).indices
    assert [sorted(r) for r in indices.tolist()] != [sorted(r) for r in expected.tolist()], wrong
    assert moe.ragged(right).slice_sizes.tolist() == torch.bincount(expected.reshape(-1), minlength=8).tolist()


def test_int16_ids_are_cast() -> None:
    """Facts 3.4: upstream shifts in the ids' dtype, so experts 16 to 31 of a word vanish; topk's own output is int16."""
    logits = torch.randn(7, 40, generator=torch.Generator().manual_seed(1))
    ids = torch.topk(logits, 4).indices.to(torch.int16)
    same(fields(moe.routing(logits, 4, expt_indx=ids)), fields(moe.routing(logits, 4, expt_indx=ids.int())), exact_gates=True)


@given(st.sampled_from([3, 5, 6, 7]))
@strategies.settings(max_examples=4, deadline=None, database=None)
def test_a_top_k_that_is_no_power_of_two_is_served(k) -> None:
    """Upstream: "arange's range must be a power of 2"."""
    logits = torch.randn(9, 12, generator=torch.Generator().manual_seed(k))
    data, gather, _ = moe.routing(logits, k)
    assert data.n_expts_act == k
    assert data.expt_hist.sum() == 9 * k
    assert sorted(gather.src_indx.tolist()) == list(range(9 * k))


def test_the_objects_are_upstreams_where_they_exist(tree) -> None:
    """RoutingData, GatherIndx, ScatterIndx up to 3.6; ours with the same fields from 3.8 on."""
    data, gather, scatter = moe.routing(X, 2)
    ours = tree.generation == "3.8"
    for value in (data, gather, scatter):
        assert type(value).__module__.startswith("fi_compat") == ours
    assert (data.n_expts_tot, data.n_expts_act, data.expected_tokens_per_expt) == (8, 2, None)
    assert data.n_blocks(10, 16) == 8
    assert data.n_blocks(4, 16) == 4


def test_n_rows_in_a_tensor_is_read_by_the_kernel() -> None:
    """So that a captured graph can change it: the same tensor, another value."""
    rows = torch.tensor([2], dtype=torch.int32)
    first = moe.routing(X, 2, n_rows=rows)
    rows.fill_(4)
    second = moe.routing(X, 2, n_rows=rows)
    assert (int(moe.ragged(first).slice_sizes.sum()), int(moe.ragged(second).slice_sizes.sum())) == (4, 8)


def test_routing_is_differentiable_in_the_gates(tree) -> None:
    """The gate weights are in the graph where upstream has a backward, which the interpreter runs."""
    logits = X.clone().requires_grad_(True)
    data, _, _ = moe.routing(logits, 2, backend="reference")
    data.gate_scal.sum().backward()
    assert logits.grad is not None


def test_a_cpu_tensor_without_the_interpreter_is_refused(monkeypatch) -> None:
    """Triton would say "0 active drivers"."""
    adapter = _bindings.resolve("triton_kernels")
    monkeypatch.setattr(adapter, "runs_on_cpu", lambda: False)
    with pytest.raises(errors.UnsupportedDeviceError, match="TRITON_INTERPRET=1"):
        moe.routing(X, 2)
    assert moe.routing(X, 2, backend="reference").routing_data.n_expts_tot == 8


def test_the_reference_adapter_by_environment(monkeypatch) -> None:
    """FI_COMPAT_TRITON_KERNELS_ADAPTER=reference makes plain torch the default."""
    monkeypatch.setenv("FI_COMPAT_TRITON_KERNELS_ADAPTER", "reference")
    _bindings.reset()
    try:
        assert type(moe.routing(X, 2).routing_data).__module__.startswith("fi_compat")
        assert fi_compat.active("triton_kernels").how == "override"
    finally:
        monkeypatch.undo()
        _bindings.reset()
