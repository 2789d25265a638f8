"""Settles the values of a plan, each with its reason.

A plan is made for bad requests too, so that the rules can report everything at once.
"""

from __future__ import annotations

import re
import shlex
from functools import partial
from typing import TYPE_CHECKING, Dict, Iterator, List, Optional, Sequence, Tuple, TypeVar, Union

from neuronctl.catalog.model import Cluster, Partition
from neuronctl.common import units
from neuronctl.common.errors import UsageError
from neuronctl.common.frozen import replace
from neuronctl.common.shell import Shell
from neuronctl.common.words import counted
from neuronctl.launch import launchers
from neuronctl.launch.containers import RUNTIMES, Wrapping
from neuronctl.launch.environments import Conda
from neuronctl.launch.launchers import Launcher
from neuronctl.planning.directives import directives
from neuronctl.planning.model import (
    AllocationPart,
    Decision,
    JobPlan,
    JobStep,
    UntilDone,
    passes,
    signal_of,
)
from neuronctl.planning.software import (
    activation,
    exports,
    named_after,
    program,
    runs_python,
    starts_once,
)
from neuronctl.planning.steps import Share, step_place, step_request
from neuronctl.request.job import JobRequest, Source, StepRequest
from neuronctl.request.values import one_line

if TYPE_CHECKING:
    from neuronctl.planning.code_copy import CodeSnapshot


def plan(
    request: JobRequest,
    cluster: Cluster,
    *,
    interactive: bool = False,
    place: Optional[AllocationPart] = None,
    recognised: str = "",
    conda: Optional[Conda] = None,
    chain: str = "",
    code: Optional[CodeSnapshot] = None,
) -> JobPlan:
    """Settle every value of ``request`` for ``cluster``.

    interactive: for salloc: no program, no log files, one task per GPU by default. place: the part
    of an allocation to launch on, where the plan is not for a job of its own. recognised: how the
    cluster was recognised, if it was not requested. conda: the conda of this machine, if the
    request is for one of its environments. chain: why Slurm would not requeue the job. code: the
    copy of the code that it runs from.

    Raises UsageError for a launcher or a container runtime that does not exist, and for a program
    whose name is not one line.
    """
    # The name is written into the preflight's here-document, which one of its lines could end.
    if request.script is not None:
        try:
            one_line(request.script)
        except ValueError as error:
            raise UsageError(f"the program's name {error}", "rename the file") from None
    if request.exclusive and request.sbatch_value("exclusive"):
        request = replace(request, exclusive=None)  # of the two, Slurm takes the last
    return _PlanBuilder(request, cluster, interactive, recognised, conda, chain, code).plan(place)


T = TypeVar("T")

# Directives that get a remark with their derivation.
_REMARKED = (
    *("partition", "nodes", "ntasks-per-node", "cpus-per-task", "gpus-per-node", "time", "signal"),
)


