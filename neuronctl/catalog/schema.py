"""The catalog's schema: turn plain YAML values into the model's dataclasses, and report errors.

The keys are the model's field names; the functions below read their values. Every error names the
file and line, the key, the value, and what is allowed. Values are compared with one another only
where each is right by itself.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Type, TypeVar

from neuronctl.catalog.model import (
    LIFTING,
    Cluster,
    CommentField,
    CommentPolicy,
    Containers,
    CorePolicy,
    Evidence,
    Network,
    Partition,
    Policy,
    Price,
    Qos,
    ReportPolicy,
    WallTime,
)
from neuronctl.catalog.yaml_mapping import EMPTY_HINT, CheckedMapping, show
from neuronctl.common import units
from neuronctl.common.errors import did_you_mean
from neuronctl.common.frozen import replace
from neuronctl.common.rule_codes import CODES
from neuronctl.common.shell import BASHS_OWN

T = TypeVar("T")

ARCHITECTURES = ("x86_64", "aarch64", "ppc64le")

CHOICES: Mapping[str, Tuple[str, ...]] = {
    "arch": ARCHITECTURES,
    "form": ("any", "word", "fields"),
    "gpu_option": ("gres", "gpus-per-node"),
    "rule": ("cap", "default", "none"),
    "runtime": ("singularity", "apptainer"),
}
"""The keys whose value is one of these words."""

_TEXT = {"type": "string"}
_NUMBER = {"type": "number", "minimum": 0}

KINDS: Mapping[str, Tuple[Callable[[CheckedMapping, str, Any], Any], Mapping[str, Any]]] = {
    "str": (CheckedMapping.text, _TEXT),
    "Optional[str]": (CheckedMapping.text, _TEXT),
    "Optional[int]": (
        lambda node, key, default: node.whole(key, 1),
        {"type": "integer", "minimum": 1},
    ),
    "float": (CheckedMapping.number, _NUMBER),
    "Optional[float]": (CheckedMapping.number, _NUMBER),
    "bool": (CheckedMapping.boolean, {"type": "boolean"}),
    "Optional[bool]": (CheckedMapping.boolean, {"type": "boolean"}),
    "Tuple[str, ...]": (
        lambda node, key, default: node.texts(key),
        {"type": "array", "items": _TEXT, "uniqueItems": True},
    ),
}
"""Of each type of a field: what reads its value, and the value's JSON Schema."""


def fields(model: type) -> Tuple[str, ...]:
    """The keys of a model's mapping: its field names, except ``name``."""
    return tuple(key for key in model.__annotations__ if key != "name")


def _made(model: Type[T], node: CheckedMapping, **own: Any) -> T:
    """A model's object: ``own`` has what is more than a value of its field's type."""
    for key, kind in model.__annotations__.items():
        if key in own:
            continue
        default = getattr(model, key, None)
        if key in CHOICES:
            own[key] = node.choice(key, CHOICES[key], default or "")
        else:
            own[key] = KINDS[kind][0](node, key, default)
    return model(**own)


def cluster(name: str, node: CheckedMapping) -> Cluster:
    _check_name(name, node)
    node.check_keys(fields(Cluster))
    for key in ("source", "date"):
        if not node.given(key) and not node.wrong():
            hint = f"add '{key}: …' to state where the figures come from"
            hint = EMPTY_HINT if key in node.data else hint
            node.refuse("", f"{key} is missing", hint, (key,))
    date = node.text("date", "", or_number=True)
    if date and not re.fullmatch(r"\d{4}(-\d{2}(-\d{2})?)?", date, re.ASCII):
        node.refuse("date", f"{date!r} is not a date", "write 2026-08-12, 2026-08, or 2026")
    wall_time = _wall_time(node, WallTime())
    price = _made(Price, node.mapping("price", *fields(Price)))
    arch = node.choice("arch", ARCHITECTURES, Cluster.arch)
    internet = node.boolean("internet", None)
    partitions_node = node.mapping("partitions")
    partitions = {
        key: _partition(key, partitions_node.mapping(key), wall_time, price, arch, internet)
        for key in partitions_node.present()
    }
    if not partitions and not node.wrong() and not partitions_node.wrong():
        hint = "add at least one under 'partitions:'"
        hint = EMPTY_HINT if "partitions" in node.data else hint
        removed = [("partitions", key) for key in partitions_node.data]
        node.refuse("", "the cluster has no partitions", hint, ("partitions",), *removed)
    default_partition = node.text("default_partition", None)
    if default_partition not in (None, *partitions) and not partitions_node.wrong():
        node.refuse(
            "default_partition",
            f"the cluster has no partition {default_partition!r}",
            did_you_mean(default_partition, partitions),
            ("partitions",),
            ("partitions", default_partition),
        )
    containers = node.mapping("containers", *fields(Containers))
    network = node.mapping("network", *fields(Network))
    for key in fields(Network):
        _check_plain(network, key, network.text(key, ""))
    return _made(
        Cluster,
        node,
        name=name,
        title=node.text("title", name),
        date=date,
        partitions=partitions,
        arch=arch,
        internet=internet,
        wall_time=wall_time,
        policy=_policy(node.mapping("policy", *fields(Policy))),
        environment=_environment(node.mapping("environment")),
        network=_made(Network, network),
        containers=_made(Containers, containers, image_dirs=_directories(containers, "image_dirs")),
        price=price,
        report=_made(ReportPolicy, node.mapping("report", *fields(ReportPolicy))),
        scratch=_directory(node, "scratch"),
        qos=_all_qos(node.mapping("qos"), None if partitions_node.wrong() else partitions),
        evidence=_evidence(node.mapping("evidence"), node),
    )


