"""job.yaml and the user's config.yaml: command-line options in a file."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

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
    from neuronctl.catalog.model import Cluster
    from neuronctl.request.axes import Axis

JOB_FILE = "job.yaml"
"""What ``submit`` and ``generate`` read in the current directory where no job is named."""

JOBS = "jobs"
"""The key of a job file that describes a pipeline: its jobs, by their names."""

ON = "on"
"""The key of a configuration that names the cluster on which commands run."""

_LONGEST = 4 * 1024 * 1024
"""Bytes of shell text: sbatch takes no longer script."""

# Allowed in a job file, but not in a user's defaults.
_PROGRAM_KEYS = ("script", "args", "run", "steps", "sweep", JOBS)

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
    if _is_program(path):
        raise JobFileError(
            f"{path} is a program, not a job file",
            "-f takes a YAML file with options; put the program after the options, without -f",
        )
    return _layer(yamlfile.read(path, JobFileError), Source.JOB_FILE, _PROGRAM_KEYS)


def own_job_file() -> Optional[Layer]:
    """Return the job of the user's own JOB_FILE here, or None; raise JobFileError."""
    if not present(JOB_FILE):
        return None
    try:
        text = yamlfile.text_of(JOB_FILE, JobFileError, found=True)
    except JobFileError as error:
        other = f"name it, if you trust it: -f {JOB_FILE}"
        hint = f"{error.hint}; or {other}" if error.hint else ""
        raise JobFileError(error.message, hint) from None
    return parse_job_file(text, JOB_FILE)


def parse_job_file(text: str, path: str) -> Layer:
    """Return the job that the text of a job file describes; raises JobFileError with path:line."""
    return _layer(yamlfile.parse(text, path, JobFileError), Source.JOB_FILE, _PROGRAM_KEYS)


def read_config(path: str) -> Layer:
    """Read a configuration file; a missing one sets nothing, nor does one of comments alone.

    Raises JobFileError with file:line.
    """
    if not present(path):
        return Layer({}, {})
    try:
        # Most commands read the configuration, so it is cached.
        document = yamlfile.read(path, JobFileError, found=True, private=_PRIVATE_KEYS)
    except JobFileError:
        if has_keys(yamlfile.text_of(path, JobFileError, found=True)):
            raise
        return Layer({}, {})
    return _layer(document, Source.CONFIG, ())


def has_keys(text: str) -> bool:
    """Return True if a file has more than comments and blank lines."""
    return any(line.strip() and not line.lstrip().startswith("#") for line in text.split("\n"))


def describes_pipeline(path: str) -> bool:
    """Return True if a job file describes a pipeline; False for a pipe, which is read only once."""
    with contextlib.suppress(OSError, JobFileError):
        if os.path.isfile(path) and re.search(rb"\bjobs\b", head(path, _LONGEST)):
            return JOBS in yamlfile.read(path, JobFileError).data
    return False


def read_pipeline(path: str) -> Dict[str, Layer]:
    """Return the jobs of a pipeline by their names, each with what the file sets for all.

    Raises JobFileError with file:line.
    """
    document = yamlfile.read(path, JobFileError)
    shared, jobs = _layer(document, Source.JOB_FILE, ()), document.data.get(JOBS)
    read = _Reader(document, (JOBS,))
    if not isinstance(jobs, dict) or not jobs:
        raise read.error(f"expected jobs by their names, found {_kind(jobs)}", _JOBS_EXAMPLE)
    layers: Dict[str, Layer] = {}
    for name, data in jobs.items():
        place = read.child(str(name))
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,49}", str(name)):
            raise place.error("a job's name has up to 50 letters, digits, _ and -")
        if not isinstance(data, dict):
            raise place.error(f"expected the options of a job, found {_kind(data)}", _JOBS_EXAMPLE)
        own = _layer(document, Source.JOB_FILE, _PROGRAM_KEYS[:-1], (JOBS, name))
        if not {"script", "body", "steps"} & own.values.keys():
            raise place.error("the job has no program", "add 'script:' or 'run:'")
        layers[name] = merge([shared, own])
    return layers


_JOBS_EXAMPLE = (
    "jobs: {prepare: {script: prepare.py}, train: {script: train.py, after-ok: prepare}}"
)


def parse_steps(steps: Sequence[Mapping[str, Any]]) -> Tuple[StepRequest, ...]:
    """Read steps as a job file has them; raise JobFileError."""
    return _steps(steps, _Reader(Document("steps", {"steps": steps}, {}, {}), ("steps",)))


def configuration() -> Layer:
    """Return the site's and the user's defaults, the user's on top; raise JobFileError."""
    return merge([read_config(file) for file in config_files()])


def configured_cluster() -> Optional[str]:
    """Return the cluster in the user's configuration, or None; raise JobFileError."""
    return configuration().values.get("cluster")


