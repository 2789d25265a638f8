"""The judgement on a real Slurm: refused, will wait, and what Slurm then says itself."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any, Iterator, List, Tuple

import pytest
from harness import COMMENT, PATIENT, Result, Sandbox, sandbox_up, wait_until

PARTITION = "cas_v100nv_4"  # 4 nodes of 4 GPUs; a user may have 8 jobs, and hold 12 GPUs
JOB = ["-p", PARTITION, "-t", "10", "--field", "misc", "--appl", "pytorch"]
RAW = ["sbatch", "--parsable", "-p", PARTITION, "-t", "10", COMMENT, "--wrap", "sleep 300"]


@pytest.fixture(autouse=True)
def program(sandbox: Sandbox, no_jobs: None) -> None:
    sandbox.write("t.py", "print(1)\n")


def submit(sandbox: Sandbox, *options: str, code: int = 0) -> Result[str]:
    result = sandbox.exec([*PATIENT, "submit", *JOB, *options, "t.py"], check=False)
    assert result.returncode == code, result.stdout + result.stderr
    return result


def settled(sandbox: Sandbox) -> None:
    """Every job runs, or waits for a reason."""
    waiting = "while squeue -h -t PD -o %r | grep -qx -e None -e ''; do sleep 0.3; done"
    sandbox.exec(["sh", "-c", waiting])


def reason_of(sandbox: Sandbox, job_id: int) -> str:
    settled(sandbox)
    return sandbox.exec(["squeue", "-h", "-j", str(job_id), "-o", "%r"]).stdout.strip()


def test_with_all_submitted_jobs_both_refuse(sandbox: Sandbox) -> None:
    for _ in range(8):
        sandbox.exec([*RAW, "--gres=gpu:1", "--hold"])
    refused = submit(sandbox, "--gpus-per-node", "1", code=4)
    assert "error NC501: you have 8 jobs in the queue and may have 8" in refused.stderr
    assert "Slurm itself: sacctmgr show qos p_cas_v100nv_4" in refused.stderr
    raw = sandbox.exec([*RAW, "--gres=gpu:1"], check=False)
    assert raw.returncode == 1
    assert "QOSMaxSubmitJobPerUserLimit" in raw.stderr
    forced = submit(sandbox, "--gpus-per-node", "1", "--force", code=7)
    assert "QOSMaxSubmitJobPerUserLimit" in forced.stderr


def test_the_last_place_taken_between_the_verdict_and_sbatch(sandbox: Sandbox) -> None:
    held = submit(sandbox, "--gpus-per-node", "1", "--sbatch", "hold", "--json")
    first = json.loads(held.stdout)["job_id"]
    for _ in range(6):
        sandbox.exec([*RAW, "--gres=gpu:1", "--hold"])
    other = " ".join(f"'{word}'" for word in [*RAW, "--gres=gpu:1", "--hold"])
    sandbox.write(
        "slow/sbatch", f'#!/bin/sh\nPATH="$BEFORE"\n{other} >/dev/null\nexec sbatch "$@"\n'
    )
    slow = 'chmod +x slow/sbatch; BEFORE="$PATH" PATH="$PWD/slow:$PATH" exec "$@"'
    one = [*PATIENT, "submit", *JOB, "--gpus-per-node", "1"]
    result = sandbox.exec(["sh", "-c", slow, "sh", *one, "--json", "t.py"], check=False)
    assert result.returncode == 7
    assert "QOSMaxSubmitJobPerUserLimit" in result.stderr
    assert "hint: 'neuronctl partitions --live' shows what you hold" in result.stderr
    newest = sandbox.exec(["neuronctl", "history", "-n", "1"]).stdout
    assert "REFUSED" in newest and "QOSMaxSubmitJobPerUserLimit" in newest
    # So for a recorded script, which is submitted byte for byte without a verdict before.
    again = sandbox.exec([*PATIENT, "resubmit", str(first)], check=False)
    assert again.returncode == 7 and "QOSMaxSubmitJobPerUserLimit" in again.stderr


def test_with_all_gpus_held_it_waits_and_slurm_says_why(sandbox: Sandbox) -> None:
    held = [int(sandbox.exec([*RAW, "--gres=gpu:4"]).stdout) for _ in range(3)]
    sandbox.exec(["sh", "-c", "until [ $(squeue -h -t R | wc -l) = 3 ]; do sleep 0.3; done"])
    result = submit(sandbox, "--gpus-per-node", "4", "--json")
    answer = json.loads(result.stdout)
    assert (
        "will wait: you hold 12 of 12 GPUs in QOS p_cas_v100nv_4; 4 more must wait until job "
        in result.stderr
    )
    verdict = answer["verdict"]
    assert (verdict["kind"], verdict["cause"]) == ("will wait", "QOSMaxGRESPerUser")
    ends = sandbox.exec(["squeue", "-h", "-j", ",".join(map(str, held)), "-o", "%e"])
    assert ends.stdout
    assert verdict["until"] is not None
    assert reason_of(sandbox, answer["job_id"]) == "QOSMaxGRESPerUser"
    assert record(sandbox, answer["job_id"])["verdict"].startswith("will wait: you hold 12 of 12")


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("qos p_cas_v100nv_4 set GrpTRES=gres/gpu=4", "QOSGrpGRES"),
        ("qos p_cas_v100nv_4 set GrpJobs=1", "QOSGrpJobsLimit"),
        ("account sandbox set GrpTRES=gres/gpu=4", "AssocGrpGRES"),
    ],
)
def test_a_limit_of_a_whole_group(sandbox: Sandbox, limit: str, reason: str) -> None:
    sandbox.exec([*RAW, "--gres=gpu:3", "-c", "30"])
    sandbox.exec(["sh", "-c", "until squeue -h -t R | grep -q .; do sleep 0.3; done"])
    with changed(sandbox, limit):
        answer = json.loads(submit(sandbox, "--gpus-per-node", "2", "-c", "10", "--json").stdout)
        assert (answer["verdict"]["kind"], answer["verdict"]["cause"]) == ("will wait", reason)
        assert reason_of(sandbox, answer["job_id"]) == reason


@contextlib.contextmanager
def changed(sandbox: Sandbox, limit: str) -> Iterator[None]:
    """A limit of Slurm's set by its administrator."""

    def modify(words: str) -> None:
        sandbox.root("sacctmgr", "-i", "modify", *words.split())

    modify(limit)
    try:
        yield
    finally:
        modify(limit.rpartition("=")[0] + "=-1")


