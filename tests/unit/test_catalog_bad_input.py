"""What a catalog may not say: one error with file, line and key, and what is allowed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Tuple

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from neuronctl.catalog import loader, schema
from neuronctl.catalog.merging import merge
from neuronctl.catalog.model import Cluster, Partition, Policy
from neuronctl.common.errors import CatalogError
from neuronctl.common.yamlfile import parse

# %s stands on line 5 of a file that is fine without it.
PARTITION = "clusters:\n  neuron:\n    partitions:\n      amd_a100nv_8:\n        %s\n"
CLUSTER = "clusters:\n  neuron:\n    # a remark\n\n    %s\n"
POLICY = "clusters:\n  neuron:\n\n    policy:\n      %s\n"
COMMENT = "clusters:\n  neuron:\n    policy:\n      comment:\n        %s\n"


def load(tmp_path: Path, text: str) -> CatalogError:
    file = tmp_path / "site.yaml"
    file.write_text(text)
    with pytest.raises(CatalogError) as caught:
        loader.load(str(file))
    assert caught.value.message.startswith(f"{file}:")
    caught.value.message = caught.value.message[len(str(file)) :]
    return caught.value


@pytest.mark.parametrize(
    ("frame", "text", "key", "words", "hint"),
    [
        (PARTITION, "max_gpu: 8", "max_gpu", "unknown key", "did you mean max_gpus"),
        (PARTITION, "max_gpu: null", "max_gpu", "unknown key", "did you mean max_gpus"),
        (POLICY, "rules_off: [NC304, NC999]", "rules_off", "unknown rule 'NC999'", "valid: NC101"),
        (POLICY, "rules_off: [nc304]", "rules_off", "unknown rule 'nc304'", "mean NC304"),
        (PARTITION, "zzz: 8", "zzz", "unknown key", "valid: arch, cores_per_node"),
        (PARTITION, "name: x", "name", "unknown key", "valid: "),
        (PARTITION, "max_gpus: -8", "max_gpus", "-8 is less than 1", "at least 1"),
        (PARTITION, "max_submit_jobs: 0", "max_submit_jobs", "0 is less than 1", "at least 1"),
        (PARTITION, "max_gpus: eight", "max_gpus", "'eight' is not allowed", "a whole number"),
        (PARTITION, "max_gpus: 8.5", "max_gpus", "8.5 is not allowed", "a whole number"),
        (PARTITION, "max_gpus: 1_000", "max_gpus", "'1_000' is not allowed", "a whole number"),
        (PARTITION, "max_gpus: true", "max_gpus", "true is not allowed", "a whole number"),
        (PARTITION, "max_gpus: [8]", "max_gpus", "[8] is not allowed", "a whole number"),
        (PARTITION, "max_gpus: {a: 8}", "max_gpus", "a mapping is not allowed", "a whole number"),
        (PARTITION, "memory_mb_per_node: 192G", "memory_mb_per_node", "'192G' is not", "196608"),
        (PARTITION, "memory_mb_per_node: 1TiB", "memory_mb_per_node", "'1TiB' is not", "1048576"),
        (PARTITION, "wall_time: '1:00:00'", "wall_time", "not allowed", "{maximum: 1:00:00}"),
        (PARTITION, "wall_time: 60", "wall_time", "60 is not allowed", "{maximum: 60}"),
        (PARTITION, "cores_total: 32", "cores_total", "32 is less than the 64 cores", "sum"),
        (PARTITION, "nodes: 1", "node_list", "but nodes is 1 (node_list: ", "correct"),
        (PARTITION, "gpus_per_node: null", "max_gpus", "gpus_per_node is 0", "set gpus_per_node"),
        (PARTITION, "max_running_jobs: 21", "max_running_jobs", "21 is more", "correct"),
        (PARTITION, "max_nodes: 10", "max_nodes", "10 is more than nodes, 9", "correct"),
        (PARTITION, "nodes: 3", "node_list", "lists 9 nodes, but nodes is 3", "correct"),
        (PARTITION, "node_list: 'a[1-2],a1'", "node_list", "lists a1 more than once", "once"),
        (PARTITION, "node_list: gpu[1-", "node_list", "bracket", "gpu[01-05,07]"),
        (PARTITION, "node_list: gpu[9-1]", "node_list", "backward", "gpu[01-05,07]"),
        (PARTITION, "node_list: 'gpu[1-9999999]'", "node_list", "more than 65536", "gpu[01"),
        (PARTITION, "cores_per_node: [64, 64]", "cores_per_node", "2 values for 9 nodes", "one"),
        (PARTITION, "cores_per_node: [64, x]", "cores_per_node", "'x' is not allowed", "[48, 56]"),
        (PARTITION, "cores_per_node: []", "cores_per_node", "[] is not allowed", "[48, 56]"),
        (PARTITION, "cores_per_node: 0", "cores_per_node", "0 is not allowed", "at least 1"),
        (PARTITION, "gpus_per_node: 0", "max_gpus", "gpus_per_node is 0", "set gpus_per_node"),
        (PARTITION, "gpu: 100", "gpu", "100 is not allowed", "text"),
        (PARTITION, "arch: arm", "arch", "'arm' is not allowed", "aarch64"),
        (PARTITION, "open: no", "open", "'no' is not allowed", "true or false"),
        (PARTITION, "open: 1", "open", "1 is not allowed", "true or false"),
        (PARTITION, "note: [x]", "note", "['x'] is not allowed", "text"),
        (PARTITION, 'note: "a\\nb"', "note", "is not one line", "one line"),
        (PARTITION, 'note: "\\e[31m"', "note", "is not one line", "one line"),
        (PARTITION, "price: {currency: KRW}", "price.currency", "unknown key", "gpu_hour"),
        (PARTITION, "price: {node_hour: -1}", "price.node_hour", "-1 is not", "at least 0"),
        (PARTITION, "wall_time: 2-00:00:00", "wall_time", "'2-00:00:00' is not", "{maximum: 2-"),
        (PARTITION, "wall_time: {maximum: 2 days}", "wall_time.maximum", "not a time", "D-HH"),
        (PARTITION, "wall_time: {maximum: 1.5}", "wall_time.maximum", "not a time", "D-HH"),
        (PARTITION, "wall_time: {maximum: true}", "wall_time.maximum", "not a time", "D-HH"),
        (PARTITION, "wall_time: {maximum: -60}", "wall_time.maximum", "not a time", "D-HH"),
        (PARTITION, "wall_time: {maximum: 0}", "wall_time.maximum", "0 is not a time", "UNLIM"),
        (PARTITION, "wall_time: {max: 60}", "wall_time.max", "unknown key", "did you mean maximum"),
        (PARTITION, "wall_time: {default: 3-0, maximum: 2-0}", "wall_time.default", "more", "both"),
        (PARTITION, "wall_time: {default: UNLIMITED}", "wall_time.default", "more", "both"),
        (CLUSTER, "date: yesterday", "date", "'yesterday' is not a date", "2026-08-12"),
        (CLUSTER, "date: 20260812", "date", "'20260812' is not a date", "2026-08-12"),
        (CLUSTER, "source: null", "neuron", "source is missing", "removes what lower"),
        (CLUSTER, "partitions: null", "neuron", "has no partitions", "removes"),
        (CLUSTER, "slurm_cluster_names: [IRIS]", "iris", "belongs to neuron", "change"),
        (CLUSTER, "source: 2026", "source", "2026 is not allowed", "quote it"),
        (CLUSTER, "default_partition: gpus", "default_partition", "no partition 'gpus'", "valid: "),
        (CLUSTER, "scratch: scratch", "scratch", "'scratch' is not allowed", "absolute path"),
        (CLUSTER, "scratch: '/scratch/{usr}'", "scratch", "is not allowed", "{user}"),
        (CLUSTER, "scratch: '/scratch/$(id)'", "scratch", "is not allowed", "shell commands"),
        (CLUSTER, "scratch: '/a\"; id; \"'", "scratch", "is not allowed", "shell commands"),
        (CLUSTER, "scratch: '/a`id`'", "scratch", "is not allowed", "shell commands"),
        (CLUSTER, "partitions: [a]", "partitions", "['a'] is not allowed", "a mapping"),
        (CLUSTER, "modules: cuda", "modules", "'cuda' is not allowed", "a list of words"),
        (CLUSTER, "modules: [1.0]", "modules", "entry 1, 1.0, is not allowed", "quote words"),
        (CLUSTER, "modules: [a, b, a]", "modules", "'a' is listed twice", "only one"),
        (CLUSTER, "modules: ['']", "modules", "entry 1", "a list of words"),
        (CLUSTER, "environment: {A: 1.0}", "environment.A", "1.0 is not allowed", "quote it"),
        (CLUSTER, "environment: {UID: 7}", "environment.UID", "bash does not", "remove it"),
        (CLUSTER, "environment: {A-B: x}", "environment.A-B", "not a variable", "letters"),
        (CLUSTER, "network: {host_suffix: i;id}", "network.host_suffix", "'i;id'", "shell"),
        (CLUSTER, "network: {host_suffix: '$(id)'}", "network.host_suffix", "'$(id)'", "shell"),
        (CLUSTER, "network: {interface: ib0 up}", "network.interface", "'ib0 up'", "shell"),
        (CLUSTER, "network: {iface: ib0}", "network.iface", "unknown key", "interface"),
        (CLUSTER, "containers: {runtime: docker}", "containers.runtime", "'docker'", "apptainer"),
        (CLUSTER, "price: {gpu_hour: -1}", "price.gpu_hour", "-1", "a number of at least 0"),
        (CLUSTER, "report: {gpu_idle: .nan}", "report.gpu_idle", "nan", "at least 0"),
        (CLUSTER, "price: {gpu_hour: true}", "price.gpu_hour", "true", "at least 0"),
        (CLUSTER, "scratch_days: 0", "scratch_days", "0 is less than 1", ""),
        (CLUSTER, "containers: {image_dirs: [x]}", "containers.image_dirs", "'x'", "absolute path"),
        (CLUSTER, "walltime: {}", "walltime", "unknown key", "did you mean wall_time"),
        (POLICY, "memory_fraction: 1.5", "memory_fraction", "1.5 is not allowed", "at most 1"),
        (POLICY, "memory_fraction: 0", "memory_fraction", "0 is not allowed", "above 0"),
        (POLICY, "memory_fraction: 95%", "memory_fraction", "'95%' is not", "at most 1"),
        (POLICY, "gpu_option: gpus", "gpu_option", "'gpus' is not allowed", "gpus-per-node"),
        (POLICY, "forbidden_options: {--mem: no}", "forbidden_options.--mem", "dashes", "'mem'"),
        (CLUSTER, "qos: {a: {max_gpu: 1}}", "qos.a.max_gpu", "unknown key", "mean max_gpus"),
        (CLUSTER, "qos: {a: {max_gpus: 0}}", "qos.a.max_gpus", "0 is less than 1", "at least 1"),
        (CLUSTER, "qos: {a: {priority: -1}}", "qos.a.priority", "-1 is less than 0", "at least 0"),
        (CLUSTER, "qos: {a: {partitions: [b]}}", "qos.a.partitions", "no partition 'b'", "valid: "),
        (CLUSTER, "qos: {a: {flags: [NoDecay]}}", "qos.a.flags", "'NoDecay' is not", "OverPartQOS"),
        (CLUSTER, "qos: {a: {wall_time: {default: 5}}}", "wall_time.default", "unknown", "maximum"),
        (CLUSTER, "qos: {a: {wall_time: 1:00}}", "qos.a.wall_time", "'1:00' is not", "{maximum: 1"),
        (CLUSTER, "qos: {a b: {}}", "qos.a b", "invalid name", "letters"),
        (CLUSTER, "qos: [a]", "qos", "['a'] is not allowed", "a mapping"),
        (
            *(CLUSTER, "qos: {a: {max_submit_jobs: 2, max_running_jobs: 3}}"),
            *("qos.a.max_running_jobs", "3 is more than max_submit_jobs, 2", "correct one"),
        ),
        (CLUSTER, "evidence: {policy.core: advice}", "evidence.policy.core", "such value", ""),
        (CLUSTER, "evidence: {policy: seen}", "evidence.policy", "'seen' is not", "observation (W"),
        (CLUSTER, "evidence: {policy: observation}", "evidence.policy", "is not", "observation (W"),
        (POLICY, "forbidden_options: [mem]", "forbidden_options", "['mem'] is not", "a mapping"),
        (POLICY, "cores: {rule: max}", "cores.rule", "'max' is not allowed", "cap"),
        (POLICY, "cores: {cores_per_gpu: 0}", "cores.cores_per_gpu", "0 is less", "at least 1"),
        (POLICY, "submit_from: ['scratch']", "submit_from", "'scratch' is not", "absolute path"),
        (COMMENT, "form: word", "fields", "requires 'form: fields'", "fields: null"),
        (COMMENT, "values: [a]", "values", "requires 'form: word'", "values: null"),
        (COMMENT, "form: regex", "form", "'regex' is not allowed", "fields"),
        (COMMENT, "fields: null", "comment", "has no fields", "fields:"),
        (COMMENT, "fields: [a]", "fields", "'a' is not allowed", "'key:'"),
        (COMMENT, "fields: [{key: a b}]", "fields.0.key", "'a b' is not a word", "key: field"),
        (COMMENT, "fields: [{keys: a}]", "fields.0.keys", "unknown key", "did you mean key"),
    ],
)  # fmt: skip
def test_mistakes(tmp_path: Path, frame: str, text: str, key: str, words: str, hint: str) -> None:
    file = tmp_path / "site.yaml"
    file.write_text(frame % text)
    with pytest.raises(CatalogError) as caught:
        loader.load(str(file))
    message = caught.value.message
    place, _, rest = message.partition(": ")
    # A clash of two figures is reported at the layer that brought it in.
    assert place == f"{file}:5", message
    assert rest.split(": ")[0].endswith(f".{key}"), message
    assert words in rest
    assert hint in caught.value.hint
    assert caught.value.exit_code == 3
    # One mistake is one error, except that GPUs have properties.
    others = [one.message for one in caught.value.others]
    assert [one for one in others if "requires GPUs" not in one] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cluster: {}\n", ":1: cluster: unknown key"),
        ("clusters: neuron\n", ":1: clusters: 'neuron' is not allowed"),
        ("default_cluster: nowhere\n", ":1: default_cluster: 'nowhere' is not a cluster"),
        ("default_cluster: 5\n", ":1: default_cluster: 5 is not allowed"),
        ("clusters: null\n", ":1: clusters: all clusters are removed"),
        ("clusters:\n  neuron:\n", ":2: clusters.neuron: has no value but is the default"),
        ("default_cluster:\n", ":1: default_cluster: '' is not a cluster"),
        (
            "clusters:\n  a: {source: x, date: 2026, partitions: {p: {}}}\n  b:\n    source: x\n"
            "    date: 2026\n    slurm_cluster_names: [A]\n    partitions: {p: {}}\n",
            ":6: clusters.b: the ClusterName 'A' already belongs to a",
        ),
        (
            "clusters:\n  neuron:\n    partitions:\n      auto: {}\n",
            ":4: clusters.neuron.partitions.auto: reserved name",
        ),
        ("clusters:\n  lab: {}\n", ":2: clusters.lab: source is missing"),
        ("clusters:\n  lab: {source: x}\n", ":2: clusters.lab: date is missing"),
        (
            "clusters:\n  lab: {source: x, date: 2026-01}\n",
            ":2: clusters.lab: the cluster has no partitions",
        ),
        ("clusters:\n  lab: 5\n", ":2: clusters.lab: 5 is not allowed"),
        ("clusters:\n  my lab: {}\n", ":2: clusters.my lab: invalid name"),
        ("clusters:\n  neuron:\n    partitions:\n      cpu: 5\n", ":4: clusters.neuron.partitions"),
        (
            "clusters:\n  neuron:\n    partitions:\n      'a;b': {}\n",
            ":4: clusters.neuron.partitions.a;b: invalid name",
        ),
        (
            "clusters:\n  neuron:\n    partitions:\n      x: {}\n      y: {}\n      x: {}\n",
            ":6: duplicate key clusters.neuron.partitions.x, first set on line 4",
        ),
    ],
)
def test_mistakes_of_the_whole(tmp_path: Path, text: str, words: str) -> None:
    assert load(tmp_path, text).message.startswith(words)


def test_all_mistakes_are_found_in_the_order_of_their_lines(tmp_path: Path) -> None:
    text = """default_cluster: nowhere
