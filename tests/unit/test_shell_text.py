"""The shell part of a script: words, variables, and what is started."""

from __future__ import annotations

from typing import List, Optional, Tuple

import pytest

from neuronctl.batchscript.launches import Launch, launch
from neuronctl.batchscript.shell_text import Command, read_shell


def only(text: str) -> Command:
    return read_shell(text).commands[-1]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x a", "a"),
        ("x 'a $b'", "a $b"),
        ('x "a\\$b"', "a$b"),
        ("x a\"b\"'c'", "abc"),
        ("x a\\ b", "a b"),
        ("A=1; x $A", "1"),
        ("A=1; x p${A}q", "p1q"),
        ("A='1 2'; x \"$A \"", "1 2 "),
        ("A='1 2'; x $A", None),
        ("A=1; A=2; x $A", None),
        ("if y; then A=1; fi; x $A", None),
        ("for A in 1; do x $A; done", None),
        ("A=1; source env.sh; x $A", None),
        ("A=1; read A; x $A", None),
        ("A=$(y); x $A", None),
        ("A=1 y; x $A", None),
        ("x $B", None),
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


def test_directives_in_a_here_document_are_no_comments() -> None:
    assert read_shell("cat <<EOF\n#SBATCH -n 1\nEOF\n# x\n").comments == {4}


def kinds(one: Optional[Launch]) -> List[str]:
    return [] if one is None else [one.kind, *(inner.kind for inner in one.below())]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python a.py", ["python"]),
        ("python -u -m torch.distributed.run a.py", ["torchrun", "python"]),
        ("srun -N 2 --mpi=pmix python a.py", ["srun", "python"]),
        (
            "srun bash -c 'cd x && torchrun a.py'",
            ["srun", "shell", "program", "torchrun", "python"],
        ),
        ("time env A=1 nohup srun -n2 ./x", ["srun", "program"]),
        ("timeout -k 5 10m mpirun -np 4 --mca btl self ./x", ["mpirun", "program"]),
        ("singularity exec --nv -B /a:/b $IMG python a.py", ["python"]),
        ("apptainer run x.sif python a.py", ["program"]),
        ("accelerate launch --multi_gpu --num_processes 2 a.py", ["accelerate launch", "python"]),
        ("accelerate config", ["program"]),
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
        ("torchrun --nproc-per-node=4 a.py", ("nproc_per_node",), 4),
        ("N=3; torchrun --nproc_per_node $N a.py", ("nproc_per_node",), 3),
        ("torchrun --nproc_per_node=gpu a.py", ("nproc_per_node",), None),
        ("torchrun --nproc_per_node $N a.py", ("nproc_per_node",), None),
        ("srun -n4 ./x", ("ntasks",), 4),
        ("srun --ntasks-per-n=2 ./x", ("ntasks_per_node",), 2),
        ("mpirun -n 2 ./x", ("np", "n"), 2),
    ],
)
def test_counts(text: str, names: Tuple[str, ...], count: Optional[int]) -> None:
    one = launch(only(text))
    assert one is not None
    assert one.count(*names) == count
