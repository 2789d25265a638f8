"""``neuronctl init``: the job file of a directory."""

from __future__ import annotations

import os
import sys
from shutil import which
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Sequence, Tuple

import click

from neuronctl.catalog.cluster import Cluster
from neuronctl.catalog.loader import load, recognize_cluster
from neuronctl.cli import job_output
from neuronctl.cli.job_options import BatchCommand, catalog_option, job_options, optional_program
from neuronctl.cli.say import notify, print_script
from neuronctl.common.console import printable
from neuronctl.common.datatypes import replace
from neuronctl.common.errors import PolicyError, UsageError, did_you_mean
from neuronctl.common.files import open_regular
from neuronctl.common.shell import join, quote
from neuronctl.planning.software import LONGEST_PROGRAM, python_file
from neuronctl.request.job import OPTIONS, JobRequest, Source
from neuronctl.request.job_file import JOB_FILE, configuration
from neuronctl.request.typed_options import options_layer
from neuronctl.rules.base import Finding, Trait
from neuronctl.rules.local_facts import program_imports
from neuronctl.rules.policy import near_imports
from neuronctl.scripts.script_file import batch_script, unified_diff
from neuronctl.submission.distributed_program import distribute
from neuronctl.submission.first_job import Derived, job_file, programs, software

if TYPE_CHECKING:
    from neuronctl.submission.planned_job import PlannedJob

_SIZE = ("nodes", "ntasks", "ntasks_per_node", "gpus_per_node", "gpus", "gres")
_SOFTWARE = ("conda", "venv", "container", "modules")


@click.command("init", cls=BatchCommand, context_settings={"allow_interspersed_args": False})
@job_options([option.long for option in OPTIONS if option.long != "env"])
@catalog_option
@click.option("--force", is_flag=True, help=f"Overwrite {JOB_FILE}.")
@optional_program
def command(words: Tuple[str, ...], catalog: Optional[str], force: bool, **options: Any) -> None:
    """Write a job file, job.yaml, for 'neuronctl submit'.

    neuronctl fills in what you leave out: the program, its environment, the site's application
    code, and the partition. On a terminal, it asks for the number of GPUs and that code. It checks
    the job first, and writes nothing if the job would be refused.

    If the program is written for one GPU and you request several, neuronctl prints a patch that
    makes it distributed.
    """
    from neuronctl.submission.planned_job import plan_job

    if os.path.lexists(JOB_FILE) and not force:
        raise UsageError(f"'{JOB_FILE}' already exists", "use --force to overwrite it")
    defaults = configuration().values
    cluster, how = recognize_cluster(load(catalog), options["cluster"] or defaults.get("cluster"))
    notify(f"cluster: {cluster.title}" + (f" ({how})" if how else ""))
    chdir = options["chdir"] or defaults.get("chdir")
    words = words or (_only_program(chdir or "."),)
    requested = {**defaults, **options_layer(options, words).values}
    program = JobRequest(script=requested["script"], args=requested.get("args", ()), chdir=chdir)
    _refuse_batch_script(program)
    derived = _derive_size(requested, cluster)
    derived.update(_ask_comment_codes(program, cluster, requested))
    environment, advice = software(any(name in requested for name in _SOFTWARE), program)
    derived.update(environment)
    _show_derived(derived)
    # What the user has typed, and what was derived for the rest.
    values = {**options, **{name: value.value for name, value in derived.items()}}
    ask_slurm = which("sbatch") is not None
    planned = plan_job(values, words=words, catalog_file=catalog, ask_slurm=ask_slurm, tell=notify)
    patch_advice = _judge_and_patch(planned)
    default_time = _find_default_time(planned)
    _show_derived(default_time)
    text = job_file(program, options, {**derived, **default_time}, cluster)
    job_output.write_text(JOB_FILE, text, force=force)
    notify(*filter(None, [advice, patch_advice]))
    notify(f"wrote {JOB_FILE}; 'neuronctl submit' submits it, with --dry-run only shows the script")


def _show_derived(derived: Mapping[str, Derived]) -> None:
    for name, value in derived.items():
        notify(f"{name.replace('_', '-')}: {value.value} ({value.why})")


def _find_default_time(planned: PlannedJob) -> Dict[str, Derived]:
    """Return the time limit if it is the site's default, which only the plan shows."""
    time = planned.plan.decision("time")
    if time is None or time.source != Source.CLUSTER:
        return {}
    return {"time": Derived(time.value, "the default here: a shorter one may start earlier")}


def _judge_and_patch(planned: PlannedJob) -> str:
    """Print what is wrong with the job, a patch for its program, and when it would start.

    Return how to apply the patch, "" if the program needs none or none is known. Raises PolicyError
    if the job is refused as it is.
    """
    judged = planned.judge()
    copies = [finding for finding in judged.findings if finding.has(Trait.REWRITES)]
    patch_advice = _print_patch(planned.plan.request, copies[0]) if copies else ""
    if patch_advice:  # it replaces the findings about copies
        others = tuple(finding for finding in judged.findings if finding not in copies)
        judged = replace(judged, findings=others)
    job_output.show_findings(judged, set())
    if judged.errors:
        raise judged.refusal(patch_advice)
    if patch_advice and copies[0].refuses:  # nothing else refuses the job
        again = f"change {planned.plan.request.script}, then run init again to write {JOB_FILE}"
        raise PolicyError(again, patch_advice)
    notify(f"the job in {planned.plan.partition_list}: {job_output.summary(judged)}")
    job_output.show_verdict(judged)
    return patch_advice


