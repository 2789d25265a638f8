"""What a site sets up beyond sizes: flags of QOS, EnforcePartLimits, preemption, and so on.

Each case is a batch script as a user writes it: what is said of it is what Slurm then does.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Iterator, List, Sequence, Tuple

import pytest
from harness import PATIENT, Sandbox, sandbox_up, wait_until

CPU = "scontrol update PartitionName=cpu"
GPU = "scontrol update PartitionName=gpu"
SHORT = "scontrol update PartitionName=short"
HI = "sacctmgr -i modify qos hi set"
P_CPU = "sacctmgr -i modify qos p_cpu set"
OWN = "sacctmgr -i modify user neuron where account=sandbox set"
RESERVE = "scontrol create reservation ReservationName=rs Duration=120 StartTime=now"
FAST = "scontrol update NodeName=c1 AvailableFeatures=fast"
SLOW = "scontrol update NodeName=g1 AvailableFeatures=slow"
LATER = (24, 11)


def enforce(word: str) -> str:
    """Set EnforcePartLimits; what was set by scontrol is gone then."""
    edit = f"s/^EnforcePartLimits=.*/EnforcePartLimits={word}/"
    return f"sed -i '{edit}' /etc/slurm/slurm.conf; scontrol reconfigure"


def per_gpu(default: str) -> str:
    """Set a default of the partition gpu that only slurm.conf takes."""
    edit = f"s/^PartitionName=gpu .*/& {default}/"
    return f"sed -i '{edit}' /etc/slurm/slurm.conf; scontrol reconfigure"


def preempting(by: str) -> str:
    """Set PreemptType; what was set by scontrol is gone then."""
    lines = f"PreemptType=preempt/{by}\\nPreemptMode=REQUEUE"
    edit = f"sed -i 's,^MaxArraySize,{lines}\\n&,' /etc/slurm/slurm.conf"
    return f"{edit}; scontrol reconfigure"


def busy(partition: str, cores: int = 8) -> str:
    """A job on all nodes of a partition, with all their cores, or so many."""
    nodes = 3 if partition == "cpu" else 4
    job = f"-p {partition} -N{nodes} -n{nodes} -c{cores} --mem=1000 -t 60 --wrap='sleep 900'"
    started = "until squeue -h -u games -t R | grep -q .; do sleep 0.3; done"
    return f"sbatch --uid=games -A sandbox -D/tmp -o/dev/null {job}; {started}"


@pytest.fixture(scope="module")
def site(slurm_there: None) -> Iterator[Sandbox]:
    """The cluster of the comparison, whose user has a second QOS."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEURONCTL_CATALOG", str(Path(__file__).with_name("wide.yaml")))
        nodes = [word for size in ("gpu=4", "short=4", "cpu=3") for word in ("--nodes", size)]
        with sandbox_up("site", *nodes) as made:
            qos = "sacctmgr -i add qos hi; sacctmgr -i modify user neuron set qos+=hi"
            others = "sacctmgr -i add user games account=sandbox"
            made.root("sh", "-c", f"{qos}; {others}")
            made.root("cp", "/etc/slurm/slurm.conf", "/etc/slurm/as-it-was")
            yield made


# What the administrator does; sbatch's options; what is said; what Slurm does, and a later one
# where that differs.
Case = Tuple[Sequence[str], str, str, str]

