"""What differs between two recorded jobs: plans, scripts, and what they ran with."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence

from neuronctl.common.console import Column, print_diff, print_json, print_line, print_table
from neuronctl.records import recorded
from neuronctl.records.environment import changed_environment, environment_of
from neuronctl.records.store import JobRecord

_MOST = 40
"""Differences of the environments that are shown."""


def show_differences(first: JobRecord, second: JobRecord, *, as_json: bool) -> None:
    """Print how two jobs differ."""
    from neuronctl.submission.resubmission import changed_plan

    names = f"job {first.job_id}", f"job {second.job_id}"
    values = changed_plan(first, second)
    lines = recorded.text_diff(first.draft.script, second.draft.script, *names)
    ran_with = changed_environment(environment_of(first), environment_of(second))
    if as_json:
        changes = {"plan": _data(values), "script": lines, "environment": _data(ran_with)}
        print_json("neuronctl.diff/1", {"first": names[0], "second": names[1], **changes})
        return
    if values:
        print_table(_columns("VALUE", names), values)
    if lines:
        if values:
            print_line()
        print_diff(lines)
    if ran_with:
        print_line(
            "" if values or lines else f"{' and '.join(names)} have the same plan and script"
        )
        print_table(_columns("RAN WITH", names), ran_with[:_MOST])
        if len(ran_with) > _MOST:
            print_line(f"and {len(ran_with) - _MOST} more; --json has them all")
    if not (values or lines or ran_with):
        print_line(f"{' and '.join(names)} do not differ")


def _columns(title: str, names: Sequence[str]) -> List[Column]:
    return [Column(title, no_wrap=True), *(Column(name.upper()) for name in names)]


def _data(changes: List[recorded.Change]) -> List[Dict[str, Optional[str]]]:
    return [{"name": name, "first": a or None, "second": b or None} for name, a, b in changes]
