"""``#SBATCH`` lines, read back by a model of sbatch's own reader.

tests/slurm/test_directives.py puts the same texts to the real one.
"""

from __future__ import annotations

from typing import Any, List, Optional

from hypothesis import given, settings
from hypothesis import strategies as st
from plan_builders import plan_of

from neuronctl.planning import Directive
from neuronctl.rendering.render import render_job
from neuronctl.rendering.script_lines import directive_lines, option_text, quote_directive
from neuronctl.request.values import one_line


def sbatch_words(line: str) -> List[str]:
    """The options of one ``#SBATCH`` line, as sbatch's parser of a script takes them apart."""
    assert line.startswith("#SBATCH")
    rest, words = line[len("#SBATCH") :], []
    while True:
        rest = rest.lstrip(" \t\n\v\f\r")
        if not rest or rest[0] == "#":
            return words
        word, quote_mark, at = "", "", 0
        while at < len(rest) and (quote_mark or rest[at] not in " \t\n\v\f\r"):
            char = rest[at]
            at += 1
            if char == "\\":
                word += rest[at : at + 1]
                at += 1
            elif quote_mark and char == quote_mark:
                quote_mark = ""
            elif not quote_mark and char in "'\"":
                quote_mark = char
            elif not quote_mark and char == "#":
                at = len(rest)
            else:
                word += char
        assert not quote_mark, f"sbatch: unmatched {quote_mark} in {line}"
        words.append(word)
        rest = rest[at:]


VALUES = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\u2028\u2029")
    | st.sampled_from(list(" \\\"'#;$`=,%*!")),
    min_size=1,
).filter(str.strip)


@settings(database=None)
@given(VALUES, st.sampled_from(["", "two words", "it's derived"]))
def test_a_value_survives_sbatch(value: str, remark: str) -> None:
    assert one_line(value) == value
    line = f"#SBATCH {option_text(Directive('comment', value))}" + (remark and f"  # {remark}")
    assert sbatch_words(line) == [f"--comment={value}"]


def test_plain_values_are_not_quoted() -> None:
    for value in ("gpu:a100:2", "%x_%j.out", "0-9%2", "gpu[35-36]", "afterok:1?afterany:2", "B:1"):
        assert quote_directive(value) == value


def test_every_line_of_a_plan_is_one_option() -> None:
    made = plan_of(job_name='it\'s "so"', comment="a\\b #c", requeue=True, exclusive=True)
    values: List[Optional[str]] = []
    for line, one in zip(directive_lines(made), made.directives):
        (word,) = sbatch_words(line)
        name, equals, value = word.partition("=")
        assert name == f"--{one.option}"
        assert (value if equals else None) == one.value
        values.append(one.value)
    assert {'it\'s "so"', "a\\b #c", None} <= set(values)


def test_variables_that_a_users_own_srun_needs() -> None:
    def script_of(**request: Any) -> str:
        return render_job(plan_of(**{"script": None, "body": "python x.py", **request}))

    script = script_of(body="srun python x.py", cpus_per_task=4, ntasks_per_node=2)
    assert "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK " in script
    assert "SRUN_CPUS_PER_TASK" not in script_of(body="python x.py", cpus_per_task=4)
    assert "export PATH SLURM_EXPORT_ENV=ALL" in script_of(sbatch=("export=NONE",))
