"""What differs between two recorded jobs: plans and scripts."""

from __future__ import annotations

import difflib
from typing import Dict, List, Optional, Sequence

from neuronctl.common.console import Column, print_diff, print_json, print_line, print_table
from neuronctl.records import recorded
from neuronctl.records.store import JobRecord


def show_differences(first: JobRecord, second: JobRecord, *, as_json: bool) -> None:
    """Print how two jobs differ."""
    from neuronctl.submission.resubmission import changed_plan

    names = f"job {first.job_id}", f"job {second.job_id}"
    values = changed_plan(first, second)
    before, after = (record.draft.script.splitlines() for record in (first, second))
    lines = list(difflib.unified_diff(before, after, *names, lineterm=""))
    if as_json:
        changes = {"plan": _data(values), "script": lines}
        print_json("neuronctl.diff/1", {"first": names[0], "second": names[1], **changes})
        return
    if values:
        print_table(_columns("VALUE", names), values)
    if lines:
        if values:
            print_line()
        print_diff(lines)
    if not (values or lines):
        print_line(f"{' and '.join(names)} do not differ")


def _columns(title: str, names: Sequence[str]) -> List[Column]:
    return [Column(title, no_wrap=True), *(Column(name.upper()) for name in names)]


def _data(changes: List[recorded.Change]) -> List[Dict[str, Optional[str]]]:
    return [{"name": name, "first": a or None, "second": b or None} for name, a, b in changes]
