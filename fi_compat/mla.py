"""Multi-head latent attention: decode with a log-sum-exp in the base that was asked for, and merging that takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from . import _bindings
from ._lse import base as _base
from ._mla_decode import trtllm_batch_decode_with_kv_cache_mla

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["merge_state", "merge_states", "trtllm_batch_decode_with_kv_cache_mla"]


def merge_state(
    v_a: Tensor, s_a: Tensor, v_b: Tensor, s_b: Tensor, *, lse_base: Literal["base2", "basee"] = "base2"
) -> tuple[Tensor, Tensor]:
    """Merge the attention over two parts of the KV cache.

    Parameters
    ----------
    v_a, v_b : Tensor
        ``[seq_len, num_heads, head_dim]``: output over each part.
    s_a, s_b : Tensor
        ``[seq_len, num_heads]``, float32: log-sum-exp over each part.
    lse_base : {"base2", "basee"}
        Base of ``s_a`` and ``s_b``, and of the answer.

    Returns
    -------
    tuple of Tensor
        Output, as ``v_a``; log-sum-exp, as ``s_a``, in ``lse_base``.

    Raises
    ------
    ValueError
        ``lse_base`` is neither.

    Notes
    -----
    ``flashinfer.merge_state`` works in base 2 on every release.
    """
    return _bindings.flashinfer.mla.merge_state(v_a, s_a, v_b, s_b, _base(lse_base))


def merge_states(v: Tensor, s: Tensor, *, lse_base: Literal["base2", "basee"] = "base2") -> tuple[Tensor, Tensor]:
    """Merge the attention over many parts of the KV cache.

    Parameters
    ----------
    v : Tensor
        ``[seq_len, num_states, num_heads, head_dim]``: output over each part.
    s : Tensor
        ``[seq_len, num_states, num_heads]``, float32: log-sum-exp over each part.
    lse_base : {"base2", "basee"}
        Base of ``s``, and of the answer.

    Returns
    -------
    tuple of Tensor
        ``[seq_len, num_heads, head_dim]``, and ``[seq_len, num_heads]`` in ``lse_base``.

    Raises
    ------
    ValueError
        ``lse_base`` is neither.

    Notes
    -----
    ``flashinfer.merge_states`` works in base 2 on every release.
    """
    return _bindings.flashinfer.mla.merge_states(v, s, _base(lse_base))
