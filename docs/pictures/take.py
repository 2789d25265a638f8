"""Take a picture of commands as they look in a terminal of 80 columns, with rich's SVG export.

    python docs/pictures/take.py why.svg 'neuronctl why 12' 'neuronctl why 13'

The commands run on a terminal of their own, where this is called: in the sandbox, say. The picture
needs no font from elsewhere.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from pathlib import Path
from typing import List

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

COLUMNS = 80


def on_terminal(command: str) -> str:
    """What a command prints on a terminal."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS))
        os.execvp("sh", ["sh", "-c", command])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    said = b""
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:
            break
        if not data:
            break
        said += data
    os.waitpid(child, 0)
    return said.decode("utf-8", "replace").replace("\r\n", "\n")


def take(path: Path, commands: List[str]) -> None:
    """Run the commands one after the other and draw them into one picture."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True)
        for command in commands:
            console.print(Text(f"$ {command}", "bold green"))
            console.print(Text.from_ansi(on_terminal(command)))
        form = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
        svg = console.export_svg(title=path.stem, code_format=form, unique_id=path.stem)
    path.write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    take(Path(sys.argv[1]), sys.argv[2:])
