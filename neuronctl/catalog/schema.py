"""Read a merged catalog into its types, and report everything that is wrong with it.

The keys are the types' field names. A value is read as its field's type says, or by the reader of
its key in ``_BY_KEY`` or ``_MAPPINGS``. Every error names the file and line, the key, the value,
and what is allowed.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import is_dataclass, replace
from functools import partial
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar

from neuronctl.catalog import cluster as types
from neuronctl.catalog.cluster import Cluster, Partition, Path, Place, Price, Qos, WallTime
from neuronctl.common import units
from neuronctl.common.errors import did_you_mean
from neuronctl.common.shell import BASHS_OWN

T = TypeVar("T")

Mistake = Tuple[Place, str, str]
"""Where a mistake is, what is wrong, and what to write."""

Reader = Callable[[Any], Any]
"""Returns a value of YAML as the field has it; raises ValueError with what to write instead."""


def _allow(is_allowed: Callable[[Any], bool], hint: str) -> Reader:
    """Return the reader of the values for which ``is_allowed`` is true."""

    def read(value: object) -> object:
        if not is_allowed(value):
            raise ValueError(hint)
        return value

    return read


def _whole_number(least: int, unit: str = "") -> Reader:
    """Return the reader of a whole number. unit: its unit for the hint, such as " (MB)", or ""."""
    # In Python, bool is an int; to a person who writes `nodes: true`, it is not.
    hint = f"write a whole number of at least {least}{unit}"
    return _allow(lambda value: type(value) is int and value >= least, hint)


def _number(most: float, hint: str) -> Reader:
    return _allow(lambda value: type(value) in (int, float) and 0 <= value <= most, hint)


_count = _whole_number(1)
_amount = _number(1e15, "write a number of at least 0")
_boolean = _allow(lambda value: type(value) is bool, "write true or false")
_text = _allow(
    lambda value: isinstance(value, str) and value.isprintable(),
    "write one line of text; quote it if it looks like a number",
)


def _node_list(value: object) -> str:
    text: str = _text(value)
    if not text:
        return text
    try:
        units.expand_hostlist(text)
    except ValueError as error:
        raise ValueError(f"write a host list such as gpu[01-05,07],gpu10: {error}") from None
    return text


def _text_or_number(value: object) -> Any:
    return str(value) if type(value) is int else _text(value)


def _words(value: object, read: Reader = _text) -> Tuple[str, ...]:
    """Return a list of words. read: the reader of each."""
    hint = "write a list of words: [one, two]; quote words that look like numbers"
    if not isinstance(value, list):
        raise ValueError(hint)
    words = []
    for item in value:
        try:
            words.append(read(item))
        except ValueError:
            raise ValueError(f"instead of {_show(item)}, {hint}") from None
    if not all(words):
        raise ValueError(hint)
    return tuple(words)


def _duration(value: object) -> int:
    """Return a time in seconds, or UNLIMITED."""
    if str(value).upper() == "UNLIMITED":
        return units.UNLIMITED
    if type(value) in (int, str):
        with contextlib.suppress(ValueError):
            seconds = units.parse_duration(str(value))
            if seconds:
                return seconds
    raise ValueError(f"use {units.TIME_FORMS}, or UNLIMITED; a bare number is minutes")


def _cores_per_node(value: object) -> Tuple[int, ...]:
    numbers = value if isinstance(value, list) and value else [value]
    return tuple(map(_count, numbers))


def _pattern(value: object) -> Any:
    try:
        re.compile(_text(value))
    except re.error as error:
        raise ValueError(f"write a regular expression such as 'p-[0-9]+': {error}") from None
    return value


def _form(pattern: str, hint: str, read: Reader = _text) -> Reader:
    """Return the reader of a text of this form, or of a list of such texts; "" is allowed, too."""

    def read_form(value: object) -> object:
        result = read(value)
        texts = (result,) if isinstance(result, str) else result
        for text in texts:
            if text and not re.fullmatch(pattern, text):
                raise ValueError(hint if text == result else f"instead of {text!r}, {hint}")
        return result

    return read_form


def _choice(*words: str) -> Reader:
    return _allow(lambda value: value in words, f"write one of {', '.join(words)}")


ARCHITECTURES = ("x86_64", "aarch64", "ppc64le")

_DIRECTORY = (
    r"/([\w./@%+=:-]|\{user\})*",
    "write an absolute path of plain words; {user} stands for the login name",
)
_PLAIN = _form(
    r"[\w.@%+=:-]*",
    "it becomes part of shell commands: use letters, digits, '.', '_', and '-'",
)
_COMMAND = r"[\w./@%+=:-]+( [\w./@%+=:-]+)*"
_EVIDENCE = r"(guide|advice|slurm)( \(.+\))?|observation \(.+\)"

_BY_TYPE: Mapping[str, Reader] = {
    "str": _text,
    "Optional[str]": _text,
    "Optional[int]": _count,
    "float": _amount,
    "Optional[float]": _amount,
    "bool": _boolean,
    "Tuple[str, ...]": _words,
}

_BY_KEY: Mapping[str, Reader] = {
    **dict.fromkeys(("default", "maximum", "interactive_maximum"), _duration),
    **dict.fromkeys(("gpus_per_node", "priority"), _whole_number(0)),
    **dict.fromkeys(("gpu", "default_partition"), _text_or_number),
    **dict.fromkeys(
        ("gpu_types", "accounts", "features", "partitions"), partial(_words, read=_text_or_number)
    ),
    **dict.fromkeys(("submit_from", "image_dirs"), _form(*_DIRECTORY, _words)),
    **dict.fromkeys(("scratch", "path"), _form(*_DIRECTORY)),
    **dict.fromkeys(("interface", "host_suffix", "host"), _PLAIN),
    "arch": _choice(*ARCHITECTURES),
    "form": _choice("any", "word", "fields"),
    "gpu_option": _choice("gres", "gpus-per-node"),
    "rule": _choice("cap", "default", "none"),
    "runtime": _choice("singularity", "apptainer"),
    # Codes of rules that earlier versions had are allowed, too.
    "rules_off": _form(r"NC[0-9]{3}", "write codes of rules, such as NC304", _words),
    "quota": _form(_COMMAND, "write a command of plain words, which no shell reads"),
    "date": _form(
        r"\d{4}(-\d{2}(-\d{2})?)?", "write 2026-08-12, 2026-08, or 2026", _text_or_number
    ),
    "memory_mb_per_node": _whole_number(1, " (MB)"),
    "memory_fraction": _number(1, "write a number of at least 0 and at most 1"),
    "cores_per_node": _cores_per_node,
    "node_list": _node_list,
    "pattern": _pattern,
}

_MAPPINGS: Mapping[str, Reader] = {
    **dict.fromkeys(("forbidden_options", "launcher_instead_of", "meanings"), _text),
    "evidence": _form(_EVIDENCE, "write guide, advice, slurm, or observation (WHERE, WHEN)"),
    "environment": _text_or_number,
    "fields": _words,
}
"""The keys whose value is a mapping of names, and the reader of its values."""

_NAMES: Mapping[str, Tuple[str, str, str]] = {
    "environment": (
        rf"(?!(?:{'|'.join(BASHS_OWN)})$)[A-Za-z_][A-Za-z0-9_]*",
        "is no variable that a script may set",
        "use another name",
    ),
    "fields": ("[A-Za-z0-9_-]+", "is not one word", "write, for example, 'field: [nlp, cv]'"),
}
"""The form of the names in some of these mappings, what is wrong with another, and the hint."""

_TYPES: Mapping[str, Any] = {name: kind for name, kind in vars(types).items() if is_dataclass(kind)}


class Node:
    """One mapping of the merged catalog; its wrong values are left out and noted in ``errors``."""

    def __init__(
        self,
        data: Mapping[str, Any],
        path: Path,
        places: Mapping[Path, Place],
        errors: Dict[Path, Mistake],
    ) -> None:
        self.data = data
        self.path = path
        self.places = places
        self.errors = errors

    def refuse(self, key: str, message: str, hint: str = "") -> None:
        """Report an error about a key of this mapping, "" for the mapping itself."""
        path = (*self.path, key) if key else self.path
        nearest = path
        while nearest and nearest not in self.places:  # look for the nearest key that is in a file
            nearest = nearest[:-1]
        first_line = (0, 1)  # of the lowest layer
        place = self.places.get(nearest, first_line)
        self.errors.setdefault(path, (place, f"{'.'.join(path)}: {message}", hint))

    def check_keys(self, allowed: Sequence[str]) -> None:
        """Report each key that is not one of these."""
        for key in self.data:
            if key not in allowed:
                self.refuse(key, "unknown key", did_you_mean(key, allowed))

    def present(self) -> List[str]:
        """Return the keys that no higher layer removed with null."""
        return [key for key in self.data if self.data[key] is not None]

    def below(self, key: str) -> Node:
        """Return the mapping at a key; an empty one if there is none."""
        data = self.data.get(key)
        if data is not None and not isinstance(data, dict):
            self.refuse(key, f"{_show(data)} is not allowed", "write a mapping, 'key: value' lines")
            data = None
        return Node(data or {}, (*self.path, key), self.places, self.errors)

    def read(self, key: str, reader: Reader = _text, default: Any = "") -> Any:
        """Return the value at a key; the default if there is none, or a wrong one."""
        value = self.data.get(key)
        if value is None:
            return default
        try:
            return reader(value)
        except ValueError as error:
            self.refuse(key, f"{_show(value)} is not allowed", str(error))
            return default


def _show(value: object) -> str:
    """Return a value as YAML has it, cut to 60 characters."""
    if isinstance(value, bool):
        return str(value).lower()
    text = "a mapping" if isinstance(value, dict) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def fields(model: type) -> Tuple[str, ...]:
    """Return the keys of a model's mapping: its field names, except ``name``."""
    return tuple(key for key in model.__annotations__ if key != "name")


