"""``has``, ``require``, ``features``, ``check_version``: answers about what is installed, without importing it."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from . import _installed, _resolver, _table
from .errors import FiCompatError, UnsupportedDeviceError, UnsupportedFeatureError, UpstreamNotInstalledError

if TYPE_CHECKING:
    from ._selection import Selection

__all__ = ["assert_version", "check_version", "features", "has", "require"]


def _feature(name: str) -> _table.Feature:
    try:
        return _table.FEATURES[name]
    except KeyError:
        close = difflib.get_close_matches(name, _table.FEATURES, n=3, cutoff=0.4)
        hint = f"; did you mean {' or '.join(repr(c) for c in close)}?" if close else ""
        raise ValueError(f"unknown feature {name!r}{hint} See fi_compat.features() for all of them.") from None


def _in_intervals(feature: _table.Feature, selection: Selection) -> bool:
    if feature.upstream == "triton_kernels":
        return selection.version in feature.intervals or selection.adapter == "reference"
    version = selection.version
    parsed = _resolver.parse(version)
    if parsed is None or parsed.base_version == "0.0.0":
        # No version to go by: the release that the adapter chosen by structure begins with.
        row = next(r for r in _table.FLASHINFER_ROWS if r.adapter == selection.adapter)
        version = row.spec.split(",")[0].lstrip(">=").removesuffix(".dev0")
    return any(_resolver.holds(version, i) for i in feature.intervals)


def _capability(device: Any) -> tuple[int, int] | None:
    """Return the compute capability of a torch device, index or string; None for a CPU."""
    import torch

    from . import _device

    found = torch.device(device if not isinstance(device, int) else f"cuda:{device}")
    if found.type != "cuda":
        return None
    return _device.capability(found.index if found.index is not None else torch.cuda.current_device())


def _fits(feature: _table.Feature, device: Any) -> bool:
    capability = _capability(device)
    if feature.min_capability is None:
        return True
    return capability is not None and feature.min_capability <= capability <= (feature.max_capability or (99, 9))


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
    known = _feature(feature)
    try:
        selection = _resolver.active(known.upstream)
    except FiCompatError:
        return False
    return _in_intervals(known, selection) and (device is None or _fits(known, device))


def require(feature: str, device: Any = None) -> None:
    """Raise unless ``has(feature, device)``.

    Parameters
    ----------
    feature, device
        As for ``has``.

    Raises
    ------
    UnsupportedFeatureError
        The installed release lacks it; the message names the releases that have it and the pip line.
    UnsupportedDeviceError
        The device cannot run it.
    ImportError
        The upstream is not installed or unusable.
    """
    known = _feature(feature)
    selection = _resolver.active(known.upstream)
    needed = " or ".join(i.replace(".dev0", "") for i in known.intervals)
    found = f"{known.upstream} {selection.variant or selection.version}"
    if not _in_intervals(known, selection):
        pip = (
            f"pip install 'flashinfer-python{needed.split(' or ')[-1]}'"
            if known.upstream == "flashinfer"
            else "install a tree of that generation"
        )
        raise UnsupportedFeatureError(
            f"{feature} is not available: found {found}, needed {known.upstream} {needed}: {pip}",
            feature=feature,
            found=found,
            since=needed,
        )
    if device is not None and not _fits(known, device):
        low, high = known.min_capability or (0, 0), known.max_capability
        wanted = f"{low[0]}.{low[1]}" + (" or newer" if high is None else f" to {high[0]}.{high[1]}")
        raise UnsupportedDeviceError(
            f"{feature} cannot run on {device}: found compute capability {_capability(device)}, needed {wanted}: use another device or backend"
        )


def features() -> dict[str, bool]:
    """Return every feature name with ``has(name)``."""
    return {name: has(name) for name in _table.FEATURES}


def check_version(dist: str, spec: str) -> bool:
    """Say whether an installed distribution satisfies a PEP 440 specifier.

    Parameters
    ----------
    dist : str
        Name of a distribution, "flashinfer-python".
    spec : str
        PEP 440 specifier, ">=0.6.11,<0.7". Pre- and post-releases count; local segments (+cu130) are ignored.

    Returns
    -------
    bool
        False also when the distribution is not installed.

    Raises
    ------
    ValueError
        ``spec`` is not a specifier.
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        SpecifierSet(spec)
    except InvalidSpecifier as error:
        raise ValueError(f"check_version: {spec!r} is not a PEP 440 specifier; needed something like '>=0.6.11,<0.7'") from error
    return _resolver.holds(_version_of(dist), spec)


def _version_of(dist: str) -> str | None:
    if dist in {"flashinfer-python", "flashinfer_python", "flashinfer"}:
        facts = _installed.flashinfer_facts()
        return facts.file_version or facts.dist_version
    return _installed.dist_version(dist)[0]


def assert_version(dist: str, spec: str, hint: str = "") -> None:
    """Raise unless ``check_version(dist, spec)``.

    Parameters
    ----------
    dist, spec : str
        As for ``check_version``.
    hint : str
        Added to the message.

    Raises
    ------
    UpstreamNotInstalledError
        The distribution is not installed.
    UnsupportedFeatureError
        Its version does not satisfy ``spec``.
    """
    if check_version(dist, spec):
        return
    found = _version_of(dist)
    tail = f" ({hint})" if hint else ""
    if found is None:
        raise UpstreamNotInstalledError(f"{dist} is not installed: needed {dist}{spec}{tail}: pip install '{dist}{spec}'")
    raise UnsupportedFeatureError(
        f"{dist} has the wrong version: found {found}, needed {spec}{tail}: pip install '{dist}{spec}'",
        feature=dist,
        found=found,
        since=spec,
    )
