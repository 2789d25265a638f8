"""job.yaml and the user's config.yaml: command-line options in a file."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from neuronctl.common import yamlfile
from neuronctl.common.datatypes import dataclass
from neuronctl.common.errors import JobFileError, UsageError, did_you_mean
from neuronctl.common.files import head, open_named
from neuronctl.common.paths import config_files, present
from neuronctl.common.yamlfile import Document, path_key
from neuronctl.request.job import BY_NAME, Body, Layer, Origin, Source, StepRequest, find, merge
from neuronctl.request.options import Option
from neuronctl.request.values import shell_text

if TYPE_CHECKING:
    from neuronctl.catalog.cluster import Cluster
    from neuronctl.request.axes import Axis

JOB_FILE = "job.yaml"
"""What ``submit`` and ``generate`` read in the current directory if no job is named."""

JOBS = "jobs"
"""The key of a job file that describes a pipeline: its jobs, by their names."""

ON = "on"
"""The key of a configuration that names the cluster on which commands run."""

_LONGEST = 4 * 1024 * 1024
"""Bytes of shell text: sbatch accepts no longer script."""

# Allowed in a job file, but not in a user's defaults.
_KEYS_OF_ONE_JOB = ("script", "args", "run", "steps", "sweep")
_PROGRAM_KEYS = (*_KEYS_OF_ONE_JOB, JOBS)

# A step may have its own.
_STEP_OPTIONS = (
    *("launcher", "launcher-option", "nodes", "ntasks-per-node", "cpus-per-task", "gpus-per-node"),
)

# These keys may contain a secret; a file that uses them is never cached.
_PRIVATE_KEYS = ("env", "setup", "run", "steps", "sweep")


def read_job_file(path: str) -> Layer:
    """Read the job that ``path`` describes; raises JobFileError with file:line."""
    if not path:
        raise JobFileError("empty job file name", "name a YAML file with options")
    is_named_as_program = os.path.splitext(path)[1] in (".py", ".sh", ".sbatch", ".slurm")
    # Look into no pipe, which can be read only once.
    if os.path.isfile(path) and (is_named_as_program or head(path, 2) == b"#!"):
        hint = "-f takes a YAML file with options; put the program after the options, without -f"
        raise JobFileError(f"{path} is a program, not a job file", hint)
    return _layer(_nodes(yamlfile.read(path, JobFileError)), Source.JOB_FILE, _PROGRAM_KEYS)


def own_job_file() -> Optional[Layer]:
    """Return the job of the user's own JOB_FILE here, or None; raise JobFileError."""
    if not present(JOB_FILE):
        return None
    try:
        text = yamlfile.text_of(JOB_FILE, JobFileError, found=True)
    except JobFileError as error:
        # Without a hint, it cannot be read under any name.
        hint = f"{error.hint}; or name it, if you trust it: -f {JOB_FILE}" if error.hint else ""
        raise JobFileError(error.message, hint) from None
    return parse_job_file(text, JOB_FILE)


def parse_job_file(text: str, path: str) -> Layer:
    """Return the job that the text of a job file describes; raises JobFileError with path:line."""
    document = yamlfile.parse(text, path, JobFileError)
    return _layer(_nodes(document), Source.JOB_FILE, _PROGRAM_KEYS)


def read_config(path: str) -> Layer:
    """Read a configuration file; a missing one sets nothing. Raises JobFileError with file:line."""
    nodes = _nodes(_config_document(path))
    nodes.pop(ON, None)  # belongs to the command line, not to a job
    return _layer(nodes, Source.CONFIG, ())


def _config_document(path: str) -> Document:
    """Return a configuration file; one that is missing or has only comments is empty."""
    if not present(path):
        return Document(path, {}, {}, {})
    try:
        # Most commands read the configuration, so it is cached.
        return yamlfile.read(path, JobFileError, found=True, private=_PRIVATE_KEYS)
    except JobFileError:
        text = yamlfile.text_of(path, JobFileError, found=True)
        if any(line.strip() and not line.lstrip().startswith("#") for line in text.split("\n")):
            raise
        return Document(path, {}, {}, {})


