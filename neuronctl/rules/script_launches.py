"""NC621 to NC627 but NC625, NC663, and NC665: what a script starts, how often, and where."""

from __future__ import annotations

import ast
import re
import warnings
from difflib import get_close_matches as close_matches
from itertools import islice
from typing import Iterator, Optional, Pattern, Set, Tuple

from neuronctl.common.rule_codes import ERROR, NOTE, WARNING
from neuronctl.common.words import counted
from neuronctl.launch.launchers import ALL, every
from neuronctl.planning import JobPlan
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts, Start, script_rule
from neuronctl.rules.script_commands import ONLY_PREPARES, SHORT, TELLS
from neuronctl.scripts.command_wrappers import names_python
from neuronctl.scripts.launches import (
    CONTAINERS,
    PROGRAM,
    PYTHON,
    SHELL,
    Launch,
    container_options,
)
from neuronctl.scripts.model import Edit, SourceSpan
from neuronctl.scripts.shell_text import UNKNOWN, ShellWord
from neuronctl.scripts.values import digits


@script_rule(ERROR, "NC621", "launcher within a launcher")
def launcher_in_launcher(facts: ScriptFacts) -> Iterator[Violation]:
    told = set()
    for outer in facts.every_launch:
        for inner in outer.below() if outer.is_launcher else ():
            message = None if id(inner) in told else _nested(facts, outer, inner)
            if message:
                told.add(id(inner))
                yield Violation(message[0], message[1], place=inner.place)
            elif facts.times(outer) == (facts.plan and facts.plan.nodes, 1):
                yield from _no_meeting(facts, outer, inner)


def _no_meeting(facts: ScriptFacts, outer: Launch, launch: Launch) -> Iterator[Violation]:
    """A launcher for several nodes that is not told where they meet, or which of them it is.

    Source: torch/distributed/run.py (2.9): without --rdzv-backend, it is "static", where each node
    has the rank 0 unless --node-rank says another, and meets at 127.0.0.1 unless told otherwise.
    accelerate launch passes its own options on to that; a file of settings may have them, too.
    """
    own = launch.launcher
    told_of_others = launch.certain and {*own.nodes} & {*own.joins} and launch.has(*own.nodes)
    if not (told_of_others and own.address) or "PET_" in facts.whole_text:
        return
    if not own.endpoint and re.search(r"(?i)config|ACCELERATE_", facts.whole_text):
        return
    several = facts.plan is not None and facts.plan.nodes > 1
    if not several or launch.has("standalone") or launch.count(*own.nodes) == 1:
        return
    backend = _backend(launch)
    ranked, addressed = backend != "static", launch.has(*own.address)
    # accelerate launch makes an endpoint of its address.
    told = launch.has(*own.endpoint) or (addressed and not (ranked and own.endpoint))
    if told and (ranked or launch.has(*own.node_rank)):
        return
    if told and any("rank=" in word.raw for word in launch.own_words):  # of --rdzv-conf
        return
    # What text for another shell says may be read in part.
    words = " ".join(word.raw for word in outer.command.words)
    if not told and re.search(f"endpoint|{'@' if addressed else 'master.addr|process.ip'}", words):
        return
    effect = "each takes itself for the first"
    if not told:
        effect = "each waits at an address of its own"
    if addressed and not told:
        effect += f", as {backend} takes no notice of --{own.address[0]}".replace("_", "-")
    yield Violation(
        f"{launch.kind} is started on {facts.plan.nodes if facts.plan else 0} nodes, and nothing "
        f"tells it {'which of them it is' if told else 'where they meet'}: {effect}",
        f"add {_to_meet(facts, launch)}",
        place=launch.place,
        # A number that is not known may be 1.
        severity=None if not told and own.endpoint and launch.count(*own.nodes) else WARNING,
    )


def _backend(launch: Launch) -> str:
    """How a launcher's processes find each other; what is not said is torch's "static"."""
    said = (launch.options.get(name) for name in launch.launcher.backend)
    return next(filter(None, said), "static")


def _to_meet(facts: ScriptFacts, launch: Launch) -> str:
    """The options that a launcher of one node's processes lacks on several."""
    own, words = launch.launcher, []
    if own.joins and not launch.has(own.joins[0]):
        words.append(f"--{own.joins[0]}".replace("_", "-") + '="$SLURM_NNODES"')
    if not own.endpoint:
        for names, variable in (
            (own.node_rank, "SLURM_NODEID"),
            (own.address, "MASTER_ADDR"),
            (own.port, "MASTER_PORT"),
        ):
            words += [f'--{names[0]}="${variable}"'] if names and not launch.has(*names) else []
        each = " ".join(words) + f", within srun … bash -c '{launch.kind} …' with single quotes"
        export = "export MASTER_ADDR=$(hostname) MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))"
        known = facts.shell.assigned("MASTER_ADDR") and facts.shell.assigned("MASTER_PORT")
        return each if known or "MASTER" not in each else f"{each}, and before it {export}"
    if launch.has(*own.endpoint) or _backend(launch) == "static":
        words.append("--rdzv-backend=c10d")
    if launch.has(*own.endpoint):
        return " ".join(words)
    if facts.shell.assigned("MASTER_ADDR") and facts.shell.assigned("MASTER_PORT"):
        return " ".join([*words, '--rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT"'])
    words.append('--rdzv-endpoint="$FIRST"')
    return (
        " ".join(words)
        + ", and before it export FIRST=$(hostname):$((10000 + SLURM_JOB_ID % 20000))"
    )


def _nested(facts: ScriptFacts, outer: Launch, inner: Launch) -> Optional[Tuple[str, str]]:
    """(what happens, what to write) where a launcher starts another one wrongly."""
    if not inner.is_launcher:
        return None
    if outer.launcher.starts_processes():
        return (
            f"{outer.kind} starts {inner.kind} in each of its processes: that many separate "
            "trainings",
            "let one of the two start the program",
        )
    times = facts.times(outer)
    if times is None or times[0] * times[1] < 2:
        return None
    nodes, each = times
    if not inner.launcher.starts_processes():
        if inner.is_srun and inner.has("overlap"):
            return None
        return (
            f"{outer.kind} starts {inner.kind} {counted(nodes * each, 'time')}, and each starts "
            "all processes again",
            f"call {inner.kind} in the script itself, without {outer.kind}",
        )
    one_process = inner.count(*inner.launcher.counts) == 1
    if each > 1 and not (one_process and inner.launcher.endpoint):
        once = outer.launcher.once_per_node
        return (
            f"{outer.kind} starts {inner.kind} {counted(each, 'time')} on every node, and "
            f"{inner.kind} starts the processes of its node itself: that many separate trainings",
            (f"start one per node: {once}, or " if once else "") + f"leave {inner.kind} out",
        )
    if nodes < 2 or each != 1:
        return None
    # torchrun is for one node unless it is told of more, whatever meeting place it has.
    counts = {*inner.launcher.nodes} & {*inner.launcher.joins}
    alone = inner.launcher.endpoint and inner.certain and not inner.has(*counts)
    if inner.has(*inner.launcher.joins) and counts and alone and "PET_" not in facts.text:
        return (
            f"{inner.kind} is started on {nodes} nodes, and without --{min(counts)} each is for 1 "
            "node: they do not train together",
            f'write --{min(counts)}="$SLURM_NNODES"',
        )
    if not inner.has(*inner.launcher.joins) and inner.certain:
        return (
            f"{inner.kind} is started on {nodes} nodes, and nothing tells it of the others: "
            f"{nodes} separate trainings",
            f"add {_to_meet(facts, inner)}" if inner.launcher.endpoint else "name the nodes",
        )
    return None


