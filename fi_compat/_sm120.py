"""The floor of 4 warps for MXFP4 matmuls on SM12x; see ``fi_compat.patches``."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import sys
import threading
from typing import TYPE_CHECKING, Any

from . import _device, _resolver
from ._upstream import import_upstream

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Literal

__all__ = ["patch", "unpatch"]

_MIN_WARPS = 4
#: sglang's own patch looks for this mark and stands back.
_SGLANG_MARK = "_sglang_sm120_mxfp4_patch"
_OURS = "_fi_compat_original"

_lock = threading.Lock()


def _opt_flags_nvidia() -> ModuleType:
    """Return the module object whose ``compute_num_warps`` upstream calls: an engine's alias too."""
    _resolver.active("triton_kernels")
    import_upstream("triton_kernels")
    # matmul_ogs became matmul with 3.8; a tree has one of the two, or active() has refused it.
    for details in ("matmul_details", "matmul_ogs_details"):
        name = f"triton_kernels.{details}"
        if name in sys.modules or importlib.util.find_spec(name) is not None:
            break
    return import_upstream(f"{name}.opt_flags_details.opt_flags_nvidia")  # type: ignore[no-any-return]


def _current_device_is_sm12x() -> bool:
    import torch

    return torch.cuda.is_available() and _device.capability(torch.cuda.current_device())[0] == 12


def _is_strided_mx_scale(precision_config: Any) -> bool:
    """Say whether the weight scale is there and lies as the checkpoint has it, on any generation."""
    scale = getattr(precision_config, "b_mx_scale", None)
    if scale is None:
        scale = getattr(precision_config, "weight_scale", None)
    if scale is None:
        return False
    storage = getattr(scale, "storage", None)
    if storage is None or not hasattr(storage, "layout"):
        return True  # a plain torch.Tensor
    layout = storage.layout
    kind = layout if isinstance(layout, type) else type(layout)
    return layout is None or kind.__name__ == "StridedLayout"


def patch(*, force: bool) -> Literal["applied", "already-applied", "not-needed"]:
    """Apply the floor once."""
    with _lock:
        module = _opt_flags_nvidia()
        original: Callable[..., int] = module.compute_num_warps
        if hasattr(original, _OURS) or getattr(original, _SGLANG_MARK, False):
            return "already-applied"
        signature = inspect.signature(original)
        if "is_persistent" not in signature.parameters:
            return "not-needed"
        module.compute_num_warps = _with_floor(original, signature, force=force)  # type: ignore[attr-defined]
        return "applied"


def _with_floor(original: Callable[..., int], signature: inspect.Signature, *, force: bool) -> Callable[..., int]:
    @functools.wraps(original)
    def compute_num_warps(*args: Any, **kwargs: Any) -> int:
        warps = original(*args, **kwargs)
        if warps >= _MIN_WARPS or not (force or _current_device_is_sm12x()):
            return warps
        given = signature.bind(*args, **kwargs).arguments
        constrained = (given.get("constraints") or {}).get("num_warps") is not None
        if given["is_persistent"] or constrained or not _is_strided_mx_scale(given["precision_config"]):
            return warps
        return _MIN_WARPS

    setattr(compute_num_warps, _OURS, original)
    setattr(compute_num_warps, _SGLANG_MARK, True)
    return compute_num_warps


def unpatch() -> None:
    """Restore upstream's function."""
    with _lock:
        module = _opt_flags_nvidia()
        original = getattr(module.compute_num_warps, _OURS, None)
        if original is not None and module.compute_num_warps.__module__ == original.__module__:
            module.compute_num_warps = original  # type: ignore[attr-defined]
