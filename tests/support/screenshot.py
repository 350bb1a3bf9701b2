"""A picture of ``fi-compat doctor`` as a terminal shows it: ``screenshot.py OUT.png PYTHON...``.

Each PYTHON is that of an environment with rich in it; its output is read from a pseudo-terminal, so colours are the CLI's
own. Needs rich and resvg-py, which no nox session installs.
"""

from __future__ import annotations

import io
import os
import pty
import sys
from pathlib import Path

import resvg_py
from rich.console import Console
from rich.text import Text

WIDTH = 118


def terminal(command: list[str]) -> str:
    """Return what a command prints on a terminal."""
    pid, descriptor = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, {**os.environ, "COLUMNS": str(WIDTH), "TERM": "xterm-256color"})
    chunks = []
    while True:
        try:
            chunk = os.read(descriptor, 65536)
        except OSError:
            break
        if not chunk:
            break
        chunks.append(chunk)
    os.waitpid(pid, 0)
    return b"".join(chunks).decode().replace("\r\n", "\n")


def main() -> None:
    out, *pythons = sys.argv[1:]
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for python in pythons:
        console.print(Text.from_ansi("$ fi-compat doctor\n" + terminal([python, "-m", "fi_compat", "doctor"])))
    picture = console.export_svg(title="fi-compat doctor").replace("Fira Code", "DejaVu Sans Mono")
    Path(out).write_bytes(bytes(resvg_py.svg_to_bytes(svg_string=picture)))


if __name__ == "__main__":
    main()
