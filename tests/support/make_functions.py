"""Writes the functions of fi_compat/fused_moe and fi_compat/_mla_decode.py: the union of upstream's parameters over all releases.

``python make_functions.py FOLDER`` writes below FOLDER/fi_compat. Reads the recorded signatures (fi_compat/contracts), so
nothing is imported and nothing is fetched; ``nox -s contracts`` runs it after the signatures, and a unit test runs it and
compares the bytes.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from fi_compat import _table
from fi_compat.contracts import contracts, parameters

WIDTH = 120

INTEGERS = {
    "num_experts", "top_k", "intermediate_size", "local_expert_offset", "local_num_experts", "tp_size", "tp_rank", "ep_size", "ep_rank",
    "cluster_size", "cluster_rank", "tune_max_num_tokens", "hidden_size", "tile_size", "sf_vec_size", "qk_nope_head_dim", "kv_lora_rank",
    "qk_rope_head_dim", "max_seq_len", "sparse_mla_top_k", "cp_world", "cp_rank",
}  # fmt: skip
BOOLEANS = {
    "do_finalize", "norm_topk_prob", "use_shuffled_weight", "enable_alltoall", "use_deepseek_fp8_block_scale", "use_w4_group_scaling",
    "use_mxfp8_act_scaling", "min_latency_mode", "use_packed_weights", "use_wfp4afp8_humming", "swizzled_input_sf", "use_cuda_graph",
    "is_var_seq", "uses_shared_paged_kv_idx", "return_lse", "enable_dcp", "swap_ab",
}  # fmt: skip
TYPES = {
    **dict.fromkeys(INTEGERS, "int"),
    **dict.fromkeys(BOOLEANS, "bool"),
    "n_group": "int | None",
    "topk_group": "int | None",
    "routed_scaling_factor": "float | None",
    "routing_method_type": "RoutingMethodType | str | int",
    "activation_type": "ActivationType | str | int",
    "activation": "str",
    "enable_pdl": "bool | None",
    "use_fused_finalize": "bool | None",
    "num_fused_shared_experts": "int | None",
    "valid_hidden_size": "int | None",
    "valid_intermediate_size": "int | None",
    "hidden_states_scale_layout": "Any",
    "nvfp4_4over6": "Any",
    "routing_metadata": "Any",
    "weight_layout": "int",
    "fp8_quantization_type": "Any",
    "output_dtype": "torch.dtype",
    "quant_scales": "Sequence[Tensor]",
    "max_num_tokens": "int | None",
    "num_local_experts": "int | None",
    "device": "str | torch.device",
    "swiglu_alpha:cute": "float",
    "swiglu_beta:cute": "float",
    "swiglu_limit:cute": "float",
    "situ_beta": "float | None",
    "situ_linear_beta": "float | None",
    "clamped_relu2_limit": "float | None",
    "clamped_relu2_limit:cutlass": "Tensor | None",
    "quant_mode": "str",
    "backend": "str",
    "profile_ids": "Any",
    "max_q_len": "int | None",
    "cute_dsl_impl": "str",
    "kv_scale_format": "str",
    "bmm1_scale": "float | Tensor",
    "bmm2_scale": "float | Tensor",
    "sinks": "Tensor | Sequence[Tensor] | None",
    "skip_softmax_threshold_scale_factor": "float | None",
    "use_fp16_softmax": "bool | None",
    "return_lse_base": 'Literal["base2", "basee"]',
    "topk_ids": "Tensor | tuple[Tensor, Tensor]",
    "routing_logits": "Tensor",
    "hidden_states": "Tensor",
    "gemm1_weights": "Tensor",
    "gemm2_weights": "Tensor",
    "input": "Tensor",
    "token_selected_experts": "Tensor",
    "token_final_scales": "Tensor",
    "fc1_expert_weights": "Tensor",
    "fc2_expert_weights": "Tensor",
    "query": "Tensor",
    "kv_cache": "Tensor",
    "workspace_buffer:mla": "Tensor",
    "block_tables": "Tensor",
}

DOCS = {
    "routing_logits": "``[num_tokens, num_experts]``, bfloat16 or float32.",
    "topk_ids": "``[num_tokens, top_k]``, int32, packed by ``pack_topk_ids``, or ``(ids, weights)`` on every release: weights are rounded to"
    " bfloat16 on all, as the packed format does.",
    "routing_bias": "``[num_experts]``, bfloat16 (or float32 with DeepSeekV3 routing).",
    "hidden_states": "``[num_tokens, hidden_size]`` (packed FP4: uint8, half as wide).",
    "hidden_states_scale": "Block scales in the linear layout: NVFP4 ``[num_tokens, hidden_size // 16]``, MXFP4 and MXFP8 ``[num_tokens,"
    " hidden_size // 32]``, DeepSeek FP8 ``[hidden_size // 128, num_tokens]`` float32; None for bfloat16.",
    "gemm1_weights": "First GEMM's weights, shuffled for trtllm-gen.",
    "gemm1_weights_scale": "Their block scales.",
    "gemm1_bias": "``[num_experts, 2 * intermediate_size]``, float32.",
    "gemm1_alpha": "``[num_experts]``, float32: swiglu's alpha.",
    "gemm1_beta": "``[num_experts]``, float32: swiglu's beta.",
    "gemm1_clamp_limit": "``[num_experts]``, float32: swiglu's clamp.",
    "gemm1_lora_delta": "Added to the first GEMM's output; the answer is then ``MoEWithLora``.",
    "gemm2_weights": "Second GEMM's weights.",
    "gemm2_weights_scale": "Their block scales.",
    "gemm2_bias": "``[num_experts, hidden_size]``, float32.",
    "output1_scale_scalar": "``[local_num_experts]``, float32.",
    "output1_scale_gate_scalar": "``[local_num_experts]``, float32.",
    "output2_scale_scalar": "``[local_num_experts]``, float32.",
    "num_experts": "Experts in all.",
    "top_k": "Experts per token.",
    "n_group": "Expert groups (DeepSeekV3 routing).",
    "topk_group": "Groups kept per token.",
    "intermediate_size": "Width between the two GEMMs.",
    "local_expert_offset": "First expert on this rank.",
    "local_num_experts": "Experts on this rank.",
    "num_local_experts": "Experts on this rank; None: all.",
    "routed_scaling_factor": "Multiplies the routed weights once.",
    "routing_method_type": "By name: a member of ``RoutingMethodType``, its name, or upstream's own; integers 0 to 5 never moved.",
    "do_finalize": "False returns ``DeferredFinalize``.",
    "enable_pdl": "Programmatic dependent launch; None lets upstream decide by device.",
    "activation_type": "By name: a member of ``ActivationType``, its name, or upstream's own; integers 0 to 6 never moved.",
    "activation": "0.6.14's name for ``activation_type``: \"silu\" (Swiglu) or \"relu2\", on every release.",
    "per_token_scale": "``[num_tokens]``, float32: one scale per token.",
    "output": "Where to write: ``[num_tokens, hidden_size]``.",
    "tune_max_num_tokens": "Largest number of tokens that the autotuner times.",
    "norm_topk_prob": "Normalise the weights of a token.",
    "routing_replay_out": "``[num_tokens, top_k]``, int16: receives the chosen experts.",
    "num_fused_shared_experts": "Shared experts in the same weights (DeepSeekV3 routing, no expert parallelism).",
    "valid_hidden_size": "Unpadded width of the hidden states.",
    "valid_intermediate_size": "Unpadded width between the GEMMs.",
    "hidden_states_scale_layout": "``SfLayout.layout_linear`` on every release, said or not; another layout is refused.",
    "workspace_buffer": "Scratch memory that is reused between calls.",
    "nvfp4_4over6": "A 4-over-6 recipe; None is off, whatever the environment says.",
    "routing_metadata": "Slots that receive what routing computed.",
    "use_shuffled_weight": "Weights are shuffled for trtllm-gen.",
    "weight_layout": "``WeightLayout``: 0 MajorK, 1 MajorMn, 2 BlockMajorK.",
    "fp8_quantization_type": "``flashinfer.tllm_enums.Fp8QuantizationType``; DeepSeekFp8 by default.",
    "input": "``[num_tokens, hidden_size]``, in the activations' dtype (or packed).",
    "token_selected_experts": "``[num_tokens, top_k]``, int32.",
    "token_final_scales": "``[num_tokens, top_k]``, float32.",
    "fc1_expert_weights": "``[num_experts, 2 * intermediate_size, hidden_size]`` (packed where quantized); the rows of up come before those of"
    " gate, and an activation without a gate has ``intermediate_size`` rows.",
    "fc2_expert_weights": "``[num_experts, hidden_size, intermediate_size]``.",
    "output_dtype": "Dtype of the answer.",
    "quant_scales": "Scales in upstream's order for the quantization; empty for bfloat16. With ``use_w4_group_scaling`` on SM90 the first"
    " two are interleaved by this release's ``interleave_moe_scales_for_sm90_mixed_gemm``; another release's layout is refused.",
    "fc1_expert_biases": "First GEMM's biases.",
    "fc2_expert_biases": "Second GEMM's biases.",
    "input_sf": "Block scales of ``input``.",
    "swiglu_alpha": "``[num_experts]``, float32.",
    "swiglu_beta": "``[num_experts]``, float32.",
    "swiglu_limit": "``[num_experts]``, float32.",
    "swiglu_alpha:cute": "Swiglu's alpha.",
    "swiglu_beta:cute": "Swiglu's beta.",
    "swiglu_limit:cute": "Swiglu's clamp.",
    "tp_size": "Tensor-parallel ranks.",
    "tp_rank": "This rank among them.",
    "ep_size": "Expert-parallel ranks.",
    "ep_rank": "This rank among them.",
    "cluster_size": "Ranks of a cluster (min-latency mode).",
    "cluster_rank": "This rank among them.",
    "enable_alltoall": "Tokens come from an all-to-all.",
    "use_deepseek_fp8_block_scale": "FP8 block scales in DeepSeek's layout (SM90).",
    "use_w4_group_scaling": "4-bit weights with group scales.",
    "use_mxfp8_act_scaling": "MXFP8 activations.",
    "min_latency_mode": "Refused by upstream on every release.",
    "use_packed_weights": "INT4 weights packed two to a byte.",
    "use_wfp4afp8_humming": "MXFP4 weights with FP8 activations on SM90.",
    "swizzled_input_sf": "``input_sf`` is swizzled.",
    "use_fused_finalize": "Weigh and add rows inside the second GEMM, which is not deterministic. Left out: on, unless"
    " ``torch.use_deterministic_algorithms(True)``, which is 0.7.4's rule and ours on every release that has the parameter.",
    "profile_ids": "Tactics chosen beforehand.",
    "situ_beta": "SiTU's beta.",
    "situ_linear_beta": "SiTU's linear beta.",
    "clamped_relu2_limit": "Clamp of ClampedRelu2.",
    "backend": "Which kernels.",
    "hidden_size": "Width of the hidden states.",
    "use_cuda_graph": "Make stream and events beforehand, so that ``run`` can be captured.",
    "max_num_tokens": "``run`` refuses more tokens, on every release; left out: no bound.",
    "tile_size": "Tokens per tile.",
    "sf_vec_size": "Elements per block scale: 16.",
    "device": "Device of the buffers.",
    "quant_mode": '"w4a4", or "w4a16".',
    "swap_ab": "Swap the operands of the GEMMs.",
    "query": "``[batch_size, q_len_per_request, num_heads, head_dim_qk]``, or ``[total_q, num_heads, head_dim_qk]`` with"
    " ``cum_seq_lens_q``.",
    "kv_cache": "``[num_pages, page_size, kv_lora_rank + qk_rope_head_dim]``, or with a dimension of 1 after the first.",
    "workspace_buffer:mla": "Zeroed before its first use.",
    "qk_nope_head_dim": "Head dimension without rope.",
    "kv_lora_rank": "Rank of the compressed KV.",
    "qk_rope_head_dim": "Head dimension with rope.",
    "block_tables": "``[batch_size, max_pages]``, int32.",
    "seq_lens": "``[batch_size]``, int32.",
    "max_seq_len": "Largest of ``seq_lens``.",
    "sparse_mla_top_k": "Tokens attended to by sparse MLA, 0 for dense.",
    "out": "Where to write.",
    "bmm1_scale": "Scale before the softmax.",
    "bmm2_scale": "Scale after.",
    "sinks": "``[num_heads]``, float32: attention sinks.",
    "skip_softmax_threshold_scale_factor": "Skip-softmax threshold.",
    "backend:mla": '"auto", "trtllm-gen", "xqa", "cute-dsl" or "sparse". With an LSE up to 0.7.0.post1, "auto" is settled by'
    " device and shape instead of by timing, since the base depends on the kernel.",
    "is_var_seq": "Sequence lengths differ (cute-dsl).",
    "uses_shared_paged_kv_idx": "K and V share page indices.",
    "lse": "``[batch_size * q_len_per_request, num_heads]``, float32: receives the LSE, returned or not.",
    "return_lse": "Return the LSE as well.",
    "cute_dsl_impl": '"auto", "monolithic" or "modular".',
    "kv_scale_format": "Format of packed KV scales.",
    "cum_seq_lens_q": "``[batch_size + 1]``, int32: queries of different lengths.",
    "max_q_len": "Largest query length, with ``cum_seq_lens_q``.",
    "multi_ctas_kv_counter_buffer": "Counters of trtllm-gen; one per stream.",
    "sparse_mla_top_k_lens": "``[num_tokens]``, int32.",
    "enable_dcp": "Decode context parallelism: each rank holds a part of the KV cache and returns its LSE.",
    "cp_world": "Ranks that share the KV cache.",
    "cp_rank": "This rank among them.",
    "causal_seqlens_kv_global": "``[batch_size]``, int32: lengths over all ranks.",
    "use_fp16_softmax": "Softmax accumulates in float16.",
    "return_lse_base": "0.7.1's name for ``lse_base``.",
}  # fmt: skip

RESULT = "Tensor | DeferredFinalize | MoEWithLora"
TRTLLM_RETURNS = (
    RESULT,
    (
        "``[num_tokens, hidden_size]``, bfloat16, never a list; ``DeferredFinalize`` with ``do_finalize=False``; ``MoEWithLora`` with"
        " ``gemm1_lora_delta``."
    ),
)
_TYPED = """UnsupportedFeatureError
    An option, or an enum member, that the installed release lacks; the message has the releases and the pip line.
