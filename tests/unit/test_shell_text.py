"""The shell part of a script: words, variables, and what is started."""

from __future__ import annotations

import re
from typing import List, Optional, Tuple

import pytest

from neuronctl.scripts import bash_grammar
from neuronctl.scripts.launches import Launch, launches
from neuronctl.scripts.shell_reader import read_shell
from neuronctl.scripts.shell_text import Command


def only(text: str) -> Command:
    return read_shell(text).commands[-1]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x a", "a"),
        ("x 'a $b'", "a $b"),
        ('x "a\\$b"', "a$b"),
        ("x a\\ b", "a b"),
        ("A=1; x $A", "1"),
        ("A=1; x p${A}q", "p1q"),
        ("A='1 2'; x \"$A \"", "1 2 "),
        ("A='1 2'; x $A", "2"),
        ("A='1 2'; x p$A", None),
        ("A=1; A=$A,2; A+=,3; x $A", "1,2,3"),
        ("A=1; if y; then A=2; fi; x $A", None),
        ("A=1; source v/bin/activate; x $A", "1"),
        ("x $((7 / B))", None),
        ("A=(a 'b c'); A+=(d); x \"${A[@]}\"", "d"),
        ("if y; then A=1; fi; x $A", None),
        ("for A in 1; do x $A; done", None),
        ("A=1; source env.sh; x $A", None),
        ("A=1; read A; x $A", None),
        ("A=$(y); x $A", None),
        ("x ${B:-1}", None),
        ("x *.py", None),
        ("x {a,b}", None),
    ],
)
def test_what_a_word_is(text: str, value: Optional[str]) -> None:
    assert only(text).words[-1].value == value


def test_where_words_stand() -> None:
    command = only("#!/bin/bash\né; srun -N1 \\\n  'ü x' y")
    places = [(word.place.line, word.place.column, word.place.end) for word in command.words]
    assert places == [(2, 4, 8), (2, 9, 12), (3, 3, 8), (3, 9, 10)]


def test_what_runs_for_sure() -> None:
    shell = read_shell("a && b\nif c; then d; fi\nwhile e; do f; done\ng & h | i\nj=$(k)\n")
    assert {command.name for command in shell.commands if command.sure} == {"a", "g"}
    assert {command.name for command in shell.commands if command.looped} == {"e", "f"}
    assert {command.name for command in shell.commands if command.background} == {"g"}
    assert {command.name for command in shell.commands if command.captured} == {"k"}


def test_lines_of_a_here_document_are_known() -> None:
    assert read_shell("cat <<EOF\n#SBATCH -n 1\nEOF\n# x\n").documents == {2, 3}


def kinds(one: Optional[Launch]) -> List[str]:
    return [] if one is None else [one.kind, *(inner.kind for inner in one.below())]


def launch(command: Command) -> Optional[Launch]:
    return next(iter(launches([command])), None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python -u -m torch.distributed.run a.py", ["torchrun", "python"]),
        ("srun -N 2 --mpi=pmix python a.py", ["srun", "python"]),
        ("srun bash -c 'x && torchrun a'", ["srun", "shell", "program", "torchrun", "program"]),
        ("time env A=1 nohup srun -n2 ./x", ["srun", "program"]),
        ("timeout -k 5 10m mpirun -np 4 --mca btl self ./x", ["mpirun", "program"]),
        ("singularity exec --nv -B /a:/b $IMG python a.py", ["python"]),
        ("apptainer run x.sif python a.py", ["python"]),
        ("accelerate launch --multi_gpu --num_processes 2 a.py", ["accelerate launch", "python"]),
        ("horovodrun -np 4 python a.py", ["horovodrun", "python"]),
        ("srun $OPTIONS python a.py", ["srun"]),
        ("$LAUNCH python a.py", []),
    ],
)
def test_what_is_started(text: str, expected: List[str]) -> None:
    assert kinds(launch(only(text))) == expected


@pytest.mark.parametrize(
    ("text", "names", "count"),
    [
        ("N=3; torchrun --nproc_per_node $N a.py", ("nproc_per_node",), 3),
        ("torchrun --nproc_per_node=gpu a.py", ("nproc_per_node",), None),
        ("torchrun --nproc_per_node $N a.py", ("nproc_per_node",), None),
        ("srun --ntasks-per-n=2 ./x", ("ntasks_per_node",), 2),
        ("mpirun -n 2 ./x", ("np", "n"), 2),
    ],
)
def test_counts(text: str, names: Tuple[str, ...], count: Optional[int]) -> None:
    one = launch(only(text))
    assert one is not None
    assert one.count(*names) == count