QOS_FLAGS: List[Case] = [
    ([f"{HI} Flags=RequiresReservation"], "-p cpu -q hi", "refused NC526", "Invalid qos"),
    (
        [f"{HI} Flags=PartitionTimeLimit", f"{CPU} MaxTime=20"],
        "-p cpu -q hi -t 30",
        "can",
        "starts",
    ),
    (
        [f"{HI} Flags=PartitionTimeLimit", f"{CPU} MaxTime=20"],
        "-p cpu -t 30",
        "refused NC141",
        "time limit is invalid",
    ),
    ([f"{HI} Flags=PartitionMaxNodes", f"{CPU} MaxNodes=1"], "-p cpu -q hi -N2", "can", "starts"),
    ([f"{HI} Flags=PartitionMinNodes", f"{CPU} MinNodes=2"], "-p cpu -q hi -N1", "can", "starts"),
    # Those of a partition's QOS do nothing.
    ([f"{P_CPU} Flags=RequiresReservation"], "-p cpu", "can", "starts"),
    (
        [f"{P_CPU} Flags=PartitionTimeLimit", f"{CPU} MaxTime=20"],
        "-p cpu -t 30",
        "refused NC141",
        "time limit is invalid",
    ),
    ([f"{HI} LimitFactor=1.5", f"{OWN} GrpTRES=cpu=3"], "-p cpu -q hi -c4", "can", "starts"),
    ([f"{HI} LimitFactor=1.5", f"{OWN} GrpTRES=cpu=3"], "-p cpu -q hi -c5", "refused NC508", "Grp"),
    ([f"{HI} LimitFactor=2", f"{OWN} MaxTRESPerJob=cpu=2"], "-p cpu -q hi -c4", "can", "starts"),
    (
        [f"{HI} LimitFactor=2", f"{OWN} MaxTRESPerNode=cpu=2"],
        "-p cpu -q hi -c4",
        "refused NC509",
        "AssocMaxCpuPerNode",
    ),
    # Of two, the partition's counts.
    (
        [f"{P_CPU} LimitFactor=2", f"{HI} LimitFactor=3", f"{OWN} GrpTRES=cpu=2"],
        "-p cpu -q hi -c5",
        "refused NC508",
        "AssocGrpCpuLimit",
    ),
]

LISTS: List[Case] = [
    *(
        ([f"{CPU} State={state}"], "-p cpu,gpu", "can", "starts")
        for state in ("INACTIVE", "DRAIN", "DOWN")
    ),
    ([f"{CPU} MaxCPUsPerNode=2"], "-p cpu,gpu -c4", "can", "starts"),
    ([f"{CPU} MaxCPUsPerNode=2"], "-p cpu,gpu -c4 --exclusive", "can", "starts"),
    ([f"{CPU} MaxCPUsPerNode=2"], "-p cpu,gpu -c8", "refused NC509", "More processors"),
    # More cores than all nodes of one of them have together.
    ([], "-p cpu,gpu -n 25", "refused NC524", "More processors"),
    ([], "-p gpu,cpu -n 24", "can", "starts"),
    ([f"{CPU} MaxCPUsPerNode=2"], "-p cpu,gpu -n 7", "refused", "More processors"),
    ([f"{CPU} MaxCPUsPerNode=2"], "-p cpu,gpu -n 6", "can", "starts"),
    ([enforce("ANY")], "-p cpu,gpu -n 25", "can", "starts"),
    ([f"{CPU} MaxTime=3"], "-p cpu,gpu", "refused NC141", "time limit is invalid"),
    ([enforce("ANY"), f"{CPU} MaxTime=3"], "-p cpu,gpu", "can", "starts"),
    ([enforce("ANY"), f"{CPU} MaxTime=3"], "-p cpu", "refused NC141", "time limit is invalid"),
    # Where one is DOWN, the last one decides.
    (
        [enforce("ANY"), f"{CPU} State=DOWN", f"{GPU} MaxTime=3"],
        "-p cpu,gpu",
        "refused NC141",
        "not available now",
    ),
    (
        [enforce("ANY"), f"{CPU} State=DOWN", f"{GPU} MaxTime=3"],
        "-p gpu,cpu",
        "will wait PartitionDown",
        "PartitionDown",
    ),
    ([enforce("ANY"), f"{CPU} State=DOWN"], "-p cpu,gpu -w c1", "refused NC312", "not available"),
    ([enforce("NO"), f"{CPU} MaxTime=3"], "-p cpu,gpu", "can", "starts"),
    ([enforce("NO"), f"{CPU} MaxTime=3"], "-p cpu", "refused NC141", "PartitionTimeLimit"),
    ([enforce("NO")], "-p cpu,nosuch", "refused NC101", "invalid partition"),
    ([enforce("ANY")], "-p cpu,gpu -w c1", "can", "starts"),
    ([], "-p cpu,gpu -w c1", "refused NC312", "not in this partition"),
    *(
        ([enforce("ANY"), f"{CPU} {change}"], "-p cpu,gpu", "refused", "ermission denied")
        for change in ("RootOnly=YES", "ReqResv=YES", "AllocNodes=g1")
    ),
    # Without a number of nodes, Slurm takes such a job and never starts it.
    *(
        ([enforce("NO"), f"{CPU} {change}"], "-p cpu,gpu -N1", "can", "starts")
        for change in ("RootOnly=YES", "ReqResv=YES", "AllocNodes=g1", "AllowGroups=games")
    ),
    # A limit that Slurm only holds when it schedules the job; one on the queue refuses it.
    *(
        ([f"{P_CPU} {limit}"], "-p cpu,gpu -c2", "can", "starts")
        for limit in ("MaxTRESPerJob=cpu=1", "MaxWall=3", "GrpTRES=cpu=1", "MaxJobsPerUser=0")
    ),
    ([f"{P_CPU} MaxSubmitJobsPerUser=0"], "-p gpu,cpu", "refused NC501", "MaxSubmitJob"),
    (
        [f"{P_CPU} MaxTRESPerJob=cpu=1", f"{P_CPU} Flags=DenyOnLimit"],
        "-p cpu,gpu -c2",
        "refused NC509",
        "QOSMaxCpuPerJobLimit",
    ),
]

