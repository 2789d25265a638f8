"""``--until-done``: a job that goes on in another run, until its program ends with 0."""

from __future__ import annotations

import contextlib
import json
import random
import re
import time
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Mapping, Tuple

import pytest
from harness import COMMENT, Sandbox, at_once, sandbox_up, wait_until
from test_faults import Broken

PROGRAM = """\
import os, signal, sys, time

rank, saved = os.environ.get("RANK", "0"), []
signal.signal(signal.SIGTERM, lambda number, frame: saved.append(number))
run = 1
while os.path.exists("ready-%d-%s" % (run, rank)):
    run += 1
how, last = sys.argv[1], sys.argv[2]
open("ran", "a").write("%d %s %s\\n" % (run, rank, " ".join(sys.argv[3:])))
open("ready-%d-%s" % (run, rank), "w").close()
if how != "waits" or run == int(last):
    sys.exit(0 if how == "waits" else int(how))
while not saved:
    time.sleep(0.05)
time.sleep(0.2)
sys.exit(1)
"""
LINES = "set -euo pipefail\npython3 goes.py waits 3 | cat\n"
STEPS = "steps:\n- run: 'true'\n- {script: goes.py, args: [waits, 3]}\n"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "train_ddp.py"

ENDS = {
    "saved": r"run \d+ (?:saved|did not \w+|ended after the request to save) \(exit code \d+\)",
    "finished": r"done in \d+ runs",
    "failed": r"the program failed with exit code \d+: no other run follows",
    "last": r"that was the last of \d+ runs",
}


class Going:
    """A job that goes on, and what it leaves in its directory, which has the job's name."""

    def __init__(
        self,
        sandbox: Sandbox,
        *words: str,
        body: str = "",
        more: Mapping[str, str] = {},
        name: str = "goes",
    ) -> None:
        self.sandbox, self.name = sandbox, name
        sandbox.exec(["sh", "-c", f"rm -rf {name}; git init -q {name}"])
        files = {"goes.py": PROGRAM, "lines.sh": LINES, "steps.yaml": STEPS, **more}
        if body:
            files, words = {**files, "body.sh": body}, (*words, "--body", "body.sh")
        for file, text in files.items():
            sandbox.write(f"{name}/{file}", text)
        options = ["-p", "amd_a100nv_8", "-t", "10", "--field", "misc", "--appl", "pytorch"]
        options += ["--until-done", "--no-preflight", "--json", "-J", name]
        made = self.exec("neuronctl", "submit", *options, *words)
        self.id = str(json.loads(made)["job_id"])

    def exec(self, *words: str, check: bool = True) -> str:
        inside = ["sh", "-c", 'cd "$0" && "$@"', self.name, *words]
        return self.sandbox.exec(inside, check=check).stdout

    def lines(self, name: str) -> List[str]:
        return self.exec("cat", name, check=False).splitlines()

    @property
    def log(self) -> str:
        return self.exec("cat", f"{self.name}_{self.id}.out", check=False)

    def causes(self) -> List[str]:
        """How the runs ended, as the log tells it."""
        found = re.finditer("|".join(f"(?P<{one}>{text})" for one, text in ENDS.items()), self.log)
        return [match.lastgroup or "" for match in found]

    @property
    def job(self) -> str:
        """The id of the run that has begun last: its own, in a chain."""
        return [self.id, *re.findall(r", as job (\d+)\n", self.log)][-1]

    def state(self) -> str:
        return self.exec("squeue", "-h", "-t", "all", "-j", self.job, "-o", "%T").strip()

    def ready(self, run: int, count: int = 1) -> None:
        """Wait until a run waits for its signal."""
        find = ("find", ".", "-name", f"ready-{run}-*")
        self.wait_until(lambda: len(self.exec(*find).split()) == count)

    def soon_over(self) -> None:
        """Tell the batch shell what slurmctld tells it before the end of a run."""
        self.exec("scancel", "--batch", "--signal=USR2", self.job)

    def wait_until(self, check: Callable[[], bool]) -> None:
        """As the function of this name; what Slurm and the job say where it never comes true."""
        try:
            wait_until(check)
        except TimeoutError as error:
            show = f"squeue; scontrol show job; ps -ef --forest; cat {self.name}_{self.id}.*"
            raise AssertionError(self.exec("sh", "-c", show, check=False)) from error

    def begun(self, run: int) -> None:
        """Wait for the beginning of a run."""
        self.wait_until(lambda: f"run {run} of at most " in self.log)

    def ended(self) -> str:
        """The state in which it ends."""
        going = ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING")
        self.wait_until(lambda: self.state() not in going)
        return self.state()

    def queue(self) -> str:
        return self.exec("squeue", "-h", "-n", self.name)

    def none_left(self) -> None:
        """Nothing of it is in the queue, and nothing will begin."""
        self.wait_until(lambda: self.queue() == "")