def describes_pipeline(path: str) -> bool:
    """Return True if a job file describes a pipeline; False for a pipe, which is read only once."""
    with contextlib.suppress(OSError, JobFileError):
        if os.path.isfile(path) and re.search(rb"\bjobs\b", head(path, _LONGEST)):
            return JOBS in yamlfile.read(path, JobFileError).data
    return False


def read_pipeline(path: str) -> Dict[str, Layer]:
    """Return the jobs of a pipeline, each with what the file sets for all; raise JobFileError."""
    document = yamlfile.read(path, JobFileError)
    nodes = _nodes(document)
    jobs = nodes.pop(JOBS, _Node(document, (JOBS,), None))
    shared = _layer(nodes, Source.JOB_FILE, ())
    layers: Dict[str, Layer] = {}
    for name, job in jobs.values("jobs by their names", _JOBS_EXAMPLE).items():
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,49}", name):
            raise job.error("a job's name has up to 50 letters, digits, _ and -")
        options = job.values("the options of a job", _JOBS_EXAMPLE)
        layer = _layer(options, Source.JOB_FILE, _KEYS_OF_ONE_JOB)
        if not {"script", "body", "steps"} & layer.values.keys():
            raise job.error("the job has no program", "add 'script:' or 'run:'")
        layers[name] = merge([shared, layer])
    if not layers:
        raise jobs.error("expected jobs by their names, found none", _JOBS_EXAMPLE)
    return layers


_JOBS_EXAMPLE = (
    "jobs: {prepare: {script: prepare.py}, train: {script: train.py, after-ok: prepare}}"
)


def parse_steps(steps: Sequence[Mapping[str, Any]]) -> Tuple[StepRequest, ...]:
    """Read steps in the form of a job file's; raise JobFileError."""
    return _steps(_Node(Document("steps", {}, {}, {}), ("steps",), steps))


def configuration() -> Layer:
    """Return the site's defaults, overridden by the user's; raise JobFileError."""
    return merge([read_config(file) for file in config_files()])


def configured_cluster() -> Optional[str]:
    """Return the cluster in the user's configuration, or None; raise JobFileError."""
    return configuration().values.get("cluster")


def configured_remote() -> str:
    """Return the cluster of ``on:`` in the configuration, or ""; raise JobFileError."""
    for document in map(_config_document, reversed(config_files())):  # the user's before the site's
        if ON in document.data:
            return _nodes(document)[ON].text()
    return ""


@dataclass(frozen=True)
class Setting:
    """A key that a configuration file sets, its value without secrets, and the file and line."""

    key: str
    value: Union[str, List[str], Dict[str, str]]
    where: str

    @property
    def texts(self) -> List[str]:
        """Return the value as texts: ``["A=1", "B=2"]`` for variables."""
        if isinstance(self.value, dict):
            return [f"{name}={text}" for name, text in self.value.items()]
        return [self.value] if isinstance(self.value, str) else self.value


def settings() -> List[Setting]:
    """Return the configuration's settings, each from the file that counts; raise JobFileError."""
    configuration()  # raises the errors of the files
    by_key: Dict[str, Setting] = {}
    for document in map(_config_document, config_files()):
        for name, data in document.data.items():
            key = name.replace("_", "-")
            value = _without_secrets(document, name, data)
            by_key[key] = Setting(key, value, document.where((name,)))
    return list(by_key.values())


def _without_secrets(
    document: Document, key: str, data: Any
) -> Union[str, List[str], Dict[str, str]]:
    """Return a setting's value as typed, with ``***`` for secrets."""
    from neuronctl.common.secrets import hide_in_words, hide_value

    if isinstance(data, dict):
        return {name: hide_value(name, str(value)) for name, value in data.items()}
    if isinstance(data, list):
        return list(hide_in_words(map(str, data)))
    return hide_value(key, document.raw.get(key, str(data)))


def own_cluster(catalog_file: Optional[str] = None, name: Optional[str] = None) -> Cluster:
    """Return the requested cluster, otherwise the configured one, otherwise this machine's."""
    from neuronctl.catalog.loader import load, recognize_cluster

    return recognize_cluster(load(catalog_file), name or configured_cluster())[0]


