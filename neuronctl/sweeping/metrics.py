"""The metric that a log ends with, of a job as of a sweep's task."""

from __future__ import annotations

import re
from typing import Iterable, Optional

from neuronctl.common.errors import UsageError
from neuronctl.common.files import tail
from neuronctl.sweeping.worker.files import TAIL, find_metric

METRIC = r"neuronctl: metric=(\S+)"
"""The pattern of a metric, unless the user names another."""


def last_metric(logs: Iterable[Optional[str]], pattern: str = METRIC) -> str:
    """Return what a pattern finds last in the first log that has it; "" if none has."""
    values = (find_metric(tail(log, TAIL), pattern) for log in dict.fromkeys(logs) if log)
    return next(filter(None, values), "")


def check_metric(pattern: Optional[str]) -> None:
    """Refuse a pattern that is none, or has several groups."""
    try:
        groups = re.compile((pattern or "").encode("utf-8", "surrogateescape")).groups
    except (re.error, RecursionError) as error:
        raise UsageError(f"--metric: '{pattern}' is no regular expression: {error}") from None
    if groups > 1:
        raise UsageError(
            f"--metric: '{pattern}' has {groups} groups: one says where the figure is",
            "write (?:…) for the others",
        )
