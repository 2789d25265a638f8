"""NC3xx: options that contradict each other or the launcher, secrets, and jobs of several runs."""

from __future__ import annotations

import re
from itertools import chain
from typing import Dict, Iterator, Sequence, Tuple, Union

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
def check_tasks_and_nodes(context: RuleContext) -> Iterator[Finding]:
    plan, ntasks = context.plan, context.plan.request.ntasks
    if ntasks is None:
        return
    nodes = counted(plan.nodes, "node")
    total = plan.nodes * plan.ntasks_per_node
    if plan.most_nodes > plan.nodes:
        message = f"--ntasks={ntasks} on {plan.nodes} to {plan.most_nodes} nodes: how many tasks "
        yield Finding(f"{message}each node starts is not known", "request --ntasks-per-node")
    elif ntasks != total and plan.request.ntasks_per_node is None:
        rounded_up = plan.nodes * -(-ntasks // plan.nodes)
        message = f"requested {counted(ntasks, 'task')} on {nodes}; neuronctl starts the same "
        hint = f"use --ntasks={rounded_up}"
        hint += f" or --ntasks={total}" if total < rounded_up else ""
        yield Finding(f"{message}number on every node", hint)
    elif ntasks != total:
        message = f"--ntasks={ntasks} contradicts {nodes} x {counted(plan.ntasks_per_node, 'task')}"
        message += f" per node = {counted(total, 'task')}"
        yield Finding(message, f"use -N and --ntasks-per-node only, or --ntasks={total}")


@job_rule(ERROR, "NC302", "launcher starts its own processes", Trait.STEP)
def check_tasks_per_node(context: RuleContext) -> Iterator[Finding]:
    launch, launcher = context.launch, context.launch.launcher
    needs_one_task = launcher.starts_processes() or launcher.every_node
    if needs_one_task and launch.ntasks_per_node > 1:
        processes = counted(launch.processes_per_node, "process")
        message = f"requested {launch.ntasks_per_node} tasks per node; {launcher.name} starts "
        message += f"{processes if launcher.distributed else 'workers'} in each and needs one task "
        yield Finding(f"{message}per node", "leave --ntasks-per-node out, or use --launcher srun")


@job_rule(ERROR, "NC303", "several nodes or tasks for one process", Trait.STEP)
def check_one_process(context: RuleContext) -> Iterator[Finding]:
    launch = context.launch
    if launch.launcher.distributed or launch.launcher.whole_allocation or context.plan.interactive:
        return
    if launch.nodes > 1 or launch.ntasks_per_node > 1:
        message = f"launcher {launch.launcher.name} starts one process on the first node; requested"
        message += f" {counted(launch.nodes, 'node')} x {counted(launch.ntasks_per_node, 'task')}"
        hint = "use --launcher torchrun or --launcher srun; or --launcher none, if the program "
        yield Finding(message, f"{hint}starts the others itself; or request one node")


@job_rule(WARNING, "NC304", "processes and GPUs differ", Trait.STEP)
def check_processes_and_gpus(context: RuleContext) -> Iterator[Finding]:
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
def check_launcher_as_program(context: RuleContext) -> Iterator[Finding]:
    launch, request = context.launch, context.launch.request
    if context.plan.interactive or request.script is None or not launch.launcher.distributed:
        return
    call = called_launcher(request)
    if call is None or launch.processes == 1:
        return
    inner, name, args = call
    joins_others = {*map(option_name, args)} & {*inner.joins}
    if joins_others and launch.processes_per_node == 1:
        return  # started once per node, it trains together with those on the other nodes
    program = next((word for word in args if word.endswith(".py")), "PROGRAM")
    message = f"{name} starts processes itself, and {launch.launcher.name} starts {name} "
    message += f"{counted(launch.processes, 'time')}: that many separate trainings"
    yield Finding(message, f"name the program alone: --launcher {inner.name} {quote(program)} …")


_STATED = {
    **dict.fromkeys(("devices", "gpus"), ("gpus_per_node", "GPU", " per node", 'devices="auto"')),
    "nprocs": ("gpus_per_node", "GPU", " per node", "nprocs=torch.cuda.device_count()"),
    "num_workers": ("gpus", "GPU", " in all", "num_workers=…, from the job's GPUs"),
    "num_nodes": ("nodes", "node", "", 'num_nodes=int(os.environ["SLURM_JOB_NUM_NODES"])'),
}
"""Name of a size in a program -> the plan's figure, its unit, " per node" or the like, and how the
program takes it from the job."""


@job_rule(WARNING, "NC306", "program states another size than the job", Trait.LAUNCH | Trait.STEP)
def check_stated_size(context: RuleContext) -> Iterator[Finding]:
    launch, here = context.launch, context.local
    if launch.most_nodes == launch.nodes and not here.copies:  # NC310 reports copies
        yield from contradictions(launch.request.script or "", here.stated_sizes, launch)


def contradictions(
    program: str, sizes: Sequence[Tuple[str, int]], job: Union[JobPlan, Launch]
) -> Iterator[Finding]:
    """Yield each size that the program states and its job or launch does not have."""
    for name, stated in dict.fromkeys(sizes):
        figure, unit, scope, expression = _STATED[name]
        size = getattr(job, figure)
        if size and stated != size:
            message = f"{program} states {name}={stated}, and the job has "
            message += f"{counted(size, unit)}{scope}: the processes wait for others, or fail"
            hint = f"request {counted(stated, unit)}{scope}, or write {expression}"
            yield Finding(message, hint)


_LIGHTNING = 'Trainer(devices="auto", num_nodes=int(os.environ["SLURM_JOB_NUM_NODES"]))'
_SHARES = {
    **dict.fromkeys(("tensorflow", "keras"), "tf.distribute"),
    **dict.fromkeys(("lightning", "pytorch_lightning"), _LIGHTNING),
}
"""Import -> what makes its program distributed, if init cannot write that."""
_COPIES_TRAITS = Trait.LAUNCH | Trait.STEP | Trait.FIRST | Trait.REWRITES


@job_rule(ERROR, "NC310", "training for one GPU started on every GPU", _COPIES_TRAITS)
def check_copies(context: RuleContext) -> Iterator[Finding]:
    launch, here, request = context.launch, context.local, context.launch.request
    if not here.copies:
        return
    name = python_file(request) or python_module(request)
    trains_alone = here.copies == ALONE
    reason = f"{name} trains alone" if trains_alone else f"nothing in {name} shares the work"
    count = launch.most_nodes * launch.processes_per_node
    message = f"{launch.starts}, and {reason}: {count} copies would do the same and overwrite each "
    message += "other's files"
    hint = f"make it distributed{_how_to_share(launch, here.imports)}; or {_how_to_start(launch)}; "
    hint += f"if this is intended: --launcher {launch.launcher.name}"
    # A user who counts tasks, or runs other lines before, may know better.
    may_be_intended = _counts_tasks(launch) or request.setup or not trains_alone
    yield Finding(message, hint, severity=WARNING if may_be_intended else ERROR)


def _counts_tasks(launch: Launch) -> bool:
    return (launch.request.ntasks, launch.request.ntasks_per_node) != (None, None)


def _how_to_share(launch: Launch, imports: Sequence[str]) -> str:
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


def _how_to_start(launch: Launch) -> str:
    """Return how a program is started once."""
    if 1 in (launch.request.ntasks, launch.request.ntasks_per_node):
        return "start one process: --launcher python"
    if _counts_tasks(launch):
        return "request one task"
    options = ["-N 1"] if launch.most_nodes > 1 else []
    options += ["--gpus-per-node 1"] if launch.gpus_per_node > 1 else []
    return f"request {' '.join(options)}"


@job_rule(ERROR, "NC307", "launcher's option that neuronctl sets itself", Trait.LAUNCH | Trait.STEP)
def check_own_launcher_option(context: RuleContext) -> Iterator[Finding]:
    launch = context.launch
    for word in launch.launcher_options:
        if option_name(word) in launch.launcher.own_options:
            message = f"--launcher-option={quote(word)}: neuronctl gives {launch.launcher.name} "
            hint = "request nodes, tasks, cores, and GPUs with -N, --ntasks-per-node, -c, and "
            hint += "--gpus-per-node; 'neuronctl generate' shows the launch"
            yield Finding(f"{message}this option itself, from the size of the job", hint)


@job_rule(ERROR, "NC308", "options for a launcher that has none", Trait.LAUNCH | Trait.STEP)
def check_launcher_without_options(context: RuleContext) -> Iterator[Finding]:
    launch = context.launch
    if launch.launcher_options and not launch.launcher.takes_options:
        message = f"launcher {launch.launcher.name} has no options of its own; requested "
        message += f"{join(launch.launcher_options)}"
        yield Finding(message, "leave --launcher-option out, or use another --launcher")


@job_rule(ERROR, "NC309", "range of nodes for a launcher that needs a number", Trait.STEP)
def check_range_of_nodes(context: RuleContext) -> Iterator[Finding]:
    launch = context.launch
    if launch.most_nodes > launch.nodes and launch.launcher.counts_nodes:
        message = f"requested {launch.nodes} to {launch.most_nodes} nodes; launcher "
        message += f"{launch.launcher.name} must know their number before the job runs"
        hint = f"request one number, such as -N {launch.nodes}, or use --launcher torchrun or srun"
        yield Finding(message, hint)


@job_rule(ERROR, "NC311", "options exclude each other")
def check_excluded_options(context: RuleContext) -> Iterator[Finding]:
    request, secrets = context.plan.request, context.plan.secrets
    exports = [option for option in request.sbatch if re.match("export=(?!ALL)", option)]
    if exports and secrets:
        message = f"--sbatch {exports[0]} keeps {', '.join(secrets)} out of the job, which only "
        message += "your shell's environment can pass on"
        yield Finding(message, "leave export out, or let the program read the secret from a file")
    if request.conda is not None and request.venv is not None:
        yield Finding("--conda and --venv cannot be combined", "keep one of them")


@job_rule(ERROR, "NC313", "sbatch option for which neuronctl has its own")
def check_sbatch_options(context: RuleContext) -> Iterator[Finding]:
    for option in context.plan.request.sbatch:
        name = option.partition("=")[0]
        if name in INSTEAD_OF:
            message = f"--sbatch {option} would bypass neuronctl's plan and checks"
            yield Finding(message, INSTEAD_OF[name])
    for name in sorted({"SBATCH_CLUSTERS", "SLURM_CLUSTERS"} & context.local.variables):
        message = f"${name} names another cluster than this one, for which the job is planned"
        hint = f"unset {name}, or {INSTEAD_OF['clusters']}"
        yield Finding(message, hint, severity=WARNING if context.reviewed else "")


@job_rule(WARNING, "NC323", "signal, stall, or idle time and the time limit", about="signal time")
def check_times_and_limit(context: RuleContext) -> Iterator[Finding]:
    plan, request = context.plan, context.plan.request
    limit = plan.time_limit
    if limit is None or limit == units.UNLIMITED:
        return
    time = units.format_time(limit)
    for name, seconds in (("idle", plan.idle), ("stall", plan.stall)):
        # The configuration file is for all jobs, and so also for shorter ones.
        is_for_this_job = request.origin(name).source is not Source.CONFIG
        if is_for_this_job and (seconds or 0) >= limit:
            message = f"--{name} {getattr(request, name)} never ends a job of {time}"
            half_in_minutes = max(1, limit // 120)
            hint = f"use less, such as --{name} {half_in_minutes}m, or a longer --time"
            yield Finding(message, hint)
    _, _, before = units.split_signal(request.signal or "")  # seconds before the end
    if before.isdigit() and int(before) >= limit and not plan.interactive:
        message = f"--signal={request.signal} comes {before} s before the end, and the job has "
        message += f"{time}: it gets the signal as soon as it runs"
        hint = f"use fewer seconds, such as @{max(1, limit // 4)}, or a longer --time"
        yield Finding(message, hint)


@job_rule(WARNING, "NC321", "signal that does not reach every process", Trait.STEP)
def check_signal_and_launcher(context: RuleContext) -> Iterator[Finding]:
    launch, launcher = context.launch, context.launch.launcher
    signal, option = launch.signal, f"--signal={launch.request.signal}"
    if signal is None or not launch.passes_signal:
        return
    if launcher.signals and signal.name not in launcher.signals:
        message = f"{option}: {launcher.name} does not pass {signal.name} on; it kills its "
        message += "processes, and the job fails even if they have saved"
        names = " or ".join(launcher.signals)
        yield Finding(message, f"use {names}, which it passes on to every process")
    elif launcher.ssh and not launcher.signals and launch.most_nodes > 1:
        message = f"{option}: only the processes on the first node receive it; {launcher.name} "
        message += "starts the others over ssh and does not pass signals on to them"
        yield Finding(message, "use --launcher srun, which passes it on to every process")


@job_rule(WARNING, "NC322", "GPUs that ssh does not name", Trait.LAUNCH | Trait.STEP)
def check_gpus_over_ssh(context: RuleContext) -> Iterator[Finding]:
    launch, launcher = context.launch, context.launch.launcher
    gpus = context.plan.partition.gpus_per_node
    shares_nodes = not launch.request.exclusive and 0 < launch.gpus_per_node < gpus
    if launcher.ssh and not launcher.signals and launch.most_nodes > 1 and shares_nodes:
        message = f"{launcher.name} starts processes over ssh; on all nodes but the first, they do "
        message += "not learn which GPUs are theirs and may use another job's"
        hint = f"request whole nodes (--gpus-per-node {gpus}), or --launcher {launcher.name}-mpi"
        yield Finding(message, hint)


@job_rule(ERROR, "NC331", "container and environment exclude each other")
def check_container_and_environment(context: RuleContext) -> Iterator[Finding]:
    request = context.plan.request
    for option in ("conda", "venv"):
        if request.container is not None and getattr(request, option) is not None:
            message = f"--container and --{option} cannot be combined: the image runs its own "
            hint = "keep one of them, or install what is missing into the image"
            yield Finding(f"{message}Python", hint)


@job_rule(ERROR, "NC333", "container runtime needs srun", Trait.STEP)
def check_runtime_and_launcher(context: RuleContext) -> Iterator[Finding]:
    launch = context.launch
    if launch.wrapping.srun and launch.launcher.own_variables:
        message = f"Pyxis starts containers through srun, and {launch.launcher.name} starts its "
        message += "processes without it"
        hint = "use --container-runtime singularity, or --launcher srun or torchrun"
        yield Finding(message, hint)


_READ_DOLLARS = r"(?:ba|da|z|k|c|tc|fi)?sh|[gmn]?awk|perl|envsubst|sed|make"
"""Programs that replace variables in their arguments, or have a $ of their own."""
_AS_TYPED = "passed on as typed, without the value"


@job_rule(WARNING, "NC338", "secret that others can read")
def check_exposed_secret(context: RuleContext) -> Iterator[Finding]:
    for place in _exposed_places(context.plan):
        message = f"{place} a secret: it is written into the script, and everybody on the node "
        message += "can see the command lines of what runs there"
        hint = "export it, pass it on with --env NAME, and let the program read the variable"
        yield Finding(message, hint)


def _exposed_places(plan: JobPlan) -> Iterator[str]:
    """Yield where the script has a secret, each with "contain" or "contains"."""
    request = plan.request
    options: Dict[str, Tuple[str, ...]] = {
        "--setup contains": request.setup,
        "--sbatch contains": request.sbatch,
        "--container-option contains": request.container_options,
    }
    for launch in plan.launches:
        options[f"{launch.prefix}the program's arguments contain"] = launch.request.args
        options[f"{launch.prefix}--launcher-option contains"] = launch.launcher_options
    for place, words in options.items():
        if hide_in_words(words) != words or find_secrets("\n".join(words)):
            yield place
    for launch in plan.launches:
        if find_secrets(launch.request.body or ""):
            yield f"{launch.prefix}the shell text contains"


@job_rule(WARNING, "NC341", "variable that is not replaced", Trait.LAUNCH)
def check_references(context: RuleContext) -> Iterator[Finding]:
    yield from _references_in_env(context.plan)
    yield from _references_in_arguments(context)


def _references_in_env(plan: JobPlan) -> Iterator[Finding]:
    """Yield each --env whose value refers to a variable."""
    for name, value in plan.request.env:
        # The dynamic linker itself replaces these.
        by_linker = ("ORIGIN", "LIB", "PLATFORM") if name.startswith("LD_") else ()
        names = [each for each in references(value) if each not in by_linker]
        if names and name not in plan.secrets:
            is_itself = name in names
            place = f"--env {name} refers to itself, and" if is_itself else f"--env {name}:"
            hint = f"set it in a line of shell: --setup 'export {name}=…'"
            message = f"{place} {_join_variables(names)} {verb(len(names))} {_AS_TYPED}"
            yield Finding(message, hint, severity=ERROR if is_itself else WARNING)


def _join_variables(names: Sequence[str]) -> str:
    return ", ".join(f"${name}" for name in names)


def _references_in_arguments(context: RuleContext) -> Iterator[Finding]:
    """Yield each launch with ``$NAME`` in its arguments, unless one of its programs expands it."""
    for launch in context.plan.launches:
        words = launch.request.args
        programs = [word.rpartition("/")[2] for word in (launch.request.script or "", *words)]
        if any(re.fullmatch(_READ_DOLLARS, program) for program in programs):
            continue
        # Any other name may be no variable at all.
        names = [
            name
            for name in dict.fromkeys(chain.from_iterable(map(references, words)))
            if name in context.local.variables or name.startswith(("SLURM", "MASTER_"))
        ]
        if names:
            message = f"{launch.prefix}{_join_variables(names)} in the program's arguments "
            hint = "write the launch as shell text: 'run:' in a job file, or --body FILE"
            yield Finding(f"{message}{verb(len(names))} {_AS_TYPED}", hint)


@job_rule(ERROR, "NC344", "a job that cannot go on until it is done")
def check_until_done(context: RuleContext) -> Iterator[Finding]:
    plan, request = context.plan, context.plan.request
    if not request.until_done:
        options = [name for name in UNTIL_DONE if getattr(request, BY_NAME[name].field) is not None]
        if options and not plan.interactive:
            message = f"--{options[0]} is for a job with several runs; this job has one"
            yield Finding(message, "add --until-done, or leave it out")
        return
    if plan.until_done is None:  # an allocation has one run all the same
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
    signal = plan.signal
    limit = None if plan.time_limit == units.UNLIMITED else plan.time_limit
    seconds = 300 if limit is None else max(1, min(300, limit // 4))
    hint, message = f"use --signal TERM@{seconds}", "the program would be asked to save "
    if signal is not None and signal.name in units.NEVER_HANDLED:
        yield Finding(f"{message}at {signal.name}, which no program can handle", hint)
    elif before <= 0:
        yield Finding(f"{message}{before} s before the end, which leaves no time to save", hint)
    elif limit is not None and limit <= before:
        message += f"{before} s before the end, and a run has {limit} s"
        yield Finding(message, f"{hint}, or a longer --time")
