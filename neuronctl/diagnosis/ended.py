"""How a job ended: evidence in, cause and remedy out; ``certain`` marks facts. Pure."""

from __future__ import annotations

import signal
from typing import Dict, Optional, Tuple

from neuronctl.common.datatypes import replace
from neuronctl.common.units import format_time
from neuronctl.common.words import duration
from neuronctl.diagnosis.evidence import (
    AT_END,
    Diagnosis,
    Ending,
    JobEvidence,
    add_node,
    backwards,
    began,
    describe_ending,
    ending_meaning,
    failed_step,
    first_process,
    first_task,
    last_line,
    line_with,
    lines_around,
    most_memory,
    search,
)
from neuronctl.diagnosis.signs import CRASHES, EXCEPTION, FOLLOWS, MESSAGE, LogLine, Sign
from neuronctl.diagnosis.waiting import hang_remedy, quiet_words, running, waiting
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import CANCELLED, COMPLETED, PENDING, STATES, UNKNOWN
from neuronctl.tracking import endings
from neuronctl.tracking.job_status import NOT_RESPONDING
from neuronctl.tracking.runs import LAST, NOT_SAVED, Runs


def diagnose(evidence: JobEvidence) -> Diagnosis:
    """Return why a job waits, how it is doing, or how it ended."""
    diagnosis = _diagnose(evidence)
    remedy = diagnosis.remedy.replace("{memory}", evidence.more_memory)
    remedy = remedy.replace("{job}", str(evidence.status.id))
    remedy = remedy.replace("{name}", evidence.status.name)
    return replace(diagnosis, remedy=remedy.replace("{id}", _again(evidence.status.id)))


def _diagnose(evidence: JobEvidence) -> Diagnosis:
    status = evidence.status
    if status.state == UNKNOWN:
        return _unknown(evidence)
    if not status.ended:
        return waiting(evidence) if status.state == PENDING else running(evidence)
    if status.state == COMPLETED:
        return _completed(evidence)
    if evidence.runs is not None and evidence.runs.finished:
        # It had nothing left to do but end when it was ended or lost its node.
        return Diagnosis("finished", f"{status.state} for Slurm, but all is done")
    if evidence.runs is not None and evidence.runs.is_cut_off(status):
        what = f"{status.state}: run {len(evidence.runs.runs)} was to continue in another one"
        remedy = (
            f"'neuronctl resubmit {_again(status.id)}' goes on from its last save, if it made one"
        )
        return Diagnosis("no-next-run", what, remedy=remedy, line=last_line(evidence))
    for option, (kind, remedy) in _BY_OPTION.items():
        words = endings.ENDED_BY[option]
        line = next((one for one in backwards(evidence) if words in one.text), None)
        if line is not None:
            return Diagnosis(kind, f"--{option} ended it", remedy=remedy, line=line)
    if endings.is_launch_failure(status):
        return _launch_failure(evidence)
    if status.state in _BY_STATE:
        return _diagnose_state(evidence)
    return _diagnose_failed(evidence)


def _unknown(evidence: JobEvidence) -> Diagnosis:
    sign = search(evidence)
    what = f"what became of it is unknown: {evidence.status.stated_reason}"
    remedy = (
        "check its log, if there is one; without accounting, 'neuronctl logs -f' records the end "
        "of a job that it follows"
    )
    if evidence.status.absent == NOT_RESPONDING:
        remedy = "try again later; its log may tell more"
    line = last_line(evidence) if sign is None else sign.log_line
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
"""Option with which a job's own script ends it -> (kind, remedy)."""

_IDLE = "serve: nobody used it for "
"""How the line begins that a server with --idle writes before it ends (programs/server)."""

_AGAIN = "resubmit it; if it happens again, contact your site's support"

_RESUBMIT = "resubmit it ('neuronctl resubmit {id}'); with --requeue, Slurm does this by itself"

_LESS_MEMORY = "{memory}, or use less: fewer processes and workers on a node, less data at a time"

