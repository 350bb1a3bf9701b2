"""Site directories built on disk from a nested dict, and the smallest trees of each kind."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from fi_compat import _table

FP4 = "def fp4_quantize(input, global_scale=None, sf_vec_size=16, sf_use_ue8m0=False, is_sf_swizzled_layout=True, is_sf_8x4_layout=False, {}):\n    return {{}}\n"
#: What position 6 on looks like, by release.
TAILS = {
    "0.6.7": "enable_pdl=None",
    "0.6.8": "enable_pdl=None, backend='cuda'",
    "0.6.11": "is_global_scale_inversed=False, enable_pdl=None, backend: str = 'cuda'",
    "0.6.12": "is_global_scale_inversed=False, enable_pdl=None, backend='cuda'",
    "0.7.1": "is_global_scale_inversed=False, enable_pdl=None, backend='cuda', nvfp4_4over6=(1, 2)",
    "0.7.4": "is_global_scale_inversed=False, enable_pdl=None, backend='auto', nvfp4_4over6=None, *, batch_invariant=False",
}


def build(root: Path, tree: dict[str, Any]) -> Path:
    """Write a nested dict as folders and files."""
    for name, content in tree.items():
        path = root / name
        if isinstance(content, dict):
            path.mkdir(parents=True, exist_ok=True)
            build(path, content)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def dist_info(name: str, version: str | None, record: list[str] | None = None, requires: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return a ``*.dist-info`` folder; ``version=None`` leaves the Version line out."""
    folder = f"{name.replace('-', '_')}-{version or '0'}.dist-info"
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        *([f"Version: {version}"] if version else []),
        *(f"Requires-Dist: {r}" for r in requires),
    ]
    files: dict[str, Any] = {"METADATA": "\n".join(lines) + "\n"}
    if record is not None:
        files["RECORD"] = "\n".join(record) + "\n"
    return {folder: files}


def record_of(tree: dict[str, Any], prefix: str = "") -> list[str]:
    """Return RECORD lines with hashes for a nested dict."""
    lines: list[str] = []
    for name, content in tree.items():
        if isinstance(content, dict):
            lines += record_of(content, f"{prefix}{name}/")
        else:
            data = content if isinstance(content, bytes) else content.encode()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            lines.append(f"{prefix}{name},sha256={digest},{len(data)}")
    return lines


def flashinfer(
    file_version: str | None = "0.6.8", dist_version: str | None = "0.6.8", shape: str = "0.6.8", meta: str | None = None
) -> dict[str, Any]:
    """Return a site with a FlashInfer whose source has the marks of ``shape``."""
    source = FP4.format(TAILS[shape])
    if shape in {"0.6.12", "0.7.1", "0.7.4"}:
        source += "def _fp4_quantize_custom_op(input, enable_pdl=None):\n    pass\n"
    package: dict[str, Any] = {
        "__init__.py": "raise AssertionError('the resolver imported FlashInfer')\n",
        "quantization": {"__init__.py": "", "fp4_quantization.py": source},
    }
    if meta is not None:
        package["_build_meta.py"] = meta
    elif file_version is not None:
        package["_build_meta.py"] = f'"""Build metadata."""\n__version__ = "{file_version}"\n'
    site = {"flashinfer": package}
    if dist_version is not None:
        site.update(dist_info("flashinfer-python", dist_version))
    return site


TOPK = {
    "legacy": "def topk(\n    x,\n    k: int,\n    apply_softmax: bool = True,\n    dim: int = 1,\n    return_bitmatrix: bool = True,\n    y_indx=None,\n    n_rows=None,\n):\n    pass\n",
    "3.6": "def topk(x, k, apply_softmax=True, dim=1, y_indx=None, n_rows=None, all_gather=False):\n    pass\n",
    "3.8": "def topk(x, k, apply_softmax=True, dim=1, y_indx=None, n_rows=None, all_gather=False, symm_mem_pool=None):\n    pass\n",
}


def tree(variant: str) -> dict[str, Any]:
    """Return the smallest ``triton_kernels`` folder that has the marks of a variant."""
    row = next(r for r in _table.TRITON_KERNELS_ROWS if r.variant == variant)
    kind = {"3.4": "legacy", "3.5.1": "legacy", "3.6": "3.6"}.get(variant, "3.8")
    result: dict[str, Any] = {"__init__.py": ""}

    def put(path: str, text: str) -> None:
        *folders, name = path.split("/")
        here = result
        for folder in folders:
            here = here.setdefault(folder, {})
        here[name] = text

    for path in row.requires:
        put(path, f"# {variant}\n")
    put("topk.py", TOPK[kind])
    put("matmul_ogs.py" if kind != "3.8" else "matmul.py", f"# {variant}\n")
    for mark in row.marks:
        if not mark.startswith("text:"):
            put(mark, f"# {variant}\n")
    text = "    def can_preserve_storage_as(self): ...\n" if _table.PRESERVE_STORAGE_MARK in row.marks else ""
    put("tensor_details/layout_details/base.py", f"class Layout:\n    x = 1\n{text}")
    return result


def owned(variant: str, name: str = "sglang-kernel", version: str = "0.4.0") -> dict[str, Any]:
    """Return a site with a tree and the distribution that owns it."""
    package = {"triton_kernels": tree(variant)}
    return {**package, **dist_info(name, version, record_of(package))}


UNRELATED = {"triton_kernels": {"__init__.py": "", "add_vectors.py": "", "rotary_embedding.py": "", "utils": {"__init__.py": ""}}}
