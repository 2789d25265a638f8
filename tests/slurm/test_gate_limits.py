"""The gate with several accounts or QOS, with limits that let no job run; a job's latest start."""

from __future__ import annotations

import json
from typing import Iterator, List, Tuple

import pytest
from harness import PATIENT, Sandbox, sandbox_up, wait_until
from test_gate_odd import seen

PARTITION = "cas_v100nv_4"
UPDATE = f"scontrol update PartitionName={PARTITION}"
SET = "sacctmgr -i modify"
MINE = f"{SET} account sandbox set"
THEIRS = f"{SET} qos p_{PARTITION} set"
NORMAL = f"{SET} qos normal set"
SEVERAL = f"{MINE} qos=normal,hi,lo"
WITHOUT = f"{MINE} qos=hi,lo"
ONE = f"{MINE} qos=normal"
NO_QOS = "Invalid qos specification"
NO_ACCOUNT = "Invalid account or account/partition combination specified"

STAYS = 'trap "" TERM\nwhile :; do sleep 1; done\n'
"""A program that does not end before Slurm kills it."""

# what the administrator does and undoes; the request; what is said; Slurm's reason or refusal
Case = Tuple[List[str], List[str], List[str], str, str]


def limited(where: str, limit: str, said: str, happens: str, *asked: str) -> Case:
    """A limit, which is taken away again."""
    name = limit.rpartition("=")[0]
    return [f"{where} {limit}"], [f"{where} {name}=-1"], list(asked), said, happens


CASES: List[Case] = [
    # Of two accounts, the default one is meant; Slurm writes all of them in small letters.
    limited(MINE, "MaxJobs=0", "refused NC501", "AssocMaxJobsLimit"),
    limited(MINE, "MaxJobs=0", "can start now", "", "-A", "acct2"),
    limited(MINE, "GrpTRES=cpu=2", "refused NC508", "AssocGrpCpuLimit"),
    limited(MINE, "GrpTRES=cpu=2", "refused NC508", "AssocGrpCpuLimit", "-A", "SANDBOX"),
    limited(MINE, "GrpTRES=cpu=2", "can start now", "", "-A", "Acct2"),
    limited(MINE, "MaxWall=5", "refused NC141", "AssocMaxWallDurationPerJobLimit"),
    limited(MINE, "MaxSubmitJobs=0", "refused NC501", "AssocMaxSubmitJobLimit"),
    *(
        ([f"{UPDATE} {who}"], [f"{UPDATE} {who.partition('=')[0]}={undone}"], asked, said, happens)
        for who, undone, asked, said, happens in [
            ("AllowAccounts=acct2", "ALL", [], "refused NC523", NO_ACCOUNT),
            ("AllowAccounts=acct2", "ALL", ["-A", "acct2"], "can start now", ""),
            ("DenyAccounts=sandbox", "none", [], "refused NC523", NO_ACCOUNT),
        ]
    ),
    ([], [], ["-q", "hi"], "refused NC521", NO_QOS),
    ([], [], ["-q", "NORMAL"], "can start now", ""),
    ([], [], ["-A", "nobody"], "refused NC522", NO_ACCOUNT),
    ([], [], ["-A", "acct3"], "refused NC523", NO_ACCOUNT),
    *(
        (
            [f"{SET} user neuron set defaultaccount={name}"],
            [f"{SET} user neuron set defaultaccount=sandbox"],
            [],
            said,
            happens,
        )
        for name, said, happens in [
            ("acct2", "can start now", ""),
            ("acct3", "refused NC523", NO_ACCOUNT),
        ]
    ),
    # Of several QOS without a default, Slurm takes "normal", even where it is not among them.
    ([SEVERAL], [ONE], [], "can start now", ""),
    ([SEVERAL, f"{UPDATE} AllowQos=hi"], [ONE, f"{UPDATE} AllowQos=ALL"], [], "refused NC523", ""),
    (
        [SEVERAL, f"{UPDATE} AllowQos=hi"],
        [ONE, f"{UPDATE} AllowQos=ALL"],
        ["-q", "HI"],
        "can start now",
        "",
    ),
    *(
        ([SEVERAL, f"{NORMAL} {limit}"], [ONE, f"{NORMAL} {name}=-1"], [], said, happens)
        for limit, name, said, happens in [
            ("MaxJobsPerUser=0", "MaxJobsPerUser", "refused NC501", "QOSMaxJobsPerUserLimit"),
            ("MaxTRESPerJob=cpu=1", "MaxTRESPerJob=cpu", "refused NC509", "QOSMaxCpuPerJobLimit"),
            ("MaxWall=5", "MaxWall", "refused NC141", "QOSMaxWallDurationPerJobLimit"),
        ]
    ),
    (
        [SEVERAL, f"{MINE} defaultqos=hi", f"{NORMAL} MaxJobsPerUser=0"],
        [f"{NORMAL} MaxJobsPerUser=-1", f"{MINE} defaultqos=-1", ONE],
        [],
        "can start now",
        "",
    ),
    ([WITHOUT], [ONE], [], "refused NC521", NO_QOS),
    ([WITHOUT], [ONE], ["-q", "lo"], "can start now", ""),
    # None of these ever lets a job run.
    limited(THEIRS, "MaxJobsPerUser=0", "refused NC501", "QOSMaxJobsPerUserLimit"),
    limited(THEIRS, "MaxJobsPerAccount=0", "refused NC501", "MaxJobsPerAccount"),
    limited(THEIRS, "MaxSubmitJobsPerAccount=0", "refused NC501", "MaxSubmitJobsPerAccount"),
    limited(THEIRS, "MaxSubmitJobsPerAccount=2", "refused NC509", "MaxSubmitJobsPerA", "-a", "0-2"),
    limited(THEIRS, "MaxTRESPerUser=node=0", "refused NC509", "QOSMaxNodePerUserLimit"),
    limited(THEIRS, "MaxTRESPerAccount=cpu=9", "refused NC509", "MaxCpuPerAccount"),
    limited(THEIRS, "GrpJobs=0", "refused NC501", "QOSGrpJobsLimit"),
    limited(THEIRS, "GrpSubmitJobs=0", "refused NC501", "QOSGrpSubmitJobsLimit"),
    limited(THEIRS, "GrpTRES=gres/gpu=0", "refused NC508", "QOSGrpGRES"),
    limited(THEIRS, "GrpTRESMins=gres/gpu=0", "refused NC501", "QOSGrpGRESMinutes"),
    limited(THEIRS, "GrpWall=0", "refused NC501", "QOSGrpWallLimit"),
    limited(MINE, "GrpJobs=0", "refused NC501", "AssocGrpJobsLimit"),
    limited(MINE, "GrpWall=0", "refused NC501", "AssocGrpWallLimit"),
]