TypeError
    An integer for an enum that means different things on different releases."""
_ENVIRONMENT = """ConfigurationError
    The environment switches NVFP4 4-over-6 on and the release cannot be told otherwise (0.6.12 to 0.7.2.post1)."""
RAISES = {
    "trtllm": f"""UnsupportedDeviceError
    A CPU tensor, or a device below compute capability 10.0.
{_TYPED}
ValueError
    An unknown enum name, ids that are not int32, or scales that are not in the linear layout.
{_ENVIRONMENT}""",
    "cutlass": f"""{_TYPED}
ValueError
    An unknown enum name, or SM90 scales in another release's layout.
{_ENVIRONMENT}""",
    "cute": """UpstreamNotInstalledError
    nvidia-cutlass-dsl is not installed.
UnsupportedFeatureError
    An option, or an activation, that the installed release lacks.
TypeError, ValueError
    An activation that has no one meaning, or both spellings of it.""",
}

FUNCTIONS = {
    "trtllm_fp4_block_scale_moe": (
        "trtllm",
        "Fused MoE with FP4 weights from routing logits (trtllm-gen, SM100 and newer).",
        TRTLLM_RETURNS,
    ),
    "trtllm_fp4_block_scale_routed_moe": ("trtllm", "Fused MoE with FP4 weights from expert ids that were chosen before.", TRTLLM_RETURNS),
    "trtllm_fp8_block_scale_moe": ("trtllm", "Fused MoE with FP8 block-scaled weights from routing logits.", TRTLLM_RETURNS),
    "trtllm_fp8_block_scale_routed_moe": (
        "trtllm",
        "Fused MoE with FP8 block-scaled weights from expert ids chosen before.",
        TRTLLM_RETURNS,
    ),
    "trtllm_bf16_moe": ("trtllm", "Fused MoE in bfloat16 from routing logits.", TRTLLM_RETURNS),
    "trtllm_bf16_routed_moe": ("trtllm", "Fused MoE in bfloat16 from expert ids chosen before.", TRTLLM_RETURNS),
    "cutlass_fused_moe": (
        "cutlass",
        "Fused MoE of CUTLASS: bfloat16 and quantized, SM90 and newer.",
        ("Tensor", "``[num_tokens, hidden_size]`` in ``output_dtype``, never a list."),
    ),
    "cute_dsl_moe": (
        "cute",
        "Make a CuteDSL MoE layer whose ``run`` means the same on every release.",
        (
            "Any",
            (
                "A ``flashinfer.fused_moe.CuteDslMoEWrapper``. ``run`` returns a tensor of its own on every release (up to 0.6.13 upstream"
                " reuses one buffer), takes any number of tokens unless ``max_num_tokens`` says otherwise, and can be captured with"
                " ``use_cuda_graph=True``."
            ),
        ),
    ),
}
#: Module below fi_compat/fused_moe -> what it holds.
MODULES = {
    "_fp4": ("trtllm_fp4_block_scale_moe", "trtllm_fp4_block_scale_routed_moe"),
    "_fp8": ("trtllm_fp8_block_scale_moe", "trtllm_fp8_block_scale_routed_moe"),
    "_bf16": ("trtllm_bf16_moe", "trtllm_bf16_routed_moe"),
    "_cutlass": ("cutlass_fused_moe",),
    "_wrapper": ("cute_dsl_moe",),
}
#: Upstream's name where it differs from ours.
UPSTREAM = {"cute_dsl_moe": "CuteDslMoEWrapper"}

HEADER = '''"""{doc}

