"""fi_compat: one stable API over FlashInfer 0.6.8 to 0.7.4 and triton_kernels 3.4 to 3.8.

Same call, same meaning, or a typed error; importing it imports no torch, triton or FlashInfer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import errors
from ._unset import UNSET
from ._version import __version__
from .comm import allreduce_fusion, create_allreduce_fusion_workspace
from .moe import routing
from .patches import patch_sm120_min_warps
from .quantization import fp4_quantize

if TYPE_CHECKING:
    from ._selection import FlashInferFacts, Selection, TritonKernelsFacts

__all__ = [
    "UNSET",
    "__version__",
    "active",
    "adapter_for",
    "allreduce_fusion",
    "assert_version",
    "check_version",
    "create_allreduce_fusion_workspace",
    "errors",
    "explain",
    "features",
    "fp4_quantize",
    "has",
    "patch_sm120_min_warps",
    "prepare",
    "require",
    "routing",
    "select",
]


def prepare(*names: str) -> None:
    """Import, resolve and bind now, and register the opaque torch ops.

    Call it in each worker after fork or spawn and ``torch.cuda.set_device``, before torch.compile and graph capture.
    Importing FlashInfer initialises CUDA, so a parent that will fork uses ``active``, ``has`` and ``check_version``.

    Parameters
    ----------
    *names : str
        Stable functions to bind ("fp4_quantize", "routing"); none means all that the installed upstreams can serve.

    Raises
    ------
    ValueError
        There is no stable function of that name.
    ImportError
        A named function's upstream is not installed or unusable (one of ``fi_compat.errors``).
    UnsupportedFeatureError
        The installed release lacks a named function.
    ConfigurationError
        The environment contradicts what a function promises, or CUDA was initialised before a fork.
    """
    from . import _prepare

    _prepare.prepare(*names)


def active(upstream: str) -> Selection:
    """Return which adapter serves the installed "flashinfer" or "triton_kernels", and why. Imports neither.

    Parameters
    ----------
    upstream : {"flashinfer", "triton_kernels"}
        Which upstream.

    Returns
    -------
    Selection
        Adapter, version, variant, root, owner, triton range, and the trace of candidates.

    Raises
    ------
    UpstreamNotInstalledError, IncompatibleUpstreamError, UnknownUpstreamError, ConfigurationError
        There is nothing usable; the message says what was found and the pip line that mends it.
    """
    from . import _resolver

    return _resolver.active(upstream)


def select(upstream: str, facts: FlashInferFacts | TritonKernelsFacts) -> Selection:
    """Choose the adapter from facts alone: the pure function behind ``active``.

    Parameters
    ----------
    upstream : {"flashinfer", "triton_kernels"}
        Which upstream.
    facts : FlashInferFacts or TritonKernelsFacts
        From ``fi_compat._selection``.

    Returns
    -------
    Selection
        As for ``active``.
    """
    from . import _resolver

    return _resolver.select(upstream, facts)


def adapter_for(upstream: str, version: str) -> str:
    """Name the adapter for a release of FlashInfer or a generation of triton_kernels that need not be installed.

    Parameters
    ----------
    upstream : {"flashinfer", "triton_kernels"}
        Which upstream.
    version : str
        "0.6.17", or "3.6", or "3.8-tokenspeed".

    Returns
    -------
    str
        Name of a module under ``fi_compat.adapters``.

    Raises
    ------
    IncompatibleUpstreamError, UnknownUpstreamError
        No adapter serves it.
    """
    from . import _resolver

    return _resolver.adapter_for(upstream, version)


def explain(name: str) -> str:
    """Say in words what serves an upstream or a stable function here, what was rejected and why.

    Parameters
    ----------
    name : str
        "flashinfer", "triton_kernels", or a stable function ("fp4_quantize").

    Returns
    -------
    str
        A few lines of text.

    Raises
    ------
    ValueError
        There is no such upstream or function.
    """
    from . import _explain

    return _explain.explain(name)


def has(feature: str, device: Any = None) -> bool:
    """Say whether the installed release has a feature, and with ``device`` whether that device can run it.

    Parameters
    ----------
    feature : str
        One of ``features()``.
    device : torch.device, str or int, optional
        Ask for its compute capability as well; imports torch.

    Returns
    -------
    bool
        False also when the upstream is not installed or unusable.

    Raises
    ------
    ValueError
        There is no feature of that name; the message names the closest.
    """
    from . import _features

    return _features.has(feature, device)


def require(feature: str, device: Any = None) -> None:
    """Raise, with what is installed, what is needed and the pip line, unless ``has(feature, device)``.

    Parameters
    ----------
    feature, device
        As for ``has``.

    Raises
    ------
    UnsupportedFeatureError, UnsupportedDeviceError, ImportError
        The release lacks it, the device cannot run it, or the upstream is unusable.
    """
    from . import _features

    _features.require(feature, device)


def features() -> dict[str, bool]:
    """Return every feature name with ``has(name)``."""
    from . import _features

    return _features.features()


def check_version(dist: str, spec: str) -> bool:
    """Say whether an installed distribution satisfies a PEP 440 specifier; local segments are ignored.

    Parameters
    ----------
    dist, spec : str
        "flashinfer-python" and ">=0.6.11,<0.7".

    Returns
    -------
    bool
        False also when it is not installed.

    Raises
    ------
    ValueError
        ``spec`` is not a specifier.
    """
    from . import _features

    return _features.check_version(dist, spec)


def assert_version(dist: str, spec: str, hint: str = "") -> None:
    """Raise unless ``check_version(dist, spec)``; there is no bypass.

    Parameters
    ----------
    dist, spec : str
        As for ``check_version``.
    hint : str
        Added to the message.

    Raises
    ------
    UpstreamNotInstalledError, UnsupportedFeatureError
        Not installed, or another version.
    """
    from . import _features

    _features.assert_version(dist, spec, hint)
