"""What a check of the doctor answers with, and the questions that checks share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._resolver import holds, parse

if TYPE_CHECKING:
    from ._doctor_facts import Facts

__all__ = ["SEVERITIES", "Finding", "flashinfer_version", "holds", "public", "version_of"]

SEVERITIES = ("ok", "info", "warning", "error")


@dataclass(frozen=True)
class Finding:
    """One answer of the doctor."""

    id: str
    severity: str
    message: str
    evidence: tuple[tuple[str, str], ...] = ()
    remedy: str = ""


def flashinfer_version(facts: Facts) -> str | None:
    """Return the version of FlashInfer that would be imported."""
    found = facts.flashinfer
    return (found.file_version or found.dist_version) if found is not None else None


def version_of(facts: Facts, distribution: str) -> str | None:
    """Return a distribution's version; for flashinfer-python the one that would be imported."""
    return flashinfer_version(facts) if distribution == "flashinfer-python" else facts.versions.get(distribution)


def public(version: str | None) -> str:
    """Return a version without its local segment, or the text itself where it is none."""
    parsed = parse(version) if version else None
    return parsed.public if parsed is not None else str(version)
