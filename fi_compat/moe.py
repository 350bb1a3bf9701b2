"""MoE routing over triton_kernels with one meaning on generations 3.4, 3.5.1, 3.6, 3.8 and the tokenspeed fork."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _bindings, _handles
from ._routing import GatherIndx, RaggedView, Routing, RoutingData, ScatterIndx
from .errors import UnsupportedDeviceError

if TYPE_CHECKING:
    from typing import Literal

    from torch import Tensor

    from ._protocols import TritonKernelsAdapter

__all__ = [
    "GatherIndx",
    "RaggedView",
    "Routing",
    "RoutingData",
    "ScatterIndx",
    "fused_swiglu",
    "matmul_ogs",
    "moe_layer",
    "opt_flags_constraints",
    "precision_config",
    "prepare_mxfp4_weight",
    "ragged",
    "routing",
    "routing_from_topk",
]

#: Upstream's kernels sort 32 candidates at a time and keep expert ids in 15 bits, on every generation.
_MAX_EXPTS_ACT = 32
_MAX_EXPERTS = 32767


def routing(
    logits: Tensor,
    n_expts_act: int,
    sm_first: bool = False,
    expt_indx: Tensor | None = None,
    simulated_ep: int = 1,
    n_rows: int | Tensor | None = None,
    *,
    slot_order: Literal["upstream", "expert"] = "upstream",
    validate: bool | None = None,
    backend: Literal["auto", "reference"] = "auto",
) -> Routing:
    """Route tokens to their top experts.

    Parameters
    ----------
    logits : Tensor
        ``[n_tokens, n_experts]``, float32, float16, bfloat16 or float8. A last stride other than 1 is made contiguous
        (upstream would read other numbers).
    n_expts_act : int
        Experts per token, 1 to 32 and at most n_experts. A number that is not a power of two (6 in some models), which
        upstream's kernels cannot do, is served through torch: about 25 small launches instead of 4.
    sm_first : bool
        Softmax over all logits before the top-k, instead of over the chosen ones after it.
    expt_indx : Tensor, optional
        Expert ids ``[n_tokens, n_expts_act]`` to use instead of a top-k, any integer dtype (int16, which corrupts memory
        upstream, is cast). Their order is kept.
    simulated_ep : int
        Keep the first ``n_experts // simulated_ep`` experts only; must divide n_experts.
    n_rows : int or Tensor, optional
        Rows that count; a tensor is one int32 element on the logits' device, read by the kernels, so a captured graph can
        change it.
    slot_order : {"upstream", "expert"}
        Order of a token's own slots: upstream's (ascending expert id up to 3.6, descending gate from 3.8 on), or 3.5.1's
        on every generation (a second top-k pass on 3.8).
    validate : bool, optional
        Check values: NaN logits (after the softmax with ``sm_first``), ids out of range or repeated in a row. None checks CPU tensors only, since reading a GPU
        value synchronises and breaks graph capture. Unchecked, these are undefined: a NaN with its sign set writes out of
        bounds when ``n_experts % 32 != 0``, and a repeated id counts once in the histogram.
    backend : {"auto", "reference"}
        The installed triton_kernels, or plain torch on any device. ``FI_COMPAT_TRITON_KERNELS_ADAPTER=reference`` makes
        the latter the default.

    Returns
    -------
    Routing
        ``(routing_data, gather_indx, scatter_indx)``. On every generation rows are sorted by expert, tokens ascending
        inside an expert, equal logits go to the smaller id, ``scatter.src_indx == gather.dst_indx`` is the inverse of
        ``gather.src_indx``. With ``n_rows`` or ``simulated_ep`` index tails are -1 and gate tails 0.

    Raises
    ------
    ValueError
        A shape, dtype or number that upstream's kernels would misroute or corrupt memory with.
    UnsupportedDeviceError
        CPU tensors without Triton's interpreter.
    UpstreamNotInstalledError, IncompatibleUpstreamError, UnknownUpstreamError, UpstreamImportError
        There is no usable triton_kernels; see ``fi_compat.active("triton_kernels")``.

    Notes
    -----
    ``triton_kernels.routing.routing`` up to 3.5.1; ``topk`` and ``make_ragged_tensor_metadata`` from 3.6 on. Returns
    objects, so under torch.compile it is a graph break; ``moe_layer`` is not.
    """
    if logits.dim() != 2:
        raise ValueError(f"routing: found logits of shape {tuple(logits.shape)}, needed [n_tokens, n_experts]")
    n_tokens, n_experts = logits.shape
    if not 1 <= n_expts_act <= _MAX_EXPTS_ACT or n_expts_act > n_experts or n_experts > _MAX_EXPERTS:
        raise ValueError(
            f"routing: found n_expts_act={n_expts_act} with {n_experts} experts, needed 1 to {_MAX_EXPTS_ACT}, at most the number of experts,"
            f" which may be {_MAX_EXPERTS}: upstream's kernels would read and write out of bounds"
        )
    if logits.element_size() > 4 or not logits.is_floating_point():
        raise ValueError(f"routing: found logits of {logits.dtype}, needed float32, float16, bfloat16 or float8")
    if simulated_ep != 1 and (simulated_ep < 1 or n_experts % simulated_ep):
        raise ValueError(f"routing: found simulated_ep={simulated_ep} with {n_experts} experts, needed a divisor of {n_experts}")
    if slot_order not in {"upstream", "expert"}:
        raise ValueError(f"routing: found slot_order={slot_order!r}, needed 'upstream' or 'expert'")
    if n_rows is not None:
        _check_n_rows("routing", n_rows, n_tokens, logits)
    if expt_indx is not None:
        expt_indx = _ids("routing", expt_indx, (n_tokens, n_expts_act), logits)
    if n_experts > 1 and logits.stride(1) != 1:
        logits = logits.contiguous()
    if validate or (validate is None and logits.device.type == "cpu"):
        _validate_values("routing", logits, expt_indx, n_experts, n_rows, allow_minus_one=False, sm_first=sm_first)
    adapter = _adapter(backend, logits)
    if n_expts_act & (n_expts_act - 1) or (simulated_ep > 1 and n_rows is not None):
        # No kernel for these: not a power of two, or upstream's compaction, which reads rows past n_rows.
        from ._reference_routing import route

        by_value = adapter.SLOTS_BY_VALUE and slot_order == "upstream"
        return adapter.from_tensors(route(logits, n_expts_act, sm_first, expt_indx, simulated_ep, n_rows, by_value=by_value))
    return adapter.routing(logits, n_expts_act, sm_first, expt_indx, simulated_ep, n_rows, slot_order)


def routing_from_topk(
    topk_ids: Tensor,
    topk_weights: Tensor,
    n_experts: int,
    *,
    n_rows: int | Tensor | None = None,
    validate: bool | None = None,
    backend: Literal["auto", "reference"] = "auto",
) -> Routing:
    """Make a routing from expert ids and weights that were chosen elsewhere.

    Parameters
    ----------
    topk_ids : Tensor
        ``[n_tokens, k]``, any integer dtype; -1 is an expert of another rank.
    topk_weights : Tensor
        ``[n_tokens, k]`` gate weights, used as they are.
    n_experts : int
        Experts on this rank.
    n_rows : int or Tensor, optional
        As for ``routing``.
    validate : bool, optional
        As for ``routing``: ids out of range or repeated in a row.
    backend : {"auto", "reference"}
        As for ``routing``.

    Returns
    -------
    Routing
        As ``routing`` returns it, slots in the order given; -1 ids have -1 in ``gather.dst_indx``, index tails are -1 and
        gate tails 0.

    Raises
    ------
    ValueError
        Shapes differ, or k is not 1 to 32.

    Notes
    -----
    ``triton_kernels.routing.routing_from_bitmatrix`` up to 3.5.1, ``SparseMatrix`` from 3.6 on.
    """
    if topk_ids.dim() != 2 or topk_ids.shape != topk_weights.shape:
        raise ValueError(
            f"routing_from_topk: found topk_ids {tuple(topk_ids.shape)} and topk_weights {tuple(topk_weights.shape)}, needed the same"
            " [n_tokens, k]"
        )
    n_tokens, k = topk_ids.shape
    if not 1 <= k <= _MAX_EXPTS_ACT or not 1 <= n_experts <= _MAX_EXPERTS:
        raise ValueError(
            f"routing_from_topk: found k={k} and n_experts={n_experts}, needed k from 1 to {_MAX_EXPTS_ACT} and 1 to {_MAX_EXPERTS} experts"
        )
    if n_rows is not None:
        _check_n_rows("routing_from_topk", n_rows, n_tokens, topk_ids)
    ids = _ids("routing_from_topk", topk_ids, (n_tokens, k), topk_weights)
    if validate or (validate is None and ids.device.type == "cpu"):
        _validate_values("routing_from_topk", None, ids, n_experts, n_rows, allow_minus_one=True)
    adapter = _adapter(backend, ids)
    weights = topk_weights.contiguous()
    if k & (k - 1):
        from ._reference_routing import mask_rows, routing_tensors

        return adapter.from_tensors(routing_tensors(weights, mask_rows(ids, n_rows), n_experts))
    return adapter.routing_from_topk(ids, weights, n_experts, n_rows)


def ragged(routing: Routing) -> RaggedView:
    """Return the ragged metadata of a routing under one set of names on every generation.

    Parameters
    ----------
    routing : Routing
        What ``routing`` or ``routing_from_topk`` returned.

    Returns
    -------
    RaggedView
        ``slice_sizes``, ``slice_offs``, ``block_offs(block)`` and ``block_schedule(block)`` for blocks of 16, 32, 64, 128.

    Notes
    -----
    ``ExptData`` up to 3.5.1, ``RaggedTensorMetadata`` from 3.6 on.
    """
    data = routing[0].expt_data
    if hasattr(data, "token_offs_raw"):
        return RaggedView(data.hist, data.token_offs_raw, data.token_offs_pad.__getitem__, data.block_pid_map.__getitem__)
    return RaggedView(data.slice_sizes, data.slice_offs, data.block_offs, data.block_schedule)


def _adapter(backend: str, tensor: Tensor) -> TritonKernelsAdapter:
    """Return the module that serves ``backend``, and refuse CPU tensors that its kernels cannot read."""
    if backend == "reference":
        from .adapters import reference

        return reference
    if backend != "auto":
        raise ValueError(f"routing: found backend={backend!r}, needed 'auto' or 'reference'")
    adapter = _bindings.triton_kernels
    if tensor.device.type == "cpu" and not adapter.runs_on_cpu():
        raise UnsupportedDeviceError(
            "routing: found CPU tensors, needed a CUDA device for the installed triton_kernels: move them, pass backend='reference' for plain"
            " torch, or set TRITON_INTERPRET=1 before triton is imported"
        )
    return adapter


def _check_n_rows(function: str, n_rows: int | Tensor, n_tokens: int, like: Tensor) -> None:
    if isinstance(n_rows, int):
        if not 0 <= n_rows <= n_tokens:
            raise ValueError(f"{function}: found n_rows={n_rows}, needed 0 to {n_tokens}, the number of tokens")
        return
    if n_rows.numel() != 1 or str(n_rows.dtype) != "torch.int32" or n_rows.device != like.device:
        raise ValueError(
            f"{function}: found n_rows {tuple(n_rows.shape)} {n_rows.dtype} on {n_rows.device}, needed one int32 element on {like.device}; a"
            " cast would make a copy that a captured graph does not follow"
        )


def _ids(function: str, ids: Tensor, shape: tuple[int, int], like: Tensor) -> Tensor:
    """Check expert ids and return them as contiguous int32: upstream's kernels shift in the ids' own dtype."""
    import torch

    if tuple(ids.shape) != shape:
        raise ValueError(f"{function}: found expert ids of shape {tuple(ids.shape)}, needed {shape}: [n_tokens, n_expts_act]")
    if ids.is_floating_point() or ids.dtype == torch.bool or ids.device != like.device:
        raise ValueError(f"{function}: found expert ids of {ids.dtype} on {ids.device}, needed integers on {like.device}")
    return ids.to(torch.int32).contiguous()


def _validate_values(
    function: str,
    logits: Tensor | None,
    ids: Tensor | None,
    n_experts: int,
    n_rows: Any,
    *,
    allow_minus_one: bool,
    sm_first: bool = False,
) -> None:
    """Raise ValueError for values that upstream's kernels would misroute; reads the tensors."""
    rows = slice(None) if n_rows is None else slice(0, int(n_rows))
    if logits is not None and bool(logits[rows].float().isnan().any()):
        raise ValueError(f"{function}: found NaN in logits, needed numbers: a NaN selects experts that do not exist")
    if logits is not None and sm_first and bool(logits[rows].float().softmax(-1).isnan().any()):
        raise ValueError(
            f"{function}: found a row of logits with +inf or only -inf and sm_first=True, needed a finite softmax: it is NaN there"
        )
    if ids is None:
        return
    used = ids[rows]
    lowest = -1 if allow_minus_one else 0
    if used.numel() and (int(used.min()) < lowest or int(used.max()) >= n_experts):
        raise ValueError(
            f"{function}: found expert ids from {int(used.min())} to {int(used.max())}, needed {lowest} to {n_experts - 1}"
            + ("" if allow_minus_one else "; routing_from_topk takes -1 for an expert of another rank")
        )
    ordered = used.sort(dim=1).values
    if ordered.shape[1] > 1 and bool(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any()):
        raise ValueError(
            f"{function}: found an expert id twice in one row, needed distinct ids: the histogram counts it once and a slot is lost"
        )


