"""How a job ended: evidence in, cause and remedy out; ``certain`` marks facts. Pure."""

from __future__ import annotations

import re
import signal
from typing import Dict, Optional, Tuple

from neuronctl.common.datatypes import replace
from neuronctl.common.units import format_time
from neuronctl.common.words import duration
from neuronctl.diagnosis.completed import LESS_MEMORY, diagnose_completed, diagnose_killed_step
from neuronctl.diagnosis.evidence import AT_END, Diagnosis, Ending, JobEvidence, began, find_ending
from neuronctl.diagnosis.signs import CRASHES, EXCEPTION, FOLLOWS, MESSAGE, LogLine, Sign
from neuronctl.diagnosis.waiting import diagnose_running, diagnose_waiting, hang_remedy, quiet_words
from neuronctl.slurm.job_states import CANCELLED, COMPLETED, PENDING, STATES, UNKNOWN
from neuronctl.tracking import endings
from neuronctl.tracking.job_status import NOT_RESPONDING
from neuronctl.tracking.runs import LAST, NOT_SAVED, Run


def diagnose(evidence: JobEvidence) -> Diagnosis:
    """Return why a job waits, how it is doing, or how it ended."""
    diagnosis = _diagnose(evidence)
    id = evidence.status.id
    tasks = id.tasks if id.task is None else str(id.task)
    values = {
        "{memory}": evidence.more_memory,
        "{job}": str(id),
        "{name}": evidence.status.name,
        # The arguments of `neuronctl resubmit` for the job, or only for these array tasks.
        "{id}": str(id.job) if tasks is None else f"{id.job} --array {tasks}",
    }
    remedy = re.sub(r"\{\w+\}", lambda match: values.get(match[0], match[0]), diagnosis.remedy)
    return replace(diagnosis, remedy=remedy)


def _diagnose(evidence: JobEvidence) -> Diagnosis:
    """Return the diagnosis of a job; its remedy may contain {memory}, {job}, {name}, and {id}."""
    status, runs = evidence.status, evidence.runs
    if status.state == UNKNOWN:
        return _diagnose_unknown(evidence)
    if not status.ended:
        return diagnose_waiting(evidence) if status.state == PENDING else diagnose_running(evidence)
    if status.state == COMPLETED:
        return diagnose_completed(evidence)
    if runs.finished:
        # The program was done when the job was ended or lost its node.
        return Diagnosis("finished", f"{status.state} for Slurm, but all is done")
    if runs.is_cut_off(status):
        what = f"{status.state}: run {len(runs.runs)} was to continue in another one"
        return Diagnosis("no-next-run", what, remedy=_RESUME, line=evidence.last_line())
    by_option = _diagnose_option(evidence)
    if by_option is not None:
        return by_option
    if endings.is_launch_failure(status):
        return _diagnose_launch_failure(evidence)
    if status.state in _BY_STATE:
        return _diagnose_state(evidence)
    return _diagnose_failed(evidence)


_RESUME = "'neuronctl resubmit {id}' goes on from its last save, if it made one"


def _diagnose_unknown(evidence: JobEvidence) -> Diagnosis:
    """Diagnose a job whose state Slurm does not know."""
    what = f"what became of it is unknown: {evidence.status.stated_reason}"
    if evidence.status.absent == NOT_RESPONDING:
        remedy = "try again later; its log may tell more"
    else:
        remedy = (
            "check its log, if there is one; without accounting, 'neuronctl logs -f' records the "
            "end of a job that it follows"
        )
    sign = evidence.sign
    line = evidence.last_line() if sign is None else sign.log_line
    return Diagnosis("unknown", what, remedy=remedy, line=line)


_BY_OPTION = {
    "stall": (
        "stalled",
        "look where its processes are while one like it hangs: 'neuronctl why --stacks'",
    ),
    "idle": (
        "idle",
        "if it was done, let the program end; otherwise read in its log what it waited for",
    ),
}
"""Option -> (kind, remedy) of a job that ended itself because of the option."""