def test_an_empty_queue_lets_it_start(sandbox: Sandbox) -> None:
    result = submit(sandbox, "--gpus-per-node", "4", "-N", "2")
    assert "neuronctl: can start now: 4 nodes have room for its share" in result.stderr


def test_several_partitions(sandbox: Sandbox) -> None:
    """Slurm refuses for all what one of them cannot take (EnforcePartLimits=ALL)."""
    both = ["-p", f"{PARTITION},amd_a100nv_8"]
    raw = [word for word in RAW if word not in ("-p", PARTITION)]
    done = submit(sandbox, *both, "--gpus-per-node", "1", "--wait")
    assert (
        f"Submitted batch job {done.stdout.split()[3]} to {PARTITION},amd_a100nv_8" in done.stdout
    )
    # It passes over a partition whose nodes do not suit the job.
    done = submit(sandbox, *both, "--gres=gpu:5", "--launcher=python", "--wait")
    assert f"warning NC121: in {PARTITION}: requested 5 GPUs" in done.stderr
    assert "can start now" in done.stderr
    for options in (["--gres=gpu:1", "-N3"], ["--gres=gpu:9"]):
        refused = submit(sandbox, *both, *options, "--dry-run", code=7 if "-N3" in options else 4)
        assert sandbox.exec([*raw, *both, *options], check=False).returncode == 1, refused.stderr