@pytest.fixture(scope="module")
def accounts(slurm_there: None) -> Iterator[Sandbox]:
    """A user of two accounts, and of one more in another partition only."""
    with sandbox_up("accounts", "--nodes", f"{PARTITION}=1", "--nodes", "cas_v100nv_8=0") as one:
        root_does(
            one,
            "sacctmgr -i add qos hi",
            "sacctmgr -i add qos lo",
            "sacctmgr -i add account above",
            "sacctmgr -i add account acct2 parent=above",
            "sacctmgr -i add account acct3",
            "sacctmgr -i add user neuron account=acct2",
            "sacctmgr -i add user neuron account=acct3 partition=amd_a100nv_8",
            f"{THEIRS} MaxJobsPerUser=-1 MaxSubmitJobsPerUser=-1",
        )
        one.write("t.py", "import time; time.sleep(60)\n")
        yield one


@pytest.mark.parametrize(
    ("done", "undone", "asked", "said", "happens"),
    CASES,
    ids=[f"{n}-{case[3]}" for n, case in enumerate(CASES)],
)
def test_what_is_said_is_what_slurm_does(
    accounts: Sandbox, done: List[str], undone: List[str], asked: List[str], said: str, happens: str
) -> None:
    agree(accounts, (done, undone, asked, said, happens))