def _derive_size(requested: Mapping[str, Any], cluster: Cluster) -> Dict[str, Derived]:
    """Return the partition and the GPUs per node that the user did not request."""
    derived: Dict[str, Derived] = {}
    partition = requested.get("partition")
    if partition is None:
        derived["partition"] = Derived("auto", "the one where it starts first; or name one")
    gpu_counts = [
        candidate.gpus_per_node
        for candidate in cluster.partitions.values()
        if partition in (None, "auto") or candidate.name in str(partition).split(",")
    ]
    if any(gpu_counts) and not any(name in requested for name in _SIZE):
        numbers = [str(number) for number in range(1, max(gpu_counts) + 1)]
        gpus = _ask("GPUs per node", "number of GPUs", numbers, "1") or "1"
        why = "nothing else was requested" if gpus == "1" else "as you said"
        derived["gpus_per_node"] = Derived(gpus, why)
    return derived


def _ask(question: str, noun: str, choices: Sequence[str], default: Optional[str]) -> Optional[str]:
    """Ask until the answer is one of the choices, if any; without a terminal, take the default."""
    # With '| patch', standard output is no terminal: patch must get nothing but the change.
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        return default

    def check(text: str) -> str:
        if choices and text.strip() not in choices:
            problem = f"'{text}' is not a {noun} here; {did_you_mean(text, choices)}"
            raise click.UsageError(printable(problem))
        return text.strip()

    answer: str = click.prompt(printable(question), default, value_proc=check, err=True)
    return answer


def _print_patch(request: JobRequest, copies: Finding) -> str:
    """Print a patch that makes a program for one GPU train once on all; return how to apply it.

    copies: the finding that it would train once on each. Return "" if no patch is known.
    """
    path = request.resolve_path(python_file(request) or "")
    try:
        with open_regular(path) as file:
            text = file.read(LONGEST_PROGRAM).decode("utf-8")
    except (OSError, ValueError):
        return ""
    change = distribute(text)
    if change is None:
        return ""
    print_script(unified_diff(path, text, change.text))
    notify(
        f"{copies.code}: {copies.message}",
        "this change makes it one training run on all GPUs",
        *(f"left to you: {task}" for task in change.by_hand),
        "each process takes its own batches, so one step sees the samples of all: adapt the batch "
        "size or the learning rate",
    )
    again = join(("neuronctl", *sys.argv[1:]))
    return f"make the change: {again} | patch {quote(path)}; then: {again}"


def _only_program(directory: str) -> str:
    """Return the only Python program of a directory; raise UsageError for none, or several."""
    files = programs(directory)
    if not files:
        hint = "name it: neuronctl init PROGRAM [ARGS]"
        raise UsageError("no program is named, and there is no Python file here", hint)
    if len(files) > 1:
        listed = ", ".join(files[:6]) + (", …" if len(files) > 6 else "")
        hint = f"name it: neuronctl init {quote(files[0])}"
        raise UsageError(f"which program? There are {len(files)} here: {listed}", hint)
    notify(f"program: {files[0]} (the only one here)")
    return files[0]


def _refuse_batch_script(program: JobRequest) -> None:
    script = program.resolve_path(program.script or "")
    if batch_script(script) is not None:
        file = quote(script)
        hint = f"neuronctl submit {file}; or neuronctl import {file} -o {JOB_FILE}"
        raise UsageError(f"'{script}' is a batch script: it needs no job file", hint)


def _ask_comment_codes(
    program: JobRequest, cluster: Cluster, requested: Mapping[str, Any]
) -> Dict[str, Derived]:
    """Return the codes that a job's comment needs, from the user or the program's imports."""
    comment = cluster.policy.comment
    if not comment.required or requested.get("comment") is not None:
        return {}
    parts: Dict[str, Derived] = {}
    for key in ("field", "appl"):
        codes = comment.values_of(key)
        if codes is None or key in requested:  # None: the comment has no such part
            continue
        suggestion = _suggest_application(program, codes) if key == "appl" else None
        explained = [code for code in codes if code in comment.meanings]
        examples = [f"{code} ({comment.meanings[code]})" for code in explained] or [*codes]
        question = (
            f"{key.capitalize()} for the site's comment, such as {', '.join(examples[:6])}; "
            "'neuronctl partitions --comment' lists all"
        )
        default = None if suggestion is None else suggestion.value
        answer = _ask(question, f"code for --{key}", codes, default)
        if suggestion is not None and answer == suggestion.value:
            parts[key] = suggestion
        elif answer:
            parts[key] = Derived(answer, "as you said")
    return parts


def _suggest_application(program: JobRequest, codes: Sequence[str]) -> Optional[Derived]:
    """Return the code of the application that the program imports; None if there is none."""
    module, near_codes = near_imports(program_imports(program), codes)
    return Derived(near_codes[0], f"the program imports {module}") if near_codes else None
