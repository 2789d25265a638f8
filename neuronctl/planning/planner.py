"""Settle the values of a plan, each with its reason; bad values are left to the rules."""

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
from neuronctl.planning.launches import LaunchBuilder, Share, StepBuilder, exceeds_job
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
    recognized: str = "",
    conda: Optional[Conda] = None,
    chain: str = "",
    code: Optional[model.CodeSnapshot] = None,
) -> model.JobPlan:
    """Settle every value of ``request`` for ``cluster``.

    interactive: for salloc: no program, no log files, one task per GPU by default. place: the part
    of an allocation to launch on; None: plan a job. recognized: how the cluster was recognized, if
    it was not requested. conda: this machine's conda, if the request names an environment. chain:
    why Slurm would not requeue the job; "": it would. code: the copy of the code that it runs from.

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
        request = replace(request, exclusive=None)  # Slurm takes the last of the two
    builder = _PlanBuilder(request, cluster, interactive)
    builder.place, builder.conda, builder.chain, builder.code = place, conda, chain, code
    builder.settle(recognized)
    return builder.plan()


_TIME_TO_SAVE = 300
"""Seconds before the end of a run at which --until-done asks the program to save."""


class _PlanBuilder(LaunchBuilder):
    """Builds one plan: first the sizes of the job and of its steps, then what depends on them."""

    conda: Optional[Conda] = None
    chain = ""
    steps: Sequence[StepBuilder] = ()

    def settle(self, recognized: str) -> None:
        """Settle the cluster and all sizes. recognized: how the cluster was recognized."""
        request = self.request
        if request.cluster is not None:
            self.keep_requested("cluster", request.cluster)
        else:
            how = recognized or "the catalog's default"
            self.decide("cluster", self.cluster.name, Source.CLUSTER, how)
        if request.until_done and request.signal is None:
            save, *_ = self.launcher.signals or ("TERM",)  # a signal that reaches the program
            self.request = replace(request, signal=save)
        self.steps = self._build_steps(request.steps)
        self.settle_tasks()
        self.cpus_per_task = self._count_cores_per_task()
        self._explain_memory()
        # All runs of a batch job continue one W&B run; a launch in a job starts its own.
        if not self.interactive and self.place is None:
            uses_wandb = imports_wandb(self.request) or any(step.wandb for step in self.steps)
            self.wandb = wandb_run(self.request, self.cluster) if uses_wandb else None

    def plan(self) -> model.JobPlan:
        """Return the plan, once the sizes are settled."""
        request, partition = self.request, self.partitions[0]
        time_limit, time_text = self._settle_time(partition)
        comment = self._settle_comment()
        job_name = self._settle_job_name()
        output = self._settle_log("output", request.output, ".out")
        error = self._settle_log("error", request.error, ".err")
        self._explain_software()
        launches = self._build_launches()
        until_done = self._settle_until_done(time_limit)
        if self.code is not None:
            self.keep_requested("snapshot", self.code.place)
        self._check_idle()
        settled: _Values = {
            **self._size_options(),
            **self._gpu_options(),
            "job-name": job_name,
            "time": time_text,
            "comment": comment,
            "signal": self._settle_signal(until_done),
            "requeue": request.requeue if until_done is None else not until_done.chain,
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
            exports=self._list_exports(),
            directives=self._directives(settled),
            decisions=tuple(self.decisions.values()),
            launches=launches,
            until_done=until_done,
            code=self.code,
        )

    def _build_launches(self) -> Tuple[model.Launch, ...]:
        """Return the launches of the steps, or the only one of a job without steps."""
        launches = tuple(step.step_launch(self.cores) for step in self.steps)
        self._check_cores(launches)
        if not launches:
            return (self.launch(),)
        self._explain_steps(launches)
        return launches

    def _directives(self, settled: _Values) -> Tuple[model.Directive, ...]:
        """Return the options of sbatch or salloc, in the order of the table in request/job.py.

        settled: the values that planning decided, by option; the rest is as requested.
        """
        request = self.request
        # Each site has one way to request tasks and one for GPUs, whatever the user typed.
        values = {"ntasks": None, "gpus": None, **settled}
        directives: List[model.Directive] = []
        for name, option in OF_SLURM.items():
            if self.interactive and option.batch_only:
                continue
            value = values[name] if name in values else getattr(request, option.field)
            if isinstance(value, bool):
                if value or option.kind == "switch":
                    directives.append(model.Directive(name if value else f"no-{name}"))
            elif value:
                requests_gpus = name == "gres" and self.gpus > 0
                remark = self.remark("gpus-per-node" if requests_gpus else name)
                directives.append(model.Directive(name, value, remark))
            if name == "requeue" and value and request.sbatch_value("open-mode") is None:
                why = "a requeued job keeps its log"
                directives.append(model.Directive("open-mode", "append", why))
        for text in request.sbatch:
            name, equals, value = text.partition("=")
            directives.append(model.Directive(name, value if equals else None))
        return tuple(directives)

    def _gpu_options(self) -> Mapping[str, Optional[str]]:
        """Return the values of the GPU options, spelled as the site's guide spells them."""
        request = self.request
        if not self.gpus:
            return {"gpus-per-node": None, "gres": ",".join(request.gres)}
        gpus = f"{request.gpu_type}:{self.gpus}" if request.gpu_type else str(self.gpus)
        if self.cluster.policy.gpu_option == "gres":
            return {"gpus-per-node": None, "gres": ",".join([f"gpu:{gpus}", *request.gres])}
        return {"gpus-per-node": gpus, "gres": ",".join(request.gres)}

    def _check_cores(self, launches: Sequence[model.Launch]) -> None:
        """Raise UsageError for more cores in a step than in the job, or cores unknown to srun."""
        if self.request.cpus_per_task == 0 and self.place is None:
            self._check_no_srun(launches)
        for launch in launches:
            cores = launch.cores_per_node
            if launch.request.cpus_per_task and cores > self.cores:  # srun refuses it in the job
                words = f"{launch.step} requests {counted(cores, 'core')} per node"
                raise exceeds_job(words, self.cores)

    def _check_no_srun(self, launches: Sequence[model.Launch]) -> None:
        """Raise UsageError if srun starts something with cores that are left to Slurm."""
        launchers = [step.launcher for step in launches if step.launcher.by_srun or step.own_step]
        if self.launcher.by_srun and not self.interactive:
            launchers.append(self.launcher)
        if launchers:
            raise UsageError(
                f"--cpus-per-task 0 leaves the cores to Slurm, and {launchers[0].name} has to know "
                "how many each task gets",
                "request them, such as -c 8",
            )

    def _explain_steps(self, launches: Sequence[model.Launch]) -> None:
        """Record what each step starts, and what runs its container."""
        starts: Dict[int, List[str]] = {}
        for launch in launches:
            starts.setdefault(launch.number, []).append(launch.starts)
        for number, words in starts.items():
            self.derive(f"step {number}", "; ".join(words))
        self._wrap()  # records the container runtime

    def _settle_until_done(self, time_limit: Optional[int]) -> Optional[model.UntilDone]:
        """Return how the job continues after its time limit; None: it does not."""
        request = self.request
        if not request.until_done or self.interactive:
            return None
        _, _, seconds = units.split_signal(request.signal or "")
        if seconds:
            before_end = int(seconds)
        elif time_limit is None or time_limit == units.UNLIMITED:
            before_end = _TIME_TO_SAVE
        else:
            before_end = min(_TIME_TO_SAVE, time_limit // 4)
        runs = 10 if request.max_runs is None else request.max_runs
        at_most = f"at most {counted(runs, 'run')}"
        chain = "--no-requeue" if request.requeue is False else self.chain
        if chain:
            how = "a chain of jobs, the next of which waits for the end of the one that runs"
            origin = request.origin("until_done")
            why = "; ".join(filter(None, (origin.where, chain)))
            self.decide("until-done", f"{how}; {at_most}", origin.source, why)
        else:
            self.keep_requested("until-done", f"requeued; {at_most}")
        return model.UntilDone(
            max_runs=runs,
            before_end=before_end,
            resume_with=tuple(shlex.split(request.resume_with or "")),
            chain=chain,
        )

    def _check_idle(self) -> None:
        """Raise UsageError for --idle without GPUs, unless the configuration sets --idle."""
        request = self.request
        if request.idle and not self.gpus and request.origin("idle").source is not Source.CONFIG:
            hint = "request GPUs, such as --gpus-per-node 1, or leave out --idle"
            raise UsageError("--idle looks at the job's GPUs, and it requests none", hint)

    def _settle_signal(self, until_done: Optional[model.UntilDone]) -> Optional[str]:
        """Return the value of sbatch's --signal; None: no signal."""
        request = self.request
        signal = model.parse_signal(request)
        if signal is not None and until_done is not None:
            value = f"B:{signal.of_shell}@{until_done.before_end}"
            reason = f"then {signal.name} goes to what handles it, to save"
            return self.derive("signal", value, reason)
        if signal is None or self.interactive:  # an allocation has no batch shell
            return request.signal
        passes = model.passes(signal, self.launcher, has_steps=bool(request.steps))
        if signal.to_batch_shell or not passes:
            return self.keep_requested("signal", request.signal)
        flags, name, seconds = units.split_signal(request.signal or "")
        value = f"{flags}B:{name}{seconds and f'@{seconds}'}"
        return self.derive("signal", value, "B: so that it reaches the program")

    def _build_steps(self, steps: Sequence[StepRequest]) -> List[StepBuilder]:
        """Return a builder for each step, or for each part of one that runs side by side."""
        builders: List[StepBuilder] = []
        whole_job = Share(self.nodes, self.gpus, self.gpus)
        for number, step in enumerate(steps, start=1):
            parts = step.together or (step,)
            share = whole_job.split(len(parts)) if step.together else whole_job
            for part_number, part in enumerate(parts, start=1):
                name = f"step {number}, part {part_number}" if step.together else f"step {number}"
                builder = StepBuilder(part, share, number, name, self)
                builder.allow_failure = step.allow_failure
                builders.append(builder)
        return builders

    def _settle_time(self, partition: Partition) -> Tuple[Optional[int], Optional[str]]:
        """Return the time limit in seconds and as sbatch gets it; None: there is none."""
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
        """Return the requested time limit in seconds and as sbatch gets it."""
        origin = self.request.origin("time_limit")
        seconds = units.parse_time(text)
        if seconds == units.UNLIMITED or text.count(":") == 2:
            return seconds, self.keep_requested("time", text, "time_limit")
        # A bare number is minutes, and MM:SS looks like HH:MM.
        written_out = units.format_time(seconds)
        if text.count(":") == 1 and "-" not in text:
            reason = f"{text} is MM:SS to Slurm; hours are {text}:00"
            reason += "" if origin.source is Source.ASKED else f"; {origin}"
            return seconds, self.derive("time", written_out, reason)
        reason = ", ".join(filter(None, (origin.where, f"as {text}")))
        return seconds, self.decide("time", written_out, origin.source, reason)

    def _settle_comment(self) -> Optional[str]:
        """Return the job's comment, in the form that the site wants; None: no comment."""
        request = self.request
        policy = self.cluster.policy.comment
        if request.comment is not None:
            return self.keep_requested("comment", request.comment)
        if policy.form == "fields":
            values = {"field": request.field, "appl": request.appl}
            pairs = [f"{key}={values[key]}" for key in policy.fields if values.get(key)]
            if not pairs:
                return None
            return self.derive("comment", ";".join(pairs), "from --field and --appl")
        if policy.form == "word" and request.appl:
            return self.keep_requested("comment", request.appl, "appl")
        return None

    def _settle_job_name(self) -> str:
        """Return the job's name: as requested, or made from the file or the program that runs."""
        request = self.request
        if request.job_name is not None:
            return self.keep_requested("job-name", request.job_name)
        if request.script is None:
            if request.text_file is not None:
                return self.derive("job-name", _name_of(request.text_file), "the file's name")
            return self.derive("job-name", "interactive" if self.interactive else "job")
        return self.derive("job-name", _name_of(named_after(request)), "the program's name")

    def _settle_log(self, name: str, requested: Optional[str], suffix: str) -> Optional[str]:
        """Return the value of --output or --error; None: no such log."""
        request = self.request
        if self.interactive:
            return None
        if requested is not None:
            return self.keep_requested(name, requested)
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
            is_fixed = conda is not None and conda.given
            may_bring_another = bool(request.modules) or self.cluster.policy.login_shell
            if may_bring_another and not is_fixed:
                how += "; one that modules or the login shell bring goes first"
            self.decide("conda", request.conda, request.origin("conda").source, f"conda {how}")


def _name_of(file: str) -> str:
    """Return a job name made from the name of a file."""
    stem = file.rstrip("/").rpartition("/")[2]
    return re.sub(r"[^\w.+-]", "_", re.sub(r"(?<=.)\.\w+$", "", stem)) or "job"