def _all_qos(node: CheckedMapping, partitions: Optional[Mapping[str, Partition]]) -> Dict[str, Qos]:
    return {name: _qos(name, node.mapping(name), partitions) for name in node.present()}


def _qos(name: str, node: CheckedMapping, partitions: Optional[Mapping[str, Partition]]) -> Qos:
    _check_name(name, node)
    node.check_keys(fields(Qos))
    result = _made(
        Qos,
        node,
        name=name,
        priority=node.whole("priority", 0),
        wall_time=_wall_time(node, WallTime(), "maximum"),
    )
    unknown = [] if partitions is None else [p for p in result.partitions if p not in partitions]
    for partition in unknown:
        words = f"the cluster has no partition {partition!r}"
        node.refuse("partitions", words, did_you_mean(partition, partitions or ()))
    for flag in result.flags:
        if flag not in LIFTING:
            hint = f"write {', '.join(LIFTING)}; other flags have no meaning here"
            node.refuse("flags", f"{flag!r} is not allowed", hint)
    _check_parts(result, node, ("max_running_jobs", "max_submit_jobs"))
    return result


EVIDENCE = r"(guide|advice|observation|slurm)(?: \((.+)\))?"
"""The text of an entry of ``evidence``."""


def _evidence(node: CheckedMapping, cluster: CheckedMapping) -> Dict[str, Evidence]:
    found = {}
    for path in node.present():
        # What a lower file is about, a higher one may have removed.
        place = node.places.get((*node.path, path))
        of_highest = place is not None and place.file == node.files[-1]
        if of_highest and not _has(cluster.data, path):
            node.refuse(path, "the cluster has no such value", "write, for example, policy.cores")
        match = re.fullmatch(EVIDENCE, node.text(path, "guide"))
        if match is None or (match[1] == "observation" and not match[2]):
            words = "write guide, advice, slurm, or observation (WHERE, WHEN)"
            node.refuse(path, f"{show(node.data[path])} is not allowed", words)
        else:
            found[path] = Evidence(match[1], match[2] or "")
    return found


def _has(data: object, path: str) -> bool:
    """Whether there is a value at ``path``, its keys joined by dots."""
    return not path or (
        isinstance(data, dict)
        and any(
            _has(value, path[len(key) + 1 :])
            for key, value in data.items()
            if f"{path}.".startswith(f"{key}.")
        )
    )


