"""Exceptions of fi_compat; each is also what callers already catch for that kind of failure."""

from __future__ import annotations

__all__ = [
    "ConfigurationError",
    "FiCompatError",
    "GroupError",
    "IncompatibleUpstreamError",
    "UnknownUpstreamError",
    "UnsupportedDeviceError",
    "UnsupportedFeatureError",
    "UpstreamImportError",
    "UpstreamNotInstalledError",
]


class FiCompatError(Exception):
    """Base of every error that fi_compat itself raises."""


class UpstreamNotInstalledError(FiCompatError, ImportError):
    """The upstream package is not installed at all."""


class UpstreamImportError(FiCompatError, ImportError):
    """The upstream is installed, and importing it failed; the original error is ``__cause__``."""


class UnknownUpstreamError(FiCompatError, ImportError):
    """What is installed cannot be recognised, or is newer than tested under ``FI_COMPAT_STRICT=1``."""


class IncompatibleUpstreamError(FiCompatError, ImportError):
    """What is installed is recognised and cannot work: too old, broken, mixed, or another project."""


class UnsupportedFeatureError(FiCompatError, NotImplementedError):
    """An option was asked for that the installed release lacks.

    Attributes
    ----------
    feature : str
        The option or function, as the caller wrote it.
    found : str
        The installed upstream and its version.
    since : str
        The releases that have it.
    """

    def __init__(self, message: str, *, feature: str = "", found: str = "", since: str = "") -> None:
        super().__init__(message)
        self.feature = feature
        self.found = found
        self.since = since


class UnsupportedDeviceError(FiCompatError, RuntimeError):
    """The tensors are on a device that the kernel cannot run on."""


class ConfigurationError(FiCompatError, ValueError):
    """The environment contradicts what the call promises."""


class GroupError(FiCompatError, RuntimeError):
    """The ranks of a group did not agree in time: one died, never arrived, or is in another call."""
