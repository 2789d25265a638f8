"""``neuronctl help``, ``explain``, and ``completion``: the documentation, rules, and Tab."""

from __future__ import annotations

import os
import re
import shlex
import sys
from operator import itemgetter
from typing import Dict, List, Mapping, Pattern, Sequence, Tuple, cast

import click

from neuronctl.cli import COMMANDS
from neuronctl.common.console import print_markdown, print_text
from neuronctl.common.errors import UsageError, did_you_mean
from neuronctl.common.paths import data_path

_MOST_SECTIONS, _MOST_CAUSES = 8, 3  # that a search shows


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
        rows = []
        for name, file in pages.items():
            title, _ = _parts(file)[0]
            if not name.startswith("ko/"):
                rows.append(f"- {name}: {title}")
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

    shell_class = get_completion_class(shell)
    assert shell_class is not None
    if shell == "zsh":  # click's script needs compdef, which not every .zshrc has loaded
        print_script("(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }\n")
    # The source() of bash's own class would start bash to ask for its version.
    print_script(ShellComplete.source(shell_class(root, {}, "neuronctl", VARIABLE)) + "\n")


def _subcommands(name: str) -> List[str]:
    context = click.get_current_context().find_root()
    root = cast(click.Group, context.command)
    group = root.get_command(context, name)
    return group.list_commands(context) if isinstance(group, click.Group) else []


def topics() -> Dict[str, str]:
    """Return the file of each topic.

    The topic is the page's name; for one with a command's name, and for a Korean page, it includes
    the folder: ``reference/config``.
    """
    files = {}
    for folder in ("tutorial", "how-to", "explanation", "reference", "ko"):
        directory = data_path(f"docs/{folder}")
        if not os.path.isdir(directory):
            continue  # --on does not send the Korean pages
        for name in sorted(os.listdir(directory)):
            page, extension = os.path.splitext(name)
            if extension == ".md" and page != "README":
                needs_folder = page in COMMANDS or folder == "ko"
                topic = f"{folder}/{page}" if needs_folder else page
                files[topic] = os.path.join(directory, name)
    return files


def _parts(file: str) -> List[Tuple[str, str]]:
    """Return the headings of a page with the text below each, starting with the title."""
    with open(file, encoding="utf-8") as stream:
        text = stream.read()
    without_links = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)
    parts = []
    # In examples, comments begin with # as well, but no empty line follows them.
    for part in re.split(r"(?m)^##? (?=.*\n\n)", without_links)[1:]:
        heading, _, body = part.partition("\n")
        parts.append((heading, body.strip()))
    return parts


def _section(topic: str, parts: List[Tuple[str, str]], section: str) -> str:
    """Return the section whose heading contains ``section``; for "", the page's beginning."""
    (title, introduction), *sections = parts
    if not section:
        listed = "\n".join(_list_item(topic, heading) for heading, _ in sections)
        return f"# {title}\n\n{introduction or sections[0][1]}\n\n{listed}"
    for heading, text in sections:
        if section.lower() in heading.lower():
            return f"# {heading}\n\n{text}"
    hint = did_you_mean(section, [heading for heading, _ in sections])
    raise UsageError(f"{topic} has no section '{section}'", hint)


def _list_item(topic: str, heading: str) -> str:
    return f"- `neuronctl help {topic} {shlex.quote(heading)}`"


def _search_results(words: Sequence[str], pages: Mapping[str, str]) -> str:
    """Return the sections and the known causes that the words fit; raise UsageError for none."""
    # English words of one or two letters are in every section.
    patterns = [_word_pattern(word) for word in words if len(word) > 2 or not word.isascii()]
    rows = _sections_with(patterns, pages)
    causes = _causes_with(patterns) if patterns else []
    if causes:
        rows += [""] if rows else []
        rows += ["What a log with such a line means:", "", *causes[:_MOST_CAUSES], ""]
    if rows:
        return "\n".join([f"# {' '.join(words)}", "", *rows])
    headings = [heading for file in pages.values() for heading, _ in _parts(file)]
    names = {*pages, *COMMANDS, *re.findall(r"\w{4,}", " ".join(headings).lower())}
    similar = did_you_mean(words[0].lower(), names)
    has_similar = not similar.startswith("valid")  # otherwise it lists all names
    hint = similar if has_similar else "'neuronctl help' lists the topics"
    raise UsageError(f"there is nothing about '{' '.join(words)}'", hint)


def _sections_with(patterns: Sequence[Pattern[str]], pages: Mapping[str, str]) -> List[str]:
    """List the sections that match the most patterns; first those whose headings match many."""
    items: Dict[int, List[Tuple[int, str]]] = {}  # by the number of patterns that a section matches
    for topic, file in pages.items():
        for heading, text in _parts(file):
            count = _count(patterns, f"{heading}\n{text}")
            item = (_count(patterns, heading), _list_item(topic, heading))
            items.setdefault(count, []).append(item)
    most = max(items)
    if most == 0:
        return []
    best = sorted(items[most], key=itemgetter(0), reverse=True)
    return [item for _, item in best[:_MOST_SECTIONS]]


def _causes_with(patterns: Sequence[Pattern[str]]) -> List[str]:
    """List the causes known to ``why`` that match all patterns."""
    from neuronctl.diagnosis import knowledge

    items = []
    for entry in knowledge.entries():
        needs_log = "{" in entry.means  # has names that a log's line gives their values
        text = "\n".join([entry.means, *entry.matches])
        if entry.means and not needs_log and _count(patterns, text) == len(patterns):
            items.append(f"- `{entry.matches[0]}`: {entry.means}")
    return items


def _word_pattern(word: str) -> Pattern[str]:
    """Return a pattern for words that begin with this one; if it is Korean, that contain it."""
    boundary = r"\b" if word.isascii() else ""
    return re.compile(boundary + re.escape(word), re.IGNORECASE)


def _count(patterns: Sequence[Pattern[str]], text: str) -> int:
    """Return how many of the patterns match a text."""
    return sum(1 for pattern in patterns if pattern.search(text))
