"""``neuronctl help``, ``explain``, and ``completion``: the documentation, rules, and Tab."""

from __future__ import annotations

import os
import re
import shlex
import sys
from typing import Dict, List, Mapping, Pattern, Sequence, Tuple, cast

import click

from neuronctl.cli import COMMANDS
from neuronctl.common.console import print_markdown, print_text
from neuronctl.common.errors import UsageError, did_you_mean
from neuronctl.common.paths import data_path

_MOST = 8  # sections that a search shows


@click.command("help")
@click.argument("words", metavar="[TOPIC [SECTION]|COMMAND|WORD ...]", nargs=-1)
def command(words: Tuple[str, ...]) -> None:
    """Explain a topic, show the help of a command, or search for words.

    TOPIC is a page of the documentation, and SECTION part of a heading on it; without SECTION, help
    shows the beginning of the page and its headings. Other WORDs are looked up in the pages and in
    the causes that 'why' knows. Without arguments, help lists all topics.
    """
    pages = topics()
    topic = words[0].lower() if words else ""
    if not topic:
        rows = [
            f"- {name}: {_parts(file)[0][0]}"
            for name, file in pages.items()
            if not name.startswith("ko/")
        ]
        print_markdown("\n".join(["# Topics", "", *rows, "", "`neuronctl --help` lists commands."]))
    elif topic in pages:
        print_markdown(_section(topic, _parts(pages[topic]), " ".join(words[1:])))
    elif topic in COMMANDS and (len(words) == 1 or words[1] in _subcommands(topic)):
        root = click.get_current_context().find_root().command
        with root.make_context("neuronctl", [*words, "--help"]) as context:
            root.invoke(context)
    else:
        print_markdown(_search_results(words, pages))


@click.command("explain")
@click.argument("code", metavar="CODE")
def explain(code: str) -> None:
    """Explain a rule, and say how to fix what it reports."""
    from neuronctl.cli.korean import explained, is_korean
    from neuronctl.judgement.rule_pages import explanation

    text = explanation(code)
    print_text(explained(code.upper(), text) if is_korean(sys.stdout) else text)


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), metavar="bash|zsh|fish")
def completion(shell: str) -> None:
    """Print a shell script that completes commands, options, and values.

    Put the output into ~/.bashrc, ~/.zshrc, or ~/.config/fish/completions/neuronctl.fish. Tab then
    also completes values: current jobs by id and name, partitions, QOS, and comment fields.
    """
    from click.shell_completion import ShellComplete, get_completion_class

    from neuronctl.cli.live_values import VARIABLE
    from neuronctl.cli.root import root
    from neuronctl.cli.say import print_script

    kind = get_completion_class(shell)
    assert kind is not None
    if shell == "zsh":
        print_script("(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }\n")
    # click's own class starts bash to ask for its version.
    print_script(ShellComplete.source(kind(root, {}, "neuronctl", VARIABLE)) + "\n")


def _subcommands(name: str) -> List[str]:
    context = click.get_current_context().find_root()
    root = cast(click.Group, context.command)
    group = root.get_command(context, name)
    return group.list_commands(context) if isinstance(group, click.Group) else []


def topics() -> Dict[str, str]:
    """Return the file of each topic.

    A page with a command's name keeps its folder (``reference/config``), as do Korean pages.
    """
    files = {}
    for folder in ("tutorial", "how-to", "explanation", "reference", "ko"):
        directory = data_path(f"docs/{folder}")
        if not os.path.isdir(directory):
            continue  # --on does not send the Korean pages
        for name in sorted(os.listdir(directory)):
            topic, end = os.path.splitext(name)
            if end == ".md" and topic != "README":
                is_taken = topic in COMMANDS or folder == "ko"
                topic = f"{folder}/{topic}" if is_taken else topic
                files[topic] = os.path.join(directory, name)
    return files


def _parts(file: str) -> List[Tuple[str, str]]:
    """Return the headings of a page with the text below each, starting with the title."""
    with open(file, encoding="utf-8") as stream:
        text = stream.read()
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)
    pairs = [part.partition("\n")[::2] for part in re.split(r"(?m)^##? (?=.*\n\n)", text)[1:]]
    return [(heading, body.strip()) for heading, body in pairs]


def _section(topic: str, parts: List[Tuple[str, str]], section: str) -> str:
    first, *others = parts
    names = [name for name, _ in others]
    if not section:
        listed = "\n".join(f"- `neuronctl help {topic} {shlex.quote(name)}`" for name in names)
        return f"# {first[0]}\n\n{first[1] or others[0][1]}\n\n{listed}"
    for name, text in others:
        if section.lower() in name.lower():
            return f"# {name}\n\n{text}"
    raise UsageError(f"{topic} has no section '{section}'", did_you_mean(section, names))


def _search_results(words: Sequence[str], pages: Mapping[str, str]) -> str:
    """Return the sections where most of the words stand, headings first, and the known causes.

    Raises UsageError if the words stand nowhere.
    """
    patterns = [_word_pattern(word) for word in words if len(word) > 2 or not word.isascii()]
    rows = _sections_with(patterns, pages)
    from neuronctl.diagnosis import knowledge

    causes = []
    for entry in knowledge.entries() if patterns else ():
        is_sentence = entry.means and "{" not in entry.means
        text = "\n".join([entry.means, *entry.matches])
        if is_sentence and _count(patterns, text) == len(patterns):
            causes.append(f"- `{entry.matches[0]}`: {entry.means}")
    if causes:
        rows += ["", "What a log with such a line means:", "", *causes[:3], ""]
    if rows:
        return "\n".join([f"# {' '.join(words)}", "", *rows]).replace("\n\n\n", "\n\n")
    headings = " ".join(heading for file in pages.values() for heading, _ in _parts(file))
    names = {*pages, *COMMANDS, *re.findall(r"\w{4,}", headings.lower())}
    similar = did_you_mean(words[0].lower(), names)
    hint = "'neuronctl help' lists the topics" if similar.startswith("valid") else similar
    raise UsageError(f"there is nothing about '{' '.join(words)}'", hint)


def _sections_with(patterns: Sequence[Pattern[str]], pages: Mapping[str, str]) -> List[str]:
    """Return the commands that show the sections that match the largest number of patterns."""
    sections: Dict[int, List[Tuple[str, str]]] = {}  # by the number of patterns in them
    for topic, file in pages.items():
        for heading, text in _parts(file):
            count = _count(patterns, f"{heading}\n{text}")
            sections.setdefault(count, []).append((topic, heading))
    most = max(sections)
    if most == 0:
        return []
    best = sorted(sections[most], key=lambda section: -_count(patterns, section[1]))
    return [f"- `neuronctl help {topic} {shlex.quote(name)}`" for topic, name in best[:_MOST]]


def _word_pattern(word: str) -> Pattern[str]:
    """Return a pattern of a word or its beginning; Korean words have endings and compounds."""
    boundary = r"\b" if word.isascii() else ""
    return re.compile(boundary + re.escape(word), re.IGNORECASE)


def _count(patterns: Sequence[Pattern[str]], text: str) -> int:
    return sum(1 for pattern in patterns if pattern.search(text))