# state -> (kind, remedy); {time}, {memory} and {id} are filled in.
_BY_STATE: Dict[str, Tuple[str, str]] = {
    "TIMEOUT": ("time-limit", "{time}"),
    "DEADLINE": ("deadline", "set a later deadline, or none"),
    "OUT_OF_MEMORY": ("out-of-memory", _LESS_MEMORY),
    "NODE_FAIL": ("node-failure", f"the program is not at fault: {_RESUBMIT}"),
    "BOOT_FAIL": ("node-failure", _AGAIN),
    "LAUNCH_FAILED": ("launch-failure", _AGAIN),
    "RECONFIG_FAIL": ("launch-failure", _AGAIN),
    "PREEMPTED": ("preempted", f"{_RESUBMIT}, and checkpoints save the work"),
    "REVOKED": ("revoked", "check its state there"),
    CANCELLED: ("cancelled", ""),
}

_SLURMS_WORDS = {
    "OUT_OF_MEMORY": "oom",
    "TIMEOUT": "time limit",
    "NODE_FAIL": "node failure",
    "PREEMPTED": "preemption",
    CANCELLED: "cancelled",
}
"""What the line of slurmstepd or srun about such an end has."""


def _diagnose_state(evidence: JobEvidence) -> Diagnosis:
    status = evidence.status
    kind, remedy = _BY_STATE[status.state]
    what = STATES[status.state].ending
    if status.state == CANCELLED:
        kind, what, remedy = _cancelled(evidence)
    elif status.state == "TIMEOUT" and status.time_limit is not None:
        what += f" ({duration(status.time_limit)})"
    elif status.node_list and kind in ("node-failure", "launch-failure"):
        what += f" ({status.node_list})"
    remedy = remedy.replace("{time}", _more_time(evidence)).replace("{id}", _again(status.id))
    line = None
    if began(status):
        word = _SLURMS_WORDS.get(status.state)
        line = (word and line_with(evidence, word)) or last_line(evidence)
    diagnosis = Diagnosis(kind, what, remedy=remedy, line=line)

    # A failure that did not end the job may have kept it until then.
    error = _earlier_error(evidence, kind)
    if error is not None:
        cause = f"before that, its log shows an error: {error.cause}"
        where = add_node(evidence, error.where)
        remedy = remedy or error.remedy
        return replace(diagnosis, cause=cause, remedy=remedy, certain=False, where=where)
    quiet = quiet_words(evidence) if kind == "time-limit" else ""
    if quiet:
        cause = f"its log had not changed for {quiet}, as if it hung"
        return replace(diagnosis, cause=cause, remedy=hang_remedy(status), certain=False)
    return diagnosis


def _earlier_error(evidence: JobEvidence, kind: str) -> Optional[Sign]:
    """Return a known error that a log shows shortly before a time limit or a cancellation."""
    sign = search(evidence) if kind in ("time-limit", "cancelled") else None
    if sign is None or not sign.entry.name or sign.consequence or sign.number > AT_END:
        return None
    by_slurm = line_with(evidence, "cancelled")
    if kind == "cancelled" and (by_slurm is None or by_slurm.number > sign.number):
        return None  # it may be a consequence
    return sign


def _cancelled(evidence: JobEvidence) -> Tuple[str, str, str]:
    """Return the kind, what happened, and the remedy of a job that was cancelled."""
    status, who = evidence.status, evidence.canceller
    if evidence.left_out:
        name = status.submit_line.split("/")[-4]  # the pipeline's
        remedy = f"once that is mended, 'neuronctl resubmit {name} --failed' goes on"
        return "not-run", f"not run: {evidence.left_out}", remedy
    if not who and status.cancelled_by is not None:
        who = f"the user with uid {status.cancelled_by}"
    when = f"after {duration(status.elapsed)}"
    if not began(status):
        has_run = evidence.runs is not None and evidence.runs.runs
        when = "before its next run started" if has_run else "before it started"
    what = f"cancelled{who and f' by {who}'} {when}"
    if status.reason.startswith("DependencyNeverSatisfied"):
        remedy = "fix and resubmit that job first; 'neuronctl resubmit {id}' then names the new one"
        return "dependency", f"{what}: the job it depends on did not end as required", remedy
    remedy = ""
    if status.cancelled_by == 0 and evidence.canceller != "you":
        remedy = "root means an administrator or Slurm itself: ask your site's support why"
    elif evidence.canceller not in ("", "you"):
        remedy = f"ask {evidence.canceller} why"
    return "cancelled", what, remedy


