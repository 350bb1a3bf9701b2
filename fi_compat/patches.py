"""Corrections to upstream's heuristics that engines apply by hand; each idempotent and restorable."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Literal

__all__ = ["patch_sm120_min_warps", "unpatch_sm120_min_warps"]


def patch_sm120_min_warps(*, force: bool = False) -> Literal["applied", "already-applied", "not-needed"]:
    """Let non-persistent MXFP4 matmuls with a strided weight scale use at least 4 warps on SM12x.

    Safe to call unconditionally: the floor applies only while the current device is of compute capability 12.x, looked
    up once per index, and leaves a caller's own ``num_warps`` constraint alone.

    Parameters
    ----------
    force : bool
        Apply the floor on any device; for tests.

    Returns
    -------
    {"applied", "already-applied", "not-needed"}
        "not-needed" where the generation's own floor is 4 already (3.4 and 3.5.1).

    Raises
    ------
    UpstreamNotInstalledError, IncompatibleUpstreamError, UnknownUpstreamError, UpstreamImportError
        There is no usable triton_kernels.

    Notes
    -----
    ``opt_flags_nvidia.compute_num_warps``: 3 parameters up to 3.5.1 (floor 4), ``is_persistent`` from 3.6 on (floor 1 when
    not persistent), ``constraints`` from 3.8 on. Reported as gpt-oss decoding at half speed on SM120.
    """
    from . import _sm120

    return _sm120.patch(force=force)


def unpatch_sm120_min_warps() -> None:
    """Restore upstream's ``compute_num_warps``; nothing happens where our patch is not there.

    Where an engine wrapped our function after us, its wrapper stays and so does the floor inside it.
    """
    from . import _sm120

    _sm120.unpatch()