def configured_remote() -> str:
    """Return the cluster of ``on:`` in the configuration, or ""; raise JobFileError."""
    for file in reversed(config_files()):
        document = yamlfile.read(file, JobFileError, found=True, private=_PRIVATE_KEYS)
        if ON in document.data:
            return _Reader(document, (ON,)).text(document.data[ON])
    return ""


def own_cluster(catalog_file: Optional[str] = None, asked: Optional[str] = None) -> Cluster:
    """Return the requested cluster, that of the configuration, or this machine's."""
    from neuronctl.catalog.loader import load, recognise

    return recognise(load(catalog_file), asked or configured_cluster())[0]


def _layer(
    document: Document, source: Source, program_keys: Sequence[str], at: Tuple[str, ...] = ()
) -> Layer:
    """Return the fields set by a document, or by a part of it, such as a job."""
    values: Dict[str, Any] = {}
    origins: Dict[str, Origin] = {}
    rows = document.data
    for part in at:
        rows = rows[part]
    for key, data in rows.items():
        read = _Reader(document, (*at, key))
        if key == JOBS and source is Source.JOB_FILE and not at:
            if JOBS not in program_keys:
                continue
            words = "the file describes a pipeline, and not one job"
            raise read.error(words, "'neuronctl submit -f FILE', with --dry-run to see its scripts")
        if key == ON and source is Source.CONFIG:  # belongs to the command line, not to a job
            continue
        if key in program_keys:
            fields = _program(key, data, read)
        else:
            option = find(key)
            if option is None:
                raise _unknown(key, (*program_keys, *BY_NAME), read.where)
            fields = _option(option, data, read)
        for name, value in fields.items():
            if name in values:
                raise read.error(
                    f"sets the same value as {origins[name].where}", "keep only one of them"
                )
            values[name] = value
            origins[name] = Origin(source, read.where)
    _one_program(values, lambda name: origins[name].where)
    for name in ("body", "steps"):
        if name in values:
            values["text_file"], origins["text_file"] = document.file, origins[name]
    return Layer(values, origins)


def _unknown(key: str, known: Sequence[str], where: str) -> JobFileError:
    return JobFileError(f"{where}: unknown key '{key}'", did_you_mean(key.replace("_", "-"), known))


@dataclass(frozen=True)
class _Reader:
    """Reads one place in a file."""

    document: Document
    path: Tuple[str, ...]

    def child(self, *path: str) -> _Reader:
        return _Reader(self.document, (*self.path, *path))

    @property
    def where(self) -> str:
        return self.document.where(self.path)

    def error(self, message: str, hint: str = "") -> JobFileError:
        keys = [key for key in self.path if not key.isdigit()]
        key = keys[-1] if keys[0] in ("steps", JOBS) else keys[0]
        return JobFileError(f"{self.where}: {key}: {message}", hint)

    def text(self, value: Any) -> str:
        # Keep a number as typed: to a program, 1.10 is not 1.1.
        raw = self.document.raw.get(path_key(self.path))
        if value is None or isinstance(value, (dict, list)):
            raise self.error(f"expected one value, found {_kind(value)}")
        return str(value) if raw is None else raw

    def items(self, value: Any, example: str) -> List[Tuple[_Reader, Any]]:
        """Return the entries of a list, each with its place."""
        if not isinstance(value, list):
            raise self.error(f"expected a list, found {_kind(value)}", example)
        return [(self.child(str(index)), item) for index, item in enumerate(value)]


def _is_program(path: str) -> bool:
    if not os.path.isfile(path):  # a pipe can be read only once
        return False
    # For others, the YAML reader explains why it cannot read them.
    kind = os.path.splitext(path)[1]
    return kind in (".py", ".sh", ".sbatch", ".slurm") or head(path, 2) == b"#!"


def _program(key: str, data: Any, read: _Reader) -> Dict[str, Any]:
    if key == "script":
        return {"script": read.text(data)}
    if key == "run":
        try:
            return {"body": shell_text(read.text(data))}
        except ValueError as error:
            raise read.error(str(error)) from None
    if key == "steps":
        return {"steps": _steps(data, read)}
    if key == "sweep":
        return {"sweep": _sweep(data, read)}
    example = 'write one argument per entry: args: [--lr, "0.1"]'
    args = tuple(place.text(item) for place, item in read.items(data, example))
    if any("\0" in arg for arg in args):
        raise read.error("an argument cannot contain a NUL byte")
    return {"args": args}


