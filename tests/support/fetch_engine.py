"""Reads the Python files out of an engine's published wheel: ``python fetch_engine.py NAME VERSION FOLDER``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pypi_simple import PyPISimple
from remotezip import RemoteZip

INDEX = os.environ.get("PIP_INDEX_URL") or "https://pypi.org/simple/"


def main() -> None:
    """Find the wheel, and read only what ends in .py; a wheel of small files is quicker fetched whole, in a few ranges."""
    name, version, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    packages = PyPISimple(INDEX).get_project_page(name).packages
    wheels = [p for p in packages if p.version == version and p.package_type == "wheel"]
    assert wheels, f"{name} {version} has no wheel"
    wheel = min(wheels, key=lambda p: ("x86_64" not in p.filename, p.filename))
    # One range per file would be thousands of requests; a large first read covers most of them.
    with RemoteZip(wheel.url, initial_buffer_size=64 * 2**20) as archive:
        names = [n for n in archive.namelist() if n.endswith(".py")]
        for member in names:
            archive.extract(member, folder)
    print(f"{wheel.filename}: {len(names)} files", flush=True)


if __name__ == "__main__":
    main()
