"""What the documentation tests need to know of a page: its links and its console blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import List

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)\s]+)\)")
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def pages() -> List[Path]:
    """Every page for readers: the READMEs, the changelog and docs/."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@dataclass(frozen=True)
class Example:
    """One ``$ command`` of a console block and the output printed under it."""

    page: Path
    line: int
    command: str
    """As a shell takes it, continuation lines joined."""
    output: str
    start: int
    """Where the output begins, counted in lines from 0."""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def examples(page: Path) -> List[Example]:
    """The commands of a page's console blocks, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for block in CONSOLE.finditer(text):
        first = text[: block.start(1)].count("\n") + 1
        lines = block.group(1).splitlines()
        at = 0
        while at < len(lines):
            begin = at
            assert lines[at].startswith("$ "), f"{page}:{first + at}: output without a command"
            command = lines[at][2:]
            while command.endswith("\\"):
                at += 1
                command = command[:-1] + " " + lines[at].lstrip("> ")
            at += 1
            start, output = first + at - 1, []
            while at < len(lines) and not lines[at].startswith("$ "):
                output.append(lines[at] + "\n")
                at += 1
            found.append(Example(page, first + begin, command, "".join(output), start))
    return found


def shell_lines(page: Path) -> List[Example]:
    """The lines of a page's shell blocks that begin with neuronctl; ``…`` stands for options."""
    text = page.read_text(encoding="utf-8")
    found = []
    for block in SHELL.finditer(text):
        first = text[: block.start(1)].count("\n") + 1
        for call in re.finditer(r"^ *(neuronctl (?:.*\\\n)*.*)$", block[1], re.MULTILINE):
            line = first + block[1][: call.start()].count("\n")
            command = re.sub(r"\\\n *", "", call[1]).replace(" …", "")
            command = re.split(r" (?:[|<>]|>>|<<|&&|\|\|)(?: |'|$)| #", command)[0]
            found.append(Example(page, line, command.strip(), "", line))
    return found
