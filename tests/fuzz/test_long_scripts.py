"""The longest scripts that are read whole, of a few lines that repeat."""

from __future__ import annotations

import contextlib
from typing import List

import pytest
from bounds import bounded, grows, inputs
from hypothesis import example, given
from hypothesis import strategies as st
from test_scripts import LINES

from neuronctl.catalog.loader import load
from neuronctl.common.errors import UsageError
from neuronctl.scripts.job_file_draft import draft_job_file
from neuronctl.scripts.script_file import MOST_CHARACTERS
from neuronctl.submission.judged_script import judge_text

TOP = "#!/bin/bash\n#SBATCH -p cas_v100nv_8 -N 2 --gres=gpu:2 -t 5\n"
NUMBERED = (
    *("A@=1", "A@=$A@", "export A@=x$A", "python t.py $A@", "f@() { a; }", "f@", "cd x@"),
    *("OMP_NUM_THREADS=4", "MASTER_ADDR=x", "python t.py | tee x@", "bash -c 'a@ $A@'", "unset A@"),
    *("until curl x; do sleep 1; done", "srun python t.py &", "cat <<E\n$A@\nE", "x=`a`", "a;"),
    *("export PATH=x@:$PATH", 'cd "$(dirname "$0")"', "[ -f x@ ] && a", "rm x@", "a > log@"),
)


@inputs(0.02)
@example(["a;", "A@=1"], True)
@example(["a;"], True)
@example(["OMP_NUM_THREADS=4"], True)
@example(["torchrun --nproc_per_node=2 t.py"], True)
@given(st.lists(st.sampled_from((*LINES, *NUMBERED)), min_size=1, max_size=3), st.booleans())
def test_lines_that_repeat(lines: List[str], in_turn: bool) -> None:
    """None of the rules, and no step of an import, compares each line with each other one."""
    block = "\n".join(lines) + "\n"
    times = (MOST_CHARACTERS - len(TOP)) // (len(block) + 4 * block.count("@"))
    blocks = [block] if in_turn else [f"{line}\n" for line in lines]
    text = TOP + "".join(
        part.replace("@", str(number)) for part in blocks for number in range(times)
    )
    catalog = load(None)
    with bounded():
        judge_text("job.sh", text, catalog, catalog.cluster())
    with bounded(), contextlib.suppress(UsageError):
        draft_job_file(text, "job.sh", catalog.cluster())


@pytest.mark.parametrize(
    "piece",
    [
        *("\n", "\n ", "a; ", "exit 1\n", "sleep 1 & ", "[[ $SLURM_ARRAY_TASK_ID ", "${A[", ";[a"),
        *("#((", "abcd@=1 a $abce@\n", "${", "export NCCL_X@=1\n", "\t", "$("),
        *("A@=1\n", "A[@]=1\n", "f@() { a; }\nf@\n", "A=$A$B@\nB@=$A\n"),
    ],
)
def test_time_grows_with_the_length(piece: str) -> None:
    """Each of these once took time in proportion to the square of the length."""
    catalog = load(None)

    def check_and_import(length: int) -> None:
        text = TOP + "#SBATCH --array=0-9\n" * ("A[" in piece)
        while len(text) < length:
            text += piece.replace("@", str(len(text)))
        judge_text("job.sh", text, catalog, catalog.cluster())
        with contextlib.suppress(UsageError):
            draft_job_file(text, "job.sh", catalog.cluster())

    assert grows(check_and_import, 2500) < 10
