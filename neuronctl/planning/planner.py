"""Settle the values of a plan, each with its reason; the rules judge bad values, too."""

from __future__ import annotations

import re
import shlex
from typing import Dict, List, Mapping, Optional, Sequence, Tuple, Union

from neuronctl.catalog.cluster import Cluster, Partition
from neuronctl.common import units
from neuronctl.common.datatypes import replace
from neuronctl.common.errors import UsageError
from neuronctl.common.words import counted
from neuronctl.launch.environments import Conda
from neuronctl.planning import job_plan as model
from neuronctl.planning.launches import LaunchBuilder, Share, StepBuilder
from neuronctl.planning.software import activation, imports_wandb, named_after, wandb_run
from neuronctl.request.job import OF_SLURM, JobRequest, Source, StepRequest
from neuronctl.request.values import one_line

_Values = Mapping[str, Union[str, bool, None]]
"""Options of sbatch, by their long names."""


def plan(
    request: JobRequest,
    cluster: Cluster,
    *,
    interactive: bool = False,
    place: Optional[model.AllocationPart] = None,
    recognised: str = "",
    conda: Optional[Conda] = None,
    chain: str = "",
    code: Optional[model.CodeSnapshot] = None,
) -> model.JobPlan:
    """Settle every value of ``request`` for ``cluster``.

    interactive: for salloc: no program, no log files, one task per GPU by default. place: the part
    of an allocation to launch on, where the plan is not for a job of its own. recognised: how the
    cluster was recognised, if it was not requested. conda: the conda of this machine, if the
    request is for one of its environments. chain: why Slurm would not requeue the job. code: the
    copy of the code that it runs from.

    Raises UsageError for a launcher or a container runtime that does not exist, and for a program
    whose name is not one line.
    """
    # A second line of the name could end the preflight's here-document.
    if request.script is not None:
        try:
            one_line(request.script)
        except ValueError as error:
            raise UsageError(f"the program's name {error}", "rename the file") from None
    if request.exclusive and request.sbatch_value("exclusive"):
        request = replace(request, exclusive=None)  # of the two, Slurm takes the last
    builder = _PlanBuilder(request, cluster, interactive)
    builder.place, builder.conda, builder.chain, builder.code = place, conda, chain, code
    builder.settle(recognised)
    return builder.plan()


