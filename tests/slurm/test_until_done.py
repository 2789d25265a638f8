"""``--until-done``: a job that goes on in another run, until its program ends with 0."""

from __future__ import annotations

import contextlib
import json
import random
import re
import subprocess
import time
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Mapping

import pytest
from harness import COMMENT, Sandbox, sandbox_up, wait_until
from test_faults import Broken

PROGRAM = """\
import os, signal, sys, time

run, rank, saved = os.environ["NEURONCTL_RUN"], os.environ.get("RANK", "0"), []
signal.signal(signal.SIGTERM, lambda number, frame: saved.append(number))
how, last = sys.argv[1], sys.argv[2]
open("ran", "a").write("%s %s %s\\n" % (run, rank, " ".join(sys.argv[3:])))
if how != "waits" or run == last:
    sys.exit({"waits": 0}.get(how) if how == "waits" else int(how))
open("ready-%s-%s" % (run, rank), "w").close()
while not saved:
    time.sleep(0.05)
time.sleep(0.2)
open("saved-%s-%s" % (run, rank), "w").close()
open("kept", "a").write("x")
sys.exit(1)
"""
LINES = "set -euo pipefail\npython3 goes.py waits 3 | cat\n"
STEPS = "steps:\n- run: 'true'\n- {script: goes.py, args: [waits, 3]}\n"


EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "train_ddp.py"


class Going:
    """A job that goes on, and what it leaves in its directory."""

    def __init__(
        self, sandbox: Sandbox, *words: str, body: str = "", more: Mapping[str, str] = {}
    ) -> None:
        self.sandbox = sandbox
        sandbox.exec(["sh", "-c", "rm -rf going; git init -q going"])
        files = {"goes.py": PROGRAM, "lines.sh": LINES, "steps.yaml": STEPS, **more}
        if body:
            files, words = {**files, "body.sh": body}, (*words, "--body", "body.sh")
        for name, text in files.items():
            sandbox.write(f"going/{name}", text)
        options = ["-p", "amd_a100nv_8", "-t", "10", "--field", "misc", "--appl", "pytorch"]
        options += ["--until-done", "--no-preflight", "--json", "-J", "goes"]
        made = self.exec("neuronctl", "submit", *options, *words)
        self.id = str(json.loads(made)["job_id"])

    def exec(self, *words: str, check: bool = True) -> str:
        inside = ["sh", "-c", 'cd going && "$@"', "sh", *words]
        return self.sandbox.exec(inside, check=check).stdout

    def lines(self, name: str) -> List[str]:
        return self.exec("cat", name, check=False).splitlines()

    @property
    def runs(self) -> List[List[str]]:
        """What the script has noted: run, word, time, and more."""
        return [line.split() for line in self.lines(f"goes_{self.id}.runs")]

    def causes(self) -> List[str]:
        return [words[4] for words in self.runs if words[1] == "end"]

    @property
    def job(self) -> str:
        """The id of the run that has begun last: its own, in a chain."""
        begun = [words for words in self.runs if words[1] == "begin"]
        return begun[-1][7] if begun else self.id

    def state(self) -> str:
        return self.exec("squeue", "-h", "-t", "all", "-j", self.job, "-o", "%T").strip()

    def ready(self, run: int, count: int = 1) -> None:
        """Wait until a run waits for its signal."""
        find = ("find", ".", "-name", f"ready-{run}-*")
        self.wait_until(lambda: len(self.exec(*find).split()) == count)

    def sampled(self, run: int) -> None:
        """Wait until the node of a run has written two samples."""
        files = f"goes_{self.id}.out.samples/{self.id}{f'-{run - 1}' if run > 1 else ''}.gpu3?.csv"
        wait_until(lambda: len(self.exec("sh", "-c", f"cat {files}", check=False).split("\n")) > 4)

    def soon_over(self) -> None:
        """Tell the batch shell what slurmctld tells it before the end of a run."""
        self.exec("scancel", "--batch", "--signal=USR2", self.job)

    def queued(self, count: int) -> None:
        """Wait until so many jobs are in the queue."""
        self.wait_until(lambda: len(self.exec("squeue", "-h").splitlines()) == count)

    def wait_until(self, check: Callable[[], bool]) -> None:
        """As the function of this name; what Slurm and the job say where it never comes true."""
        try:
            wait_until(check)
        except TimeoutError as error:
            show = "squeue; scontrol show job; sinfo -N; ps -ef --forest"
            said = self.exec("sh", "-c", f"{show}; cat goes_{self.id}.*", check=False)
            said += self.sandbox.root("scontrol", "show", "assoc_mgr", "flags=qos").stdout
            raise AssertionError(said) from error

    def begun(self, run: int) -> None:
        """Wait for the beginning of a run."""
        self.wait_until(lambda: [str(run), "begin"] in [words[:2] for words in self.runs])

    def ended(self) -> str:
        """The state in which it ends."""
        self.wait_until(
            lambda: self.state() not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING")
        )
        return self.state()

    def preempt(self, partition: str) -> None:
        """Have a job of a moment take all nodes of a partition."""
        urgent = ["-p", "urgent", "-N2", "--exclusive", "-t", "5", COMMENT, "-o/dev/null"]
        nodes = {"cas_v100nv_8": "gpu[01-02]", "amd_a100nv_8": "gpu[35-36]"}[partition]
        self.exec("sbatch", *urgent, f"-w{nodes}", "--wrap", "sleep 1")

    def none_left(self) -> None:
        """Nothing is in the queue, and nothing will begin."""
        self.wait_until(lambda: self.exec("squeue", "-h") == "")


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
    for process in broken.started:
        process.wait()


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
    "srun": ["--gpus-per-node=2", "-N2", "--launcher=srun", "--resume-with=-r", "goes.py waits 3"],
    "body": ["--gpus-per-node=1", "--monitor", "--body", "lines.sh"],
    "steps": ["--gpus-per-node=1", "-f", "steps.yaml"],
}