RESERVATIONS: List[Case] = [
    ([f"{RESERVE} Groups=neuron Nodes=c1"], "-p cpu --reservation=rs", "can", "starts"),
    ([f"{RESERVE} Groups=games Nodes=c1"], "-p cpu --reservation=rs", "refused NC526", "denied"),
    ([f"{RESERVE} Users=neuron Nodes=c[1-3] Flags=MAGNETIC"], "-p cpu -N3", "can", "starts"),
    ([f"{RESERVE} Users=neuron Nodes=c1 Flags=MAGNETIC"], "-p cpu -w c1", "can", "starts"),
    # Inside or outside: not with nodes of both.
    ([f"{RESERVE} Users=neuron Nodes=c1 Flags=MAGNETIC"], "-p cpu -N3", "will wait", "ReqNode"),
    ([f"{RESERVE} Groups=games Nodes=c1 Flags=MAGNETIC"], "-p cpu -w c1", "will wait", "ReqNode"),
    (
        [f"{RESERVE.replace('now', 'now+1hour')} Users=neuron Nodes=c[1-3] Flags=MAGNETIC"],
        "-p cpu -t 2:00:00",
        "will wait",
        "eserv",  # Reservation, or "Nodes … are … reserved for …"
    ),
]

SIZES: List[Case] = [
    # A default of memory per GPU chooses nodes, whatever other memory the job requests.
    ([per_gpu("DefMemPerGPU=9000")], "-p gpu --gres=gpu:4 --mem=1000", "refused NC524", "not avai"),
    ([per_gpu("DefMemPerGPU=9000")], "-p gpu --gres=gpu:3 --mem=1000", "can", "starts"),
    ([per_gpu("DefMemPerGPU=9000")], "-p gpu --gres=gpu:4 --mem-per-gpu=1000", "can", "starts"),
    # Without it, a default of the node has to be there although the job gets memory by GPU.
    ([f"{SHORT} DefMemPerNode=33000"], "-p short -G1 --mem-per-gpu=9", "refused NC524", "not avai"),
    ([f"{SHORT} DefMemPerNode=31000"], "-p short -G1 --mem-per-gpu=9", "can", "starts"),
    ([f"{SHORT} DefMemPerCPU=5000"], "-p short -G1 -c7 --mem-per-gpu=9", "refused NC524", "not av"),
    (
        [f"{SHORT} DefMemPerNode=9000 MaxMemPerNode=8000"],
        "-p short -G1 --mem-per-gpu=9",
        "refused NC509",
        "not available now",
    ),
    # More tasks than the cores of their GPUs are spread as far as the GPUs go.
    ([], "-p short -N1-2 -n9 -G6 --cpus-per-gpu=1", "refused NC315", "not available"),
    ([], "-p short -N1-2 -n8 -G6 --cpus-per-gpu=1", "can", "starts"),
    # Of several counts of a type, the last one holds.
    ([], "-p gpu -N2 --gres=gpu:v100:3,gpu:v100:2", "can", "starts"),
    ([], "-p gpu --gres=gpu:v100:1,gpu:v100:5", "refused NC121", "not available"),
    # Tasks are spread over as many nodes as it takes.
    ([f"{CPU} MaxCPUsPerNode=4"], "-p cpu -n 12", "can", "starts"),
    ([f"{CPU} MaxCPUsPerNode=4"], "-p cpu -N1-2 -n 5", "can", "starts"),
    ([f"{CPU} MaxCPUsPerNode=4"], "-p cpu -N1 -n 5", "refused NC509", "not available"),
    ([f"{CPU} MaxCPUsPerNode=4"], "-p cpu -n 13", "refused NC524", "More processors"),
    ([f"{CPU} MaxMemPerNode=8000"], "-p cpu -n 12", "can", "starts"),
    ([f"{CPU} MaxMemPerNode=8000"], "-p cpu -N1 -n 5", "refused NC509", "not available"),
    ([f"{CPU} MaxMemPerNode=8000"], "-p cpu --mem=8001", "refused NC509", "not available"),
    ([f"{SHORT} MaxMemPerNode=8000"], "-p short -G2 --mem-per-gpu=9000", "can", "starts"),
    # By a minimum of nodes, Slurm then raises what a job says in no number.
    *(
        ([enforce("NO"), f"{CPU} MinNodes=2"], f"-p cpu {options}", "can", "starts")
        for options in ("-n 1", "-n 3 -c 8", "-w c1", "-n3 -c8 -w c1")
    ),
    ([enforce("NO"), f"{CPU} MinNodes=2"], "-p cpu -N 1", "refused NC527", "PartitionNodeLimit"),
    ([f"{P_CPU} MinTRESPerJob=node=2"], "-p cpu -n 9", "can", "starts"),
    ([f"{P_CPU} MinTRESPerJob=node=2"], "-p cpu -n 2", "not known", "QOSMinNode"),
    ([f"{P_CPU} MinTRESPerJob=node=2"], "-p cpu -N 1 -n 2", "refused NC509", "QOSMinNode"),
]