class _PlanBuilder(LaunchBuilder):
    """Builds one plan: first the sizes of the job and of its steps, then what depends on them."""

    conda: Optional[Conda] = None
    chain = ""
    steps: Sequence[StepBuilder] = ()

    def settle(self, recognised: str) -> None:
        """Settle the cluster and all sizes. recognised: how the cluster was recognised."""
        request = self.request
        if request.cluster is not None:
            self.keep_requested("cluster", "cluster", request.cluster)
        else:
            how = recognised or "the catalog's default"
            self.decide("cluster", self.cluster.name, Source.CLUSTER, how)
        if request.until_done and request.signal is None:
            self.request = replace(request, signal=next(iter(self.launcher.signals), "TERM"))
        self.steps = self._steps(request.steps)
        self.settle_tasks(self.steps)
        self.cpus_per_task = self._cpus_per_task()
        self._memory()
        # All runs of a batch job continue one W&B run; a launch in a job starts its own.
        if not self.interactive and self.place is None:
            logs = imports_wandb(self.request) or any(step.wandb for step in self.steps)
            self.wandb = wandb_run(self.request, self.cluster) if logs else None

    def plan(self) -> model.JobPlan:
        """Return the plan."""
        request, partition = self.request, self.partitions[0]
        time_limit, time_text = self._time(partition)
        comment = self._comment()
        job_name = self._job_name()
        output = self._log("output", request.output, ".out")
        error = self._log("error", request.error, ".err")
        self._explain_software()
        launches = self._launches()
        until_done = self._until_done(time_limit)
        if self.code is not None:
            self.keep_requested("snapshot", "snapshot", self.code.place)
        settled: _Values = {
            **self._size_options(),
            "job-name": job_name,
            "time": time_text,
            "comment": comment,
            **self._end_options(until_done),
            "output": output,
            "error": error,
        }
        return model.JobPlan(
            request=request if self.amounts is None else replace(request, amounts=self.amounts),
            cluster=self.cluster,
            partition=partition,
            alternatives=tuple(self.partitions[1:]),
            interactive=self.interactive,
            job_name=job_name,
            nodes=self.nodes,
            most_nodes=self.most_nodes,
            ntasks_per_node=self.ntasks_per_node,
            cpus_per_task=self.cpus_per_task,
            gpus_per_node=self.gpus,
            time_limit=time_limit,
            comment=comment,
            output=output,
            error=error,
            preflight=request.preflight is not False and not self.interactive,
            activation=activation(request, self.cluster, self.conda),
            exports=self._exports(),
            directives=self._directives(settled),
            decisions=tuple(self.decisions.values()),
            launches=launches,
            until_done=until_done,
            code=self.code,
        )

    def _launches(self) -> Tuple[model.Launch, ...]:
        launches = tuple(step.step_launch(self.cores) for step in self.steps)
        self._check_cores(launches)
        if launches:
            self._explain_steps(launches)
        return launches or (self.launch(),)

    def _directives(self, settled: _Values) -> Tuple[model.Directive, ...]:
        """Return the options of sbatch or salloc, in the order of the table in request/job.py.

        settled: the values that planning decided, by option; the rest is as requested.
        """
        request, gpus = self.request, self.gpus
        # Each site has one way to request tasks and one for GPUs, whatever the user typed.
        settled = {"ntasks": None, "gpus": None, **self._gpu_options(), **settled}
        lines: List[model.Directive] = []
        for name, option in OF_SLURM.items():
            if self.interactive and option.batch_only:
                continue
            value = settled[name] if name in settled else getattr(request, option.field)
            if isinstance(value, bool):
                if value or option.kind == "switch":
                    lines.append(model.Directive(name if value else f"no-{name}"))
            elif value:
                decision = "gpus-per-node" if name == "gres" and gpus else name
                lines.append(model.Directive(name, value, self.remark(decision)))
            if name == "requeue" and value and request.sbatch_value("open-mode") is None:
                why = "a requeued job keeps its log"
                lines.append(model.Directive("open-mode", "append", why))
        for text in request.sbatch:
            name, equals, value = text.partition("=")
            lines.append(model.Directive(name, value if equals else None))
        return tuple(lines)

    def _gpu_options(self) -> Mapping[str, Optional[str]]:
        """Return the values of the GPU options, spelled as the site's guide spells them."""
        request, gpus = self.request, self.gpus
        amount = f"{request.gpu_type}:{gpus}" if request.gpu_type else str(gpus)
        by_gres = gpus and self.cluster.policy.gpu_option == "gres"
        others = [f"gpu:{amount}", *request.gres] if by_gres else request.gres
        return {"gpus-per-node": amount if gpus and not by_gres else None, "gres": ",".join(others)}

    def _check_cores(self, launches: Sequence[model.Launch]) -> None:
        """Raise UsageError for a step with more cores than the job, or cores left to Slurm."""
        if self.request.cpus_per_task == 0 and self.place is None:
            self._check_no_srun(launches)
        for launch in launches:
            cores = launch.cores_per_node
            if launch.request.cpus_per_task and cores > self.cores:  # srun refuses it in the job
                raise UsageError(
                    f"{launch.step} requests {counted(cores, 'core')} per node; the job has "
                    f"{self.cores}",
                    f"request at most {self.cores} for the step, or more for the job",
                )

    def _check_no_srun(self, launches: Sequence[model.Launch]) -> None:
        """Raise UsageError if srun starts something with cores that are left to Slurm."""
        names = [part.launcher.name for part in launches if part.launcher.by_srun or part.own_step]
        names += [self.launcher.name] if self.launcher.by_srun and not self.interactive else []
        if names:
            raise UsageError(
                f"--cpus-per-task 0 leaves the cores to Slurm, and {names[0]} has to know how "
                "many each task gets",
                "request them, such as -c 8",
            )

    def _explain_steps(self, launches: Sequence[model.Launch]) -> None:
        starts: Dict[int, List[str]] = {}
        for launch in launches:
            starts.setdefault(launch.number, []).append(launch.starts)
        for number, words in starts.items():
            self.derive(f"step {number}", "; ".join(words))
        self._wrapping()  # decides what runs the container

    def _until_done(self, time_limit: Optional[int]) -> Optional[model.UntilDone]:
        """Return how the job continues after its time limit."""
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
            self.keep_requested(
                "until-done", "until_done", f"requeued; at most {counted(runs, 'run')}"
            )
        return model.UntilDone(
            max_runs=runs,
            before_end=before_end,
            resume_with=tuple(shlex.split(request.resume_with or "")),
            chain=chain,
        )

    def _end_options(self, until_done: Optional[model.UntilDone]) -> _Values:
        """Return the options for the job's end: the signal before it, and whether it requeues."""
        request = self.request
        if request.idle and not self.gpus and request.origin("idle").source is not Source.CONFIG:
            hint = "request GPUs, such as --gpus-per-node 1, or leave out --idle"
            raise UsageError("--idle looks at the job's GPUs, and it requests none", hint)
        requeue = request.requeue if until_done is None else not until_done.chain
        return {"signal": self._signal(until_done), "requeue": requeue}

    def _signal(self, until_done: Optional[model.UntilDone]) -> Optional[str]:
        request = self.request
        signal = model.parse_signal(request)
        if signal is not None and until_done is not None:
            text = f"B:{signal.of_shell}@{until_done.before_end}"
            return self.derive(
                "signal", text, f"then {signal.name} goes to what handles it, to save"
            )
        if signal is None or self.interactive:
            return request.signal
        if signal.to_batch_shell or not model.passes(signal, self.launcher, bool(request.steps)):
            return self.keep_requested("signal", "signal", request.signal)
        flags, name, seconds = units.split_signal(request.signal or "")
        text = f"{flags}B:{name}{seconds and f'@{seconds}'}"
        return self.derive("signal", text, "B: so that it reaches the program")

    def _steps(self, steps: Sequence[StepRequest]) -> List[StepBuilder]:
        """Return a builder for each step, or for each part of one that runs side by side."""
        builders: List[StepBuilder] = []
        whole = Share(self.nodes, self.gpus, self.gpus)
        for number, step in enumerate(steps, start=1):
            share = whole.among(len(step.together)) if step.together else whole
            for part, part_step in enumerate(step.together or (step,), start=1):
                name = f"step {number}, part {part}" if step.together else f"step {number}"
                builder = StepBuilder(part_step, share, number, name, self)
                builder.allow_failure = step.allow_failure  # of all parts, if there are parts
                builders.append(builder)
        return builders

    def _time(self, partition: Partition) -> Tuple[Optional[int], Optional[str]]:
        """Return the time limit in seconds and as sbatch gets it; None: nobody says one."""
        if self.request.time_limit is not None:
            return self._requested_time(self.request.time_limit)
        limits = partition.wall_time
        default = limits.default
        if self.interactive and limits.interactive_maximum is not None:
            default = limits.interactive_maximum
        if default is None:
            return None, None
        reason = f"the default of {self.cluster.name}"
        qos = self.cluster.qos_named(self.request.qos)
        if qos is not None and qos.wall_time.maximum == default:
            reason = f"the most that QOS {qos.name} allows on {self.cluster.name}"
        return default, self.decide("time", units.format_time(default), Source.CLUSTER, reason)

    def _requested_time(self, text: str) -> Tuple[int, str]:
        """Write out a bare number, which is minutes, and MM:SS, which looks like HH:MM."""
        origin = self.request.origin("time_limit")
        seconds = units.parse_time(text)
        if seconds == units.UNLIMITED or text.count(":") == 2:
            return seconds, self.keep_requested("time", "time_limit", text)
        source = origin.source
        reason = ", ".join(filter(None, (origin.where, f"as {text}")))
        if text.count(":") == 1 and "-" not in text:
            reason = f"{text} is MM:SS to Slurm; hours are {text}:00"
            reason += "" if source is Source.ASKED else f"; {origin}"
            source = Source.DERIVED
        return seconds, self.decide("time", units.format_time(seconds), source, reason)

    def _comment(self) -> Optional[str]:
        request = self.request
        policy = self.cluster.policy.comment
        if request.comment is not None:
            return self.keep_requested("comment", "comment", request.comment)
        given = {"field": request.field, "appl": request.appl}
        if policy.form == "fields":
            pairs = [f"{key}={given[key]}" for key in policy.fields if given.get(key)]
            if not pairs:
                return None
            return self.derive("comment", ";".join(pairs), "from --field and --appl")
        if policy.form == "word" and request.appl:
            return self.keep_requested("comment", "appl", request.appl)
        return None

    def _job_name(self) -> str:
        request = self.request
        if request.job_name is not None:
            return self.keep_requested("job-name", "job_name", request.job_name)
        if request.script is None:
            if request.text_file is not None:
                return self.derive("job-name", _name_of(request.text_file), "the file's name")
            return self.derive("job-name", "interactive" if self.interactive else "job")
        return self.derive("job-name", _name_of(named_after(request)), "the program's name")

    def _log(self, name: str, requested: Optional[str], suffix: str) -> Optional[str]:
        request = self.request
        if self.interactive:
            return None
        if requested is not None:
            return self.keep_requested(name, name, requested)
        if name == "error" and request.output is not None:
            return None  # sbatch writes both into the one requested file
        pattern = "%x_%A_%a" if request.array else "%x_%j"
        return self.derive(name, f"{pattern}{suffix}", "job name and id")

    def _explain_software(self) -> None:
        """Record where the software comes from."""
        request, conda = self.request, self.conda
        if request.modules:
            origin = request.origin("modules")
            self.decide("module", " ".join(request.modules), origin.source, "after module purge")
        if request.conda is not None:
            how = "not found here" if conda is None else conda.how
            may_bring = bool(request.modules) or self.cluster.policy.login_shell
            if may_bring and not (conda and conda.given):
                how += "; one that modules or the login shell bring goes first"
            self.decide("conda", request.conda, request.origin("conda").source, f"conda {how}")


def _name_of(file: str) -> str:
    """Return a job name made from a file's."""
    stem = file.rstrip("/").rpartition("/")[2]
    return re.sub(r"[^\w.+-]", "_", re.sub(r"(?<=.)\.\w+$", "", stem)) or "job"
