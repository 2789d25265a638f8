"""``neuronctl help``: a topic of the documentation, or a command's own help."""

from __future__ import annotations

import os
import re
from typing import Dict, List, Tuple

import click

from neuronctl.cli import COMMANDS
from neuronctl.common.console import print_markdown
from neuronctl.common.errors import UsageError, did_you_mean
from neuronctl.common.paths import data_path


@click.command("help")
@click.argument("words", metavar="[TOPIC [SECTION]|COMMAND]", nargs=-1)
def command(words: Tuple[str, ...]) -> None:
    """Explain a topic, or show the help of a command.

    TOPIC is a page of the documentation; without SECTION, which may be any words of a heading, its
    beginning and its headings are shown. Without a TOPIC, all topics are listed.
    """
    files = topics()
    topic = words[0].lower() if words else ""
    if not topic:
        rows = [f"- {name}: {_parts(file)[0][0]}" for name, file in files.items()]
        print_markdown("\n".join(["# Topics", "", *rows, "", "`neuronctl --help` lists commands."]))
    elif topic in files:
        print_markdown(_shown(topic, _parts(files[topic]), " ".join(words[1:])))
    elif topic in COMMANDS:
        root = click.get_current_context().find_root().command
        with root.make_context("neuronctl", [*words, "--help"]) as context:
            root.invoke(context)
    else:
        hint = did_you_mean(topic, {*files, *COMMANDS})
        raise UsageError(f"there is no topic and no command '{topic}'", hint)


def topics() -> Dict[str, str]:
    """Topic -> its file. A page that is called as a command is ``reference/config``."""
    found = {}
    for folder in ("tutorial", "how-to", "explanation", "reference"):
        directory = data_path(f"docs/{folder}")
        for name in sorted(os.listdir(directory)):
            topic, end = os.path.splitext(name)
            if end == ".md":
                topic = f"{folder}/{topic}" if topic in COMMANDS else topic
                found[topic] = os.path.join(directory, name)
    return found


def _parts(file: str) -> List[Tuple[str, str]]:
    """Return the headings of a page with the text below each, that of the page first."""
    with open(file, encoding="utf-8") as stream:
        text = stream.read()
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)
    title, *sections = re.split(r"(?m)^##? (?=.*\n\n)", text)[1:]
    return [(part.partition("\n")[0], part.partition("\n")[2].strip())
            for part in (title, *sections)]  # fmt: skip


def _shown(topic: str, parts: List[Tuple[str, str]], section: str) -> str:
    first, *others = parts
    names = [name for name, _ in others]
    if not section:
        listed = "\n".join(f"- `neuronctl help {topic} {name}`" for name in names)
        return f"# {first[0]}\n\n{first[1] or others[0][1]}\n\n{listed}"
    for name, text in others:
        if section.lower() in name.lower():
            return f"# {name}\n\n{text}"
    raise UsageError(f"{topic} has no section '{section}'", did_you_mean(section, names))