clusters:
  lab:
    source: a guide
    date: soon
    policy:
      submit_from: [scratch]
      gpu_options: gres
    partitions:
      a:
        nodes: many
        max_gpus: 4
      b:
        max_running_jobs: 5
        max_submit_jobs: 4
      c: 3
  neuron:
    partitions: {cpu: {open: 1}}
"""
    error = load(tmp_path, text)
    messages = [one.message for one in (error, *error.others)]
    found = [re.sub(r"^.*?(:\d+): ([^:]*): .*", r"\1 \2", one) for one in messages]
    assert found == [
        ":1 default_cluster",
        ":5 clusters.lab.date",
        ":7 clusters.lab.policy.submit_from",
        ":8 clusters.lab.policy.gpu_options",
        ":11 clusters.lab.partitions.a.nodes",
        ":14 clusters.lab.partitions.b.max_running_jobs",
        ":16 clusters.lab.partitions.c",
        ":18 clusters.neuron.partitions.cpu.open",
    ]


def test_taking_out_the_default_cluster_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text("clusters: {neuron: null}\n")
    with pytest.raises(CatalogError, match=r":1: clusters.neuron: has no value but is"):
        loader.load(str(file))


def test_every_key_of_the_model_is_read(tmp_path: Path) -> None:
    """A field that the reader forgot would be accepted in a file and silently do nothing."""
    wrong = {"bad": ["value"]}  # neither text, nor number, nor list, nor a known mapping
    for frame, model in ((PARTITION, Partition), (CLUSTER, Cluster), (POLICY, Policy)):
        for key in schema.fields(model):
            error = load(tmp_path, frame % f"{key}: {wrong}")
            assert f".{key}" in error.message
            assert error.hint


SHIPPED = Path(loader.data_path("partitions.yaml")).read_text()
PATHS = sorted(
    path
    for path in parse(SHIPPED, "shipped.yaml", CatalogError).lines
    if path and not any(key.isdigit() for key in path)
)


@given(
    st.sampled_from(PATHS),
    st.one_of(
        st.none(), st.booleans(), st.integers(-9, 9), st.floats(0, 2), st.text(max_size=8),
        st.lists(st.integers(0, 3), max_size=3), st.dictionaries(st.text(max_size=4), st.none()),
    ),
)  # fmt: skip
def test_a_catalog_with_one_value_changed_loads_or_says_where(
    path: Tuple[str, ...], value: object
) -> None:
    layer: Any = value
    for key in reversed(path):
        layer = {key: layer}
    try:
        above = parse(yaml.safe_dump(layer, allow_unicode=True), "layer.yaml", CatalogError)
        catalog = merge([parse(SHIPPED, "shipped.yaml", CatalogError), above])
    except CatalogError as error:
        assert error.message.startswith(("layer.yaml:", "shipped.yaml:"))
        return
    assert catalog.cluster().partitions
