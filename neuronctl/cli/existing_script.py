"""What submit and resubmit do with somebody's own batch script."""

from __future__ import annotations

import sys
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from neuronctl.cli import job_output, submission
from neuronctl.cli.say import notify
from neuronctl.errors import UsageError
from neuronctl.request.job import OPTIONS
from neuronctl.submission.existing_script import (
    ExistingScript,
    choose_partition,
    judge_script,
    record_draft,
    with_comment,
)
from neuronctl.submission.prepare import PreparedJob, options_layer
from neuronctl.submission.transaction import Submission

_BY_POLICY = ("cluster", "field", "appl")
"""Options that are not sbatch's and mean something for a script all the same."""


def options_over(options: Mapping[str, Any], others: Sequence[str] = ()) -> Tuple[str, ...]:
    """The options of this command as words of sbatch's; ``-p auto`` is not among them.

    others: further options of this command that were given. Raises UsageError for those that shape
    a script of neuronctl's own.
    """
    words: List[str] = []
    shaping = list(others)
    options_layer(options)  # raises UsageError for a value that is none
    for option in OPTIONS:
        value = options.get(option.long.replace("-", "_"))
        if value is None or value == () or option.long in _BY_POLICY:
            continue
        if option.group != "Slurm":
            shaping.append(f"--{option.long}")
        elif option.kind == "list":
            words += [f"--{text.lstrip('-')}" for text in value]
        elif option.kind in ("flag", "switch"):
            words.append(f"--{'' if value else 'no-'}{option.long}")
        elif (option.long, value) != ("partition", "auto"):
            words.append(f"--{option.long}={value}")
    if shaping:
        raise UsageError(
            f"{' and '.join(shaping)} cannot be applied to a batch script, which is submitted as "
            "it is",
            "write it into the script; or name the program that the script starts as SCRIPT, and "
            "neuronctl writes the script",
        )
    return tuple(words)


def judge_and_report(
    own: ExistingScript,
    options: Mapping[str, Any],
    *,
    catalog_file: Optional[str],
    force: bool,
    explain: bool,
    mode: submission.SubmitMode,
) -> Tuple[ExistingScript, PreparedJob]:
    """Judge a script and say what was found; it may get a comment and a partition by it.

    Raises PolicyError for errors without ``force``.
    """
    from neuronctl.catalog.loader import load
    from neuronctl.request.job_file import configured_cluster

    catalog, asked = load(catalog_file), options["cluster"] or configured_cluster()
    own = with_comment(own, catalog, asked, options["field"], options["appl"])
    choice = None
    if options["partition"] == "auto":
        own, planned = choose_partition(own, catalog, asked)
        choice = planned.choice
        job_output.show_choice(planned)
    job = judge_script(own, catalog, asked, ask_slurm=True, fresh=mode.dry_run, choice=choice)
    drafted = record_draft(own, ["neuronctl", *sys.argv[1:]], job)
    if explain:
        job_output.print_decisions(drafted.decisions, sys.stderr)
    job_output.show_findings(job)
    if not force:
        submission.refuse_errors(job, mode, lambda: drafted)
    return own, job


def submit(
    own: ExistingScript,
    job: Optional[PreparedJob],
    mode: submission.SubmitMode,
    catalog_file: Optional[str],
    asked: Optional[str],
) -> Optional[Submission]:
    """Submit a script and report it, or with --dry-run show it: None.

    job: the script judged, None where it was not. asked: the catalog's cluster, if requested.
    Raises UsageError where sbatch would not return with a job.
    """
    from neuronctl.catalog.loader import load
    from neuronctl.request.job_file import configured_cluster

    endless = {"wait", "test-only"} & set(own.header.options)
    if endless:
        name = "--" + endless.pop()
        raise UsageError(
            f"{own.name} is to be submitted with {name}, which belongs on a command line",
            "use 'neuronctl submit --dry-run'"
            if name == "--test-only"
            else "leave it out, and use 'neuronctl submit --wait'",
        )

    def again() -> PreparedJob:
        cluster = asked or configured_cluster()
        return judge_script(own, load(catalog_file), cluster, ask_slurm=True, fresh=True)

    drafted = record_draft(own, ["neuronctl", *sys.argv[1:]], job)
    done = submission.submit(mode, drafted, {}, again, job, own.cluster)
    if done is not None and own.has_changed():
        notify(
            f"warning: {own.name} was changed while it was submitted: the record may have another "
            "text than the job"
        )
    return done
