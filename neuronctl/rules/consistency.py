"""NC3xx: options that contradict each other or the launcher, secrets, and jobs of several runs."""

from __future__ import annotations

import re
from typing import Iterator, List, Sequence, Tuple, Union

from neuronctl.common import units
from neuronctl.common.rule_codes import ERROR, WARNING
from neuronctl.common.secrets import find_secrets, hide_in_words
from neuronctl.common.shell import join, quote, references
from neuronctl.common.words import counted, verb
from neuronctl.launch.launchers import option_name
from neuronctl.planning import JobPlan, Launch
from neuronctl.planning.job_plan import SAVE, has_trap
from neuronctl.planning.software import called_launcher, python_file, python_module
from neuronctl.request.job import BY_NAME, UNTIL_DONE, Source
from neuronctl.rules.base import ALONE, Finding, RuleContext, Trait, job_rule
from neuronctl.scripts.header import INSTEAD_OF


@job_rule(ERROR, "NC301", "tasks and nodes contradict each other")
def tasks_and_nodes(context: RuleContext) -> Iterator[Finding]:
    plan, request = context.plan, context.plan.request
    total = plan.nodes * plan.ntasks_per_node
    if request.ntasks is None or (request.ntasks == total and plan.most_nodes == plan.nodes):
        return
    nodes, tasks = counted(plan.nodes, "node"), counted(request.ntasks, "task")
    if plan.most_nodes > plan.nodes:
        message = f"--ntasks={request.ntasks} on {plan.nodes} to {plan.most_nodes} nodes: how many "
        message += "tasks each node starts is not known"
        hint = "request --ntasks-per-node"
    elif request.ntasks_per_node is None:
        rounded_up = plan.nodes * -(-request.ntasks // plan.nodes)
        message = f"requested {tasks} on {nodes}; neuronctl starts the same number on every node"
        hint = f"use --ntasks={rounded_up}"
        hint += f" or --ntasks={total}" if total < rounded_up else ""
    else:
        message = f"--ntasks={request.ntasks} contradicts {nodes} x "
        message += f"{counted(plan.ntasks_per_node, 'task')} per node = {counted(total, 'task')}"
        hint = f"use -N and --ntasks-per-node only, or --ntasks={total}"
    yield Finding(message, hint)


@job_rule(ERROR, "NC302", "launcher starts its own processes", Trait.STEP)
def one_task_a_node(context: RuleContext) -> Iterator[Finding]:
    launch, launcher = context.launch, context.launch.launcher
    needs_one_task = launcher.starts_processes() or launcher.every_node
    if needs_one_task and launch.ntasks_per_node > 1:
        starts = (
            counted(launch.processes_per_node, "process") if launcher.distributed else "workers"
        )
        yield Finding(
            f"requested {launch.ntasks_per_node} tasks per node; {launcher.name} starts {starts} "
            "in each and needs one task per node",
            "leave --ntasks-per-node out, or use --launcher srun",
        )


@job_rule(ERROR, "NC303", "several nodes or tasks for one process", Trait.STEP)
def one_process(context: RuleContext) -> Iterator[Finding]:
    launch = context.launch
    if launch.launcher.distributed or launch.launcher.whole_allocation or context.plan.interactive:
        return
    if launch.nodes > 1 or launch.ntasks_per_node > 1:
        yield Finding(
            f"launcher {launch.launcher.name} starts one process on the first node; requested "
            f"{counted(launch.nodes, 'node')} x {counted(launch.ntasks_per_node, 'task')}",
            "use --launcher torchrun or --launcher srun; or --launcher none, if the program starts "
            "the others itself; or request one node",
        )


@job_rule(WARNING, "NC304", "processes and GPUs differ", Trait.STEP)
def processes_and_gpus(context: RuleContext) -> Iterator[Finding]:
    launch = context.launch
    processes, gpus = launch.processes_per_node, launch.gpus_per_node
    # Without a launcher, the program alone decides what it starts.
    if not launch.launcher.distributed or not gpus or processes == gpus:
        return
    message = f"{processes} processes share {counted(gpus, 'GPU')} per node"
    if processes < gpus:
        message = f"{counted(processes, 'process')} for {gpus} GPUs per node: some GPUs may stay "
        message += "idle"
    yield Finding(message, f"one process per GPU is usual: --ntasks-per-node {gpus}")


@job_rule(ERROR, "NC305", "launcher started by a launcher", Trait.LAUNCH | Trait.STEP)
def launcher_as_program(context: RuleContext) -> Iterator[Finding]:
    launch, request = context.launch, context.launch.request
    if context.plan.interactive or request.script is None or not launch.launcher.distributed:
        return
    called = None if launch.processes == 1 else called_launcher(request)
    if called is None:
        return
    launcher, name, args = called
    if launch.processes_per_node == 1 and {*map(option_name, args)} & {*launcher.joins}:
        return  # each copy joins the others
    program = next((word for word in args if word.endswith(".py")), "PROGRAM")
    message = f"{name} starts processes itself, and {launch.launcher.name} starts {name} "
    message += f"{counted(launch.processes, 'time')}: that many separate trainings"
    yield Finding(message, f"name the program alone: --launcher {launcher.name} {quote(program)} …")


_STATED = {
    **dict.fromkeys(("devices", "gpus"), ("gpus_per_node", "GPU", " per node", 'devices="auto"')),
    "nprocs": ("gpus_per_node", "GPU", " per node", "nprocs=torch.cuda.device_count()"),
    "num_workers": ("gpus", "GPU", " in all", "num_workers=…, from the job's GPUs"),
    "num_nodes": ("nodes", "node", "", 'num_nodes=int(os.environ["SLURM_JOB_NUM_NODES"])'),
}
"""What a program states: the plan's figure, its unit, and how the program takes it from the job."""


@job_rule(WARNING, "NC306", "program states another size than the job", Trait.LAUNCH | Trait.STEP)
def stated_size(context: RuleContext) -> Iterator[Finding]:
    launch, here = context.launch, context.local
    if launch.most_nodes == launch.nodes and not here.copies:  # NC310 reports copies
        yield from contradictions(launch.request.script or "", here.stated_sizes, launch)


def contradictions(
    program: str, sizes: Sequence[Tuple[str, int]], job: Union[JobPlan, Launch]
) -> Iterator[Finding]:
    """Yield each size that the program states and its job or launch does not have."""
    for name, count in dict.fromkeys(sizes):
        figure, unit, where, taken = _STATED[name]
        has = getattr(job, figure)
        if has and count != has:
            message = f"{program} states {name}={count}, and the job has "
            message += f"{counted(has, unit)}{where}: the processes wait for others, or fail"
            yield Finding(message, f"request {counted(count, unit)}{where}, or write {taken}")


_LIGHTNING = 'Trainer(devices="auto", num_nodes=int(os.environ["SLURM_JOB_NUM_NODES"]))'
_SHARES = {
    **dict.fromkeys(("tensorflow", "keras"), "tf.distribute"),
    **dict.fromkeys(("lightning", "pytorch_lightning"), _LIGHTNING),
}
"""What an import's program is distributed with, which init does not write."""
_COPIES_TRAITS = Trait.LAUNCH | Trait.STEP | Trait.FIRST | Trait.REWRITES


@job_rule(ERROR, "NC310", "training for one GPU started on every GPU", _COPIES_TRAITS)
def copies(context: RuleContext) -> Iterator[Finding]:
    launch, here, request = context.launch, context.local, context.launch.request
    if not here.copies:
        return
    alone = here.copies == ALONE
    name = python_file(request) or python_module(request)
    tasks = request.ntasks is not None or request.ntasks_per_node is not None
    reason = f"{name} trains alone" if alone else f"nothing in {name} shares the work"
    count = launch.most_nodes * launch.processes_per_node
    yield Finding(
        f"{launch.starts}, and {reason}: {count} copies would do the same and overwrite each "
        "other's files",
        f"make it distributed{_distributed(launch, here.imports)}; or {_fewer(launch)}; "
        f"if this is intended: --launcher {launch.launcher.name}",
        # The rule's own, if the program surely trains alone. A user who counts tasks, or runs
        # other lines before, may know better.
        severity="" if alone and not (tasks or request.setup) else WARNING,
    )


def _distributed(launch: Launch, imports: Sequence[str]) -> str:
    """Return how a program is made to share its work, as the end of a hint."""
    framework = next((_SHARES[name] for name in imports if name in _SHARES), "")
    if framework:
        return f" with {framework}"
    request, file = launch.request, python_file(launch.request)
    explained = "'neuronctl help first-multi-node-training from one GPU to several' explains it"
    if file is None:  # a module has no name to type
        return f" ({explained})"
    options = [f"-N {launch.nodes}"] if launch.most_nodes > 1 else []
    options += [f"--gpus-per-node {launch.gpus_per_node}"] if launch.gpus_per_node > 1 else []
    options += [f"-D {quote(request.chdir)}"] if request.chdir else []
    words = [*options, quote(file), "| patch", quote(request.resolve_path(file))]
    return f": neuronctl init {' '.join(words)} ({explained})"


def _fewer(launch: Launch) -> str:
    """Return how to start a program once."""
    request = launch.request
    if 1 in (request.ntasks, request.ntasks_per_node):
        return "start one process: --launcher python"
    if request.ntasks is not None or request.ntasks_per_node is not None:
        return "request one task"
    options = ["-N 1"] if launch.most_nodes > 1 else []
    options += ["--gpus-per-node 1"] if launch.gpus_per_node > 1 else []
    return f"request {' '.join(options)}"


@job_rule(ERROR, "NC307", "launcher's option that neuronctl sets itself", Trait.LAUNCH | Trait.STEP)
def own_launcher_option(context: RuleContext) -> Iterator[Finding]:
    launch = context.launch
    for word in launch.launcher_options:
        if option_name(word) in launch.launcher.own_options:
            yield Finding(
                f"--launcher-option={quote(word)}: neuronctl gives {launch.launcher.name} this "
                "option itself, from the size of the job",
                "request nodes, tasks, cores, and GPUs with -N, --ntasks-per-node, -c, and "
                "--gpus-per-node; 'neuronctl generate' shows the launch",
            )


@job_rule(ERROR, "NC308", "options for a launcher that has none", Trait.LAUNCH | Trait.STEP)
def launcher_without_options(context: RuleContext) -> Iterator[Finding]:
    launch = context.launch
    if launch.launcher_options and not launch.launcher.takes_options:
        message = f"launcher {launch.launcher.name} has no options of its own; requested "
        message += f"{join(launch.launcher_options)}"
        yield Finding(message, "leave --launcher-option out, or use another --launcher")


@job_rule(ERROR, "NC309", "range of nodes for a launcher that needs a number", Trait.STEP)
def range_of_nodes(context: RuleContext) -> Iterator[Finding]:
    launch = context.launch
    if launch.most_nodes > launch.nodes and launch.launcher.counts_nodes:
        message = f"requested {launch.nodes} to {launch.most_nodes} nodes; launcher "
        message += f"{launch.launcher.name} must know their number before the job runs"
        hint = f"request one number, such as -N {launch.nodes}, or use --launcher torchrun or srun"
        yield Finding(message, hint)


@job_rule(ERROR, "NC311", "options exclude each other")
def exclusive_options(context: RuleContext) -> Iterator[Finding]:
    request, secrets = context.plan.request, context.plan.secrets
    exported = [option for option in request.sbatch if re.match("export=(?!ALL)", option)]
    if exported and secrets:
        yield Finding(
            f"--sbatch {exported[0]} keeps {', '.join(secrets)} out of the job, which only your "
            "shell's environment can pass on",
            "leave export out, or let the program read the secret from a file",
        )
    if request.conda is not None and request.venv is not None:
        yield Finding("--conda and --venv cannot be combined", "keep one of them")


@job_rule(ERROR, "NC313", "sbatch option for which neuronctl has its own")
def other_words(context: RuleContext) -> Iterator[Finding]:
    for option in context.plan.request.sbatch:
        name = option.partition("=")[0]
        if name in INSTEAD_OF:
            yield Finding(
                f"--sbatch {option} would bypass neuronctl's plan and checks", INSTEAD_OF[name]
            )
    for name in sorted({"SBATCH_CLUSTERS", "SLURM_CLUSTERS"} & context.local.variables):
        words = f"${name} names another cluster than this one, for which the job is planned"
        hint = f"unset {name}, or {INSTEAD_OF['clusters']}"
        yield Finding(words, hint, severity=WARNING if context.reviewed else "")


@job_rule(WARNING, "NC323", "signal, stall, or idle time and the time limit", about="signal time")
def times_and_limit(context: RuleContext) -> Iterator[Finding]:
    plan, request = context.plan, context.plan.request
    limit = plan.time_limit
    if limit is None or limit == units.UNLIMITED:
        return
    for name, seconds in (("idle", plan.idle), ("stall", plan.stall)):
        if (seconds or 0) >= limit and request.origin(name).source is not Source.CONFIG:
            yield Finding(
                f"--{name} {getattr(request, name)} never ends a job of {units.format_time(limit)}",
                f"use less, such as --{name} {max(1, limit // 120)}m, or a longer --time",
            )
    _, _, before = units.split_signal(request.signal or "")  # seconds before the end
    if before.isdigit() and int(before) >= limit and not plan.interactive:
        message = f"--signal={request.signal} comes {before} s before the end, and the job has "
        message += f"{units.format_time(limit)}: it gets the signal as soon as it runs"
        hint = f"use fewer seconds, such as @{max(1, limit // 4)}, or a longer --time"
        yield Finding(message, hint)


@job_rule(WARNING, "NC321", "signal that does not reach every process", Trait.STEP)
def signal_and_launcher(context: RuleContext) -> Iterator[Finding]:
    launch, launcher = context.launch, context.launch.launcher
    signal = launch.signal
    if signal is None or not launch.passes_signal:
        return
    if launcher.signals and signal.name not in launcher.signals:
        yield Finding(
            f"--signal={launch.request.signal}: {launcher.name} does not pass {signal.name} on; it "
            "kills its processes, and the job fails even if they have saved",
            f"use {' or '.join(launcher.signals)}, which it passes on to every process",
        )
    elif launcher.ssh and not launcher.signals and launch.most_nodes > 1:
        yield Finding(
            f"--signal={launch.request.signal}: only the processes on the first node receive it; "
            f"{launcher.name} starts the others over ssh and does not pass signals on to them",
            "use --launcher srun, which passes it on to every process",
        )


@job_rule(WARNING, "NC322", "GPUs that ssh does not name", Trait.LAUNCH | Trait.STEP)
def gpus_over_ssh(context: RuleContext) -> Iterator[Finding]:
    launch, launcher = context.launch, context.launch.launcher
    has, by_ssh = (
        context.plan.partition.gpus_per_node,
        launch.launcher.ssh and not launch.launcher.signals,
    )
    shared = not launch.request.exclusive and 0 < launch.gpus_per_node < has
    if by_ssh and launch.most_nodes > 1 and shared:
        yield Finding(
            f"{launcher.name} starts processes over ssh; on all nodes but the first, they do not "
            "learn which GPUs are theirs and may use another job's",
            f"request whole nodes (--gpus-per-node {has}), or --launcher {launcher.name}-mpi",
        )


@job_rule(ERROR, "NC331", "container and environment exclude each other")
def container_and_environment(context: RuleContext) -> Iterator[Finding]:
    request = context.plan.request
    for option in ("conda", "venv"):
        if request.container is not None and getattr(request, option) is not None:
            yield Finding(
                f"--container and --{option} cannot be combined: the image runs its own Python",
                "keep one of them, or install what is missing into the image",
            )


@job_rule(ERROR, "NC333", "container runtime needs srun", Trait.STEP)
def runtime_and_launcher(context: RuleContext) -> Iterator[Finding]:
    launch = context.launch
    if launch.wrapping.srun and launch.launcher.own_variables:
        message = f"Pyxis starts containers through srun, and {launch.launcher.name} starts its "
        message += "processes without it"
        hint = "use --container-runtime singularity, or --launcher srun or torchrun"
        yield Finding(message, hint)


_READ_DOLLARS = r"(?:ba|da|z|k|c|tc|fi)?sh|[gmn]?awk|perl|envsubst|sed|make"
"""Programs that replace variables in their arguments, or have a $ of their own."""


def _named(names: Sequence[str]) -> str:
    return ", ".join(f"${name}" for name in names)


@job_rule(WARNING, "NC338", "secret that others can read")
def exposed_secret(context: RuleContext) -> Iterator[Finding]:
    request = context.plan.request
    places: List[Tuple[str, Tuple[str, ...]]] = [
        ("--setup contains", request.setup),
        ("--sbatch contains", request.sbatch),
        ("--container-option contains", request.container_options),
    ]
    for launch in context.plan.launches:
        places.append((f"{launch.prefix}the program's arguments contain", launch.request.args))
        places.append((f"{launch.prefix}--launcher-option contains", launch.launcher_options))
        places.append((f"{launch.prefix}the shell text contains", (launch.request.body or "",)))
    for place, words in places:
        hidden = words if place.endswith("the shell text contains") else hide_in_words(words)
        if hidden != words or find_secrets("\n".join(words)):
            message = f"{place} a secret: it is written into the script, and everybody on the node "
            message += "can see the command lines of what runs there"
            hint = "export it, pass it on with --env NAME, and let the program read the variable"
            yield Finding(message, hint)


@job_rule(WARNING, "NC341", "variable that is not replaced", Trait.LAUNCH)
def stands_literally(context: RuleContext) -> Iterator[Finding]:
    yield from _references_in_env(context.plan)
    yield from _references_in_arguments(context)


def _references_in_env(plan: JobPlan) -> Iterator[Finding]:
    """Yield each --env whose value refers to a variable."""
    for name, value in plan.request.env:
        # The dynamic linker itself replaces these.
        replaced = ("ORIGIN", "LIB", "PLATFORM") if name.startswith("LD_") else ()
        names = [each for each in references(value) if each not in replaced]
        if names and name not in plan.secrets:
            itself = name in names
            place = f"--env {name} refers to itself, and" if itself else f"--env {name}:"
            message = f"{place} {_named(names)} {verb(len(names))} passed on as typed, without the "
            message += "value"
            hint = f"set it in a line of shell: --setup 'export {name}=…'"
            yield Finding(message, hint, severity=ERROR if itself else WARNING)


def _references_in_arguments(context: RuleContext) -> Iterator[Finding]:
    """Yield each launch whose program gets ``$NAME`` as an argument, unless it reads that."""
    known = context.local.variables
    for launch in context.plan.launches:
        words = launch.request.args
        programs = (word.rpartition("/")[2] for word in (launch.request.script or "", *words))
        if any(re.fullmatch(_READ_DOLLARS, program) for program in programs):
            continue
        used = dict.fromkeys(name for word in words for name in references(word))
        names = [name for name in used if name in known or name.startswith(("SLURM", "MASTER_"))]
        if names:
            place = f"{launch.prefix}{_named(names)} in the program's arguments"
            message = f"{place} {verb(len(names))} passed on as typed, without the value"
            hint = "write the launch as shell text: 'run:' in a job file, or --body FILE"
            yield Finding(message, hint)


@job_rule(ERROR, "NC344", "a job that cannot go on until it is done")
def until_done(context: RuleContext) -> Iterator[Finding]:
    plan, request = context.plan, context.plan.request
    if not request.until_done:
        given = [name for name in UNTIL_DONE if getattr(request, BY_NAME[name].field) is not None]
        if given and not plan.interactive:
            message = f"--{given[0]} is for a job with several runs; this job has one"
            yield Finding(message, "add --until-done, or leave it out")
        return
    if plan.until_done is None:
        return
    if request.requeue is False and request.array:
        message = "--no-requeue forbids what an array needs to go on: its tasks requeue themselves"
        yield Finding(message, "leave --no-requeue out, or submit a job for each task")
    lines = "\n".join(request.setup)
    if any(has_trap(lines, name) for name in ("TERM", "EXIT", SAVE)):
        message = f"a --setup line sets a trap for TERM, EXIT, or {SAVE}: with --until-done, the "
        message += "batch shell needs its own"
        hint = "move the trap into the program, or into the shell text of --body"
        yield Finding(message, hint)
    if request.resume_with and request.script is None:
        message = "--resume-with has no program to which its arguments could be added"
        yield Finding(message, "let the shell text look for the checkpoint itself")
    yield from _no_time_to_save(plan, plan.until_done.before_end)


def _no_time_to_save(plan: JobPlan, before: int) -> Iterator[Finding]:
    """Yield why the program could not save ``before`` seconds before the end of a run."""
    limit, signal = plan.time_limit, plan.signal
    has_limit = limit is not None and limit >= 0
    seconds = max(1, min(300, (limit or 0) // 4)) if has_limit else 300
    hint, message = f"use --signal TERM@{seconds}", "the program would be asked to save "
    if signal is not None and signal.name in units.NEVER_HANDLED:
        yield Finding(f"{message}at {signal.name}, which no program can handle", hint)
    elif before <= 0 or (has_limit and (limit or 0) <= before):
        message += f"{before} s before the end"
        if before <= 0:
            yield Finding(f"{message}, which leaves no time to save", hint)
        else:
            yield Finding(f"{message}, and a run has {limit} s", f"{hint}, or a longer --time")
