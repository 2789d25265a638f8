"""What Tab offers, and what becomes of it in real shells."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import pytest
from fake_slurm import FakeSlurm, queue_row

from neuronctl.cli import COMMANDS, completing
from neuronctl.cli.completion import script
from neuronctl.records.store import RecordDraft, RecordStore

Run = Callable[..., Any]


def offered(*words: str) -> Dict[str, str]:
    """The values for the last of the words behind ``neuronctl``, with their meanings."""
    return {word: meaning for kind, word, meaning in completing.offers([*words])}


def kinds(*words: str) -> List[str]:
    return [kind for kind, _, _ in completing.offers([*words])]


def test_commands_and_options() -> None:
    assert offered("") == COMMANDS
    assert list(offered("re")) == ["report", "resubmit"]
    assert "--gpus-per-node" in offered("submit", "--gpus-p")
    assert "--partition" in offered("submit", "-N", "2", "--part")
    assert "--no-requeue" in offered("generate", "--no-")
    assert list(offered("catalog", "im")) == ["import"]
    assert "--json" in offered("catalog", "diff", "--")
    assert offered("nonsense", "x") == offered("catalog", "nonsense", "") == {}
    assert "--json" in offered("status", "4711", "--")


def test_topics_and_colours() -> None:
    assert list(offered("help", "laun")) == ["launch", "launchers"]
    assert "submit" in offered("help", "sub") and "why" in offered("help", "")
    assert list(offered("--color", "a")) == ["always", "auto"]
    assert list(offered("--color=never", "stat")) == ["status"]


def test_what_follows_a_program_is_its_own() -> None:
    assert kinds("submit", "train.py", "--par") == ["file"]
    assert kinds("submit", "--", "tra") == ["file"]
    assert kinds("submit", "-t", "5", "tra") == ["file"]
    assert kinds("submit", "--preflight", "") == ["value", "file"]
    assert kinds("submit", "--preflight", "train.py", "") == ["file"]
    assert "deep: also" in offered("submit", "--preflight=")["--preflight=deep"]
    assert kinds("submit", "-f", "jo") == kinds("check", "a.sh", "b") == ["file"]
    assert kinds("submit", "--chdir", "/sc") == ["dir"]


def test_values_of_the_catalog(run: Run) -> None:
    assert offered("submit", "-p", "amd_h100_")["amd_h100_2"].startswith("2 x h100, at most ")
    assert "auto" in offered("submit", "--partition", "")
    assert "auto" not in offered("partitions", "--partition", "")
    assert list(offered("submit", "--partition=amd_h100_2,cas_v100nv_")) == [
        "--partition=amd_h100_2,cas_v100nv_8",
        "--partition=amd_h100_2,cas_v100nv_4",
    ]
    assert offered("submit", "--field", "nl") == {"nlp": "natural language processing"}
    assert "pytorch-ddp" in offered("generate", "--appl", "pyt")
    assert list(offered("submit", "--launcher", "deep")) == ["deepspeed"]
    assert offered("explain", "NC601") == {"NC601": "directive that sbatch refuses"}
    assert list(offered("status", "--state", "runn")) == ["running"]


def test_modules_and_conda_environments(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, run: Run
) -> None:
    for file in ("a/gcc/11.5.0", "a/cuda/12.4.lua", "a/.hidden/1", "b/deep/er/1.0"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    monkeypatch.setenv("MODULEPATH", f"{tmp_path}/a:{tmp_path}/b:/nowhere:")
    assert list(offered("submit", "--module", "")) == ["cuda/12.4", "gcc/11.5.0", "deep/er/1.0"]
    monkeypatch.setenv("HOME", str(tmp_path))
    for environment in (".conda/envs/torch", "elsewhere/my-env"):
        (tmp_path / environment / "conda-meta").mkdir(parents=True)
    (tmp_path / ".conda/environments.txt").write_text(f"{tmp_path}/elsewhere/my-env\n/gone\n")
    assert list(offered("submit", "--conda", "")) == ["torch", f"{tmp_path}/elsewhere/my-env"]


def test_jobs_by_name_and_id(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(
        queue_row("41", name="train"),
        queue_row("42", name="train", state="PENDING"),
        queue_row("43_[1-9]", name="sweep", state="PENDING"),
        queue_row("44", name="done", state="COMPLETED"),
    )
    assert offered("why", "") == {
        "train": "2 jobs", "sweep": "43 PENDING", "done": "44 COMPLETED",
        "44": "done COMPLETED", "43": "sweep PENDING", "42": "train PENDING", "41": "train RUNNING",
    }  # fmt: skip
    assert list(offered("wait", "41", "4")) == ["43", "42", "41"]
    assert list(offered("cancel", "d")) == [] and list(offered("top", "4")) == ["41"]
    draft = RecordDraft(
        cwd="/scratch/kim", command_line=(), script="", request={}, nodes=1, job_name="older",
        partition="cpu", output="x.out", gpus_per_node=2, time_limit=600,
    )  # fmt: skip
    store = RecordStore.default()
    store.complete(store.begin(draft), 7)
    assert list(offered("resubmit", "ol")) == ["older"] and offered("cancel", "ol") == {}
    assert len(fake_slurm.calls("squeue")) == 1


def test_jobs_inside_a_dependency(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(
        queue_row("41", name="prep"),
        queue_row("42", name="pretrain", state="PENDING"),
        queue_row("44", name="previous", state="COMPLETED"),
    )
    begun = list(completing.offers(["submit", "-d", "after"]))
    assert ("part", "afterok:", "") in begun and all(kind == "part" for kind, _, _ in begun)
    assert offered("submit", "--dependency", "si") == {"singleton": ""}
    assert list(offered("submit", "-d", "afterok:")) == [
        *("afterok:prep", "afterok:pretrain", "afterok:42", "afterok:41"),
    ]
    assert list(offered("generate", "-d", "afterok:41:4")) == ["afterok:41:42", "afterok:41:41"]
    assert offered("submit", "--dependency=afterok:7,afterany:prep")[
        "--dependency=afterok:7,afterany:prep"
    ]
    assert list(offered("submit", "-d", "afterok:7?aftera")) == ["afterok:7?afterany:"]
    assert offered("submit", "-d", "never:4") == {}
    said = complete(run, "bash", "neuronctl submit -d afterok:pre", "pre").splitlines()
    assert [row.split("\t")[:2] for row in said] == [["value", "prep"], ["value", "pretrain"]]
    said = complete(run, "bash", "neuronctl submit -d afterok:", ":").splitlines()
    assert said[0].split("\t")[1] == "prep"


def completed(line: str) -> List[str]:
    """What a line of the table of keys becomes; at each Tab there has to be one way to go on."""
    typed = ""
    *parts, last = line.rstrip("⏎").split("⇥")
    for part in parts:
        typed += part
        words = typed.split(" ")[1:]
        found = list(completing.offers(words))
        if [kind for kind, _, _ in found] == ["file"]:
            (name,) = (path.name for path in Path().iterdir() if path.name.startswith(words[-1]))
            found = [("value", name, "")]
        (value,) = (word for kind, word, _ in found)
        typed = f"{typed[: len(typed) - len(words[-1])]}{value} "
    return (typed + last).split()


def test_the_daily_lines_take_fewer_keys_than_slurms(
    run: Run, fake_slurm: FakeSlurm, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_slurm.queue(queue_row("4711", name="train"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.sh").touch()
    page = (root / "docs/how-to/common-tasks.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .* \| (`.*⏎`) \| (\d+) \| `(.*⏎)` \| (\d+) \|$", page, re.MULTILINE)
    assert len(rows) == 5
    for slurm, slurms, own, count in rows:
        assert len("".join(re.findall(r"`([^`]*)`", slurm))) == int(slurms), slurm
        assert len(own) == int(count) <= int(slurms), own
    assert [completed(own) for _, _, own, _ in rows] == [
        ["n", "status"],
        ["n", "why", "train"],
        ["n", "cancel", "train"],
        ["n", "logs", "-f", "train"],
        ["n", "submit", "job.sh", "--lr", "0.01"],
    ]
    (again,) = re.findall(r"`(n res⇥.*⏎)`\s+\((\d+) keys\)", page)
    assert completed(again[0]) == ["n", "resubmit", "train", "--", "--lr", "0.01"]
    assert len(again[0]) == int(again[1])


def test_a_silent_slurm_is_not_waited_for(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("squeue", delay=60)
    began = time.monotonic()
    assert offered("cancel", "") == {} and time.monotonic() - began < 30
    fake_slurm.answer("squeue", stderr="slurm_load_jobs error: Unable to contact", code=1)
    assert offered("cancel", "") == {}


def complete(run: Run, shell: str, *words: str) -> str:
    result = run(*words, env={"_NEURONCTL_COMPLETE": shell})
    assert result.stderr == ""
    return str(result.stdout)


def test_bash_gets_what_stands_behind_its_word_breaks(run: Run) -> None:
    def said(line: str, word: str) -> List[str]:
        return [row.split("\t")[1] for row in complete(run, "bash", line, word).splitlines()]

    assert said("neuronctl submit --field=nl", "nl") == ["nlp"]
    assert said("neuronctl submit --field=", "=")[0] == said("neuronctl submit --field=", "")[0]
    assert said("neuronctl submit --field=nl", "--field=nl") == ["--field=nlp"]
    assert said("neuronctl submit --field 'nl", "'nl") == ["nlp"]
    assert said("neuronctl why --js", "--js") == ["--json"]
    assert said("neuronctl  sho", "sho") == ["show"]
    for line in ("", "neuronctl", "neuronctl submit 'a \"b", 'neuronctl submit "a\\'):
        assert complete(run, "bash", line, "") is not None


def test_names_that_steer_a_terminal_are_not_offered(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(queue_row("41", name="a\x1b[31m"), queue_row("42", name="a b$(id)"))
    assert complete(run, "zsh", "cancel", "a") == "value\ta b$(id)\t42 RUNNING\n"


def test_nothing_is_imported_that_takes_long(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(queue_row("41"))
    complete(run, "fish", "submit", "-p", "")  # which fills the cache
    program = (
        "import sys; from neuronctl.cli import completing; "
        "completing.answer('fish', ['why', '']); completing.answer('fish', ['submit', '-p', '']); "
        "print(*(name for name in ('click', 'rich', 'yaml', 'jinja2') if name in sys.modules))"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "train" in told.stdout and told.stdout.splitlines()[-1] == "", told.stderr


def test_installed_once_in_the_shells_own_files(run: Run) -> None:
    home = Path(os.environ["HOME"])
    bashrc = home / "dotfiles"
    bashrc.write_text("alias ll='ls -l'")
    (home / ".bashrc").symlink_to(bashrc)
    for _ in range(2):
        run("completion", "bash", "--install")
        run("completion", "zsh", "--install")
        run("completion", "fish", "--install", "--alias", "nctl")
    lines = (home / ".bashrc").read_text().splitlines()
    assert lines[0] == "alias ll='ls -l'" and len(lines) == 2 and (home / ".bashrc").is_symlink()
    assert (home / ".zshrc").read_text().count("\n") == 1
    assert "alias nctl neuronctl" in (home / ".config/fish/conf.d/neuronctl.fish").read_text()
    assert "is not a valid name" in run("completion", "bash", "--alias", "a;b", code=2).stderr
    (home / ".bashrc").unlink()
    (home / ".bashrc").mkdir()
    assert "add it yourself: [ -r" in run("completion", "bash", "--install", code=2).stderr


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

    def shows(self, pattern: str) -> None:
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
    run("completion", request.param, "--install", "--alias", "nctl")
    (tmp_path / "mine-of-today.yaml").touch()
    monkeypatch.chdir(tmp_path)
    with contextlib.closing(Shell(request.param)) as made:
        made.type("echo rea''dy\r")
        made.shows("ready\r?\n")
        yield made


def test_in_a_real_shell(shell: Shell) -> None:
    shell.type("neuronctl resub\t")
    shell.shows("resubmit ")
    shell.type("\x15nctl submit --field nl\t")
    shell.shows("--field nlp ")
    shell.type("\x15neuronctl submit --field=robot\t")
    shell.shows("=robotics ")
    shell.type("\x15neuronctl submit -d aftern\t")
    shell.shows("afternotok:")
    shell.type("4\x01echo \r")  # no blank has come behind the colon
    shell.shows("submit -d afternotok:4\r")
    shell.type("\x15neuronctl submit -f mine-o\t")
    shell.shows("mine-of-today.yaml")


def test_the_scripts_are_for_their_shells(tmp_path: Path) -> None:
    for shell in ("bash", "zsh", "fish"):
        if shutil.which(shell):
            file = tmp_path / f"completion.{shell}"
            file.write_text(script(shell, "nctl"))
            subprocess.run([shell, "-n", str(file)], check=True)
