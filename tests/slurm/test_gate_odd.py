"""The gate where an administrator has done something: what is said is what Slurm then does."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from pathlib import Path
from typing import Any, Iterator, List

import pytest
from harness import PATIENT, Sandbox, sandbox_up, wait_until

from neuronctl.judgement.free_nodes import UNAVAILABLE

PARTITION = "cas_v100nv_4"  # gpu[06-09]
UPDATE = f"scontrol update PartitionName={PARTITION}"
NODE = "scontrol update NodeName"
QOS = f"sacctmgr -i modify qos p_{PARTITION} set"
ACCOUNT = "sacctmgr -i modify account sandbox set"
NO_CORES = "MaxCPUsPerNode=UNLIMITED"
NO_MEMORY = "MaxMemPerNode=0"
UPKEEP = (
    "scontrol create reservation ReservationName=upkeep StartTime=now+1hour Duration=120 "
    "Users=root Flags=MAINT Nodes=gpu[06-09]"
)
COURSE = (
    "scontrol create reservation ReservationName=course StartTime=now Duration=120 "
    "Users=root Nodes=gpu[06-07]"
)
LATER = (
    "scontrol create reservation ReservationName=later StartTime=now+1hour Duration=120 "
    "Users=neuron Nodes=gpu06"
)
NOW = LATER.replace("now+1hour", "now")
NOT_THERE = "ReqNodeNotAvail"
NOT_THERE_EVER = "Requested node configuration is not available"
DRAIN = f"{NODE}=gpu06 State=DRAIN Reason=x"
FAST = f"{NODE}=gpu06 AvailableFeatures=fast ActiveFeatures=fast"
NO_FEATURES = "gpu06 AvailableFeatures= ActiveFeatures="
CORES = (
    "scontrol create reservation ReservationName=cores StartTime=now Duration=120 "
    f"Users=root PartitionName={PARTITION} CoreCnt=2"
)

UNKNOWN_JOBS = ("afterok:9999", "afternotok:9999", "after:9999?afterok:9998")


# what the administrator does, and undoes; the request; what is said; Slurm's reason or refusal
CASES = [
    ("", "", ["--reservation", "nosuch"], "refused NC526", "Requested reservation is invalid"),
    (UPKEEP, "upkeep", ["--reservation", "upkeep"], "refused NC526", "Access denied to requested"),
    (UPKEEP, "upkeep", ["-t", "10"], "can start now", ""),
    (UPKEEP, "upkeep", ["-t", "2:00:00"], f"will wait {NOT_THERE}", NOT_THERE),
    (COURSE, "course", ["-N", "2"], "can start now", ""),
    (COURSE, "course", ["-N", "3"], f"will wait {NOT_THERE}", NOT_THERE),
    (LATER, "later", ["--reservation", "later"], "will wait Reservation", "Reservation"),
    (LATER, "later", ["-t", "3:00:00", "-N", "3"], "can start now", ""),
    (LATER, "later", ["-t", "3:00:00", "-w", "gpu06"], f"will wait {NOT_THERE}", NOT_THERE),
    (f"{LATER} Flags=FLEX", "later", ["--reservation", "later"], "can start now", ""),
    (f"{LATER} Flags=FLEX", "later", ["--reservation", "later", "-N", "3"], "can start now", ""),
    (
        f"{LATER} Flags=FLEX",
        "later",
        ["--reservation", "later", "-p", "cas_v100nv_8"],
        "can start now",
        "",
    ),
    (NOW, "later", ["--reservation", "later"], "can start now", ""),
    (NOW, "later", ["--reservation", "later", "-N", "2"], "refused NC526", NOT_THERE_EVER),
    (NOW, "later", ["--reservation", "later", "-w", "gpu07"], "refused NC526", NOT_THERE_EVER),
    (NOW, "later", ["--reservation", "later", "-x", "gpu06"], "refused NC526", NOT_THERE_EVER),
    (
        LATER,
        "later",
        ["--reservation", "later", "-x", "gpu06"],
        "will wait Reservation",
        "Reservation",
    ),
    (CORES, "cores", ["-N", "4"], "can start now", ""),
    (DRAIN, "gpu06", ["-N", "3"], "can start now", ""),
    (DRAIN, "gpu06", ["-N", "2", "-w", "gpu06"], f"will wait {NOT_THERE}", NOT_THERE),
    (DRAIN, "gpu06", ["-N", "4", "-w", "gpu06"], f"will wait {NOT_THERE}", NOT_THERE),
    (DRAIN, "gpu06", ["-N", "3", "-x", "gpu07"], f"will wait {NOT_THERE}", NOT_THERE),
    (DRAIN, "gpu06", ["-N", "4"], f"will wait {UNAVAILABLE}", UNAVAILABLE),
    (DRAIN, "gpu06", ["-N", "4", "-w", "gpu07"], f"will wait {UNAVAILABLE}", UNAVAILABLE),
    *(
        (FAST, NO_FEATURES, asked, said, happens)
        for asked, said, happens in [
            (["-C", "fast"], "can start now", ""),
            (["-C", "[fast|fast]"], "can start now", ""),
            (["-C", "fast*1", "-N", "2"], "can start now", ""),
            (["-C", "fast", "-w", "gpu06"], "can start now", ""),
            (["-C", "fast", "-N", "2"], "refused NC524", NOT_THERE_EVER),
            (["-C", "fast", "-w", "gpu07"], "refused NC524", NOT_THERE_EVER),
            (["-C", "fast", "-x", "gpu06"], "refused NC524", NOT_THERE_EVER),
            (["-C", "fast*2", "-N", "2"], "refused NC524", NOT_THERE_EVER),
            (["-C", "[fast|fast]", "-N", "2"], "refused NC524", NOT_THERE_EVER),
            (["-C", "(fast|fast)&fast", "-N", "2"], "refused NC524", NOT_THERE_EVER),
            (["-C", "fast|slow"], "refused NC524", "Invalid feature specification"),
            (["-C", "!fast"], "refused NC524", "Invalid feature specification"),
            (["-C", "[fast*1]"], "not known", ""),
            (
                ["-C", "fast", "-N", "2", "--sbatch", "begin=now+1hour"],
                "refused NC524",
                NOT_THERE_EVER,
            ),
            (
                ["-C", "[fast*2]", "-N", "2", "--sbatch", "begin=now+1hour"],
                "not known",
                NOT_THERE_EVER,
            ),
        ]
    ),
    *(
        (
            "",
            "",
            ["--sbatch", wait, "--sbatch", "licenses=foo:1"],
            "refused NC530",
            "Invalid license",
        )
        for wait in ("hold", "begin=now+1hour")
    ),
    ("", "", ["-x", "gpu99"], "refused NC525", "Invalid node name specified"),
    (f"{UPDATE} State=DOWN", "State=UP", [], "will wait PartitionDown", "PartitionDown"),
    (f"{UPDATE} State=INACTIVE", "State=UP", [], "refused NC102", "partition not available"),
    (f"{UPDATE} RootOnly=YES", "RootOnly=NO", [], "refused NC102", "permission denied"),
    (f"{UPDATE} ReqResv=YES", "ReqResv=NO", [], "refused NC526", "permission denied"),
    (f"{UPDATE} MinNodes=2", "MinNodes=0", [], "refused NC527", "Node count specification"),
    *(
        (f"{QOS} {limit}", limit.rpartition("=")[0] + "=-1", asked, said, happens)
        for limit, asked, said, happens in [
            ("MaxTRESPerUser=cpu=5", [], "refused NC509", "QOSMaxCpuPerUserLimit"),
            ("MaxTRESPerUser=node=1", ["-N", "2"], "refused NC509", "QOSMaxNodePerUserLimit"),
            ("MaxTRESPerJob=cpu=5", [], "refused NC509", "QOSMaxCpuPerJobLimit"),
            ("MaxTRESPerNode=cpu=5", [], "refused NC509", "QOSMaxCpuPerNode"),
            ("MinTRESPerJob=gres/gpu=2", [], "refused NC509", "QOSMinGRES"),
            ("MaxWall=5", [], "refused NC141", "QOSMaxWallDurationPerJobLimit"),
            ("MaxTRESMinsPerJob=cpu=99", [], "refused NC509", "QOSMaxCpuMinutesPerJobLimit"),
            ("MaxTRESMinsPerJob=cpu=100", [], "can start now", ""),
            ("GrpTRES=node=1", ["-N", "2"], "refused NC508", "QOSGrpNodeLimit"),
            ("GrpTRES=node=2", ["-N", "2"], "can start now", ""),
            ("GrpTRES=mem=91199", [], "refused NC508", "QOSGrpMemLimit"),
            ("GrpTRES=mem=91200", [], "can start now", ""),
            ("GrpTRES=billing=5", [], "not known", "QOSGrpBilling"),
            ("GrpTRESMins=cpu=0", [], "refused NC501", "QOSGrpCPUMinutesLimit"),
            ("GrpTRESMins=cpu=50", [], "can start now", ""),
            ("GrpTRESRunMins=cpu=99", [], "refused NC508", "QOSGrpCPURunMinutesLimit"),
            ("GrpTRESRunMins=mem=5000", [], "refused NC508", "QOSGrpMemoryRunMinutes"),
        ]
    ),
    *(
        (f"{ACCOUNT} {limit}", limit.rpartition("=")[0] + "=-1", asked, said, happens)
        for limit, asked, said, happens in [
            ("MaxWall=5", [], "refused NC141", "AssocMaxWallDurationPerJobLimit"),
            ("MaxTRESMinsPerJob=gres/gpu=9", [], "refused NC509", "AssocMaxGRESMinutesPerJob"),
            ("GrpTRES=node=1", ["-N", "2"], "refused NC508", "AssocGrpNodeLimit"),
            ("GrpTRES=mem=91199", [], "refused NC508", "AssocGrpMemLimit"),
            ("GrpTRESRunMins=cpu=99", [], "refused NC508", "AssocGrpCPURunMinutesLimit"),
            ("GrpTRESRunMins=gres/gpu=9", [], "refused NC508", "AssocGrpGRESRunMinutes"),
            ("GrpTRESRunMins=mem=5000", [], "refused NC508", "AssocGrpMemRunMinutes"),
            ("GrpTRESRunMins=cpu=100", [], "can start now", ""),
            ("GrpWall=0", [], "refused NC501", "AssocGrpWallLimit"),
            ("GrpWall=300", ["-t", "6:00:00"], "can start now", ""),
        ]
    ),
    *(
        (f"{UPDATE} {limit}", undone, asked, said, happens)
        for limit, undone, asked, said, happens in [
            ("AllocNodes=gpu06", "AllocNodes=ALL", [], "refused NC528", "permission denied"),
            ("AllocNodes=glogin[01-02]", "AllocNodes=ALL", [], "can start now", ""),
            ("MaxCPUsPerNode=9", NO_CORES, [], "refused NC509", "not available"),
            ("MaxCPUsPerNode=10", NO_CORES, [], "can start now", ""),
            ("MaxMemPerNode=91199", NO_MEMORY, [], "refused NC509", "not available"),
            ("MaxMemPerNode=91200", NO_MEMORY, [], "can start now", ""),
            ("MaxMemPerCPU=100", "MaxMemPerCPU=0", [], "not known", "not available"),
            ("MaxMemPerCPU=9120", "MaxMemPerCPU=0", [], "can start now", ""),
        ]
    ),
    (f"{UPDATE} DenyQos=normal", "DenyQos=", [], "refused NC523", "Invalid qos"),
    # Of a job that Slurm does not know, it supposes whatever is wanted, or refuses it: 24.11.
    *(("", "", ["-d", what], "can start now", "") for what in UNKNOWN_JOBS),
    ("", "", ["-d", "after:9999,afterany:9998"], "can start now", ""),
    ("", "", ["--sbatch", "no-such-option=1"], "refused NC314", "unrecognized option"),
]


@pytest.mark.parametrize(
    ("done", "undone", "asked", "said", "happens"),
    CASES,
    ids=[f"{n}-{case[3]}" for n, case in enumerate(CASES)],
)
def test_what_is_said_is_what_slurm_does(
    sandbox: Sandbox,
    no_jobs: None,
    done: str,
    undone: str,
    asked: List[str],
    said: str,
    happens: str,
) -> None:
    sandbox.write("t.py", "import time; time.sleep(60)\n")
    words = [*PATIENT, "submit", "-p", PARTITION, "-t", "10", "--field", "misc"]
    words += ["--appl", "pytorch", "--gpus-per-node", "1", "--json", "--force"]
    words += ["--launcher", "srun"]
    if asked[1:] and asked[1] in UNKNOWN_JOBS and sandbox.version >= (24, 11):
        said, happens = "refused NC529", "Job dependency problem"
    # A plan for the last test's job holds until the scheduler looks again.
    wait_until(
        lambda: "plnd" not in sandbox.root("sinfo", "-h", "-p", PARTITION, "-o", "%t").stdout
    )
    with administered(sandbox, done, undone):
        result = sandbox.exec([*words, *asked, "t.py"], check=False)
        answer = json.loads(result.stdout)
        verdict = answer["verdict"]
        if result.returncode == 7:  # that is Slurm's own
            assert verdict["kind"] == "refused"
            dry = sandbox.exec([*words, *asked, "--dry-run", "t.py"])
            verdict = json.loads(dry.stdout)["verdict"]
        assert f"{verdict['kind']} {verdict['cause']}".strip() == said
        if said.startswith("refused") and result.returncode == 0:
            # Slurm takes it, and never starts it.
            assert seen(sandbox, answer["job_id"]) == f"PENDING {happens}\n"
            return
        if said.startswith("refused") or result.returncode == 7:
            assert not said.startswith(("can", "will"))
            assert result.returncode == 7
            assert happens in result.stderr
            return
        job_id = answer["job_id"]
        if not happens:
            started(sandbox, job_id)
            return
        if happens == UNAVAILABLE:
            # Slurm gives it ReqNodeNotAvail at first.
            wait_until(lambda: NOT_THERE not in seen(sandbox, job_id))
        assert seen(sandbox, job_id).startswith(f"PENDING {happens}")


@pytest.mark.parametrize(
    ("limit", "undone", "said", "happens"),
    [
        (f"{QOS} GrpTRES=mem=182399", "GrpTRES=mem=-1", "will wait QOSGrpMemLimit", ""),
        (f"{QOS} GrpTRES=mem=182400", "GrpTRES=mem=-1", "can start now", "R"),
        (f"{ACCOUNT} GrpTRES=mem=182399", "GrpTRES=mem=-1", "will wait AssocGrpMemLimit", ""),
        (f"{QOS} MaxJobsPerAccount=1", "MaxJobsPerAccount=-1", "will wait MaxJobsPerAccount", ""),
        (f"{QOS} MaxJobsPerAccount=2", "MaxJobsPerAccount=-1", "can start now", "R"),
        (
            f"{QOS} MaxTRESPerAccount=gres/gpu=1",
            "MaxTRESPerAccount=gres/gpu=-1",
            "will wait MaxGRESPerAccount",
            "",
        ),
        # Both on one node, which counts once.
        (f"{QOS} GrpTRES=node=1", "GrpTRES=node=-1", "can start now", "R"),
        (f"{ACCOUNT} GrpTRES=node=1", "GrpTRES=node=-1", "can start now", "R"),
        (f"{QOS} MaxTRESPerUser=node=1", "MaxTRESPerUser=node=-1", "can start now", "R"),
        (f"{UPDATE} MaxCPUsPerNode=15", NO_CORES, "will wait Resources", ""),
        (
            f"{ACCOUNT} GrpTRESRunMins=node=15",
            "GrpTRESRunMins=node=-1",
            "will wait AssocGrpNodeRunMinutes",
            "",
        ),
    ],
)
def test_what_a_running_job_leaves(
    sandbox: Sandbox, no_jobs: None, limit: str, undone: str, said: str, happens: str
) -> None:
    sandbox.write("t.py", "import time; time.sleep(60)\n")
    words = [*PATIENT, "submit", "-p", PARTITION, "-t", "10", "--field", "misc"]
    words += ["--appl", "pytorch", "--gpus-per-node", "1", "--json", "-w", "gpu06"]
    with administered(sandbox, limit, undone):
        first = json.loads(sandbox.exec([*words, "t.py"]).stdout)["job_id"]
        started(sandbox, first)
        answer = json.loads(sandbox.exec([*words, "t.py"]).stdout)
        verdict = answer["verdict"]
        assert f"{verdict['kind']} {verdict['cause']}".strip() == said
        expected = happens or f"PENDING {verdict['cause']}"
        assert seen(sandbox, answer["job_id"]).startswith(expected)


@pytest.mark.parametrize("limit", [f"{QOS} MaxTRESPerUser", f"{QOS} GrpTRES", f"{ACCOUNT} GrpTRES"])
def test_a_node_counts_once_for_all_jobs_on_it(sandbox: Sandbox, no_jobs: None, limit: str) -> None:
    """A limit of two nodes, of which jobs are on gpu06 and gpu07."""
    sandbox.write("t.py", "import time; time.sleep(60)\n")
    words = [*PATIENT, "submit", "-p", PARTITION, "-t", "10", "--field", "misc"]
    words += ["--appl", "pytorch", "--gpus-per-node", "1", "--launcher", "srun", "--json"]
    with administered(sandbox, f"{limit}=node=2", f"{limit.rpartition(' ')[2]}=node=-1"):
        first = json.loads(sandbox.exec([*words, "-w", "gpu[06-07]", "t.py"]).stdout)["job_id"]
        started(sandbox, first)
        for asked, kind in [
            ("gpu[06-07]", "can start now"),
            ("gpu06", "can start now"),
            ("gpu[07-08]", "will wait"),
            ("gpu08", "will wait"),
        ]:
            answer = json.loads(sandbox.exec([*words, "-w", asked, "t.py"]).stdout)
            verdict = answer["verdict"]
            assert verdict["kind"] == kind
            happens = f"PENDING {verdict['cause']}" if verdict["cause"] else "R"
            assert seen(sandbox, answer["job_id"]).startswith(happens)


def test_jobs_of_others_that_wait_for_a_node_in_use_come_first(
    sandbox: Sandbox, no_jobs: None
) -> None:
    """Slurm 22.05 marks a node for them only where nothing runs on it."""
    sandbox.write("t.py", "import time; time.sleep(60)\n")
    words = [*PATIENT, "submit", "-p", PARTITION, "--field", "misc", "--appl", "pytorch", "--json"]
    words += ["--gpus-per-node", "1", "-w", "gpu06"]
    theirs = [
        "sbatch",
        "--parsable",
        "--uid=games",
        "-A",
        "sandbox",
        f"-D{sandbox.scratch}",
        "-o/dev/null",
    ]
    theirs += ["-p", PARTITION, "-t60", "-wgpu06", "--comment=field=misc;appl=pytorch"]
    theirs += ["--gres=gpu:1", "--wrap=sleep 600"]
    user = "sacctmgr -i {} user games account=sandbox"
    sandbox.root("sh", "-c", user.format("add"))
    try:
        first = sandbox.root(*theirs).stdout
        started(sandbox, int(first))
        waits = sandbox.root(*theirs, "--exclusive").stdout.strip()
        planned = ["squeue", "-h", "-j", waits, "-o", "%Y"]
        wait_until(lambda: sandbox.root(*planned).stdout.strip() == "gpu06")
        said, told = [], []
        for limit in ("10", "2:00:00"):
            answer = json.loads(sandbox.exec([*words, "-t", limit, "t.py"]).stdout)
            said.append(f"{answer['verdict']['kind']} {answer['verdict']['cause']}".strip())
            told.append(answer["job_id"])
        marked = sandbox.version >= (24, 11)  # it marks nodes in use, too
        assert said == ["not known Priority" if marked else "can start now", "not known Priority"]
        started(sandbox, told[0])
        # Slurm has looked at the second, too, once it has started one that came later.
        later = sandbox.root(*theirs, "-t10").stdout
        started(sandbox, int(later))
        assert sandbox.root("squeue", "-h", "-j", str(told[1]), "-o", "%T").stdout == "PENDING\n"
    finally:
        sandbox.root("scancel", "--user=games")
        wait_until(lambda: not sandbox.root("squeue", "-h", "--user=games").stdout)
        sandbox.root("sh", "-c", user.format("delete"))


def test_of_more_names_than_nodes_a_later_slurm_chooses(sandbox: Sandbox, no_jobs: None) -> None:
    sandbox.write("t.py", "import time; time.sleep(60)\n")
    words = [*PATIENT, "submit", "-p", PARTITION, "-t", "10", "--field", "misc", "--json"]
    words += ["--appl", "pytorch", "--gpus-per-node", "1", "--force", "-N", "1"]
    words += ["-w", "gpu07,gpu06"]
    verdict = json.loads(sandbox.exec([*words, "--dry-run", "t.py"]).stdout)["verdict"]
    result = sandbox.exec([*words, "t.py"], check=False)
    if sandbox.version <= (22, 5):
        assert f"{verdict['kind']} {verdict['cause']}" == "refused NC312"
        assert "invalid number of nodes" in result.stderr
    else:
        assert verdict["kind"] == "can start now"
        started(sandbox, json.loads(result.stdout)["job_id"])


@pytest.fixture(scope="module")
def on_the_safe_side(slurm_there: None) -> Iterator[Sandbox]:
    """A Slurm that starts only what can end within the limits, and in which fair shares count."""
    with sandbox_up("safe", "--nodes", f"{PARTITION}=2") as sandbox:
        pid = sandbox.daemon("slurmctld")
        fair = "PriorityType=priority\\/multifactor\\nPriorityWeightFairShare=1000"
        edit = f"s/^AccountingStorageEnforce=.*/&,safe\\n{fair}/"
        sandbox.root("sed", "-i", edit, "/etc/slurm/slurm.conf")
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not Path(f"/proc/{pid}").exists())
        sandbox.root("slurmctld")
        look = ["sinfo", "-h", "-p", PARTITION, "-o", "%T %D"]
        wait_until(lambda: "idle 2" in sandbox.root(*look, check=False).stdout)
        yield sandbox


@pytest.mark.parametrize(
    ("limit", "said", "happens"),
    [
        ("GrpTRESMins=cpu=99", "refused NC508", "PENDING AssocGrpCPUMinutesLimit"),
        ("GrpTRESMins=cpu=1000", "can start now", "R"),
        ("GrpTRESMins=gres/gpu=9", "refused NC508", "PENDING AssocGrpGRESMinutes"),
        ("GrpWall=9", "refused NC508", "PENDING AssocGrpWallLimit"),
        ("GrpWall=1000", "can start now", "R"),
    ],
)
def test_a_slurm_on_the_safe_side(
    on_the_safe_side: Sandbox, limit: str, said: str, happens: str
) -> None:
    sandbox = on_the_safe_side
    sandbox.write("t.py", "import time; time.sleep(60)\n")
    words = [*PATIENT, "submit", "-p", PARTITION, "-t", "10", "--field", "misc", "--json"]
    words += ["--appl", "pytorch", "--gpus-per-node", "1", "--force", "t.py"]
    with administered(sandbox, f"{ACCOUNT} {limit}", limit.rpartition("=")[0] + "=-1"):
        answer = json.loads(sandbox.exec(words).stdout)
        verdict = answer["verdict"]
        assert f"{verdict['kind']} {verdict['cause']}".strip() == said
        assert seen(sandbox, answer["job_id"]).startswith(happens)


def test_what_is_left_of_budgets_and_how_a_fair_share_stands(on_the_safe_side: Sandbox) -> None:
    sandbox = on_the_safe_side

    def told(*words: str) -> Any:
        return json.loads(sandbox.exec(["neuronctl", *words, "--json"]).stdout)

    def lines() -> List[str]:
        shown = sandbox.exec(["script", "-qec", "stty cols 200; neuronctl status", "/dev/null"])
        return [line for line in shown.stdout.splitlines() if "budget" in line or "share" in line]

    (line,) = lines()
    assert line.strip(chr(27) + "[]0123456789m") == "fair share 1.00 (1 is best) in account sandbox"
    sandbox.write("t.py", "import time; time.sleep(60)\n")
    job = ["-p", PARTITION, "-t", "60", "--field", "misc", "--appl", "pytorch", "t.py"]
    limits = f"{ACCOUNT} GrpTRESMins=gres/gpu=600 GrpTRESRunMins=cpu=60000"
    with administered(sandbox, limits, "GrpTRESMins=gres/gpu=-1 GrpTRESRunMins=cpu=-1"):
        words = [*PATIENT, "submit", "--gpus-per-node", "1", "--json", *job]
        started(sandbox, json.loads(sandbox.exec(words).stdout)["job_id"])
        live = told("partitions", "--live")
        found = {budget["limit"]: budget for budget in live["budgets"]}
        spent, running = found["GrpTRESMins"], found["GrpTRESRunMins"]
        assert (spent["holder"], spent["tres"]) == ("account sandbox", "gres/gpu")
        assert 55 <= spent["used"] + spent["promised"] <= 60, "a GPU for an hour at most"
        assert spent["left"] == 600 - spent["used"] - spent["promised"]
        assert (running["tres"], running["left"]) == ("cpu", 60000 - running["used"])
        assert running["used"] > 10 * 55
        (share,) = live["fair_shares"]
        asked = ["sshare", "-U", "--noheader", "--parsable2", "--format=Account,FairShare"]
        account, factor = sandbox.exec(asked).stdout.strip().split("|")
        assert (share["account"], f"{share['factor']:.2f}") == (account, f"{float(factor):.2f}")
        # status takes what the other command was told, and asks nothing itself.
        (line,) = lines()
        assert "account sandbox: 9 of 10 GPU hours left, 1" in line and "1 line more" in line
        page = sandbox.exec(["neuronctl", "brief"]).stdout
        assert "- account sandbox: 9 of 10 GPU hours left" in page


def started(sandbox: Sandbox, job_id: int) -> None:
    """It starts; one of Slurm's two schedulers may leave it to the other at first."""

    def look() -> bool:
        row = seen(sandbox, job_id)
        logs = ["sh", "-c", f"cat *_{job_id}.out *_{job_id}.err"]
        waits_or_runs = row.startswith(("PENDING", "CONFIGURING", "RUNNING"))
        assert waits_or_runs, row + sandbox.exec(logs, check=False).stdout
        return row.startswith("R")

    wait_until(look)


