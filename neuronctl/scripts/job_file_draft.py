"""The job file of a batch script: its directives as keys, and the rest as shell text."""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Tuple

from neuronctl.catalog.cluster import Cluster
from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.errors import JobFileError, UsageError
from neuronctl.common.shell import sets_errexit
from neuronctl.common.yamlfile.writer import Entry, write
from neuronctl.request.job import BY_NAME, OF_SLURM, JobRequest
from neuronctl.request.job_file import parse_job_file
from neuronctl.scripts.bash_grammar import parse, text_of
from neuronctl.scripts.header import INSTEAD_OF, Header, Ignored, interpreter
from neuronctl.scripts.header_reader import DIRECTIVE, read_header
from neuronctl.scripts.script_file import MOST_CHARACTERS
from neuronctl.scripts.script_request import request_from_header
from neuronctl.scripts.shell_reader import read_shell


@dataclass(frozen=True)
class Remark:
    """A difference between the job file and the script; line: 0 for the whole script."""

    line: int
    message: str
    hint: str = ""


@dataclass(frozen=True)
class JobFileDraft:
    """A job file and its differences from the script."""

    text: str
    remarks: Tuple[Remark, ...]


_CANNOT_SAY = {
    **INSTEAD_OF,
    **dict.fromkeys(("wait", "parsable", "test-only"), "type it with 'neuronctl submit'"),
}
"""sbatch's options that a job file does not take, and what to write or type instead."""


def draft_job_file(
    text: str, name: str, cluster: Cluster, *, name_cluster: bool = False
) -> JobFileDraft:
    """Return the job file of a batch script.

    name: the file's, or ``<stdin>``. cluster: the one that the job is for. name_cluster: True if
    the job file is to name it. Raises UsageError, with the line, if no job file can replace the
    script.
    """
    header = read_header(text)
    _refuse(header, name, text)
    documents = read_shell(text).documents
    ignored = tuple(part for part in header.ignored if part.place.line not in documents)
    header = replace(header, ignored=ignored)
    lines = text.split("\n")
    last_directive = max([1, *(option.place.line for option in header.given)])
    body = "\n".join(lines[last_directive:])

    remarks: List[Remark] = []
    entries = [Entry("cluster", cluster.name)] if name_cluster else []
    entries += _directive_entries(header, name, cluster, remarks)
    lost_variables = _lost_variables(header, cluster)
    entries += [Entry("env", lost_variables)] if lost_variables else []
    entries.append(Entry("run", _run_text(body, header)))
    argument_line = uses_arguments(body)
    if argument_line is not None:
        message = "refers to the arguments of the script, and shell text in a job file has none"
        remarks.append(
            Remark(last_directive + argument_line, message, "write the values themselves")
        )
    comments = [
        line[1:].lstrip()
        for line in lines[1:last_directive]
        if line.startswith("#") and not line.startswith(DIRECTIVE)
    ]
    above = [f"From {'standard input' if name == '<stdin>' else name}", *comments]
    job_file = write(entries, above=above)
    try:
        parse_job_file(job_file, "job.yaml")
    except JobFileError as error:
        raise UsageError(f"{name}:1: cannot be imported: {error.message}", error.hint) from None
    ordered = sorted(dict.fromkeys(remarks), key=lambda remark: remark.line)
    return JobFileDraft(job_file, tuple(ordered))


_VARIABLES = {"gpus-per-node": "SLURM_GPUS_PER_NODE", "gpus": "SLURM_GPUS"}
"""Option -> the variable that Slurm sets if GPUs are requested by it."""


def _lost_variables(header: Header, cluster: Cluster) -> Dict[str, object]:
    """Return the variables, with values, that Slurm will not set for the job file's script."""
    lost: Dict[str, object] = {}
    for option, variable in _VARIABLES.items():
        if option in header.options and option != cluster.policy.gpu_option:
            lost[variable] = header.value(option)
    return lost


def _refuse(header: Header, name: str, text: str) -> None:
    """Raise UsageError for a script that no job file can replace."""
    hint = "submit the script itself: neuronctl submit FILE"
    if len(text) > MOST_CHARACTERS:
        message = f"has more than {MOST_CHARACTERS:,} characters, too many for a job file"
        raise UsageError(f"{name}:1: {message}", hint)
    if header.refusals:
        refusal = header.refusals[0]
        place = f"{name}:{max(1, refusal.place.line)}"
        hint = refusal.hint or f"'neuronctl check {name}' says more"
        raise UsageError(f"{place}: sbatch refuses this script: {refusal.message}", hint)
    if header.components > 1:
        message = f"a heterogeneous job of {header.components} components: a job file has one"
        raise UsageError(f"{name}:1: {message}", hint)
    if not header.for_bash:
        shell = interpreter(header.shebang) or "no interpreter"
        message = f"a script for {shell}: bash reads what a job file runs"
        hint = "write a job file that starts it as a program: script: FILE"
        raise UsageError(f"{name}:1: {message}", hint)
    for number, line in enumerate(text.split("\n"), 1):
        if not line.replace("\t", "").isprintable():
            problem = "it contains a control character, or bytes that are not UTF-8"
            message = f"{name}:{number}: cannot be imported: {problem}"
            raise UsageError(message, "remove the character")


