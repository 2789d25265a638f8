"""Draft a job file from what a directory shows."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Any, Dict, List, Mapping, Tuple

from neuronctl.catalog.cluster import Cluster
from neuronctl.common.datatypes import dataclass
from neuronctl.common.errors import UsageError
from neuronctl.common.files import open_regular
from neuronctl.common.yamlfile.writer import Entry, write
from neuronctl.launch.environments import find_venv
from neuronctl.planning.software import LONGEST_PROGRAM
from neuronctl.request.job import OPTIONS, JobRequest


@dataclass(frozen=True)
class Derived:
    """A derived value and the reason for it."""

    value: Any
    why: str


def programs(directory: str) -> List[str]:
    """Return the Python files with a main part, or all if none has one; raise UsageError."""
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".py"))
    except OSError as error:
        where = "this directory" if directory == "." else f"'{directory}'"
        raise UsageError(f"cannot read {where}: {error.strerror}") from None
    main: List[str] = []
    others: List[str] = []
    for name in names:
        program = f"./{name}" if name.startswith("-") else name
        with contextlib.suppress(OSError), open_regular(os.path.join(directory, name)) as file:
            has_main = re.search(rb"(?m)^if\s*\(?__name__\b", file.read(LONGEST_PROGRAM))
            (main if has_main else others).append(program)
    return main or others


def software(has_environment: bool, program: JobRequest) -> Tuple[Dict[str, Derived], str]:
    """Return the environment beside the program, and a hint if only requirements.txt is there."""
    if has_environment:
        return {}, ""
    directory = program.chdir or "."
    venv, lock = find_venv(program.script or "", directory, (".venv", "venv"))
    if venv:
        return {"venv": Derived(venv, "it is beside the program")}, ""
    if lock or not os.path.isfile(f"{directory}/requirements.txt"):
        return {}, ""
    return {}, (
        "there is a requirements.txt, but no environment: python3 -m venv .venv && "
        ".venv/bin/pip install -r requirements.txt, and write 'venv: .venv' into job.yaml"
    )


def job_file(
    program: JobRequest,
    options: Mapping[str, Any],
    derived: Mapping[str, Derived],
    cluster: Cluster,
) -> str:
    """Return the text of a job file. options: as typed. derived: values for other options."""
    entries = [Entry("script", program.script, ("The program, and its arguments.",))]
    if program.args:
        entries.append(Entry("args", list(program.args)))
    comment = "What it needs. 'neuronctl partitions --live' shows what there is, and what is free."
    lines_before: Tuple[str, ...] = ("", comment)
    for option in OPTIONS:
        name = option.long.replace("-", "_")
        setting = derived.get(name, Derived(options.get(name), ""))
        if setting.value in (None, ()):  # neither derived nor typed
            continue
        value = list(setting.value) if option.kind == "list" else setting.value
        entries.append(Entry(option.long, value, lines_before, setting.why))
        lines_before = ()  # only the first option has them
    above = [
        f"The job that 'neuronctl submit' submits from this directory, on {cluster.title}.",
        "Options on the command line come before these: neuronctl submit -t 30",
        "Other keys: the options of 'neuronctl submit --help', without their dashes.",
        "",
    ]
    return re.sub(r"(?m)^#$", "", write(entries, above=above))