def seen(sandbox: Sandbox, job_id: int) -> str:
    """The job's state and reason once Slurm's scheduler has looked at it."""

    def look() -> str:
        told = sandbox.exec(["scontrol", "--oneliner", "show", "job", str(job_id)]).stdout
        row = sandbox.exec(["squeue", "-h", "-t", "all", "-j", str(job_id), "-o", "%T %r"]).stdout
        if row.strip() in ("PENDING None", "PENDING", "PENDING Priority"):
            return ""
        # This one sbatch gives it already, and the scheduler may find another.
        times = [re.search(rf" {key}=(\d\S+)", told) for key in ("SubmitTime", "LastSchedEval")]
        submitted, looked = ("" if found is None else found[1] for found in times)
        return "" if NOT_THERE in row and looked <= submitted else row

    return wait_until(look)


@contextlib.contextmanager
def administered(sandbox: Sandbox, done: str, undone: str) -> Iterator[None]:
    """As Slurm's administrator has left it; undone names what to put right again."""
    if not done:
        yield
        return
    back = f"{UPDATE} {undone}"
    if "reservation" in done:
        back = f"scontrol delete ReservationName={undone}"
    elif "sacctmgr" in done:
        forget = 'rm -f "${XDG_CACHE_HOME:-$HOME/.cache}"/neuronctl/limits-*'
        sandbox.exec(["sh", "-c", forget])
        back = f"{ACCOUNT if 'account' in done else QOS} {undone}"
    elif "NodeName" in done:
        back = f"{NODE}={undone}" + ("" if "Features" in done else " State=RESUME")
    sandbox.root(*done.split())
    try:
        yield
    finally:
        sandbox.cancel_all()
        sandbox.root(*back.split())
        if "NodeName" in done:
            look = ["sinfo", "-h", "-N", "-p", PARTITION, "-n", undone.split()[0], "-o", "%T"]
            wait_until(lambda: sandbox.root(*look).stdout.strip() == "idle")
