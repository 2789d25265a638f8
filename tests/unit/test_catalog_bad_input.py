"""What a catalog may not say: one error with file, line and key, and what is allowed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from neuronctl.catalog import loader, schema
from neuronctl.catalog.cluster import Cluster, Partition, Policy
from neuronctl.common.errors import CatalogError

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
        (PARTITION, "max_gpus: -8", "max_gpus", "-8 is not allowed", "at least 1"),
        (PARTITION, "max_gpus: eight", "max_gpus", "'eight' is not allowed", "a whole number"),
        (PARTITION, "max_gpus: {a: 8}", "max_gpus", "a mapping is not allowed", "a whole number"),
        (PARTITION, "memory_mb_per_node: 192G", "memory_mb_per_node", "'192G' is not", "(MB)"),
        (PARTITION, "node_list: gpu[9-1]", "node_list", "'gpu[9-1]' is not", "gpu10: "),
        (PARTITION, "cores_per_node: [64, 64]", "cores_per_node", "2 values for 9 nodes", "one"),
        (PARTITION, "gpu: [a100]", "gpu", "['a100'] is not allowed", "text"),
        (PARTITION, "gpu_types: [true]", "gpu_types", "[True] is not allowed", "instead of true"),
        (PARTITION, "arch: arm", "arch", "'arm' is not allowed", "aarch64"),
        (PARTITION, "open: no", "open", "'no' is not allowed", "true or false"),
        (PARTITION, 'note: "a\\nb"', "note", "is not allowed", "one line"),
        (PARTITION, "price: {node_hour: -1}", "price.node_hour", "-1 is not", "at least 0"),
        (PARTITION, "wall_time: {maximum: 2 days}", "wall_time.maximum", "'2 days' is not", "D-HH"),
        (PARTITION, "wall_time: {maximum: 0}", "wall_time.maximum", "0 is not", "UNLIM"),
        (PARTITION, "wall_time: 0", "wall_time", "0 is not allowed", "a mapping"),
        (CLUSTER, "network: ''", "network", "'' is not allowed", "a mapping"),
        (CLUSTER, "date: yesterday", "date", "'yesterday' is not allowed", "2026-08-12"),
        (CLUSTER, "default_partition: gpus", "default_partition", "no partition 'gpus'", "valid: "),
        (CLUSTER, "scratch: '/scratch/{usr}'", "scratch", "is not allowed", "{user}"),
        (CLUSTER, "modules: [1.0]", "modules", "[1.0] is not", "instead of 1.0"),
        (CLUSTER, "environment: {UID: 7}", "environment.UID", "no variable", "another name"),
        (CLUSTER, "network: {host_suffix: '$(id)'}", "network.host_suffix", "'$(id)'", "shell"),
        (CLUSTER, "containers: {runtime: docker}", "containers.runtime", "'docker'", "apptainer"),
        (CLUSTER, "containers: {image_dirs: [x]}", "containers.image_dirs", "'x'", "absolute path"),
        (CLUSTER, "price: {gpu_hour: .nan}", "price.gpu_hour", "nan", "at least 0"),
        (POLICY, "memory_fraction: 1.5", "memory_fraction", "1.5 is not allowed", "at most 1"),
        (POLICY, "rules_off: [nc304]", "rules_off", "['nc304'] is not", "of 'nc304', write codes"),
        (POLICY, "forbidden_options: [mem]", "forbidden_options", "['mem'] is not", "a mapping"),
        (POLICY, "submit_from: ['scratch']", "submit_from", "['scratch'] is", "'scratch', write"),
        (CLUSTER, "qos: {a: {partitions: [b]}}", "qos.a.partitions", "no partition 'b'", "valid: "),
        (CLUSTER, "qos: {a b: {}}", "qos.a b", "invalid name", "letters"),
        (CLUSTER, "evidence: {policy: observation}", "evidence.policy", "is not", "observation (W"),
        (COMMENT, "form: regex", "form", "'regex' is not allowed", "fields"),
        (COMMENT, "fields: null", "fields", "has no fields", "fields:"),
        (COMMENT, "fields: {a b: [x]}", "fields.a b", "is not one word", "field: [nlp, cv]"),
        (COMMENT, "pattern: '('", "pattern", "'(' is not allowed", "p-[0-9]+"),
    ],
)  # fmt: skip
def test_mistakes(tmp_path: Path, frame: str, text: str, key: str, words: str, hint: str) -> None:
    error = load(tmp_path, frame % text)
    place, _, rest = error.message.partition(": ")
    assert place in (":5", ":4"), error.message  # 4: of the mapping around
    assert rest.split(": ")[0].endswith(f".{key}"), error.message
    assert words in rest
    assert hint in error.hint
    assert error.exit_code == 3
    assert error.others == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cluster: {}\n", ":1: cluster: unknown key"),
        ("clusters: neuron\n", ":1: clusters: 'neuron' is not allowed"),
        ("default_cluster: nowhere\n", ":1: default_cluster: 'nowhere' is not a cluster"),
        (
            "clusters:\n  neuron:\n    partitions:\n      auto: {}\n",
            ":4: clusters.neuron.partitions.auto: reserved name",
        ),
        ("clusters:\n  lab: {}\n", ":2: clusters.lab: source is missing"),
        (
            "clusters:\n  lab: {source: x, date: 2026-01}\n",
            ":2: clusters.lab: the cluster has no partitions",
        ),
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
        ":13 clusters.lab.partitions.c",
        ":15 clusters.neuron.partitions.cpu.open",
    ]


def test_every_key_of_the_model_is_read(tmp_path: Path) -> None:
    """A field that the reader forgot would be accepted in a file and silently do nothing."""
    wrong = {"bad": ["value"]}  # neither text, nor number, nor list, nor a known mapping
    for frame, model in ((PARTITION, Partition), (CLUSTER, Cluster), (POLICY, Policy)):
        for key in schema.fields(model):
            error = load(tmp_path, frame % f"{key}: {wrong}")
            assert f".{key}" in error.message
            assert error.hint


def test_an_empty_text_says_nothing(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    lines = ("date: ''", "quota: ''", "scratch: ''", "evidence: {policy: ''}")
    file.write_text(CLUSTER % "\n    ".join(lines))
    cluster = loader.load(str(file)).cluster("neuron")
    assert (cluster.date, cluster.quota, cluster.scratch) == ("", "", "")
    file.write_text(PARTITION % "node_list: ''")
    assert loader.load(str(file)).cluster("neuron").partitions["amd_a100nv_8"].node_list == ""
