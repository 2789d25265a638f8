"""Plan and judge a job from the options of one command line or library call."""

from __future__ import annotations

import os
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Callable, List, Mapping, Optional, Sequence, Tuple

from neuronctl.catalog.cluster import Catalog, Cluster
from neuronctl.catalog.loader import load, recognize_cluster
from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.errors import SlurmError, UsageError
from neuronctl.common.paths import working_directory
from neuronctl.common.spelling import has_sent_code
from neuronctl.common.units import compress_hostlist, hosts
from neuronctl.judgement.judgement import JudgeBy, judge_plan
from neuronctl.launch.containers import find_image
from neuronctl.launch.environments import find_conda, find_venv
from neuronctl.planning import JobPlan, plan
from neuronctl.planning.software import python_file
from neuronctl.records.bad_nodes import bad_nodes
from neuronctl.records.job_record import RecordDraft
from neuronctl.records.provenance import Provenance
from neuronctl.request import job
from neuronctl.request.job_file import JOB_FILE, configuration, own_job_file, read_job_file
from neuronctl.request.typed_options import is_argument, options_layer
from neuronctl.slurm.conf import local_cluster
from neuronctl.submission.pipeline import JudgedJob

if TYPE_CHECKING:
    from neuronctl.judgement.partitions import Choice
    from neuronctl.judgement.snapshot import Snapshot
    from neuronctl.planning.job_plan import CodeSnapshot
    from neuronctl.request.axes import Axis


@dataclass(frozen=True)
class PlannedJob:
    """A job whose script neuronctl writes: its plan, and the catalog it was made from.

    choice: the partition that -p auto chose. ask_slurm: whether Slurm is asked about the job; False
    if its script is only shown. template: used instead of job.sh.j2. snapshot: Slurm's answers so
    far; None: it was not asked. steps: the shell function that a sweep's job runs; "": the job runs
    the plan's launches. surroundings: the program and commit of a snapshot of code that runs
    again. first_job: the first job of a chain.
    """

    plan: JobPlan
    catalog: Catalog
    choice: Optional[Choice] = None
    ask_slurm: bool = True
    template: Optional[str] = None
    snapshot: Optional[Snapshot] = None
    steps: str = ""
    surroundings: Provenance = Provenance()
    first_job: Optional[int] = None

    slurm_cluster = None

    def judge(self) -> JudgedJob:
        """Judge the job, by Slurm's answers for the choice of the partition if there are any."""
        by = JudgeBy(
            self.catalog, ask_slurm=self.ask_slurm, snapshot=self.snapshot, meanwhile=_load_the_rest
        )
        judgement = judge_plan(self.plan, by)
        if any(launch.request.body for launch in self.plan.launches):
            from neuronctl.submission.existing_script import judge_shell_text

            texts = judge_shell_text(self.plan, self.script)
            judgement = judgement.with_rules((*judgement.findings, *texts))
        verdict = judgement.verdict if self.ask_slurm else None
        findings = tuple(dict.fromkeys(judgement.findings))  # a sweep's tasks have the same ones
        return JudgedJob(self.plan, findings, verdict, self.choice)

    @property
    def variables(self) -> Mapping[str, str]:
        """Return the secrets that the job needs in its environment."""
        return self.plan.secrets

    @property
    def draft(self) -> RecordDraft:
        """Return the job's record, without what the judgement adds."""
        plan = self.plan
        here = working_directory()
        cwd = plan.request.chdir or here
        follows = plan.request.after or plan.request.after_ok
        return RecordDraft(
            cwd=cwd,
            # The jobs of --after are recorded as such, and not in --dependency.
            request={"dependency": plan.request.typed_dependency} if follows else {},
            job_name=plan.job_name,
            partition=plan.partition_list,
            output=os.path.join(cwd, plan.output or "slurm-%j.out"),
            error=None if plan.error is None else os.path.join(cwd, plan.error),
            array=plan.request.array,
            submit_dir="" if here == cwd else here,
            runs=plan.until_done is not None,
            of_sweep=bool(self.steps),
            snapshot=plan.code.place if plan.code else "",
            surroundings=self.surroundings,
            first_job=self.first_job,
        )

    @property
    def script(self) -> str:
        """Render the script."""
        from neuronctl.rendering.render import render_job

        return render_job(self.plan, template=self.template, steps=self.steps)


