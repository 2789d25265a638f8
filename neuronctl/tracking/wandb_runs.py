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
"""Bytes at either end of a log; W&B prints where a run is when it begins and when it ends."""

_URL = re.compile(r"https?://[\w.:-]+/[\w./%-]+/runs/[\w-]+")
_OFFLINE = re.compile(r"(/[^\n\x1b]*/offline-run-\d{8}_\d{6}-[\w-]+)")


def wandb_url(status: JobStatus) -> str:
    """Return the address of a job's run, which a record or the log says; "" if none is known.

    Only of a job whose script names a run: other logs are not read for it.
    """
    if status.record is None or "WANDB_RUN_ID" not in status.record.rest.get("script", ""):
        return ""
    urls = [url for text in _log_texts(status.stdout, status.stderr) for url in _URL.findall(text)]
    return urls[-1] if urls else ""


def offline_runs(status: JobStatus) -> Tuple[str, ...]:
    """Return the folders of a job's offline runs that are not uploaded yet, oldest first."""
    logs = status.stdout, status.stderr
    if status.record is None and status.id.task is None:  # do not ask Slurm for each task
        logs = log_paths(status)[:2]
    named = [path for text in _log_texts(*logs) for path in _OFFLINE.findall(text)]
    folders = {*map(os.path.realpath, named), *_offline_folders(status)}
    synced = {path for path in folders if glob.glob(f"{glob.escape(path)}/*.synced")}
    waiting = (path for path in folders - synced if os.path.isdir(path))
    return tuple(sorted(waiting, key=os.path.basename))


def _log_texts(*logs: Optional[str]) -> List[str]:
    parts = (read(log, _MOST) for log in dict.fromkeys(logs) if log for read in (head, tail))
    return [part.decode("utf-8", "replace") for part in parts]


def _offline_folders(status: JobStatus) -> List[str]:
    """Return the folders of the offline runs with a job's own ids in its directory."""
    first = status.record and status.record.rest.get("first_job")
    number = str(first or status.id.job) + ("" if status.id.task is None else f"_{status.id.task}")
    directory = status.work_dir if status.record is None else status.record.cwd
    place = os.path.join(glob.escape(directory), "wandb")
    names = glob.glob(f"{place}/offline-run-*-nc-*-{number}*") if directory else []
    return [name for name in names if re.search(rf"-{number}(-\d+)*\Z", name)]
