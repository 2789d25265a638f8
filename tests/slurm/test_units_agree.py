"""units.py against Slurm itself: what it expands, counts and names is what Slurm does."""

from __future__ import annotations

import random
from typing import Dict, List

import pytest
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


@pytest.mark.parametrize("text", ["10m", ":30", "1:", "1:2:3:4", " 10", "1.5", "ten", ""])
def test_times_that_slurm_refuses_are_refused(sandbox: Sandbox, text: str) -> None:
    with pytest.raises(ValueError):
        units.parse_time(text)
    script = f'{SBATCH} -H "--time=$1" --wrap true'
    refused = sandbox.exec(["bash", "-c", script, "bash", text], check=False)
    assert refused.returncode != 0, refused.stdout
    assert "--time" in refused.stderr


ARRAYS = {
    True: ["0", "0-1", "1,3", "0-4:4", "0-2%2", "01"],
    False: ["x", "5-2", "1-", "-1", "0-9:0", "0-1 %2"],
}
DEPENDENCIES = {
    True: ["JOB", "afterok:JOB", "afterok:JOB:JOB", "afterok:JOB,afterany:JOB", "singleton",
           "afterok:JOB?afterany:JOB", "after:JOB+5", "after:JOB+5:JOB", "SINGLETON", "JOB,JOB",
           "AfterOK:JOB", "afterok:JOB_1", "afterok:JOB_*", "aftercorr:JOB", "afterok: JOB"],
    False: ["after:JOB+x", "ok:JOB", "x", "afterok:", "afterok", "JOB:JOB",
            "singleton:JOB", "afterok:JOB,"],
}  # fmt: skip
MAILS = {
    True: ["END,FAIL", "end", "ALL", "NONE", "END, FAIL", "TIME_LIMIT_90", "INVALID_DEPEND"],
    False: ["x", "TIME_LIMIT_70"],
}


def test_arrays_dependencies_and_mail_types_are_taken_as_slurm_takes_them(
    sandbox: Sandbox, no_jobs: None
) -> None:
    first = sandbox.exec(["bash", "-c", f"{SBATCH} -H -a 0-1 --wrap true"]).stdout.strip()
    script = (
        f'for o in "$@"; do id=$({SBATCH} -H "${{o//JOB/{first}}}" --wrap true 2>/dev/null)'
        " && echo taken || echo refused; [ -z $id ] || scancel $id; done"
    )
    for option, check, texts in (
        ("--array", units.check_array, ARRAYS),
        ("--dependency", units.check_dependency, DEPENDENCIES),
        ("--mail-type", units.check_mail_type, MAILS),
    ):
        words = [f"{option}={text}" for good in (True, False) for text in texts[good]]
        answers = sandbox.exec(["bash", "-c", script, "bash", *words]).stdout.split()
        expected = ["taken"] * len(texts[True]) + ["refused"] * len(texts[False])
        assert dict(zip(words, answers)) == dict(zip(words, expected))
        for text in texts[True]:
            check(text.replace("JOB", first))
        for text in texts[False]:
            with pytest.raises(ValueError):
                check(text.replace("JOB", first))


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
