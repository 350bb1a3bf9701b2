"""Real environments for the doctor: ``real_environments.py FOLDER TREES_FOLDER REPO``.

Published packages are installed by pip into virtual environments, in the orders that the public reports describe; kernel
wheels are cut down to their triton_kernels folder (a whole one is 300 to 600 MB), their RECORD with them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

from fetch_tree import fetch


def slim_wheel(distribution: str, version: str, trees: Path, out: Path) -> Path:
    """Make a wheel with the published tree and metadata alone."""
    source = fetch(distribution, version, trees)
    info = next(source.glob("*.dist-info"))
    path = out / f"{distribution.replace('-', '_')}-{version}-py3-none-any.whl"
    lines = []
    with zipfile.ZipFile(path, "w") as wheel:
        for file in sorted([*source.glob("triton_kernels/**/*.py"), info / "METADATA"]):
            name, data = str(file.relative_to(source)), file.read_bytes()
            wheel.writestr(name, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            lines.append(f"{name},sha256={digest},{len(data)}")
        wheel.writestr(f"{info.name}/WHEEL", "Wheel-Version: 1.0\nGenerator: fi_compat tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info.name}/RECORD", "\n".join([*lines, f"{info.name}/WHEEL,,", f"{info.name}/RECORD,,"]) + "\n")
    return path


class Environment:
    """A virtual environment with pip, and the doctor's word on it."""

    def __init__(self, folder: Path, repo: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        self.python = folder / "bin" / "python"
        self.repo = repo
        self.pip("install", "packaging", "importlib-metadata")

    def pip(self, *arguments: str) -> None:
        """Run this environment's own pip."""
        subprocess.run([str(self.python), "-m", "pip", "--quiet", *arguments], check=True)

    def doctor(self, *arguments: str, **environment: str) -> tuple[int, dict]:
        """Return the exit status and the JSON report."""
        env = {**os.environ, "PYTHONPATH": str(self.repo), **environment}
        command = [str(self.python), "-m", "fi_compat", "doctor", "--json", *arguments]
        result = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        return result.returncode, json.loads(result.stdout)

    def text(self) -> str:
        """Return the report as text."""
        env = {**os.environ, "PYTHONPATH": str(self.repo)}
        return subprocess.run([str(self.python), "-m", "fi_compat", "doctor"], env=env, capture_output=True, text=True, check=False).stdout


def finding(report: dict, identifier: str) -> dict:
    """Return the finding of that id; its absence is a failure."""
    return next(f for f in report["findings"] if f["id"] == identifier)


def main() -> None:
    folder, trees, repo = (Path(a).resolve() for a in sys.argv[1:4])
    folder.mkdir(parents=True, exist_ok=True)
    sgl = slim_wheel("sgl-kernel", "0.3.21", trees, folder)
    sglang = slim_wheel("sglang-kernel", "0.4.3", trees, folder)

    print("== good: flashinfer-python 0.6.13 and one whole tree")
    env = Environment(folder / "good", repo)
    env.pip("install", "--no-deps", "flashinfer-python==0.6.13", str(sglang), "triton==3.9.0")
    status, report = env.doctor()
    assert status in {0, 1}, report
    assert finding(report, "flashinfer.adapter")["severity"] == "ok"
    assert finding(report, "triton_kernels.adapter")["severity"] == "ok"
    print(env.text())

    print("== mismatched: flashinfer-python 0.6.10 with an older flashinfer-cubin from PyPI (B26)")
    env = Environment(folder / "mismatched", repo)
    env.pip("install", "--no-deps", "flashinfer-python==0.6.10", "flashinfer-cubin==0.6.8.post1")
    status, report = env.doctor()
    assert status == 2, report
    assert finding(report, "flashinfer-cubin.version")["remedy"] == "pip install flashinfer-cubin==0.6.10"
    print(env.text())
    imported = subprocess.run([str(env.python), "-c", "import flashinfer.jit.env"], capture_output=True, text=True, check=False)
    print("   what FlashInfer itself says:", imported.stderr.strip().splitlines()[-1][:160])

    print("== wrong triton_kernels: the unrelated triton-kernels 0.1.0 alone (B68), then beside a real tree")
    env = Environment(folder / "wrong", repo)
    env.pip("install", "--no-deps", "triton-kernels==0.1.0", "flashinfer-python==0.6.13")
    status, report = env.doctor()
    assert status == 2, report
    assert "unrelated project" in finding(report, "triton_kernels.adapter")["message"]
    print(env.text())
    env.pip("install", "--no-deps", str(sglang), "triton==3.9.0")
    status, report = env.doctor()
    assert finding(report, "triton_kernels.adapter")["severity"] == "ok", report
    assert finding(report, "triton_kernels.unrelated")["severity"] == "warning"
    env.pip("uninstall", "-y", "triton-kernels")
    status, report = env.doctor()
    assert finding(report, "triton_kernels.adapter")["severity"] == "ok", "a namespace package that is whole works"

    print("== sgl-kernel 0.3.21, then sglang-kernel 0.4.3 over it, then one uninstalled (B77)")
    env = Environment(folder / "overlay", repo)
    env.pip("install", "--no-deps", str(sgl), "triton==3.9.0")
    status, report = env.doctor()
    assert "3.5.1, from sgl-kernel 0.3.21" in finding(report, "triton_kernels.adapter")["message"]
    env.pip("install", "--no-deps", str(sglang))
    status, report = env.doctor()
    assert status == 2, report
    message = finding(report, "triton_kernels.adapter")["message"]
    assert "mix of two trees" in message
    print("  ", message[:240])
    env.pip("uninstall", "-y", "sgl-kernel")
    status, report = env.doctor()
    message = finding(report, "triton_kernels.adapter")["message"]
    assert "left over" in message, message
    print("  ", message[:240])
    env.pip("install", "--no-deps", "--force-reinstall", str(sglang))
    status, report = env.doctor()
    assert finding(report, "triton_kernels.adapter")["severity"] == "ok", "the remedy mends it"

    print("== the other order: sglang-kernel 0.4.3, then sgl-kernel 0.3.21")
    env = Environment(folder / "reverse", repo)
    env.pip("install", "--no-deps", str(sglang))
    env.pip("install", "--no-deps", str(sgl))
    status, report = env.doctor()
    assert "mix of two trees" in finding(report, "triton_kernels.adapter")["message"]
    print("5 environments, all as expected")


if __name__ == "__main__":
    main()