def _diagnose_option(evidence: JobEvidence) -> Optional[Diagnosis]:
    """Return the diagnosis of a job that --stall or --idle ended; None for another."""
    for option, (kind, remedy) in _BY_OPTION.items():
        for line in evidence.lines_backwards():
            if endings.ENDED_BY[option] in line.text:
                return Diagnosis(kind, f"--{option} ended it", remedy=remedy, line=line)
    return None


_AGAIN = "resubmit it; if it happens again, contact your site's support"

_RESUBMIT = "resubmit it ('neuronctl resubmit {id}'); with --requeue, Slurm does this by itself"

_BY_STATE: Dict[str, Tuple[str, str, str]] = {
    "TIMEOUT": ("time-limit", "", "time limit"),
    "DEADLINE": ("deadline", "set a later deadline, or none", ""),
    "OUT_OF_MEMORY": ("out-of-memory", LESS_MEMORY, "oom"),
    "NODE_FAIL": ("node-failure", f"the program is not at fault: {_RESUBMIT}", "node failure"),
    "BOOT_FAIL": ("node-failure", _AGAIN, ""),
    "LAUNCH_FAILED": ("launch-failure", _AGAIN, ""),
    "RECONFIG_FAIL": ("launch-failure", _AGAIN, ""),
    "PREEMPTED": ("preempted", f"{_RESUBMIT}, and checkpoints save the work", "preemption"),
    "REVOKED": ("revoked", "check its state there", ""),
    CANCELLED: ("cancelled", "", "cancelled"),
}
"""State -> (kind, remedy, words of the line that slurmstepd or srun writes in that case).

The remedy is "" if it depends on more than the state; the words are "" if no such line is known.
"""


def _diagnose_state(evidence: JobEvidence) -> Diagnosis:
    """Diagnose a job whose state says how it ended, such as TIMEOUT."""
    status = evidence.status
    kind, remedy, words = _BY_STATE[status.state]
    what = STATES[status.state].ending
    if status.state == CANCELLED:
        kind, what, remedy = _describe_cancellation(evidence)
    elif status.state == "TIMEOUT":
        remedy = _advise_more_time(evidence)
        if status.time_limit is not None:
            what += f" ({duration(status.time_limit)})"
    elif status.node_list and kind in ("node-failure", "launch-failure"):
        what += f" ({status.node_list})"
    line = None
    if began(status):
        by_slurm = evidence.line_of_slurm(words) if words else None
        line = by_slurm or evidence.last_line()
    diagnosis = Diagnosis(kind, what, remedy=remedy, line=line)

    # An error that did not end the job may be why it still ran.
    error = _earlier_error(evidence, kind)
    if error is not None:
        cause = f"before that, its log shows an error: {error.cause}"
        where = evidence.add_node(error.where)
        return replace(
            diagnosis, cause=cause, remedy=remedy or error.remedy, certain=False, where=where
        )
    quiet = quiet_words(evidence) if kind == "time-limit" else ""
    if quiet:
        cause = f"its log had not changed for {quiet}, as if it hung"
        return replace(diagnosis, cause=cause, remedy=hang_remedy(status), certain=False)
    return diagnosis


def _earlier_error(evidence: JobEvidence, kind: str) -> Optional[Sign]:
    """Return a known error that a log shows shortly before a time limit or a cancellation."""
    sign = evidence.sign if kind in ("time-limit", "cancelled") else None
    if sign is None or not sign.entry.name or sign.consequence or sign.number > AT_END:
        return None
    if kind == "cancelled":
        cancellation = evidence.line_of_slurm("cancelled")
        is_before_it = cancellation is not None and sign.number >= cancellation.number
        return sign if is_before_it else None  # a later error may be its consequence
    return sign