def matmul_ogs(
    x: Tensor,
    w: Any,
    bias: Tensor | None = None,
    routing_data: Any = None,
    gather_indx: Any = None,
    scatter_indx: Any = None,
    precision_config: Any = None,
    *,
    betas: Tensor | None = None,
    gammas: Tensor | None = None,
    out_alpha: float | None = None,
    y: Tensor | None = None,
    fused_activation: Any = None,
    epilogue: Any = None,
) -> Tensor:
    """Multiply rows by their experts' weights, with gather before and scatter after.

    Parameters
    ----------
    x : Tensor
        ``[n_tokens, K]`` with ``gather_indx``, else ``[rows, K]`` in expert order; last stride 1.
    w : Tensor or upstream's Tensor
        ``[E, K, N]``, or what ``prepare_mxfp4_weight`` returned.
    bias : Tensor, optional
        float32 ``[E, N]``.
    routing_data, gather_indx, scatter_indx
        From ``routing``. With ``scatter_indx`` the result is summed over a token's slots.
    precision_config : PrecisionConfig, optional
        From ``precision_config``.
    betas, gammas : Tensor, optional
        One weight a row, ``[n_tokens * n_expts_act]``; ``routing_data.gate_scal`` for gate weights.
    out_alpha : float, optional
        Multiplies the result.
    y : Tensor, optional
        Where the result goes.
    fused_activation : FusedActivation, optional
        From ``fused_swiglu``.
    epilogue : Epilogue, optional
        Upstream's own, passed on.

    Returns
    -------
    Tensor
        ``[n_tokens, N]`` with ``scatter_indx``, else ``[rows, N]``; N halved by a fused swiglu.

    Raises
    ------
    ValueError
        A stride, shape or combination that upstream would misread, before a launch.

    Notes
    -----
    ``triton_kernels.matmul_ogs.matmul_ogs`` up to 3.6; ``triton_kernels.matmul.matmul`` from 3.8 on, which wants row ids
    (``src_indx // n_expts_act``) and leaves the sum over slots to ``triton_kernels.reduce.reduce``. Rows of ``scatter_indx`` that are
    -1 count as 0.
    """
    from ._matmul_checks import check_matmul

    check_matmul(x, w, routing_data, gather_indx, scatter_indx, precision_config, betas, gammas)
    return _adapter("auto", x).matmul.matmul_ogs(
        x, w, bias, routing_data, gather_indx, scatter_indx, precision_config, betas, gammas, out_alpha, y, fused_activation, epilogue
    )