def _too_many_tasks(facts: ScriptFacts, launch: Launch) -> Iterator[Violation]:
    """An srun of more tasks than the job has cores for."""
    count, plan = launch.count("ntasks"), facts.plan
    if not launch.is_srun or plan is None or launch.has("overcommit", "jobid"):
        return
    for word in launch.command.words:
        group = re.fullmatch(r"--(?:het|pack)-group=([1-9])", word.text)
        if group is not None:  # a job of one component has group 0
            yield Violation(
                f"there is no component {group[1]}: the job has one, and srun refuses this",
                "divide the directives into components: #SBATCH hetjob",
                place=word.place,
                severity=WARNING,
            )
            return
    for name in ("gres", "gpus_per_node"):
        gpus = re.fullmatch(
            r"(?:gpu:)?(?:[A-Za-z][\w.-]*:)?(\d{1,2})", launch.options.get(name, "")
        )
        has_gpus = plan.gpus_per_node
        if gpus and has_gpus and int(gpus[1]) > has_gpus:
            yield Violation(
                f"srun asks for {counted(int(gpus[1]), 'GPU')} on each node, and the job has "
                f"{has_gpus}: srun refuses it",
                f"request #SBATCH --gpus-per-node={gpus[1]}, or ask for {has_gpus} here",
                place=launch.place_of(name),
                severity=WARNING,
            )
            return
    yield from _gpus_of_none(facts, launch)
    width, most = launch.count("ntasks_per_node"), plan.partition.max_cores_per_node
    if width and most and width > most and count is None and not launch.has("hint"):
        yield Violation(
            f"srun starts {counted(width, 'task')} on each node, and nodes have "
            f"{counted(most, 'core')}",
            f"write --ntasks-per-node={most}",
            place=launch.place_of("ntasks_per_node"),
            severity=WARNING,
        )
    if count is None:
        return
    told = facts.has("ntasks", "ntasks-per-node") and facts.has("nodes", "ntasks")
    none = not facts.has("ntasks", "ntasks-per-node", "nodes", "cpus-per-task", "gpus", "gres")
    has, each = facts.tasks * plan.cpus_per_task, launch.count("cpus_per_task") or 1
    alone = facts.has("exclusive", "overcommit", "mincpus", "cpus-per-gpu")
    if (told or none) and not alone and count * each > has:
        what = counted(count, "task") + (f" of {counted(each, 'core')}" if each > 1 else "")
        more = f" --cpus-per-task={each}" if each > 1 else ""
        yield Violation(
            f"srun starts {what}, but the job has {counted(has, 'core')}: where nodes are shared, "
            "srun refuses this",
            f"request #SBATCH --ntasks={count}{more}, or start {facts.tasks} here",
            place=launch.place_of("ntasks"),
            severity=WARNING if told else NOTE,
        )


def _gpus_of_none(facts: ScriptFacts, launch: Launch) -> Iterator[Violation]:
    """An srun that asks for GPUs, in a job that has asked for none."""
    plan, asked = facts.plan, ("gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket")
    if plan is None or plan.gpus_per_node or facts.has("exclusive", "tres-per-task", *asked):
        return
    if facts.header.unread.intersection(asked) or plan.partition.gpus_per_node:
        return  # NC122 has its say
    if _GIVES_WHOLE_NODES.search(facts.whole_text):
        return
    for name in ITS_GPUS:
        if re.fullmatch(r"(gpu:)?([A-Za-z][\w.-]*:)?[1-9]\d?", launch.options.get(name, "")):
            yield Violation(
                "srun asks for GPUs, and the job requests none: srun refuses it, unless the site "
                "gives them with the partition",
                "request them: #SBATCH --gpus-per-node=…",
                place=launch.place_of(name),
                severity=NOTE,
            )
            return


@script_rule(ERROR, "NC622", "step that does not fit the job")
def larger_than_the_job(facts: ScriptFacts) -> Iterator[Violation]:
    plan = facts.plan
    if plan is None or facts.header.components > 1:
        return
    for top in facts.launches:
        yield from _too_many_tasks(facts, top)
    yield from islice((one for top in facts.launches for one in _too_few_slots(facts, top)), 1)
    for start in facts.starts:
        launch = start.launch
        # By any other option, it takes the nodes that there are.
        waits = {*launch.launcher.nodes} & {*launch.launcher.joins}
        count = launch.count(*launch.launcher.nodes) if launch.is_srun or waits else None
        if count is None or launch.has("jobid"):
            continue
        if waits and start.each != 1:
            continue  # each of the tasks of a node may stand for a node
        # With a rank and an address of its own, it may be one of several jobs.
        rank = launch.count(*launch.launcher.node_rank)
        of_several = rank is not None and launch.has(*launch.launcher.address)
        if facts.fixed_nodes and count > plan.nodes:
            ends = "srun refuses it" if launch.is_srun else "it waits for the others"
            yield Violation(
                f"{launch.kind} is for {counted(count, 'node')}, and the job has {plan.nodes}: "
                f"{ends}",
                f"request #SBATCH --nodes={count}, or use {plan.nodes} here",
                place=launch.place,
                severity=WARNING if of_several else None,
            )
        elif waits and start.nodes is not None and start.each == 1 and count < start.nodes:
            option = f"--{launch.launcher.nodes[0]}".replace("_", "-")
            alone = count == 1
            meet = "each trains alone" if alone else "the others wait in vain, or fail"
            yield Violation(
                f"{start.outer[-1].kind} starts {launch.kind} on {start.nodes} nodes, and each is "
                f"for {counted(count, 'node')}: {meet}",
                f'write {option}="$SLURM_NNODES"',
                place=launch.place,
                severity=WARNING if alone or launch.command.looped else None,
            )
    yield from _told_of_nodes(facts)


