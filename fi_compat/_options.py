"""Options of a call that not every release takes: served, refused, or the same as leaving them out; never dropped."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from . import _table
from ._unset import UNSET
from ._upstream import unsupported
from .errors import ConfigurationError, UnsupportedFeatureError

if TYPE_CHECKING:
    from ._upstream import Upstream

__all__ = ["fill", "refuse_four_over_six", "refuse_removed", "since"]

#: Values that ask for what a release without the parameter does anyway; None always does, and False where nothing is said here.
NEUTRAL: Final[dict[str, tuple[Any, ...]]] = {
    "use_fused_finalize": (True,),  # 0.6.15; what releases before do
    "backend": ("cutlass",),  # 0.7.1
    "quant_mode": ("w4a4", "nvfp4"),  # 0.6.18
    "hidden_states_scale_layout": (2, "layout_linear"),  # 0.7.0; linear is all that any release reads
    "cp_world": (1,),  # 0.6.17, with enable_dcp
    "cp_rank": (0,),
    "kv_scale_format": ("auto",),  # 0.6.14
    "cute_dsl_impl": ("auto",),  # 0.6.12
}

#: Parameters of releases before 0.6.8, or of other projects' forks, and what says the same now.
REMOVED: Final = {
    "tile_tokens_dim": "it left with 0.6.0 and the autotuner chooses: leave it out, or bound tuning by tune_max_num_tokens",
    "gated_act_type": "it became activation_type: pass activation_type=fi_compat.fused_moe.ActivationType.Swiglu or .Geglu",
}


def since(function: str, parameter: str) -> str:
    """Say which releases of the table take a parameter: ">=0.6.16,<0.6.16.post3 or >=0.6.18"."""
    from fi_compat.contracts import contracts, parameters

    recorded = contracts("flashinfer")
    intervals: list[list[str]] = []
    inside = False
    for release in recorded.releases:
        if release not in _table.FLASHINFER_RELEASES:
            continue
        found = recorded.find(function, release)
        has = found.signature is not None and any(p.name == parameter for p in parameters(found.signature))
        if has and not inside:
            intervals.append([f">={release}"])
        elif inside and not has:
            intervals[-1].append(f"<{release}")
        inside = has
    return " or ".join(",".join(i) for i in intervals)


def fill(upstream: Upstream, required: dict[str, Any], optional: dict[str, Any]) -> None:
    """Put into ``required`` what was set and the installed release takes; refuse what was set and it lacks."""
    parameters = upstream.parameters
    for name, value in optional.items():
        if value is not UNSET:
            if name in parameters:
                required[name] = value
            elif value is not None and not _is_neutral(name, value):
                raise unsupported(upstream.name, f"{name}={_short(value)}", "flashinfer", since(f"{upstream.module}.{upstream.name}", name))


def _is_neutral(name: str, value: Any) -> bool:
    return isinstance(value, bool | int | str) and value in NEUTRAL.get(name, (False,))


def _short(value: Any) -> str:
    return repr(value) if isinstance(value, bool | int | float | str) else f"<{type(value).__name__}>"


def refuse_removed(function: str, removed: dict[str, Any]) -> None:
    """Raise for keywords that no release from 0.6.8 on takes: typed where an older release took them."""
    name = next(iter(removed))
    if name in REMOVED:
        raise UnsupportedFeatureError(
            f"{function}: {name} is in no release from 0.6.8 on, needed a call without it: {REMOVED[name]}",
            feature=name,
            since="<0.6.8",
        )
    raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def refuse_four_over_six(function: str, obeyed_by: str, since: str) -> None:
    """Raise where the environment switches NVFP4 4-over-6 on, which some releases obey and cannot be told otherwise.

    Asked when the function is bound and by ``prepare()``; the kernels read the environment at each call, so a process
    that sets the variable later is on its own.
    """
    for name in _table.FOUR_OVER_SIX_VARIABLES:
        # getBoolEnv in envUtils.cpp and env_flag_enabled in Python: "1" alone is true.
        if os.environ.get(name) == "1":
            raise ConfigurationError(
                f"{function}: found {name}=1 in the environment, which {obeyed_by} obeys whatever a call says, needed it unset: unset {name}, or"
                f" pip install 'flashinfer-python>={since}' and pass nvfp4_4over6"
            )