CONFIGURED = (
    "AuthInfo=cred_expire=5\\n"
    "PreemptType=preempt/partition_prio\\nPreemptMode=REQUEUE\\n"
    "PartitionName=urgent Nodes=gpu[01-02],gpu[35-36] PriorityTier=5\\n"
)
"""A requeue takes seconds; jobs of one partition preempt those of the others."""


@contextlib.contextmanager
def quick_requeues(name: str, *options: str) -> Iterator[Sandbox]:
    """A sandbox in which a requeued job begins after some seconds, and not after two minutes."""
    with sandbox_up(name, *options) as made:
        made.root("sh", "-c", f"printf '{CONFIGURED}' >> /etc/slurm/slurm.conf")
        broken = Broken(made)
        with broken.without("slurmctld"):
            pass
        wait_until(lambda: made.root("scontrol", "ping", check=False).returncode == 0)
        made.root("scontrol", "update", "partition=cas_v100nv_8", "preemptmode=cancel")
        yield made


@pytest.fixture(scope="module")
def going(slurm_there: None) -> Iterator[Sandbox]:
    """A sandbox of that kind, without PyTorch."""
    with quick_requeues("going") as made:
        yield made


@pytest.fixture(autouse=True)
def nothing_left(going: Sandbox) -> Iterator[None]:
    yield
    going.cancel_all()
    for node in ("gpu35", "gpu36"):
        going.root("scontrol", "update", f"nodename={node}", "state=resume", check=False)


FORMS: Dict[str, List[str]] = {
    "python": ["--gpus-per-node=1", "--resume-with", "--resume 'the latest'", "goes.py waits 3"],
    "chain": ["--gpus-per-node=1", "--no-requeue", "--resume-with=-r", "goes.py waits 3"],
    "srun": ["--gpus-per-node=2", "-N2", "--launcher=srun", "--resume-with=-r", "goes.py waits 3"],
    "body": ["--gpus-per-node=1", "--body", "lines.sh"],
    "steps": ["--gpus-per-node=1", "-f", "steps.yaml"],
}


def test_goes_on_until_the_program_ends_with_0(going: Sandbox) -> None:
    """In every form, side by side."""

    def check(form: str) -> None:
        *options, last = FORMS[form]
        words = last.split() if "goes.py" in last else [last]
        job = Going(going, *options, *words, name=form)
        count = 4 if form == "srun" else 1
        for run in (1, 2):
            job.ready(run, count)
            job.soon_over()
            job.begun(run + 1)
        assert job.ended() == "COMPLETED", form
        job.none_left()
        assert job.causes() == ["saved", "saved", "finished"], form
        more = {"python": "--resume the latest", "srun": "-r", "chain": "-r"}.get(form, "")
        wanted = [
            f"{run} {rank} {more if run > 1 else ''}" for run in (1, 2, 3) for rank in range(count)
        ]
        assert sorted(job.lines("ran")) == wanted, form
        assert "run 3 of at most 10" in job.exec("neuronctl", "status", job.id), form

    at_once(check, FORMS)


BOTH = {"requeued": [], "chained": ["--no-requeue"]}


def test_another_run_after_a_node_died(going: Sandbox) -> None:
    def begin(name: str) -> Going:
        options = ["--gpus-per-node=1", "--nodelist=gpu36", *BOTH[name]]
        job = Going(going, *options, "goes.py", "waits", "2", name=name)
        job.ready(1)
        return job

    jobs = at_once(begin, BOTH)
    going.root("scontrol", "update", "nodename=gpu36", "state=down", "reason=test")
    going.root("scontrol", "update", "nodename=gpu36", "state=resume", check=False)
    for job in jobs:
        job.begun(2)
        assert job.ended() == "COMPLETED"
        assert job.causes() == ["finished"]


def test_another_run_after_a_preemption(going: Sandbox) -> None:
    """Requeued by the one partition; a chain is cancelled by the other."""
    nodes = {"amd_a100nv_8": "gpu[35-36]", "cas_v100nv_8": "gpu[01-02]"}

    def check(pair: Tuple[str, str]) -> None:
        name, partition = pair
        options = ["-p", partition, "--gpus-per-node=1", *BOTH[name]]
        job = Going(going, *options, "goes.py", "waits", "2", name=name)
        job.ready(1)
        urgent = ["-p", "urgent", "-N2", "--exclusive", "-t", "5", COMMENT, "-o/dev/null"]
        job.exec("sbatch", *urgent, f"-w{nodes[partition]}", "--wrap", "sleep 1")
        job.begun(2)
        assert job.ended() == "COMPLETED"
        assert job.causes()[-1] == "finished"

    at_once(check, zip(BOTH, nodes))