CHAIN = ("--gpus-per-node=1", "--no-requeue")


# The first one: slurmctld goes on counting jobs that are cancelled between two runs, as others are.
def test_a_chain_is_one_job(going: Sandbox) -> None:
    """It fits a limit of two jobs, has the environment of its submission, and one log."""
    qos = ("sacctmgr", "-i", "modify", "qos", "p_amd_a100nv_8", "set")
    limit = going.root("sacctmgr", "-nP", "show", "qos", "p_amd_a100nv_8", "format=MaxSubmitPU")
    going.root(*qos, "MaxSubmitJobsPerUser=2")
    try:
        options = ["--monitor", "--env=SAID=a b", "--resume-with=-r"]
        job = Going(going, *CHAIN, *options, "goes.py", "waits", "3")
        for run in (1, 2):
            job.ready(run)
            job.queued(2)
            more = "neuronctl submit -p amd_a100nv_8 -t 1 --field misc --appl pytorch --until-done"
            told = job.exec("sh", "-c", f"{more} --gpus-per-node=1 goes.py 0 2>&1", check=False)
            assert "NC501" in told
            job.soon_over()
            job.begun(run + 1)
        assert job.ended() == "COMPLETED"
    finally:
        going.root(*qos, f"MaxSubmitJobsPerUser={limit.stdout.strip() or -1}")
    job.none_left()
    assert job.causes() == ["saved", "saved", "finished"]
    assert job.lines("ran") == ["1 0 ", "2 0 -r", "3 0 -r"]
    words = f"run 3 as job {job.job}, "
    assert words in job.exec("neuronctl", "status", job.id)
    assert job.exec("neuronctl", "status", job.job).split() == (
        job.exec("neuronctl", "status", job.id).split()
    )
    assert words in job.exec("neuronctl", "history", "-n", "1")
    assert words.capitalize() in job.exec("neuronctl", "why", job.id).replace("\n", " ")
    second = job.exec("neuronctl", "logs", "--run", "2", job.id)
    assert second.startswith("run 2 of at most 10, on ")
    assert "run 1" not in second and "run 3" not in second
    again = json.loads(job.exec("neuronctl", "resubmit", "--dry-run", "--json", job.id))
    assert "submit_next &" in again["script"]
    (used,) = json.loads(job.exec("neuronctl", "report", job.id, "--json"))["jobs"]
    assert {0, 1} <= {node["restart"] for node in used["nodes_sampled"]}


