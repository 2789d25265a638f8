"""What generate, submit and salloc share: the way from a job's options to a judged plan."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

from neuronctl.cli.say import say
from neuronctl.errors import PolicyError, UsageError
from neuronctl.frozen import dataclass
from neuronctl.request.job import Layer, Origin, Source, build_request
from neuronctl.request.options import OPTIONS
from neuronctl.words import utc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from neuronctl.catalog.model import Catalog
    from neuronctl.gate.partition_choice import Candidate
    from neuronctl.gate.verdict import Verdict
    from neuronctl.planning import JobPlan
    from neuronctl.rules import Finding


@dataclass(frozen=True)
class Job:
    """A planned and judged job, before anything was done with it."""

    plan: JobPlan
    catalog: Catalog
    findings: Tuple[Finding, ...]
    verdict: Optional[Verdict] = None
    """What would happen to it now; None where Slurm is not asked (``generate``)."""
    choice: Tuple[Candidate, ...] = ()
    """With ``-p auto``, every partition: those that can hold it, the one taken in front."""

    @property
    def errors(self) -> Tuple[Finding, ...]:
        """The findings that refuse the job."""
        return tuple(one for one in self.findings if one.severity == "error")


def prepare(
    given: Dict[str, Any],
    *,
    words: Tuple[str, ...] = (),
    catalog_file: Optional[str],
    job_file: Optional[str],
    interactive: bool = False,
    reviewed: bool = False,
    recorded: Optional[Layer] = None,
) -> Job:
    """From the command line's values to a plan and the findings on it.

    reviewed: the script is only shown; see rules.RuleContext. Else Slurm is asked what it says now.
    recorded: a recorded request, in place of the user's configuration, which it holds already.
    """
    from neuronctl.catalog.loader import load
    from neuronctl.gate.local_facts import look
    from neuronctl.launch.containers import find_image
    from neuronctl.paths import config_dir
    from neuronctl.planning import plan
    from neuronctl.request.job_file import read_config, read_job_file
    from neuronctl.rules import RuleContext, check
    from neuronctl.slurm.cluster import recognise

    layers = [recorded or read_config(os.path.join(config_dir(), "config.yaml"))]
    if job_file is not None:
        layers.append(read_job_file(job_file))
    layers.append(command_line(given, words))
    request = build_request(layers)
    if request.script is None and not interactive:
        raise UsageError(
            "no SCRIPT: there is no program to run",
            "name it behind the options, or as 'script:' in the job file",
        )
    catalog = load(catalog_file)
    cluster, how = recognise(catalog, request.cluster)
    if request.container is not None:
        image = find_image(request.container, cluster.containers.image_dirs)
        request = dataclasses.replace(request, container=image)
    made = plan(request, cluster, interactive=interactive, recognised=how)
    choice: Tuple[Candidate, ...] = ()
    if request.partition == "auto":
        made, choice = _choose(made, catalog, ask=not reviewed)
    if reviewed:
        return Job(made, catalog, check(RuleContext(made, catalog, look(made), reviewed)))
    from neuronctl.gate.assessment import assess_now

    judged = assess_now(made, catalog, look(made), _load_the_rest)
    return Job(made, catalog, judged.findings, judged.verdict, choice)


def _load_the_rest() -> None:
    """Import what comes after the verdict: it takes longer than Slurm takes to answer."""
    import neuronctl.records.recovery
    import neuronctl.rendering.render  # noqa: F401


def _choose(made: JobPlan, catalog: Catalog, *, ask: bool) -> Tuple[JobPlan, Tuple[Candidate, ...]]:
    """The plan for the best partition; says on standard error why it, and why not the others."""
    from neuronctl.gate.local_facts import look
    from neuronctl.gate.partition_choice import choose
    from neuronctl.planning import plan

    best, others = choose(
        made.request,
        catalog,
        made.cluster,
        look(made),
        interactive=made.interactive,
        ask=ask,
    )
    first = best[0]
    say(f"neuronctl: -p auto takes {_candidate(first)}")
    for one in best[1:]:
        say(f"  after it  {_candidate(one)}")
    for one in others:
        say(f"  left out  {one.name}: {one.why_not}")
    origins = {**made.request.origins, "partition": Origin(Source.DERIVED, "-p auto")}
    request = dataclasses.replace(made.request, partition=first.name, origins=origins)
    how = made.decision("cluster")
    chosen = plan(
        request,
        made.cluster,
        interactive=made.interactive,
        recognised="" if how is None else how.why,
    )
    return chosen, (*best, *others)


def _candidate(one: Candidate) -> str:
    import time

    if one.verdict.judged_by != "Slurm":
        return f"{one.name} (by the catalog alone)"
    words = f"{one.name}: {one.verdict}"
    if one.start is not None:
        words += time.strftime("; Slurm expects %Y-%m-%d %H:%M:%S", time.localtime(one.start))
    return words


def command_line(given: Dict[str, Any], words: Tuple[str, ...]) -> Layer:
    """The layer of a request that the command line gives; raises UsageError."""
    values: Dict[str, Any] = {}
    origins: Dict[str, Origin] = {}
    for option in OPTIONS:
        value = given.get(option.long.replace("-", "_"))
        if value is None or value == ():
            continue
        if option.kind in ("flag", "switch"):
            texts = ["true" if value else "false"]
        else:
            texts = list(value) if option.kind == "list" else [value]
        if option.long == "env":
            texts = [_from_environment(text) for text in texts]
        try:
            fields = option.parse(texts)
        except ValueError as error:
            raise UsageError(f"--{option.long}: {error}", option.usage) from None
        for name, parsed in fields.items():
            origin = Origin(Source.ASKED, f"--{option.long}")
            if name in values and values[name] != parsed:
                raise UsageError(
                    f"{origin.where} and {origins[name].where} contradict each other",
                    "keep one of them",
                )
            values[name], origins[name] = parsed, origin
    if words:
        values["script"], values["args"] = _program(words[0]), tuple(words[1:])
        origins["script"] = origins["args"] = Origin(Source.ASKED, "SCRIPT")
    for text in words:
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise UsageError(
                f"the argument {text!r} is not valid UTF-8",
                "a script is UTF-8 text: rename the file, or read such a value from one",
            )
    return Layer(values, origins)


def _from_environment(text: str) -> str:
    """``NAME`` alone means the value it has here, as in docker and sbatch."""
    if "=" in text or not text.isidentifier():
        return text
    if text not in os.environ:
        raise UsageError(
            f"--env: {text} alone takes its value from your shell, which does not export it",
            f"export it before, or give the value: --env {text}=VALUE",
        )
    return f"{text}={os.environ[text]}"


def _program(script: str) -> str:
    if not script:
        raise UsageError("SCRIPT is empty", "name the program to run")
    # A program of this directory is not found through PATH on the nodes.
    if script == ":":
        raise UsageError(
            "':' begins another component of a heterogeneous job, which neuronctl does not make",
            "submit such a job with sbatch itself",
        )
    if "/" not in script and not script.endswith(".py") and os.path.isfile(script):
        return f"./{script}"
    return script


def refuse_or_warn(job: Job, *, force: Optional[bool]) -> None:
    """Say what the rules found, on standard error; raises PolicyError for errors, unless forced.

    force: None where there is no such option.
    """
    from neuronctl.rule_codes import CODES

    for one in job.findings:
        if CODES[one.code].waits:
            continue  # the verdict says it, and what is refused waits for nothing
        say(f"neuronctl: {one.severity} {one.code}: {one.message}")
        if one.hint:
            say(f"  hint: {one.hint}")
        if one.source:
            say(f"  from: {one.source}")
    if job.errors and job.verdict is not None and job.verdict.judged_by != "Slurm":
        say(f"neuronctl: judged by {job.verdict.judged_by}")
    if job.errors and not force:
        count = "1 error" if len(job.errors) == 1 else f"{len(job.errors)} errors"
        hint = "" if force is None else "--force goes on in spite of it"
        raise PolicyError(f"refused: {count}; nothing was done", hint)


def show_explanation(job: Job) -> None:
    """Every value and where it comes from, on standard error: the script may go into a file."""
    import sys

    from neuronctl.console import Column, print_table

    columns = [Column("VALUE", no_wrap=True), Column("IS"), Column("BECAUSE")]
    rows = [
        [one.name, one.value, f"{one.source.value}: {one.why}" if one.why else one.source.value]
        for one in job.plan.decisions
    ]
    print_table(columns, rows, file=sys.stderr)


def show_verdict(job: Job) -> None:
    """Say on standard error what would happen to the job if it were submitted now."""
    if job.verdict is None:
        return
    if job.errors:  # told already, and forced
        say("neuronctl: forced: Slurm may refuse it, or take it and never start it")
        return
    say(f"neuronctl: {job.verdict}")
    for source in dict.fromkeys(_wait_sources(job)):
        say(f"  from: {source}")


def _wait_sources(job: Job) -> List[str]:
    from neuronctl.gate.verdict import REFUSED, WILL_WAIT
    from neuronctl.rule_codes import CODES

    if job.verdict is None or job.verdict.kind not in (REFUSED, WILL_WAIT):
        return []
    if job.verdict.kind == REFUSED:
        return [one.source for one in job.errors[:1] if one.source]
    return [one.source for one in job.findings if CODES[one.code].waits and one.source]


def verdict_data(verdict: Optional[Verdict]) -> Optional[Dict[str, Any]]:
    """A verdict for --json."""
    if verdict is None:
        return None
    return {**dataclasses.asdict(verdict), "until": utc(verdict.until)}


def choice_data(choice: Sequence[Candidate]) -> List[Dict[str, Any]]:
    """The partitions of ``-p auto`` for --json, best first."""
    return [
        {
            "partition": one.name,
            "verdict": None if one.why_not else verdict_data(one.verdict),
            "start": utc(one.start),
            "free_nodes": one.free,
            "why_not": one.why_not,
        }
        for one in choice
    ]


def findings_data(findings: Tuple[Finding, ...]) -> List[Dict[str, str]]:
    """Findings for --json."""
    return [dataclasses.asdict(one) for one in findings]


def write_text(path: str, text: str, *, force: bool) -> None:
    """Write a script, executable and private to its user; never over a file unless ``force``.

    The text is written aside and renamed, so that a full disk leaves the old file whole.
    """
    if not path:
        raise UsageError("an empty word names no file", "name a file, or leave --write out")
    if os.path.lexists(path) and not os.path.isfile(path):
        raise UsageError(f"'{path}' is there already and is no file", "name another file")
    if os.path.isfile(path) and not force:
        raise UsageError(f"'{path}' is there already", "--force writes over it")
    aside = os.path.join(os.path.dirname(path), f".neuronctl-{os.getpid()}")
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(aside, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        raise UsageError(f"'{path}' cannot be written: {error.strerror}") from None