def _build(model: Type[T], node: Node, inherited: Optional[T] = None, **values: Any) -> T:
    """Build an object of a model from a mapping.

    inherited: the object with the values of keys that the mapping lacks; None: these get the
    model's defaults. A null in the mapping means the default, whatever is inherited. values: by
    key, those that were read already.
    """
    node.check_keys(fields(model))
    base = model if inherited is None else inherited
    for key, kind in model.__annotations__.items():
        if key in values:
            continue
        if key in _MAPPINGS:
            values[key] = _read_mapping(key, node.below(key))
        elif kind in _TYPES:
            values[key] = _build(_TYPES[kind], node.below(key), getattr(base, key))
        else:
            is_null = key in node.data and node.data[key] is None
            default = getattr(model if is_null else base, key, None)
            values[key] = node.read(key, _BY_KEY.get(key) or _BY_TYPE[kind], default)
    return model(**values)


def _read_mapping(key: str, node: Node) -> Dict[str, Any]:
    """Return a mapping with names of the user's choice; ``_MAPPINGS`` has the values' reader."""
    any_name = (".*", "", "")
    pattern, mistake, hint = _NAMES.get(key, any_name)
    for name in node.present():
        if not re.fullmatch(pattern, name, re.DOTALL):
            node.refuse(name, mistake, hint)
    return {name: node.read(name, _MAPPINGS[key]) for name in node.present()}


