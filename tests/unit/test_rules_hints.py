"""A hint is typed as it stands: what it says has to be accepted."""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import Any, Dict, List

import pytest
from plan_builders import cluster, findings, policy

from neuronctl.catalog.model import CorePolicy
from neuronctl.common.errors import UsageError
from neuronctl.rules import Finding

SIZES = ("NC111", "NC112", "NC121", "NC124", "NC131", "NC132", "NC133")
CAPPED = cluster(policy(cores=CorePolicy("cap")))
OPTIONS = {
    "-N": "nodes",
    "-G": "gpus",
    "-c": "cpus_per_task",
    "--gpus-per-node": "gpus_per_node",
    "--ntasks-per-node": "ntasks_per_node",
}
OTHER_FORM = {"gpus_per_node": "gpus", "gpus": "gpus_per_node", "ntasks_per_node": "ntasks"}


def typed(request: Dict[str, Any], hint: str) -> Dict[str, Any]:
    """The request with the options of the hint's first proposal in place of its own."""
    first = re.split(r", or |; ", hint)[0]
    said = re.findall(r"(?<!\S)(-[NGc]|--[a-z-]+) (\d+)", first)
    fewer = re.search(r"(\d+) tasks? with (\d+) cores? fit", first)
    said += [("--ntasks-per-node", fewer.group(1)), ("-c", fewer.group(2))] if fewer else []
    assert said, hint
    changed = dict(request)
    for option, value in said:
        changed.pop(OTHER_FORM.get(OPTIONS[option], ""), None)
        changed[OPTIONS[option]] = int(value)
    return changed


def sizes(request: Dict[str, Any]) -> List[Finding]:
    return [one for one in findings(CAPPED, **request) if one.code in SIZES]


def asked(partition: str, **values: Any) -> Dict[str, Any]:
    return {"partition": partition, **{key: one for key, one in values.items() if one is not None}}


GPUS = [
    asked(partition, nodes=nodes, gpus=total, gpus_per_node=each)
    for partition, nodes in itertools.product(("gpu", "old"), (None, 1, 2, 3))
    for total, each in [(one, None) for one in (3, 7, 9, 11, 17, 24, 25, 33, 100)]
    + [(None, one) for one in (3, 5, 8, 9, 16, 64)]
]
TASKS = [
    asked(partition, ntasks=tasks, cpus_per_task=cores, gpus=gpus, gpus_per_node=each)
    for partition, gpus, each in (
        ("gpu", None, 8),
        ("gpu", 8, None),
        ("gpu", None, 1),
        ("old", None, 4),
        ("cpu", None, None),
    )
    for tasks, cores in itertools.product((1, 7, 40, 41, 65, 96, 192, 500), (None, 2, 9, 48, 70))
]


@pytest.mark.parametrize("request_", GPUS + TASKS, ids=str)
def test_what_is_said_is_accepted(request_: Dict[str, Any]) -> None:
    for _ in range(3):
        try:
            found = sizes(request_)
        except UsageError as error:
            request_ = typed(request_, error.hint)
            continue
        if len({one.code for one in found}) != 1:
            return  # more than one thing is to be changed
        better = typed(request_, found[0].hint)
        try:
            left = sizes(better)
        except UsageError:  # -N and -G no longer go together: the next round says how they do
            request_ = better
            continue
        assert [one.message for one in left] == [], (found[0].message, found[0].hint)
        return
    assert sizes(request_) == []


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (asked("gpu", gpus=9), "request -N 3 -G 9"),
        (asked("gpu", gpus=11), "request -N 2 -G 12 (12 GPUs)"),
        (asked("gpu", gpus_per_node=16), "request -N 2 --gpus-per-node 8"),
        (asked("gpu", gpus_per_node=100), "request at most -N 3 --gpus-per-node 8 (24 GPUs)"),
        (asked("gpu", nodes=3, gpus_per_node=9), "request at most --gpus-per-node 8 (24 GPUs)"),
        (asked("cpu", ntasks=60, cpus_per_task=50), "1 task with 48 cores fits there"),
        (asked("cpu", ntasks=49), "request fewer tasks: 48 tasks with 1 core fit"),
        (asked("gpu", ntasks=500, gpus_per_node=8), "at most -N 3 --ntasks-per-node 64 (192 tasks"),
        (asked("gpu", ntasks=97, gpus_per_node=8), "spread them: -N 2 --ntasks-per-node 49 (98"),
        (asked("gpu", ntasks=96, gpus_per_node=8), "spread them: -N 2 --ntasks-per-node 48"),
        (asked("gpu", ntasks=96, gpus=8), "request fewer tasks: 64 tasks with 1 core fit there"),
        (asked("dim", nodes=10**9, gpus_per_node=10**9), "request -N 125000000000000000 --gpus"),
        (asked("cpu", ntasks=10**15), "request fewer tasks: 48 tasks"),
        (asked("gpu", nodes=4, gpus_per_node=8), "request at most 24 GPUs in all: -N 3 --gpus"),
    ],
    ids=str,
)
def test_figures(request_: Dict[str, Any], words: str) -> None:
    assert words in "\n".join(one.hint for one in sizes(request_))


def test_a_qos_of_a_partitions_own_is_not_proposed() -> None:
    from slurm_answers import LIMITS, judged, live

    unknown = dataclasses.replace(LIMITS, associations=())
    for limits in (LIMITS, unknown):
        (found,) = (
            one for one in judged(live(limits=limits), qos="x").findings if one.code == "NC521"
        )
        assert found.hint == "leave -q out, or use -q normal"


def test_what_is_mandatory_is_not_to_be_left_out() -> None:
    """The hints name what Slurm says that the user may use."""
    from slurm_answers import LIMITS, MINE, judged, live

    lab, course = MINE, dataclasses.replace(MINE, account="course", qos=("normal", "high"))
    both = live(limits=dataclasses.replace(LIMITS, associations=(lab, course)))
    strict = policy(account_required=True, qos_required=True)

    def hints(**request: Any) -> Dict[str, str]:
        return {one.code: one.hint for one in judged(both, site=strict, **request).findings}

    assert hints()["NC231"].startswith("add -A lab or -A course; or set 'account: ACCOUNT' once in")
    assert hints(account="course")["NC232"].startswith("add -q normal or -q high; or set 'qos: ")
    assert hints(account="x")["NC522"] == "use -A lab or -A course"
    assert hints(account="lab", qos="x")["NC521"] == "use -q normal"
    denied = dataclasses.replace(LIMITS.partitions[0], deny_qos=("normal",))
    none = dataclasses.replace(LIMITS, partitions=(denied, *LIMITS.partitions[1:]))
    assessed = judged(live(limits=none), site=strict, account="lab", qos="x")
    assert "use another partition" in [one.hint for one in assessed.findings]
