"""NC3xx: options that contradict each other, or the launcher."""

from __future__ import annotations

import re
import signal as signals
from typing import Iterator, List, Optional, Tuple

from neuronctl import units
from neuronctl.launch import launchers
from neuronctl.launch.launchers import Launcher
from neuronctl.rule_codes import ERROR, WARNING
from neuronctl.rules.base import RuleContext, Violation, rule
from neuronctl.shell import join, quote
from neuronctl.words import counted, verb


@rule("NC301")
def tasks_and_nodes(context: RuleContext) -> Iterator[Violation]:
    plan, request = context.plan, context.plan.request
    if request.ntasks is None:
        return
    total = plan.nodes * plan.ntasks_per_node
    if request.ntasks == total:
        return
    if request.ntasks_per_node is None:
        more = plan.nodes * -(-request.ntasks // plan.nodes)
        yield Violation(
            f"{counted(request.ntasks, 'task')} on {counted(plan.nodes, 'node')}: neuronctl "
            "starts as many on every node",
            f"take --ntasks={more}" + (f" or --ntasks={total}" if total < more else ""),
        )
    else:
        yield Violation(
            f"--ntasks={request.ntasks} and {counted(plan.nodes, 'node')} x "
            f"{counted(plan.ntasks_per_node, 'task')} a node = {counted(total, 'task')} contradict "
            "each other",
            f"say -N and --ntasks-per-node only, or --ntasks={total}",
        )


@rule("NC302")
def one_task_a_node(context: RuleContext) -> Iterator[Violation]:
    plan, launcher = context.plan, context.plan.launcher
    if launcher.starts_processes() and plan.ntasks_per_node > 1:
        yield Violation(
            f"{plan.ntasks_per_node} tasks a node are asked for, and {launcher.name} starts "
            f"{counted(plan.processes_per_node, 'process')} in each: it wants one task a node",
            "leave --ntasks-per-node out, or take --launcher srun",
        )


@rule("NC303")
def one_process(context: RuleContext) -> Iterator[Violation]:
    plan = context.plan
    if plan.launcher.distributed or plan.interactive:
        return
    if plan.nodes > 1 or plan.ntasks_per_node > 1:
        yield Violation(
            f"the launcher {plan.launcher.name} starts one process on the first node, and "
            f"{counted(plan.nodes, 'node')} x {counted(plan.ntasks_per_node, 'task')} are asked "
            "for",
            "take --launcher torchrun or --launcher srun, or one node",
        )


@rule("NC304")
def processes_and_gpus(context: RuleContext) -> Iterator[Violation]:
    plan = context.plan
    if plan.gpus_per_node and plan.processes_per_node > plan.gpus_per_node:
        yield Violation(
            f"{plan.processes_per_node} processes share {counted(plan.gpus_per_node, 'GPU')} on a "
            "node",
            f"one process a GPU is usual: --ntasks-per-node {plan.gpus_per_node}",
        )
    elif plan.launcher.distributed and 1 <= plan.processes_per_node < plan.gpus_per_node:
        yield Violation(
            f"{counted(plan.processes_per_node, 'process')} for {plan.gpus_per_node} GPUs on a "
            "node: some GPUs may stay idle",
            f"one process a GPU is usual: --ntasks-per-node {plan.gpus_per_node}",
        )


# With one of these, one launcher per node knows of the others.
_NAMES_OTHERS = ("--nnodes", "--rdzv", "--num_machines", "--machine_rank", "--config_file")


def _called_launcher(
    program: str, args: Tuple[str, ...]
) -> Optional[Tuple[Launcher, str, Tuple[str, ...]]]:
    """The launcher that a program is, the program's name and its arguments; else None."""
    name = program.rpartition("/")[2]
    if re.fullmatch(r"python[0-9.]*", name) and "-m" in args[:-1]:
        module = args.index("-m") + 1
        if not all(word.startswith("-") for word in args[:module]):
            return None  # an argument of the Python file's own
        name, args = args[module], args[module + 1 :]
    if name.endswith(".py"):
        return None
    launcher = launchers.by_command((name, *args))
    return None if launcher is None else (launcher, name, args)


@rule("NC305")
def launcher_as_program(context: RuleContext) -> Iterator[Violation]:
    plan, request = context.plan, context.plan.request
    if plan.interactive or request.script is None or not plan.launcher.distributed:
        return
    times = plan.processes
    called = None if times == 1 else _called_launcher(request.script, request.args)
    if called is None:
        return
    launcher, name, args = called
    if plan.processes_per_node == 1 and any(one.startswith(_NAMES_OTHERS) for one in args):
        return
    start = next((i for i, one in enumerate(args) if one.endswith(".py")), None)
    line = "PROGRAM …" if start is None else join(args[start:])
    if len(line) > 60:
        line = f"{join(args[start:][:1])} …"
    yield Violation(
        f"{name} starts processes itself, and {plan.launcher.name} starts {name} "
        f"{counted(times, 'time')}: as many trainings that know nothing of each other",
        f"name the program alone: --launcher {launcher.name} {line}",
    )


@rule("NC311")
def exclusive_options(context: RuleContext) -> Iterator[Violation]:
    request = context.plan.request
    names = [one.partition("=")[0] for one in request.sbatch]
    memory: List[str] = ["mem"] if request.mem is not None else []
    memory += [one for one in ("mem-per-cpu", "mem-per-gpu") if one in names]
    if len(memory) > 1:
        options = " and ".join(f"--{one}" for one in memory)
        yield Violation(f"{options} exclude each other", "keep one of them")
    if request.conda is not None and request.venv is not None:
        yield Violation("--conda and --venv exclude each other", "keep one of them")
    for name in sorted({one for one in names if names.count(one) > 1}):
        yield Violation(f"--sbatch {name} is given more than once", "Slurm takes the last: keep it")


# Options of sbatch that say in other words what neuronctl's own say, and would say it unjudged.
_OTHER_WORDS = {
    "chdir": "cd there first: a job starts in the directory that it is submitted from",
    "clusters": "log in to that cluster; --cluster NAME plans for it",
    "cpus-per-gpu": "ask for cores a task: -c",
    "gpus-per-socket": "ask for GPUs a node: --gpus-per-node",
    "gpus-per-task": "ask for GPUs a node: --gpus-per-node",
    "no-requeue": "write --no-requeue",
    "ntasks-per-gpu": "ask for tasks a node: --ntasks-per-node",
    "tres-per-job": "ask for GPUs a node: --gpus-per-node",
    "tres-per-node": "ask for GPUs a node: --gpus-per-node",
    "tres-per-task": "ask for GPUs a node: --gpus-per-node",
}


@rule("NC313")
def other_words(context: RuleContext) -> Iterator[Violation]:
    for option in context.plan.request.sbatch:
        name = option.partition("=")[0]
        if name in _OTHER_WORDS:
            yield Violation(
                f"--sbatch {option} would go past what is planned and judged here",
                _OTHER_WORDS[name],
            )


@rule("NC312")
def node_list(context: RuleContext) -> Iterator[Violation]:
    plan, request = context.plan, context.plan.request
    names = {}
    for option, text in (("nodelist", request.nodelist), ("exclude", request.exclude)):
        if text is None or "/" in text:  # a file of node names: Slurm reads it
            continue
        try:
            names[option] = set(units.expand_hostlist(text))
        except ValueError as error:
            yield Violation(
                f"--{option}={text}: {error}", "node names are written like gpu[01-04,07]"
            )
    wanted = names.get("nodelist", set())
    both = sorted(wanted & names.get("exclude", set()))
    if both:
        yield Violation(
            f"{', '.join(both)} {'stands' if len(both) == 1 else 'stand'} in --nodelist and in "
            "--exclude",
            "take them out of one",
        )
    if len(wanted) > plan.nodes:
        yield Violation(
            f"--nodelist names {len(wanted)} nodes and {plan.nodes} {verb(plan.nodes)} asked for",
            f"ask for -N {len(wanted)}, or name fewer",
        )
    partition = plan.partition
    if wanted and partition.node_list is not None:
        has = units.expand_hostlist(partition.node_list)
        # The catalog may name only some of a partition's nodes.
        if partition.nodes is not None and len(has) >= partition.nodes:
            strangers = sorted(wanted - set(has))
            if strangers:
                yield Violation(
                    f"{', '.join(strangers)} in --nodelist {verb(len(strangers))} no "
                    f"node{'s' if len(strangers) > 1 else ''} of {partition.name}, "
                    f"which has {partition.node_list}",
                    "name others, or another partition",
                    context.cite_partition("node_list"),
                )


@rule("NC321")
def signal_and_launcher(context: RuleContext) -> Iterator[Violation]:
    plan, signal = context.plan, context.plan.signal
    handled = plan.launcher.signals
    if signal is None or not handled or signal.trapped_by_setup:
        return
    numbers = [str(int(getattr(signals, f"SIG{name}"))) for name in handled]
    if signal.name not in (*handled, *numbers):
        yield Violation(
            f"--signal={plan.request.signal}: {signal.name} ends {plan.launcher.name} at once, "
            "and its processes never see it",
            "take --launcher srun, where every process gets it, or trap it in the batch shell: "
            f"--signal B:{signal.name}@120 --setup \"trap 'touch save-now' {signal.name}\"",
        )


MAX_ARG_STRLEN = 131_072
"""Bytes of the longest single argument, its end included, that Linux hands to a program."""


_HOROVODS_OWN = 300
"""Bytes that its own variables have at least, seen with horovod 0.28: ranks, sizes, addresses."""


@rule("NC322")
def horovod_command(context: RuleContext) -> Iterator[Violation]:
    plan, here = context.plan, context.local
    if not plan.launcher.one_string:
        return
    program = sum(len(str(quote(word)).encode()) + 1 for word in plan.program)
    variables = 0
    if plan.launcher.one_string == launchers.PROGRAM_AND_VARIABLES:
        given = (f"{name}={quote(value)}" for name, value in plan.request.env)
        variables = _HOROVODS_OWN + sum(len(one.encode()) + 1 for one in given)
        if here is not None and not context.reviewed:
            variables += here.environment_bytes
    if program + variables >= MAX_ARG_STRLEN:
        words = f"the program with its arguments has {program} bytes"
        if variables:
            words += f", the variables beside it {variables}"
        yield Violation(
            f"{plan.launcher.name} hands its whole command on as one word, and {words}: Linux "
            f"takes less than {MAX_ARG_STRLEN} in all",
            "put the arguments into a file that the program reads, or take --launcher srun",
        )


@rule("NC323")
def horovod_directory(context: RuleContext) -> Iterator[Violation]:
    here = context.local
    if here is None or context.plan.launcher.quotes_directory:
        return
    if context.plan.nodes > 1 and quote(here.directory) != here.directory:
        yield Violation(
            f"{context.plan.launcher.name} changes into the working directory on the other nodes "
            f"without quoting it, and a shell does not take '{here.directory}' as one word",
            "submit from a directory whose path has neither blanks nor signs of the shell's, or "
            "take --launcher horovodrun-mpi or srun",
            severity=WARNING if context.reviewed else ERROR,
        )


@rule("NC331")
def container_and_environment(context: RuleContext) -> Iterator[Violation]:
    request = context.plan.request
    for option in ("conda", "venv"):
        if request.container is not None and getattr(request, option) is not None:
            yield Violation(
                f"--container and --{option} exclude each other: in the image its own Python runs",
                "keep one of them, or install what is missing into the image",
            )


@rule("NC332")
def cleanenv_and_ranks(context: RuleContext) -> Iterator[Violation]:
    plan = context.plan
    if plan.request.cleanenv and plan.launcher.own_variables and plan.request.container is not None:
        yield Violation(
            f"{plan.launcher.name} tells each process its rank through variables, which "
            "--cleanenv keeps out of the container",
            "leave --cleanenv out, or take --launcher srun or torchrun",
        )


@rule("NC333")
def runtime_and_launcher(context: RuleContext) -> Iterator[Violation]:
    plan = context.plan
    if plan.wrapping.srun and plan.launcher.own_variables:
        yield Violation(
            f"Pyxis starts containers through srun, and {plan.launcher.name} starts its processes "
            "without it",
            "take --container-runtime singularity, or --launcher srun or torchrun",
        )


@rule("NC334")
def untried_runtime(context: RuleContext) -> Iterator[Violation]:
    if context.plan.wrapping.srun:
        yield Violation(
            "the Pyxis options of srun are written from its documentation; neuronctl's own tests "
            "have no Pyxis and never ran them",
            "look at the script with 'neuronctl generate' before you rely on it",
        )


@rule("NC335")
def container_options(context: RuleContext) -> Iterator[Violation]:
    request = context.plan.request
    given = {
        "--container-runtime": request.container_runtime,
        "--bind": request.binds,
        "--cleanenv": request.cleanenv,
    }
    options = [name for name, value in given.items() if value]
    if request.container is None and options:
        yield Violation(
            f"{', '.join(options)} without --container", "name an image, or leave it out"
        )


@rule("NC336")
def modules_in_one_word(context: RuleContext) -> Iterator[Violation]:
    plan = context.plan
    for name in plan.request.modules:
        parts = re.split(r"[,\s]+", name.strip(", "))
        if len(parts) > 1 and name not in plan.cluster.modules:
            yield Violation(
                f"--module '{name}' is one module's name to 'module load', blanks and commas "
                "included",
                "one option a module: " + join([w for one in parts for w in ("--module", one)]),
            )


@rule("NC337")
def cleanenv_and_pyxis(context: RuleContext) -> Iterator[Violation]:
    if context.plan.wrapping.srun and context.plan.request.cleanenv:
        yield Violation(
            "--cleanenv has no effect: Pyxis hands the job's variables in, and has no option "
            "against it",
            "leave it out; the variables that the image sets itself are the image's",
        )
