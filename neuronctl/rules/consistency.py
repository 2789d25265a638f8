"""NC3xx, NC513: options that contradict each other or the launcher, or that every Slurm refuses."""

from __future__ import annotations

import os
import re
from typing import Iterator, List

from neuronctl.common import units
from neuronctl.common.paths import working_directory
from neuronctl.common.rule_codes import ERROR, WARNING
from neuronctl.common.shell import join, quote
from neuronctl.common.words import counted, verb
from neuronctl.launch import launchers
from neuronctl.launch.launchers import option_name
from neuronctl.planning.model import SAVE, JobPlan, has_trap
from neuronctl.planning.needs import contradictions
from neuronctl.planning.software import called_launcher, python_file, python_module
from neuronctl.request.job import BY_NAME, UNTIL_DONE
from neuronctl.request.options import unknown_to_sbatch
from neuronctl.rules.base import EVERY_SLURM, Copies, RuleContext, Violation, rule


@rule(ERROR, "NC301", "tasks and nodes contradict each other")
def tasks_and_nodes(context: RuleContext) -> Iterator[Violation]:
    plan, request = context.plan, context.plan.request
    if request.ntasks is None:
        return
    if plan.most_nodes > plan.nodes:
        yield Violation(
            f"--ntasks={request.ntasks} on {plan.nodes} to {plan.most_nodes} nodes: how many tasks "
            "each node starts is not known",
            "request --ntasks-per-node",
        )
        return
    total = plan.nodes * plan.ntasks_per_node
    if request.ntasks == total:
        return
    if request.ntasks_per_node is None:
        more = plan.nodes * -(-request.ntasks // plan.nodes)
        yield Violation(
            f"requested {counted(request.ntasks, 'task')} on {counted(plan.nodes, 'node')}; "
            "neuronctl starts the same number on every node",
            f"use --ntasks={more}" + (f" or --ntasks={total}" if total < more else ""),
        )
    else:
        yield Violation(
            f"--ntasks={request.ntasks} contradicts {counted(plan.nodes, 'node')} x "
            f"{counted(plan.ntasks_per_node, 'task')} per node = {counted(total, 'task')}",
            f"use -N and --ntasks-per-node only, or --ntasks={total}",
        )


@rule(
    ERROR,
    "NC315",
    "numbers that Slurm refuses together",
    about="ntasks nodes ntasks-per-node gpus gpus-per-task ntasks-per-gpu cpus-per-gpu mem-per-gpu",
)
def numbers_together(context: RuleContext) -> Iterator[Violation]:
    for words in contradictions(context.plan, context.release):
        yield Violation(f"Slurm refuses the job: {words}", "change one of them", EVERY_SLURM)


@rule(ERROR, "NC302", "launcher starts its own processes", "of_step")
def one_task_a_node(context: RuleContext) -> Iterator[Violation]:
    plan, launcher = context.plan, context.plan.launcher
    if launcher.starts_processes() and plan.ntasks_per_node > 1:
        yield Violation(
            f"requested {plan.ntasks_per_node} tasks per node; {launcher.name} starts "
            f"{counted(plan.processes_per_node, 'process')} in each and needs one task per node",
            "leave --ntasks-per-node out, or use --launcher srun",
        )


@rule(ERROR, "NC303", "several nodes or tasks for one process", "of_step")
def one_process(context: RuleContext) -> Iterator[Violation]:
    plan = context.plan
    if plan.launcher.distributed or plan.launcher.whole_allocation or plan.interactive:
        return
    if plan.nodes > 1 or plan.ntasks_per_node > 1:
        yield Violation(
            f"launcher {plan.launcher.name} starts one process on the first node; requested "
            f"{counted(plan.nodes, 'node')} x {counted(plan.ntasks_per_node, 'task')}",
            "use --launcher torchrun or --launcher srun; or --launcher none, if the program starts "
            "the others itself; or request one node",
        )


@rule(WARNING, "NC304", "processes and GPUs differ", "of_step")
def processes_and_gpus(context: RuleContext) -> Iterator[Violation]:
    plan = context.plan
    if not plan.launcher.distributed:  # what the program starts is its own business
        return
    processes, gpus = plan.processes_per_node, plan.gpus_per_node
    if gpus and processes != gpus:
        words = f"{processes} processes share {counted(gpus, 'GPU')} per node"
        if processes < gpus:
            words = f"{counted(processes, 'process')} for {gpus} GPUs per node: some GPUs may stay "
            words += "idle"
        yield Violation(words, f"one process per GPU is usual: --ntasks-per-node {gpus}")


@rule(ERROR, "NC305", "launcher started by a launcher", "of_launch of_step")
def launcher_as_program(context: RuleContext) -> Iterator[Violation]:
    plan, request = context.plan, context.plan.request
    if plan.interactive or request.script is None or not plan.launcher.distributed:
        return
    times = plan.processes
    called = None if times == 1 else called_launcher(request)
    if called is None:
        return
    launcher, name, args = called
    knows_others = not {*map(option_name, args)}.isdisjoint(launcher.joins)
    if plan.processes_per_node == 1 and knows_others:
        return
    start = next((i for i, one in enumerate(args) if one.endswith(".py")), None)
    line = "PROGRAM …" if start is None else join(args[start:])
    if len(line) > 60:
        line = f"{join(args[start:][:1])} …"
    yield Violation(
        f"{name} starts processes itself, and {plan.launcher.name} starts {name} "
        f"{counted(times, 'time')}: that many separate trainings",
        f"name the program alone: --launcher {launcher.name} {line}",
    )


@rule(WARNING, "NC306", "probably not the processes you meant", "of_launch of_step")
def processes_meant(context: RuleContext) -> Iterator[Violation]:
    plan, here, request = context.plan, context.local, context.plan.request
    if plan.interactive:
        return
    file = python_file(request)
    line = f"--launcher torchrun {quote(file or '')}"
    if plan.launcher.distributed:
        several = plan.processes_per_node > 1 and here.uses_several_gpus
        if several and request.launcher is None:
            yield Violation(
                f"{plan.starts}, and {file} looks like one process that uses several GPUs itself",
                "for one process: --launcher python; for one per GPU: "
                f"--launcher {plan.launcher.name}",
            )
    elif file is not None and here.needs_ranks:
        if not any(name.endswith(("RANK", "WORLD_SIZE")) for name, _ in request.env):
            does = "calls" if here.needs_ranks == "init_process_group" else "reads"
            yield Violation(
                f"{file} {does} {here.needs_ranks}, and launcher {plan.launcher.name} sets no "
                "ranks: it may fail",
                f"torchrun sets them, also for one GPU: {line}",
            )
    elif plan.nodes > 1:
        called = called_launcher(request)
        if called is not None and called[0].starts_processes():
            launcher, name, args = called
            program = next((arg for arg in args if arg.endswith(".py")), "PROGRAM")
            yield Violation(
                f"{name} starts once, on the first node of {plan.nodes}, and reaches no other",
                f"to start it on every node: --launcher {launcher.name} {quote(program)}",
            )


@rule(
    ERROR,
    "NC310",
    "training for one GPU started on every GPU",
    "of_launch of_machine of_step first",
)
def copies(context: RuleContext) -> Iterator[Violation]:
    plan, here, request = context.plan, context.local, context.plan.request
    if here.copies not in (Copies.NO_SIGN, Copies.ALONE) or here.uses_several_gpus:
        return
    file, alone = python_file(request), here.copies == Copies.ALONE
    name = file or python_module(request)
    tasks = request.ntasks is not None or request.ntasks_per_node is not None
    sizes = ["-N 1"] if plan.most_nodes > 1 else []
    sizes += ["--gpus-per-node 1"] if plan.gpus_per_node > 1 else []
    once = "one task" if tasks else " ".join(sizes)
    many = [f"-N {plan.nodes}"] if plan.most_nodes > 1 else []
    many += [f"--gpus-per-node {plan.gpus_per_node}"] if plan.gpus_per_node > 1 else []
    many += [f"-D {quote(request.chdir)}"] if request.chdir else []
    change = ""
    if file is not None:  # a module's has no name to type
        many += [quote(file), "| patch", quote(request.from_here(file))]
        change = f": neuronctl init {' '.join(many)}"
    words = f"{name} trains alone" if alone else f"nothing in {name} shares the work"
    yield Violation(
        f"{plan.starts}, and {words}: {plan.processes} copies would do the same and overwrite each "
        "other's files",
        f"make it distributed{change} ('neuronctl help first-multi-node-training from one GPU to "
        f"several' explains it); or request {once}; if this is meant: --launcher "
        f"{plan.launcher.name}",
        # Somebody who counts tasks, or runs other lines before, may know better.
        severity=None if alone and not (tasks or request.setup) else WARNING,
    )


@rule(ERROR, "NC307", "launcher's option that neuronctl sets itself", "of_launch of_step")
def own_launcher_option(context: RuleContext) -> Iterator[Violation]:
    plan = context.plan
    for word in plan.launcher_options:
        if option_name(word) in plan.launcher.own_options:
            yield Violation(
                f"--launcher-option={quote(word)}: neuronctl gives {plan.launcher.name} this "
                "option itself, from the size of the job",
                "request nodes, tasks, cores, and GPUs with -N, --ntasks-per-node, -c, and "
                "--gpus-per-node; 'neuronctl generate' shows the launch",
            )


@rule(ERROR, "NC309", "range of nodes for a launcher that needs a number", "of_step")
def range_of_nodes(context: RuleContext) -> Iterator[Violation]:
    plan = context.plan
    if plan.most_nodes > plan.nodes and plan.launcher.counts_nodes:
        yield Violation(
            f"requested {plan.nodes} to {plan.most_nodes} nodes; launcher {plan.launcher.name} "
            "must know their number before the job runs",
            f"request one number, such as -N {plan.nodes}, or use --launcher torchrun or srun",
        )


@rule(ERROR, "NC308", "options for a launcher that has none", "of_launch of_step")
def launcher_without_options(context: RuleContext) -> Iterator[Violation]:
    plan = context.plan
    if plan.launcher_options and not plan.launcher.takes_options:
        yield Violation(
            f"launcher {plan.launcher.name} has no options of its own; requested "
            f"{join(plan.launcher_options)}",
            "leave --launcher-option out, or use another --launcher",
        )


@rule(ERROR, "NC311", "options exclude each other")
def exclusive_options(context: RuleContext) -> Iterator[Violation]:
    request = context.plan.request
    names = [option.partition("=")[0] for option in request.sbatch]
    memory: List[str] = ["mem"] if request.mem is not None else []
    memory += [option for option in ("mem-per-cpu", "mem-per-gpu") if option in names]
    if len(memory) > 1:
        options = " and ".join(f"--{option}" for option in memory)
        yield Violation(f"{options} cannot be combined", "keep one of them", EVERY_SLURM)
    exported = [option for option in request.sbatch if re.match("export=(?!ALL)", option)]
    if exported and context.plan.secrets:
        kept_out = ", ".join(context.plan.secrets)
        yield Violation(
            f"--sbatch {exported[0]} keeps {kept_out} out of the job, which only your shell's "
            "environment can pass on",
            "leave export out, or let the program read the secret from a file",
        )
    if request.conda is not None and request.venv is not None:
        yield Violation("--conda and --venv cannot be combined", "keep one of them")
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Violation(
            f"--sbatch {name} is given more than once", "Slurm uses the last: keep that one"
        )


# sbatch options for which neuronctl has its own; as --sbatch they would go unchecked.
OTHER_WORDS = {
    "clusters": "log in to that cluster; --cluster NAME plans for it",
    "cpus-per-gpu": "request cores per task: -c",
    **dict.fromkeys(
        ["gpus-per-socket", "gpus-per-task", "tres-per-job", "tres-per-node", "tres-per-task"],
        "request GPUs per node: --gpus-per-node",
    ),
    "no-requeue": "use neuronctl's own --no-requeue",
    "ntasks-per-gpu": "request tasks per node: --ntasks-per-node",
}


@rule(ERROR, "NC313", "sbatch option that has another of neuronctl's own")
def other_words(context: RuleContext) -> Iterator[Violation]:
    for option in context.plan.request.sbatch:
        name = option.partition("=")[0]
        if name in OTHER_WORDS:
            yield Violation(
                f"--sbatch {option} would bypass neuronctl's plan and checks", OTHER_WORDS[name]
            )


@rule(ERROR, "NC314", "option that sbatch does not know", "of_machine")
def unknown_word(context: RuleContext) -> Iterator[Violation]:
    for option in context.plan.request.sbatch:
        name = option.partition("=")[0]
        meant = unknown_to_sbatch(name)
        if meant is not None and name not in context.local.plugin_options:
            yield Violation(
                f"--sbatch {option}: sbatch has no option --{name}",
                meant,
            )


@rule(ERROR, "NC312", "node list contradicts the request", "of_partition", about="nodelist exclude")
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
                f"--{option}={text}: {error}",
                "node names are written like gpu[01-04,07]",
                EVERY_SLURM,
            )
    if not names:
        return
    wanted, excluded = names.get("nodelist", set()), names.get("exclude", set())
    on_cluster = context.on_cluster
    release = () if on_cluster is None else on_cluster.snapshot.limits.config.release
    # A later sbatch takes more names than nodes, for those among which Slurm chooses.
    more = len(wanted) > plan.most_nodes
    both = sorted(wanted & excluded)
    chooses = more and release > (22, 5) and len(wanted - excluded) >= plan.nodes
    if both and not chooses:
        yield Violation(
            f"{', '.join(both)} {verb(len(both))} in both --nodelist and --exclude",
            "remove them from one",
            EVERY_SLURM,
        )
    if more and release <= (22, 5):
        yield Violation(
            f"--nodelist names {len(wanted)} nodes; requested {plan.nodes}",
            f"request -N {len(wanted)}, or name fewer",
        )
    partition = plan.partition
    if wanted and partition.node_list is not None:
        has = units.expand_hostlist(partition.node_list)
        # The catalog may name only some of a partition's nodes.
        if partition.nodes is not None and len(has) >= partition.nodes:
            strangers = sorted(wanted - set(has))
            if strangers:
                yield Violation(
                    f"{', '.join(strangers)} in --nodelist {verb(len(strangers))} not in "
                    f"{partition.name}, which has {partition.node_list}",
                    "name other nodes, or another partition",
                    context.cite_partition("node_list"),
                )