def _partition(
    name: str,
    node: CheckedMapping,
    wall_time: WallTime,
    price: Price,
    arch: str,
    internet: Optional[bool],
) -> Partition:
    _check_name(name, node)
    if name == "auto":
        node.refuse("", "reserved name", "-p auto lets neuronctl choose a partition")
    node.check_keys(fields(Partition))
    nodes = node.whole("nodes", 1)
    node_list = node.text("node_list", None)
    cores = _cores_per_node(node)
    names: List[str] = []
    if node_list is not None:
        try:
            names = units.expand_hostlist(node_list)
        except ValueError as problem:
            node.refuse("node_list", str(problem), "write a host list such as gpu[01-05,07],gpu10")
    twice = [host for host, count in Counter(names).items() if count > 1]
    if twice:
        words = f"lists {', '.join(twice[:3])} more than once"
        node.refuse("node_list", words, "list every node once")
    if nodes is None:
        nodes = len(names) or None
    elif len(names) > nodes:
        node.refuse(
            "node_list",
            f"lists {len(names)} nodes, but nodes is {nodes}",
            "correct one of the two",
            ("nodes",),
        )
    if len(cores) > 1 and nodes is not None and len(cores) != nodes and not node.has_errors():
        node.refuse(
            "cores_per_node",
            f"has {len(cores)} values for {nodes} nodes",
            "write one number for all nodes, or a list with one number per node",
            ("nodes",),
            ("node_list",),
        )
    result = _made(
        Partition,
        node,
        name=name,
        nodes=nodes,
        cores_per_node=cores,
        gpus_per_node=node.whole("gpus_per_node", 0) or 0,
        arch=node.choice("arch", ARCHITECTURES, arch),
        internet=node.boolean("internet", internet),
        wall_time=_wall_time(node, wall_time),
        price=_own_price(node.mapping("price", *PRICES), price),
    )
    if not node.has_errors():
        _check_against_node_size(result, node)
    return result


PRICES = ("gpu_hour", "node_hour")
"""What a partition may price otherwise: sums over partitions have one currency."""


def _own_price(node: CheckedMapping, inherited: Price) -> Price:
    # null means "no such price here", whatever the cluster says.
    values: Dict[str, Any] = {key: node.number(key, None) for key in PRICES if key in node.data}
    return replace(inherited, **values)


def _check_against_node_size(partition: Partition, node: CheckedMapping) -> None:
    gpus, largest = partition.gpus_per_node, partition.max_cores_per_node
    for key in ("max_gpus", "gpu", "interconnect"):
        if node.given(key) and not gpus:
            node.refuse(
                key,
                "requires GPUs, but gpus_per_node is 0",
                f"set gpus_per_node, or remove this key with '{key}: null'",
                ("gpus_per_node",),
            )
    if partition.cores_total is not None and largest and partition.cores_total < largest:
        node.refuse(
            "cores_total",
            f"{partition.cores_total} is less than the {largest} cores per node",
            "cores_total is the sum over all nodes; correct it or cores_per_node",
            ("cores_per_node",),
        )
    pairs = (("max_running_jobs", "max_submit_jobs"), ("max_nodes", "nodes"))
    _check_parts(partition, node, *pairs)


def _check_parts(limits: object, node: CheckedMapping, *pairs: Tuple[str, str]) -> None:
    for key, whole in pairs:
        part, most = getattr(limits, key), getattr(limits, whole)
        # If a higher layer lowers the total, a part from a lower layer merely loses its effect.
        if part is not None and most is not None and part > most and node.as_high(key, whole):
            node.refuse(key, f"{part} is more than {whole}, {most}", "correct one of the two")


def _cores_per_node(node: CheckedMapping) -> Tuple[int, ...]:
    value = node.data.get("cores_per_node")
    if value is None:
        return ()
    figures = value if isinstance(value, list) and value else [value]
    for figure in figures:
        if type(figure) is not int or figure < 1:
            node.refuse(
                "cores_per_node",
                f"{show(figure)} is not allowed",
                "write a whole number of at least 1, or a list with one per node: [48, 56]",
            )
            return ()
    return tuple(figures)


def _wall_time(around: CheckedMapping, inherited: WallTime, *keys: str) -> WallTime:
    time = around.data.get("wall_time")
    if isinstance(time, (int, str)):
        around.refuse("wall_time", f"{show(time)} is not allowed", f"write {{maximum: {time}}}")
        return inherited
    node = around.mapping("wall_time", *(keys or fields(WallTime)))
    values: Dict[str, Optional[int]] = {
        # null means "no such limit here", whatever the cluster says.
        key: node.duration(key) if key in node.data else getattr(inherited, key)
        for key in fields(WallTime)
    }
    default, maximum = values["default"], values["maximum"]
    if default is not None and maximum is not None and _longer(default, maximum):
        if node.given("default"):
            node.refuse(
                "default",
                f"{units.format_time(default)} is more than the maximum,"
                f" {units.format_time(maximum)}",
                "set both when you change one",
                ("maximum",),
            )
        # The cluster's default exceeds the partition's maximum: Slurm uses the maximum.
        values["default"] = maximum
    return WallTime(**values)


def _longer(time: int, other: int) -> bool:
    return other != units.UNLIMITED and (time == units.UNLIMITED or time > other)