def _too_few_slots(facts: ScriptFacts, launch: Launch) -> Iterator[Violation]:
    """An mpirun of more processes than the job has tasks."""
    count, plan = launch.count(*launch.launcher.processes), facts.plan
    each = None if count is not None else _each_node(launch)
    if each and plan is not None and facts.fixed_nodes:
        count = each * plan.nodes
    if count is None and each is None:
        count = _cores_as_count(facts, launch)
    mpi = launch.launcher.uncounted == ALL and not launch.is_srun
    if not mpi or count is None or plan is None or launch.command.looped or not launch.certain:
        return
    by_others = launch.has("map_by", *launch.launcher.places) and not each
    if by_others or launch.has("oversubscribe", "use_hwthread_cpus", "host", "H", "hostfile"):
        return
    told = facts.has("ntasks", "ntasks-per-node") and facts.has("nodes", "ntasks")
    # Else, Slurm may count the tasks that fit the node, where jobs get whole ones.
    known = told or facts.has("nodes")
    if known and count > facts.tasks and not facts.has("exclusive", "overcommit"):
        yield Violation(
            f"{launch.kind} starts {counted(each or count, 'process')}"
            f"{' on each node' if each else ''}, and the job has "
            f"{counted(facts.tasks, 'task')}: Open MPI has a slot for each task, and refuses more",
            f"request #SBATCH --ntasks={count}, or start {facts.tasks} here",
            place=launch.place,
            severity=WARNING if told else NOTE,
        )


_OF_THE_CORES = re.compile(r"\"?\$\{?SLURM_(JOB_CPUS_PER_NODE|CPUS_ON_NODE)\}?\"?")


def _cores_as_count(facts: ScriptFacts, launch: Launch) -> Optional[int]:
    """The cores of the only node, where mpirun is told of as many processes."""
    if facts.plan is None or facts.plan.nodes > 1 or not facts.has("cpus-per-task"):
        return None
    given, _ = next(launch.written(*launch.launcher.processes), ("", None))
    return facts.plan.cores_per_node if _OF_THE_CORES.fullmatch(given) else None


def _each_node(launch: Launch) -> Optional[int]:
    """The processes of each node that mpirun is told of: ``-npernode 4``, ``ppr:4:node``."""
    if launch.has("map_by"):
        told = re.fullmatch(r"ppr:(\d{1,3}):node.*", launch.options.get("map_by", ""))
        return int(told[1]) if told else None
    return launch.count("npernode", "N")


def _own_ranks(facts: ScriptFacts) -> Iterator[Start]:
    """The programs that srun alone starts, several times, so that they find their own ranks."""
    for start in facts.starts:
        known = start.nodes is not None and start.each is not None
        own = is_own_program(start.launch) or start.launch.name.endswith("_perf")  # NVIDIA's tests
        program = own and not start.launched and start.outer
        if program and known and (start.nodes or 0) * (start.each or 0) > 1:
            yield start


_NODES_OF_A_PROGRAM = re.compile(r"(?:--|(?:[\w.]+\.)?)(?:num|n)?[_-]?nodes", re.IGNORECASE)


def _told_of_nodes(facts: ScriptFacts) -> Iterator[Violation]:
    """A program whose own words name another number of nodes than it starts on."""
    plan = facts.plan
    if plan is None or not (facts.fixed_nodes and plan.gpus_per_node):
        return
    for start in facts.starts:
        if start.launch.kind != PYTHON or start.nodes != plan.nodes or start.launch.has("c"):
            continue
        spread = plan.nodes > 1 or any(_SPREAD.search(word.raw) for word in start.launch.own_words)
        for word, count in counts_of_program(start.launch, _NODES_OF_A_PROGRAM):
            if count == plan.nodes or not 1 <= count <= (64 if spread else 16):
                continue
            yield Violation(
                f"the program is told of {counted(count, 'node')}, and it starts on {plan.nodes}",
                f"request #SBATCH --nodes={count}, or write {plan.nodes} here",
                place=word.place,
                severity=WARNING,
            )


_SPREAD = re.compile(
    r"(?i)--?[\w.]*(gpus|devices|trainer|strategy|accelerator|ddp|dist(ributed|_)|world|launcher)"
)
"""What a program has whose "nodes" are machines, and not those of a graph."""


def counts_of_program(launch: Launch, named: Pattern[str]) -> Iterator[Tuple[ShellWord, int]]:
    """The numbers that the words of a program give to options of such a name."""
    for pair in launch.pairs:
        text = pair.value.value or ""
        given = pair.joined or pair.name.startswith("-")
        if given and named.fullmatch(pair.name) and re.fullmatch("[0-9]{1,3}", text):
            yield pair.word, int(text)


@script_rule(WARNING, "NC623", "processes and GPUs of a launch differ", "by_absence")
def processes_and_gpus(facts: ScriptFacts) -> Iterator[Violation]:
    plan = facts.plan
    if plan is None or not plan.gpus_per_node:
        return
    starters = [
        start
        for start in facts.starts
        if start.launch.launcher.starts_processes() or start.launch.launcher.ssh
    ]
    same = {start.launch.count(*start.launch.launcher.counts) for start in starters}
    in_turn = len(same) == 1 and not any(start.launch.command.looped for start in starters)
    beside = any(start.launch.command.background for start in starters)
    alone, few = (len(starters) == 1 or in_turn) and not beside, False
    for start in starters:
        launch = start.launch
        has, where = plan.gpus_per_node, "per node"
        one_node = start.nodes == 1 and launch.count(*launch.launcher.nodes) in (None, 1)
        if launch.launcher.processes and not one_node:
            has, where = plan.nodes * plan.gpus_per_node, "in all"
        count = launch.count(*launch.launcher.counts)
        if count == 1:
            count = start.each  # more would be NC621
        if count is None or count == has or (count < has and (few or not alone)):
            continue
        few = few or count < has
        effect = "some of them share a GPU or fail" if count > has else "the other GPUs stay idle"
        yield Violation(
            f"{launch.kind} starts {counted(count, 'process')}, and the job has "
            f"{counted(has, 'GPU')} {where}: {effect}",
            f"start {has} here, or request {counted(count, 'GPU')}",
            place=launch.place,
        )
    yield from _told_of_gpus(facts, plan)
    yield from _of_lightning(facts, plan)
    yield from _numbered(facts, plan)
    # A training; other programs may well share a GPU.
    nccl = [
        variable
        for variable in facts.shell.assignments
        if variable.name.startswith(("MASTER_ADDR", "NCCL_"))
    ]
    for start in _own_ranks(facts) if nccl else ():
        if (start.each or 0) > plan.gpus_per_node:
            yield Violation(
                f"srun starts {counted(start.each or 0, 'process')} on each node, and the job has "
                f"{counted(plan.gpus_per_node, 'GPU')} there: some of them share a GPU or fail",
                f"start {plan.gpus_per_node} per node, or request more GPUs",
                place=start.outer[0].place,
            )


_GPUS_OF_A_PROGRAM = re.compile(
    r"(?:--|(?:[\w.]+\.)?)(?:(?:num|n)?[_-]?(?:gpus|devices)|n_?gpu|tensor[_-]parallel[_-]size)",
    re.IGNORECASE,
)


_MACHINES = re.compile("--num[-_]machines")


