"""Somebody's own script on a real Slurm: what sbatch would have done, and a record beside it."""

from __future__ import annotations

import json
import re
import sys
from typing import Any, Dict, Iterator, List, Tuple

import pytest
from harness import COMMENT, Sandbox, sandbox_up, wait_until

HEAD = """\
#!/bin/bash
#SBATCH -p cas_v100nv_4 --gres=gpu:1 -t 5
#SBATCH --comment="field=misc;appl=pytorch-ddp"
"""
ECHO = HEAD + 'printf "<%s>\\n" "$@"\n'
HELD = HEAD + "#SBATCH --hold\ntrue\n"


@pytest.fixture(scope="module")
def own(slurm_there: None) -> Iterator[Sandbox]:
    """A sandbox in which a user may have many jobs."""
    with sandbox_up("own", "--nodes", "cas_v100nv_4=2") as made:
        modify = ["sacctmgr", "-i", "modify", "qos", "p_cas_v100nv_4", "set"]
        made.root(*modify, "MaxSubmitJobsPerUser=-1", "MaxJobsPerUser=-1")
        made.write("echo.sh", ECHO)
        made.write("held.sh", HELD)
        yield made


@pytest.fixture(autouse=True)
def nothing_left(own: Sandbox) -> Iterator[None]:
    yield
    own.cancel_all()
    shell(own, 'rm -f "$XDG_STATE_HOME"/neuronctl/jobs/*.intent.json')


def shell(own: Sandbox, text: str, *words: str) -> str:
    return own.exec(["bash", "-c", text, "-", *words]).stdout


def shown(own: Sandbox, job: str) -> List[Dict[str, str]]:
    """``scontrol show job``, without what is another one each time."""
    show = ["scontrol", "show", "job", job]
    # A busy slurmctld may break a connection off.
    text = wait_until(lambda: own.exec(show, check=False).stdout, seconds=60)
    blocks = text.strip().split("\n\n")
    found = []
    for block in blocks:
        words = re.findall(r"(?m)(?:^ *|(?<=\S) )([A-Z][\w:/]*)=((?:(?! [A-Z][\w:/]*=).)*)", block)
        fields = {name: value.strip() for name, value in words}
        number = int(fields["JobId"])
        own_each_time = ("JobId", "Priority", "AllocNode:Sid", "LastSchedEval", "NodeList")
        for name in (*own_each_time, "BatchHost", "Scheduler"):
            fields.pop(name, None)
        for name in [one for one in fields if one.endswith("Time")]:
            del fields[name]
        first = int(fields.get("HetJobId", fields.get("ArrayJobId", number)))
        for name in ("StdOut", "StdErr", "HetJobId", "ArrayJobId"):
            for ids in (number, first) if name in fields else ():
                fields[name] = re.sub(rf"(?<!\d)0*{ids}(?!\d)", "ID", fields[name])
        fields.pop("HetJobIdSet", None)
        found.append(fields)
    return found


def record(own: Sandbox, job: str) -> Dict[str, Any]:
    data = json.loads(own.exec(["neuronctl", "show", "--json", job]).stdout)
    kept: Dict[str, Any] = data["record"]
    return kept


TEXTS = {
    "plain": ECHO.encode(),
    "korean": ECHO.encode() + "# \ud55c\uad6d\uc5b4\n".encode("cp949") + "# \ud55c\n".encode(),
}


@pytest.mark.parametrize("name", sorted(TEXTS))
@pytest.mark.parametrize("how", ["submit", "sbatch"])
def test_byte_for_byte(own: Sandbox, name: str, how: str) -> None:
    octal = "".join(f"\\{byte:03o}" for byte in TEXTS[name])
    args = ["a  b", "it's", '"$HOME"', "", "*"]
    shell(own, f"printf '{octal}' > {name}.sh")
    said = own.exec(["neuronctl", how, f"{name}.sh", *args]).stdout
    found = re.search(r"batch job (\d+)", said)
    assert found
    job = found[1]
    shell(own, f"scontrol write batch_script {job} {name}.copy && cmp {name}.copy {name}.sh")
    (fields,) = shown(own, job)
    assert fields["Command"].startswith(f"{own.scratch}/{name}.sh")
    assert fields["JobName"] == f"{name}.sh"

    def has_ended() -> bool:
        queued = own.exec(["squeue", "-h", "-j", job, "-t", "PD,R,CG"], check=False)
        return queued.returncode == 0 and not queued.stdout  # slurmctld may be too busy to answer

    wait_until(has_ended)
    log = shell(own, f"cat slurm-{job}.out")
    assert log == "".join(f"<{one}>\n" for one in args)
    assert own.exec(["neuronctl", "logs", job]).stdout == log


