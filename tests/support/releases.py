"""Comparing releases in tests."""

from __future__ import annotations

from packaging.version import Version


def since(release: str, version: str) -> bool:
    """Say whether a release is that version or newer."""
    return Version(release) >= Version(version)