def _told_of_gpus(facts: ScriptFacts, plan: JobPlan) -> Iterator[Violation]:
    """A program whose own words name another number of GPUs than its node has for the job."""
    has, every_gpu = plan.gpus_per_node, plan.gpus_per_node * plan.nodes
    for start in facts.starts:
        command = start.launch.command
        in_turn = command.in_loop or not command.looped
        if start.launch.kind not in (PYTHON, PROGRAM) or not in_turn:
            continue
        for word, count in counts_of_program(start.launch, _GPUS_OF_A_PROGRAM):
            one_too_few = count == has - 1 and has > 2 and start.each == 1
            # Of as many tasks as GPUs, each is told of all.
            other = start.each == has and 1 < count < has
            beside = start.launch.command.background
            if count > 16 and "gpu" not in word.raw.lower():
                continue  # devices of another kind
            machines = counts_of_program(start.launch, _MACHINES)
            if any(number > 1 for _, number in machines):
                every_gpu = has  # those of each machine
            if (count > has and count != every_gpu) or ((one_too_few or other) and not beside):
                fails = count > has or other
                short = "it fails, or waits for the others" if fails else "1 GPU stays idle"
                yield Violation(
                    f"the program is told of {counted(count, 'GPU')}, and the job has {has} per "
                    f"node: {short}",
                    f"request {counted(count, 'GPU')}, or write {has} here",
                    place=word.place,
                )


_OF_ITS_TRAINER = re.compile(r"(?:--)?(?:\w+\.)*trainer\.(?:devices|gpus)")
_DEVICES = re.compile(r"--(?:num[-_])?(?:devices|gpus)")
_NODES_OF_IT = re.compile(r"(?:--)?(?:[\w.]+\.)?num[-_]nodes")


def _of_lightning(facts: ScriptFacts, plan: JobPlan) -> Iterator[Violation]:
    """Lightning, which under srun wants as many tasks on a node as it is told of GPUs."""
    for start in facts.starts:
        launch = start.launch
        by_srun = bool(start.outer) and all(
            run.is_srun or not run.is_launcher for run in start.outer
        )
        if launch.kind != PYTHON or start.each != 1 or not by_srun or start.launched:
            continue
        words = " ".join(launch.texts)
        if re.search(r"(?i)spawn|strategy[= ](dp|auto_?single)\b", words):
            continue
        named = [*counts_of_program(launch, _OF_ITS_TRAINER)]
        if any(counts_of_program(launch, _NODES_OF_IT)):
            named = named or [*counts_of_program(launch, _DEVICES)]
        for word, count in named[:1]:
            if 1 < count <= plan.gpus_per_node:
                yield Violation(
                    f"Lightning starts no processes under srun: for {counted(count, 'GPU')} it "
                    f"wants {count} tasks on each node, and srun starts 1: it refuses, or waits",
                    f"write #SBATCH --ntasks-per-node={count}",
                    place=word.place,
                )
                return


_NUMBERS = re.compile(
    r"--?(?:[\w.]+\.)?(?P<ids>(?:gpu|device|cuda)[_-]?(?:ids?|index|list)|visible_?devices)?"
    r"(?P<some>gpus?|devices?)?"
)


def _numbered(facts: ScriptFacts, plan: JobPlan) -> Iterator[Violation]:
    """A program that is told the numbers of GPUs, of which the job has not so many."""
    has, told = plan.gpus_per_node, set()
    for launch in facts.every_launch if not facts.shell.assigned("CUDA_VISIBLE_DEVICES") else ():
        for pair in launch.pairs:
            match, place = _NUMBERS.fullmatch(pair.name), pair.word.place
            if match is None or place in told or not (match["ids"] or match["some"]):
                continue
            value = pair.value.text
            numbers = re.fullmatch(r"""["'[]*((?:cuda:)?\d{1,2}(?:, ?\d{1,2})*)[]"',]*""", value)
            listed = [int(number) for number in re.findall(r"\d+", numbers[1])] if numbers else []
            named = match["ids"] or "," in value or value.startswith("cuda:")
            if named and listed and max(listed) >= has:
                told.add(place)
                yield Violation(
                    f"there is no GPU {max(listed)}: the job has {counted(has, 'GPU')} per node, "
                    "numbered from 0",
                    f"request {counted(max(listed) + 1, 'GPU')}, or write 0"
                    + (f" to {has - 1}" if has > 1 else ""),
                    place=place,
                )


_TOOLS = """
build compileall ensurepip http ipykernel json jupyter mpi4py nltk notebook pip pytest site spacy
timeit unittest venv virtualenv wheel zipfile
""".split()  # noqa: SIM905


def is_own_program(launch: Launch) -> bool:
    """Whether it is a program of the user's, started as it is and on purpose alone."""
    known = launch.kind == PYTHON and launch.options.get("script") not in ("", UNKNOWN)
    # One Python file that is given another may well be a launcher: python launch.py train.py
    files = [word for word in launch.own_words[1:] if word.basename.endswith(".py")]
    known = known and len(files) < 2
    module = launch.options.get("m", "")
    tool = module.partition(".")[0] in _TOOLS or module.endswith("collect_env")
    return known and not launch.has("c") and not tool and not launch.command.captured


_USUAL = (
    *("python", "python3", "srun", "sbatch", "mpirun", "torchrun"),
    *("module", "conda", "source", "export", "mkdir", "nvidia-smi", "singularity", "apptainer"),
)


def _mixed(word: str, meant: str) -> bool:
    """Whether a word has the letters of a command in another order, or one letter more or less."""
    if abs(len(word) - len(meant)) > 2:
        return False
    near = word[0] == meant[0] and len(word) > 5 and close_matches(word, [meant], cutoff=0.9)
    return sorted(word) == sorted(meant) or bool(near)


COMPILES = re.compile(
    r"gcc|g\+\+|cc|clang(\+\+)?|nvcc|hipcc|i(cc|cpc|fort|cx|cpx|fx)|gfortran|mpi\w+"
)
_SOURCE = re.compile(r"[\w./-]+\.(c|cc|cpp|cxx|cu|f|f90|F90|hip)")


def _overwrites_source(facts: ScriptFacts) -> Iterator[Violation]:
    """``nvcc a -o a.cu``: the compiler is to write what it should read."""
    for command in facts.shell.commands:
        words = [word.value or "" for word in command.words]
        if not COMPILES.fullmatch(command.name) or "-o" not in words[:-1]:
            continue
        word = command.words[words.index("-o") + 1]
        if _SOURCE.fullmatch(word.value or "") and "-E" not in words:
            yield Violation(
                f"{command.name} is to write {word.value}, a source file: behind -o stands what it "
                "makes",
                f"write {command.name} {word.value} -o {(word.value or '').rpartition('.')[0]}",
                place=word.place,
                severity=WARNING,
            )
            return


def _reads_nothing(facts: ScriptFacts) -> Iterator[Violation]:
    """A Python without a program, which reads it from a job's empty standard input."""
    for launch in facts.every_launch:
        options = [word.raw for word in launch.own_words[1:]]
        other = any(not re.fullmatch("-[BEIOPSsuvqx]+", option) for option in options)
        line = facts.lines[launch.place.line - 1]
        bare = names_python(launch.name) and not other and not launch.place.within
        if not bare or launch.command.captured or launch.command.piped:
            continue
        if not (facts.has("input") or re.search("[<|]", line)):
            yield Violation(
                f"{launch.word.raw} has no program, and a job's standard input is empty: it ends "
                "at once",
                f"write the program behind it: {launch.word.raw} main.py",
                place=launch.place,
                severity=WARNING,
            )


