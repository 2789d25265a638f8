"""Why a job waits or how it ended: evidence in, a cause and a remedy out. Pure.

What Slurm says is a fact; what is read from an exit code or a line of the log is only likely, and
``certain`` tells the two apart.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, Tuple

from neuronctl.diagnosis.evidence import (
    Diagnosis,
    Evidence,
    began,
    found_line,
    last_line,
    line_with,
    says_signal,
    search,
)
from neuronctl.diagnosis.waiting import running, waiting
from neuronctl.slurm.job_id import JobId
from neuronctl.tracking import endings
from neuronctl.tracking import job_status as jobstatus
from neuronctl.words import duration


def diagnose(evidence: Evidence) -> Diagnosis:
    """The cause of what became of a job."""
    found = _diagnose(evidence)
    return replace(found, remedy=found.remedy.replace("{memory}", evidence.more_memory))


def _diagnose(evidence: Evidence) -> Diagnosis:
    status = evidence.status
    if status.state == jobstatus.UNKNOWN:
        return Diagnosis(
            "unknown",
            f"nobody can say how it ended: {status.reason}",
            remedy="its log may tell, if there is one; where accounting is off, 'neuronctl logs "
            "-f' while a job runs keeps its end",
            line=found_line(evidence, search(evidence)) or last_line(evidence),
        )
    if not status.ended:
        return waiting(evidence) if status.state == "PENDING" else running(evidence)
    if status.state == "COMPLETED":
        return _completed(evidence)
    if endings.is_launch_failure(status):
        return _launch_failure(evidence)
    if status.state in _BY_STATE:
        return _by_state(evidence)
    return _failed(evidence)


# state -> (kind, what, remedy); {limit}, {nodes}, {by} and {memory} are filled in.
_BY_STATE: Dict[str, Tuple[str, str, str]] = {
    "TIMEOUT": (
        "time-limit",
        "Slurm ended it at its time limit{limit}",
        "ask for more with -t ('neuronctl partitions' shows the most that a partition gives), or "
        "save checkpoints: --signal B:USR1@120 --setup \"trap 'touch save-now' USR1\" makes a file "
        "two minutes before, for the program to look for",
    ),
    "DEADLINE": (
        "deadline",
        "Slurm ended it because its --deadline had passed",
        "give a later deadline, or none",
    ),
    "OUT_OF_MEMORY": (
        "out-of-memory",
        "a process was killed because the memory that the job had on a node was full",
        "{memory}, or need less: fewer DataLoader workers, fewer processes a node, smaller caches",
    ),
    "NODE_FAIL": (
        "node-failure",
        "Slurm lost contact with a node of it{nodes}",
        "this is not the program's fault: submit it again ('neuronctl resubmit {id}'); with "
        "--requeue Slurm does so by itself",
    ),
    "BOOT_FAIL": (
        "node-failure",
        "a node did not boot for it{nodes}",
        "submit it again, and tell the site's support if it happens twice",
    ),
    "LAUNCH_FAILED": (
        "launch-failure",
        "Slurm could not start it on its nodes{nodes}",
        "submit it again, and tell the site's support if it happens twice",
    ),
    "RECONFIG_FAIL": (
        "launch-failure",
        "a node could not be set up for it{nodes}",
        "submit it again, and tell the site's support if it happens twice",
    ),
    "PREEMPTED": (
        "preempted",
        "it had to make room for a job of higher priority",
        "submit it again; with --requeue Slurm does so by itself, and checkpoints keep the work",
    ),
    "REVOKED": (
        "revoked",
        "another cluster of the federation runs it",
        "ask there",
    ),
    "CANCELLED": ("cancelled", "it was cancelled{by}", ""),
}


def _by_state(evidence: Evidence) -> Diagnosis:
    status = evidence.status
    kind, what, remedy = _BY_STATE[status.state]
    limit = f" of {duration(status.time_limit)}" if status.time_limit is not None else ""
    nodes = f" ({status.node_list})" if status.node_list else ""
    by = f" by {evidence.canceller}" if evidence.canceller else ""
    if not by and status.cancelled_by is not None:
        by = f" by the user with uid {status.cancelled_by}"
    if status.state == "CANCELLED":
        by += f" after {duration(status.elapsed)}" if began(status) else " before it started"
        if status.reason.startswith("DependencyNeverSatisfied"):
            kind, by = "dependency", f"{by}: the job it depends on did not end as asked for"
            remedy = "mend and submit that job first, then 'neuronctl resubmit {id}'"
        elif status.cancelled_by == 0 and evidence.canceller != "you":
            remedy = "root is an administrator, or Slurm itself: ask the site's support why"
        elif evidence.canceller and evidence.canceller != "you":
            remedy = f"ask {evidence.canceller} why"
    what = what.format(limit=limit, nodes=nodes, by=by)
    line = None
    if began(status):
        slurms = {"OUT_OF_MEMORY": "oom", "TIMEOUT": "time limit", "NODE_FAIL": "node failure"}
        word = slurms.get(status.state)
        line = (word and line_with(evidence, word)) or last_line(evidence)
    return Diagnosis(kind, what, remedy=remedy.replace("{id}", _again(status.id)), line=line)


def _again(id: JobId) -> str:
    """What ``neuronctl resubmit`` takes for the job, or for the tasks of an array alone."""
    tasks = id.tasks if id.task is None else str(id.task)
    return str(id.job) if tasks is None else f"{id.job} --array {tasks}"


def _completed(evidence: Evidence) -> Diagnosis:
    status = evidence.status
    what = f"it ended well, with exit code 0, after {duration(status.elapsed)}"
    found = search(evidence)
    if found is not None and found[1].kind == "exception":
        return Diagnosis(
            "completed",
            what,
            "the script went on after a Python exception and ended with exit code 0 all the same",
            "'set -e' in a script ends it at the first error",
            certain=False,
            line=found_line(evidence, found),
        )
    return Diagnosis("completed", what)


def _launch_failure(evidence: Evidence) -> Diagnosis:
    status = evidence.status
    path = status.stdout or ""
    what = "it ended before its first line ran: Slurm gave it exit code 0:53"
    if evidence.directory_problem:
        cause = f"its log could not be opened: {evidence.directory_problem}"
    elif path and not evidence.log_guessed:
        cause = f"its log {path} could not be opened on the node"
    else:
        cause = "its log could not be opened: the directory was missing, or not writable for you"
    remedy = (
        "make the log's directory before you submit, on a file system that the nodes see, and "
        "name it without shell variables (#SBATCH lines do not expand them)"
    )
    return Diagnosis("log-directory", what, cause, remedy, certain=False)


# signal -> what it usually means, what to do
_SIGNALS: Dict[int, Tuple[str, str]] = {
    2: ("it was interrupted as by Ctrl-C", ""),
    4: (
        "the program was built for another processor than this node's",
        "build it on a node of that partition",
    ),
    6: ("the program gave up by itself (abort), as libraries do after a fatal error", ""),
    7: (
        "a file or shared memory that it had mapped went away or was full (/dev/shm)",
        "fewer DataLoader workers; look at 'df -h /dev/shm' on the node",
    ),
    8: ("it divided by zero, in whole numbers", ""),
    9: (
        "it was killed from outside, most often because the node's memory was full",
        "{memory}",
    ),
    10: (
        "it was sent SIGUSR1 (--signal, or cancel --signal) and does not handle it",
        "handle the signal in the program; or --signal B:USR1@120 --setup \"trap 'touch save-now' "
        'USR1" makes a file, for the program to look for',
    ),
    11: (
        "the program or a library of it has a defect, or was built for other libraries",
        "'--env PYTHONFAULTHANDLER=1' shows where Python was",
    ),
    12: (
        "it was sent SIGUSR2 (--signal, or cancel --signal) and does not handle it",
        "handle the signal in the program; or --signal B:USR2@120 --setup \"trap 'touch save-now' "
        'USR2" makes a file, for the program to look for',
    ),
    13: ("whatever read its output had gone", ""),
    15: ("it was asked to end (SIGTERM), by Slurm, by its launcher or by somebody", ""),
    24: ("it used more CPU time than a limit (ulimit -t) allows", ""),
    25: ("a file grew over a limit (ulimit -f)", ""),
}

# exit code of a shell, env or timeout -> kind, cause, remedy
_CODES: Dict[int, Tuple[str, str, str]] = {
    2: ("usage", "the program did not understand its arguments", "look at its last lines"),
    124: ("time-limit", "a 'timeout' in the script ended the program", "give it more time"),
    126: ("permission", "the program is there and cannot be run", "chmod +x, and look at '#!'"),
    127: (
        "command-not-found",
        "a program was not found on the node",
        "load its module with --module or name its environment with --conda or --venv",
    ),
}


def _failed(evidence: Evidence) -> Diagnosis:
    """FAILED, and states that this table does not know."""
    status = evidence.status
    exit = status.exit
    number = 0
    if exit is None:
        what = "it failed, and nobody knows its exit code"
    elif exit.signal and not exit.code:
        number = exit.signal
        what = f"it was ended by {endings.signal_name(number)}"
    else:
        what = f"it ended with exit code {exit.code}"
        if 128 < exit.code <= 192:
            number = exit.code - 128
            what += f": a program in it was ended by {endings.signal_name(number)}"
        elif status.exit_low and says_signal(evidence, exit.code):
            # sacct of 22.05 prints 139 as 11; the shell's own word for the signal decides.
            number = exit.code
            what += (
                f", which accounting may have made of {128 + number}: a program in it was ended "
                f"by {endings.signal_name(number)}"
            )
    if status.state != "FAILED":
        what = f"it is {status.state}: {what}"
    found = search(evidence)
    line = found_line(evidence, found)
    # What a log says in so many words goes before what a number usually means, unless all the
    # log has is that another process died.
    if found is not None and not (number and found[1].kind in ("child", "peer")):
        return Diagnosis(
            found[1].kind, what, found[1].cause, found[1].remedy, certain=False, line=line
        )
    line = line or last_line(evidence)
    if number:
        cause, remedy = _SIGNALS.get(number, ("", ""))
        return Diagnosis("signal", what, cause, remedy, certain=not cause, line=line)
    code = 0 if exit is None else exit.code
    kind, cause, remedy = _CODES.get(code, ("exit-code", "", ""))
    if not cause and line is not None:
        err = " --err" if line.path == status.stderr != status.stdout else ""
        remedy = (
            "nothing in the end of its log is well known here: read it with "
            f"'neuronctl logs {status.id}{err}'"
        )
    return Diagnosis(kind, what, cause, remedy, certain=not cause, line=line)
