"""Whatever a batch script may contain: findings, and never a traceback."""

from __future__ import annotations

from pathlib import Path

from bounds import bounded, inputs
from hypothesis import given
from hypothesis import strategies as st

from neuronctl.catalog.loader import load
from neuronctl.submission.script_check import CheckedScript, check_line, check_text, mended

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = [
    (ROOT / "tests" / "golden" / "scripts" / f"{name}.sh").read_text(encoding="utf-8")
    for name in ("neuron-conda", "neuron-requeue-own-trap-torchrun", "neuron-2022-train_hvd")
]
PIECES = (
    *("$", '"', "'", "\\", "(", ")", "{", "}", "`", "#SBATCH ", "\n", "\0", "\r\n", "<<EOF\n"),
    *("$((", "$(", ";", "&", "|", "\udcff", "–", "hetjob", "-N", "--", "=", ":", "srun ", "\t"),
    *("bash -c '", "torchrun --nproc_per_node=", "9" * 20, "trap x USR1\n"),
    *(" –", "“", "\u00a0", "\u200b", "\ufeff", "#SBATCH —time=1\n"),
    "export A=$SLURM_PROCID\n",
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


_ALSO_WITHOUT_A_MEND = {"NC601", "NC606", "NC626"}


@inputs(0.5)
@given(text=st.one_of(mutated(), st.text()))
def test_any_script(text: str) -> None:
    text = text.encode("utf-8", "replace").decode() if "\udcff" not in text else text
    catalog = load(None)

    def check(text: str) -> CheckedScript:
        return check_text(
            *("job.sh", text, catalog, catalog.cluster()),
            ask_slurm=False,
            environment={},
            comment_parts={"field": "nlp", "appl": "vllm"},
        )

    with bounded():
        checked = check(text)
    lines = text.split("\n")
    for edit in (edit for one in checked.findings for edit in one.edits):
        line = lines[edit.place.line - 1]
        assert 0 < edit.place.column <= edit.place.end <= len(line) + 1
        assert line[edit.place.column - 1 : edit.place.end - 1] != edit.text
    after = mended(checked, check)
    assert after.mends == ()
    codes = {one.finding.code for one in after.findings if one.finding.code != "NC602"}
    assert not codes & {one.finding.code for one in checked.mends} - _ALSO_WITHOUT_A_MEND
    for one in checked.findings:
        assert 0 < one.place.line <= len(lines)
        assert 0 < one.place.column <= len(lines[one.place.line - 1]) + 1


@inputs(0.2)
@given(words=st.text())
def test_any_command_line(words: str) -> None:
    catalog = load(None)
    with bounded():
        check_line(f"salloc {words}", catalog, catalog.cluster(), ask_slurm=False)