def _backslash_quotes(facts: ScriptFacts) -> Iterator[Violation]:
    r"""``python -c '… \"…\" …'``: single quotes keep the backslashes, which Python cannot read."""
    for launch in facts.every_launch if facts.header.for_bash else ():
        for flag, word in zip(launch.own_words, launch.own_words[1:]):
            code = word.value or ""
            quoted = flag.raw == "-c" and word.raw.startswith("'") and word.raw.endswith("'")
            mended = code.replace('\\"', '"')
            if launch.kind == PYTHON and quoted and not _reads(code) and _reads(mended):
                yield Violation(
                    'single quotes keep the backslash of \\", and Python cannot read it: '
                    "SyntaxError",
                    'write " without the backslash',
                    place=word.place,
                    severity=WARNING,
                )


def _reads(code: str) -> bool:
    """Whether Python can read a text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python's about escapes
            ast.parse(code[:_LONGEST_CODE])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


_LONGEST_CODE = 2000


@script_rule(ERROR, "NC665", "program that is no program")
def no_program(facts: ScriptFacts) -> Iterator[Violation]:
    """As srun and mpirun do it (tried on 22.05): they are no shells."""
    for launch in facts.every_launch:
        variable = re.match(r"[A-Za-z_]\w*=", launch.word.raw)
        if launch.kind == PROGRAM and variable and launch.word != launch.command.words[0]:
            yield Violation(
                f"{launch.word.raw} is taken for the name of a program, which does not exist",
                f"write env {variable[0]}…, or set it before the command",
                place=launch.place,
            )
        if launch.kind == PYTHON and launch.options.get("script") in ("python", "python3"):
            yield Violation(
                "the first python runs a file named python, and there is none as a rule",
                "write python once",
                place=launch.place,
                severity=WARNING,
            )
        module = launch.options.get("m", "") if launch.kind == PYTHON else ""
        if module.endswith(".py"):
            yield Violation(
                f"python -m takes the name of a module, and {module} is not one",
                f"write python {module}, or python -m {module[:-3]}",
                place=launch.place,
            )
    yield from _overwrites_source(facts)
    yield from _reads_nothing(facts)
    yield from _backslash_quotes(facts)
    for launch in facts.every_launch:
        source = re.fullmatch(r".*\.(m|c|cc|cpp|f90|ipynb|csv|txt|ya?ml|json)", launch.word.text)
        own = launch.word.raw.startswith((".", "/")) and not launch.command.captured
        if source and own and launch.kind == PROGRAM:
            yield Violation(
                f"{launch.word.text} is no program: the system cannot start it",
                {
                    "m": "write matlab -batch NAME",
                    "ipynb": "write jupyter nbconvert --execute --to notebook",
                }.get(source[1], "write the program that reads it, or the one that is made of it"),
                place=launch.place,
                severity=WARNING,
            )
            return
    for command in facts.shell.commands if facts.header.for_bash else ():
        words = [word.raw for word in command.words[:2]]
        if len(words) == 1 and re.fullmatch(r"~|/(home|scratch)/[\w-]+|[\w.~/-]+/", words[0]):
            yield Violation(
                f"{words[0]} is a directory, and no command",
                f"write cd {words[0]}",
                place=command.place,
                severity=WARNING,
            )
            continue
        if words and re.match(r"//+ ?\w*$", words[0]):
            yield Violation(
                f"{words[0]} begins no remark in bash, which looks for a program of this name",
                "write #",
                place=command.place,
                severity=WARNING,
            )
            continue
        if words and re.match(r"[!%][a-z]", words[0]):
            yield Violation(
                f"there is no command {words[0]}: this is a notebook's",
                f"write {words[0][1:]}",
                place=command.place,
                severity=WARNING,
            )
            continue
        swapped = words == ["load", "module"]
        known = command.name in _USUAL or names_python(command.name) or words[1:] == ["="]
        meant = (
            []
            if known or len(words) < 2 or not command.sure
            else [usual for usual in _USUAL if _mixed(words[0], usual)]
        )
        defined = (
            re.search(rf"(?m)^[ \t]*(function |alias )?{re.escape(words[0])}\b *[(=]", facts.text)
            if meant
            else None
        )
        if swapped or (meant and not defined):
            yield Violation(
                f"there is no command {command.name}",
                "write module load" if swapped else f"write {meant[0]}",
                place=command.place,
                severity=WARNING,
            )


@script_rule(WARNING, "NC624", "program that starts once", "by_absence")
def starts_once(facts: ScriptFacts) -> Iterator[Violation]:
    plan = facts.plan
    if plan is None or facts.tasks < 2:
        return
    if facts.uses_launcher:
        yield from _launcher_once(facts, plan)
        yield from _nodes_left_out(facts, plan)
        return
    built = _built_for_mpi(facts)
    programs = [
        start.launch
        for start in facts.starts
        if (is_own_program(start.launch) or _is_mpi(start.launch, built))
        and not any(outer.command.background or outer.command.looped for outer in start.outer)
    ]
    elsewhere = {*_GO_ELSEWHERE} - {"ray"}
    if re.search(r"(?i)parsl|dask", facts.text):
        return  # which start their workers themselves
    spread = plan.nodes > 1 or not facts.fixed_nodes
    if spread and elsewhere.isdisjoint(launch.name for launch in facts.launches):
        programs += [launch for launch in facts.launches if _alone(launch)]
    programs = [each for each in programs if not (each.command.background and _serves(each))]
    # Several side by side, or in a loop, may well be what the tasks are for; not those of others.
    if programs and not any(
        launch.command.background
        or (launch.command.looped and not (launch.command.in_loop and plan.nodes > 1))
        for launch in programs
    ):
        # On one node, tasks are often asked for where cores are meant.
        several = any(map(takes_several, programs)) or facts.shell.assigned("CUDA_VISIBLE_DEVICES")
        alone = plan.nodes == 1
        if alone and any(map(_starts_its_own, programs)):
            return
        cores = alone and (facts.tasks != plan.gpus_per_node or bool(several))
        meant = f", or, if cores are meant, request --ntasks=1 --cpus-per-task={facts.tasks}"
        if alone and not cores:
            # Such as TensorFlow's MirroredStrategy, and PyTorch's DataParallel.
            meant = ", unless it uses all the GPUs by itself: then request --ntasks=1"
        told = any(_told_of_tasks(facts, each) for each in programs)
        if told and alone:
            return
        where = counted(plan.nodes, "node")
        yield Violation(
            f"this starts once, on the first node: the job has {counted(facts.tasks, 'task')} on "
            f"{where}, which nothing starts" + (", unless it starts them itself" if told else ""),
            "put srun before it to start it in every task"
            + (meant if alone else ", or request --ntasks=1"),
            place=programs[-1].place,
            severity=NOTE if alone or told else WARNING,
        )
    elif not programs and plan.nodes > 1 and facts.fixed_nodes:
        yield from _script_once(facts, plan)


_OWN_PROCESSES = re.compile(
    r"(?i)--?(\w+[-_])?(multi-?process\w*|spawn\w*|n_?jobs|num[-_]?procs?)\b"
)


_HOW_MANY = re.compile(
    r"(?i)--?([\w.-]*[-_])?n?(gpus?|procs?|processes|tasks?|ranks?|cores|cpus|mpi|p)|-n"
)


def _told_of_tasks(facts: ScriptFacts, launch: Launch) -> bool:
    """Whether a program is told how many tasks the job has, and may start them itself."""
    plan = facts.plan
    if plan is None or (1 < plan.nodes >= facts.tasks):
        return False  # the number may be that of the nodes
    counts = (str(facts.tasks), "$SLURM_NTASKS", "${SLURM_NTASKS}")
    return any(
        _HOW_MANY.fullmatch(pair.name) and pair.value.text.strip("\"'") in counts
        for pair in launch.pairs
    )


def _starts_its_own(launch: Launch) -> bool:
    """Whether a program is told to start processes of its own."""
    return any(_OWN_PROCESSES.match(word.raw) for word in launch.own_words[1:])


def _serves(launch: Launch) -> bool:
    """Whether it is a server, which its clients are started beside."""
    return launch.name in ("ollama", "vllm") or "server" in launch.options.get("m", "")


def _the_others(plan: JobPlan) -> str:
    """The nodes behind the first one, and what they do."""
    if plan.nodes == 2:
        return "the other node of the job does"
    return f"the {plan.nodes - 1} other nodes of the job do"


def _script_once(facts: ScriptFacts, plan: JobPlan) -> Iterator[Violation]:
    """Another script, or a program of one's own, which starts once in a job of several nodes."""
    others = ONLY_PREPARES | facts.functions
    works = [
        launch
        for launch in facts.launches
        if not (launch.command.captured or is_trifle(launch)) and launch.name not in others
    ]
    last = works[-1] if len(works) == 1 else None
    if last is None or last.command.background or last.command.looped or last.file:
        return
    file = last.word if last.kind == PROGRAM else (last.own_words[1:2] or (last.word,))[0]
    script = re.search(r"\.(sh|bash)$", file.text.strip("\"'")) is not None
    own = last.kind == PROGRAM and re.match(r"\"?(\.|~|\$HOME|/home|/scratch)", last.word.raw)
    if script or (own and not last.inside and last.name not in _GO_BY_THEMSELVES):
        calls = "calls srun" if script else "goes to the others by"
        yield Violation(
            f"{file.basename or file.raw} starts once, on the first node of {plan.nodes}: unless "
            f"it {calls} itself, {_the_others(plan)} nothing",
            "put srun before it to start it in every task, or request --nodes=1",
            place=last.place,
            severity=NOTE,
        )