@rule(ERROR, "NC513", "no moment to begin at", about="begin")
def begin(context: RuleContext) -> Iterator[Violation]:
    text = context.plan.request.sbatch_value("begin")
    if text is None:
        return
    from neuronctl.request.begin_time import EXAMPLES, moment  # here, as few jobs have one

    try:
        moment(text, 0)  # what cannot be read now can never be
    except ValueError:
        words = f"--begin={text} is not a time that Slurm reads"
        yield Violation(words, f"use {EXAMPLES}", EVERY_SLURM)


@rule(WARNING, "NC321", "signal that does not reach every process", "of_step")
def signal_and_launcher(context: RuleContext) -> Iterator[Violation]:
    plan, signal, launcher = context.plan, context.plan.signal, context.plan.launcher
    if signal is None or not plan.passes_signal:
        return
    import signal as signals  # here, as few jobs have one

    numbers = [str(int(getattr(signals, f"SIG{name}"))) for name in launcher.signals]
    if launcher.signals and signal.name not in (*launcher.signals, *numbers):
        yield Violation(
            f"--signal={plan.request.signal}: {launcher.name} ends its processes at {signal.name} "
            "and fails, even if they save and exit with 0",
            f"use {' or '.join(launcher.signals)}, which it passes on to them",
        )
    elif launcher.ssh and not launcher.signals and plan.most_nodes > 1:
        yield Violation(
            f"--signal={plan.request.signal}: {launcher.name} starts processes over ssh, and those "
            "on other nodes than the first never receive it",
            "use --launcher srun, where every process receives it",
        )


