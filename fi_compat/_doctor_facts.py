"""What the doctor looks at, gathered once; every part is guarded, reads files only, and imports no upstream."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _installed, _resolver
from .errors import FiCompatError

if TYPE_CHECKING:
    from ._selection import FlashInferFacts, Selection, TritonKernelsFacts

__all__ = ["Facts", "Gpu", "gather"]

#: Packages whose second copy on sys.path changes what is imported.
SHADOWED = ("flashinfer", "triton_kernels", "triton", "torch", "tvm_ffi")
_GPU_SECONDS = 3.0


@dataclass(frozen=True)
class Gpu:
    """One device: its name, compute capability, and which tool said so."""

    name: str
    capability: tuple[int, int]
    via: str


@dataclass
class Facts:
    """All that the checks may look at; built from disk, or by hand in tests."""

    versions: dict[str, str] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    requires: dict[str, list[str]] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    python: tuple[int, int, int] = (3, 11, 0)
    flashinfer: FlashInferFacts | None = None
    flashinfer_selection: Selection | FiCompatError | None = None
    triton_kernels: TritonKernelsFacts | None = None
    triton_kernels_selection: Selection | FiCompatError | None = None
    copies: dict[str, list[str]] = field(default_factory=dict)
    duplicates: dict[str, list[str]] = field(default_factory=dict)
    torch_cuda: str | None = None
    tools: dict[str, str | None] = field(default_factory=dict)
    gpus: list[Gpu] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def gather(*, gpu: bool = True) -> Facts:
    """Gather the facts of this environment.

    Parameters
    ----------
    gpu : bool
        Ask NVML or nvidia-smi for the devices, for 1 and 3 seconds at most.
    """
    facts = Facts(environment=dict(os.environ), python=sys.version_info[:3])
    for step in (_distributions, _upstreams, _copies, _torch_cuda, _tools):
        try:
            step(facts)
        except Exception as error:  # noqa: BLE001 - one part that fails must not hide the others
            facts.problems.append(f"{step.__name__.strip('_')}: {type(error).__name__}: {error}")
    if gpu:
        try:
            facts.gpus = _gpus()
        except Exception as error:  # noqa: BLE001 - the same
            facts.problems.append(f"gpu: {type(error).__name__}: {error}")
    return facts


def _distributions(facts: Facts) -> None:
    """List distributions by the names of their dist-info folders; metadata is read for those that checks name."""
    from packaging.utils import canonicalize_name

    for entry in sys.path:
        try:
            names = os.listdir(entry or ".")  # noqa: PTH208 - sys.path has strings
        except OSError:
            continue
        for folder in names:
            match = re.fullmatch(r"(.+?)-([^-]+)\.(?:dist-info|egg-info)", folder)
            if match is None:
                continue
            name: str = canonicalize_name(match.group(1))
            where = str(Path(entry or ".", folder))
            if name in facts.versions:
                if facts.paths[name] != where:
                    facts.duplicates.setdefault(name, [facts.paths[name]]).append(where)
                continue
            facts.versions[name] = match.group(2)
            facts.paths[name] = where
    for name in ("flashinfer-python", "vllm", "sglang"):
        if name in facts.paths:
            facts.requires[name] = _requires(facts.paths[name])
    if "flashinfer-python" in facts.versions:
        # The folder's name has the version with _ for +; METADATA is what FlashInfer's own check reads.
        for name in ("flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache"):
            found, _ = _installed.dist_version(name)
            if found:
                facts.versions[name] = found


def _requires(folder: str) -> list[str]:
    try:
        text = Path(folder, "METADATA").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return re.findall(r"(?m)^Requires-Dist:[ \t]*(.+?)[ \t]*$", text)


def _upstreams(facts: Facts) -> None:
    facts.flashinfer = _installed.flashinfer_facts()
    facts.triton_kernels = _installed.triton_kernels_facts(deep=True)
    facts.flashinfer_selection = _selected("flashinfer", facts.flashinfer)
    facts.triton_kernels_selection = _selected("triton_kernels", facts.triton_kernels)


def _selected(upstream: str, facts: Any) -> Selection | FiCompatError:
    try:
        return _resolver.select(upstream, facts)
    except FiCompatError as error:
        return error


def _copies(facts: Facts) -> None:
    """Find packages that are in more than one entry of sys.path; the first wins."""
    for name in SHADOWED:
        found = []
        for entry in sys.path:
            folder = Path(entry or ".", name)
            if folder.joinpath("__init__.py").is_file() and str(folder) not in found:
                found.append(str(folder))
        facts.copies[name] = found


def _torch_cuda(facts: Facts) -> None:
    """Read torch's CUDA version out of its version.py, or its local version segment."""
    root, _, _, _ = _installed.locate("torch")
    if root is not None:
        file = Path(root, "version.py")
        if file.is_file():
            match = re.search(r"(?m)^cuda(?:: [^=]+)? = ['\"]?([\d.]+|None)", file.read_text(encoding="utf-8", errors="replace"))
            if match and match.group(1) != "None":
                facts.torch_cuda = match.group(1)
                return
    match = re.search(r"\+cu(\d{2})(\d)", facts.versions.get("torch", ""))
    if match:
        facts.torch_cuda = f"{match.group(1)}.{match.group(2)}"


def _tools(facts: Facts) -> None:
    home = facts.environment.get("CUDA_HOME") or facts.environment.get("CUDA_PATH") or "/usr/local/cuda"
    facts.tools = {
        "nvcc": shutil.which("nvcc") or shutil.which("nvcc", path=os.path.join(home, "bin")),  # noqa: PTH118 - shutil.which takes strings
        "collect_env": _collect_env(facts),
        "ninja": shutil.which("ninja") or ("ninja (package)" if "ninja" in facts.versions else None),
    }


def _collect_env(facts: Facts) -> str | None:
    root = facts.flashinfer.root if facts.flashinfer is not None else None
    file = Path(root, "collect_env.py") if root else None
    return str(file) if file is not None and file.is_file() else None


def _gpus() -> list[Gpu]:
    """Ask NVML through nvidia-ml-py in a process of its own (1 s), then nvidia-smi (3 s); a hung driver hangs neither us nor CI."""
    code = (
        "import pynvml as n; n.nvmlInit()\n"
        "for i in range(n.nvmlDeviceGetCount()):\n"
        "    h = n.nvmlDeviceGetHandleByIndex(i); c = n.nvmlDeviceGetCudaComputeCapability(h); m = n.nvmlDeviceGetName(h)\n"
        "    print(m if isinstance(m, str) else m.decode(), '%d.%d' % tuple(c), sep=', ')\n"
    )
    attempts: list[tuple[list[str], float, str]] = []
    root, _, _, problem = _installed.locate("pynvml")
    if root is not None or problem is not None:  # a single file is a "problem" of a package, and what pynvml is
        attempts.append(([sys.executable, "-c", code], 1.0, "nvidia-ml-py"))
    smi = shutil.which("nvidia-smi")
    if smi:
        attempts.append(([smi, "--query-gpu=name,compute_cap", "--format=csv,noheader"], _GPU_SECONDS, "nvidia-smi"))
    for command, seconds, via in attempts:
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)  # noqa: S603 - fixed commands
        except (OSError, subprocess.TimeoutExpired):
            continue
        found = re.findall(r"(?m)^(.+), (\d+)\.(\d+)\s*$", result.stdout)
        if found:
            return [Gpu(name, (int(major), int(minor)), via) for name, major, minor in found]
    return []
