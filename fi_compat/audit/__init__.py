"""Which calls in an engine's source break, or silently change, on which release; nothing is imported or run."""

from __future__ import annotations

from ._judge import Finding
from ._tree import Report, audit

__all__ = ["Finding", "Report", "audit"]