def _describe_cancellation(evidence: JobEvidence) -> Tuple[str, str, str]:
    """Return the kind, what happened, and the remedy of a job that was cancelled."""
    status, canceller = evidence.status, evidence.canceller
    if evidence.left_out:
        # Its script is NAME/ID/scripts/KEY in the directory of pipelines.
        *_, pipeline, _id, _scripts, _key = status.submit_line.split("/")
        remedy = f"once that is mended, 'neuronctl resubmit {pipeline} --failed' goes on"
        return "not-run", f"not run: {evidence.left_out}", remedy
    what = "cancelled"
    if canceller:
        what += f" by {canceller}"
    elif status.cancelled_by is not None:
        what += f" by the user with uid {status.cancelled_by}"
    if began(status):
        what += f" after {duration(status.elapsed)}"
    else:
        what += f" before {'its next run' if evidence.runs.runs else 'it'} started"
    if status.reason.startswith("DependencyNeverSatisfied"):
        remedy = "fix and resubmit that job first; 'neuronctl resubmit {id}' then names the new one"
        return "dependency", f"{what}: the job it depends on did not end as required", remedy
    remedy = ""
    if status.cancelled_by == 0 and canceller != "you":
        remedy = "root means an administrator or Slurm itself: ask your site's support why"
    elif canceller not in ("", "you"):
        remedy = f"ask {canceller} why"
    return "cancelled", what, remedy


def _advise_more_time(evidence: JobEvidence) -> str:
    """Return what to do about the time limit; suggest nothing that the job already had."""
    status, record = evidence.status, evidence.status.record
    if record is None:
        save = "let it save checkpoints, and submit it again"
    elif record.runs or record.rest.get("sbatch"):
        save = "let it save checkpoints; 'neuronctl resubmit {id}' goes on from the last one"
    else:
        save = (
            "let it save checkpoints: 'neuronctl resubmit {id} --until-done' asks it to before the "
            "limit, and goes on in further runs ('neuronctl help go-on-until-done')"
        )

    limit = "'neuronctl partitions' shows each partition's maximum"
    maximum = evidence.most_time
    if maximum is not None:
        if status.time_limit is not None and status.time_limit >= maximum:
            return f"it had all the time that {status.partition} allows: {save}"
        limit = f"{status.partition} allows {format_time(maximum)}"
    command = "submit it again with a longer -t"
    if record is not None:
        command = "'neuronctl resubmit {id} -t TIME'"
    return f"request more time: {command} ({limit}); or {save}"


def _diagnose_launch_failure(evidence: JobEvidence) -> Diagnosis:
    """Diagnose a job that ended with 0:53: Slurm could not open its log."""
    path = evidence.status.stdout
    what = "failed before its script started: Slurm reported exit code 0:53"
    if evidence.log_problem:
        cause = f"its log could not be opened: {evidence.log_problem}"
    elif path and not evidence.log_guessed:
        cause = f"its log {path} could not be opened on the node"
    else:
        cause = "its log could not be opened: its directory is missing, or you cannot write to it"
    remedy = (
        "create the log directory before you submit, on a file system that the nodes can see, and "
        "give the log a shorter name, without shell variables (#SBATCH lines do not expand them)"
    )
    return Diagnosis("log-directory", what, cause, remedy, certain=False)


def _diagnose_failed(evidence: JobEvidence) -> Diagnosis:
    """Diagnose FAILED, and states that are not in _BY_STATE."""
    sign = evidence.sign
    ending = find_ending(evidence)
    killed = diagnose_killed_step(evidence, ending.what)
    if killed is not None:
        return killed
    if sign is None:
        return _diagnose_exit(evidence, ending, evidence.last_line(), silent=True)
    if sign.exit:
        # A launcher has its own exit code, and names the process that failed first.
        line = evidence.last_line() if sign.exit == ending.code else sign.log_line
        return _diagnose_exit(evidence, ending.of_process(sign), line, silent=False)
    if _outweighs(sign, ending):
        return _diagnose_sign(evidence, ending.what, sign)
    return _diagnose_exit(evidence, ending, sign.log_line, silent=False)


def _outweighs(sign: Sign, ending: Ending) -> bool:
    """Return True if a log message says more than the usual meaning of a signal or exit code."""
    is_message = sign.kind == MESSAGE
    if not ending.signal or not ending.meaning:
        # timeout(1) ends a program whatever its log says.
        return not (is_message and ending.code == _TIMEOUT)
    if is_message or sign.kind in FOLLOWS:
        return False
    if ending.signal in CRASHES and not sign.stopped:
        # The process died without a message, and the log may show only what followed.
        return not sign.consequence and sign.kind != EXCEPTION
    return True


_TIMEOUT = 124
"""The exit code of timeout(1)."""