def test_a_chain_survives_its_batch_shell(going: Sandbox) -> None:
    job = Going(going, "--gpus-per-node=1", "--no-requeue", "goes.py", "waits", "2")
    job.ready(1)
    going.root("pkill", "-KILL", "-f", f"job0*{job.job}/slurm_script")
    job.begun(2)
    assert job.ended() == "COMPLETED"
    assert job.causes() == ["finished"]


def test_an_array_requeues_its_own_task_only(going: Sandbox) -> None:
    """Also that whose job id is the array's."""
    going.write("task.sh", 'touch "$SLURM_ARRAY_TASK_ID-$NEURONCTL_RUN"\nexit 75\n')
    job = Going(going, "--gpus-per-node=1", "-a", "1-2", "--max-runs=2", "--body", "../task.sh")
    job.none_left()
    assert job.exec("sh", "-c", "ls -d [12]-*").split() == ["1-1", "1-2", "2-1", "2-2"]


def test_nothing_begins_after_cancel(going: Sandbox) -> None:
    """Wherever it is: the first before it starts, the others while they run, save, or wait."""

    def check(seed: int) -> Tuple[Going, List[str]]:
        chain = ["--no-requeue"] if seed > 2 else []
        name = f"cancelled-{seed}"
        job = Going(going, "--gpus-per-node=1", *chain, "goes.py", "waits", "99", name=name)
        if seed:
            job.ready(1)
            job.soon_over()
        wait = str(round(random.Random(seed).uniform(0, 2.5), 2))
        job.exec("sh", "-c", f"sleep {wait}; neuronctl cancel {job.id}")
        job.none_left()
        return job, job.lines("ran")

    ends = at_once(check, range(5))
    time.sleep(12)  # a requeue takes less here
    for job, begun in ends:
        assert job.queue() == ""
        assert job.lines("ran") == begun


@pytest.mark.parametrize("chain", [False, True])
def test_scancel_of_a_run_ends_it(chain: bool, going: Sandbox) -> None:
    """A program that the batch shell started gets TERM; the next job of a chain ends at once."""
    job = Going(going, "--gpus-per-node=1", *["--no-requeue"] * chain, "goes.py", "waits", "9")
    job.ready(1)
    job.exec("scancel", job.id)
    job.none_left()
    assert len(job.lines("ran")) == 1
    assert job.causes() == []


SNAPSHOT = """\
echo "$(cat said) $PWD" >>"$NEURONCTL_SUBMIT_DIR/ran"
[ "$NEURONCTL_RUN" = 2 ] || { echo "$SLURM_JOB_ID" >>checkpoint; sleep 1; }
until [ -e "$NEURONCTL_SUBMIT_DIR/go-$NEURONCTL_RUN" ]; do sleep 0.2; done
cat checkpoint
[ "$NEURONCTL_RUN" = 2 ] || exit 75
"""


def test_a_snapshot_is_what_was_submitted(going: Sandbox) -> None:
    """Whatever is edited between two runs, and whatever another job with it writes."""
    options = ["--gpus-per-node=1", "--snapshot", "--no-requeue"]
    job = Going(going, *options, body=SNAPSHOT, more={"said": "one"})
    other = json.loads(job.exec("neuronctl", "resubmit", job.id, "--json"))["job_id"]
    job.wait_until(lambda: len(job.lines("ran")) == 2)
    job.exec("sh", "-c", "echo two >said; touch go-1 go-2")
    job.none_left()
    assert {line.split()[0] for line in job.lines("ran")} == {"one"}
    places = {line.split()[1] for line in job.lines("ran")}
    assert len(places) == 2 and all("/runs/neuronctl-" in place for place in places)
    for one in (job.id, other):
        log = job.lines(f"goes_{one}.out")
        assert [line for line in log if line.isdigit()] == [one, one], "its own, in both runs"


@pytest.mark.long
def test_what_does_not_end_goes_on_before_its_time_limit(going: Sandbox) -> None:
    going.write("deaf.sh", "trap '' TERM\n[ \"$NEURONCTL_RUN\" = 2 ] || sleep 300\n")
    job = Going(going, "--gpus-per-node=1", "-t", "1", "--body", "../deaf.sh")
    job.begun(2)
    assert job.ended() == "COMPLETED"
    assert job.causes() == ["saved", "finished"]