def test_force_is_recorded(sandbox: Sandbox) -> None:
    words = ["--gpus-per-node", "1", "-c", "1", "--dependency", "afterany:999999", "--json"]
    # A GPU type that the catalog does not know of; Slurm does not either, and says so.
    forced = submit(sandbox, *words, "--force", "-o", "no-such-directory/x.out")
    answer = json.loads(forced.stdout)
    kept = record(sandbox, answer["job_id"])
    assert kept["forced"] is True
    assert "NC411" in [finding[0] for finding in kept["findings"]]
    assert answer["verdict"]["kind"] == "refused"


def record(sandbox: Sandbox, job_id: int) -> Any:
    """The draft in the record of a job."""
    find = f'cat "${{XDG_STATE_HOME:-$HOME/.local/state}}"/neuronctl/jobs/*.{job_id}.json'
    return json.loads(sandbox.exec(["sh", "-c", find]).stdout)["draft"]


def test_a_limit_that_has_changed_holds_at_once(sandbox: Sandbox) -> None:
    held = sandbox.exec([*RAW, "--gres=gpu:1", "--hold"]).stdout  # the QOS has a user
    sandbox.exec(["scancel", held.strip()])
    submit(sandbox, "--gpus-per-node", "1", "--dry-run")
    modify = ["sacctmgr", "-i", "modify", "qos", f"p_{PARTITION}", "set"]
    sandbox.root(*modify, "MaxTRESPerJob=mem=5000")
    try:
        refused = submit(sandbox, "--gpus-per-node", "1", "--dry-run", code=4)
        assert "a job in QOS p_cas_v100nv_4 may have 5000" in refused.stderr
    finally:
        sandbox.root(*modify, "MaxTRESPerJob=mem=-1")
    assert "can start now" in submit(sandbox, "--gpus-per-node", "1", "--dry-run").stderr


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--sbatch", "begin=now+1hour"], "BeginTime"),
        (["--sbatch", "begin=now+1hour", "--sbatch", "hold"], "JobHeldUser"),
        (["-d", "singleton"], "Dependency"),
        (["-d", "singleton", "-J", "another"], ""),
    ],
)
def test_as_asked(sandbox: Sandbox, options: List[str], reason: str) -> None:
    sandbox.exec([*RAW, "--gres=gpu:1", "-J", "t"])
    settled(sandbox)
    answer = json.loads(submit(sandbox, "--gpus-per-node", "1", *options, "--json").stdout)
    kind = "will wait" if reason else "can start now"
    assert (answer["verdict"]["kind"], answer["verdict"]["cause"]) == (kind, reason)
    seen = reason_of(sandbox, answer["job_id"])
    assert seen in ((reason,) if reason else ("None", ""))


@pytest.mark.parametrize(
    ("full", "empty"), [("amd_a100nv_8", "cas_v100nv_8"), ("cas_v100nv_8", "amd_a100nv_8")]
)
def test_auto_takes_the_partition_where_it_starts_first(
    sandbox: Sandbox, full: str, empty: str
) -> None:
    fill = ["sbatch", "-p", full, "-N", "2", "--gres=gpu:8", "-t", "60", COMMENT, "--exclusive"]
    sandbox.exec([*fill, "--wrap", "sleep 600"])
    sandbox.exec(["sh", "-c", "until squeue -h -t R | grep -q .; do sleep 0.3; done"])
    words = ["-p", "auto", "--gpus-per-node", "8", "-t", "10"]
    options = ["--field", "misc", "--appl", "pytorch", "--json", "--sbatch", "nice=0"]
    result = sandbox.exec([*PATIENT, "submit", *words, *options, "t.py"])
    answer = json.loads(result.stdout)
    assert answer["partition"] == empty
    assert f"-p auto takes {empty}: can start now" in result.stderr
    assert "this Slurm does not have" not in result.stderr  # they are in the JSON
    best, second, *others = answer["choice"]
    assert (best["partition"], second["partition"]) == (empty, full)
    assert second["verdict"]["kind"] == "will wait"
    why_not = {partition["partition"]: partition["why_not"] for partition in others}
    assert "nodes in cas_v100nv_4 have 4" in why_not[PARTITION]
    assert "'cpu' is in the catalog, but the Slurm" in why_not["cpu"]  # this sandbox has none
    # Slurm is given the choice itself: the job in the chosen partition runs first.
    other = sandbox.exec([*fill, "--wrap", "true"]).stdout.split()[-1]
    watch = "until squeue -h -o %T -t all -j $1 | grep -qv PENDING; do sleep 0.3; done"
    sandbox.exec(["sh", "-c", watch, "sh", str(answer["job_id"])])
    assert sandbox.exec(["squeue", "-h", "-j", other, "-o", "%T"]).stdout.strip() == "PENDING"


