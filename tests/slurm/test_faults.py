"""Whatever breaks, no job is lost, none is doubled, and status tells the truth afterwards.

A sandbox of its own, since its daemons are killed. The table of faults is printed at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple

import pytest
from harness import RESTARTED, Sandbox, processes, sandbox_up, wait_until

from neuronctl.sandbox import enter

SUBMIT = ["neuronctl", "submit", "-p", "amd_a100nv_8", "--gpus-per-node", "1", "-t", "5"]
SUBMIT += ["--launcher", "python", "--field", "misc", "--appl", "pytorch-ddp"]
Tell = Callable[[str, str], None]


class Broken:
    """The sandbox whose daemons end before their time."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.started = RESTARTED
        self.homes: Dict[Tuple[str, str], int] = {}

    def root(self, *argv: str, check: bool = True) -> str:
        return str(self.sandbox.root(*argv, check=check).stdout)

    @contextlib.contextmanager
    def without(self, daemon: str, word: str = "") -> Iterator[None]:
        """Kill a daemon, and start it again as it was."""
        pid = self.sandbox.daemon(daemon, word)
        argv = Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
        home = self.homes.setdefault((daemon, word), self.oldest_beside(pid))
        # The controller saves its state every few seconds and at its end: killed at once it would
        # itself lose the jobs of the last ones.
        os.kill(pid, signal.SIGTERM if daemon == "slurmctld" else signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{pid}").exists())
        try:
            yield
        finally:
            self.start(argv, home)

    def start(self, argv: Sequence[str], home: int) -> None:
        """Start a daemon on its node; once more where its port is still taken."""
        for _ in range(20):
            again = subprocess.Popen(
                self.sandbox.inside(*argv, pid=home),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            with contextlib.suppress(subprocess.TimeoutExpired):
                again.wait(2)
                continue
            self.started.append(again)
            return
        raise RuntimeError(f"{argv[0]} did not start again")

    def oldest_beside(self, pid: int) -> int:
        """The first process on the node of this one, which holds the node's namespaces."""
        space, beside = os.readlink(f"/proc/{pid}/ns/net"), {}
        for other in processes(self.sandbox.running.pid):
            with contextlib.suppress(FileNotFoundError):  # it has ended since
                if os.readlink(f"/proc/{other}/ns/net") == space:
                    stat = Path(f"/proc/{other}/stat").read_text()
                    # By its start: process numbers begin anew after the largest one.
                    beside[other] = int(stat.rpartition(")")[2].split()[19]), other
        return min(beside, key=beside.__getitem__)

    def configure(self, *lines: str) -> None:
        """Add to slurm.conf and have it read."""
        text = "".join(f"{line}\n" for line in lines)
        self.root("sh", "-c", f"printf %s '{text}' >> /etc/slurm/slurm.conf")
        self.root("scontrol", "reconfigure")

    def status(self, *argv: str, code: int = 0, state: str = "") -> List[Dict[str, Any]]:
        """neuronctl's own answer; state: another XDG_STATE_HOME."""
        result = self.neuronctl("status", "--json", *argv, state=state)
        assert result.returncode == code, result.stderr
        jobs: List[Dict[str, Any]] = json.loads(result.stdout)["jobs"]
        return jobs

    def neuronctl(self, *argv: str, state: str = "") -> Any:
        env = ["env", f"XDG_STATE_HOME={state}"] if state else []
        return self.sandbox.exec([*env, "neuronctl", *argv], check=False)

    def on_another_login_node(self, *argv: str) -> List[str]:
        """``argv`` as the user on a login node of another name: the same files, the same Slurm."""
        running = self.sandbox.running
        become = f"setpriv --reuid {running.uid} --regid {running.gid} --clear-groups"
        script = f'hostname glogin02 && cd {running.scratch} && exec {become} "$@"'
        env = [f"{name}={value}" for name, value in enter.environment(running).items()]
        words = ["unshare", "--uts", "sh", "-c", script, "sh", "env", "-i", *env, *argv]
        return self.sandbox.inside(*words)

    def sbatch(self, *argv: str) -> str:
        return self.sandbox.sbatch(*argv)

    def wait_for(self, job: str, *states: str, seconds: float = 180) -> Dict[str, Any]:
        def look() -> Any:
            return [row for row in self.status(job) if row["state"] in states]

        found: Dict[str, Any] = wait_until(look, seconds)[0]
        return found

    def shell(self, script: str) -> str:
        return self.sandbox.exec(["bash", "-c", script], timeout=240).stdout


@pytest.fixture(scope="module")
def broken(slurm_there: None) -> Iterator[Broken]:
    """The sandbox, whose daemons are killed."""
    with sandbox_up("faults", "--nodes", "amd_a100nv_8=2") as sandbox:
        made = Broken(sandbox)
        made.root(
            "sacctmgr", "-i", "modify", "qos", "p_amd_a100nv_8", "set", "MaxSubmitJobsPerUser=-1"
        )
        made.configure("JobAcctGatherParams=OverMemoryKill")
        sandbox.write("p.sh", "#!/bin/bash\nexit ${1:-0}\n")
        sandbox.exec(["chmod", "+x", "p.sh"])
        yield made


@pytest.fixture(scope="module")
def slow(broken: Broken) -> Dict[str, str]:
    """Jobs whose fate takes a minute, begun before all other tests."""
    return {"late": broken.sbatch("-t1", "--wrap=sleep 300")}


@pytest.fixture(autouse=True)
def tell(slow: Dict[str, str], record_property: Any) -> Tell:
    """Write a line of the table of faults."""
    return lambda fault, outcome: record_property("fault", (fault, outcome))


KILLER = r"""
import json, os, random, signal, subprocess, sys, time
argv, times, first = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[4])
def start(n):
    return subprocess.Popen([*argv, "-J", f"k{first + n}", "--sbatch", "hold", "./p.sh"],
                            stdout=subprocess.DEVNULL, stderr=said)
said = open("killer.err", "ab")
jobs = os.environ["XDG_STATE_HOME"] + "/neuronctl/jobs"
def intents():
    return {name for name in os.listdir(jobs) if name.endswith(".intent.json")}
def written(n, before):
    for name in intents() - before:
        try:
            with open(f"{jobs}/{name}") as file:
                if f'"k{first + n}"' in file.read():
                    return True
        except FileNotFoundError:
            pass
spans = []
for n in range(2):
    begun = time.monotonic()
    assert start(1000 + n).wait() == 0
    spans.append(time.monotonic() - begun)
span = max(spans)
rng = random.Random(int(sys.argv[3]))
for n in range(times):
    before = intents()
    process = start(n)
    if n % 5 == 0:
        time.sleep(rng.uniform(0.1, 1.1) * span)
    else:  # while sbatch is under way, which is where it matters
        while process.poll() is None and not written(n, before):
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.06))
    process.kill()
    process.wait()
while subprocess.run(["pgrep", "-x", "sbatch"], stdout=subprocess.DEVNULL).returncode == 0:
    time.sleep(0.1)
"""


def records(broken: Broken) -> Dict[str, List[Dict[str, Any]]]:
    """All of the user's records, by job name."""
    text = broken.shell(
        'for f in "$XDG_STATE_HOME"/neuronctl/jobs/*.json; do cat "$f"; echo; echo @; done'
    )
    by_key: Dict[str, Dict[str, Any]] = {}
    for part in text.split("\n@\n"):
        record = json.loads(part) if part.strip() else {"status": "intent", "key": ""}
        # An intent that a kill left beside its record counts for nothing.
        if record["key"] and (record["status"] != "intent" or record["key"] not in by_key):
            by_key[record["key"]] = record
    found: Dict[str, List[Dict[str, Any]]] = {}
    for record in by_key.values():
        found.setdefault(record["job_name"], []).append(record)
    return found


def jobs_named(broken: Broken, pattern: str) -> Dict[str, List[str]]:
    """Job ids by name, as the controller itself has them."""
    found: Dict[str, List[str]] = {}
    for line in broken.shell("squeue --noheader --states=all -o '%A %j'").splitlines():
        job, _, name = line.partition(" ")
        if re.fullmatch(pattern, name):
            found.setdefault(name, []).append(job)
    return found


def test_killed_at_50_random_moments_on_two_login_nodes(broken: Broken, tell: Tell) -> None:
    killer = [sys.executable, "-c", KILLER, json.dumps(SUBMIT), "25", "20261121"]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(broken.on_another_login_node(*killer, "100"), **quiet) as elsewhere:
        broken.sandbox.exec([*killer, "0"], timeout=1500)
        assert elsewhere.communicate(timeout=1500)[1] == b""
    assert elsewhere.returncode == 0
    before = [r for rs in records(broken).values() for r in rs if r["status"] == "intent"]
    assert {r["host"] for rs in records(broken).values() for r in rs} >= {"glogin01", "glogin02"}
    # Each leaves the other's submissions of the last minute alone: they may be going on.
    said = subprocess.run(
        broken.on_another_login_node("neuronctl", "status"), capture_output=True, text=True
    ).stderr
    look = broken.neuronctl("status")
    assert look.returncode == 0
    said += look.stderr
    jobs = jobs_named(broken, r"k\d+")
    kept = {name: rs for name, rs in records(broken).items() if re.fullmatch(r"k\d+", name)}
    for name, ids in jobs.items():
        assert len(ids) == 1, f"{name} was submitted twice"
        (record,) = kept[name]
        assert (record["status"], str(record["job_id"])) == ("submitted", ids[0]), name
    left = [r for rs in kept.values() for r in rs if r["status"] != "submitted"]
    assert all(r["job_name"] not in jobs for r in left)
    found = len(before) - sum(r["status"] == "intent" for r in left)
    again = "its record is now complete"
    assert said.count(again) == found
    assert "damaged" not in said + broken.shell("cat killer.err")
    found += broken.shell("cat killer.err").count(again)  # by the submission after it
    # Ten minutes later it is certain that the rest never arrived.
    broken.shell(
        'cd "$XDG_STATE_HOME"/neuronctl/jobs; for f in *.intent.json; do '
        'set -- "${f%.intent.json}".*.json; [ -e "$f" ] && [ $# = 1 ] || continue; '
        "old=${f%%Z-*}; new=20260101T000000000; "
        'sed -e "s/$old/$new/" -e \'s/"begun_at": [0-9]*/"begun_at": 1767225600/\' "$f" '
        '> "$new${f#$old}"; '
        'rm "$f"; done'
    )
    lost = broken.neuronctl("status").stderr.count("it never reached Slurm")
    assert lost == len([r for r in left if r["status"] == "intent"])
    assert not [r for rs in records(broken).values() for r in rs if r["status"] == "intent"]
    broken.shell("scancel --me --state=pending")
    tell(
        "kill -9 of neuronctl at 50 random moments of a submission, on two login nodes",
        f"{len(jobs) - 4} jobs, each once and with its record; {found} of them found again, "
        f"{lost} said never to have arrived, {54 - len(jobs) - lost} killed before their record",
    )


def test_controller_dead_while_submitting(broken: Broken, tell: Tell) -> None:
    with broken.without("slurmctld"):
        result = broken.neuronctl(*SUBMIT[1:], "-J", "nobody", "--force", "./p.sh")
        assert result.returncode == 6, result.stderr
    wait_until(lambda: "UP" in broken.root("scontrol", "ping", check=False))
    assert "nobody" not in broken.neuronctl("status").stderr
    history = json.loads(broken.neuronctl("history", "-n", "999", "--json").stdout)["submissions"]
    assert [job["status"] for job in history if job["name"] == "nobody"] == ["failed"]
    assert jobs_named(broken, "nobody") == {}
    tell("slurmctld dead during a submission", "exit code 6; no job, and its record says so")


def test_accounting_daemons_dead(broken: Broken, tell: Tell) -> None:
    with broken.without("mariadbd"), broken.without("slurmdbd"):
        result = broken.neuronctl(*SUBMIT[1:], "-J", "unbooked", "./p.sh", "3")
        assert result.returncode == 0, result.stderr
        (job,) = jobs_named(broken, "unbooked")["unbooked"]
        assert broken.wait_for(job, "FAILED")["source"] == "squeue"
        assert "cannot reach the accounting database" in broken.neuronctl("status", job).stderr
    booked = wait_until(lambda: [r for r in broken.status(job) if r["exit_code"] == 3])
    assert booked[0]["state"] == "FAILED"
    tell("slurmdbd and MariaDB dead", "FAILED from squeue, and exit code 3 once they are back")


def test_node_dies(broken: Broken, tell: Tell) -> None:
    dies = broken.sbatch("--no-requeue", "--wrap=sleep 300")
    node = broken.wait_for(dies, "RUNNING")["node_list"]
    again = broken.sbatch("--requeue", "-w", node, "--wrap=sleep 300")
    broken.wait_for(again, "RUNNING")
    broken.configure("SlurmdTimeout=6")
    with broken.without("slurmd", node):
        assert broken.wait_for(dies, "NODE_FAIL")["ended"]
        assert broken.wait_for(again, "PENDING")["ended"] is False
        broken.configure("SlurmdTimeout=300")
    assert "a node failed" in broken.neuronctl("status", dies).stdout
    broken.shell(f"scancel {again}")
    tell("slurmd dead under a running job", "NODE_FAIL; with --requeue PENDING under the same id")


def test_state_directory_full(broken: Broken, tell: Tell) -> None:
    place = f"{broken.sandbox.scratch}/full"
    broken.sandbox.exec(["mkdir", "-p", place])
    uid = broken.shell("id -u").strip()
    broken.root("mount", "-t", "tmpfs", "-o", f"size=200k,uid={uid},mode=700", "none", place)
    submit = [*SUBMIT[1:], "--sbatch", "hold", "--json"]
    # What all jobs share is written with the first one.
    assert "No space" not in broken.neuronctl(*submit, "./p.sh", state=place).stderr
    broken.shell(f"cat /dev/zero > {place}/filler || true")
    result = broken.neuronctl(*submit, "-J", "full0", "./p.sh", state=place)
    assert result.returncode == 0 and "No space left" in result.stderr, result.stderr
    first = str(json.loads(result.stdout)["job_id"])
    assert broken.status(first, state=place)[0]["state"] == "PENDING"
    # Room for the intent, and none for the record beside it.
    blocks = broken.shell(f"find {place} -name '*.json' -printf '%k\\n' | sort -n | tail -1")
    broken.sandbox.exec(["truncate", "-s", f"-{blocks.strip()}K", f"{place}/filler"])
    result = broken.neuronctl(*submit, "-J", "full1", "./p.sh", state=place)
    assert result.returncode == 0 and "No space left" in result.stderr, result.stderr
    second = str(json.loads(result.stdout)["job_id"])
    broken.root("mount", "-o", "remount,size=1m", place)
    said = broken.neuronctl("status", state=place)
    assert f"is job {second}: its record is now complete" in said.stderr
    rows = {row["job_id"]: row["record"] for row in broken.status(state=place)}
    assert rows[first] is None and rows[second] is not None
    broken.shell("scancel --me --state=pending")
    tell(
        "state directory full",
        "submitted with a warning; full only after the intent: its record is completed later",
    )