@pytest.mark.parametrize("form", FORMS)
def test_goes_on_until_the_program_ends_with_0(form: str, going: Sandbox) -> None:
    *options, last = FORMS[form]
    words = last.split() if "goes.py" in last else [last]
    job = Going(going, *options, *words)
    count = 4 if form == "srun" else 1
    for run in (1, 2):
        job.ready(run, count)
        if "--monitor" in options:
            job.sampled(run)
        job.soon_over()
        job.begun(run + 1)
    assert job.ended() == "COMPLETED"
    assert job.causes() == ["saved", "saved", "finished"]
    assert len(job.exec("sh", "-c", "ls -d saved-*").split()) == 2 * count
    more = {"python": "--resume the latest", "srun": "-r"}.get(form, "")
    ranks = range(count)
    wanted = [f"{run} {rank} {more if run > 1 else ''}" for run in (1, 2, 3) for rank in ranks]
    assert sorted(job.lines("ran")) == wanted
    assert "run 3, " in job.exec("neuronctl", "status", job.id)
    assert ", 2 requeues" in job.exec("neuronctl", "history", "-n", "1")
    assert ", 2 requeues" in job.exec("neuronctl", "why", job.id).replace("\n", " ")
    second = job.exec("neuronctl", "logs", "--run", "2", job.id)
    assert second.startswith("run 2 of at most 10, on ")
    assert "run 1" not in second and "run 3" not in second
    if "--monitor" in options:
        (told,) = json.loads(job.exec("neuronctl", "report", job.id, "--json"))["jobs"]
        assert {0, 1} <= {node["restart"] for node in told["nodes_sampled"]}
        sampled = sum(node["seconds"] for node in told["nodes_sampled"][:2])
        assert told["node_hours"] * 3600 == pytest.approx(told["elapsed"] + sampled)
        text = job.exec("neuronctl", "report", job.id)
        assert re.search(r"runs +[23] were sampled", text) and "RUN  BEGAN" in text


def test_a_compiled_program_goes_on_where_it_was(going: Sandbox, tmp_path: Path) -> None:
    compiled, source = str(tmp_path / "saves"), str(EXAMPLE.with_name("saves.c"))
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-o", compiled, source], check=True)
    going.exec(["chmod", "+x", "saves"], copy=[compiled])
    program = ["--checkpoint=state", "../saves", "state", "10000"]
    job = Going(going, "--gpus-per-node=1", *program)
    wait_until(lambda: "state" in job.exec("ls").split())
    job.soon_over()
    assert job.ended() == "COMPLETED"
    assert job.causes() == ["saved", "finished"]
    wrote = job.lines(f"goes_{job.id}.out")
    saved = [line.rpartition(" ")[2] for line in wrote if " after step " in line]
    assert len(saved) == 2 and saved[0] == saved[1]
    whole = 0.0
    for step in range(1, 10001):
        whole += 1.0 / (step * step)
    assert f"done: step 10000, sum {whole:.15f}" in wrote