def test_an_option_has_its_value_behind_it() -> None:
    run = launch(only('mpirun --np=1 "--n=$A/b" --np 2 -n=3 -x a=1 --n'))
    assert run is not None
    assert [value for value, _ in run.values_of("np", "n")] == ["1", "$A/b", "2", "3", ""]


def test_export_takes_the_assignments_before_it() -> None:
    read = read_shell("A=1\nB=2\nA=3\nexport A\nA=4\nexport C=5\nexport A B\nA=6\n")
    told = [f"{one.name}={one.word.value}" for one in read.assignments if one.exported]
    assert told == ["A=1", "B=2", "A=3", "A=4", "C=5"]
    assert read.assignments[-1].word.value == "6"


@pytest.mark.parametrize("before", ["", "é", "\udcff"])
@pytest.mark.parametrize("count", [1, 171, 513])
def test_columns_count_characters(before: str, count: int) -> None:
    command = only(f"y\nx '{before * count}'; true é")
    column = len(before) * count + 7
    assert (command.place.line, command.place.column, command.place.end) == (2, column, column + 6)


@pytest.mark.parametrize(
    "word",
    ["$A/$B/c", "$A:$B/c:$C/d", "a/$A/$B.x", '"$A"/$B/c', "ä${A}/$B/c", "$A,$B,$C", "$1/$B/c"],
)
def test_a_word_with_several_variables_is_one(word: str) -> None:
    """The grammar would end it behind the second dollar."""
    line = f"x ö{word} zz"
    (command,) = read_shell(f"{line}\n").commands
    assert len(command.words) == 3
    places = [one.place for one in command.words[1:]]
    assert [line[one.column - 1 : one.end - 1] for one in places] == [f"ö{word}", "zz"]
    (exported,) = read_shell(f"export P={word}").assignments
    bare = str.maketrans("", "", '{}"')
    assert exported.word.text.translate(bare) == word.translate(bare)
    assert read_shell(f"P={word}\nY=1").commands == ()
    assert read_shell(f"x '{word}' \\$A/\\$B/c").commands[0].words[1].value == word


def test_a_variable_of_several_words_is_as_many() -> None:
    text = 'L="torchrun --nproc_per_node=2 \\\n  --nnodes 1"\nsrun $L t.py'
    words = only(text).words
    assert [one.value for one in words] == [
        *("srun", "torchrun", "--nproc_per_node=2", "--nnodes", "1", "t.py")
    ]
    assert {one.place.column for one in words[1:5]} == {6}
    assert only("L='a b'\nx \"$L\" '$L'").arguments == ("a b", "$L")


@pytest.mark.parametrize("character", ["é", "ı", "한", "\uffee", "\U0001f600", "\U0010ffff"])
@pytest.mark.parametrize("begin", ["{", "{12", "{1..34", "${"])
def test_a_character_behind_a_brace(begin: str, character: str) -> None:
    """The grammar's scanner reads memory that is not its own for it, and may end the process."""
    text = f"echo {begin}{character}x}} 뒤\n"
    data = text.encode()
    given = bash_grammar._harmless(data)
    assert len(given) == len(data) and given.count(b"\n") == 1
    behind = re.findall(r"\{[0-9]*(?:\.\.[0-9]*)?(.)", given.decode())
    assert all(ord(one) < 0x100 for one in behind)
    (command,) = read_shell(text).commands
    assert command.words[0].raw == "echo"
    assert text[:-1].endswith(command.words[-1].raw)


def test_what_the_grammar_reads_too_slowly_is_left_out() -> None:
    """What stands before it is read."""
    read = read_shell("./a $B/c\n" * 500 + "a=(" * 15_000 + "\n./b\n")
    assert read.left_out > 0 and "./b" not in {command.name for command in read.commands}
    assert read_shell("./a $B/c\n" * 500).left_out == 0


@pytest.mark.parametrize(
    "text",
    (
        "a && exit",
        "( exit )",
        "if a; then exit; fi",
        "case $1 in x) exit;; esac",
        "f() { exit; }",
        "f() { exit; }\nx || f",
        "a || {\nexit\n}",
        "a | { exit; }",
    ),
)
def test_an_exit_that_may_not_run_is_not_sure(text: str) -> None:
    read = read_shell(f"{text}\nexit\n")
    assert [each.sure for each in read.calls("exit")] == [False, True]
