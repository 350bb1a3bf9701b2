"""What the resolver is told and what it answers: plain frozen data, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["FlashInferFacts", "Owner", "Problem", "Selection", "TritonKernelsFacts", "Verdict"]


@dataclass(frozen=True)
class Verdict:
    """One candidate that the resolver looked at, and why it was taken or not."""

    candidate: str
    accepted: bool
    reason: str


@dataclass(frozen=True)
class Selection:
    """The adapter that serves an installed upstream.

    Attributes
    ----------
    upstream : str
        "flashinfer" or "triton_kernels".
    adapter : str
        Name of the module under ``fi_compat.adapters``, or "reference".
    version : str
        The version of FlashInfer as installed, or the generation of triton_kernels.
    variant : str
        Tells trees of one generation apart: "3.8", "3.8-shuffled", "3.8-tokenspeed". Empty for FlashInfer.
    how : {"version", "structure", "override"}
        What decided.
    root : str
        The folder of the package that is imported; empty for the reference backend.
    owner : str
        ``NAME VERSION`` of the distribution whose RECORD lists the package, else "".
    triton_range : str
        The triton releases that the tree imports on (PEP 440); empty for FlashInfer.
    trace : tuple of Verdict
        Every candidate, accepted or rejected, in the order in which it was looked at.
    """

    upstream: str
    adapter: str
    version: str
    variant: str
    how: Literal["version", "structure", "override"]
    root: str
    owner: str
    triton_range: str
    trace: tuple[Verdict, ...]


@dataclass(frozen=True)
class Problem:
    """Something on disk that could not be read as what it should be."""

    path: str
    what: str
    remedy: str


@dataclass(frozen=True)
class Owner:
    """A distribution whose RECORD lists files of the package.

    ``matching``, ``changed`` and ``gone`` count its recorded files that are on disk with the recorded hash, with
    another content, or not at all; they are 0 where nothing was hashed.
    """

    name: str
    version: str
    files: int = 0
    matching: int = 0
    changed: int = 0
    gone: int = 0


@dataclass(frozen=True)
class FlashInferFacts:
    """What was found of FlashInfer, without importing it.

    ``marks`` are the ``(file, function, parameter)`` of the table that the source on disk has; None where the version
    alone decides and the source was not read.
    """

    root: str | None
    file_version: str | None = None
    dist_version: str | None = None
    via: str = "sys.path"
    marks: frozenset[tuple[str, str, str]] | None = None
    problems: tuple[Problem, ...] = ()
    override: str | None = None
    strict: bool = False
    python: tuple[int, int] = (3, 11)


@dataclass(frozen=True)
class TritonKernelsFacts:
    """What was found of triton_kernels, without importing it.

    ``files`` are the paths of the table that exist below ``root``, and the text marks that hold;
    ``topk_parameters`` is the signature of ``topk()`` in topk.py, None where there is no such function.
    """

    root: str | None
    via: str = "sys.path"
    namespace: bool = False
    files: frozenset[str] = frozenset()
    topk_parameters: tuple[str, ...] | None = None
    owners: tuple[Owner, ...] = ()
    unresolved: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    triton_version: str | None = None
    vendored: str | None = None
    override: str | None = None
    strict: bool = False