Written by tests/support/make_functions.py from the recorded signatures of all releases; do not edit by hand.
"""

from __future__ import annotations

'''


def union(dotted: str) -> list[tuple[str, bool, str, str]]:
    """Return ``(name, required, first, intervals)`` for each parameter of any release, in upstream's newest order."""
    recorded = contracts("flashinfer")
    releases = [r for r in recorded.releases if r in _table.FLASHINFER_RELEASES]
    order: list[str] = []
    has: dict[str, list[bool]] = {}
    defaults: dict[str, set[bool]] = {}
    for index, release in enumerate(releases):
        found = parameters(str(recorded.find(dotted, release).signature))
        names = [p.name for p in found]
        for position, p in enumerate(found):
            if p.name not in order:
                before = next((n for n in reversed(names[:position]) if n in order), None)
                order.insert(order.index(before) + 1 if before else 0, p.name)
            has.setdefault(p.name, [False] * len(releases))[index] = True
            defaults.setdefault(p.name, set()).add(p.default is None)
    result = []
    for name in order:
        present = has[name]
        intervals = []
        for i, there in enumerate(present):
            if there and (i == 0 or not present[i - 1]):
                intervals.append(releases[i])
            elif not there and i and present[i - 1]:
                intervals[-1] += f" to {releases[i - 1]}"
        text = "" if all(present) else ", ".join(i if " to " in i else f"{i} and newer" for i in intervals)
        result.append((name, defaults[name] == {True}, releases[present.index(True)], text))
    return result