def test_partitions_live(sandbox: Sandbox) -> None:
    sandbox.exec([*RAW, "--gres=gpu:3"])
    sandbox.exec(["sh", "-c", "until squeue -h -t R | grep -q .; do sleep 0.3; done"])
    text = sandbox.exec(["neuronctl", "partitions", "--live", "--json", PARTITION]).stdout
    answer = json.loads(text)
    (one,) = answer["partitions"]
    assert (one["unit"], one["free"], one["used"], one["down"]) == ("GPU", 13, 3, 0)
    own = {"account": "sandbox", "partition": "", "qos": ["normal"], "default_qos": ""}
    assert answer["accounts"] == [own]
    text = sandbox.exec(["neuronctl", "partitions", "--live"]).stdout
    assert re.search(r"^MY ACCOUNTS +MY QOS\nsandbox +normal$", text, re.MULTILINE)
    assert one["my_gpus"] == {"used": 3, "figure": 12}
    assert one["my_running"] == {"used": 1, "figure": 4}
    assert one["my_jobs"] == {"used": 1, "figure": 8}
    assert one["next"]["kind"] == "can start now"
    page = sandbox.exec(["neuronctl", "brief"]).stdout
    assert re.search(rf"^\| `{PARTITION}` \|.* 3/12 \| 13 GPUs \|", page, re.M)


UPDATE = f"scontrol update PartitionName={PARTITION}"
SET = "sacctmgr -i modify"
MINE = f"{SET} account sandbox set"
THEIRS = f"{SET} qos p_{PARTITION} set"
NO_ACCOUNT = "Invalid account or account/partition combination specified"

# what the administrator does and undoes; the request; what is said ("": sbatch says it); Slurm's
# reason or refusal
Case = Tuple[List[str], List[str], List[str], str, str]


def limited(where: str, limit: str, said: str, happens: str, *asked: str) -> Case:
    """A limit, which is taken away again."""
    name = limit.rpartition("=")[0]
    return [f"{where} {limit}"], [f"{where} {name}=-1"], list(asked), said, happens