def precision_config(
    *, weight_scale: Any = None, act_scale: Any = None, out_scale: Any = None, flex_ctx: Any = None, out_dtype: Any = None, **options: Any
) -> Any:
    """Make upstream's PrecisionConfig under generation 3.5.1's names.

    Parameters
    ----------
    weight_scale, act_scale, out_scale : Tensor or upstream's Tensor, optional
        Microscales (``b_mx_scale``, ``a_mx_scale``, ``c_mx_scale`` from 3.8 on); one per 32 values, which the trees that ask are told.
    flex_ctx : FlexCtx, optional
        Upstream's own, passed on.
    out_dtype : torch.dtype, optional
        Of the result.
    **options
        Any other field of the installed generation's PrecisionConfig.

    Returns
    -------
    PrecisionConfig
        Upstream's object.

    Raises
    ------
    UnsupportedFeatureError
        An option that the installed generation lacks.
    """
    config = _bindings.triton_kernels.matmul.precision_config(
        {
            "weight_scale": weight_scale,
            "act_scale": act_scale,
            "out_scale": out_scale,
            "flex_ctx": flex_ctx,
            "out_dtype": out_dtype,
            **options,
        }
    )
    return _handles.give(config)


def fused_swiglu(alpha: float, limit: float | None) -> Any:
    """Make the activation that is fused into the first matmul: interleaved swiglu, which halves N.

    Parameters
    ----------
    alpha : float
        Factor inside the sigmoid; 1.702 for gpt-oss.
    limit : float, optional
        Clamp of both halves; 7.0 for gpt-oss.

    Returns
    -------
    FusedActivation
        Upstream's object.
    """
    return _bindings.triton_kernels.matmul.activation(alpha, limit)


