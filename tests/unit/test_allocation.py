"""The allocation a process stands in, from Slurm's variables."""

from __future__ import annotations

from typing import Dict, Optional

import pytest

from neuronctl.common.errors import UsageError
from neuronctl.slurm.allocation import from_environment

JOB = {
    "SLURM_JOB_ID": "154173",
    "SLURM_JOB_NODELIST": "gpu[32-33]",
    "SLURM_JOB_PARTITION": "amd_a100nv_8",
    "SLURM_JOB_CPUS_PER_NODE": "32(x2)",
    "SLURM_GPUS_ON_NODE": "4",
    "SLURM_NTASKS_PER_NODE": "4",
}


def test_all_of_it() -> None:
    has = from_environment(JOB)
    assert (has.job_id, has.nodes, has.partition) == (154173, ("gpu32", "gpu33"), "amd_a100nv_8")
    assert (has.gpus, has.cores, has.ntasks_per_node) == (4, 32, 4)


def test_the_smallest_node_counts() -> None:
    assert from_environment({**JOB, "SLURM_JOB_CPUS_PER_NODE": "16(x2),8"}).cores == 8


@pytest.mark.parametrize(
    ("variables", "gpus"),
    [
        ({"SLURM_GPUS_PER_NODE": "4"}, 4),
        ({"SLURM_GPUS_PER_NODE": "a100:4"}, 4),
        ({"SLURM_GPUS_PER_NODE": "a100:2,h100:1"}, 3),
        ({"SLURM_GPUS": "3", "SLURM_GPUS_ON_NODE": "2"}, None),
        ({"SLURM_GPUS": "3", "SLURM_GPUS_ON_NODE": "3", "SLURM_JOB_NUM_NODES": "1"}, 3),
        ({}, None),
    ],
)
def test_gpus_where_slurm_does_not_count_them(
    variables: Dict[str, str], gpus: Optional[int]
) -> None:
    rest = {name: value for name, value in JOB.items() if name != "SLURM_GPUS_ON_NODE"}
    assert from_environment({**rest, **variables}).gpus == gpus


def test_what_slurm_does_not_say_is_none() -> None:
    rest = {key: value for key, value in JOB.items() if key != "SLURM_NTASKS_PER_NODE"}
    assert from_environment(rest).ntasks_per_node is None


@pytest.mark.parametrize("name", ["SLURM_JOB_ID", "SLURM_JOB_NODELIST"])
def test_no_allocation_or_one_that_cannot_be_read(name: str) -> None:
    with pytest.raises(UsageError, match="not inside an allocation"):
        from_environment({key: value for key, value in JOB.items() if key != name})
    with pytest.raises(UsageError, match="cannot read the allocation"):
        from_environment({**JOB, name: "gpu[1-"})