NODES: List[Case] = [
    *(
        ([FAST, SLOW], f"-p cpu -C {text}", "can", "starts")
        for text in ("fast|slow", "[fast|slow]", "(fast|slow)&fast")
    ),
    ([FAST, SLOW], "-p cpu -C [fast|slow] -w c1", "can", "starts"),
    ([FAST, SLOW], "-p cpu -C [fast|slow] -w c2", "refused NC524", "not available"),
    ([FAST, SLOW], "-p cpu -C fast|nosuch", "refused NC524", "Invalid feature"),
    ([FAST, SLOW], "-p cpu -C slow", "refused NC524", "not available"),
    ([FAST, SLOW], "-p cpu,gpu -C slow", "can", "starts"),
]

ROOM: List[Case] = [
    # On busy nodes, tasks that one idle node would hold need several.
    ([busy("cpu", 6), f"{OWN} MaxTRESPerJob=node=1"], "-p cpu -n4", "will wait", "Resources"),
    ([busy("cpu", 6), f"{OWN} MaxTRESPerJob=node=2"], "-p cpu -n4", "can", "starts"),
    (
        [busy("cpu", 6), f"{OWN} MaxTRESPerJob=mem=1500"],
        "-p cpu -n4 --mem=1000",
        "will wait AssocMaxMemPerJob",
        "AssocMaxMemPerJob",
    ),
    ([f"{P_CPU} MaxTRESPerJob=mem=16000"], "-p cpu --mem=0", "can", "starts"),
    ([f"{P_CPU} MaxTRESPerJob=mem=15999"], "-p cpu --mem=0", "refused NC509", "QOSMaxMemory"),
    ([f"{CPU} OverSubscribe=FORCE:2", busy("cpu")], "-p cpu --mem=1000", "not known", "starts"),
    ([f"{CPU} OverSubscribe=FORCE:2", busy("cpu")], "-p cpu --mem=16000", "will wait", "Resources"),
    (
        [preempting("qos"), f"{HI} Preempt=normal", busy("cpu")],
        "-p cpu -q hi",
        "not known",
        "starts",
    ),
    ([preempting("qos"), f"{HI} Preempt=normal", busy("cpu")], "-p cpu", "will wait", "Resources"),
    (
        [preempting("partition_prio"), f"{SHORT} PriorityTier=5", busy("gpu")],
        "-p short",
        "not known",
        "starts",
    ),
    (
        [preempting("partition_prio"), f"{SHORT} PriorityTier=5", busy("short")],
        "-p gpu",
        "will wait",
        "Resources",
    ),
]