_OF_MPI = re.compile(
    r"\w+[_.-]mpi|lmp|vasp_(std|gam|ncl)|(pw|ph|cp|neb)\.x|cp2k\.p(opt|smp)|siesta|nwchem|abinit"
    r"|xhpl|(wrf|real)\.exe|pmemd\.MPI|sander\.MPI"
)
_COMPILER = re.compile(r"mpi(i?cc|i?cxx|icpc|c\+\+|i?f(77|90|08|ort)|icx|icpx|ifx)")


def _built_for_mpi(facts: ScriptFacts) -> Set[str]:
    """The names of the programs that this script builds with one of MPI's compilers."""
    built: Set[str] = set()
    for command in facts.shell.commands:
        if _COMPILER.fullmatch(command.name):
            words = [word.text for word in command.words]
            made = words[words.index("-o") + 1 :][:1] if "-o" in words else ["a.out"]
            built.update(name.rpartition("/")[2] for name in made)
    return built - {""}


def _is_mpi(launch: Launch, built: Set[str]) -> bool:
    """Whether its name says that it is built for MPI, or this script builds it so."""
    if launch.kind != PROGRAM or launch.command.captured:
        return False
    return launch.name in built or _OF_MPI.fullmatch(launch.name) is not None


_GO_BY_THEMSELVES = ("charmrun", "nextflow", "orca", "g16", "ams", "fluent", "starccm+", "molpro")
"""Programs that start themselves on other nodes."""
_ALONE = (
    *("Rscript", "matlab", "snakemake", "ray", "vllm", "ollama", "yolo", "gmx", "julia"),
    *("jupyter", "jupyter-lab", "jupyter-notebook", "rserver", "rstudio-server", "code-server"),
)


def _alone(launch: Launch) -> bool:
    """Whether it is a program that goes to no other node by itself."""
    return launch.kind == PROGRAM and launch.name in _ALONE and not launch.command.captured


def _launcher_once(facts: ScriptFacts, plan: JobPlan) -> Iterator[Violation]:
    """A launcher that starts the processes of one node, in a job of several."""
    if plan.nodes < 2 or not facts.fixed_nodes:
        return
    found = [start for start in facts.starts if _for_one_node(start)]
    tops = {id(start.outer[0] if start.outer else start.launch) for start in found}
    if any(_reaches_others(run) for run in facts.launches if id(run) not in tops):
        return
    if any(command.words and not command.name for command in facts.shell.commands):
        return  # what is not known may start something
    for start in found[-1:]:
        launch = start.launch
        count = launch.count(*launch.launcher.nodes)
        asks = {*launch.launcher.nodes} & {*launch.launcher.joins}
        waits = bool(asks) and count is not None and 1 < count <= plan.nodes
        rank = launch.count(*launch.launcher.node_rank)
        if rank and launch.has(*launch.launcher.address):
            continue  # somebody else is the first
        effect = f"{_the_others(plan)} nothing"
        if count is not None and waits:
            effect = f"it waits for {counted(count - 1, 'more node')}, on which nothing starts"
        srun = next((other.once_per_node for other in every() if other.name == "srun"), "srun")
        needs = _to_meet(facts, launch)
        each = f"start it on each: {srun} {launch.kind} …" + (f", with {needs}" if needs else "")
        if not asks:
            names = launch.launcher.joins or launch.launcher.places[1:]
            each = f"name the nodes with --{names[0]}".replace("_", "-")
            if names[0] == "hostfile":
                slots = f"s/$/ slots={plan.gpus_per_node or 1}/"
                made = f"scontrol show hostnames | sed '{slots}' > hosts.txt"
                each += f" hosts.txt, and before it {made}"
        yield Violation(
            f"{launch.kind} starts once, on the first node of {plan.nodes}: {effect}",
            f"{each}; or request --nodes=1",
            place=launch.place,
            severity=ERROR if waits and rank is None and launch.command.sure else None,
        )


_SPREADS = "map_by rank_by bynode npernode pernode N ppn perhost rankfile rf distribution host H"


