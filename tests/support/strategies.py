"""Hypothesis strategies and the one SETTINGS object."""

from __future__ import annotations

import os
from typing import Any

import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

#: Examples per tree; a longer run by hand sets FI_COMPAT_EXAMPLES.
EXAMPLES = int(os.environ.get("FI_COMPAT_EXAMPLES", "100"))
SEED = int(os.environ.get("FI_COMPAT_SEED", "20261130"))
SETTINGS = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

#: Token and expert counts around the kernels' blocks of 32.
TOKENS = (0, 1, 2, 7, 31, 32, 33)
EXPERTS = (1, 2, 3, 4, 6, 8, 12, 16, 33, 40)
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
KINDS = ("normal", "ties", "constant", "zeros", "infinities", "steep")


def make_logits(seed: int, n_tokens: int, n_experts: int, dtype: torch.dtype, kind: str) -> torch.Tensor:
    """Return logits of a kind that has broken a top-k before."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n_tokens, n_experts, generator=generator)
    if kind == "ties":
        x = torch.randint(-2, 3, (n_tokens, n_experts), generator=generator).float()
    elif kind == "constant":
        x = torch.full((n_tokens, n_experts), 1.5)
    elif kind == "zeros":
        x = torch.where(torch.rand(n_tokens, n_experts, generator=generator) < 0.5, 0.0, -0.0)
    elif kind == "infinities":
        chance = torch.rand(n_tokens, n_experts, generator=generator)
        x = torch.where(chance < 0.1, float("-inf"), torch.where(chance > 0.97, float("inf"), x))
    elif kind == "steep":
        x *= 30
    return x.to(dtype)


@st.composite
def routing_cases(draw: Any) -> dict[str, Any]:
    """Draw one call of ``routing``: logits and every option."""
    n_experts = draw(st.sampled_from(EXPERTS))
    n_tokens = draw(st.sampled_from(TOKENS))
    k = draw(st.sampled_from([k for k in (1, 2, 3, 4, 6, 8, n_experts) if k <= min(n_experts, 32)]))
    kind = draw(st.sampled_from(KINDS))
    sm_first = draw(st.booleans())
    if sm_first and kind == "infinities":
        kind = "normal"  # a softmax over +inf is NaN, which routing refuses
    dtype = draw(st.sampled_from(DTYPES))
    seed = draw(st.integers(0, 2**31 - 1))
    case: dict[str, Any] = {
        "logits": make_logits(seed, n_tokens, n_experts, dtype, kind),
        "n_expts_act": k,
        "sm_first": sm_first,
        "slot_order": draw(st.sampled_from(("upstream", "expert"))),
    }
    if draw(st.integers(0, 3)) == 0:
        ids = torch.stack(
            [torch.randperm(n_experts, generator=torch.Generator().manual_seed(seed + i))[:k] for i in range(n_tokens)]
            or [torch.zeros(k, dtype=torch.int64)]
        )[:n_tokens]
        case["expt_indx"] = ids.to(draw(st.sampled_from((torch.int16, torch.int32, torch.int64))))
    divisors = [d for d in (2, 3, 4) if n_experts % d == 0]
    if divisors and draw(st.integers(0, 4)) == 0:
        case["simulated_ep"] = draw(st.sampled_from(divisors))
    if draw(st.integers(0, 2)) == 0:
        rows = draw(st.integers(0, n_tokens))
        case["n_rows"] = torch.tensor([rows], dtype=torch.int32) if draw(st.booleans()) else rows
    return case


@st.composite
def topk_cases(draw: Any) -> dict[str, Any]:
    """Draw one call of ``routing_from_topk`` with -1 ids."""
    n_experts, n_tokens = draw(st.sampled_from(EXPERTS)), draw(st.sampled_from(TOKENS))
    k = draw(st.sampled_from([k for k in (1, 2, 3, 4, 6, 8) if k <= n_experts]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31 - 1)))
    ids = torch.stack([torch.randperm(n_experts, generator=generator)[:k] for _ in range(n_tokens)] or [torch.zeros(k, dtype=torch.int64)])[
        :n_tokens
    ]
    ids = torch.where(torch.rand(ids.shape, generator=generator) < draw(st.sampled_from((0.0, 0.3, 1.0))), -1, ids)
    case: dict[str, Any] = {
        "topk_ids": ids.to(draw(st.sampled_from((torch.int16, torch.int32, torch.int64)))),
        "topk_weights": torch.rand(n_tokens, k, generator=generator).to(draw(st.sampled_from(DTYPES))),
        "n_experts": n_experts,
    }
    if draw(st.booleans()):
        case["n_rows"] = draw(st.integers(0, n_tokens))
    return case


def corpus() -> list[dict[str, Any]]:
    """Return 60 fixed and 40 seeded calls of ``routing``, the same on every tree."""
    cases: list[dict[str, Any]] = []
    # The interpreter runs about 5 programs per expert, so most cases have few experts.
    shapes = [(7, 8, 2), (33, 40, 4), (1, 1, 1), (3, 33, 8), (32, 8, 1), (0, 8, 2), (5, 6, 6), (2, 3, 3), (33, 7, 4), (7, 12, 6)]
    for i, (n, e, k) in enumerate(shapes):
        for j, kind in enumerate(KINDS):
            cases.append(
                {
                    "logits": make_logits(1000 * i + j, n, e, DTYPES[(i + j) % 3], kind),
                    "n_expts_act": k,
                    "sm_first": (i + j) % 2 == 0 and kind != "infinities",
                }
            )
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)
        pick = lambda options: options[int(torch.randint(len(options), (), generator=generator))]
        n, e = pick(TOKENS), pick((1, 2, 3, 6, 8, 9, 16, 33))
        k = pick([k for k in (1, 2, 4, 8, 3) if k <= e])
        case: dict[str, Any] = {
            "logits": make_logits(seed, n, e, pick(DTYPES), pick(("normal", "ties", "zeros", "steep"))),
            "n_expts_act": k,
            "sm_first": pick((True, False)),
        }
        extra = pick(("none", "n_rows", "expt_indx", "simulated_ep"))
        if extra == "n_rows":
            case["n_rows"] = pick(list(range(n + 1)))
        elif extra == "expt_indx" and n:
            case["expt_indx"] = torch.stack([torch.randperm(e, generator=generator)[:k] for _ in range(n)]).to(torch.int32)
        elif extra == "simulated_ep" and e % 2 == 0:
            case["simulated_ep"] = 2
        cases.append(case)
    assert len(cases) == 100
    return cases