@pytest.mark.parametrize(
    ("how", "options", "causes", "says"),
    [
        ("3", [], ["failed"], ""),
        (
            "75",
            [],
            ["saved", "saved"],
            "two runs without progress ended the same way: it ended to go on",
        ),
        ("75", ["--max-runs", "1"], ["saved"], "that was the last of 1 runs"),
    ],
)
def test_stops(how: str, options: List[str], causes: List[str], says: str, going: Sandbox) -> None:
    job = Going(going, "--gpus-per-node=1", *options, "goes.py", how, "9")
    job.begun(len(causes))
    assert job.ended() == "FAILED"
    assert job.causes() == causes
    assert says in job.exec("neuronctl", "why", job.id).replace("\n", " ")
    code = job.exec("sacct", "-X", "-n", "-P", "-j", job.id, "-o", "ExitCode")
    wait_until(lambda: code.strip() in (f"{how}:0", ""))


def test_goes_on_after_a_run_that_stalls(going: Sandbox) -> None:
    """The first program saves as asked to; the other is deaf, and is ended."""
    going.write("deaf.sh", "trap : TERM\nwhile :; do sleep 1; done\n")
    saves = Going(going, "--gpus-per-node=1", "--stall=10s", "goes.py", "waits", "2")
    assert saves.ended() == "COMPLETED"
    assert saves.causes() == ["stall", "finished"]
    assert "saved-1-0" in saves.exec("ls")
    told = saves.exec("neuronctl", "why", saves.id).replace("\n", " ")
    assert "Job" in told and "nothing changed in run 1 for 10 s" in told and "python" in told
    deaf = ["--gpus-per-node=1", "--stall=10s", "--signal=TERM@15", "--max-runs=1"]
    job = Going(going, *deaf, "--body", "../deaf.sh")
    assert job.ended() == "FAILED"
    assert job.causes() == ["stall"]
    assert [words[5] for words in job.runs if words[1] == "end"] == ["still"]
    told = job.exec("neuronctl", "why", job.id).replace("\n", " ")
    assert "--stall ended it: for 10 s" in told and "that was the last of 1 runs" in told


def test_a_checkpoint_tells_whether_anything_moved(going: Sandbox) -> None:
    job = Going(going, "--gpus-per-node=1", "--checkpoint=ran", "goes.py", "75", "9")
    job.begun(4)  # `ran` grows in each run
    assert [words[5] for words in job.runs if words[1] == "end"][:3] == ["moved"] * 3


FAILS = """\
[ -e broken ] || echo "$SLURMD_NODENAME" >broken
[ "$SLURMD_NODENAME" != "$(cat broken)" ] || { echo "CUDA: uncorrectable ECC error" >&2; exit 1; }
"""


@pytest.mark.parametrize("chain", [False, True])
def test_a_node_whose_gpu_failed_is_left_out(chain: bool, going: Sandbox) -> None:
    more = ["--no-requeue"] if chain else []
    job = Going(going, "--gpus-per-node=1", *more, body=FAILS)
    job.begun(2)
    assert job.ended() == "COMPLETED"
    assert job.causes() == ["node", "finished"]
    first, second = (words[3] for words in job.runs if words[1] == "begin")
    assert first != second
    job.exec("neuronctl", "wait", job.id)
    told = json.loads(job.exec("neuronctl", "partitions", "--live", "--json"))
    assert [fault["node"] for fault in told["bad_nodes"]] == [first]
    job.exec("sh", "-c", 'rm -r "${XDG_STATE_HOME:-$HOME/.local/state}"/neuronctl/bad-nodes')


