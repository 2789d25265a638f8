"""``check --fix`` mends what has one right answer: the finding is gone, and nothing else is."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Dict, List, Tuple

import pytest

from neuronctl.catalog.cluster import Catalog, CommentPolicy
from neuronctl.scripts.script_file import unified_diff
from neuronctl.submission.existing_script import JudgedScript, apply_fixes, judge_text

TOP = "#!/bin/bash -l\n#SBATCH -p gpu --gpus-per-node=1 -N 1\n"


def checked(text: str, catalog: Catalog, **parts: str) -> JudgedScript:
    return judge_text("job.sh", text, catalog, catalog.clusters["small"], comment_parts=parts)


def fixed(text: str, catalog: Catalog, **parts: str) -> JudgedScript:
    after = apply_fixes(checked(text, catalog, **parts), lambda new: checked(new, catalog, **parts))
    again = apply_fixes(after, lambda new: checked(new, catalog, **parts))
    assert again.text == after.text, "a second run changes something"
    return after


def with_comments(catalog: Catalog, comment: CommentPolicy) -> Catalog:
    """The catalog with a rule for comments."""
    cluster = catalog.clusters["small"]
    policy = dataclasses.replace(cluster.policy, comment=comment)
    clusters = {"small": dataclasses.replace(cluster, policy=policy)}
    return dataclasses.replace(catalog, clusters=clusters)


# (code, what is wrong, what is right): lines behind TOP
MENDS: List[Tuple[str, str, str]] = [
    ("NC601", "#SBATCH --time＝10", "#SBATCH --time=10"),
    ("NC601", "#SBATCH －－time＝１０", "#SBATCH --time=10"),
    ("NC601", "#SBATCH\u3000-t 10", "#SBATCH -t 10"),
    ("NC601", "#SBATCH –J x", "#SBATCH -J x"),
    ("NC601", "#SBATCH —--time 10", "#SBATCH --time 10"),
    ("NC601", "#SBATCH --ntasks–per‑node=1", "#SBATCH --ntasks-per-node=1"),
    ("NC601", "#SBATCH --time=1–00:00:00", "#SBATCH --time=1-00:00:00"),
    ("NC601", "#SBATCH -J x\u3000-t 5\u2003-n 1", "#SBATCH -J x -t 5 -n 1"),
    ("NC601", "#SBATCH \u200b--time=5", "#SBATCH --time=5"),
    ("NC601", "#SBATCH -J “a b”", '#SBATCH -J "a b"'),
    ("NC606", "#SBATCH -o /tmp/$USER.out", "#SBATCH -o /tmp/%u.out"),
    ("NC606", "#SBATCH -o/tmp/${SLURM_JOB_ID}.x", "#SBATCH -o/tmp/%j.x"),
    ("NC606", '#SBATCH --error="/tmp/${USER}$SLURM_JOB_NAME"', '#SBATCH --error="/tmp/%u%x"'),
    ("NC606", "#SBATCH -a 1 -e /tmp/$SLURM_ARRAY_JOB_ID.$SLURM_ARRAY_TASK_ID # $USER",
     "#SBATCH -a 1 -e /tmp/%A.%a # $USER"),
    ("NC626", "#SBATCH -n 2 -c 2\nsrun ./x\n  time srun -l ./y &",
     '#SBATCH -n 2 -c 2\nsrun --cpus-per-task="$SLURM_CPUS_PER_TASK" ./x\n'
     '  time srun --cpus-per-task="$SLURM_CPUS_PER_TASK" -l ./y &'),
    ("NC626", '#SBATCH -c 2\necho 가 &&\t"srun" \\\n -l ./x',
     '#SBATCH -c 2\necho 가 &&\t"srun" --ntasks=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" '
     '\\\n -l ./x'),
]  # fmt: skip


@pytest.mark.parametrize(("code", "wrong", "right"), MENDS)
@pytest.mark.parametrize("end", ["", "\n# Ü\r x\x0c\x85\n"])
def test_a_mend(
    code: str, wrong: str, right: str, end: str, small: Catalog, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    before = checked(TOP + wrong + end, small)
    assert code in {one.code for one in before.mends}
    after = fixed(TOP + wrong + end, small)
    assert after.text == TOP + right + end
    assert code not in {one.code for one in after.findings}


@pytest.mark.parametrize(
    "line",
    [
        "#SBATCH --tiem=5",
        "#SBATCH –time=10 # – it",
        '#SBATCH –J "a – b" -t 5',
        "#SBATCH -J a–b --array=1–2%1",
        "##SBATCH –J x",
        " #SBATCH -J x",
        "#SBATCH -J 'x",
        "#SBATCH -o /tmp/$HOME.x",
        "#SBATCH -o /tmp/\\\\$USER",
        "#SBATCH -D /tmp/$USER",
        "#SBATCH -J x # neuronctl: ignore=NC606 $USER",
        "#SBATCH -o /tmp/$USER # neuronctl: ignore=NC606",
        "# neuronctl: ignore=NC601\n#SBATCH –J x",
        "echo\n#SBATCH -J x",
        "        "  # SBATCH -c 2\ncat > x.sh <<EOF\nsrun ./x\nEOF",
        "#SBATCH -c 2\nRUN=srun\n$RUN ./x",
        "#SBATCH -c 2\nexport SRUN_CPUS_PER_TASK=2\nsrun ./x",
        "#SBATCH -c 2\nsrun ./x # neuronctl: ignore=NC626",
        '#SBATCH -c 2\nC="srun ./x"\neval $C',
        "#SBATCH -c 2\nbash -c 'srun ./x'",
    ],
)
def test_what_has_no_single_answer_is_left(line: str, small: Catalog) -> None:
    assert fixed(f"{TOP}{line}\n", small).text == f"{TOP}{line}\n"


def test_line_ends_and_a_byte_order_mark(small: Catalog) -> None:
    text = "\ufeff" + TOP.replace("\n", "\r\n") + "#SBATCH –J x\r\necho 'a\rb'\r\n\r\r\nend"
    codes = {one.code for one in checked(text, small).mends}
    assert codes == {"NC601", "NC602"}
    after = fixed(text, small)
    assert after.text == TOP + "#SBATCH -J x\necho 'a\rb'\n\nend"
    assert after.findings == ()


PARTS = {"field": ("nlp", "cv", "misc"), "appl": ("pytorch", "vasp", "misc")}
FIELDS = CommentPolicy(required=True, form="fields", fields=PARTS)
PATTERN = dataclasses.replace(FIELDS, pattern=r"field=\w+;appl=\w+")
NO_VASP = dataclasses.replace(FIELDS, pattern=r"field=\w+;appl=[^v]\w+")
WORD = CommentPolicy(required=True, form="word", values=("pytorch", "vasp"))
BOTH = {"field": "nlp", "appl": "vasp"}


@pytest.mark.parametrize(
    ("policy", "parts", "before", "after"),
    [
        (FIELDS, BOTH, "-J x --comment=any # it", '-J x --comment="field=nlp;appl=vasp" # it'),
        (FIELDS, BOTH, "--comment 'a b'", '--comment "field=nlp;appl=vasp"'),
        (FIELDS, BOTH, "-J x", '-J x\n#SBATCH --comment="field=nlp;appl=vasp"'),
        (FIELDS, {"field": "cv"}, "--comment=PyTorch", '--comment="field=cv;appl=pytorch"'),
        (FIELDS, {"field": "cv"}, "--comment=misc", '--comment="field=cv;appl=misc"'),
        (FIELDS, BOTH, "--comment=appl=pytorch", '--comment="field=nlp;appl=pytorch"'),
        (FIELDS, BOTH, "--comment=PyTorch", '--comment="field=nlp;appl=pytorch"'),
        (FIELDS, BOTH, "--comment=field=misc", '--comment="field=misc;appl=vasp"'),
        (FIELDS, {"appl": "vasp"}, "--comment=nlp", '--comment="field=nlp;appl=vasp"'),
        (FIELDS, {}, '--comment="field=nlp,appl=vasp"', '--comment="field=nlp;appl=vasp"'),
        (FIELDS, {}, "--comment=appl=vasp;field=nlp", '--comment="field=nlp;appl=vasp"'),
        (FIELDS, {}, "--comment='vasp nlp'", '--comment="field=nlp;appl=vasp"'),
        # What is right stays, whatever the options say.
        (FIELDS, {"field": "cv"}, "--comment=field=nlp;appl=vasp", "--comment=field=nlp;appl=vasp"),
        (FIELDS, {"field": "cv"}, "--comment=other", "--comment=other"),
        (FIELDS, {}, "--comment='nlp cv'", "--comment='nlp cv'"),
        (PATTERN, BOTH, "--comment=any", '--comment="field=nlp;appl=vasp"'),
        (NO_VASP, BOTH, "--comment=any", "--comment=any"),
        (WORD, {"appl": "vasp"}, "--comment='a b'", '--comment="vasp"'),
        (WORD, {}, "--comment=x", "--comment=x"),
        (CommentPolicy(), BOTH, "-J x", "-J x"),
    ],
)
def test_a_comment(
    policy: CommentPolicy, parts: Dict[str, str], before: str, after: str, small: Catalog
) -> None:
    catalog = with_comments(small, policy)
    text = TOP.replace("#SBATCH", f"#SBATCH {before}\n#SBATCH")
    if "\n" in after:  # what is missing follows the last directive
        text, after = f"{TOP}#SBATCH {before}\n", f"{TOP}#SBATCH {after}\n"
    else:
        after = TOP.replace("#SBATCH", f"#SBATCH {after}\n#SBATCH")
    result = fixed(text + "./x\n", catalog, **parts)
    assert result.text == after + "./x\n"
    if result.text != text + "./x\n":
        assert result.findings == ()


def test_a_diff_is_of_lines_that_end_with_a_line_feed() -> None:
    before, after = "a\x0cb\r\n\x85x\nlast", "a\x0cb\n\x85x\nlast"
    assert unified_diff("j", before, after) == (
        "--- j\n+++ j\n@@ -1,3 +1,3 @@\n-a\x0cb\r\n+a\x0cb\n \x85x\n last\n"
        "\\ No newline at end of file\n"
    )
    assert unified_diff("j", before, before) == ""