def _nodes_left_out(facts: ScriptFacts, plan: JobPlan) -> Iterator[Violation]:
    """An mpirun of fewer processes than would reach the last node: it fills one after the other."""
    each = digits(facts.header.value("ntasks-per-node"))
    if plan.nodes < 2 or not facts.fixed_nodes or not each or facts.has("ntasks"):
        return
    unknown = any(command.words and not command.name for command in facts.shell.commands)
    runs = [launch for launch in facts.launches if launch.is_launcher or not launch.certain]
    most = 0
    for launch in runs:
        count = launch.count(*launch.launcher.processes)
        fills = launch.launcher.uncounted == ALL and not (launch.is_srun or launch.launcher.ssh)
        if not (fills and launch.certain and count) or launch.command.background or unknown:
            return
        if launch.has(*_SPREADS.split(), *launch.launcher.places) or launch.command.looped:
            return
        most = max(most, count)
    nodes = -(-most // each)
    if not most or nodes >= plan.nodes:
        return
    if plan.gpus_per_node and any(is_own_program(run) for top in runs for run in top.below()):
        return  # NC625 has its say
    for launch in runs:
        if launch.count(*launch.launcher.processes) == most:
            idle = plan.nodes - nodes
            yield Violation(
                f"{launch.kind} starts {counted(most, 'process')}, and {counted(each, 'task')} fit "
                f"a node: {idle} of the job's {plan.nodes} nodes {'do' if idle > 1 else 'does'} "
                "nothing",
                f"request --nodes={nodes}, start {plan.nodes * each}, or spread them: --map-by "
                "node (Open MPI)",
                place=launch.place,
            )
            return


def _for_one_node(start: Start) -> bool:
    """Whether it is the only start of a launcher that starts the processes of its node."""
    launch, launcher = start.launch, start.launch.launcher
    # By ssh, horovodrun starts them on the nodes that it is told of.
    here = launcher.starts_processes() or (launcher.ssh and not launch.has(*launcher.places))
    if not here or any(outer.is_launcher for outer in start.outer):
        return False
    # torchrun goes to no other node by itself, whatever options a variable may hold.
    if not launch.certain and not launch.launcher.endpoint:
        return False
    if launch.command.captured or launch.has("help", "h"):
        return False
    # With a file of hosts, or of settings, it may go to the other nodes by itself.
    return not any("host" in name or "config" in name for name in launch.options)


_GO_ELSEWHERE = ("ssh", "pdsh", "pssh", "clush", "parallel", "ray", "dask", "flux")


def _reaches_others(launch: Launch) -> bool:
    """Whether it may start work of the job's on other nodes than the first."""
    if launch.name in _GO_ELSEWHERE or not launch.certain:
        return True
    if launch.is_launcher and not launch.launcher.starts_processes():
        return not launch.inside or not all(is_trifle(inner) for inner in launch.below())
    return any(_reaches_others(inner) for inner in launch.inside)


_SEVERAL = re.compile(
    r"--?[\w.-]*(gpus|n_?gpu|num[_-]gpu|devices|parallel|world[_-]size)", re.IGNORECASE
)


def takes_several(program: Launch) -> bool:
    """Whether it is told how many GPUs to use."""
    return any(_SEVERAL.match(word.raw) for word in program.own_words[1:])


_TRIFLES = ("hostname", "nvidia-smi", "echo", "date", "env", "printenv", "ls", "uname", "which")


def is_trifle(launch: Launch) -> bool:
    """Whether it does no work of the job's."""
    return launch.name in _TRIFLES


_NO_CORES = (ONLY_PREPARES | SHORT | TELLS) - {".", "eval", "exec", "source"}
"""What is as fast on one core."""


@script_rule(NOTE, "NC626", "srun without the cores of its tasks")
def cores_of_tasks(facts: ScriptFacts) -> Iterator[Violation]:
    given = facts.given("cpus-per-task")
    if given is None or facts.plan is None or facts.plan.cpus_per_task < 2:
        return
    if facts.shell.assigned("SRUN_CPUS_PER_TASK"):
        return
    for launch in facts.launches:
        if not launch.is_srun or not (launch.certain or _holds_no_cores(facts, launch)):
            continue
        if launch.has("cpus_per_task", "exact", "exclusive", "whole", "overlap", "cpus_per_gpu"):
            continue
        if "none" in launch.options.get("cpu_bind", ""):
            continue
        below = [*launch.below()]
        what = [inner for inner in below if not (inner.kind == SHELL and inner.has("c"))]
        work = any(inner.name not in _NO_CORES for inner in what)
        if not launch.certain or work:
            edits: Tuple[Edit, ...] = ()
            line = facts.lines[launch.place.line - 1]
            # It is no variable, and no text that another shell reads.
            if line[launch.place.column - 1 : launch.place.end - 1].rstrip("'\"").endswith("srun"):
                behind = SourceSpan(launch.place.line, launch.place.end, launch.place.end)
                edits = (Edit(behind, ' --cpus-per-task="$SLURM_CPUS_PER_TASK"'),)
            yield Violation(
                "since Slurm 22.05, srun does not take --cpus-per-task from the job: each task may "
                f"get 1 core and not {facts.plan.cpus_per_task}",
                'write srun --cpus-per-task="$SLURM_CPUS_PER_TASK"',
                place=launch.place,
                edits=edits,
            )


def _holds_no_cores(facts: ScriptFacts, launch: Launch) -> bool:
    """Whether what stands before the program is seen, and says nothing of cores."""
    words = launch.own_words[1:]
    made = [each for word in words for name in word.names for each in facts.shell.assigned(name)]
    first = next((word for word in words if not word.raw.startswith("-")), None)
    if first is None or not first.names or not all(map(facts.shell.assigned, first.names)):
        return False
    text = " ".join([*(each.word.raw for each in made), *(word.raw for word in words)])
    return re.search(r"cpus|cores|exact|exclusive|overlap|(^|\s)-c\b|\$[@*]", text) is None


@script_rule(WARNING, "NC627", "step that waits for another")
def steps_in_turn(facts: ScriptFacts) -> Iterator[Violation]:
    """As Slurm 22.05, 24.11, and 26.05 do it (tried there)."""
    yield from _one_by_one(facts)
    if facts.plan is None or facts.header.components > 1:
        return
    waits = [command.place.line for command in facts.shell.calls("wait")]
    sruns = [launch for launch in facts.launches if launch.is_srun and not launch.command.captured]
    for at, first in enumerate(sruns):
        what = _takes_all(facts, first)
        if not what or not first.command.background:
            continue
        own = first.command.in_loop and not any(
            command.in_loop for command in facts.shell.calls("wait")
        )
        if own and _same_nodes(facts, first, first):
            yield Violation(
                f"the steps of this loop wait for one another: each has all {what} of the job",
                _SHARES,
                place=first.place,
            )
            return
        if not first.command.sure:
            continue
        # A wait that is surely reached before the next step ends this one.
        for second in sruns[at + 1 :]:
            lines = range(first.place.line, second.place.line)
            if any(line in lines for line in waits):
                break
            if _same_nodes(facts, first, second) and _takes_all(facts, second, what):
                yield Violation(
                    f"this step waits until the one of line {first.place.line} has ended, which "
                    f"has all {what} of the job",
                    f"write srun --overlap in both if they share them; or {_SHARES}",
                    place=second.place,
                )
                return


def _one_by_one(facts: ScriptFacts) -> Iterator[Violation]:
    """``for …; do a & wait; done``: each turn waits for its own program."""
    if "trap" in facts.text:
        return  # so a trap may run meanwhile
    beside = [each for each in facts.shell.commands if each.background and each.words]
    waits = [wait for wait in facts.shell.calls("wait") if wait.in_loop and not wait.arguments]
    for wait in waits[:50]:
        loop = facts.innermost_loop.get(wait.place.line)
        text = facts.lines[wait.place.line - 1]
        if loop is None or re.search(r"\bif\b|&&|\|\|", text):
            continue
        first, last = loop
        own = [each for each in beside if first <= each.place.line <= last]
        above = facts.lines[first - 1 : wait.place.line]
        if any(re.search(r"^\s*(if|elif|case)\b|\bwait -n|\$\{?!", text) for text in above):
            continue
        line = own[0].place.line if len(own) == 1 and own[0].in_loop else 0
        # In a loop of its own, it is several.
        if 0 < line <= wait.place.line and facts.innermost_loop.get(line) == loop:
            if own[0].name in ("sleep", "echo", "tail", "nvidia-smi"):
                continue
            yield Violation(
                f"each turn of this loop waits for its own {own[0].words[0].raw}: they run one "
                "after the other, in spite of &",
                "write wait behind done",
                place=wait.place,
            )
            return


_SHARES = "give each its share: srun --exact --ntasks=… --cpus-per-task=… --gpus=…"
_ITS_CORES = ("exact", "exclusive", "cpus_per_task", "threads_per_core", "cpus_per_gpu")
ITS_GPUS = ("gres", "gpus", "gpus_per_task", "gpus_per_node", "gpus_per_socket", "tres_per_task")


def _takes_all(facts: ScriptFacts, launch: Launch, like: str = "") -> str:
    """What an srun takes all of that the job has on its nodes, or needs of it: "" for nothing.

    like: what another one takes all of.
    """
    if launch.has("overlap", "jobid", "het_group") or not launch.certain:
        return ""
    short = [inner for inner in launch.below() if is_trifle(inner)]
    words = " ".join(word.raw for inner in short[:1] for word in inner.command.words)
    if short and not like and not re.search(r" -l|loop| dmon", words):
        return ""
    if like == "cores":
        return like
    no_gpus = re.fullmatch(r"(none|.*\b0)", launch.options.get("gres", ""))
    if like:
        return "" if no_gpus else like
    if not launch.has(*_ITS_CORES) and not facts.shell.assigned("SRUN_CPUS_PER_TASK"):
        return "cores"
    gpus = facts.plan is not None and facts.plan.gpus_per_node
    return "GPUs" if gpus and not launch.has(*ITS_GPUS) else ""


def _same_nodes(facts: ScriptFacts, first: Launch, second: Launch) -> bool:
    """Whether two sruns surely share a node."""
    chosen = ("nodelist", "nodefile", "exclude", "relative", "distribution", "multi_prog")
    if first.has(*chosen) or second.has(*chosen):
        return False
    widths = [facts.times(launch) for launch in (first, second)]
    if facts.plan is None or not facts.fixed_nodes or None in widths:
        return False
    return sum(width[0] for width in widths if width is not None) > facts.plan.nodes


_GIVES_WHOLE_NODES = re.compile(r"(?i)\bdaint\b|daint-gpu|\bCRAY_CUDA|frontier|\bolcf")
"""Signs of a site whose nodes come whole, with their GPUs."""


_DRIVER = re.compile(r"libcuda\.so|libnvidia|/dev/nvidia")
"""What a line binds that makes the driver visible by hand."""


def _behind_the_program(facts: ScriptFacts) -> Iterator[Violation]:
    """``singularity exec x.sif ./prog --nv``, where the program gets --nv."""
    for command in facts.shell.calls(*CONTAINERS):
        own = command.words[2:] if command.arguments[:1] in (("exec",), ("run",)) else ()
        behind = container_options([word.outline for word in own])[1]
        for word in own[len(own) - len(behind) + 2 :] if len(behind) > 2 else ():
            if word.raw in ("--nv", "--rocm", "--nvccli") and not behind[0].startswith("\0"):
                yield Violation(
                    f"{word.raw} stands behind the program, which gets it: {command.name} reads "
                    "its options before the image alone",
                    f"write {word.raw} behind {command.arguments[0]}",
                    place=word.place,
                )
                return


@script_rule(WARNING, "NC663", "container that sees no GPU", "by_absence")
def blind_container(facts: ScriptFacts) -> Iterator[Violation]:
    yield from _behind_the_program(facts)
    if facts.plan is None or not facts.plan.gpus_per_node:
        return
    for command in facts.shell.calls("docker"):
        words = [word.raw for word in command.words[1:]]
        told = re.search(r"--gpus|--runtime|--device|nvidia", " ".join(words))
        if words[:1] == ["run"] and not told and not command.captured and not command.background:
            yield Violation(
                "without --gpus, the container sees no GPU",
                "write docker run --gpus all",
                place=command.place,
            )
    if not any(name in facts.text for name in CONTAINERS):
        return
    found = [
        (command, command.words[at + 1 : at + 3])
        for command in facts.shell.commands
        for at, word in enumerate(command.words)
        if (word.value or "").rpartition("/")[2] in CONTAINERS
        and command.words[at + 1 : at + 2]
        and command.words[at + 1].value in ("exec", "run")
    ]
    # A container for AMD's GPUs has all that it needs, but for the devices, which are there.
    amd = "mi" in (facts.plan.partition.gpu or "") or re.search(
        r"(?i)rocm|\bmi\d\d|hip|amd|miopen|rccl|\blumi[-/_]|\b(standard|small|dev)-g\b", facts.text
    )
    sees = amd or re.search(r"--nv|(SINGULARITY|APPTAINER)_NV", facts.text)
    runs = [command for command, _ in found]
    # An image below a directory is one word, whatever the directory is.
    hidden = any(
        word.may_be_several and not re.search(r"/[\w.-]+$", word.raw)
        for _, own in found
        for word in own
    )
    hidden = hidden or any(
        _DRIVER.search(word.raw) for command in runs for word in command.words[1:]
    )
    if runs and not sees and not hidden and not runs[-1].captured:
        yield Violation(
            "without --nv, the container has no driver of the GPUs: the program runs on the CPU, "
            "or fails, unless the site has set 'always use nv'",
            "write --nv behind exec or run",
            place=runs[-1].place,
        )


_MEETS = re.compile(
    r"--?((master|head|dist|init|server|coordinator)[_-]?(addr(ess)?|ip|url|method|node)"
    r"|coordinator|rendezvous([_-]endpoint)?)"
)


def meeting_places(run: Launch) -> Iterator[Tuple[str, SourceSpan]]:
    """Where the words of a program of Python's say that its processes meet."""
    for pair in run.pairs if run.kind == PYTHON else ():
        if _MEETS.fullmatch(pair.name):
            yield pair.value.outline.rpartition("//")[2], pair.word.place