def _more_time(evidence: JobEvidence) -> str:
    """Return what to do about the time limit; suggest nothing that the job already had."""
    status, record = evidence.status, evidence.status.record
    resubmit = f"neuronctl resubmit {_again(status.id)}"
    if record is None:
        save = "let it save checkpoints, and submit it again"
    elif record.runs or record.rest.get("sbatch"):
        save = f"let it save checkpoints; '{resubmit}' goes on from the last one"
    else:
        save = (
            f"let it save checkpoints: '{resubmit} --until-done' asks it to before the limit, and "
            "goes on in further runs ('neuronctl help go-on-until-done')"
        )

    maximum = evidence.most_time
    if maximum is not None and status.time_limit is not None and status.time_limit >= maximum:
        return f"it had all the time that {status.partition} allows: {save}"
    limit = "'neuronctl partitions' shows each partition's maximum"
    if maximum is not None:
        limit = f"{status.partition} allows {format_time(maximum)}"
    more = f"'{resubmit} -t TIME'" if record else "submit it again with a longer -t"
    return f"request more time: {more} ({limit}); or {save}"


def _again(id: JobId) -> str:
    """Return the arguments of ``neuronctl resubmit`` for the job, or for only these array tasks."""
    tasks = id.tasks if id.task is None else str(id.task)
    return str(id.job) if tasks is None else f"{id.job} --array {tasks}"


_SCRIPT = "/slurm_script: "
"""How the shell that runs the batch script names it."""

_LAST_LINES = range(1, 6)
"""Among which last lines an error means that a job was not done, though it ended with 0."""

_SET_E = "add 'set -e' to a script to end it at the first error"

_NEAR = 0.9
"""The share of the requested memory that a killed task's last sample has."""


def _killed_step(evidence: JobEvidence, what: str) -> Optional[Diagnosis]:
    """Return Slurm's report of a step that used up its memory."""
    for step in evidence.steps:
        if step.name and step.state == "OUT_OF_MEMORY":
            cause = f"Slurm ended its step '{step.name}', which used up its memory"
            line = line_with(evidence, "oom") or last_line(evidence)
            return Diagnosis("out-of-memory", what, cause, _LESS_MEMORY, line=line)
    return None


def _completed(evidence: JobEvidence) -> Diagnosis:
    status = evidence.status
    what = f"completed with exit code 0 after {duration(status.elapsed)}"
    if evidence.failed_tasks:
        remedy = "fix the cause, then 'neuronctl sweep retry {name} --failed' runs them again"
        return Diagnosis("tasks-failed", what, evidence.failed_tasks, remedy)
    killed = _killed_step(evidence, f"{what}, though not all of it")
    if killed is not None:
        return killed
    idle = next((one for one in backwards(evidence) if one.text.startswith(_IDLE)), None)
    if idle is not None:
        cause = f"--idle ended it: {idle.text.partition(': ')[2].partition(',')[0]}"
        return Diagnosis("idle", what, cause, line=idle)
    sign = search(evidence)
    by_step = _failed_step_of_completed(evidence, what, sign)
    if by_step is not None:
        return by_step
    if sign is not None and _is_failed_command(sign):
        return _continued_after(sign, what)
    if evidence.runs is not None and evidence.runs.runs and evidence.runs.runs[-1].asked:
        what = f"{what}, and after it was told to save"
        remedy = (
            "if it only left when it was asked to save, with work undone, let it end with 75 then, "
            f"and 'neuronctl resubmit {_again(status.id)}'"
        )
        return Diagnosis("completed", what, remedy=remedy)
    for step in evidence.steps:
        number = 0 if step.exit is None or not step.name else step.exit.signal
        # SIGTERM and SIGKILL end what runs beside the program.
        if number not in (0, 2, 9, 15):
            how = f"was ended by {endings.signal_name(number)}, and the script went on"
            cause = f"its step '{step.name}' {how}"
            return Diagnosis("completed", what, cause, _SET_E, line=last_line(evidence))
    if sign is not None and _is_error_at_end(sign):
        return _continued_after(sign, what)
    return Diagnosis("completed", what)