def plan_job(
    options: Mapping[str, Any],
    *,
    words: Sequence[str] = (),
    catalog_file: Optional[str] = None,
    job_file: Optional[str] = None,
    body: Optional[job.Body] = None,
    steps: Tuple[job.StepRequest, ...] = (),
    interactive: bool = False,
    recorded: Optional[job.Layer] = None,
    ask_slurm: bool = True,
    template: Optional[str] = None,
    find_job: bool = False,
    sweep: Optional[Tuple[Axis, ...]] = None,
    tell: Callable[[str], None] = lambda message: None,
    snapshot_place: str = "",
) -> PlannedJob:
    """Plan a job from options, a job file, and the user's configuration, in this order of weight.

    options: by long name. words: the program and its arguments. body, steps: instead of a program.
    recorded: a request in place of the user's configuration. find_job: use job.yaml if no job is
    named. sweep: its parameters; (): the job file has them; None: no sweep. tell: hears the files
    used unasked. snapshot_place: the directory of existing code. The rest is for the PlannedJob.
    """
    layers = users_layers(interactive=interactive) if recorded is None else [recorded]
    nameless = not (body or steps) and (not words or is_argument(words[0]))
    layers += _job_file_layers(job_file, tell, find=find_job and nameless)
    layers.append(options_layer(options, words, body, steps))
    request = _add_sweep(job.build_request(layers), sweep)
    if interactive:  # an allocation runs no program of a job file
        request = replace(request, body=None, steps=(), text_file=None)
    _check_program(request, words, needed=not interactive, find_job=find_job)
    catalog = load(catalog_file)
    cluster, how = recognize_cluster(catalog, request.cluster)
    request = _exclude_bad_nodes(resolve_paths(request, cluster))
    if recorded is None and not interactive:
        request = _with_venv(request, tell)
    if request.after or request.after_ok:
        from neuronctl.submission.predecessors import wait_for_named

        request = wait_for_named(request, tell, ask_slurm=ask_slurm)
    conda = find_conda(request.conda, request.resolve_path("")) if request.conda else None
    code = _plan_snapshot(request, cluster, snapshot_place)
    settle = partial(
        plan, cluster=cluster, interactive=interactive, recognized=how, conda=conda, code=code
    )
    draft = settle(request)
    choice = snapshot = None
    if request.partition == "auto":
        request, choice = _choose_partition(request, draft, catalog, ask=ask_slurm)
        snapshot, draft = choice.snapshot, settle(request)
    if draft.until_done is not None and request.array is None and ask_slurm:
        snapshot, chain = _ask_about_requeue(draft, snapshot)
        draft = settle(request, chain=chain)
    return PlannedJob(draft, catalog, choice, ask_slurm, template, snapshot)


def _choose_partition(
    request: job.JobRequest, draft: JobPlan, catalog: Catalog, *, ask: bool
) -> Tuple[job.JobRequest, Choice]:
    """Return the request with the partition that -p auto chooses, and the choice."""
    from neuronctl.judgement.partitions import choose

    choice = choose(draft, catalog, ask=ask)
    origins = {**request.origins, "partition": job.Origin(job.Source.DERIVED, "-p auto")}
    return replace(request, partition=choice.plan.partition.name, origins=origins), choice


def users_layers(*, interactive: bool = False) -> List[job.Layer]:
    """Return the user's configuration; below it, --snapshot for a project that --on has sent."""
    configured = configuration()
    if interactive or not has_sent_code():
        return [configured]
    sent = {"snapshot": job.Origin(job.Source.DERIVED, "--on")}
    return [job.Layer({"snapshot": True}, sent), configured]


def _job_file_layers(
    file: Optional[str], tell: Callable[[str], None], *, find: bool
) -> List[job.Layer]:
    """Return the layer of the job file. find: use that of this directory if none is named."""
    if file is not None:
        return [read_job_file(file)]
    layer = own_job_file() if find else None
    if layer is None:
        return []
    tell(f"using {JOB_FILE}")
    return [layer]


def _check_program(
    request: job.JobRequest, words: Sequence[str], *, needed: bool, find_job: bool
) -> None:
    """Raise UsageError if a program is needed and missing, or for arguments without one."""
    if words and request.script is None:
        raise UsageError(
            f"'{words[0]}' is an argument, but no program is named to receive it",
            "name the program before it, or as 'script:' in a job file",
        )
    if needed and not (request.script or request.body is not None or request.steps):
        raise UsageError(
            "no SCRIPT: there is no program to run",
            "name it after the options, or as 'script:' in the job file; shell text: --body FILE, "
            "or 'run:'" + ("; 'neuronctl init' writes a job file" if find_job else ""),
        )


def _plan_snapshot(request: job.JobRequest, cluster: Cluster, place: str) -> Optional[CodeSnapshot]:
    """Return the copy of the code that the job runs. place: of an existing copy; "": none."""
    if not request.snapshot:
        return None
    from neuronctl.records.code_snapshot import plan_snapshot

    code = plan_snapshot(request.chdir or working_directory(), cluster)
    return replace(code, place=place, tree="") if place else code


_load_the_rest = partial(import_module, "neuronctl.rendering.render")
"""Imports rendering, which takes longer than Slurm takes to answer, while Slurm answers."""