def look_up(table: dict[str, str], name: str, family: str, default: str) -> str:
    """Return the entry for a parameter in a family of functions."""
    return table.get(f"{name}:{family}", table.get(name, default))


def wrap(text: str, indent: int) -> str:
    """Fill one paragraph."""
    pad = " " * indent
    return textwrap.fill(text, WIDTH, initial_indent=pad, subsequent_indent=pad, break_long_words=False, break_on_hyphens=False)


def function(name: str, dotted: str, family: str, summary: str, returns: tuple[str, str], raises: str, call: str, extra: str = "") -> str:
    """Return the source of one public function."""
    found = union(dotted)
    needed = [p for p in found if p[1]]
    optional = [p for p in found if not p[1]]
    lines = [f"def {name}(", "    *,"]
    for parameter, _, _, _ in needed:
        lines.append(f"    {parameter}: {look_up(TYPES, parameter, family, 'Tensor | None')},")
    for parameter, _, _, _ in optional:
        kind = look_up(TYPES, parameter, family, "Tensor | None")
        lines.append(f"    {parameter}: {kind.replace(' | None', '')} | Unset{' | None' if ' | None' in kind else ''} = UNSET,")
    if extra:
        lines.append(f"    {extra},")
    lines += ["    **removed: NoReturn,", f") -> {returns[0]}:", f'    """{summary}', "", "    Parameters", "    ----------"]
    for parameter, required, _, intervals in found:
        kind = look_up(TYPES, parameter, family, "Tensor | None").replace(" | None", " or None" if required else "").replace(" | ", " or ")
        lines.append(f"    {parameter} : {kind.replace('Any', 'object')}{'' if required else ', optional'}")
        text = look_up(DOCS, parameter, family, "")
        assert text, f"{name}: say what {parameter} is"
        if intervals:
            text = f"{text.rstrip('.')} ({intervals})."
        lines.append(wrap(text, 8))
    if extra:
        lines += ['    lse_base : {"base2", "basee"}', wrap("Base of the LSE, whichever kernel ran: what ``merge_state`` takes.", 8)]
    lines += ["", "    Returns", "    -------", f"    {returns[0].replace(' | ', ' or ').replace('Any', 'CuteDslMoEWrapper')}"]
    lines += [
        wrap(returns[1].replace("\n", " "), 8),
        "",
        "    Raises",
        "    ------",
        textwrap.indent(raises, "    "),
        "",
        "    Notes",
        "    -----",
    ]
    lines += [wrap(f"``{dotted}``; every parameter by keyword, since positions moved between releases.", 4), '    """']
    lines += ["    if removed:", f'        refuse_removed("{name}", removed)']
    lines += [f"    return {call}("]
    for group in (needed, optional):
        lines.append("        {")
        lines += [f'            "{p}": {p},' for p, _, _, _ in group]
        lines.append("        },")
    if extra:
        lines.append("        _base(lse_base, return_lse_base),")
    lines.append("    )")
    return "\n".join(lines) + "\n"


