"""What moved between two releases, limited to what a source tree uses: the upgrade note."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fi_compat.contracts import contracts, parameters

from ._tree import analysed_sites

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["diff"]


def diff(old: str, new: str, used_by: Path | None = None) -> list[str]:
    """Return one line per public name that was added, removed or changed, or per name that a tree uses.

    Parameters
    ----------
    old, new : str
        Recorded FlashInfer releases.
    used_by : Path, optional
        Limits the note to the upstream names that this source tree refers to.

    Returns
    -------
    list of str
        Sorted lines.

    Raises
    ------
    ValueError
        A release is not recorded, or the path does not exist.
    """
    recorded = contracts("flashinfer")
    for release in (old, new):
        if release not in recorded.releases:
            raise ValueError(f"diff: no recorded release {release!r}; known are {', '.join(recorded.releases)}")
    if used_by is not None:
        names = {s.dotted for s in analysed_sites(used_by) if s.dotted.startswith("flashinfer")}
    else:
        modules = ("flashinfer", "flashinfer.comm", "flashinfer.fused_moe", "flashinfer.mla", "flashinfer.quantization", "flashinfer.gemm")
        names = {f"{m}.{n}" for m in modules for r in (old, new) for n in recorded.exports(m, r)}
    lines = []
    for name in sorted(names):
        before, after = recorded.find(name, old), recorded.find(name, new)
        if before.kind == "missing" and after.kind == "missing":
            if used_by is not None:
                lines.append(f"{name}: in neither")
        elif before.kind == "missing" or after.kind == "missing":
            lines.append(f"{name}: {'new' if before.kind == 'missing' else 'gone'}")
        elif before.signature is not None and after.signature is not None and before.signature != after.signature:
            lines += [f"{name}: {words}" for words in _changes(before.signature, after.signature)]
        elif before.entry is not None and after.entry is not None and before.entry.get("e") != after.entry.get("e"):
            lines.append(f"{name}: members were {_members(before.entry['e'])}, are {_members(after.entry['e'])}")
    return lines


def _members(values: dict[str, int]) -> str:
    return ", ".join(f"{n}={v}" for n, v in sorted(values.items(), key=lambda i: str(i[1]).zfill(4)))


def _changes(before: str, after: str) -> list[str]:
    old, new = ({p.name: (i, p) for i, p in enumerate(parameters(s))} for s in (before, after))
    words = [f"parameter {n} is gone" for n in old if n not in new]
    order = list(new)
    for name, (place, p) in new.items():
        if name not in old:
            later = [n for n in order[place + 1 :] if n in old and new[n][1].kind in {"positional", "either"}]
            inserted = p.kind in {"positional", "either"} and later
            how = f"inserted at {place} before {later[0]}" if inserted else "by keyword" if p.kind == "keyword" else f"appended at {place}"
            words.append(
                f"parameter {name}{'' if p.default is None else f'={p.default}'} is new, {how}"
                + (", required" if p.default is None else "")
            )
            continue
        was = old[name][1]
        if was.default != p.default:
            words.append(
                f"the default of {name} was {was.default}, is {p.default}" if was.default else f"{name} has a default now, {p.default}"
            )
        if was.kind != p.kind:
            words.append(f"{name} was passed {was.kind}, is {p.kind}")
    common = [n for n in old if n in new]
    if common != [n for n in order if n in old]:
        words.append(f"the order of parameters changed: {', '.join(order)}")
    return words
