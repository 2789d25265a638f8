"""Read a merged catalog into the model, and report everything that is wrong with it.

The keys are the model's field names. A value is read as its field's type says, or by the reader of
its key in ``_BY_KEY``. Every error names the file and line, the key, the value, and what is
allowed.
"""

from __future__ import annotations

import contextlib
import re
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar

from neuronctl.catalog import cluster as catalog
from neuronctl.catalog.cluster import Cluster, Partition, Path, Place, Price, Qos, WallTime
from neuronctl.common import units
from neuronctl.common.datatypes import is_datatype, replace
from neuronctl.common.errors import did_you_mean
from neuronctl.common.shell import BASHS_OWN

T = TypeVar("T")

ARCHITECTURES = ("x86_64", "aarch64", "ppc64le")

_CHOICES: Mapping[str, Sequence[str]] = {
    "arch": ARCHITECTURES,
    "form": ("any", "word", "fields"),
    "gpu_option": ("gres", "gpus-per-node"),
    "rule": ("cap", "default", "none"),
    "runtime": ("singularity", "apptainer"),
}
"""The keys whose value, or each of whose values, is one of these words."""

_DIRECTORY = (
    r"/([\w./@%+=:-]|\{user\})*",
    "write an absolute path of plain words; {user} stands for the login name",
)
_PLAIN = (
    r"[\w.@%+=:-]*",
    "it becomes part of shell commands: use letters, digits, '.', '_', and '-'",
)
_FORMS: Mapping[str, Tuple[str, str]] = {
    # Also of rules that earlier versions had.
    "rules_off": (r"NC[0-9]{3}", "write codes of rules, such as NC304"),
    **dict.fromkeys(("submit_from", "image_dirs", "scratch", "path"), _DIRECTORY),
    **dict.fromkeys(("interface", "host_suffix", "host"), _PLAIN),
    "quota": (
        r"[\w./@%+=:-]+( [\w./@%+=:-]+)*",
        "write a command of plain words, which no shell reads",
    ),
    "date": (r"\d{4}(-\d{2}(-\d{2})?)?", "write 2026-08-12, 2026-08, or 2026"),
    "evidence": (
        r"(guide|advice|slurm)( \(.+\))?|observation \(.+\)",
        "write guide, advice, slurm, or observation (WHERE, WHEN)",
    ),
}
"""The pattern of a key's value, or of each of its values, and what to write."""


Mistake = Tuple[Place, str, str]
"""Where it is, what is wrong, and what to write."""


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
        path = above = (*self.path, key) if key else self.path
        while above and above not in self.places:
            above = above[:-1]
        mistake = self.places.get(above, (0, 1)), f"{'.'.join(path)}: {message}", hint
        self.errors.setdefault(path, mistake)

    def check_keys(self, allowed: Sequence[str]) -> None:
        """Report each key that is not one of these."""
        for key in self.data:
            if key not in allowed:
                self.refuse(key, "unknown key", did_you_mean(key, allowed))

    def present(self) -> List[str]:
        """Return the keys that no higher layer removed with null."""
        return [key for key in self.data if self.data[key] is not None]

    def below(self, key: str) -> Node:
        """Return the mapping at a key; empty without one."""
        data = self.typed(key, dict, "a mapping, 'key: value' lines")
        return Node(data or {}, (*self.path, key), self.places, self.errors)

    def typed(self, key: str, kind: type, allowed: str) -> Any:
        """Return the value, or None. allowed: the possible values, for messages."""
        value = self.data.get(key)
        # In Python, bool is an int; to a person who writes `nodes: true`, it is not.
        if value is not None and type(value) is not kind:
            self.refuse(key, f"{_show(value)} is not allowed", f"write {allowed}")
            return None
        return value

    def text(self, key: str, default: Any = "", *, or_number: bool = False) -> Any:
        """Return one line of text; with ``or_number``, a whole number as its digits."""
        if (or_number or key in _FORMS) and type(self.data.get(key)) is int:
            return str(self.data[key])
        value = self.typed(key, str, "text (quote it if it looks like a number)")
        if value is not None and not value.isprintable():
            self.refuse(key, f"{value!r} is not one line of text", "write one line of text")
            value = None
        return default if value is None else value

    def boolean(self, key: str, default: Any) -> Any:
        """Return a boolean."""
        value = self.typed(key, bool, "true or false")
        return default if value is None else value

    def whole(self, key: str, least: int = 1, default: Any = None) -> Any:
        """Return a whole number."""
        hint = f"a whole number of at least {least}" + (" (MB)" if "_mb_" in key else "")
        value = self.typed(key, int, hint)
        if value is not None and value < least:
            self.refuse(key, f"{value} is less than {least}", f"write {hint}")
            value = None
        return default if value is None else value

    def number(self, key: str, default: Any, most: float = 1e15) -> Any:
        """Return a number of at least 0."""
        value = self.data.get(key)
        if value is None:
            return default
        if type(value) not in (int, float) or not 0 <= value <= most:
            words = "write a number of at least 0" + (f" and at most {most:g}" if most < 9 else "")
            self.refuse(key, f"{_show(value)} is not allowed", words)
            return default
        return float(value)

    def texts(self, key: str, *, or_numbers: bool = False) -> Tuple[str, ...]:
        """Return a list of words; with ``or_numbers``, whole numbers as their digits."""
        items = self.typed(key, list, "a list of words: [one, two]") or []
        items = [str(item) if or_numbers and type(item) is int else item for item in items]
        for item in items:
            if not isinstance(item, str) or not item or not item.isprintable():
                hint = "write a list of words: [one, two]; quote words that look like numbers"
                self.refuse(key, f"the entry {_show(item)} is not allowed", hint)
                return ()
        return tuple(items)

    def duration(self, key: str, default: Any) -> Any:
        """Return a time in seconds."""
        value = self.data.get(key)
        if value is None:
            return default
        if str(value).upper() == "UNLIMITED":
            return units.UNLIMITED
        seconds = 0
        with contextlib.suppress(ValueError):
            seconds = units.parse_duration(str(value)) if type(value) in (int, str) else 0
        if not seconds:
            hint = f"use {units.TIME_FORMS}, or UNLIMITED; a bare number is minutes"
            self.refuse(key, f"{_show(value)} is not a time limit", hint)
        return seconds or default