def _diagnose_exit(
    evidence: JobEvidence, ending: Ending, line: Optional[LogLine], *, silent: bool
) -> Diagnosis:
    """Diagnose by the exit code or signal. silent: True if no log line explains it."""
    diagnosis = _usual_diagnosis(evidence, ending, line)
    # A signal says more than how the last run ended, which says more than an exit code.
    if ending.signal and diagnosis.cause:
        return diagnosis
    if silent and evidence.runs.ended:
        return replace(diagnosis, remedy=_advise_after_last_run(evidence.runs.runs[-1]))
    if diagnosis.cause:
        return diagnosis
    if silent and evidence.log_full:
        cause = f"{evidence.log_problem}: what it wrote last is lost"
        remedy = "free some space there, or write the log elsewhere with -o"
        return Diagnosis("no-space", ending.what, cause, remedy, certain=False, line=line)
    if line is not None:
        return _with_surroundings(evidence, diagnosis)
    if ending.code:
        return replace(diagnosis, remedy=_advise_without_log(evidence, ending.code))
    return diagnosis


_NEAR = 0.9
"""With this share of the requested memory in its last sample, a killed task probably ran out."""


def _usual_diagnosis(evidence: JobEvidence, ending: Ending, line: Optional[LogLine]) -> Diagnosis:
    """Return what a signal or exit code usually means; its cause is "" if that is unknown."""
    meaning = ending.meaning
    kind = meaning.get("kind", "signal" if ending.signal else "exit-code")
    cause, remedy = meaning.get("means", ""), meaning.get("do", "")
    if ending.signal == signal.SIGKILL and evidence.memory_share() >= _NEAR:
        cause, remedy = "its memory came near what it had requested (MaxRSS)", LESS_MEMORY
    return Diagnosis(kind, ending.what, cause, remedy, certain=not cause, line=line)


def _advise_after_last_run(run: Run) -> str:
    """Return what to do after the last run of a job with --until-done."""
    if run.how == NOT_SAVED:
        return (
            "the program ended at the signal and did not save: see 'What your program does' in "
            "'neuronctl help go-on-until-done'"
        )
    if run.cause == LAST:
        return _RESUME
    return f"read what its last run wrote: 'neuronctl logs --run {run.number} {{job}}'"


def _advise_without_log(evidence: JobEvidence, code: int) -> str:
    """Return what to do about an exit code without a usual meaning if no log line is known."""
    problem = "its log is empty"
    if evidence.unread and not evidence.logs:
        unread = evidence.unread[0]
        problem = f"its log {unread.path} cannot be read: {unread.problem}"
        if evidence.log_guessed:
            problem = "where its log is, is not recorded"
    if code == 1:  # means nothing in particular
        return f"{problem}, and nothing else says why: run it again, and read what it writes"
    return f"{problem}, so look up what exit code {code} means in the program that had it"


def _diagnose_sign(evidence: JobEvidence, what: str, sign: Sign) -> Diagnosis:
    """Diagnose by the most relevant line of the log. what: how the job ended."""
    where = evidence.add_node(sign.where)
    if not where and sign.consequence:
        where = evidence.first_failed_task()
    line, entry = sign.log_line, sign.entry.name
    diagnosis = Diagnosis(
        sign.kind, what, sign.cause, sign.remedy, certain=False, line=line, where=where, entry=entry
    )
    return diagnosis if diagnosis.entry else _with_surroundings(evidence, diagnosis)


def _with_surroundings(evidence: JobEvidence, diagnosis: Diagnosis) -> Diagnosis:
    """Return an unexplained diagnosis with the lines around its line, and how to read more."""
    status, line = evidence.status, diagnosis.line
    is_in_stderr = line is not None and line.path == status.stderr
    logs = "'neuronctl logs {job}'"
    if is_in_stderr and status.stderr != status.stdout:
        logs = "'neuronctl logs {job} --err'"
    if not diagnosis.cause:
        remedy = f"the cause is unknown: read what it wrote with {logs}"
    elif diagnosis.where:
        remedy = f"see what that line of the program expects; {logs} shows what came before"
    else:
        remedy = f"{logs} shows what came before"
    where, around = diagnosis.where or evidence.first_failed_task(), evidence.lines_around(line)
    return replace(diagnosis, remedy=remedy, where=where, around=around)