@rule(ERROR, "NC344", "a job that cannot go on until it is done")
def until_done(context: RuleContext) -> Iterator[Violation]:
    plan, request = context.plan, context.plan.request
    if not request.until_done:
        given = [name for name in UNTIL_DONE if getattr(request, BY_NAME[name].field) is not None]
        given = [name for name in given if name != "checkpoint" or request.stall is None]
        if given and not plan.interactive:
            words = f"--{given[0]} is for a job with several runs; this job has one"
            other = " or --stall" if given[0] == "checkpoint" else ""
            yield Violation(words, f"add --until-done{other}, or leave it out")
        return
    if plan.until_done is None:
        return
    if request.requeue is False and request.array:
        words = (
            "--no-requeue forbids what an array needs to go on: that its tasks requeue themselves"
        )
        yield Violation(words, "leave --no-requeue out, or submit a job for each task")
    if _holds_log(plan):
        words = (
            f"--checkpoint {request.checkpoint} has the job's own log in it, which every run "
            "changes: that nothing moves would never be seen"
        )
        hint = "name what the program itself writes: a file, or a directory without the log"
        yield Violation(words, hint)
    if request.sbatch_value("open-mode") == "truncate":
        words = "--open-mode=truncate would empty the log in each run of --until-done"
        yield Violation(words, "leave it out")
    lines = "\n".join(request.setup)
    if any(has_trap(lines, name) for name in ("TERM", "EXIT", SAVE)):
        yield Violation(
            f"a --setup line sets a trap for TERM, EXIT, or {SAVE}: with --until-done, the batch "
            "shell needs its own",
            "move the trap into the program, or into the shell text of --body",
        )
    if request.resume_with and request.script is None:
        yield Violation(
            "--resume-with has no program to which its words could be added",
            "use $NEURONCTL_RUN in the shell text: it is 1 in the first run",
        )
    before, limit, signal = plan.until_done.before_end, plan.time_limit, plan.signal
    problem, longer = "", ""
    if signal is not None and signal.name in units.NEVER_HANDLED:
        problem = f"the program is to save at {signal.name}, which no program can handle"
    elif before <= 0:
        problem = "the program is to save 0 s before the end, which leaves no time to save"
    elif limit is not None and 0 <= limit <= before:
        problem = f"the program is to save {before} s before the end, and a run has {limit} s"
        longer = ", or a longer --time"
    if problem:
        seconds = 300 if limit is None or limit < 0 else max(1, min(300, limit // 4))
        yield Violation(problem, f"use --signal TERM@{seconds}{longer}")


def _holds_log(plan: JobPlan) -> bool:
    """Whether a log of the job, or the notes of its runs, are of what --checkpoint names."""
    request = plan.request
    checkpoint, notes = request.checkpoint or "", plan.until_done and plan.until_done.runs_file
    if not checkpoint or (plan.code is not None and not os.path.isabs(checkpoint)):
        return False  # what is relative is in the copy of the code, where no log is
    here = os.path.join(working_directory(), request.chdir or "")
    place = os.path.normpath(os.path.join(here, checkpoint))
    logs = {plan.output or "slurm-%j.out", plan.error or "", notes or ""} - {"", "/dev/null"}
    paths = [os.path.normpath(os.path.join(here, log)) for log in logs]
    return any(f"{path}/".startswith(f"{place.rstrip('/')}/") for path in paths)


@rule(WARNING, "NC345", "a library that answers the signal in its own way", "of_step")
def signal_taken(context: RuleContext) -> Iterator[Violation]:
    plan, signal = context.plan, context.plan.signal
    if signal is None or not plan.request.until_done:
        return
    names, answers = set(context.local.imports), context.local.answers
    lightning = bool(names & {"lightning", "pytorch_lightning"}) and "fabric" not in names
    if "submitit" in names:
        yield Violation(
            "submitit submits and requeues jobs of its own; --until-done would only restart the "
            "program that submits them",
            "give neuronctl the training itself, or leave --until-done out",
        )
    elif lightning and signal.name == "USR1" and "auto_requeue=False" not in answers:
        yield Violation(
            "Lightning requeues the job itself at USR1, beside --until-done",
            "use --signal TERM, or SLURMEnvironment(auto_requeue=False)",
        )
    elif lightning and signal.name == "TERM" and "SIGTERM" not in answers:
        yield Violation(
            "Lightning ends the program with 0 at TERM, which --until-done takes for the end of "
            "the training",
            "set a handler for signal.SIGTERM in on_train_start, and sys.exit(75) while epochs are "
            "left, as examples/train_lightning.py does",
        )
    elif signal.name == "USR1" and plan.gpus > 1 and "torch" in names:
        yield Violation(
            "releases of NCCL from 2022 catch USR1, and the program never receives it",
            "use --signal TERM, unless your NCCL is newer than that",
        )


@rule(WARNING, "NC348", "shell text that hides its program's exit code", "of_step")
def hidden_end(context: RuleContext) -> Iterator[Violation]:
    body = context.plan.request.body
    if not body or not context.plan.request.until_done:
        return
    from neuronctl.rules import script  # noqa: F401  (all rules on scripts, in their order)
    from neuronctl.rules.script_base import ScriptFacts
    from neuronctl.rules.script_exits import hidden_exit_code
    from neuronctl.scripts.header import read_header
    from neuronctl.scripts.shell_text import read_shell

    text = f"#!/bin/bash\n#SBATCH --job-name=x\n{body}\n"
    facts = ScriptFacts(text, read_header(text), read_shell(text, running=True), None)
    for found in hidden_exit_code(facts):
        words = f"--until-done goes by the exit code of the shell text: {found.message}"
        yield Violation(words, found.hint)
        return


@rule(WARNING, "NC346", "a watch that has no effect")
def stall(context: RuleContext) -> Iterator[Violation]:
    plan, request = context.plan, context.plan.request
    limit = plan.time_limit
    if plan.stall is None or plan.interactive:
        return
    if limit is not None and 0 <= limit <= plan.stall:
        upto = units.format_time(limit)
        yield Violation(
            f"--stall {request.stall} is not shorter than the time limit of {upto}",
            "request a longer --time, or a shorter --stall",
        )
    if {plan.output, plan.error or plan.output} == {"/dev/null"} and not request.checkpoint:
        yield Violation(
            "--stall has nothing to look at: the job has no log, and no --checkpoint",
            "name what the program writes with --checkpoint",
        )
    if request.monitor and not request.until_done and _holds_log(plan):
        yield Violation(
            f"--stall sees a change in --checkpoint {request.checkpoint} every few seconds: the "
            "samples of --monitor, beside the log",
            "name what the program itself writes: a file, or a directory without the log",
        )


MAX_ARG_STRLEN = 131_072
"""Bytes of the longest single argument that Linux passes to a program, its NUL included."""


_HOROVODS_OWN = 300
"""Bytes that its own variables take at least, seen with Horovod 0.28: ranks, sizes, addresses."""


@rule(ERROR, "NC322", "command too long for horovodrun", "of_step")
def horovod_command(context: RuleContext) -> Iterator[Violation]:
    plan = context.plan
    if not plan.launcher.one_string:
        return
    program = sum(len(str(quote(word)).encode()) + 1 for word in plan.program)
    variables = 0
    if plan.launcher.one_string == launchers.PROGRAM_AND_VARIABLES:
        given = (f"{name}={quote(value)}" for name, value in plan.request.env)
        variables = _HOROVODS_OWN + sum(len(option.encode()) + 1 for option in given)
        variables += 0 if context.reviewed else context.local.environment_bytes
    if program + variables >= MAX_ARG_STRLEN:
        words = f"the program with its arguments has {program} bytes"
        if variables:
            words += f", the variables with it {variables}"
        yield Violation(
            f"{plan.launcher.name} passes its whole command on as one argument, and {words}; Linux "
            f"allows fewer than {MAX_ARG_STRLEN} in all",
            "put the arguments into a file that the program reads, or use --launcher srun",
        )


@rule(ERROR, "NC323", "horovodrun in a directory with a blank", "of_machine of_step")
def horovod_directory(context: RuleContext) -> Iterator[Violation]:
    here = context.local
    if not here.directory or context.plan.launcher.quotes_directory:
        return
    if context.plan.most_nodes > 1 and quote(here.directory) != here.directory:
        yield Violation(
            f"{context.plan.launcher.name} changes into the working directory on the other nodes "
            f"without quoting it, and a shell does not read '{here.directory}' as one word",
            "submit from a directory whose path has no blanks or shell characters, or use "
            "--launcher horovodrun-mpi or srun",
        )


@rule(ERROR, "NC324", "container in a directory with a comma", "of_machine of_launch of_step")
def container_directory(context: RuleContext) -> Iterator[Violation]:
    directory = context.local.directory
    sign = next((mark for mark in ",:" if mark in directory), "")
    runtime = context.plan.wrapping.prefix[:1]
    if sign and runtime:
        yield Violation(
            f"{runtime[0]} reads a '{sign}' in --bind as the end of a path, and "
            f"the working directory '{directory}' has one",
            "submit from a directory without one, or rename it",
        )


@rule(ERROR, "NC331", "container and environment exclude each other")
def container_and_environment(context: RuleContext) -> Iterator[Violation]:
    request = context.plan.request
    for option in ("conda", "venv"):
        if request.container is not None and getattr(request, option) is not None:
            yield Violation(
                f"--container and --{option} cannot be combined: the image runs its own Python",
                "keep one of them, or install what is missing into the image",
            )


@rule(ERROR, "NC333", "container runtime needs srun", "of_step")
def runtime_and_launcher(context: RuleContext) -> Iterator[Violation]:
    plan = context.plan
    if plan.wrapping.srun and plan.launcher.own_variables:
        yield Violation(
            f"Pyxis starts containers through srun, and {plan.launcher.name} starts its processes "
            "without it",
            "use --container-runtime singularity, or --launcher srun or torchrun",
        )


@rule(WARNING, "NC334", "launch was never run by neuronctl's tests")
def untried_runtime(context: RuleContext) -> Iterator[Violation]:
    if context.plan.wrapping.srun:
        yield Violation(
            "neuronctl's tests have no Pyxis: its srun options are written from its documentation "
            "and were never run",
            "review the script with 'neuronctl generate' before you rely on it",
        )


@rule(WARNING, "NC335", "container options without a container")
def container_options(context: RuleContext) -> Iterator[Violation]:
    request = context.plan.request
    given = {
        "--container-runtime": request.container_runtime,
        "--bind": request.binds,
        "--container-option": request.container_options,
    }
    options = [name for name, value in given.items() if value]
    if request.container is None and options:
        words = f"{', '.join(options)} {verb(len(options), 'has', 'have')} no effect"
        yield Violation(f"{words} without --container", "add --container IMAGE, or leave this out")


@rule(WARNING, "NC336", "several modules in one word")
def modules_in_one_word(context: RuleContext) -> Iterator[Violation]:
    plan = context.plan
    for name in plan.request.modules:
        parts = re.split(r"[,\s]+", name.strip(", "))
        if len(parts) > 1 and name not in plan.cluster.modules:
            yield Violation(
                f"'module load' reads --module '{name}' as one module's name, blanks and commas "
                "included",
                "use one option per module: "
                + join([w for part in parts for w in ("--module", part)]),
            )