def _show(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = "a mapping" if isinstance(value, dict) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_Read = Callable[[Node, str, Any], Any]

_BY_TYPE: Mapping[str, _Read] = {
    "str": Node.text,
    "Optional[str]": Node.text,
    "Optional[int]": lambda node, key, default: node.whole(key, 1, default),
    "float": Node.number,
    "Optional[float]": Node.number,
    "bool": Node.boolean,
    "Tuple[str, ...]": lambda node, key, default: node.texts(key),
}

_MODELS: Mapping[str, Any] = {
    name: kind for name, kind in vars(catalog).items() if is_datatype(kind)
}


def fields(model: type) -> Tuple[str, ...]:
    """Return the keys of a model's mapping: its field names, except ``name``."""
    return tuple(key for key in model.__annotations__ if key != "name")


def _build(model: Type[T], node: Node, inherited: Optional[T] = None, **own: Any) -> T:
    """Return a model's object. inherited: has the values of keys that are not given.

    A null means "none here", whatever is inherited. own: values that were read already.
    """
    node.check_keys(fields(model))
    for key, kind in model.__annotations__.items():
        if key in own:
            continue
        removed = key in node.data and node.data[key] is None
        default = getattr(model if removed or inherited is None else inherited, key, None)
        if key in _BY_KEY:
            own[key] = _BY_KEY[key](node, key, default)
        elif kind in _MODELS:
            own[key] = _build(_MODELS[kind], node.below(key), getattr(inherited or model, key))
        else:
            own[key] = _BY_TYPE[kind](node, key, default)
        if key in _CHOICES or key in _FORMS:
            _check_words(node, key, own[key])
    return model(**own)


def _check_words(node: Node, key: str, value: Any) -> None:
    """Report a value that is not among its key's words or has the wrong form."""
    allowed, (pattern, hint) = _CHOICES.get(key), _FORMS.get(key, (".*", ""))
    words = (value,) if isinstance(value, str) else value or ()
    places = [(node, key, word) for word in words]
    if isinstance(value, dict):
        places = [(node.below(key), name, word) for name, word in value.items()]
    for place, name, word in places:
        if allowed is not None and word not in allowed:
            place.refuse(name, f"{word!r} is not allowed", did_you_mean(word, allowed))
        elif hint and word and not re.fullmatch(pattern, word):
            place.refuse(name, f"{word!r} is not allowed", hint)


def _cores_per_node(node: Node, key: str, default: Any) -> Tuple[int, ...]:
    value = node.data.get(key)
    if value is None:
        return ()
    figures = value if isinstance(value, list) else [value]
    if not figures or not all(type(figure) is int and figure > 0 for figure in figures):
        hint = "write a whole number of at least 1, or a list with one per node: [48, 56]"
        node.refuse(key, f"{_show(value)} is not allowed", hint)
        return ()
    return tuple(figures)


def _node_list(node: Node, key: str, default: Any) -> Optional[str]:
    value: Optional[str] = node.text(key, None)
    try:
        if value:
            units.expand_hostlist(value)
    except ValueError as problem:
        node.refuse(key, str(problem), "write a host list such as gpu[01-05,07],gpu10")
    return value


def _texts_by_name(node: Node, key: str, default: Any) -> Dict[str, str]:
    below = node.below(key)
    return {name: below.text(name) for name in below.present()}


def _environment(node: Node, key: str, default: Any) -> Dict[str, str]:
    below = node.below(key)
    for name in below.present():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in BASHS_OWN:
            below.refuse(name, "is no variable that a script may set", "use another name")
    return {name: below.text(name, or_number=True) for name in below.present()}


def _pattern(node: Node, key: str, default: Any) -> Optional[str]:
    value: Optional[str] = node.text(key, None)
    try:
        re.compile(value or "")
    except re.error as error:
        node.refuse(key, f"not a regular expression: {error}", "write, for example, 'p-[0-9]+'")
    return value


def _comment_fields(node: Node, key: str, default: Any) -> Dict[str, Tuple[str, ...]]:
    below = node.below(key)
    for name in below.present():
        if not re.fullmatch("[A-Za-z0-9_-]+", name):
            below.refuse(name, "is not one word", "write, for example, 'field: [nlp, cv]'")
    return {name: below.texts(name) for name in below.present()}


_BY_KEY: Mapping[str, _Read] = {
    **dict.fromkeys(("default", "maximum", "interactive_maximum"), Node.duration),
    **dict.fromkeys(
        ("gpus_per_node", "priority"), lambda node, key, default: node.whole(key, 0, default)
    ),
    **dict.fromkeys(
        ("forbidden_options", "launcher_instead_of", "meanings", "evidence"), _texts_by_name
    ),
    "memory_fraction": lambda node, key, default: node.number(key, default, 1),
    "cores_per_node": _cores_per_node,
    **dict.fromkeys(
        ("gpu", "default_partition"),
        lambda node, key, default: node.text(key, default, or_number=True),
    ),
    **dict.fromkeys(
        ("gpu_types", "accounts", "features", "partitions"),
        lambda node, key, default: node.texts(key, or_numbers=True),
    ),
    "node_list": _node_list,
    "environment": _environment,
    "pattern": _pattern,
    "fields": _comment_fields,
}


def read_cluster(name: str, node: Node) -> Cluster:
    """Return the cluster that a mapping describes."""
    _check_name(name, node)
    for key in ("source", "date"):
        if node.data.get(key) is None:
            node.refuse("", f"{key} is missing", f"add '{key}: …': where the figures come from")
    base = Partition(
        name,
        arch=node.text("arch", Cluster.arch),
        wall_time=_build(WallTime, node.below("wall_time")),
        price=_build(Price, node.below("price")),
    )
    below, of_qos = node.below("partitions"), node.below("qos")
    partitions = {key: _partition(key, below.below(key), base) for key in below.present()}
    if not partitions and node.path not in node.errors:
        node.refuse("", "the cluster has no partitions", "add at least one under 'partitions:'")
    cluster = _build(
        Cluster,
        node,
        name=name,
        title=node.text("title", name),
        partitions=partitions,
        qos={key: _qos(key, of_qos.below(key), partitions) for key in of_qos.present()},
    )
    if cluster.default_partition not in (None, *partitions):
        default = str(cluster.default_partition)
        words = f"the cluster has no partition {default!r}"
        node.refuse("default_partition", words, did_you_mean(default, partitions))
    if cluster.policy.comment.form == "fields" and not cluster.policy.comment.fields:
        comment = node.below("policy").below("comment")
        comment.refuse("fields", "'form: fields' has no fields", "list them under 'fields:'")
    return cluster


def _partition(name: str, node: Node, base: Partition) -> Partition:
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


def _qos(name: str, node: Node, partitions: Mapping[str, Partition]) -> Qos:
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