@dataclass(frozen=True)
class _Node:
    """A value in a file, and the keys that lead to it."""

    document: Document
    path: Tuple[str, ...]
    data: Any

    @property
    def where(self) -> str:
        return self.document.where(self.path)

    @property
    def kind(self) -> str:
        """Describe the value, for a message."""
        if isinstance(self.data, str):
            return f"the text '{self.data}'"
        kinds = {dict: "a mapping", list: "a list", bool: "true or false", type(None): "nothing"}
        return kinds.get(type(self.data), f"the number {self.data}")

    def error(self, message: str, hint: str = "") -> JobFileError:
        """Return the error for this value, with its line, and its key or the key of its list."""
        keys = [key for key in self.path if not key.isdigit()]
        key = keys[-1] if keys[0] in ("steps", JOBS) else keys[0]
        return JobFileError(f"{self.where}: {key}: {message}", hint)

    def text(self) -> str:
        """Return the value as typed: to a program, 1.10 is not 1.1."""
        if self.data is None or isinstance(self.data, (dict, list)):
            raise self.error(f"expected one value, found {self.kind}")
        return self.document.raw.get(path_key(self.path), str(self.data))

    def flag(self) -> bool:
        if not isinstance(self.data, bool):
            raise self.error(f"expected true or false, found {self.kind}")
        return self.data

    def items(self, example: str = "") -> List[_Node]:
        if not isinstance(self.data, list):
            raise self.error(f"expected a list, found {self.kind}", example)
        return [self._child(str(index), item) for index, item in enumerate(self.data)]

    def values(self, expected: str, example: str = "") -> Dict[str, _Node]:
        """Return the values of a mapping, by their keys."""
        if not isinstance(self.data, dict):
            raise self.error(f"expected {expected}, found {self.kind}", example)
        return {str(key): self._child(str(key), value) for key, value in self.data.items()}

    def _child(self, key: str, data: Any) -> _Node:
        return _Node(self.document, (*self.path, key), data)


def _nodes(document: Document) -> Dict[str, _Node]:
    """Return the values of a file, by their keys."""
    return {key: _Node(document, (key,), data) for key, data in document.data.items()}


def _layer(nodes: Mapping[str, _Node], source: Source, program_keys: Sequence[str]) -> Layer:
    """Return the fields that a file, or one job in it, sets. program_keys: keys allowed besides."""
    values: Dict[str, Any] = {}
    origins: Dict[str, Origin] = {}
    for key, node in nodes.items():
        option = find(key)
        if key in program_keys:
            fields = _program(key, node)
        elif option is not None:
            fields = _option(option, node)
        else:
            raise _unknown(key, (*program_keys, *BY_NAME), node.where)
        for name, value in fields.items():
            if name in values:
                message = f"sets the same value as {origins[name].where}"
                raise node.error(message, "keep only one of them")
            values[name] = value
            origins[name] = Origin(source, node.where)
        if "body" in fields or "steps" in fields:
            values["text_file"] = node.document.file
            origins["text_file"] = Origin(source, node.where)
    _check_program(values, {name: origin.where for name, origin in origins.items()})
    return Layer(values, origins)


def _unknown(key: str, keys: Sequence[str], where: str) -> JobFileError:
    return JobFileError(f"{where}: unknown key '{key}'", did_you_mean(key.replace("_", "-"), keys))


def _program(key: str, node: _Node) -> Dict[str, Any]:
    """Return the fields of a key that says what the job runs."""
    if key == JOBS:
        message = "the file describes a pipeline, and not one job"
        raise node.error(message, "'neuronctl submit -f FILE', with --dry-run to see its scripts")
    if key == "script":
        return {"script": node.text()}
    if key == "run":
        try:
            return {"body": shell_text(node.text())}
        except ValueError as error:
            raise node.error(str(error)) from None
    if key == "steps":
        return {"steps": _steps(node)}
    if key == "sweep":
        return {"sweep": _sweep(node)}
    # The only other key is "args".
    example = 'write one argument per entry: args: [--lr, "0.1"]'
    args = tuple(item.text() for item in node.items(example))
    if any("\0" in arg for arg in args):
        raise node.error("an argument cannot contain a NUL byte")
    return {"args": args}


def _sweep(node: _Node) -> Tuple[Axis, ...]:
    """Return the axes of ``sweep:``, from all of its sources."""
    from neuronctl.request.axes import SOURCES, make_axes

    axes: List[Axis] = []
    for key, source in node.values(", ".join(SOURCES)).items():
        if key not in SOURCES:
            raise _unknown(key, SOURCES, source.where)
        try:
            axes += make_axes(key, _texts(source))
        except ValueError as error:
            raise source.error(f"{key}: {error}") from None
    if not axes:
        raise node.error(f"expected {', '.join(SOURCES)}, found none")
    return tuple(axes)