BY_VERSION: List[Tuple[str, Tuple[str, str], Tuple[str, str]]] = [
    ("-p cpu -x nosuch,c2", ("refused NC525", "Invalid node name"), ("can", "starts")),
    ("-p cpu -x c2,nosuch", ("refused NC525", "Invalid node"), ("refused NC525", "Invalid node")),
    ("-p cpu -x nosuch", ("refused NC525", "Invalid node"), ("refused NC525", "Invalid node")),
    ("-p cpu -N1 -w c1,c2 -x c1", ("refused NC312", "invalid number"), ("can", "starts")),
    ("-p cpu -N2 -n5 -c3 --mem=2000", ("can", "starts"), ("refused NC131", "not available")),
    (
        "-p gpu -N2 -n3 --gpus-per-task=2 --mem-per-gpu=9000",
        ("can", "starts"),
        ("refused NC524", "not available"),
    ),
    (
        "-p gpu -N2 -n5 --gres=gpu:1 --cpus-per-gpu=2",
        ("can", "starts"),
        ("refused NC524", "not available"),
    ),
    ("-p cpu -N2 -w c[1-3] -x c[1-2]", ("refused NC312", "invalid"), ("refused NC312", "not avai")),
]


MIN_NODES: List[Tuple[str, Tuple[str, str], Tuple[str, str]]] = [
    ("-p cpu", ("can", "starts"), ("refused NC527", "Node count")),
    ("-p cpu -n 1", ("can", "starts"), ("refused NC527", "Node count")),
    ("-p cpu -n 3 -c 8", ("can", "starts"), ("refused NC527", "Node count")),
    ("-p cpu -n 2 -x c[1-2]", ("refused NC525", "not available"), ("refused", "Node count")),
    ("-p cpu -N 1", ("refused NC527", "Node count"), ("refused NC527", "Node count")),
    ("-p cpu -w c1", ("refused NC527", "Node count"), ("refused NC527", "Node count")),
    ("-p cpu -n3 -c8 -w c1", ("refused NC527", "Node count"), ("refused NC527", "Node count")),
]


def judged(site: Sandbox, options: str) -> str:
    """The verdict on a script with these options, and its cause."""
    site.write("own.sh", script(options))
    words = [*PATIENT, "submit", "--force", "--dry-run", "--json", "own.sh"]
    verdict = json.loads(site.exec(words).stdout)["verdict"]
    return f"{verdict['kind']} {verdict['cause']}".strip()


def script(options: str) -> str:
    """A script with these options."""
    lines = ["-t 5", "-o /dev/null"]
    return "\n".join(
        ["#!/bin/bash", *(f"#SBATCH {line}" for line in [*lines, options]), "sleep 600\n"]
    )


def happened(site: Sandbox, options: str) -> str:
    """What Slurm does with it: "starts", or why it refuses it or does not start it."""
    result = site.exec(["sbatch", "--parsable"], input=script(options), check=False)
    if result.returncode:
        return result.stderr
    look = f"squeue -h -j {result.stdout.strip()} -o '%T %r'; sdiag | grep 'Total cycles'"
    first = 0

    def outcome() -> str:
        """Of a job that waits, once Slurm's scheduler has looked: sbatch gives it a reason, too."""
        nonlocal first
        row, main, _ = site.root("sh", "-c", look).stdout.splitlines()
        cycles = int(main.split(":")[1])
        first = first or cycles
        state, _, reason = row.partition(" ")
        return "starts" if state == "RUNNING" else reason if cycles >= first + 3 else ""

    return wait_until(outcome)