LINES: Tuple[str, ...] = (
    "{} held.sh",
    "{} --parsable held.sh",
    "{} -D /tmp held.sh",
    "{} --job-name 'two words' --time=0:03 held.sh",
    "{} -D sub -o x.out held.sh",
    "{} -a 0-3%2 held.sh",
    "{} --array=1,5 -o %A_%a.log held.sh",
    "{} --export=NONE held.sh",
    "{} --mail-type=END --signal=B:USR1@60 held.sh",
    "{} -- held.sh",
    "cd sub && {} ../held.sh",
    "PATH=$PWD:$PATH && cd sub && {} held.sh",
    "{} < held.sh",
    "{} /dev/stdin a b < held.sh",
    "{} $HELD --wrap 'echo \"a b\"'",
    "SBATCH_TIMELIMIT=2 {} held.sh",
    "SBATCH_JOB_NAME=env SBATCH_ACCOUNT=sandbox {} held.sh",
    "{} $HELD : $HELD held.sh",
    "{} het.sh",
    "{} -M neuron --parsable held.sh",
    "{} --wait --parsable quick.sh",
    "{} -Q held.sh",
    "{} --help",
    "{} --test-only held.sh 2>&1 | sed 's/Job.*//'",
    "{} --no-such-option held.sh",
    "{} no-such-file.sh",
    "{} --wrap=x held.sh",
    "{} crlf.sh",
    "{} -N 99 held.sh",
    "{} held.sh >&-",
    "{} held.sh > /dev/full",
    "set -o pipefail; {} held.sh | cat",
    "env -i HOME=$HOME PATH=$PATH SLURM_CONF=${{SLURM_CONF-/etc/slurm/slurm.conf}} {} held.sh",
)


@pytest.fixture(scope="module")
def lines(own: Sandbox) -> None:
    own.write("quick.sh", HEAD + "exit ${1:-0}\n")
    own.write("het.sh", HELD.replace("true", "#SBATCH hetjob\n" + HELD.partition("\n")[2]))
    own.write("crlf.sh", HELD.replace("\n", "\r\n"))
    own.write("sub/empty", "")


@pytest.mark.parametrize("line", LINES)
def test_as_sbatch_itself(own: Sandbox, lines: None, line: str) -> None:
    held = f"--hold -p cas_v100nv_4 --gres=gpu:1 -t5 {COMMENT}"
    seen = []
    for command in ("sbatch", "neuronctl sbatch"):
        call = f"HELD='{held}'; {line.format(command)}"
        before = set(shell(own, "squeue -h --states=all -o %A").split())
        result = own.exec(["bash", "-c", call], check=False)
        after = set(shell(own, "squeue -h --states=all -o %A").split())
        new = sorted(after - before, key=int)
        texts = [re.sub(r"\d{1,10}", "N", text) for text in (result.stdout, result.stderr)]
        jobs = [block for job in new[:1] for block in shown(own, job)]
        seen.append((result.returncode, texts, len(new), jobs))
        if new and command != "sbatch" and "-Q" not in line and "env -i" not in line:
            kept = record(own, new[0])
            assert kept and kept["status"] == "submitted", line
            names = {one["JobName"] for one in jobs}
            assert {kept["job_name"]} == names
            if len(jobs) == 1 and "Array" not in str(jobs):
                told = json.loads(own.exec(["neuronctl", "show", "--json", new[0]]).stdout)
                assert told["jobs"][0]["stdout"] == jobs[0]["StdOut"].replace("ID", new[0])
                assert kept["cwd"] == jobs[0]["WorkDir"]
    plain, ours = seen
    if plain[0] and ours[1][1].startswith(plain[1][1]):
        ours[1][1] = plain[1][1]  # behind it, what was found in a script that sbatch refuses
    assert plain[:3] == ours[:3]
    for one, other in zip(plain[3], ours[3]):
        assert {
            n: (one.get(n), other.get(n)) for n in {*one, *other} if one.get(n) != other.get(n)
        } == {}