def _sweep(data: Any, read: _Reader) -> Tuple[Axis, ...]:
    from neuronctl.request.axes import SOURCES, make_axes

    def texts(value: Any, place: _Reader) -> Any:
        if isinstance(value, dict):
            return {name: texts(item, place.child(name)) for name, item in value.items()}
        if isinstance(value, list):
            return [texts(item, entry) for entry, item in place.items(value, "")]
        return place.text(value)

    if not isinstance(data, dict) or not data:
        raise read.error(f"expected {', '.join(SOURCES)}, found {_kind(data)}")
    axes: List[Axis] = []
    for key, value in data.items():
        place = read.child(key)
        if key not in SOURCES:
            raise _unknown(key, SOURCES, place.where)
        try:
            axes.extend(make_axes(key, texts(value, place)))
        except ValueError as error:
            raise place.error(f"{key}: {error}") from None
    return tuple(axes)


def _steps(data: Any, read: _Reader) -> Tuple[StepRequest, ...]:
    example = "write one step per entry, such as '- run: python prepare.py'"
    steps = tuple(_step(item, place) for place, item in read.items(data, example))
    if not steps:
        raise read.error("has no entries", example)
    return steps


def _step(data: Any, read: _Reader) -> StepRequest:
    valid = ("run", "script", "args", *_STEP_OPTIONS, "allow-failure", "together")
    if not isinstance(data, dict):
        raise read.error(f"expected a step with run, script, or together, found {_kind(data)}")
    values: Dict[str, Any] = {}
    for raw, value in data.items():
        key, place = str(raw).replace("_", "-"), read.child(str(raw))
        if key not in valid:
            raise _unknown(str(raw), valid, place.where)
        if key == "allow-failure":
            if not isinstance(value, bool):
                raise place.error(f"expected true or false, found {_kind(value)}")
            values["allow_failure"] = value
        elif key == "together":
            values["together"] = _steps(value, place)
        elif key in _STEP_OPTIONS:
            fields = _option(BY_NAME[key], value, place)
            if "gpu_type" in fields or "max_nodes" in fields:
                raise place.error("the type of GPU, or a range, is the job's: give a number alone")
            values.update(fields)
        else:
            values.update(_program(key, value, place))
    _one_program(values, lambda name: read.where)
    if not any(values.get(name) for name in ("script", "body", "together")):
        raise read.error("a step needs run, script, or together")
    if "together" in values and values.keys() - {"together", "allow_failure"}:
        raise read.error("together has its launchers and sizes in its own steps")
    if any(step.together for step in values.get("together", ())):
        raise read.error("together cannot contain together")
    return StepRequest(**values)


def _one_program(values: Mapping[str, Any], where: Callable[[str], str]) -> None:
    """Raise JobFileError if more than one program is given."""
    words = {"script": "script", "body": "run", "steps": "steps", "together": "together"}
    given = [name for name in words if name in values]
    if len(given) > 1:
        raise JobFileError(
            f"{where(given[-1])}: {words[given[0]]} and {words[given[1]]} contradict each other",
            "keep one of them; several programs are steps",
        )
    if "args" in values and given and given != ["script"]:
        raise JobFileError(
            f"{where(given[0])}: args belong to a script, and not to {words[given[0]]}"
        )


def _option(option: Option, data: Any, read: _Reader) -> Dict[str, Any]:
    """Return the fields of an option, from ``data`` as the command line would give it."""
    if option.is_flag:
        text = option.text_of_flag(data)
        if text is None:
            expected = "true or false"
            raise read.error(f"expected {expected}, found {_kind(data)}")
        texts = [text]
    elif option.long == "env" and isinstance(data, dict):
        texts = [f"{name}={read.child(name).text(value)}" for name, value in data.items()]
    elif option.kind == "list" and isinstance(data, list):
        texts = [read.child(str(index)).text(item) for index, item in enumerate(data)]
    else:
        texts = [read.text(data)]
    try:
        return option.parse(texts)
    except ValueError as error:
        raise read.error(str(error), option.usage) from None


def _kind(value: Any) -> str:
    kinds: Tuple[Tuple[type, str], ...] = (
        (dict, "a mapping"),
        (list, "a list"),
        (bool, "true or false"),
        (str, f"the text '{value}'"),
        (int, f"the number {value}"),
        (float, f"the number {value}"),
    )
    return next((word for kind, word in kinds if isinstance(value, kind)), "nothing")


def read_body(file: str) -> Body:
    """Return the shell text in a file, ``-`` for standard input; raise UsageError."""
    name = "standard input" if file == "-" else f"'{file}'"
    try:
        with open_named(file) as stream:
            text = stream.read(_LONGEST).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"--body: cannot read {name}: {problem}") from None
    first, _, rest = text.partition("\n")
    if first.startswith("#!"):
        if not re.search(r"\b(ba)?sh\b", first):
            raise UsageError(
                f"--body: {name} is not for bash: it begins with {first.strip()}",
                "name the file as SCRIPT, without --body",
            )
        text = f"\n{rest}"  # errors name the file's lines
    try:
        return Body(shell_text(text), None if file == "-" else file)
    except ValueError as error:
        raise UsageError(f"--body: {name} {error}") from None
