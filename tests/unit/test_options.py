"""The grammar of every option: what is taken, what it becomes, what is refused in which words."""

from __future__ import annotations

import subprocess
from typing import Any, Dict, List

import click
import pytest

from neuronctl.cli.job_options import job_options
from neuronctl.common.shell import BASHS_OWN
from neuronctl.launch import launchers
from neuronctl.request.job import BY_NAME, OPTIONS, find

GOOD: List[Any] = [
    ("job-name", ["실험 1"], {"job_name": "실험 1"}),
    ("nodes", ["2"], {"nodes": 2}),
    ("cpus-per-task", ["008"], {"cpus_per_task": 8}),
    ("gpus-per-node", ["a100:4"], {"gpus_per_node": 4, "gpu_type": "a100"}),
    ("gpus", ["a100:8"], {"gpus": 8, "gpu_type": "a100"}),
    ("nodes", ["2-4"], {"nodes": 2, "max_nodes": 4}),
    ("nodes", ["2-2"], {"nodes": 2}),
    ("gpus-per-node", ["0"], {"gpus_per_node": 0}),
    ("launcher-option", ["--mca", "btl", "a b"], {"launcher_options": ("--mca", "btl", "a b")}),
    ("container-option", ["--rocm"], {"container_options": ("--rocm",)}),
    ("mail-type", ["END,fail"], {"mail_type": "END,fail"}),
    ("gres", ["gpu"], {"gpus_per_node": 1}),
    ("gres", ["gpu:a100:2"], {"gpus_per_node": 2, "gpu_type": "a100"}),
    ("gres", ["nvme:1,gpu:2"], {"gpus_per_node": 2, "gres": ("nvme:1",)}),
    ("exclusive", ["true"], {"exclusive": True}),
    ("requeue", ["false"], {"requeue": False}),
    ("signal", ["B:USR1@120"], {"signal": "B:USR1@120"}),
    ("signal", ["R:PIPE"], {"signal": "R:PIPE"}),
    ("ntasks", ["+2"], {"ntasks": 2}),
    ("mem", [" +80G"], {"mem": "80G"}),
    ("gres", ["gres:gpu=2"], {"gpus_per_node": 2}),
    ("env", ["A=", "B=b=c,d", "A=2"], {"env": (("A", "2"), ("B", "b=c,d"))}),
    ("env", ["A=two\nlines"], {"env": (("A", "two\nlines"),)}),
    ("module", ["ngc/pytorch:24.12-py3"], {"modules": ("ngc/pytorch:24.12-py3",)}),
    ("setup", ["a", "if b\n\tc\nfi\n"], {"setup": ("a", "if b", "\tc", "fi")}),
    ("sbatch", ["nice=100", "--hold"], {"sbatch": ("nice=100", "hold")}),
    ("sbatch", ["exclusive=user"], {"sbatch": ("exclusive=user",)}),
]

BAD = [
    ("job-name", "", "is empty"),
    ("job-name", "a\nb", r"control character '\\n' at position 2"),
    ("job-name", "a\u2028b", r"control character '\\u2028'"),
    ("job-name", "a\udc80", "not valid UTF-8"),
    ("nodes", "4-1", "runs backward"),
    ("nodes", "１", "is not a whole number of nodes"),
    ("nodes", "9" * 400, "is not N"),
    ("nodes", "0", r"'0' is not N\[-MAX\]"),
    ("gpus-per-node", "a100:", r"is not \[TYPE:\]N"),
    ("gpus", "-1", r"is not \[TYPE:\]N"),
    ("gres", "gpu:1,,x", "is not LIST"),
    ("gres", "gpu:two:", "is not LIST"),
    ("mail-type", "SOON", "'SOON' is not a mail type"),
    ("ntasks", "two", "'two' is not a whole number"),
    ("time", "1\u20132:00", r"it contains an en dash \(U\+2013\)"),
    ("array", "0\u22129", r"a minus sign \(U\+2212\)"),
    ("time", "1:2:3:4", "is not a valid time"),
    ("ntasks", "1000000000", "is more than 999999999"),
    ("mem", "80 GB", "is not a valid memory size"),
    ("time", "8h", "'8h' is not a Slurm time; write 8:00:00"),
    ("time", "2 days", "'2 days' is not a Slurm time; write 2-00:00:00"),
    ("time", "30min", "'30min' is not a Slurm time; write 30$"),
    ("signal", "FOO", "'FOO' is not a signal; use a number or HUP"),
    ("signal", "B:SIGSEGV@60", "'SEGV' is not a signal"),
    ("signal", "USR1@65536", "seconds up to 65535"),
    ("env", "A", "is not NAME=VALUE"),
    ("env", "1A=x", "'1A=…' is not NAME=VALUE"),
    ("env", "=x", "is not NAME=VALUE"),
    ("env", "A=\0", "NUL"),
    ("env", "UID=3", "bash does not let scripts set UID"),
    ("env", "A=\udc80", "not valid UTF-8"),
    ("setup", "\n", "is empty"),
    ("setup", "a\r\nb", r"control character '\\r'"),
    ("sbatch", "-p gpu", "long sbatch option"),
    ("sbatch", "partition=gpu", "neuronctl has this option itself"),
    ("sbatch", "wait", "cannot be used in a job script"),
]


@pytest.mark.parametrize(("name", "texts", "fields"), GOOD)
def test_taken(name: str, texts: List[str], fields: Dict[str, Any]) -> None:
    assert BY_NAME[name].parse(texts) == fields


@pytest.mark.parametrize(("name", "text", "words"), BAD)
def test_refused(name: str, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        BY_NAME[name].parse([text])


def test_a_secret_is_not_repeated_in_an_error() -> None:
    with pytest.raises(ValueError) as caught:
        BY_NAME["env"].parse(["HF TOKEN=hf_secret"])
    assert "hf_secret" not in str(caught.value)


SBATCH_SHORT = {
    **{"job-name": "J", "partition": "p", "nodes": "N", "ntasks": "n", "cpus-per-task": "c"},
    **{"time": "t", "account": "A", "qos": "q", "nodelist": "w", "exclude": "x"},
    **{"dependency": "d", "output": "o", "error": "e", "constraint": "C", "array": "a"},
    **{"gpus": "G", "chdir": "D"},
}


def test_short_names_are_sbatchs() -> None:
    assert {option.long: option.short for option in OPTIONS if option.short} == SBATCH_SHORT


@pytest.mark.parametrize("name", ["gpus-per-node", "gpus_per_node"])
def test_yaml_keys_take_dashes_and_underscores(name: str) -> None:
    assert find(name) is BY_NAME["gpus-per-node"]
    assert find("no-such") is None


@pytest.mark.parametrize("name", sorted(BASHS_OWN) + ["HOSTNAME", "PWD", "SECONDS"])
def test_what_bash_sets_itself_is_what_does_not_arrive(name: str) -> None:
    asked = ["bash", "-c", f"export {name}=7; env"]
    shown = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    assert (f"{name}=7" not in shown.splitlines()) == (name in BASHS_OWN)


def test_help_names_every_launcher() -> None:
    command = click.command()(job_options(["launcher"])(lambda launcher: None))
    shown = command.get_help(click.Context(command)).partition("Known:")[2].partition(".\n")[0]
    assert shown.replace(",", " ").split() == list(launchers.names())
