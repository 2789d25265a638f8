"""job.yaml and the user's config.yaml: command-line options in a file."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from neuronctl.errors import JobFileError, did_you_mean
from neuronctl.paths import config_dir, present
from neuronctl.request.job import Layer, Origin, Source
from neuronctl.request.options import BY_NAME, Option, find
from neuronctl.words import other_dash, with_plain_dashes

# Allowed in a job file, but not among a user's defaults.
_PROGRAM_KEYS = ("script", "args")

# These keys may contain a secret; a file that uses them is never cached.
_PRIVATE_KEYS = ("env", "setup")


def read_job_file(path: str) -> Layer:
    """Read the job that ``path`` describes; raises JobFileError with file:line."""
    if not path:
        raise JobFileError("empty job file name", "name a YAML file with options")
    if _is_program(path):
        raise JobFileError(
            f"{path} is a program, not a job file",
            "-f takes a YAML file with options; put the program after the options, without -f",
        )
    return _read(path, Source.JOB_FILE, _PROGRAM_KEYS)


def read_config(path: str) -> Layer:
    """Read the user's defaults; a missing file sets none. Raises JobFileError with file:line."""
    return _read(path, Source.CONFIG, ()) if present(path) else Layer({}, {})


def configuration() -> Layer:
    """The user's own defaults. Raises JobFileError with file:line."""
    return read_config(os.path.join(config_dir(), "config.yaml"))


def configured_cluster() -> Optional[str]:
    """The cluster in the user's configuration, or None. Raises JobFileError with file:line."""
    return configuration().values.get("cluster")


def _read(path: str, source: Source, program_keys: Sequence[str]) -> Layer:
    from neuronctl import yamlfile

    # Most commands read the configuration, so it is cached.
    config = source is Source.CONFIG
    document = yamlfile.read(path, JobFileError, keep=config, private=_PRIVATE_KEYS)
    values: Dict[str, Any] = {}
    origins: Dict[str, Origin] = {}
    for key, data in document.data.items():
        place = document.where((key,))

        def text(value: Any, *below: str, key: str = key, place: str = place) -> str:
            # A number as it was typed: to a program, 1.10 is not 1.1.
            raw = document.raw.get((key, *below))
            if value is None or isinstance(value, (dict, list)):
                raise JobFileError(
                    f"{document.where((key, *below))}: {key}: expected one value, "
                    f"found {_kind(value)}"
                )
            return str(value) if raw is None else raw

        if key in program_keys:
            fields = _program(key, data, text, place)
        else:
            option = find(key)
            if option is None:
                dash = other_dash(key)
                key = with_plain_dashes(key) if dash else key
                hint = did_you_mean(key.replace("_", "-"), (*program_keys, *BY_NAME))
                words = f", which contains {dash}, not '-'" if dash else ""
                raise JobFileError(f"{place}: unknown key '{key}'{words}", hint)
            try:
                fields = option.parse(_texts(option, data, text, place))
            except ValueError as error:
                raise JobFileError(f"{place}: {key}: {error}", option.usage) from None
        for name, value in fields.items():
            if name in values:
                raise JobFileError(
                    f"{place}: {key} sets the same value as {origins[name].where}",
                    "keep only one of them",
                )
            values[name] = value
            origins[name] = Origin(source, place)
    return Layer(values, origins)


def _is_program(path: str) -> bool:
    if os.path.splitext(path)[1] in (".py", ".sh", ".sbatch", ".slurm"):
        return os.path.isfile(path)
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False  # the YAML reader reports why


def _program(key: str, data: Any, text: Callable[..., str], place: str) -> Dict[str, Any]:
    if key == "script":
        return {"script": text(data)}
    if not isinstance(data, list):
        raise JobFileError(
            f"{place}: args: expected a list, found {_kind(data)}",
            'write one argument per entry: args: [--lr, "0.1"]',
        )
    args = tuple(text(item, str(index)) for index, item in enumerate(data))
    for arg in args:
        if "\0" in arg:
            raise JobFileError(f"{place}: args: an argument cannot contain a NUL byte")
    return {"args": args}


def _texts(option: Option, data: Any, text: Callable[..., str], place: str) -> List[str]:
    """``data`` as the texts that the same option takes on the command line."""
    if option.kind in ("flag", "switch"):
        if not isinstance(data, bool):
            raise JobFileError(
                f"{place}: {option.long}: expected true or false, found {_kind(data)}"
            )
        return ["true" if data else "false"]
    if option.kind == "list":
        if isinstance(data, dict) and option.long == "env":
            return [f"{name}={text(value, name)}" for name, value in data.items()]
        if isinstance(data, list):
            return [text(item, str(index)) for index, item in enumerate(data)]
    return [text(data)]


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