def _directive_entries(
    header: Header, name: str, cluster: Cluster, remarks: List[Remark]
) -> List[Entry]:
    """Return the keys for the directives; append what no key can express to ``remarks``."""
    line_comments = {
        part.place.line: part.text for part in header.ignored if part.reason == Ignored.REMARK
    }
    comments: Dict[str, str] = {}
    values: Dict[str, object] = {}
    others: List[str] = []
    for option in header.options.values():
        key, value, number = option.name, option.value or "true", option.place.line
        if key == "no-requeue":
            key, value = "requeue", "false"
        if key in OF_SLURM and number in line_comments:
            comments[key] = line_comments[number][1:].strip()
        # sbatch gives some flags values, as in --exclusive=user.
        has_value = key in OF_SLURM and BY_NAME[key].is_flag and value not in ("true", "false")
        if key in _CANNOT_SAY:
            message = f"{option.text}: a job file cannot say this"
            remarks.append(Remark(number, message, _CANNOT_SAY[key]))
        elif key not in OF_SLURM or has_value:
            others.append(option.text[2:])
        else:
            try:
                BY_NAME[key].parse([value])
                values[key] = _typed(key, value)
            except ValueError as error:
                remarks.append(Remark(number, f"--{key} is not carried over: {error}"))
    _add_defaults(values, header, name, request_from_header(header, name, cluster))
    for ignored in header.ignored:
        if ignored.reason in (Ignored.AFTER_COMMAND, Ignored.MISSPELLED):
            shown = ignored.text if len(ignored.text) < 60 else f"{ignored.text[:57]}…"
            message = f"'{shown}' has no effect ({ignored.reason})"
            remarks.append(Remark(ignored.place.line, message))
    keys = [key for key in OF_SLURM if key in values]
    entries = [Entry(key, values[key], remark=comments.get(key, "")) for key in keys]
    return [*entries, Entry("sbatch", others)] if others else entries


def _add_defaults(
    values: Dict[str, object], header: Header, name: str, request: JobRequest
) -> None:
    """Add, replace, or drop keys so that the job gets what Slurm would give it."""
    if {"gpus", "gpus-per-node"} <= values.keys():
        values["nodes"] = str(request.nodes)
        del values["gpus"]
    if re.search(r"\bgpu\b", str(values.get("gres", ""))):
        values.pop("gpus-per-node", None)  # Slurm uses --gres=gpu
    if request.gpus_per_node and not values.keys() & {"gres", "gpus", "gpus-per-node"}:
        values["gpus-per-node"] = str(request.gpus_per_node)  # from the GPUs per task
    if "cpus-per-gpu" in header.options:
        values["cpus-per-task"] = str(request.cpus_per_task)
    else:
        values.setdefault("cpus-per-task", "0")  # as many as Slurm gives
    file = name.rpartition("/")[2] if name.isprintable() else "job"
    values.setdefault("job-name", "sbatch" if name == "<stdin>" else file)
    values.setdefault("output", "slurm-%A_%a.out" if "array" in values else "slurm-%j.out")


def _typed(key: str, value: str) -> object:
    """Return a directive's value with the type that its key has in a job file."""
    kind = BY_NAME[key].kind
    if kind in ("flag", "switch") and value in ("true", "false"):
        return value == "true"
    return [value] if kind == "list" else value


def _first_lines(header: Header) -> List[str]:
    """Return lines with the effect of the options in the script's first line."""
    words = header.shebang.split()[1:]
    flags = "".join(word[1:] for word in words if re.fullmatch("-[a-z]+", word))
    lines = []
    if "l" in flags or "--login" in words:
        files = "for file in ~/.bash_profile ~/.bash_login ~/.profile; do"
        lines += [
            "source /etc/profile",
            f'{files} if [ -r "$file" ]; then source "$file"; break; fi; done',
        ]
    kept_flags = "".join(letter for letter in "eux" if letter in flags)
    return [*lines, f"set -{kept_flags}"] if kept_flags else lines


def _run_text(body: str, header: Header) -> str:
    """Return the text of ``run``: the script's commands, at least ``:``."""
    lines = [*_first_lines(header), *body.strip("\n").split("\n")]
    if all(not line.strip() or line.lstrip().startswith("#") for line in lines):
        lines.append(":")
    commands = "\n".join(lines).strip("\n") + "\n"
    if commands.count("\n") == 1 or sets_errexit(commands):
        return commands
    return f"set +e\n{commands}"  # a job file's text stops at its first failing line


def uses_arguments(text: str) -> Optional[int]:
    """Return the first line, from 1, that refers to the script's arguments, or None."""
    if re.search(r"(?m)^[ \t]*set[ \t]+--", text):
        return None  # the script sets its own arguments
    root, _, _ = parse(text)
    stack = [root]
    while stack:
        node = stack.pop()
        # $1, ${1…, $@, $*, $#, ${#}, and ${#1…
        if re.match(r"\$(\{?[1-9@*]|#|\{#[}@*1-9])", text_of(node)) and "expansion" in node.type:
            return node.start_point[0] + 1
        if node.type != "function_definition":
            stack += reversed(node.children)
    return None