def fused_moe(module: str) -> str:
    """Return the source of one module of fi_compat/fused_moe."""
    bodies = []
    for name in MODULES[module]:
        family, summary, returns = FUNCTIONS[name]
        dotted = f"flashinfer.fused_moe.{UPSTREAM.get(name, name)}"
        bodies.append(function(name, dotted, family, summary, returns, RAISES[family], f"_bindings.flashinfer.moe.{name}"))
    code = "\n\n".join(bodies)
    typing = "from typing import TYPE_CHECKING, Any\n" if "Any" in code else "from typing import TYPE_CHECKING\n"
    lines = [
        HEADER.format(doc="Fused MoE: every parameter of any release from 0.6.8 on, by keyword."),
        typing,
        "\nfrom fi_compat import _bindings\nfrom fi_compat._options import refuse_removed\nfrom fi_compat._unset import UNSET, Unset\n",
        "\nif TYPE_CHECKING:\n",
        "    from collections.abc import Sequence\n" if "Sequence[" in code else "",
        "    from typing import NoReturn\n\n",
        "    import torch\n" if "torch." in code.replace("torch.use_", "") else "",
        "    from torch import Tensor\n\n" if "Tensor" in code else "\n",
    ]
    enums = [n for n in ("ActivationType", "RoutingMethodType") if f"{n} |" in code]
    lines.append(f"    from ._enums import {', '.join(enums)}\n")
    if RESULT in code:
        lines.append("    from ._results import DeferredFinalize, MoEWithLora\n")
    names = sorted(MODULES[module])
    exported = f"__all__ = [{', '.join(repr(n) for n in names)}]\n".replace("'", '"')
    return "".join((*lines, "\n", exported, "\n\n", code))