def test_from_then_on_like_every_job(own: Sandbox) -> None:
    own.write("fails.sh", HEAD + "#SBATCH -t 6\necho before\nsleep ${1:-0}\nexit 7\n")
    job = shell(own, "neuronctl sbatch --parsable fails.sh").strip()
    assert own.exec(["neuronctl", "wait", job], check=False).returncode == 7
    again = own.exec(["neuronctl", "submit", "--wait", "fails.sh"], check=False)
    assert again.returncode == 7 and "ended: FAILED" in again.stderr
    (status,) = json.loads(own.exec(["neuronctl", "status", "--json", job]).stdout)["jobs"]
    assert (status["name"], status["exit_code"]) == ("fails.sh", 7)
    assert own.exec(["neuronctl", "logs", job]).stdout == "before\n"
    page = own.exec(["neuronctl", "show", job]).stdout
    assert "NC605: fails.sh:2" in page and "neuronctl sbatch --parsable fails.sh" in page

    running = shell(own, "neuronctl sbatch --parsable fails.sh 600").strip()
    wait_until(lambda: own.exec(["squeue", "-h", "-j", running, "-t", "R"]).stdout)
    attached = own.exec(["neuronctl", "attach", running, "--", "hostname"], check=False)
    assert attached.returncode == 0, attached.stderr
    own.exec(["neuronctl", "cancel", running])

    result = own.exec(["neuronctl", "resubmit", "--wait", job], check=False)
    assert result.returncode == 7
    result = own.exec(["neuronctl", "resubmit", "-t", "2", job])
    assert "time: 00:06:00 -> 00:02:00" in result.stderr
    number = re.search(r"batch job (\d+)", result.stdout)
    assert number and "TimeLimit=00:02:00" in shell(own, f"scontrol show job {number[1]}")


KILLER = r"""
import os, random, subprocess, sys, time
jobs = os.environ["XDG_STATE_HOME"] + "/neuronctl/jobs"
os.makedirs(jobs, 0o700, exist_ok=True)
rng = random.Random(20261122)
for n in range(int(sys.argv[1])):
    argv = ["neuronctl", ("sbatch", "submit")[n % 2], "-J", f"k{n}", "held.sh", str(n)]
    before = set(os.listdir(jobs))
    nowhere = subprocess.DEVNULL
    process = subprocess.Popen(argv, stdin=nowhere, stdout=nowhere, stderr=nowhere)
    while process.poll() is None and not any(
        one.endswith(".intent.json") for one in set(os.listdir(jobs)) - before
    ):
        time.sleep(0.001)
    time.sleep(rng.uniform(0, 0.05))
    process.kill()
    process.wait()
while subprocess.run(["pgrep", "-x", "sbatch"], stdout=subprocess.DEVNULL).returncode == 0:
    time.sleep(0.1)
"""


def test_killed_at_random_moments(own: Sandbox) -> None:
    """None is lost, none doubled, and none taken for another's."""
    own.exec([sys.executable, "-c", KILLER, "30"])
    own.exec(["neuronctl", "status"])
    queued: Dict[str, List[str]] = {}
    for line in shell(own, "squeue -h -o '%A %j'").splitlines():
        job, _, name = line.partition(" ")
        queued.setdefault(name, []).append(job)
    assert queued and all(len(ids) == 1 for ids in queued.values())
    for name, (job,) in queued.items():
        kept = record(own, job)
        assert kept is not None, f"{name} has no record"
        assert (kept["job_name"], kept["draft"]["sbatch"][-1]) == (name, name[1:])
    text = shell(own, 'cat "$XDG_STATE_HOME"/neuronctl/jobs/*.intent.json || true')
    left = re.findall(r'"job_name": "(k\d+)"', text)
    finished = {name for name in left if name in queued}
    # An intent may be left beside its record, which counts.
    for name in finished:
        assert record(own, queued[name][0])["status"] == "submitted"


def test_a_refusal_takes_no_other_job(own: Sandbox) -> None:
    """Neither the older one nor the later one that plain sbatch submitted from the same script."""
    older = own.exec(["sbatch", "--parsable", "held.sh"]).stdout.strip()
    limit = ["sacctmgr", "-i", "modify", "qos", "p_cas_v100nv_4", "set"]
    own.root(*limit, "MaxSubmitJobsPerUser=1")
    try:
        result = own.exec(["neuronctl", "sbatch", "held.sh"], check=False)
    finally:
        own.root(*limit, "MaxSubmitJobsPerUser=-1")
    assert result.returncode == 1 and "Batch job submission failed" in result.stderr
    later = own.exec(["sbatch", "--parsable", "held.sh"]).stdout.strip()
    told = json.loads(own.exec(["neuronctl", "status", "--json"]).stdout)["jobs"]
    jobs = {one["job_id"]: one["record"] for one in told}
    assert jobs[older] is None and jobs[later] is None
    listed = json.loads(own.exec(["neuronctl", "history", "-n", "1", "--json"]).stdout)
    (newest,) = listed["submissions"]
    assert (newest["name"], newest["status"], newest["job_id"]) == ("held.sh", "failed", None)