CASES: List[Case] = [
    # Of two accounts, the default one is meant; Slurm writes all of them in small letters.
    limited(MINE, "MaxJobs=0", "refused NC501", "AssocMaxJobsLimit"),
    limited(MINE, "MaxJobs=0", "can start now", "", "-A", "acct2"),
    limited(MINE, "GrpTRES=cpu=2", "refused NC509", "AssocGrpCpuLimit"),
    limited(MINE, "GrpTRES=cpu=2", "can start now", "", "-A", "Acct2"),
    limited(MINE, "MaxWall=5", "refused NC141", "AssocMaxWallDurationPerJobLimit"),
    limited(MINE, "MaxSubmitJobs=0", "refused NC501", "AssocMaxSubmitJobLimit"),
    *(
        ([f"{UPDATE} {who}"], [f"{UPDATE} {who.partition('=')[0]}={undone}"], asked, said, happens)
        for who, undone, asked, said, happens in [
            ("AllowAccounts=acct2", "ALL", [], "refused NC102", NO_ACCOUNT),
            ("AllowAccounts=acct2", "ALL", ["-A", "acct2"], "can start now", ""),
            ("DenyAccounts=sandbox", "none", [], "refused NC102", NO_ACCOUNT),
            ("State=DRAIN", "UP", [], "refused NC102", "Required partition not available"),
            ("State=DOWN", "UP", [], "will wait PartitionDown", "PartitionDown"),
        ]
    ),
    ([], [], ["-q", "hi"], "", "Invalid qos specification"),
    ([], [], ["-A", "nobody"], "", NO_ACCOUNT),
    ([], [], ["--reservation", "nosuch"], "", "Requested reservation is invalid"),
    ([], [], ["-a", "0-9999999"], "", "Invalid job array specification"),
    ([], [], ["-q", "NORMAL"], "can start now", ""),
    # None of these ever lets a job run.
    limited(THEIRS, "MaxJobsPerUser=0", "refused NC501", "QOSMaxJobsPerUserLimit"),
    limited(THEIRS, "MaxTRESPerUser=node=0", "refused NC509", "QOSMaxNodePerUserLimit"),
    limited(THEIRS, "MaxTRESPerJob=mem=5000", "refused NC509", "QOSMaxMemoryPerJob"),
    limited(THEIRS, "GrpJobs=0", "refused NC501", "QOSGrpJobsLimit"),
    limited(THEIRS, "GrpTRESMins=gres/gpu=0", "refused NC509", "QOSGrpGRESMinutes"),
    limited(MINE, "GrpWall=0", "refused NC509", "AssocGrpWallLimit"),
]


@pytest.fixture(scope="module")
def accounts(slurm_there: None) -> Iterator[Sandbox]:
    """A user of two accounts."""
    with sandbox_up("accounts", "--nodes", f"{PARTITION}=1", "--nodes", "cas_v100nv_8=0") as one:
        root_does(
            one,
            "sacctmgr -i add qos hi",
            "sacctmgr -i add account acct2",
            "sacctmgr -i add user neuron account=acct2",
            f"{THEIRS} MaxJobsPerUser=-1 MaxSubmitJobsPerUser=-1",
        )
        one.write("t.py", "import time; time.sleep(60)\n")
        yield one


@pytest.mark.parametrize("case", CASES, ids=[f"{n}-{case[3]}" for n, case in enumerate(CASES)])
def test_what_is_said_is_what_slurm_does(accounts: Sandbox, case: Case) -> None:
    assert_agreement(accounts, case)


def assert_agreement(accounts: Sandbox, case: Case) -> None:
    done, undone, asked, said, happens = case
    words = [*PATIENT, "submit", "-p", PARTITION, "-t", "10", "--field", "misc", "--appl"]
    words += ["pytorch", "--gpus-per-node", "1", "--json", "--force", *asked]
    root_does(accounts, *done)
    try:
        result = accounts.exec([*words, "t.py"], check=False)
        answer = json.loads(result.stdout)
        verdict = answer["verdict"]
        if result.returncode == 7:  # what is said without sbatch
            assert happens in result.stderr
            dry = accounts.exec([*words, "--dry-run", "t.py"], check=False)
            verdict = json.loads(dry.stdout)["verdict"]
        if said:
            assert f"{verdict['kind']} {verdict['cause']}".strip() == said
        if result.returncode == 7:
            assert verdict["kind"] in ("refused", "not known")
            return
        starts = said in ("can start now", "not known")
        expected = "R" if starts else f"PENDING {happens}\n"
        assert seen(accounts, answer["job_id"]).startswith(expected)
    finally:
        accounts.cancel_all()
        root_does(accounts, *undone)


def seen(sandbox: Sandbox, job_id: int) -> str:
    """The job's state and reason once Slurm's scheduler has looked at it."""

    def look() -> str:
        row = sandbox.exec(["squeue", "-h", "-t", "all", "-j", str(job_id), "-o", "%T %r"]).stdout
        return "" if row.strip() in ("PENDING None", "PENDING", "PENDING Priority") else row

    return wait_until(look)


def root_does(sandbox: Sandbox, *commands: str) -> None:
    for command in commands:
        sandbox.root(*command.split())
