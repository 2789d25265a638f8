"""What Tab offers, and what becomes of it in real shells."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import shlex
import shutil
import signal
import struct
import sys
import termios
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator

import click
import pytest
from fake_slurm import FakeSlurm, queue_row
from sweep_folders import make_sweep

from neuronctl.cli import COMMANDS
from neuronctl.cli.root import root

Run = Callable[..., Any]
Offered = Callable[..., Dict[str, str]]

FILES = {"bash": ".bashrc", "zsh": ".zshrc", "fish": ".config/fish/completions/neuronctl.fish"}


@pytest.fixture
def offered(run: Run) -> Offered:
    """The values for the last of the words behind ``neuronctl``, with their meanings."""

    def offer(*words: str) -> Dict[str, str]:
        env = {
            "_NEURONCTL_COMPLETE": "zsh_complete",
            "COMP_WORDS": shlex.join(["neuronctl", *words]),
            "COMP_CWORD": str(len(words)),
        }
        lines = run(env=env, code=None).stdout.split("\n")[:-1]
        rows = zip(lines[::3], lines[1::3], lines[2::3])
        return {word: meaning if kind == "plain" else kind for kind, word, meaning in rows}

    return offer


def test_commands_options_and_files(offered: Offered) -> None:
    assert list(offered("")) == list(COMMANDS)
    assert list(offered("re")) == ["report", "resubmit"]
    assert "--gpus-per-node" in offered("submit", "--gpus-p")
    assert "--partition" in offered("submit", "-N", "2", "--part")
    assert list(offered("catalog", "im")) == ["import"]
    assert list(offered("serve", "-N", "1", "ju")) == ["jupyter"]
    make_sweep("grid", ["x=1..3"], ["a", "{x}"])
    assert list(offered("sweep", "st")) == ["st", "status"]
    assert list(offered("sweep", "status", "gr")) == ["grid"]
    assert offered("sweep", "--job-name", "") == offered("sweep", "-A", "") == {}
    assert list(offered("submit", "--launcher", "torchr")) == ["torchrun", "torchrun_jsc"]
    assert "NC122" in offered("explain", "NC12")
    assert offered("nonsense", "x") == {}
    assert offered("submit", "tra") == offered("submit", "-f", "tra") == {"tra": "file"}


def test_a_command_is_offered_without_its_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(root, "get_command", None)
    items = root.shell_complete(click.Context(root), "resub")
    assert [item.value for item in items] == ["resubmit"]


def test_jobs_of_this_moment(offered: Offered, fake_slurm: FakeSlurm) -> None:
    waiting = queue_row("43", name="next", state="PENDING")
    fake_slurm.queue(queue_row("41", name="train"), queue_row("42", name="a$(id)"), waiting)
    assert offered("top", "") == {"train": "41 RUNNING", "41": "train RUNNING",
                                  "42": "a$(id) RUNNING"}  # fmt: skip
    assert "next" in offered("cancel", "") and "next" in offered("sweep", "--after", "")
    ids = ["afterok\\:41", "afterok\\:42", "afterok\\:43"]
    assert list(offered("submit", "-d", "afterok:4")) == ids
    assert "train" in offered("why", "tr")


def test_a_silent_slurm_is_not_waited_for(offered: Offered, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("squeue", stderr="slurm_load_jobs error: Unable to contact", code=1)
    assert offered("cancel", "") == {}


class Shell:
    """A shell on a terminal, into which somebody types."""

    def __init__(self, name: str) -> None:
        if shutil.which(name, path="/usr/bin:/bin") is None:
            if os.environ.get("NEURONCTL_REQUIRE_SLURM") == "1":
                pytest.fail(f"{name} is not installed")
            pytest.skip(f"{name} is not installed")
        self.said = ""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            # Wide enough for a prompt with a long path: a line that wraps is drawn in parts.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 250, 0, 0))
            path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
            env = {**os.environ, "PATH": path, "TERM": "dumb", "LANG": "C.UTF-8"}
            os.execvpe(name, [name, "-i"], env)

    def type(self, keys: str) -> None:
        os.write(self.terminal, keys.encode())

    def assert_shown(self, pattern: str) -> None:
        """Wait until it is on the screen, from here on."""
        give_up = time.monotonic() + 120
        while not (found := re.search(pattern, self.said)):
            assert time.monotonic() < give_up, f"no {pattern!r} in {self.said!r}"
            if select.select([self.terminal], [], [], 1)[0]:
                self.said += os.read(self.terminal, 65536).decode(errors="replace")
        self.said = self.said[found.end() :]

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)


@pytest.fixture(params=["bash", "zsh", "fish"])
def shell(
    request: pytest.FixtureRequest, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shell]:
    file = Path(os.environ["HOME"], FILES[request.param])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(run("completion", request.param).stdout)
    (tmp_path / "mine-of-today.yaml").touch()
    monkeypatch.chdir(tmp_path)
    with contextlib.closing(Shell(request.param)) as made:
        made.type("echo rea''dy\r")
        made.assert_shown("ready\r?\n")
        yield made


def test_in_a_real_shell(shell: Shell) -> None:
    shell.type("neuronctl resub\t")
    shell.assert_shown("resubmit ")
    shell.type("\x15neuronctl submit --field nl\t")
    shell.assert_shown("--field nlp ")
    shell.type("\x15neuronctl submit -f mine-o\t")
    shell.assert_shown("mine-of-today.yaml")
