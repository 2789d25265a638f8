"""units.py against Slurm itself: what it expands, counts and names is what Slurm does."""

from __future__ import annotations

import random
from typing import Dict, List

from harness import COMMENT, Sandbox

from neuronctl.common import units

SBATCH = f"sbatch --parsable -p amd_a100nv_8 --gres=gpu:1 '{COMMENT}'"


def host_lists(seed: int, count: int) -> List[str]:
    """Random lists with several brackets, leading zeros and overlapping ranges."""
    chosen = random.Random(seed)

    def numbers() -> str:
        low, width = chosen.randint(0, 12), chosen.choice([1, 2, 3])
        high = low + chosen.randint(0, 4)
        return chosen.choice([f"{low:0{width}}-{high:0{width}}", f"{chosen.randint(0, 99)}"])

    def name() -> str:
        brackets = [
            f"[{','.join(numbers() for _ in range(chosen.randint(1, 3)))}]"
            for _ in range(chosen.randint(0, 2))
        ]
        return chosen.choice(["gpu", "n", "c-x"]) + chosen.choice(["", "x"]).join(brackets)

    return [",".join(name() for _ in range(chosen.randint(1, 3))) for _ in range(count)]


def test_host_lists_expand_as_slurm_expands_them(sandbox: Sandbox) -> None:
    lists = [*host_lists(1, 100), "gpu[01-03,07],cpu1", "n[001-2]", "n[9-010]", "[1-2]", "gpu45"]
    script = 'while read -r line; do scontrol show hostnames "$line" | paste -sd" "; done'
    answers = sandbox.exec(["bash", "-c", script], input="\n".join(lists) + "\n").stdout
    assert [units.expand_hostlist(text) for text in lists] == [
        line.split() for line in answers.splitlines()
    ]


def test_what_is_folded_unfolds_in_slurm(sandbox: Sandbox) -> None:
    groups = [units.expand_hostlist(text) for text in host_lists(2, 60)]
    folded = "\n".join(units.compress_hostlist(names) for names in groups)
    script = 'while read -r line; do scontrol show hostnames "$line" | paste -sd" "; done'
    answers = sandbox.exec(["bash", "-c", script], input=folded + "\n").stdout.splitlines()
    assert [sorted(line.split()) for line in answers] == [sorted(set(names)) for names in groups]


TIMES = ["10", "05:00", "0:90", "90:00", "08:00:00", "00:90:00", "24:00:00", "1-0", "1-12",
         "1-12:30", "1-23:59:59", "0-1", "2-00:00:00", "1-"]  # fmt: skip


def test_times_are_what_slurm_makes_of_them(sandbox: Sandbox, no_jobs: None) -> None:
    script = f'for t in "$@"; do id=$({SBATCH} -H -t "$t" --wrap true) || exit 1;' + (
        "squeue -h -j $id -o %l; scancel $id; done"
    )
    limits = sandbox.exec(["bash", "-c", script, "bash", *TIMES]).stdout.split()
    # squeue leaves out leading zeros and Slurm rounds up to minutes.
    rounded = [-(-units.parse_time(text) // 60) * 60 for text in TIMES]
    assert [units.parse_duration(limit) for limit in limits] == rounded


PATTERNS = ["%x_%j.log", "%A_%a.out", "%8j-%4a", "%99j", "100%%-%j", "%%j-%j", "%u.%N.%n.%t.%j",
            "%q-%j", "%J", "%s-%j", "%5x-%j", "end-%j-%", "a\\%j", "b\\\\%j"]  # fmt: skip
NEWER = {"end-%j-%": "end-%j-", "b\\\\%j": "b%%j"}
"""What newer versions of Slurm make of the same: no % at the end, no backslash at all."""


def test_log_files_are_named_as_slurm_names_them(sandbox: Sandbox, no_jobs: None) -> None:
    """Every log holds what it takes to compute its own name."""
    facts = "$SLURM_JOB_ID $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $(hostname -s) $USER"
    script = f"""
        for n in $(seq $#); do
            mkdir -p logs/$n
            {SBATCH} -W -t 1 -J train -D logs/$n -o "${{!n}}" -a 3,5 --wrap 'echo {facts}' >&2 &
            [ $((n % 4)) = 0 ] && wait
        done
        wait
        cd logs && grep -r .
    """
    found: Dict[int, List[str]] = {}
    answer = sandbox.exec(["bash", "-c", script, "bash", *PATTERNS], timeout=300)
    for line in answer.stdout.splitlines():
        file, _, words = line.rpartition(":")
        number, _, name = file.partition("/")
        job, array, task, node, user = words.split()
        pattern = PATTERNS[int(number) - 1]
        found.setdefault(int(number), []).append(name)
        expected = units.expand_log_pattern(
            NEWER.get(pattern, pattern) if sandbox.version >= (25,) else pattern,
            job_id=int(job),
            array_job_id=int(array),
            array_task_id=int(task),
            job_name="train",
            user=user,
            node=node,
        )
        assert name == expected, pattern
    assert set(found) == set(range(1, len(PATTERNS) + 1)), (answer.stdout, answer.stderr)
