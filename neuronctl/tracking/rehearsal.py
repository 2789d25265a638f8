"""What a rehearsal (``--rehearse``) has shown: whether a job hears, saves, and resumes."""

from __future__ import annotations

import contextlib
import os
import re
from typing import List, Optional

from neuronctl.common.errors import RecordError
from neuronctl.common.files import open_regular
from neuronctl.common.masking import Masker
from neuronctl.common.words import RUN_ENDED, counted
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.runs import FAILED, Run, Runs

_HEAD = 16 * 1024
"""Bytes of what a run has written that are looked at."""

_ALIKE = 5
"""So many first lines that are the same in both runs show that the second one began anew."""

_CITED = 100
"""Characters of a line that are cited."""

_RESUMES = re.compile(r"(?i)\b(resum|restor|continu|load(ed|ing)\b.*\b(checkpoint|epoch|step))")


def rehearsal_words(status: JobStatus, runs: Runs) -> str:
    """``rehearsed well: …``, or what did not go well; while it goes on, that it is a rehearsal."""
    request = None
    with contextlib.suppress(RecordError):  # as in a table of many jobs
        request = None if status.record is None else status.record.draft.request
    if request is None or not runs.ended or runs.cancelled or not runs.runs:
        return "a rehearsal"
    checkpoint = str(request.get("checkpoint") or "")
    lines = [
        _lines(status, run, following) for run, following in zip(runs.runs, [*runs.runs[1:], None])
    ]
    wrong = _wrong(runs, checkpoint, lines)
    if wrong:
        return f"{FAILED}: {wrong}"
    first = runs.runs[0]
    unheard = _unheard(runs)
    parts = ["the program ended with 75 by itself"]
    if unheard:
        parts = [f"{unheard}, and run 2 resumed {_from(first)}"]
    elif first.asked is not None:
        took = _saving(first)
        parts = [
            f"{first.signal} was heard",
            f"saving took {took} s of the {runs.rehearses} s given",
        ]
    shown = [f"{checkpoint} changed in both runs"] if checkpoint else []
    told = _resumed(lines)
    line = Masker().text(told).strip()
    line = f"{line[:_CITED]}…" if len(line) > _CITED else line
    shown += [f"run 2 wrote '{line}'"] if told else []
    if request.get("resume_with"):
        parts.append(f"run 2 got {request['resume_with']}")
    alike = not told and _alike(lines)
    if alike:
        parts.append(f"not known whether run 2 resumed: {alike}")
    parts.append(
        " and ".join(shown)
        or "nothing shows whether run 2 resumed: name what it saves with --checkpoint"
    )
    return f"rehearsed well: {', '.join(parts)}"


def _wrong(runs: Runs, checkpoint: str, lines: List[List[str]]) -> str:
    """What did not go well, or ""."""
    for run in runs.runs:
        if run.cause == "finished" and run.number == 1 and run.asked is not None:
            return (
                f"the program ended with 0 after {run.signal}, as if all were done; after saving, "
                "end it with 75"
            )
        if run.cause == "finished" and run.number == 1:
            return (
                "the program ended with 0 before it was asked to save; give it more to do, or "
                "rehearse it with a shorter --time"
            )
        if run.cause == "failed" and run.number == 1:
            return f"the program failed in run 1, exit code {run.code}, before it was asked to save"
        if run.cause == "failed":
            return f"run 2 did not resume: it ended with exit code {run.code}"
        if run.cause == "limit" and not (checkpoint and run.moved):
            had = f" within {_saving(run)} s" if run.asked is not None else ""
            also = f"; {checkpoint} did not change" if checkpoint else _UNNAMED
            return (
                f"run {run.number} did not hear {run.signal or 'the signal'}, or did not save{had}"
                f"{also}"
            )
        if run.cause not in ("saved", "finished", "limit"):
            how = RUN_ENDED.get(run.cause, run.cause)
            return f"run {run.number} was cut off ({how}): rehearse again"
        if checkpoint and not run.moved:
            return f"{checkpoint} did not change in run {run.number}"
    first = runs.runs[0]
    if len(runs.runs) < 2:
        return f"there was no run 2: {runs.over}"
    unheard = _unheard(runs)
    took = 0 if unheard else _saving(first)
    if first.asked is not None and runs.rehearses is not None and took > runs.rehearses:
        least = f"--signal {first.signal}@{2 * took}"
        return f"saving took {took} s, and the job itself has {runs.rehearses} s: use {least}"
    begun, again = (part[:_ALIKE] for part in lines[:2])
    if len(begun) == _ALIKE and begun == again:
        return f"run 2 wrote the same first {_ALIKE} lines as run 1: it seems to have begun anew"
    if unheard and not _resumed(lines) and again[: len(begun)] == begun[: len(again)]:
        return f"{unheard}, and nothing that run 2 wrote shows that it resumed {_from(first)}"
    return ""


def _alike(lines: List[List[str]]) -> str:
    """That all that run 2 wrote, which is little, run 1 had written; "" otherwise."""
    begun, again = lines[:2]
    if not again or len(again) >= _ALIKE or begun[: len(again)] != again:
        return ""
    return f"what it wrote, {counted(len(again), 'line')}, is what run 1 began with"


_UNNAMED = "; if it saves by itself, name what it saves with --checkpoint"


def _unheard(runs: Runs) -> str:
    """That a run saved by itself alone, and not when it was asked to; "" if none did."""
    for run in runs.runs:
        if run.cause == "limit":
            return f"run {run.number} did not end at {run.signal or 'the signal'}"
        if run.asked is not None and run.kept is not None and run.kept < run.asked - _SKEW:
            return f"run {run.number} saved nothing after {run.signal}"
    return ""


_SKEW = 5
"""Seconds by which the clock of a file system may be behind that of the node."""


def _from(first: Run) -> str:
    """What run 2 had to begin with, if run 1 saved by itself."""
    if first.kept is None or first.seconds is None:
        return "from what run 1 had saved by itself"
    age = max(0, first.begin + first.seconds - first.kept)
    return f"from what run 1 had saved {age} s before its end"


def _resumed(lines: List[List[str]]) -> str:
    """What run 2 wrote about resuming; "" for nothing."""
    return next((line for line in lines[1] if _RESUMES.search(line)), "")


def _saving(run: Run) -> int:
    return max(0, run.begin + (run.seconds or 0) - (run.asked or run.begin))


def _lines(status: JobStatus, run: Run, following: Optional[Run]) -> List[str]:
    """The first lines that the program wrote in a run."""
    found: List[str] = []
    for number, path in enumerate(dict.fromkeys((status.stdout, status.stderr))):
        begin = run.log_sizes[number]
        end = begin + _HEAD if following is None else following.log_sizes[number]
        with contextlib.suppress(OSError, ValueError), open_regular(path or os.devnull) as file:
            file.seek(begin)
            text = file.read(max(0, min(_HEAD, end - begin))).decode("utf-8", "replace")
            found += [line for line in text.splitlines() if not _OURS.match(line)]
    return list(filter(str.strip, found))


_OURS = re.compile(r"run \d+(:| of | ended )|preflight: |no other run follows")