def down_for_a_moment(sandbox: Sandbox, node: str) -> None:
    """Slurm's jobs there fail; it is free again by the time that they begin anew."""
    sandbox.root("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    sandbox.root("scontrol", "update", f"nodename={node}", "state=resume", check=False)


def test_another_run_after_a_node_died(going: Sandbox) -> None:
    job = Going(going, "--gpus-per-node=1", "goes.py", "waits", "2")
    job.ready(1)
    node = job.exec("squeue", "-h", "-j", job.id, "-o", "%N").strip()
    down_for_a_moment(going, node)
    job.begun(2)
    assert [words[3] for words in job.runs if words[1] == "begin"][1] != node
    assert job.ended() == "COMPLETED"
    assert job.causes() == ["lost", "finished"]


def test_no_other_run_where_nodes_die_again_and_again(going: Sandbox) -> None:
    job = Going(going, "--gpus-per-node=1", "goes.py", "waits", "9")
    job.ready(1)
    node = job.exec("squeue", "-h", "-j", job.id, "-o", "%N").strip()
    going.root("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    wait_until(lambda: [words[1] for words in job.runs][-1] == "over")
    assert job.ended() == "FAILED"
    assert len(job.lines("ran")) == 1
    assert "nodes have failed more than 0 times" in job.exec("neuronctl", "status", job.id)


def test_taken_off_its_nodes_costs_no_retry(going: Sandbox) -> None:
    job = Going(going, "--gpus-per-node=1", "goes.py", "waits", "2")
    job.ready(1)
    going.root("scontrol", "requeue", job.id)
    job.begun(2)
    assert job.ended() == "COMPLETED"
    assert job.causes() == ["requeued", "finished"]


def test_preempted_costs_no_retry(going: Sandbox) -> None:
    job = Going(going, "--gpus-per-node=1", "goes.py", "waits", "2")
    job.ready(1)
    job.preempt("amd_a100nv_8")
    job.begun(2)
    assert job.ended() == "COMPLETED"
    assert job.causes() == ["preempted", "finished"]


def test_an_array_requeues_its_own_task_only(going: Sandbox) -> None:
    """Also that whose job id is the array's."""
    going.write("task.sh", 'touch "$SLURM_ARRAY_TASK_ID-$NEURONCTL_RUN"\nexit 75\n')
    job = Going(going, "--gpus-per-node=1", "-a", "1-2", "--max-runs=2", "--body", "../task.sh")
    wait_until(lambda: job.exec("squeue", "-h") == "")
    assert job.exec("sh", "-c", "ls -d [12]-*").split() == ["1-1", "1-2", "2-1", "2-2"]
    begun = job.exec("sh", "-c", f"grep -c begin goes_{job.id}_*.runs")
    assert [line.rpartition(":")[2] for line in begun.split()] == ["2", "2"]


@pytest.mark.parametrize("seed", range(5))
def test_nothing_begins_after_cancel(seed: int, going: Sandbox) -> None:
    """Wherever it is: the first time before it starts, then while it runs, saves, or waits."""
    moment = random.Random(seed)
    chain = ["--no-requeue"] if seed > 2 else []
    job = Going(going, "--gpus-per-node=1", *chain, "goes.py", "waits", "99")
    if seed:
        job.ready(1)
        job.soon_over()
    wait = str(round(moment.uniform(0, 2.5), 2))
    job.exec("sh", "-c", f"sleep {wait}; neuronctl cancel {job.id}")
    job.none_left()
    state = json.loads(job.exec("neuronctl", "status", "--json", job.id))["jobs"][0]["state"]
    said = f"cat goes_{job.id}.*; sacct -D -P -j {job.id} -o jobid,state,exitcode,start,end"
    assert state == "CANCELLED", f"{wait} s\n" + job.exec("sh", "-c", said, check=False)
    begun = job.lines("ran")
    time.sleep(12)  # a requeue takes less here
    assert job.exec("squeue", "-h") == ""
    assert job.lines("ran") == begun


SNAPSHOT = """\
echo "$(cat said) $PWD" >>"$NEURONCTL_SUBMIT_DIR/ran"
until [ -e "$NEURONCTL_SUBMIT_DIR/go-$NEURONCTL_RUN" ]; do sleep 0.2; done
[ "$NEURONCTL_RUN" = 2 ] || exit 75
"""


def test_a_snapshot_is_what_was_submitted(going: Sandbox) -> None:
    """Whatever is edited while the job waits, and between two runs."""
    job = Going(
        *(going, "--gpus-per-node=1", "--snapshot", "--sbatch=hold"),
        body=SNAPSHOT,
        more={"said": "one"},
    )
    job.exec("sh", "-c", f"echo two >said; scontrol release {job.id}")
    wait_until(lambda: len(job.lines("ran")) == 1)
    job.exec("sh", "-c", "echo three >said; touch go-1")
    wait_until(lambda: len(job.lines("ran")) == 2)
    job.exec("touch", "go-2")
    assert job.ended() == "COMPLETED"
    (said,) = set(job.lines("ran"))
    words, place = said.split()
    assert words == "one" and place.endswith("/code")


@pytest.mark.long
def test_what_does_not_end_goes_on_after_its_time_limit(going: Sandbox) -> None:
    going.write("deaf.sh", 'echo "$NEURONCTL_RUN"\n[ "$NEURONCTL_RUN" = 2 ] || sleep 300\n')
    job = Going(going, "--gpus-per-node=1", "-t", "1", "--body", "../deaf.sh")
    job.begun(2)
    assert job.ended() == "COMPLETED"
    assert job.causes() == ["limit", "finished"]
    assert [words[5] for words in job.runs if words[1] == "end"][:1] == ["moved"]


# ------------------------------------------------------------------------------ the chain


def test_a_chain_where_preempted_jobs_are_cancelled(going: Sandbox) -> None:
    """Which Slurm says, and --explain."""
    options = ["-p", "cas_v100nv_8", "--gpus-per-node=1"]
    job = Going(going, *options, "goes.py", "waits", "2")
    job.ready(1)
    job.preempt("cas_v100nv_8")
    job.begun(2)
    assert job.ended() == "COMPLETED"
    assert job.causes() == ["preempted", "finished"]
    shown = job.exec("neuronctl", "show", job.id)
    assert "PreemptMode=CANCEL of partition cas_v100nv_8" in " ".join(shown.split())


def test_a_chain_survives_its_batch_shell_and_its_node(going: Sandbox) -> None:
    job = Going(going, *CHAIN, "goes.py", "waits", "3")
    job.ready(1)
    wait_until(lambda: [words[1] for words in job.runs][-1] == "next")
    going.root("pkill", "-KILL", "-f", f"job0*{job.job}/slurm_script")
    job.ready(2)
    wait_until(lambda: [words[1] for words in job.runs][-1] == "next")
    node = job.exec("squeue", "-h", "-j", job.job, "-o", "%N").strip()
    down_for_a_moment(going, node)
    job.begun(3)
    assert [words[3] for words in job.runs if words[1] == "begin"][2] != node
    assert job.ended() == "COMPLETED"
    assert job.causes() == ["lost", "lost", "finished"]


@pytest.mark.parametrize(("how", "causes"), [("3", ["failed"]), ("75", ["saved", "saved"])])
def test_a_chain_stops(how: str, causes: List[str], going: Sandbox) -> None:
    job = Going(going, *CHAIN, "goes.py", how, "9")
    job.begun(len(causes))
    assert job.ended() == "FAILED"
    job.none_left()
    assert job.causes() == causes
    assert len(job.lines("ran")) == len(causes)
    state = json.loads(job.exec("neuronctl", "status", "--json", job.id))["jobs"][0]
    assert (state["state"], state["exit_code"]) == ("FAILED", int(how))


def test_scancel_of_a_run_ends_a_chain(going: Sandbox) -> None:
    job = Going(going, *CHAIN, "goes.py", "waits", "9")
    job.ready(1)
    wait_until(lambda: [words[1] for words in job.runs][-1] == "next")
    job.exec("scancel", job.id)
    job.none_left()
    assert len(job.lines("ran")) == 1
    assert "CANCELLED" in job.exec("neuronctl", "status", job.id)
