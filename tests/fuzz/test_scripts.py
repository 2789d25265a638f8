"""Whatever a batch script may contain: findings, and never a traceback."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from bounds import assert_bounded, inputs
from hypothesis import example, given
from hypothesis import strategies as st

from neuronctl.catalog.loader import load
from neuronctl.common.errors import UsageError
from neuronctl.request.job_file import parse_job_file
from neuronctl.scripts.job_file_draft import draft_job_file
from neuronctl.submission.existing_script import JudgedScript, apply_fixes, judge_text

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = [
    (ROOT / "tests" / "golden" / "scripts" / f"{name}.sh").read_text(encoding="utf-8")
    for name in ("neuron-python-one-gpu", "two-nodes-chain", "neuron-2022-train_hvd")
]
PIECES = (
    *("$", '"', "'", "\\", "(", ")", "{", "}", "`", "#SBATCH ", "\n", "\0", "\r\n", "<<EOF\n"),
    *("$((", "$(", ";", "&", "|", "\udcff", "–", "hetjob", "-N", "--", "=", ":", "srun ", "\t"),
    *("bash -c '", "torchrun --nproc_per_node=", "9" * 20, "trap x USR1\n"),
    *(" –", "“", "\u00a0", "\u200b", "\ufeff", "#SBATCH —time=1\n"),
    *("export A=$SLURM_PROCID\n", "#!/bin/sh —l\n", " \\ \n --a\n", "[[ a ]]\n"),
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A script with pieces put in and taken out."""
    text = draw(st.sampled_from(SCRIPTS))
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(text)))
        if draw(st.booleans()):
            many = draw(st.sampled_from([1, 1, 3, 200]))
            text = text[:at] + draw(st.sampled_from(PIECES)) * many + text[at:]
        else:
            text = text[:at] + text[at + draw(st.integers(1, 60)) :]
    return text


LINES = (
    *("module load a b", "module purge", "export A=1", "export B=$A", "export C=$(date)"),
    *("set -eu",),
    *(". v/bin/activate", "conda activate x", "cd x || exit", "echo $?", "python t.py $A", "# x"),
    *("srun -n 2 ./a", "torchrun --nproc_per_node=2 t.py", "if true; then", "fi", "cat <<E", "E"),
    *("#SBATCH -c 4", "", "f() { ./a; }", "f", "./a > x", "./a &", "wait"),
    *("for i in 1 2; do ./a; done",),
    *("export HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz", "trap x USR1", "A='", '"', "a \\"),
)  # fmt: skip


@st.composite
def pieced(draw: st.DrawFn) -> str:
    """A script of usual lines in any order."""
    options = draw(st.lists(st.sampled_from(OPTIONS), max_size=6))
    lines = draw(st.lists(st.sampled_from(LINES), max_size=12))
    return "\n".join(["#!/bin/bash", *(f"#SBATCH {option}" for option in options), *lines, ""])


OPTIONS = (
    *("-N 2", "-N 2-4", "-n 4", "-n 5", "--ntasks-per-node=2", "-c 3", "--gres=gpu:2", "-G 3"),
    *("--gres=gpu:a:1,gpu:b:1", "--gpus-per-task=1", "--cpus-per-gpu=2", "-p a,b", "-p auto"),
    *("-t 10", "-t UNLIMITED", "--mem=0", "--exclusive=user", "--signal=USR1", "--requeue"),
    *("--comment=''", "-J 'a b'", "-J ''", "-o /dev/null", "-w n[1-2]", "-w n[", "-D x", "--hold"),
    *("--export=NONE", "--array=1-3", "--array=x", "-d afterok:1", "-d x", "-x ''", "-A ' '"),
    *("--nodes=1,4", "--mail-type=all", "--nice", "--wrap=x", "-N 0", "--gres=gpu:0", "-G 0"),
)  # fmt: skip
_MENDS_SHOW_MORE = {"NC601", "NC602"}
"""Of a line, or of a file, sbatch names only the first error."""


@inputs(0.5)
@given(text=st.one_of(mutated(), st.text()))
@example(text="#!#SBATCH —time=1\n/bin/bash\n")
@example(text="#!/bin/bash\n#SBATCH -n 1\nsrun -n 0 a\n")
@example(text="#!/bin/sh —l\n#SBATCH -n 1\n[[ a ]]\n")
@example(text='#!/bin/bash\n#SBATCH -n 1\nbash -c "$(declare -f ' + "a" * 60 + "\n")
@example(text="#!/bin/bash\n#SBATCH -n 1\nsrun --pty bash -c 'sh; bash'\nbash -c 'sh'\n")
@example(text="#!/bin/bash \\ \n --a\n#SBATCH -n 1\na # \\ \n --b\n")
@example(text="#!/bin/sh\n#SBATCH -n 1\na \\ \n --b\nc \\ \n --d\ne\n --f\n")
@example(text="#!/bin/bash\n#SBATCH --mem=8G\nsamtools sort -m 2G -@ ² a\n")
@example(text=f"#!/bin/bash\n#SBATCH --gres=gpu:1\nCUDA_VISIBLE_DEVICES={'9' * 5000} python a\n")
@example(text=f"#!/bin/bash\nfor i in {{0..{'9' * 5000}}}; do\nCUDA_VISIBLE_DEVICES=$i a\ndone\n")
def test_any_script(text: str) -> None:
    text = text.encode("utf-8", "replace").decode() if "\udcff" not in text else text
    catalog = load(None)

    def check(text: str) -> JudgedScript:
        return judge_text(
            *("job.sh", text, catalog, catalog.cluster()),
            comment_parts={"field": "nlp", "appl": "vllm"},
        )

    with assert_bounded():
        checked = check(text)
    lines = text.split("\n")
    for edit in (edit for found in checked.findings for edit in found.edits):
        line = lines[edit.place.line - 1]
        assert 0 < edit.place.column <= edit.place.end <= len(line) + 1
        assert line[edit.place.column - 1 : edit.place.end - 1] != edit.text
    after = apply_fixes(checked, check)
    assert after.mends == ()
    left = Counter(found.code for found in after.findings)
    without = Counter(found.code for found in checked.findings if not found.edits)
    for code in {found.code for found in checked.mends} - _MENDS_SHOW_MORE:
        assert left[code] <= without[code], f"{code} is there after its mend"
    for found in checked.findings:
        assert 0 < found.place.line <= len(lines)
        assert 0 < found.place.column <= len(lines[found.place.line - 1]) + 1


@inputs(0.5)
@given(text=st.one_of(mutated(), pieced(), st.text()))
def test_any_script_is_imported_or_refused(text: str) -> None:
    """What import makes is read back and planned before it is shown."""
    catalog = load(None)
    with assert_bounded():
        try:
            made = draft_job_file(text, "job.sh", catalog.cluster())
        except UsageError as error:
            assert re.match(r"job\.sh:\d+: ", error.message), error.message
            return
    parse_job_file(made.text, "job.yaml")
    lines = text.count("\n") + 1
    assert all(0 <= remark.line <= lines for remark in made.remarks)
