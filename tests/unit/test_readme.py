"""The README's table and commands are current, and the command line answers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fi_compat import _table, cli

ROOT = Path(__file__).parents[2]
#: The wheel test runs this suite from a folder that has no README beside it.
README = ROOT / "README.md"


def test_the_readmes_matrix_is_what_the_command_prints(capsys) -> None:
    """`fi-compat matrix --markdown` between the two marks."""
    assert cli.main(["matrix", "--markdown"]) == 0
    printed = capsys.readouterr().out.strip()
    assert printed.count("\n") == len(_table.FLASHINFER_RELEASES) + len(_table.TREES) + 1
    if README.exists():
        text = README.read_text(encoding="utf-8")
        assert printed in text.partition("<!-- matrix:")[2].partition("<!-- end of matrix -->")[0]


def test_the_readme_shows_exactly_two_command_lines() -> None:
    """The two commands, each in a block of its own."""
    if README.exists():
        commands = re.findall(r"(?m)^python3 -m pip install nox.*$", README.read_text(encoding="utf-8"))
        assert commands == [
            "python3 -m pip install nox && python3 -m nox -s demo",
            "python3 -m pip install nox && python3 -m nox -s tests",
        ]


def test_the_table_lists_28_releases_and_six_trees() -> None:
    """A matrix that tests nothing passes; the numbers are asserted."""
    assert len(set(_table.FLASHINFER_RELEASES)) == 28
    assert [t.name for t in _table.TREES] == ["R0", "R1", "R2", "R3", "R4", "FORK"]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [([], 0), (["matrix"], 0), (["explain", "flashinfer"], 0), (["explain", "nope"], 64), (["nope"], 64), (["--version"], 0)],
)
def test_exit_statuses(arguments, status, tmp_path) -> None:
    """0 fine, 64 wrong usage; never a traceback."""
    command = [sys.executable, "-m", "fi_compat", *arguments]
    env = {"PYTHONPATH": str(Path(cli.__file__).parents[1]), "PATH": ""}
    result = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert result.returncode == status, result.stderr
    assert "Traceback" not in result.stderr
