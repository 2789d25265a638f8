"""Layers over one another, lookups, and where a value came from."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from neuronctl.catalog import loader
from neuronctl.catalog.cluster import Price, WallTime, path_key
from neuronctl.common.errors import CatalogError
from neuronctl.common.units import UNLIMITED


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The site's file, which only root could write where it belongs."""
    file = tmp_path / "etc" / "partitions.yaml"
    monkeypatch.setattr(loader, "SITE_FILE", str(file))
    return file


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def layer(key: str, value: object) -> str:
    return f"clusters: {{neuron: {{partitions: {{cpu: {{{key}: {value}}}}}}}}}\n"


def test_layers_lie_over_one_another_in_their_order(
    tmp_path: Path, site: Path, clean_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = clean_home / ".config" / "neuronctl" / "partitions.yaml"
    env, option = tmp_path / "env.yaml", tmp_path / "option.yaml"

    def limit() -> object:
        catalog = loader.load(str(option) if option.exists() else None)
        file, _ = catalog.places[path_key(("neuron", "partitions", "cpu", "max_submit_jobs"))]
        limit = catalog.cluster().partition("cpu").max_submit_jobs
        return limit, catalog.files[file], catalog.files[-1]

    shipped = str(loader.data_path("partitions.yaml"))
    assert limit() == (8, shipped, shipped)
    write(site, layer("max_submit_jobs", 11))
    assert limit() == (11, str(site), str(site))
    write(user, layer("max_submit_jobs", 12))
    assert limit() == (12, str(user), str(user))
    write(env, layer("max_submit_jobs", 13))
    monkeypatch.setenv("NEURONCTL_CATALOG", str(env))
    assert limit() == (13, str(env), str(env))
    write(option, layer("max_submit_jobs", 14))
    assert limit() == (14, str(option), str(option))
    assert loader.load(str(option)).files == tuple(
        str(file) for file in (shipped, site, user, env, option)
    )


def test_a_line_is_cited_with_the_source_of_its_own_file(tmp_path: Path) -> None:
    path = ("neuron", "partitions", "cpu", "max_submit_jobs")
    below = ("neuron", "partitions", "cpu", "max_running_jobs")
    shipped = str(loader.data_path("partitions.yaml"))
    file = write(tmp_path / "x.yaml", layer("max_submit_jobs", 7))
    catalog = loader.load(str(file))
    assert catalog.cite(*path).text == f"{file}:1"
    assert catalog.cite(*below).text.startswith(f"{shipped}:")
    assert catalog.cite(*below).text.endswith(": KISTI Neuron user guide, 2026-08-12")
    said = "clusters: {neuron: {source: scontrol, date: 2026-11-21, partitions: {cpu: {"
    write(file, said + "max_submit_jobs: 7}}}}\n")
    catalog = loader.load(str(file))
    assert catalog.cite(*path).text == f"{file}:1: scontrol, 2026-11-21"
    assert re.fullmatch(f"{re.escape(shipped)}:[0-9]+", catalog.cite(*below).text)


def test_lists_are_replaced_and_null_takes_out(tmp_path: Path) -> None:
    file = write(
        tmp_path / "x.yaml",
        """
clusters:
  neuron:
    modules: [mine/1.0]
    policy:
      forbidden_options: {mem: null}
      comment: null
    partitions:
      bigmem: null
      cpu: {max_submit_jobs: null, wall_time: {maximum: null}}
      amd_a100nv_8: {wall_time: null}
  neuron-2022: null
""",
    )
    catalog = loader.load(str(file))
    assert "neuron-2022" not in catalog.clusters
    cluster = catalog.cluster()
    assert cluster.modules == ("mine/1.0",)
    assert set(cluster.policy.forbidden_options) == {"mem-per-cpu", "mem-per-gpu"}
    assert not cluster.policy.comment.required
    assert "bigmem" not in cluster.partitions
    cpu = cluster.partition("cpu")
    assert cpu.max_submit_jobs is None
    assert cpu.wall_time == WallTime(172800, None, 28800)
    assert cluster.partition("amd_a100nv_8").wall_time == cluster.wall_time
    assert catalog.cite("neuron", "policy", "comment", "form").text.startswith(f"{file}:7")


def test_a_cluster_of_ones_own(tmp_path: Path) -> None:
    file = write(
        tmp_path / "x.yaml",
        """
default_cluster: lab
clusters:
  lab:
    source: our wiki
    date: 2026
    arch: aarch64
    default_partition: gpu
    slurm_cluster_names: [lab01]
    environment: {HF_HUB_OFFLINE: 1}
    network: {interface: ib1, host_suffix: i}
    wall_time: {default: 60, maximum: UNLIMITED}
    policy: {account_required: true, login_shell: true, rules_off: [NC101],
             comment: {form: word, values: [a, b]}, cores: {rule: cap, cores_per_gpu: 7}}
    partitions:
      gpu: {nodes: 2, cores_per_node: 64, gpus_per_node: 4, gpu: a100,
            wall_time: {maximum: 30}, max_nodes: 2, open: false}
      long: {}
""",
    )
    shipped = loader.load()
    catalog = loader.load(str(file))
    lab = catalog.cluster()
    assert (lab.name, lab.title, lab.date, lab.arch) == ("lab", "lab", "2026", "aarch64")
    gpu, long = lab.partition("gpu"), lab.partition("long")
    # The cluster's default of 60 minutes cannot hold where 30 is the maximum.
    assert gpu.wall_time == WallTime(1800, 1800, None)
    assert long.wall_time == WallTime(3600, UNLIMITED, None)
    assert (gpu.arch, gpu.open, gpu.max_nodes, long.nodes) == ("aarch64", False, 2, None)
    assert lab.cores_per_gpu(gpu) == 7
    assert lab.policy.comment.values == ("a", "b")
    assert lab.environment == {"HF_HUB_OFFLINE": "1"}
    assert lab.default_partition == "gpu"
    assert list(catalog.clusters) == [*shipped.clusters, "lab"]
    for partition, line in (("gpu", 17), ("long", 12)):
        place = ("lab", "partitions", partition, "wall_time", "maximum")
        assert catalog.cite(*place).text == f"{file}:{line}: our wiki, 2026"


def test_files_that_must_be_there_and_files_that_need_not(
    tmp_path: Path, site: Path, clean_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader.load()
    with pytest.raises(CatalogError, match=r"^cannot read .*gone.yaml: No such file"):
        loader.load(str(tmp_path / "gone.yaml"))
    monkeypatch.setenv("NEURONCTL_CATALOG", str(tmp_path / "gone.yaml"))
    with pytest.raises(CatalogError, match=r"^cannot read .*gone.yaml: No such file"):
        loader.load()
    monkeypatch.setenv("NEURONCTL_CATALOG", "")
    loader.load()
    # A site's file that is there but no file at all is not passed over.
    site.mkdir(parents=True)
    with pytest.raises(CatalogError, match=r"Is a directory$"):
        loader.load()
    site.rmdir()
    site.symlink_to(site)
    with pytest.raises(CatalogError, match=r"symbolic links$"):
        loader.load()


def test_a_place_that_is_not_known_is_that_of_what_is_round_it() -> None:
    catalog = loader.load()
    round_it = catalog.cite("neuron", "partitions", "cpu")
    assert not catalog.has("neuron", "partitions", "cpu", "max_gpus")
    assert catalog.cite("neuron", "partitions", "cpu", "max_gpus") == round_it


def test_a_figure_carries_its_own_evidence(tmp_path: Path) -> None:
    catalog = loader.load()
    cap = catalog.cite("neuron", "policy", "cores", "rule")
    assert cap.doubtful
    assert cap.text.endswith(": observation (amd_a100nv_8, refusals that two users quote, 2026)")
    mem = catalog.cite("neuron", "policy", "forbidden_options", "mem")
    assert mem.doubtful
    assert mem.text.endswith(": advice: KISTI Neuron user guide, 2026-08-12")
    for path in (("policy", "comment"), ("partitions", "cpu", "max_submit_jobs")):
        assert not catalog.cite("neuron", *path).doubtful
    # Whoever sets a value says what it rests on.
    text = "clusters: {neuron: {%s policy: {cores: {rule: cap}}}}"
    own = loader.load(str(write(tmp_path / "x.yaml", text % "source: mine, date: 2026,")))
    assert own.cite("neuron", "policy", "cores", "rule").text.endswith("x.yaml:1: mine, 2026")
    assert not own.cite("neuron", "policy", "cores", "rule").doubtful
    seen = "evidence: {policy.cores: 'observation (here, today)'},"
    own = loader.load(str(write(tmp_path / "y.yaml", text % seen)))
    assert own.cite("neuron", "policy", "cores", "rule").doubtful


def test_what_is_kept_of_a_catalog_is_never_stale(tmp_path: Path, clean_home: Path) -> None:
    def limit() -> object:
        return loader.load(str(file)).cluster().partition("cpu").max_submit_jobs

    file = write(tmp_path / "c.yaml", layer("max_submit_jobs", 4))
    os.utime(file, (1, 1))
    assert limit() == 4
    write(file, layer("max_submit_jobs", 5))  # of the same size and time
    os.utime(file, (1, 1))
    assert limit() == 5
    write(clean_home / ".config" / "neuronctl" / "partitions.yaml", layer("note", "'x'"))
    assert loader.load(str(file)).cluster().partition("cpu").note == "x"


def test_a_partition_has_its_clusters_prices_unless_it_has_its_own(tmp_path: Path) -> None:
    own = write(
        tmp_path / "prices.yaml",
        "clusters: {neuron: {price: {gpu_hour: 2, node_hour: 1, currency: SU}, partitions: {"
        "cpu: {price: {gpu_hour: null, node_hour: 0.5}}, bigmem: {price: null}}}}\n",
    )
    neuron = loader.load(str(own)).cluster()
    whole = Price(2, 1, "SU")
    assert neuron.price == whole == neuron.price_in("unknown")
    assert neuron.price_in("gh200_1") == Price(0.11354, 1, "SU")
    assert neuron.price_in("cpu") == Price(None, 0.5, "SU")
    assert neuron.price_in("bigmem") == whole  # null takes out what a lower file says of it