def _texts(node: _Node) -> Any:
    """Return the value with each number as the text that was typed."""
    if isinstance(node.data, dict):
        return {name: _texts(value) for name, value in node.values("").items()}
    return [_texts(item) for item in node.items()] if isinstance(node.data, list) else node.text()


def _steps(node: _Node) -> Tuple[StepRequest, ...]:
    example = "write one step per entry, such as '- run: python prepare.py'"
    steps = tuple(_step(item) for item in node.items(example))
    if not steps:
        raise node.error("has no entries", example)
    return steps


def _step(node: _Node) -> StepRequest:
    valid = ("run", "script", "args", *_STEP_OPTIONS, "allow-failure", "together")
    values: Dict[str, Any] = {}
    for typed, value in node.values("a step with run, script, or together").items():
        key = typed.replace("_", "-")
        if key not in valid:
            raise _unknown(typed, valid, value.where)
        values.update(_step_fields(key, value))
    _check_program(values, dict.fromkeys(values, node.where))
    if not any(values.get(name) for name in ("script", "body", "together")):
        raise node.error("a step needs run, script, or together")
    if "together" in values and values.keys() - {"together", "allow_failure"}:
        raise node.error("together has its launchers and sizes in its own steps")
    if any(step.together for step in values.get("together", ())):
        raise node.error("together cannot contain together")
    return StepRequest(**values)


def _step_fields(key: str, node: _Node) -> Dict[str, Any]:
    """Return the fields of StepRequest that a key sets."""
    if key == "allow-failure":
        return {"allow_failure": node.flag()}
    if key == "together":
        return {"together": _steps(node)}
    if key not in _STEP_OPTIONS:
        return _program(key, node)
    fields = _option(BY_NAME[key], node)
    if "gpu_type" in fields or "max_nodes" in fields:
        raise node.error("the type of GPU, or a range, is the job's: give a number alone")
    return fields


def _check_program(values: Mapping[str, Any], places: Mapping[str, str]) -> None:
    """Raise JobFileError for several programs, or for args without a script. places: by field."""
    keys = {"script": "script", "body": "run", "steps": "steps", "together": "together"}
    first, *others = [field for field in keys if field in values] or [""]  # "": no program
    if others:
        raise JobFileError(
            f"{places[others[-1]]}: {keys[first]} and {keys[others[0]]} contradict each other",
            "keep one of them; several programs are steps",
        )
    if "args" in values and first not in ("", "script"):
        raise JobFileError(f"{places[first]}: args belong to a script, and not to {keys[first]}")


def _option(option: Option, node: _Node) -> Dict[str, Any]:
    """Return the fields of an option, from a value as the command line would have it."""
    if option.is_flag:
        texts = ["true" if node.flag() else "false"]
    elif option.long == "env" and isinstance(node.data, dict):
        texts = [f"{name}={value.text()}" for name, value in node.values("variables").items()]
    elif option.kind == "list" and isinstance(node.data, list):
        texts = [item.text() for item in node.items()]
    else:
        texts = [node.text()]
    try:
        return option.parse(texts)
    except ValueError as error:
        raise node.error(str(error), option.usage) from None


def read_body(file: str) -> Body:
    """Return the shell text in a file, ``-`` for standard input; raise UsageError."""
    name = "standard input" if file == "-" else f"'{file}'"
    try:
        with open_named(file) as stream:
            content = stream.read(_LONGEST).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"--body: cannot read {name}: {problem}") from None
    first_line = content.partition("\n")[0]
    is_script = first_line.startswith("#!")
    if is_script and not re.search(r"\b(ba)?sh\b", first_line):
        raise UsageError(
            f"--body: {name} is not for bash: it begins with {first_line.strip()}",
            "name the file as SCRIPT, without --body",
        )
    # Keep the number of lines, so that errors name the file's.
    text = content[len(first_line) :] if is_script else content
    try:
        return Body(shell_text(text), None if file == "-" else file)
    except ValueError as error:
        raise UsageError(f"--body: {name} {error}") from None