class _PlanBuilder:
    """Builds one plan in two stages, and collects the decisions on the way.

    First the sizes: partitions, nodes, GPUs, launcher, tasks, and the same of each step. A job has
    the cores that its steps need, and a step its share of the job's; so the cores, and what depends
    on them, come second.
    """

    name = ""
    """Of a step, for messages."""

    def __init__(
        self,
        request: JobRequest,
        cluster: Cluster,
        interactive: bool = False,
        recognised: str = "",
        conda: Optional[Conda] = None,
        chain: str = "",
        code: Optional[CodeSnapshot] = None,
    ) -> None:
        self.request, self.cluster = request, cluster
        self.interactive, self.conda, self.chain, self.code = interactive, conda, chain, code
        self.decisions: Dict[str, Decision] = {}
        if request.cluster is not None:
            self.asked("cluster", "cluster", request.cluster)
        else:
            how = recognised or "the catalog's default"
            self.decide("cluster", cluster.name, Source.CLUSTER, how)
        self.partitions = self._partitions()
        self.nodes = self._nodes()
        self.most_nodes = request.max_nodes or self.nodes
        self.gpus = self._gpus()
        self.launcher = self._launcher()
        if request.until_done and request.signal is None:
            self.request = replace(request, signal=next(iter(self.launcher.signals), "TERM"))
        self.steps = self._steps(request.steps)
        self.launches = [launch for step in self.steps for launch in step]
        self.ntasks_per_node = self._ntasks_per_node()
        self.processes = self.ntasks_per_node
        if self.launcher.starts_processes():
            reason = "one process per GPU" if self.gpus else "one process per node without GPUs"
            self.processes = self.derived("processes per node", max(self.gpus, 1), reason)

    def decide(self, name: str, value: T, source: Source, reason: str) -> T:
        """Record a value, and return it."""
        self.decisions[name] = Decision(name, str(value), source, reason)
        return value

    def derived(self, name: str, value: T, reason: str = "") -> T:
        """Record a value that follows from others, and return it."""
        return self.decide(name, value, Source.DERIVED, reason)

    def asked(self, name: str, field: str, value: T) -> T:
        """Record a value that the request itself carries, and return it."""
        origin = self.request.origin(field)
        return self.decide(name, value, origin.source, origin.where)

    def remark(self, name: str) -> str:
        decision = self.decisions.get(name)
        if decision is None or name not in _REMARKED:
            return ""
        reason = decision.reason if decision.source in (Source.DERIVED, Source.CLUSTER) else ""
        memory = self.decisions.get("memory per node")
        if name == "cpus-per-task" and memory is not None:
            reason += f"{'; ' if reason else ''}{memory.value} of memory per node"
        return reason

    def plan(self, place: Optional[AllocationPart]) -> JobPlan:
        """The plan. place: the part of an allocation to launch on."""
        request, launcher, processes = self.request, self.launcher, self.processes
        most_nodes = self.most_nodes
        partition, *alternatives = self.partitions
        cpus_per_task = self._cpus_per_task(place)
        cores = self.ntasks_per_node * cpus_per_task
        self._memory(partition, cores, place)
        time_limit, time_text = self._time(partition)
        comment = self._comment()
        job_name = self._job_name()
        output = self._log("output", request.output, ".out")
        error = self._log("error", request.error, ".err")
        self._software()
        holds = partial(
            launchers.holds,
            nodes=most_nodes,
            processes=most_nodes * processes,
            python=self.interactive or runs_python(request),
        )
        steps = tuple(self._planned_steps(cores))
        launches = [launch for step in steps for launch in step.launches]
        if request.cpus_per_task == 0 and place is None:
            self._check_left_to_slurm(launches)
        for launch in launches:
            most = launch.cores_per_node
            if launch.request.cpus_per_task and most > cores:
                raise UsageError(
                    f"{launch.step} requests {counted(most, 'core')} per node; the job has {cores}",
                    f"request at most {cores} for the step, or more for the job",
                )
        for number, step in enumerate(steps, start=1):
            says = "; ".join(launch.starts for launch in step.launches)
            self.derived(f"step {number}", says)
        wrapping = self._wrapping()
        sharing = processes if launcher.distributed else 1
        until_done = self._until_done(time_limit)
        if self.code is not None and not self.name:
            self.asked("snapshot", "snapshot", str(self.code))
        settled: Dict[str, Union[str, bool, None]] = {
            "job-name": job_name,
            "partition": ",".join(each.name for each in (partition, *alternatives)) or None,
            "nodes": f"{self.nodes}-{most_nodes}" if most_nodes > self.nodes else str(self.nodes),
            "ntasks-per-node": None if self._one_task(most_nodes) else str(self.ntasks_per_node),
            "cpus-per-task": str(cpus_per_task) if request.cpus_per_task != 0 else None,
            "time": time_text,
            "comment": comment,
            "signal": self._signal(until_done),
            "requeue": request.requeue if until_done is None else not until_done.chain,
            "output": output,
            "error": error,
        }
        planned = JobPlan(
            request=request,
            cluster=self.cluster,
            partition=partition,
            alternatives=tuple(alternatives),
            interactive=self.interactive,
            job_name=job_name,
            nodes=self.nodes,
            most_nodes=most_nodes,
            ntasks_per_node=self.ntasks_per_node,
            cpus_per_task=cpus_per_task,
            gpus_per_node=self.gpus,
            processes_per_node=processes,
            time_limit=time_limit,
            comment=comment,
            output=output,
            error=error,
            launcher=launcher,
            rendezvous=holds(launcher.rendezvous) or any(launch.rendezvous for launch in launches),
            srun_options=self.cluster.policy.srun_options + (place.step_options if place else ()),
            wrapping=wrapping,
            program=program(request, launcher, macros=holds(launcher.macros)),
            preflight=request.preflight is not False and not self.interactive,
            hosts=place.hosts if place else (),
            activation=activation(request, self.cluster, self.conda),
            exports=exports(request, self.cluster, cores=cores, processes=sharing),
            directives=directives(
                request,
                self.cluster.policy,
                settled,
                gpus=self.gpus,
                interactive=self.interactive,
                remark=self.remark,
            ),
            decisions=tuple(self.decisions.values()),
            steps=steps,
            own_step=place is not None and place.is_share,
            until_done=until_done,
            code=self.code,
        )
        if place is not None or (until_done is None and not self._has_price()):
            return planned
        from neuronctl.planning.cost import cost_decisions  # here, as few jobs have a bound

        return replace(planned, decisions=(*planned.decisions, *cost_decisions(planned)))

    def _has_price(self) -> bool:
        return any(self.cluster.price_in(partition.name).known for partition in self.partitions)

    def _check_left_to_slurm(self, launches: Sequence[JobPlan]) -> None:
        told = [part.launcher.name for part in launches if part.launcher.by_srun or part.own_step]
        told += [self.launcher.name] if self.launcher.by_srun and not self.interactive else []
        if told:
            raise UsageError(
                f"--cpus-per-task 0 leaves the cores to Slurm, and {told[0]} has to know how many "
                "each task gets",
                "request them, such as -c 8",
            )

    def _until_done(self, time_limit: Optional[int]) -> Optional[UntilDone]:
        """How the job goes on after its time limit."""
        request = self.request
        if not request.until_done or self.interactive:
            return None
        _, _, seconds = units.split_signal(request.signal or "")
        before_end = int(seconds) if seconds else 300
        if not seconds and time_limit is not None and time_limit != units.UNLIMITED:
            before_end = min(before_end, time_limit // 4)
        runs = 10 if request.max_runs is None else request.max_runs
        chain = "--no-requeue" if request.requeue is False else self.chain
        if chain:
            how = "a chain of jobs, the next of which waits for the end of the one that runs"
            origin = request.origin("until_done")
            why = "; ".join(filter(None, (origin.where, chain)))
            self.decide("until-done", f"{how}; at most {counted(runs, 'run')}", origin.source, why)
        else:
            self.asked("until-done", "until_done", f"requeued; at most {counted(runs, 'run')}")
        return UntilDone(
            max_runs=runs,
            before_end=before_end,
            resume_with=tuple(shlex.split(request.resume_with or "")),
            chain=chain,
        )

    def _signal(self, until_done: Optional[UntilDone]) -> Optional[str]:
        request = self.request
        signal = signal_of(request)
        if signal is not None and until_done is not None:
            text = f"B:{signal.of_shell}@{until_done.before_end}"
            return self.derived(
                "signal", text, f"then {signal.name} goes to what handles it, to save"
            )
        if signal is None or self.interactive:
            return request.signal
        if signal.to_batch_shell or not passes(signal, self.launcher, bool(request.steps)):
            return self.asked("signal", "signal", request.signal)
        flags, name, seconds = units.split_signal(request.signal or "")
        reason = "the batch shell passes it on: what it starts is no step"
        return self.derived("signal", f"{flags}B:{name}{seconds and f'@{seconds}'}", reason)

    def _steps(self, steps: Sequence[StepRequest]) -> List[List[_StepBuilder]]:
        """The builders of each step: one, or one for each that runs side by side."""
        whole, found = Share(self.nodes, self.gpus, self.gpus), []
        for number, step in enumerate(steps, start=1):
            share = whole.among(len(step.together)) if step.together else whole
            names = [f"step {number}, part {part + 1}" for part in range(len(step.together))]
            parts = zip(step.together or (step,), names or [f"step {number}"])
            found.append([_StepBuilder(part, share, name, self) for part, name in parts])
        return found

    def _planned_steps(self, cores: int) -> Iterator[JobStep]:
        for step, builders in zip(self.request.steps, self.steps):
            parts = tuple(builder.job_step(cores) for builder in builders)
            yield JobStep(None, parts, step.allow_failure) if step.together else parts[0]

    def _partitions(self) -> List[Partition]:
        name = self.request.partition
        if name is not None:
            self.asked("partition", "partition", name)
        elif self.cluster.default_partition is not None:
            name = self.cluster.default_partition
            self.decide("partition", name, Source.CLUSTER, "the cluster's default partition")
        else:
            name = ""
        names = list(dict.fromkeys(filter(None, name.split(",")))) or [""]
        return [self.cluster.partition_for(name, self.request.qos) for name in names]

    def _nodes(self) -> int:
        nodes = self.request.nodes
        if nodes is not None:
            most = self.request.max_nodes
            self.asked("nodes", "nodes", f"{nodes}-{most}" if most else nodes)
            return nodes
        named = len(set(units.hosts(self.request.nodelist)))  # what cannot be read, NC312 says
        if named > 1:
            return self.derived("nodes", named, "as many as --nodelist names")
        return self.derived("nodes", 1)

    def _gpus(self) -> int:
        nodes, gpus, total = self.nodes, self.request.gpus_per_node, self.request.gpus
        if total and self.request.max_nodes is not None:
            raise UsageError(
                f"--gpus: {counted(total, 'GPU')} on {nodes} to {self.request.max_nodes} nodes: "
                "how many each has is not known",
                "request GPUs per node: --gpus-per-node",
            )
        if total is not None and (total % nodes or gpus not in (None, total // nodes)):
            wanted = gpus or -(-total // nodes)
            what = f"--gpus: {counted(total, 'GPU')} on {counted(nodes, 'node')}"
            raise UsageError(
                f"{what} cannot be divided evenly"
                if gpus is None
                else f"{what} contradicts --gpus-per-node={gpus}",
                f"request GPUs per node: -N {nodes} --gpus-per-node {wanted} requests "
                f"{counted(nodes * wanted, 'GPU')}",
            )
        if gpus is not None:
            return self.asked("gpus-per-node", "gpus_per_node", gpus)
        if total is not None:
            self.asked("gpus", "gpus", total)
            reason = f"{total} GPUs / {nodes} nodes" if nodes > 1 else ""
            return self.derived("gpus-per-node", total // nodes, reason)
        return 0

    def _launcher(self) -> Launcher:
        request, nodes = self.request, self.most_nodes
        if request.launcher is not None:
            launcher = launchers.load(request.launcher)
            self.asked("launcher", "launcher", launcher.name)
            return launcher
        tasks = request.ntasks or nodes * (request.ntasks_per_node or 1)
        if self.interactive:
            return launchers.load("srun")
        once = starts_once(request)
        if once:
            name, reason = "none", once
        elif tasks > nodes:
            name, reason = "srun", "several tasks per node requested"
        elif nodes * max(self.gpus, 1) > 1 and runs_python(request):
            name, reason = "torchrun", "a Python program over several GPUs or nodes"
        elif nodes > 1:
            name, reason = "srun", "a program over several nodes"
        else:
            name, reason = "python", "one process"
        self.derived("launcher", name, reason)
        return launchers.load(name)

    def _ntasks_per_node(self) -> int:
        request, nodes, gpus = self.request, self.nodes, self.gpus
        if request.ntasks_per_node is not None:
            return self.asked("ntasks-per-node", "ntasks_per_node", request.ntasks_per_node)
        if request.ntasks is not None:
            each = max(1, request.ntasks // nodes)
            reason = f"{counted(request.ntasks, 'task')} on {counted(nodes, 'node')}"
            return self.derived("ntasks-per-node", each, reason)
        most = max((launch.ntasks_per_node for launch in self.launches), default=0)
        if most:
            return self.derived("ntasks-per-node", most, "the most that a step needs")
        if self.launcher.one_task_per_node:
            if self.launcher.distributed:
                reason = f"{self.launcher.name} starts the processes"
            else:
                reason = "one task per node by default" if nodes > 1 else "one process"
            return self.derived("ntasks-per-node", 1, reason)
        reason = "one task per GPU" if gpus else "one task per node by default"
        return self.derived("ntasks-per-node", max(gpus, 1), reason)

    def _one_task(self, most_nodes: int) -> bool:
        """Whether a job has one task because nobody asked for tasks, which is Slurm's default, too.

        Slurm then sets no SLURM_NTASKS, by which Lightning takes the program for a task of srun.
        """
        asked = self.request.ntasks_per_node is not None or self.request.ntasks is not None
        alone = most_nodes == 1 and self.launcher.one_task_per_node
        return alone and self.ntasks_per_node == 1 and not (asked or self.interactive)

    def _cpus_per_task(self, place: Optional[AllocationPart]) -> int:
        asked, ntasks_per_node = self.request.cpus_per_task, self.ntasks_per_node
        if asked == 0 and place is None:
            self.asked("cpus-per-task", "cpus_per_task", "left to Slurm")
            return 1  # what Slurm gives at least
        if asked:
            return self.asked("cpus-per-task", "cpus_per_task", asked)
        if place is not None:
            cores = place.cores
            reason = (
                f"{counted(cores, 'core')} of the allocation / {counted(ntasks_per_node, 'task')}"
            )
            return self.derived("cpus-per-task", max(1, cores // ntasks_per_node), reason)
        value, reason = self._derived_cores()
        needs = [
            launch.ntasks_per_node * max(1, launch.request.cpus_per_task)
            for launch in self.launches
            if launch.request.cpus_per_task is not None
        ]
        needed = -(-max(needs, default=0) // ntasks_per_node)
        if needed > value:
            value, reason = needed, "the most that a step needs"
        return self.derived("cpus-per-task", value, reason)

    def _derived_cores(self) -> Tuple[int, str]:
        """The cores of each task that come with the GPUs, and why."""
        partitions, ntasks_per_node, gpus = self.partitions, self.ntasks_per_node, self.gpus
        # Of several partitions, Slurm may choose any.
        shares = [(self.cluster.cores_per_gpu(each), each) for each in partitions]
        each, partition = min(
            ((cores, one) for cores, one in shares if cores is not None),
            key=lambda share: share[0],
            default=(None, partitions[0]),
        )
        if gpus and each is not None:
            # NC121 reports more GPUs than a node has; the cores need not repeat it.
            held = min(gpus, partition.gpus_per_node) or 1
            cores = each * held
            reason = f"{counted(each, 'core')} per GPU"
            if held > 1:
                reason = f"{held} GPUs x {reason}"
            if ntasks_per_node > 1:
                reason += f" / {ntasks_per_node} tasks"
            return max(1, cores // ntasks_per_node), reason
        # Each GPU needs at least one core; the catalog does not say how many more it gets.
        reason = "one core per GPU by default" if gpus > 1 else "one core per task by default"
        return max(1, -(-gpus // ntasks_per_node)), reason

    def _memory(self, partition: Partition, cores: int, place: Optional[AllocationPart]) -> None:
        request = self.request
        if request.mem is not None:
            self.asked("mem", "mem", request.mem)
            return
        memory = self.cluster.memory_mb(partition, cores)
        unknown = request.exclusive or request.cpus_per_task == 0
        if memory is None or place is not None or unknown:
            return
        fraction = self.cluster.policy.memory_fraction
        reason = f"{counted(cores, 'core')} x {fraction} x node memory / cores per node"
        self.derived("memory per node", f"about {memory // 1024} GB", reason)

    def _time(self, partition: Partition) -> Tuple[Optional[int], Optional[str]]:
        text = self.request.time_limit
        if text is not None:
            self.asked("time", "time_limit", text)
            seconds = units.parse_time(text)
            # A bare number is minutes, and MM:SS looks like HH:MM: write the time out.
            plain = seconds == units.UNLIMITED or text.count(":") == 2
            origin = self.request.origin("time_limit")
            if seconds != units.UNLIMITED and text.count(":") == 1 and "-" not in text:
                reason = f"{text} is MM:SS to Slurm; hours are {text}:00"
                reason += "" if origin.source is Source.ASKED else f"; {origin}"
                self.derived("time", units.format_time(seconds), reason)
            elif not plain:
                reason = ", ".join(part for part in (origin.where, f"as {text}") if part)
                self.decide("time", units.format_time(seconds), origin.source, reason)
            return seconds, text if plain else units.format_time(seconds)
        limits = partition.wall_time
        default = limits.default
        if self.interactive and limits.interactive_maximum is not None:
            default = limits.interactive_maximum
        if default is None:
            return None, None
        text = units.format_time(default)
        qos, whose = self.cluster.qos_named(self.request.qos), "the default of"
        if qos is not None and qos.wall_time.maximum == default:
            whose = f"the most that QOS {qos.name} allows on"
        self.decide("time", text, Source.CLUSTER, f"{whose} {self.cluster.name}")
        return default, text

    def _comment(self) -> Optional[str]:
        request = self.request
        policy = self.cluster.policy.comment
        if request.comment is not None:
            return self.asked("comment", "comment", request.comment)
        given = {"field": request.field, "appl": request.appl}
        if policy.form == "fields":
            pairs = [
                f"{each.key}={given[each.key]}" for each in policy.fields if given.get(each.key)
            ]
            if not pairs:
                return None
            return self.derived("comment", ";".join(pairs), "from --field and --appl")
        if policy.form == "word" and request.appl:
            return self.asked("comment", "appl", request.appl)
        return None

    def _job_name(self) -> str:
        request = self.request
        if request.job_name is not None:
            return self.asked("job-name", "job_name", request.job_name)
        if request.script is None:
            if request.text_file is not None:
                return self.derived("job-name", _name_of(request.text_file), "the file's name")
            return self.derived("job-name", "interactive" if self.interactive else "job")
        return self.derived("job-name", _name_of(named_after(request)), "the program's name")

    def _log(self, name: str, asked: Optional[str], suffix: str) -> Optional[str]:
        request = self.request
        if self.interactive:
            return None
        if asked is not None:
            return self.asked(name, name, asked)
        if name == "error" and request.output is not None:
            return None  # sbatch writes both into the one file asked for
        pattern = "%x_%A_%a" if request.array else "%x_%j"
        return self.derived(name, f"{pattern}{suffix}", "job name and id")

    def _software(self) -> None:
        """Record where the software comes from, and which values refer to others."""
        request = self.request
        if request.modules:
            origin = request.origin("modules")
            self.decide("module", " ".join(request.modules), origin.source, "after module purge")
        if request.conda is not None:
            conda, lines = self.conda, request.modules
            reason = "not found here" if conda is None else conda.how
            if (lines or self.cluster.policy.login_shell) and not (conda and conda.given):
                reason += "; one that modules or the login shell bring goes first"
            self.decide("conda", request.conda, request.origin("conda").source, f"conda {reason}")

    def _wrapping(self) -> Wrapping:
        request = self.request
        if request.container is None:
            return Wrapping()
        name = request.container_runtime
        if name is not None:
            self.asked("container-runtime", "container_runtime", name)
        elif request.container.endswith(".sqsh"):
            name = "pyxis"
            self.derived("container-runtime", name, "an Enroot squashfs image")
        else:
            name = self.cluster.containers.runtime
            self.decide("container-runtime", name, Source.CLUSTER, "")
        if name not in RUNTIMES:
            raise UsageError(
                f"--container-runtime: unknown container runtime '{name}'",
                "container runtimes are: " + ", ".join(RUNTIMES),
            )
        scratch = self.cluster.scratch
        own = None if scratch is None else Shell(scratch.replace("{user}", "$USER"))
        if self.code is not None and self.code.links:  # which lead there
            request = replace(request, binds=(*request.binds, self.code.root))
        return RUNTIMES[name](request, own, self.gpus > 0)


class _StepBuilder(_PlanBuilder):
    """Builds the plan of one step of a job."""

    def __init__(self, step: StepRequest, share: Share, name: str, job: _PlanBuilder) -> None:
        request = step_request(step, share, job.request, name)
        super().__init__(request, job.cluster, conda=job.conda, code=job.code)
        self.step, self.share, self.name = step, share, name
        if share.beside and self.launcher.own_variables:
            raise UsageError(
                f"{name}: {self.launcher.name} starts its processes without srun, which keeps "
                "steps side by side apart",
                "use another launcher for it, or let it run before or after the others",
            )

    def job_step(self, job_cores: int) -> JobStep:
        """The step. job_cores: those per node of the whole job."""
        policy = self.cluster.policy
        place = step_place(self.step, self.request, self.share, policy, job_cores)
        launch = replace(self.plan(place), step=self.name)
        return JobStep(launch, (), self.step.allow_failure)


def _name_of(file: str) -> str:
    """A job's name made from a file's."""
    stem = file.rstrip("/").rpartition("/")[2]
    return re.sub(r"[^\w.+-]", "_", re.sub(r"(?<=.)\.\w+$", "", stem)) or "job"
