"""``neuronctl brief``: one page about the cluster, and the guide for coding agents."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Callable, Iterator

import click
import pytest

from neuronctl.cli.root import root as commands

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def defaults(home: Path, text: str) -> None:
    file = home / ".config" / "neuronctl" / "config.yaml"
    file.parent.mkdir(parents=True, mode=0o700)
    file.write_text(text)


def test_the_page_has_rules_limits_and_defaults(run: Run, clean_home: Path) -> None:
    defaults(clean_home, "field: nlp\n")
    page = run("brief").stdout
    assert page.startswith("# Jobs on KISTI Neuron\n")
    for words in (
        "KISTI Neuron user guide",
        "All limits are from the catalog, because",
        "- `--comment`: mandatory, field=FIELD;appl=APPL\n",
        "nlp (natural language processing)",
        "- local disk: /etmp on each node of amd_a100nv_8\n",
        "| partition | nodes | GPUs per node |",
        "| `amd_a100nv_8` | 9 | 8 a100 | 64 | 2-00:00:00 | 88 | ? |",
        "`field: nlp` (",
        "### Common mistakes",
    ):
        assert words in page
    assert "{user}" not in page and len(page.splitlines()) < 100
    other = run("brief", "--cluster", "jureca").stdout
    assert other.startswith("# Jobs on ") and "- `--account`: mandatory" in other


def test_a_secret_among_the_defaults_is_masked(run: Run, clean_home: Path) -> None:
    defaults(clean_home, "env: {HF_TOKEN: hf_0123456789abcdefghijABCDEFGHIJ}\n")
    assert "hf_0123" not in run("brief").stdout


def test_agents_and_skill_are_the_same_guide(run: Run) -> None:
    block, skill = run("brief", "--agents").stdout, run("brief", "--skill").stdout
    assert block.startswith("<!-- neuronctl: begin -->\n## Run a job with neuronctl\n")
    assert block.endswith("<!-- neuronctl: end -->\n")
    head = re.match(r"---\nname: [a-z-]+\ndescription: .+\n(?:  .+\n)*---\n\n", skill)
    assert head and skill[head.end() :] in block
    assert "cannot be combined" in run("brief", "--agents", "--skill", code=2).stderr


def test_every_command_of_the_guide_is_understood(root: Path) -> None:
    text = (root / "templates/agents.md").read_text(encoding="utf-8")
    lines = re.findall(r"`(neuronctl [^`]+)`", text)
    assert len(lines) > 6
    context = commands.make_context("neuronctl", ["brief"])
    for line in lines:
        name, *words = shlex.split(line.replace("--on neuron ", ""))[1:]
        command = commands.get_command(context, name)
        assert command is not None, line
        try:
            command.make_context(name, words, parent=context)
        except click.UsageError as error:  # of what it does with a file that is not here
            pytest.fail(f"{line}: {error}")
    options = set(re.findall(r"`(--[a-z-]+)", text))
    known = {name for command in ("submit", "brief") for name in option_names(command)}
    assert options - known == {"--on"}, "it belongs to no command"


def option_names(name: str) -> Iterator[str]:
    command = commands.get_command(click.Context(commands), name)
    assert command is not None
    for parameter in command.params:
        yield from parameter.opts
    yield "--help"
