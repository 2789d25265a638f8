"""What a directory shows of the job that somebody wants to run there, as a job file.

Nothing is asked and nothing is written here.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any, Dict, List, Mapping, Tuple

from neuronctl.catalog.model import Cluster
from neuronctl.common.errors import UsageError
from neuronctl.common.files import open_regular
from neuronctl.common.frozen import dataclass
from neuronctl.common.yamlfile.writer import Entry, write
from neuronctl.judgement.local_facts import imports_of
from neuronctl.launch.environments import find_conda
from neuronctl.planning.software import LONGEST_PROGRAM
from neuronctl.request.job import OPTIONS, JobRequest, Layer
from neuronctl.rules.policy import near_imports

PERSONAL = ("cluster", "field", "account", "qos")
"""Options that are the same in all of a user's jobs, and so belong into their configuration."""

_SIZE = ("nodes", "ntasks", "ntasks_per_node", "gpus_per_node", "gpus", "gres")
_SOFTWARE = ("conda", "venv", "container", "modules")


@dataclass(frozen=True)
class Worked:
    """A value that was worked out, and why."""

    value: Any
    why: str


def programs(directory: str) -> List[str]:
    """The Python files there that can be the program, those with a main part if there are any.

    Raises UsageError where the directory, or its only Python file, cannot be read.
    """
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".py"))
    except OSError as error:
        where = "this directory" if directory == "." else f"'{directory}'"
        raise UsageError(f"cannot read {where}: {error.strerror}") from None
    texts: Dict[str, bytes] = {}
    problem = ""
    for name in names:
        try:
            with open_regular(os.path.join(directory, name)) as file:
                texts[name] = file.read(LONGEST_PROGRAM)
        except OSError as error:
            problem = f"cannot read '{name}': {error.strerror}"
    if problem and not texts:
        raise UsageError(problem, "make it readable, or name another program")
    main = [name for name, text in texts.items() if re.search(rb"(?m)^if\s*\(?__name__\b", text)]
    return [f"./{name}" if name.startswith("-") else name for name in main or texts]


def has_size(options: Mapping[str, Any], defaults: Layer) -> bool:
    """Return whether the options or the user's configuration already say how large the job is."""
    given = any(options.get(name) for name in _SIZE)
    return given or any(name in defaults.values for name in _SIZE)


def has_gpus(cluster: Cluster, partition: str) -> bool:
    """Return whether a partition of this name, or list of names, has GPUs; of auto, any."""
    named = partition.split(",")
    return any(
        known.gpus_per_node > 0
        for known in cluster.partitions.values()
        if known.name in named or partition == "auto"
    )


def application(request: JobRequest, cluster: Cluster) -> Worked:
    """The site's code for what the program imports; its value is "" where nothing shows it."""
    codes = cluster.policy.comment.values_of("appl") or ()
    name, near = near_imports(imports_of(request), codes)
    return Worked(near[0], f"the program imports {name}") if near else Worked("", "")


def software(
    options: Mapping[str, Any], defaults: Layer, directory: str
) -> Tuple[Dict[str, Worked], str]:
    """Return the environment that is here or active, and what to do where only its list is here."""
    given = any(options.get("module" if name == "modules" else name) for name in _SOFTWARE)
    if given or any(name in defaults.values for name in _SOFTWARE):
        return {}, ""
    for name in (".venv", "venv"):
        if os.path.isfile(f"{directory}/{name}/bin/activate"):
            return {"venv": Worked(name, "it is beside the program")}, ""
    active = os.environ.get("VIRTUAL_ENV", "")
    if os.path.isfile(f"{active}/bin/activate") and not os.path.samefile(active, sys.prefix):
        return {"venv": Worked(active, "it is active in your shell")}, ""
    conda = os.environ.get("CONDA_DEFAULT_ENV", "")
    if conda not in ("", "base") and find_conda(conda) is not None:
        return {"conda": Worked(conda, "it is active in your shell")}, ""
    if os.path.isfile(f"{directory}/requirements.txt"):
        return {}, (
            "there is a requirements.txt, but no environment: python3 -m venv .venv && "
            ".venv/bin/pip install -r requirements.txt, and write 'venv: .venv' into job.yaml"
        )
    return {}, ""


def job_file(
    program: JobRequest,
    options: Mapping[str, Any],
    worked: Mapping[str, Worked],
    cluster: Cluster,
) -> str:
    """Return the text of a job file. worked: of the options, those that nobody gave."""
    entries = [Entry("script", program.script, ("The program, and its arguments.",))]
    if program.args:
        entries.append(Entry("args", list(program.args)))
    gap = "What it needs. 'neuronctl partitions --live' shows what there is, and what is free."
    for option in OPTIONS:
        name = option.long.replace("-", "_")
        found = worked.get(name)
        value = options.get(name) if found is None else found.value
        if value is None or value == ():
            continue
        value = list(value) if option.kind == "list" else value
        why = "" if found is None else found.why
        entries.append(Entry(option.long, value, ("", gap) if gap else (), why))
        gap = ""
    above = [
        f"The job that 'neuronctl submit' submits from this directory, on {cluster.title}.",
        "Options on the command line come before these: neuronctl submit -t 30",
        "Other keys: the options of 'neuronctl submit --help', without their dashes.",
        "",
    ]
    return re.sub(r"(?m)^#$", "", write(entries, above=above))
