"""The ``#SBATCH`` lines of a script, as sbatch reads them (tests/slurm compares with sbatch)."""

from __future__ import annotations

from typing import Dict, Optional

import pytest

from neuronctl.scripts.header import COMMAND_LINE, Header, Ignored
from neuronctl.scripts.header_reader import check_value, read_header


def head(*lines: str) -> Header:
    return read_header("\n".join(["#!/bin/bash", *lines, "true", ""]))


def values(header: Header) -> Dict[str, Optional[str]]:
    return {name: given.value for name, given in header.options.items()}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("#SBATCH -p gpu", {"partition": "gpu"}),
        ("#SBATCH --partition=gpu", {"partition": "gpu"}),
        ("#SBATCH --part=gpu", {"partition": "gpu"}),
        ("#SBATCH--part gpu", {"partition": "gpu"}),
        ("#SLURM -n 2", {"ntasks": "2"}),
        ("#SBATCH -N0 -G 4 --gres=gpu:2", {"nodes": "0", "gpus": "4", "gres": "gpu:2"}),
        ("#SBATCH -N2 -n 4\t-c1", {"nodes": "2", "ntasks": "4", "cpus-per-task": "1"}),
        ("#SBATCH -HOs", {"hold": None, "overcommit": None, "oversubscribe": None}),
        ("#SBATCH --tasks-per-node=2", {"ntasks-per-node": "2"}),
        ("#SBATCH --exclusive --nice", {"exclusive": None, "nice": None}),
        ("#SBATCH --exclusive=user -koff", {"exclusive": "user", "no-kill": "off"}),
        ('#SBATCH -J "a b" # remark', {"job-name": "a b"}),
        ("#SBATCH --comment='a\"b'c", {"comment": 'a"bc'}),
        ("#SBATCH --comment=x#y", {"comment": "x"}),
        ('#SBATCH --comment="x#y"', {"comment": "x#y"}),
        ("#SBATCH --comment=\u00a0x", {"comment": "\u00a0x"}),
        ("#SBATCH -n 1\n#SBATCH -n 2", {"ntasks": "2"}),
        ("#SBATCH --requeue --no-requeue", {"no-requeue": None}),
        ("#SBATCH", {}),
        ("##SBATCH -n 3\n# words\n\n#SBATCH -n 2", {"ntasks": "2"}),
        ("echo x\n#SBATCH -n 3", {}),
    ],
)
def test_spellings(line: str, expected: Dict[str, Optional[str]]) -> None:
    header = head(line)
    assert header.refusals == ()
    assert values(header) == expected


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("#SBATCH --nodez=2", "there is no option '--nodez'"),
        ("#SBATCH --nt=2", "ambiguous"),
        ("#SBATCH -p gpu stray", "'stray' is not an option"),
        ("#SBATCH –J x", "an en dash (U+2013)"),
        ("#SBATCH\u00a0-J x", "only looks like ' ' (U+00A0)"),
        ("#SBATCH -a 1–2", "an en dash (U+2013), not"),
        ("#SBATCH --partition", "requires a value"),
        ("#SBATCH -J 'x", "not closed"),
        ("#SBATCH -p gpu : -n 2", "':'"),
        ("#SBATCH -N $N", "is not a whole number of nodes"),
        ("#SBATCH --time=5h", "not a Slurm time; write 5:00:00"),
        ("#SBATCH --mem=1G --mem-per-cpu=1G", "exclude each other"),
    ],
)
def test_what_sbatch_refuses(line: str, words: str) -> None:
    (refusal,) = head(line).refusals
    assert words in refusal.message
    assert not refusal.whole


@pytest.mark.parametrize(
    "text", ["", " \n", "echo\n", "\n#!/bin/sh\n", "\ufeff#!/bin/sh\n", "#!/bin/sh\r\n", "#!/b\0\n"]
)
def test_files_that_sbatch_refuses(text: str) -> None:
    (refusal,) = read_header(text).refusals
    assert refusal.whole


def test_where_each_option_stands() -> None:
    header = head("#SBATCH -N2 --job-name 'a b'  # x")
    nodes, name = header.given
    assert (nodes.place.line, nodes.place.column, nodes.place.end) == (2, 9, 12)
    assert (name.place.column, name.place.end) == (13, 29)
    assert name.value_place.column == 24


@pytest.mark.parametrize(
    ("line", "why", "text"),
    [
        ("#SBATCH -n 1 #SBATCH -N 2", Ignored.REMARK, "#SBATCH -N 2"),
        ("#SBATCH -n 1\n#SBATCH -n 2", Ignored.OVERRIDDEN, "--ntasks=1"),
        ("  #SBATCH -n 1", Ignored.MISSPELLED, "#SBATCH -n 1"),
        ("#sbatch -n 1", Ignored.MISSPELLED, "#sbatch -n 1"),
        ("echo\n#SBATCH -n 1", Ignored.AFTER_COMMAND, "#SBATCH -n 1"),
    ],
)
def test_what_has_no_effect(line: str, why: str, text: str) -> None:
    assert [(one.reason, one.text) for one in head(line).ignored] == [(why, text)]


def test_lines_that_are_switched_off_are_no_mistake() -> None:
    assert head("##SBATCH -n 1", "## SBATCH -n 1", "### SBATCH").ignored == ()


def test_environment_and_command_line_go_over_the_script() -> None:
    header = read_header(
        "#!/bin/sh\n#SBATCH -t 1 -n 1 -p a\n",
        environment={"SBATCH_TIMELIMIT": "2", "SBATCH_PARTITION": "b"},
        command_line=["-p", "c", "job.sh", "-n", "9"],
    )
    assert values(header) == {"time": "2", "ntasks": "1", "partition": "c"}
    assert header.options["time"].source == "SBATCH_TIMELIMIT"
    assert header.options["partition"].source == COMMAND_LINE


def test_what_is_an_abbreviation_in_an_old_release_is_read_as_in_a_new_one() -> None:
    assert list(values(head("#SBATCH --extra=1"))) == ["extra"]


def test_components_of_a_heterogeneous_job() -> None:
    header = head("#SBATCH -n 1", "#SBATCH hetjob", "#SBATCH -n 2", "#SBATCH HETJOB -n 3")
    assert header.components == 3
    assert values(header) == {"ntasks": "1"}


@pytest.mark.parametrize("seconds", ["", "5", " 5", "\t5", "+5", " +5"])
def test_seconds_of_a_signal_are_read_as_sbatch_does(seconds: str) -> None:
    check_value("signal", f"TERM@{seconds}")


@pytest.mark.parametrize("value", ["TERM@5 ", "TERM@ ", "TERM@-1", "TERM@65536", "TERM@5s", "B:"])
def test_signals_that_sbatch_refuses(value: str) -> None:
    with pytest.raises(ValueError, match=r"after @ is not a number|names no signal"):
        check_value("signal", value)


def test_lines_of_other_schedulers() -> None:
    assert head("#PBS -q x").foreign
    assert head("#BSUB -n 2").foreign
    assert not head("#SBATCH --ignore-pbs", "#PBS -q x").foreign


def test_a_directive_that_is_refused_for_its_dash_is_mended() -> None:
    (refusal,) = head("#SBATCH \u2013nodes=1").refusals
    assert [edit.text for edit in refusal.edits] == ["--"]
    assert refusal.meant
