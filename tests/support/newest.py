"""Print what the index has and the table does not know: ``newest.py LAST_FLASHINFER DISTRIBUTION=VERSION ...``.

One line each: ``flashinfer<TAB>VERSION`` or ``kernels<TAB>DISTRIBUTION<TAB>VERSION``.
"""

from __future__ import annotations

import os
import sys

from packaging.version import InvalidVersion, Version
from pypi_simple import PYPI_SIMPLE_ENDPOINT, PyPISimple


def versions_after(index: PyPISimple, distribution: str, last: str) -> list[str]:
    """Return versions with a wheel that are newer than ``last``, oldest first; development builds left out."""
    found = set()
    for package in index.get_project_page(distribution).packages:
        try:
            version = Version(package.version or "")
        except InvalidVersion:
            continue
        if package.package_type == "wheel" and version > Version(last) and not version.is_devrelease and not package.is_yanked:
            found.add(version)
    return [str(v) for v in sorted(found)]


if __name__ == "__main__":
    with PyPISimple(os.environ.get("PIP_INDEX_URL") or PYPI_SIMPLE_ENDPOINT) as client:
        for release in versions_after(client, "flashinfer-python", sys.argv[1]):
            print(f"flashinfer\t{release}")
        for item in sys.argv[2:]:
            name, _, newest = item.partition("=")
            for release in versions_after(client, name, newest):
                print(f"kernels\t{name}\t{release}")