def prepare_mxfp4_weight(weight: Tensor, scale: Tensor, *, num_warps: int = 8) -> tuple[Any, Any]:
    """Lay out an MXFP4 weight and its scales as the current device's kernels read them.

    Parameters
    ----------
    weight : Tensor
        uint8 ``[E, N, K // 2]``, two e2m1 codes a byte, low nibble first, as checkpoints have it; contiguous.
    scale : Tensor
        uint8 ``[E, N, K // 32]``, e8m0.
    num_warps : int
        Of Hopper's scale layout; the matmul then uses as many.

    Returns
    -------
    tuple
        ``(w, weight_scale)`` for ``matmul_ogs`` and ``precision_config``: upstream's Tensors, logical shape ``[E, K, N]``.

    Raises
    ------
    ValueError
        A shape, dtype or stride that would be swizzled into another weight.

    Notes
    -----
    ``make_default_matmul_mxfp4_w_layout`` and ``convert_layout``; classes up to 3.6, instances from 3.8 on; the axis is 1 up to 3.6 and
    -2 from 3.8 on (Hopper's scale layout silently mis-swizzles the other sign).
    """
    from ._matmul_checks import check_mxfp4

    check_mxfp4(weight, scale)
    matmul = _bindings.triton_kernels.matmul
    value_layout, scale_layout = matmul.layouts(num_warps)
    value = matmul.convert(matmul.wrap(weight.transpose(-2, -1), fp4=True), value_layout)
    scales = matmul.convert(matmul.wrap(scale.transpose(-2, -1), fp4=False), scale_layout)
    return _handles.give(value), scales