def _failed_step_of_completed(
    evidence: JobEvidence, what: str, sign: Optional[Sign]
) -> Optional[Diagnosis]:
    """Return Slurm's report of a step that failed; None if none did, or if it is not known."""
    if evidence.runs is not None and len(evidence.runs.runs) > 1:
        return None  # Slurm keeps the exit code of an earlier run that saved
    whole_job = (step.exit for step in evidence.steps if step.name == "" and step.exit)
    exit = next(whole_job, None)
    if exit is None or not exit.code:
        return None
    step = failed_step(evidence) or f"a step ended with exit code {exit.code}"
    cause = f"{step}, and the script went on"
    if sign is None or not sign.cause or sign.exit:
        return Diagnosis("completed", what, cause, _SET_E, line=last_line(evidence))
    remedy = sign.remedy or _SET_E
    return Diagnosis(
        "completed", what, f"{cause}; likely, {sign.cause}", remedy, line=sign.log_line
    )


def _is_failed_command(sign: Sign) -> bool:
    """Return True if a command of the script failed, wherever in its log that is."""
    return sign.kind == EXCEPTION or (sign.kind == "command-not-found" and _SCRIPT in sign.line)


def _is_error_at_end(sign: Sign) -> bool:
    """Return True if a known error is among a log's last lines.

    A command that is not found does not count: a program may try several.
    """
    is_known = sign.entry.name and sign.kind != "command-not-found"
    return bool(is_known and sign.number in _LAST_LINES)


def _continued_after(sign: Sign, what: str) -> Diagnosis:
    cause = f"its log shows an error, after which the script continued: {sign.cause}"
    remedy = sign.remedy or _SET_E
    return Diagnosis("completed", what, cause, remedy, certain=False, line=sign.log_line)


def _launch_failure(evidence: JobEvidence) -> Diagnosis:
    status = evidence.status
    what = "failed before its script started: Slurm reported exit code 0:53"
    if evidence.log_problem:
        cause = f"its log could not be opened: {evidence.log_problem}"
    elif status.stdout and not evidence.log_guessed:
        cause = f"its log {status.stdout} could not be opened on the node"
    else:
        cause = "its log could not be opened: its directory is missing, or you cannot write to it"
    remedy = (
        "create the log directory before you submit, on a file system that the nodes can see, and "
        "give the log a shorter name, without shell variables (#SBATCH lines do not expand them)"
    )
    return Diagnosis("log-directory", what, cause, remedy, certain=False)


def _diagnose_failed(evidence: JobEvidence) -> Diagnosis:
    """Diagnose FAILED, and states that are not in the table above."""
    sign = search(evidence)
    ending = describe_ending(evidence, sign)
    killed = _killed_step(evidence, ending.what)
    if killed is not None:
        return killed
    if sign is None:
        return _from_exit(evidence, ending, last_line(evidence), silent=True)
    if sign.exit:
        # A launcher has its own exit code, and names the process that failed first.
        line = last_line(evidence) if sign.exit == ending.code else sign.log_line
        return _from_exit(evidence, first_process(ending, sign), line, silent=False)
    if _outweighs(sign, ending):
        return _from_log(evidence, ending.what, sign)
    return _from_exit(evidence, ending, sign.log_line, silent=False)


def _outweighs(sign: Sign, ending: Ending) -> bool:
    """Return True if a log message says more than the usual meaning of a signal or exit code.

    It does, unless a process dies of that signal without a message and the log only shows what
    followed.
    """
    if not ending.signal or not ending_meaning(ending):
        # 'timeout' ends a program that has nothing to say.
        return sign.kind != MESSAGE or ending.code != _TIMEOUT
    if sign.kind == MESSAGE or sign.kind in FOLLOWS:
        return False
    dies_silently = ending.signal in CRASHES and not sign.stopped
    return not (dies_silently and (sign.consequence or sign.kind == EXCEPTION))


