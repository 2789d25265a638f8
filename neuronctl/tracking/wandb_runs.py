"""The W&B run of a job, from its log and the folder beside its program."""

from __future__ import annotations

import glob
import os
import re
from typing import List, Optional, Tuple

from neuronctl.common.files import head, tail
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.lookup import log_paths

_MOST = 1 << 18
"""Bytes read at either end of a log: W&B prints a run's address when it begins and ends."""

_URL = re.compile(r"https?://[\w.:-]+/[\w./%-]+/runs/[\w-]+")
_OFFLINE = re.compile(r"(/[^\n\x1b]*/offline-run-\d{8}_\d{6}-[\w-]+)")


def wandb_url(status: JobStatus) -> str:
    """Return the address of a job's run by its log; "" if the log or the script names none."""
    if status.record is None or "WANDB_RUN_ID" not in status.record.rest.get("script", ""):
        return ""
    text = "\n".join(_log_texts(status.stdout, status.stderr))
    urls: List[str] = _URL.findall(text)
    return urls[-1] if urls else ""


def offline_runs(status: JobStatus) -> Tuple[str, ...]:
    """Return the folders of a job's offline runs that are not uploaded yet, oldest first."""
    logs = status.stdout, status.stderr
    if status.record is None and status.id.task is None:  # for tasks, Slurm would be asked often
        logs = log_paths(status)[:2]
    named = _OFFLINE.findall("\n".join(_log_texts(*logs)))
    folders = {*map(os.path.realpath, named), *_offline_folders(status)}
    synced = {path for path in folders if glob.glob(f"{glob.escape(path)}/*.synced")}
    waiting = (path for path in folders - synced if os.path.isdir(path))
    return tuple(sorted(waiting, key=os.path.basename))


def _log_texts(*logs: Optional[str]) -> List[str]:
    """Return the beginning and the end of each log."""
    texts = []
    for log in filter(None, dict.fromkeys(logs)):
        texts += [part.decode("utf-8", "replace") for part in (head(log, _MOST), tail(log, _MOST))]
    return texts


def _offline_folders(status: JobStatus) -> List[str]:
    """Return the folders of the offline runs whose id contains this job's id."""
    first_job = status.record and status.record.rest.get("first_job")
    number = str(first_job or status.id.job)
    if status.id.task is not None:
        number += f"_{status.id.task}"
    directory = status.work_dir if status.record is None else status.record.cwd
    place = os.path.join(glob.escape(directory), "wandb")
    names = glob.glob(f"{place}/offline-run-*-nc-*-{number}*") if directory else []
    return [name for name in names if re.search(rf"-{number}(-\d+)*\Z", name)]
