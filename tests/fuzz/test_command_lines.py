"""Whole command lines in this process: words that are wrong, and answers of Slurm that are."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional

import pytest
from bounds import assert_bounded, inputs
from broken import content, texts, words
from fake_slurm import accounting_row, queue_row
from hypothesis import assume, given
from hypothesis import strategies as st
from test_files import JOBS, KEY, ODD, RECORD_TEXTS
from test_slurm_answers import DATABASE, LOOK, SHOWN, SITE

from neuronctl import cli
from neuronctl.slurm import process

LINES = tuple(
    tuple(line.split())
    for line in (
        "generate --cluster neuron-2022 -p amd_a100nv_8 -N 2 --gpus-per-node 4 --comment x t.py",
        "generate -f job.yaml",
        "submit --cluster neuron-2022 -p amd_a100nv_8 --gpus-per-node 1 --comment pytorch t.py 1",
        "submit -f job.yaml --dry-run --json",
        "submit --cluster neuron-2022 -p auto --gpus-per-node 1 --comment pytorch t.py",
        "status",
        "status 4711 4712 --json",
        "status --since 7d",
        "why 4711",
        "logs 4711",
        "top 4711",
        "cancel 4711 --yes",
        "cancel --state running 4711_3",
        "history --json",
        "show 4711",
        "show 4711 --script",
        "resubmit 4711 --dry-run",
        "partitions",
        "partitions --live --json",
        "catalog check catalog.yaml",
        "run -N 1 t.py",
    )
)

SLURM: Dict[str, str] = {
    "squeue": queue_row("4711") + "@END@\n" + queue_row("4712_[1-5]", state="PENDING") + "@END@\n",
    "sacct": accounting_row("4711") + "\n" + accounting_row("4712_3", own="4714") + "\n",
    "scontrol": SITE[0] + SHOWN[0],
    "sacctmgr": DATABASE[0],
    "sbatch": "4711;neuron\n",
    "srun": LOOK[0],
    "scancel": "",
    "sinfo": "",
}
LOG = (
    "epoch 1\n[rank1]: Traceback (most recent call last):\n[rank1]:   File \"t.py\", line 1\n"
    "[rank1]: RuntimeError: CUDA out of memory. HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345\n"
    "slurmstepd: error: *** JOB 4711 CANCELLED AT 2026-11-21T00:00:00 DUE TO TIME LIMIT ***\n",
)  # fmt: skip


class Answered:
    """In place of a process: what the fuzzer makes of Slurm's answer."""

    def __init__(self, stdout: str, returncode: int) -> None:
        self.answer, self.returncode = stdout, returncode

    stdout = stderr = None

    def outputs(self) -> list[bytes]:
        wrong = b"sbatch: error: Invalid job id specified\n" if self.returncode else b""
        return [content(self.answer), wrong]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a program, a job file, a catalog and a log, in which commands run."""
    place = tmp_path_factory.mktemp("place")
    (place / "t.py").write_text("print('training')\n")
    (place / "job.yaml").write_text(JOBS[0].replace("train.py", "t.py"))
    (place / "train-4711.out").write_text(LOG[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("SLURM_CONF", os.devnull)
        patch.setattr(cli, "_unexpected", _raised)
        yield place


def _raised(error: Exception) -> int:
    raise error


def assert_command(
    line: List[str], place: Path, record: str, answers: Mapping[str, str], code: int
) -> None:
    """Run a command line, with one record in the store and Slurm's ``answers``."""

    def start(argv: Any, input: Optional[str], cwd: Optional[str], env: Any) -> Answered:
        for word in argv:
            assert "\0" not in word
        end = next((w.rpartition("Name:")[2] for w in argv if w.startswith("--Format=")), "")
        return Answered(answers.get(argv[0], "").replace("@END@", end), code)

    jobs = Path(os.environ["XDG_STATE_HOME"], "neuronctl", "jobs")
    shutil.rmtree(jobs.parent, ignore_errors=True)
    jobs.mkdir(parents=True, mode=0o700)
    (jobs / f"{KEY}.neuron.4711.json").write_bytes(content(record))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "_start", start)
        patch.setattr(process, "_read_outputs", lambda made, name, timeout: made.outputs())
        with assert_bounded(), pytest.raises(SystemExit):
            cli.main(line)


def test_the_command_lines_are_valid(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    record = RECORD_TEXTS[0].replace("/scratch/kim", str(place))
    (place / "catalog.yaml").write_text("default_cluster: neuron\n")
    for line in LINES:
        assert_command(list(line), place, record, SLURM, 0)
        assert "no such option" not in capfd.readouterr().err, line


@inputs(0.1)
@given(
    st.sampled_from(LINES), st.lists(st.tuples(st.integers(0, 9), words), min_size=1, max_size=3)
)
def test_words(place: Path, line: tuple[str, ...], changes: List[tuple[int, str]]) -> None:
    changed = list(line)
    for spot, word in changes:
        changed[1 + spot % len(changed) : 2 + spot % len(changed)] = [word]
    if "-f" not in changed and "--follow" not in changed:
        assert_command(changed, place, RECORD_TEXTS[0], SLURM, 0)


@inputs(0.1)
@given(st.sampled_from(LINES), st.sampled_from(sorted(SLURM)), st.data(), st.booleans())
def test_slurm(place: Path, line: tuple[str, ...], name: str, drawn: Any, fails: bool) -> None:
    answers = {**SLURM, name: drawn.draw(texts((SLURM[name] or "x\n",)))}
    assert_command(list(line), place, RECORD_TEXTS[0], answers, int(fails))


@inputs(0.1)
@given(
    st.sampled_from((*LINES, ("check", "t.py"), ("check", "."), ("import", "t.py"))),
    st.sampled_from(("t.py", "job.yaml", "catalog.yaml", "train-4711.out")),
    st.sampled_from(sorted(ODD)),
)
def test_what_is_no_file(place: Path, line: tuple[str, ...], name: str, odd: str) -> None:
    """A pipe that nobody writes to, a device, or a folder in place of a file that is named."""
    # Some files of /proc have no end, and logs passes a log on from its beginning to its end.
    assume(not (line[0] == "logs" and odd.startswith("/proc/self/")))
    file, kept = place / name, place / "kept"
    if file.exists():
        file.rename(kept)
    ODD[odd](str(file))
    record = RECORD_TEXTS[0].replace("/scratch/kim", str(place))
    try:
        assert_command(list(line), place, record, {**SLURM, "squeue": ""}, 0)
    finally:
        (os.rmdir if odd == "folder" else os.unlink)(file)
        if kept.exists():
            kept.rename(file)
