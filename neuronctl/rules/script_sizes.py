"""NC611 and NC612: how many tasks, and how much time and memory."""

from __future__ import annotations

import re
from typing import Iterator

from neuronctl.common import units
from neuronctl.common.rule_codes import WARNING
from neuronctl.common.words import counted, duration
from neuronctl.rules.base import Finding
from neuronctl.rules.script_base import ScriptFacts, script_rule
from neuronctl.scripts.model import digits


@script_rule(WARNING, "NC611", "tasks that contradict nodes")
def tasks_and_nodes(facts: ScriptFacts) -> Iterator[Finding]:
    given = facts.given("ntasks")
    count, nodes, each = (
        digits(facts.header.value(name)) for name in ("ntasks", "nodes", "ntasks-per-node")
    )
    if given is None or count is None or facts.plan is None:
        return
    if nodes is not None and count < nodes:
        yield Finding(
            f"{counted(count, 'task')} on {nodes} nodes: sbatch reduces the job to "
            f"{counted(count, 'node')}, with a warning that few people see",
            f"request --nodes={count}, or --ntasks={nodes}",
            place=given.place,
        )
    elif each is not None and count < each * (nodes or 1):
        most = each * (nodes or 1)
        message = f"--ntasks={count} wins over --ntasks-per-node={each}: "
        message += f"{counted(count, 'task')} in all, and not {most}"
        hint = f"remove one of the two, or write --ntasks={most}"
        yield Finding(message, hint, place=given.place)


_AS_HOURS = re.compile(r"0[0-9]+:00|(12|24|36|48|72|96):00")
"""Half a day, a day, or as a clock shows it: few people mean minutes."""


@script_rule(WARNING, "NC612", "time or memory in another unit")
def other_unit(facts: ScriptFacts) -> Iterator[Finding]:
    gpus = facts.plan is not None and facts.plan.gpus_per_node > 0
    for name in ("mem", "mem-per-cpu", "mem-per-gpu"):
        given = facts.given(name)
        count = digits(given.value) if given is not None else None
        cores = facts.plan.cores_per_node if facts.plan and name == "mem-per-cpu" else 1
        least = 1000 if gpus else 65 if name == "mem" else 32
        if given is not None and count and count * cores < least:
            who = "a program that uses a GPU" if gpus else "a program"
            message = f"--{name}={count} is {count} MB: {who} needs more"
            yield Finding(message, f"if GB are meant, write {count}G", place=given.place)
    given = facts.given("time")
    value = given.value or "" if given is not None else ""
    if given is not None and _AS_HOURS.fullmatch(value):
        words = f"--time={value} is minutes and seconds: {duration(units.parse_duration(value))}"
        hint = f"if hours are meant, write {value}:00; if not, 0:{value}"
        yield Finding(words, hint, place=given.place)
    elif given is not None and re.fullmatch("0?0:00:0[1-9]", value):
        yield Finding(
            f"--time={value} is {duration(units.parse_duration(value))}, which Slurm takes for 1 "
            "minute",
            "write 5 for minutes, or 5:00:00 for hours",
            place=given.place,
        )