def opt_flags_constraints(**constraints: Any) -> Any:
    """Constrain upstream's choice of block sizes and warps, inside a ``with`` block.

    Parameters
    ----------
    **constraints
        Names of the installed generation: block_m, block_k, split_k, is_persistent, epilogue_subtile, num_stages, idle_sms on all;
        fused_scatter up to 3.5.1, max_allowable_mn from 3.6 on, num_warps from 3.8 on, block_n and disable_mx4_block_swap in the fork
        and the shuffled tree.

    Returns
    -------
    context manager
        What was set before is restored at its end. Calls of ``matmul_ogs`` in other threads see the constraints too.

    Raises
    ------
    UnsupportedFeatureError
        A name that the installed generation does not know, at once (upstream fails at the next matmul).
    """
    from ._matmul_checks import constrained

    return constrained(_bindings.triton_kernels.matmul, constraints)


def moe_layer(
    x: Tensor,
    logits: Tensor,
    w1: Any,
    b1: Tensor | None,
    pc1: Any,
    w2: Any,
    b2: Tensor | None,
    pc2: Any,
    n_expts_act: int,
    *,
    alpha: float,
    limit: float | None,
    sm_first: bool = False,
    backend: Literal["auto", "reference"] = "auto",
) -> Tensor:
    """Run an MoE layer: routing, first matmul with gather and fused swiglu, second with gate weights, scatter and sum.

    Parameters
    ----------
    x : Tensor
        ``[n_tokens, K]``.
    logits : Tensor
        ``[n_tokens, E]``.
    w1, pc1, w2, pc2
        From ``prepare_mxfp4_weight`` and ``precision_config``; for "reference" the pair ``(weight, scale)`` as checkpoints have it,
        with ``pc1=pc2=None``.
    b1, b2 : Tensor, optional
        float32 ``[E, N]``.
    n_expts_act : int
        Experts per token.
    alpha, limit : float
        As for ``fused_swiglu``.
    sm_first : bool
        As for ``routing``.
    backend : {"auto", "reference"}
        The installed triton_kernels, or plain torch.

    Returns
    -------
    Tensor
        ``[n_tokens, N2]``, dtype of ``x``.

    Notes
    -----
    One opaque op while compiling, after ``prepare()``: no graph break under ``torch.compile(fullgraph=True)``.
    """
    if backend == "reference":
        from ._reference_moe import moe_layer as reference_layer

        return reference_layer(x, logits, w1, b1, w2, b2, n_expts_act, alpha=alpha, limit=limit, sm_first=sm_first)
    if _bindings.is_compiling():
        width = w2.shape[-1]
        return _bindings.ops.moe_layer(
            x,
            logits,
            *_handles.numbers(w1, pc1, w2, pc2),
            b1,
            b2,
            n_expts_act,
            alpha,
            limit,
            sm_first,
            width,
        )
    routing_data, gather_indx, scatter_indx = routing(logits, n_expts_act, sm_first)
    hidden = matmul_ogs(x, w1, b1, routing_data, gather_indx=gather_indx, precision_config=pc1, fused_activation=fused_swiglu(alpha, limit))
    return matmul_ogs(hidden, w2, b2, routing_data, scatter_indx=scatter_indx, precision_config=pc2, gammas=routing_data.gate_scal)
