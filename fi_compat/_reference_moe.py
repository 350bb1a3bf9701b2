"""The MXFP4 MoE layer in plain torch, from the checkpoint's bytes: an oracle, and a backend that runs anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._reference_fp4 import fp4_dequantize
from ._reference_routing import choose

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["dequantize_mxfp4", "moe_layer", "swiglu"]


def dequantize_mxfp4(weight: Tensor, scale: Tensor) -> Tensor:
    """Return float32 ``[E, N, K]`` from uint8 ``[E, N, K // 2]`` codes and ``[E, N, K // 32]`` e8m0 scales."""
    experts, n, half = weight.shape
    flat = fp4_dequantize(
        weight.reshape(experts * n, half), scale.reshape(experts * n, -1), None, 32, sf_use_ue8m0=True, is_sf_swizzled_layout=False
    )
    return flat.reshape(experts, n, half * 2)


def swiglu(x: Tensor, alpha: float, limit: float | None) -> Tensor:
    """Return interleaved swiglu, ``gate * sigmoid(alpha * gate) * (linear + 1)``, as gpt-oss and triton_kernels have it."""
    import torch

    gate, linear = x[..., 0::2], x[..., 1::2]
    if limit is not None:
        gate, linear = gate.clamp(max=limit), linear.clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * (linear + 1)


def moe_layer(
    x: Tensor,
    logits: Tensor,
    w1: tuple[Tensor, Tensor],
    b1: Tensor | None,
    w2: tuple[Tensor, Tensor],
    b2: Tensor | None,
    n_expts_act: int,
    *,
    alpha: float,
    limit: float | None,
    sm_first: bool = False,
) -> Tensor:
    """Run the layer expert by expert: dequantised weights, float32 accumulation, gate weights in the logits' dtype."""
    import torch

    gates, chosen = choose(logits, n_expts_act, sm_first)
    total = torch.zeros((x.shape[0], w2[0].shape[1]), dtype=torch.float32, device=x.device)
    for expert in range(w1[0].shape[0]):
        token, slot = torch.nonzero(chosen == expert, as_tuple=True)
        if token.numel() == 0:
            continue
        first = dequantize_mxfp4(w1[0][expert : expert + 1], w1[1][expert : expert + 1])[0]
        second = dequantize_mxfp4(w2[0][expert : expert + 1], w2[1][expert : expert + 1])[0]
        hidden = x[token].float() @ first.t()
        if b1 is not None:
            hidden = hidden + b1[expert].float()
        hidden = swiglu(hidden, alpha, limit).to(x.dtype).float()
        out = hidden @ second.t()
        if b2 is not None:
            out = out + b2[expert].float()
        total.index_add_(0, token, out * gates[token, slot].float().unsqueeze(1))
    return total.to(x.dtype)