def mla() -> str:
    """Return the source of fi_compat/_mla_decode.py."""
    return "".join(
        (
            HEADER.format(doc="MLA decode: every parameter of any release from 0.6.8 on, by keyword."),
            "from typing import TYPE_CHECKING, Literal\n\nfrom . import _bindings\nfrom ._lse import base as _base\n",
            "from ._options import refuse_removed\nfrom ._unset import UNSET, Unset\n\nif TYPE_CHECKING:\n",
            "    from collections.abc import Sequence\n    from typing import NoReturn\n\n    from torch import Tensor\n\n",
            '__all__ = ["trtllm_batch_decode_with_kv_cache_mla"]\n\n\n',
            function(
                "trtllm_batch_decode_with_kv_cache_mla",
                "flashinfer.mla.trtllm_batch_decode_with_kv_cache_mla",
                "mla",
                "Decode with multi-head latent attention over a paged cache; the LSE has the base that was asked for.",
                (
                    "Tensor | tuple[Tensor, Tensor]",
                    "``[..., num_heads, kv_lora_rank]``, bfloat16; with ``return_lse`` also the LSE, float32, in ``lse_base``.",
                ),
                (
                    "UnsupportedFeatureError\n    An option that the installed release lacks; the message has the releases and the pip line.\n"
                    "ValueError\n    ``lse_base`` is neither base, or contradicts ``return_lse_base``."
                ),
                "_bindings.flashinfer.mla.decode",
                'lse_base: Literal["base2", "basee"] = "base2"',
            ),
        )
    )


def main() -> None:
    """Write both files below a folder."""
    root = Path(sys.argv[1]) / "fi_compat"
    for module in MODULES:
        (root / "fused_moe" / f"{module}.py").write_text(fused_moe(module), encoding="utf-8")
    (root / "_mla_decode.py").write_text(mla(), encoding="utf-8")


if __name__ == "__main__":
    main()