def _add_sweep(request: job.JobRequest, axes: Optional[Tuple[Axis, ...]]) -> job.JobRequest:
    """Return the request with the parameters of its sweep; raise UsageError if they do not fit.

    axes: None: not a sweep; (): the parameters are in the job file.
    """
    if axes is None and request.sweep:
        place = request.origin("sweep").where
        hint = "submit it with 'neuronctl sweep'"
        raise UsageError(f"{place}: the job file describes a sweep, not one job", hint)
    if axes is None:
        return request
    sweep = axes or request.sweep
    if not sweep:
        hint = (
            "add --param NAME=VALUES, and {NAME} to the program's words; a sweep that is there: "
            "neuronctl sweep status NAME"
        )
        raise UsageError("there is nothing to vary", hint)
    if request.steps:
        hint = "let a script take them as arguments: train.sh {lr}"
        raise UsageError("a sweep fills the words of a program or of 'run:', not of steps", hint)
    from neuronctl.request.axes import COMMAND, SHELL_COMMAND

    has_commands = any(COMMAND in dict(axis[0]) for axis in sweep)  # all rows have the same names
    if not has_commands or request.script is not None or request.body is not None:
        return replace(request, sweep=sweep)
    shell, *args = SHELL_COMMAND
    file = os.path.splitext(os.path.basename(request.origin("sweep").where))[0]
    name = request.job_name or file
    return replace(request, sweep=sweep, script=shell, args=tuple(args), job_name=name)


def _ask_about_requeue(
    draft: JobPlan, snapshot: Optional[Snapshot]
) -> Tuple[Optional[Snapshot], str]:
    """Return Slurm's answers, and why it would not requeue the job of --until-done.

    snapshot: its answers so far; None: it was not asked. "": it would requeue the job, or it does
    not answer.
    """
    from neuronctl.judgement.ask import Question
    from neuronctl.judgement.plan_on_cluster import PlanOnCluster

    try:
        if snapshot is None:
            question = Question(draft)
            _load_the_rest()
            snapshot = question.answer()
    except SlurmError:
        return None, ""
    # Slurm may choose any of several partitions.
    for partition in (draft.partition, *draft.alternatives):
        reason = PlanOnCluster(replace(draft, partition=partition), snapshot).no_requeue
        if reason:
            return snapshot, reason
    return snapshot, ""


def _with_venv(request: job.JobRequest, tell: Callable[[str], None]) -> job.JobRequest:
    """Return the request with the environment beside its Python program, unless it has another."""
    requested = (request.venv, request.conda, request.container, request.modules, request.setup)
    # The job inherits the active environment of this shell.
    has_active = "VIRTUAL_ENV" in os.environ or os.environ.get("CONDA_DEFAULT_ENV") not in _BASE
    starts_python = (request.script or "").endswith(".py") or request.script in _PYTHONS
    if any(requested) or has_active or not starts_python:
        return request
    venv, lock = find_venv(python_file(request) or "", request.resolve_path("") or ".")
    if lock:
        tell(
            f"{lock} is here, but no .venv beside it: run 'uv sync' on the login node first, "
            "or the job uses the Python on its PATH"
        )
    if not venv:
        return request
    tell(f"using {venv}; to use another, name it with --venv or --conda")
    origins = {**request.origins, "venv": job.Origin(job.Source.DERIVED, "beside the program")}
    return replace(request, venv=venv, origins=origins)


_PYTHONS = ("python", "python3")
_BASE = (None, "base")  # no environment of conda is active, or only its own


def _exclude_bad_nodes(request: job.JobRequest) -> job.JobRequest:
    """Return the request with --avoid-bad-nodes applied: nodes that failed are excluded."""
    failed = set(bad_nodes(local_cluster())) if request.avoid_bad_nodes else set()
    more = sorted(failed.difference(hosts(request.exclude), hosts(request.nodelist)))
    if not more:
        return request
    origins = {**request.origins, "exclude": job.Origin(job.Source.DERIVED, "--avoid-bad-nodes")}
    exclude = ",".join(filter(None, (request.exclude, compress_hostlist(more))))
    return replace(request, exclude=exclude, origins=origins)


def resolve_paths(request: job.JobRequest, cluster: Cluster) -> job.JobRequest:
    """Return the request with its directory, image, and programs as this machine finds them."""
    if request.chdir is not None:
        # sbatch resolves neither `..` nor `~`.
        request = replace(request, chdir=os.path.join(working_directory(), request.chdir))
    if request.container is not None:
        directories = cluster.containers.image_dirs
        image = find_image(request.container, directories, request.resolve_path(""))
        request = replace(request, container=image)
    steps = tuple(_resolve_step(step, request) for step in request.steps)
    return replace(request, script=_resolve_program(request.script, request), steps=steps)


def _resolve_step(step: job.StepRequest, request: job.JobRequest) -> job.StepRequest:
    together = tuple(_resolve_step(part, request) for part in step.together)
    return replace(step, script=_resolve_program(step.script, request), together=together)


def _resolve_program(script: Optional[str], request: job.JobRequest) -> Optional[str]:
    """Return ``./NAME`` for a program in the job's directory: PATH does not lead there."""
    if not script or "/" in script or script.endswith(".py"):
        return script
    return f"./{script}" if os.path.isfile(request.resolve_path(script)) else script
