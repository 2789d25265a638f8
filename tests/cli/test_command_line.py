"""The command tree: help, wrong words, completion in three shells, and errors nobody expects."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Callable, List

import pytest

from neuronctl.cli.help import topics

Run = Callable[..., "subprocess.CompletedProcess[str]"]

DAMAGED = """
import sys
from neuronctl import cli
def broken(words):
    raise KeyError("HF_TOKEN=hf_0123456789abcdefghijklmn")
cli._run = broken
sys.argv = ["neuronctl", "submit", "--env", "WANDB_API_KEY=0123456789abcdef", "train.py"]
cli.program()
"""


def test_help_is_in_groups(run: Run) -> None:
    out = run("--help").stdout
    assert out == run("-h").stdout
    titles = [line for line in out.splitlines() if line.endswith(":") and not line.startswith(" ")]
    groups = ["Run a job:", "Watch it:", "Look back:", "Read scripts:", "Look around:"]
    groups += ["From your laptop:", "Set up:"]
    assert titles == ["Options:", *groups]
    assert run(code=2).stderr == out


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        (["--verson"], "no such option --verson", "did you mean --version?"),
        (["status", "--wach"], "no such option --wach", "did you mean --watch?"),
        (["status", "--xyz"], "no such option --xyz", "see 'neuronctl status --help'"),
        (["submit", "--nodse", "2"], "no such option --nodse", "did you mean --nodes or --nodeli"),
        (["catalog", "chek"], "no such command 'catalog chek'", "did you mean check?"),
        (["show"], "JOB is missing", "usage: neuronctl show [OPTIONS] JOB [JOB]"),
        (["logs", "a", "b"], "too many arguments: b", "usage: neuronctl logs [OPTIONS] [JOB]"),
        (["logs", "--tail"], "--tail needs a value", "--tail N: Show the last N lines."),
        (["status", "--json=x"], "--json takes no value", "--json: Print JSON"),
        (["logs", "--tail=x"], "--tail: 'x' is not a whole number of at least 1", "--tail N: Sho"),
        (["history", "-n0"], "--limit: '0' is not a whole number of at least 1 and", "-n, --lim"),
        (["completion", "tcsh"], "'tcsh' is not one of 'bash', 'zsh', 'fish'", "see 'neuronctl c"),
        (["serve", "jupiter"], "no recipe 'jupiter'", "did you mean jupyter?"),
        (["help", "pendign"], "there is nothing about 'pendign'", "did you mean pending"),
    ],
)
def test_a_mistake_says_what_to_type(run: Run, words: List[str], said: str, hint: str) -> None:
    """In one style, whether click or we found it."""
    result = run(*words, code=2)
    assert result.stderr.startswith(f"neuronctl: {said}") and result.stdout == ""
    assert f"\n  hint: {hint}" in result.stderr


@pytest.mark.parametrize("command", ["status", "submit"])
def test_on_comes_before_the_command(run: Run, command: str) -> None:
    said = run(command, "--on", "there", code=2).stderr
    assert f"--on comes before the command: neuronctl --on NAME {command}" in said


def test_a_command_that_there_is_not(run: Run) -> None:
    said = run("stats", code=2).stderr
    hint = "did you mean status?"
    assert said == f"neuronctl: no such command 'stats'\n  hint: {hint}\n", "no list"
    assert "valid: attach, brief, " in run("xyzzy", code=2).stderr


@pytest.mark.parametrize("writable", [True, False])
def test_an_internal_error_is_kept_in_a_file(tmp_path: Path, writable: bool) -> None:
    state = tmp_path / "state"
    if not writable:
        state.write_text("")
    done = subprocess.run(
        [sys.executable, "-c", DAMAGED],
        capture_output=True,
        text=True,
        env={**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(state)},
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("neuronctl: internal error: KeyError: ")
    if not writable:
        assert done.stderr.splitlines()[1].startswith("  details: cannot be written: ")
        assert len(done.stderr.splitlines()) == 2
        return
    (file,) = (state / "neuronctl" / "errors").iterdir()
    assert f"  details: ~/state/neuronctl/errors/{file.name}\n" in done.stderr
    assert file.stat().st_mode & 0o777 == 0o600
    text = file.read_text()
    assert "in broken\n" in text and "command: 'neuronctl' 'submit' '--env'" in text
    for secret in ("hf_0123456789abcdefghijklmn", "0123456789abcdef"):
        assert secret not in text + done.stderr


def test_colours_as_asked_for(run: Run) -> None:
    """NO_COLOR counts before FORCE_COLOR; else a terminal decides."""
    bold = "\x1b[1m"
    forced = {"TERM": "xterm", "NO_COLOR": "", "FORCE_COLOR": "1"}
    for env, coloured in (
        ({**forced, "FORCE_COLOR": ""}, False),
        (forced, True),
        ({**forced, "NO_COLOR": "1"}, False),
    ):
        out = run("partitions", env=env).stdout
        assert (bold in out) == coloured, env
        plain = re.sub(r"\x1b\[[0-9;]*m", "", out)
        assert plain == run("partitions").stdout
    job = ["-p", "amd_a100nv_8", "--gpus-per-node", "1", "--field", "nlp", "--appl", "misc"]
    script = ["generate", *job, "--body", "/dev/null"]
    # A script is for sbatch.
    assert "\x1b" not in run(*script, code=None, env=forced).stdout
    assert "\x1b" not in run("partitions", "--json", env=forced).stdout


def test_topics_are_pages_of_the_documentation(run: Run, root: Path) -> None:
    listed = run("help").stdout
    pages = [page for page in (root / "docs").glob("*/*.md") if page.stem != "README"]
    assert len(topics()) == len(pages) > 20
    for topic, file in topics().items():
        page = Path(file)
        assert (f"- {topic}: " in listed) != topic.startswith("ko/")
        shown = run("help", topic).stdout
        title = page.read_text("utf-8").partition("# ")[2].partition("\n")[0]
        assert shown.startswith(f"# {title}") and "](" not in shown
    section = run("help", "launchers", "exit", "codes").stdout
    assert section.startswith("# Exit codes\n") and "ChildFailedError" in section
    assert run("help", "submit").stdout == run("submit", "--help").stdout
    assert run("help", "config", "edit").stdout == run("config", "edit", "--help").stdout
    assert "valid: Arguments" in run("help", "launchers", "nothing", code=2).stderr
    assert "did you mean launchers" in run("help", "lanchers", code=2).stderr


@pytest.mark.parametrize(
    "question, section",
    [
        ("why is my job pending", "questions 'Why is my job pending"),
        ("OOM", "questions 'My job was killed: out of memory (OOM)"),
        ("add my cluster", "describe-your-cluster 'Add a cluster"),
        ("주피터", "ko/questions 'GPU 노드에서 주피터"),
    ],
)
def test_help_searches_the_pages_for_words(run: Run, question: str, section: str) -> None:
    first = run("help", *question.split()).stdout.splitlines()[2]
    assert first.startswith(f"- `neuronctl help {section}")


def test_help_searches_the_causes_that_why_knows(run: Run) -> None:
    shown = run("help", "oom_kill").stdout
    assert "oom_kill event" in shown and "the job used up its memory on the node" in shown


def test_help_without_a_result_does_not_list_everything(run: Run) -> None:
    message = run("help", "zzzz", code=2).stderr
    assert "there is nothing about 'zzzz'" in message and "launchers" not in message