_TIMEOUT = 124  # the exit code of timeout(1)


def _from_exit(
    evidence: JobEvidence, ending: Ending, line: Optional[LogLine], *, silent: bool
) -> Diagnosis:
    """Diagnose by the exit code or signal. silent: whether no log line explains it."""
    number, code = ending.signal, ending.code
    meaning = ending_meaning(ending)
    cause, remedy = meaning.get("means", ""), meaning.get("do", "")
    if number == signal.SIGKILL and cause and most_memory(evidence) >= _NEAR:
        cause, remedy = "its memory came near what it had requested (MaxRSS)", _LESS_MEMORY
    kind = meaning.get("kind", "signal" if number else "exit-code")
    diagnosis = Diagnosis(kind, ending.what, cause, remedy, certain=not cause, line=line)

    # A signal says more than how the last run ended, and that says more than an exit code.
    if number and cause:
        return diagnosis
    if silent and evidence.runs is not None and evidence.runs.ended:
        return replace(diagnosis, remedy=_after_last_run(evidence.status.id, evidence.runs))
    if cause:
        return diagnosis
    if silent and evidence.log_full:
        cause = f"{evidence.log_problem}: what it wrote last is lost"
        remedy = "free some space there, or write the log elsewhere with -o"
        return Diagnosis("no-space", ending.what, cause, remedy, certain=False, line=line)
    if line is not None:
        return _not_known(evidence, diagnosis)
    return replace(diagnosis, remedy=_without_log(evidence, code)) if code else diagnosis


def _after_last_run(id: JobId, runs: Runs) -> str:
    last = runs.runs[-1]
    if last.how == NOT_SAVED:
        return (
            "the program ended at the signal and did not save: see 'What your program does' in "
            "'neuronctl help go-on-until-done'"
        )
    if last.cause == LAST:
        return f"'neuronctl resubmit {_again(id)}' goes on from its last save, if it made one"
    return f"read what its last run wrote: 'neuronctl logs --run {last.number} {id}'"


def _without_log(evidence: JobEvidence, code: int) -> str:
    where = "its log is empty"
    if evidence.unread and not evidence.logs:
        unread = evidence.unread[0]
        where = f"its log {unread.path} cannot be read: {unread.problem}"
        if evidence.log_guessed:
            where = "where its log is, is not recorded"
    if code == 1:  # means nothing in particular
        return f"{where}, and nothing else says why: run it again, and read what it writes"
    return f"{where}, so look up what exit code {code} means in the program that had it"


def _from_log(evidence: JobEvidence, what: str, sign: Sign) -> Diagnosis:
    """Return the diagnosis for a line of the log."""
    where = add_node(evidence, sign.where)
    if not where and sign.consequence:
        where = first_task(evidence)
    diagnosis = Diagnosis(
        sign.kind,
        what,
        sign.cause,
        sign.remedy,
        certain=False,
        line=sign.log_line,
        where=where,
        entry=sign.entry.name,
    )
    return diagnosis if diagnosis.entry else _not_known(evidence, diagnosis)


def _not_known(evidence: JobEvidence, result: Diagnosis) -> Diagnosis:
    """Say that the cause is unknown, and show the lines around the most relevant one."""
    status = evidence.status
    of_err = result.line is not None and result.line.path == status.stderr != status.stdout
    logs = f"neuronctl logs {status.id}{' --err' if of_err else ''}"
    remedy = f"the cause is unknown: read what it wrote with '{logs}'"
    if result.cause:
        remedy = f"'{logs}' shows what came before"
    if result.cause and result.where:
        remedy = f"see what that line of the program expects; {remedy}"
    where = result.where or first_task(evidence)
    return replace(result, remedy=remedy, where=where, around=lines_around(evidence, result.line))
