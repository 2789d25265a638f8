"""NC344: jobs that go on until they are done."""

from __future__ import annotations

from typing import Iterator

from neuronctl.common import units
from neuronctl.common.rule_codes import ERROR
from neuronctl.planning.model import SAVE, has_trap
from neuronctl.request.job import BY_NAME, UNTIL_DONE
from neuronctl.rules.base import Finding, RuleContext, job_rule


@job_rule(ERROR, "NC344", "a job that cannot go on until it is done")
def until_done(context: RuleContext) -> Iterator[Finding]:
    plan, request = context.plan, context.plan.request
    if not request.until_done:
        given = [name for name in UNTIL_DONE if getattr(request, BY_NAME[name].field) is not None]
        if given and not plan.interactive:
            words = f"--{given[0]} is for a job with several runs; this job has one"
            yield Finding(words, "add --until-done, or leave it out")
        return
    if plan.until_done is None:
        return
    if request.requeue is False and request.array:
        words = "--no-requeue forbids what an array needs to go on: its tasks requeue themselves"
        yield Finding(words, "leave --no-requeue out, or submit a job for each task")
    lines = "\n".join(request.setup)
    if any(has_trap(lines, name) for name in ("TERM", "EXIT", SAVE)):
        yield Finding(
            f"a --setup line sets a trap for TERM, EXIT, or {SAVE}: with --until-done, the batch "
            "shell needs its own",
            "move the trap into the program, or into the shell text of --body",
        )
    if request.resume_with and request.script is None:
        yield Finding(
            "--resume-with has no program to which its words could be added",
            "let the shell text look for the checkpoint itself",
        )
    before, limit, signal = plan.until_done.before_end, plan.time_limit, plan.signal
    problem, longer = "", ""
    if signal is not None and signal.name in units.NEVER_HANDLED:
        problem = f"the program is to save at {signal.name}, which no program can handle"
    elif before <= 0:
        problem = "the program is to save 0 s before the end, which leaves no time to save"
    elif limit is not None and 0 <= limit <= before:
        problem = f"the program is to save {before} s before the end, and a run has {limit} s"
        longer = ", or a longer --time"
    if problem:
        seconds = 300 if limit is None or limit < 0 else max(1, min(300, limit // 4))
        yield Finding(problem, f"use --signal TERM@{seconds}{longer}")
