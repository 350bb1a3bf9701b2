"""Read one ``triton_kernels`` folder out of a published wheel, by range requests; nothing is vendored.

Run as ``python fetch_tree.py DISTRIBUTION VERSION FOLDER``. The folder is filled once per wheel: its name carries the
wheel's sha256 from the index, so that another wheel under the same version is another folder.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from pypi_simple import PYPI_SIMPLE_ENDPOINT, PyPISimple
from remotezip import RemoteZip

WANTED = ("triton_kernels/",)


def wheel_of(distribution: str, version: str):
    """Return the index's entry of the wheel for this kind of machine."""
    with PyPISimple(os.environ.get("PIP_INDEX_URL") or PYPI_SIMPLE_ENDPOINT) as index:
        page = index.get_project_page(distribution)
    wheels = [p for p in page.packages if p.version == version and p.package_type == "wheel"]
    fitting = [p for p in wheels if "x86_64" in p.filename or p.filename.endswith("-none-any.whl")] or wheels
    if not fitting:
        raise SystemExit(f"no wheel of {distribution} {version} on the index")
    return fitting[0]


def fetch(distribution: str, version: str, cache: Path) -> Path:
    """Return a folder with ``triton_kernels`` and the dist-info of the wheel."""
    wheel = wheel_of(distribution, version)
    target = cache / f"{distribution}-{version}-{wheel.digests['sha256'][:16]}"
    if (target / ".complete").exists():
        return target
    for attempt in range(3):
        try:
            with RemoteZip(wheel.url) as archive:
                names = [n for n in archive.namelist() if n.startswith(WANTED) or n.partition("/")[0].endswith(".dist-info")]
                for name in names:
                    archive.extract(name, target)
            break
        except OSError as error:
            if attempt == 2:
                raise
            print(f"{distribution} {version}: {error!r}, again", file=sys.stderr)
            time.sleep(5)
    if not (target / "triton_kernels" / "topk.py").exists() and distribution != "triton-kernels":
        raise SystemExit(f"{wheel.filename} has no triton_kernels/topk.py")
    (target / ".complete").touch()
    return target


if __name__ == "__main__":
    print(fetch(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