def test_where_versions_of_slurm_differ(accounts: Sandbox) -> None:
    newer = accounts.version >= (24, 11)
    several = ("not known", "") if newer else ("refused NC521", NO_QOS)
    agree(accounts, ([SEVERAL], [ONE], ["-q", "hi,lo"], *several))
    # A partition's accounts: in capitals, and one above the user's.
    for who in ("AllowAccounts=ACCT2", "AllowAccounts=above"):
        case = ("can start now", "") if newer else ("refused NC523", NO_ACCOUNT)
        agree(
            accounts, ([f"{UPDATE} {who}"], [f"{UPDATE} AllowAccounts=ALL"], ["-A", "acct2"], *case)
        )
    case = ("refused NC523", NO_ACCOUNT) if newer else ("can start now", "")
    agree(
        accounts,
        ([f"{UPDATE} DenyAccounts=above"], [f"{UPDATE} DenyAccounts=none"], ["-A", "acct2"], *case),
    )
    if newer:
        minutes = "MaxTRESRunMinsPerUser=cpu"
        never = limited(THEIRS, f"{minutes}=99", "refused NC509", "MaxCpuRunMinsPerUser")
        agree(accounts, never)
        agree(accounts, limited(THEIRS, f"{minutes}=100", "can start now", ""))
        for whom in ("User", "Account"):
            minutes, waits = f"MaxTRESRunMinsPer{whom}=cpu", f"MaxCpuRunMinsPer{whom}"
            for figure, said in ((199, f"will wait {waits}"), (200, "can start now")):
                agree(accounts, limited(THEIRS, f"{minutes}={figure}", said, waits), after_one=True)


def agree(accounts: Sandbox, case: Case, *, after_one: bool = False) -> None:
    """after_one: while such a job runs already."""
    done, undone, asked, said, happens = case
    words = [*PATIENT, "submit", "-p", PARTITION, "-t", "10", "--field", "misc", "--appl"]
    words += ["pytorch", "--gpus-per-node", "1", "--json", "--force", *asked]
    accounts.exec(["sh", "-c", 'rm -f "${XDG_CACHE_HOME:-$HOME/.cache}"/neuronctl/limits-*'])
    root_does(accounts, *done)
    try:
        if after_one:
            first = json.loads(accounts.exec([*words, "t.py"]).stdout)["job_id"]
            assert seen(accounts, first).startswith("R")
        result = accounts.exec([*words, "t.py"], check=False)
        answer = json.loads(result.stdout)
        verdict = answer["verdict"]
        if result.returncode == 7:  # that is Slurm's own
            dry = accounts.exec([*words, "--dry-run", "t.py"])
            verdict = json.loads(dry.stdout)["verdict"]
        assert f"{verdict['kind']} {verdict['cause']}".strip() == said
        if result.returncode == 7:
            assert said.startswith("refused")
            assert happens in result.stderr
            return
        starts = said in ("can start now", "not known")
        expected = "R" if starts else f"PENDING {happens}\n"
        assert seen(accounts, answer["job_id"]).startswith(expected)
    finally:
        accounts.cancel_all()
        root_does(accounts, *undone)


@pytest.mark.long
def test_a_job_starts_by_the_moment_that_is_told(accounts: Sandbox) -> None:
    words = [*PATIENT, "submit", "-p", PARTITION, "-t", "1", "--field", "misc", "--appl"]
    words += ["pytorch", "--gpus-per-node", "4", "--json", "t.py"]
    root_does(accounts, f"{UPDATE} OverTimeLimit=1", f"{THEIRS} MaxJobsPerUser=1")
    accounts.exec(["sh", "-c", 'rm -f "${XDG_CACHE_HOME:-$HOME/.cache}"/neuronctl/limits-*'])
    accounts.write("stays.sh", "#!/bin/sh\n#SBATCH --comment=field=misc;appl=pytorch\n" + STAYS)
    try:
        stays = ["sbatch", "--parsable", "-p", PARTITION, "-t", "1", "--gpus-per-node=4"]
        first = int(accounts.exec([*stays, "-o", "/dev/null", "stays.sh"]).stdout)
        assert seen(accounts, first).startswith("R")
        answer = json.loads(accounts.exec(words).stdout)
        verdict = answer["verdict"]
        assert (verdict["kind"], verdict["cause"]) == ("will wait", "QOSMaxJobsPerUserLimit")
        look = f"TZ=UTC squeue -h -t all -j {answer['job_id']} -o '%S %T'"
        begun = ["sh", "-c", look]
        wait_until(lambda: "PENDING" not in accounts.exec(begun).stdout, 600)
        assert accounts.exec(begun).stdout.split()[0] + "Z" <= verdict["until"]
    finally:
        accounts.cancel_all()
        root_does(accounts, f"{UPDATE} OverTimeLimit=0", f"{THEIRS} MaxJobsPerUser=-1")


def root_does(sandbox: Sandbox, *commands: str) -> None:
    for command in commands:
        sandbox.root(*command.split())