@contextlib.contextmanager
def set_up(site: Sandbox, steps: Sequence[str]) -> Iterator[None]:
    """The site as its administrator has set it up, and as it was after that."""
    site.root("sh", "-c", "; ".join(steps) or "true")
    forget = 'rm -f "${XDG_CACHE_HOME:-$HOME/.cache}"/neuronctl/limits-*'
    site.exec(["sh", "-c", forget])
    try:
        yield
    finally:
        back = ["squeue -h -o %A | xargs -r scancel", "scontrol delete ReservationName=rs"]
        back += [f"{qos} Flags=-1 LimitFactor=-1" for qos in (HI, P_CPU)]
        none = "GrpTRES=cpu=-1 MaxTRESPerJob=cpu=-1,mem=-1,node=-1 MaxTRESPerNode=cpu=-1"
        back += [f"{OWN} {none}", f"{P_CPU} {none} MaxWall=-1 MaxJobsPerUser=-1"]
        back += [f"{P_CPU} MaxSubmitJobsPerUser=-1 MinTRESPerJob=node=-1", f"{HI} Preempt="]
        back += ["cp /etc/slurm/as-it-was /etc/slurm/slurm.conf", "scontrol reconfigure"]
        site.root("sh", "-c", "; ".join(back), check=False)
        look = ["sh", "-c", "squeue -h; sinfo -h -o %t | grep -v idle"]
        wait_until(lambda: not site.root(*look, check=False).stdout)


@pytest.mark.parametrize(
    ("steps", "options", "said", "happens"),
    [*QOS_FLAGS, *LISTS, *RESERVATIONS, *SIZES, *NODES, *ROOM],
    ids=lambda value: value if isinstance(value, str) else " ".join(value)[-40:],
)
def test_what_is_said_is_what_slurm_does(
    site: Sandbox, steps: Sequence[str], options: str, said: str, happens: str
) -> None:
    with set_up(site, steps):
        assert judged(site, options).startswith(said)
        assert happens in happened(site, options)


@pytest.mark.parametrize(("options", "earlier", "later"), BY_VERSION)
def test_what_versions_of_slurm_take_differently(
    site: Sandbox, options: str, earlier: Tuple[str, str], later: Tuple[str, str]
) -> None:
    said, happens = later if site.version >= LATER else earlier
    with set_up(site, []):
        assert judged(site, options).startswith(said)
        assert happens in happened(site, options)


@pytest.mark.parametrize(
    "change", ["RootOnly=YES", "ReqResv=YES", "AllocNodes=g1", "AllowGroups=games"]
)
def test_a_script_whose_first_partition_bars_the_user(site: Sandbox, change: str) -> None:
    no_nodes = "will wait PartitionNodeLimit", "PartitionNodeLimit"
    if "Groups" in change and site.version >= LATER:
        no_nodes = "can", "starts"
    with set_up(site, [enforce("NO"), f"{CPU} {change}"]):
        for options, (said, happens) in {
            "-p cpu,gpu": no_nodes,
            "-p cpu,gpu -n 2": no_nodes,
            "-p cpu,gpu -w g1": no_nodes,
            "-p gpu,cpu": ("can", "starts"),
        }.items():
            assert judged(site, options).startswith(said)
            assert happens in happened(site, options)
            site.cancel_all()


@pytest.mark.parametrize(("options", "earlier", "later"), MIN_NODES)
def test_a_script_without_a_number_of_nodes_where_one_is_required(
    site: Sandbox, options: str, earlier: Tuple[str, str], later: Tuple[str, str]
) -> None:
    said, happens = later if site.version >= LATER else earlier
    with set_up(site, [f"{CPU} MinNodes=2"]):
        assert judged(site, options).startswith(said)
        assert happens in happened(site, options)
    if "-N" not in options and "-w" not in options:
        with set_up(site, [f"{CPU} MinNodes=2", f"{HI} Flags=PartitionMinNodes"]):
            assert judged(site, f"{options} -q hi")[:3] == earlier[0][:3]
            assert earlier[1] in happened(site, f"{options} -q hi")


def test_a_limit_that_slurmctld_does_not_hold(site: Sandbox) -> None:
    """Slurm 24.11 hands a limit down by one account only, until it starts again."""
    accounts = "add account top; add account mid parent=top; add user neuron account=mid"
    names = [f"sacctmgr -i {account}" for account in accounts.split("; ")]
    site.root("sh", "-c", "; ".join([*names, "sacctmgr -i modify account top set MaxWall=3"]))
    try:
        with set_up(site, []):
            later = site.version >= LATER
            assert judged(site, "-p cpu -A mid") == ("can start now" if later else "refused NC141")
            expected = "starts" if later else "AssocMaxWallDurationPerJobLimit"
            assert happened(site, "-p cpu -A mid") == expected
    finally:
        gone = ["delete user neuron account=mid", "delete account mid", "delete account top"]
        site.root("sh", "-c", "; ".join(f"sacctmgr -i {account}" for account in gone))