def read_cluster(name: str, node: Node) -> Cluster:
    """Return the cluster that a mapping describes."""
    _check_name(name, node)
    for key in ("source", "date"):
        if node.data.get(key) is None:
            node.refuse("", f"{key} is missing", f"add '{key}: …': where the figures come from")
    base = Partition(  # what the cluster's partitions inherit
        name,
        arch=node.read("arch", _BY_KEY["arch"], Cluster.arch),
        wall_time=_build(WallTime, node.below("wall_time")),
        price=_build(Price, node.below("price")),
    )
    entries = node.below("partitions")
    partitions = {key: _read_partition(key, entries.below(key), base) for key in entries.present()}
    of_qos = node.below("qos")
    every_qos = {key: _read_qos(key, of_qos.below(key), partitions) for key in of_qos.present()}
    if not partitions and node.path not in node.errors:
        node.refuse("", "the cluster has no partitions", "add at least one under 'partitions:'")
    cluster = _build(
        Cluster,
        node,
        name=name,
        title=node.read("title", default=name),
        partitions=partitions,
        qos=every_qos,
    )
    if cluster.default_partition not in (None, *partitions):
        default = str(cluster.default_partition)
        words = f"the cluster has no partition {default!r}"
        node.refuse("default_partition", words, did_you_mean(default, partitions))
    if cluster.policy.comment.form == "fields" and not cluster.policy.comment.fields:
        comment = node.below("policy").below("comment")
        comment.refuse("fields", "'form: fields' has no fields", "list them under 'fields:'")
    return cluster


def _read_partition(name: str, node: Node, base: Partition) -> Partition:
    """Return a partition. base: the values that it inherits from its cluster."""
    _check_name(name, node)
    if name == "auto":
        node.refuse("", "reserved name", "-p auto lets neuronctl choose a partition")
    wall_time = _build(WallTime, node.below("wall_time"), base.wall_time)
    entry = _build(Partition, node, base, name=name, wall_time=wall_time.clamped())
    if entry.nodes is None:
        entry = replace(entry, nodes=len(units.hosts(entry.node_list)) or None)
    if len(entry.cores_per_node) > 1 and len(entry.cores_per_node) != (entry.nodes or 0):
        words = f"has {len(entry.cores_per_node)} values for {entry.nodes} nodes"
        node.refuse("cores_per_node", words, "write one number, or a list with one per node")
    return entry


def _read_qos(name: str, node: Node, partitions: Mapping[str, Partition]) -> Qos:
    _check_name(name, node)
    entry = _build(Qos, node, name=name)
    for partition in entry.partitions:
        if partition not in partitions:
            words = f"the cluster has no partition {partition!r}"
            node.refuse("partitions", words, did_you_mean(partition, partitions))
    return entry


def _check_name(name: str, node: Node) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        node.refuse("", "invalid name", "use letters, digits, '.', '_', and '-'")