def _policy(node: CheckedMapping) -> Policy:
    fraction = node.data.get("memory_fraction")
    if fraction is not None and (type(fraction) not in (int, float) or not 0 < fraction <= 1):
        node.refuse(
            "memory_fraction",
            f"{show(fraction)} is not allowed",
            "write a number above 0 and at most 1",
        )
        fraction = None
    options = node.mapping("forbidden_options")
    for option in options.present():
        if option.startswith("-"):
            options.refuse(option, "has leading dashes", f"write {option.lstrip('-')!r}")
    return _made(
        Policy,
        node,
        submit_from=_directories(node, "submit_from"),
        comment=_comment(node.mapping("comment", *fields(CommentPolicy))),
        forbidden_options={option: options.text(option, "") for option in options.present()},
        cores=_made(CorePolicy, node.mapping("cores", *fields(CorePolicy))),
        memory_fraction=None if fraction is None else float(fraction),
        rules_off=_rules_off(node),
    )


def _rules_off(node: CheckedMapping) -> Tuple[str, ...]:
    codes = node.texts("rules_off")
    for code in codes:
        if code not in CODES:
            node.refuse("rules_off", f"unknown rule '{code}'", did_you_mean(code.upper(), CODES))
    return codes


def _comment(node: CheckedMapping) -> CommentPolicy:
    form = node.choice("form", CHOICES["form"], CommentPolicy.form)
    for key, only in (("values", "word"), ("fields", "fields")):
        if node.given(key) and form != only and not node.wrong("form"):
            node.refuse(
                key,
                f"requires 'form: {only}', but form is {form}",
                f"remove it with '{key}: null'",
                ("form",),
            )
    parts: List[CommentField] = []
    items = node.typed("fields", list, "a list of 'key:' and 'values:' entries") or []
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            node.refuse("fields", f"{show(item)} is not allowed", "write 'key:' and 'values:'")
            continue
        part = node.below(item, "fields", str(number))
        part.check_keys(fields(CommentField))
        key = part.text("key", "")
        if not re.fullmatch(r"[A-Za-z0-9_-]+", key) and not part.has_errors():
            part.refuse("key", f"{key!r} is not a word", "write, for example, 'key: field'")
        parts.append(CommentField(key, part.texts("values")))
    if form == "fields" and not parts and not node.has_errors():
        hint = "list them under 'fields:'"
        node.refuse("", "'form: fields' has no fields", hint, ("fields",), ("form",))
    try:
        re.compile(node.text("pattern", ""))
    except re.error as error:
        node.refuse(
            "pattern", f"not a regular expression: {error}", "write, for example, 'p-[0-9]+'"
        )
    meanings = node.mapping("meanings")
    return _made(
        CommentPolicy,
        node,
        form=form,
        fields=tuple(parts),
        meanings={value: meanings.text(value, "") for value in meanings.present()},
    )


def _environment(node: CheckedMapping) -> Dict[str, str]:
    for name in node.present():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            node.refuse(name, "not a variable name", "use letters, digits, and '_'")
        if name in BASHS_OWN:
            node.refuse(name, "bash does not let scripts set this variable", "remove it")
    return {name: node.text(name, "", or_number=True) for name in node.present()}


def _directories(node: CheckedMapping, key: str) -> Tuple[str, ...]:
    values = node.texts(key)
    for value in values:
        _check_directory(node, key, value)
    return values


def _directory(node: CheckedMapping, key: str) -> Optional[str]:
    value: Optional[str] = node.text(key, None)
    if value is not None:
        _check_directory(node, key, value)
        _check_plain(node, key, value, "/{}")
    return value


PLAIN = r"\w.@%+=:-"
"""The characters of a word that the shell takes as it is."""


def _check_plain(node: CheckedMapping, key: str, value: str, more: str = "") -> None:
    """Refuse what would be more than a name in the shell commands of a script."""
    if re.search(f"[^{more}{PLAIN}]", value):
        hint = "it becomes part of shell commands: use letters, digits, '.', '_', and '-'"
        node.refuse(key, f"{value!r} is not allowed", hint)


def _check_directory(node: CheckedMapping, key: str, value: str) -> None:
    if not value.startswith("/") or re.search(r"[{}]", value.replace("{user}", "")):
        node.refuse(
            key,
            f"{value!r} is not allowed",
            "write an absolute path, in which {user} stands for the login name",
        )


def _check_name(name: str, node: CheckedMapping) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        node.refuse("", "invalid name", "use letters, digits, '.', '_', and '-'")
