"""Whatever a file may contain: job files, configuration, catalogs, caches, and records."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import stat
from pathlib import Path
from typing import Any, Callable, Dict

import pytest
from bounds import bounded, inputs
from broken import content, data, texts
from hypothesis import example, given
from hypothesis import strategies as st
from slurm_answers import LIMITS

from neuronctl.catalog.loader import load
from neuronctl.catalog.merging import merge
from neuronctl.catalog.model import Catalog
from neuronctl.common import cache, yamlfile
from neuronctl.common.errors import CatalogError
from neuronctl.common.from_json import NOT_RESTORED, restored
from neuronctl.common.paths import config_dir, data_path
from neuronctl.judgement import limits_cache
from neuronctl.records import recorded
from neuronctl.records.job_record import JobRecord, RecordDraft, SeenState, decode, encode
from neuronctl.records.store import RecordStore
from neuronctl.rendering.render import render_job
from neuronctl.request.job_file import read_config
from neuronctl.scripts.find import scripts_at
from neuronctl.scripts.script_file import read_file
from neuronctl.submission import planned_job
from neuronctl.submission.resubmission import RecordedJob, exported_variables

JOBS = (
    "partition: amd_a100nv_8\nnodes: 2\ngpus-per-node: 4\ntime: 1-00:00:00\ncomment: pytorch\n"
    "script: train.py\nargs: [--lr, 0.1, 'a b']\n",
    "cluster: neuron-2022\npartition: amd_a100nv_8\ngres: gpu:a100:2\ncpus-per-task: 8\n"
    "array: 0-9%2\ndependency: afterok:17,singleton\nmail-type: END,FAIL\n"
    "mail-user: kim@example.org\noutput: logs/%x-%j.out\nsignal: B:USR1@120\n"
    "env:\n  A: 1.10\n  HF_HOME: /scratch/hf\nsetup:\n"
    "  - module purge\n  - |\n    echo 1\n    echo 2\n"
    "sbatch: [--nice=10]\nscript: train.py\n",
    "partition: cpu\nlauncher: mpirun\nntasks-per-node: 4\nmem: 16G\nmodule: [gcc/10.2.0, cuda]\n"
    "conda: pt\nexclude: n[1-3]\nnodelist: n4\nexclusive: true\nrequeue: false\njob-name: x\n"
    "account: lab\nqos: normal\nreservation: r\nconstraint: a&b\nscript: ./a.out\n",
)
CONFIGS = (
    "cluster: neuron-2022\npartition: amd_a100nv_8\ntime: 10:00\nenv: {A: b}\n",
    "comment: pytorch\nmail-type: END\nmodule: [a, b]\nsetup: [x]\n",
)
CATALOGS = (
    """\
clusters:
  toy:
    date: 2026-01-01
    source: the site's guide
    slurm_cluster_names: [toy, toy2]
    policy:
      submit_from: ['/scratch/{user}']
      gpus_required: true
      account_required: false
      memory_fraction: 0.95
      forbidden_options: {mem: memory comes with the cores}
      cores: {rule: cap}
      rules_off: [NC101]
      comment:
        required: true
        form: fields
        fields:
          - {key: field, values: [nlp, misc]}
    environment: {A: b}
    scratch: /scratch/{user}
    partitions:
      gpu:
        nodes: 4
        node_list: n[1-4]
        cores_per_node: [64, 64, 64, 32]
        memory_mb_per_node: 512000
        gpus_per_node: 8
        gpu: a100
        max_gpus: 24
        max_nodes: 3
        wall_time: {default: 1:00:00, maximum: 2-00:00:00, interactive_maximum: 8:00:00}
      cpu:
        cores_per_node: 48
""",
    Path(data_path("partitions.yaml")).read_text(encoding="utf-8"),
)

TOY = {"cluster": "toy", "partition": "gpu", "gpus_per_node": "1"}

DRAFT = RecordDraft(
    cwd="/scratch/kim",
    command_line=("neuronctl", "submit", "-p", "cpu", "t.py"),
    script="#!/bin/bash\n#SBATCH --nodes=1\npython t.py\n",
    request={
        "partition": "cpu",
        "env": [["A", "b"]],
        "args": ["--x"],
        "nodes": 1,
        "script": "t.py",
    },
    job_name="train",
    partition="cpu",
    output="/scratch/kim/%x-%j.out",
    time_limit=3600,
    nodes=1,
    decisions=(("nodes", "1", "derived", "not asked for"),),
    findings=(("NC101", "warning", "t", "m", "s", "h"),),
)
KEY = "20261121T003400123Z-00c0ffee"
RECORD = JobRecord.of(
    DRAFT,
    key=KEY,
    status="submitted",
    begun_at=1795221240,
    submitted_at=1795221241,
    script_sha256="0" * 64,
    user="kim",
    host="login",
    version="1",
    job_id=4711,
    cluster="neuron",
    stdout="/scratch/kim/train-4711.out",
    stderr="/scratch/kim/train-4711.out",
    pid=4711,
    states=(SeenState(1795221250, "PENDING", "Resources"), SeenState(1795221300, "RUNNING")),
    tasks={3: SeenState(1795221400, "COMPLETED", "", "0:0")},
)
RECORDS = (json.loads(encode(RECORD)), json.loads(encode(RECORD)))
RECORDS[1]["draft"]["request"] = {
    "steps": [
        {"script": "t.py", "args": ["x"], "allow_failure": True},
        {"together": [{"body": "true"}]},
    ]
}
RECORD_TEXTS = (encode(RECORD).decode("ascii"), json.dumps(RECORDS[0], indent=1))


def use(job_file: Any = None, catalog_file: Any = None, words: Any = (), **options: Any) -> None:
    """A plan, what the rules say of it, and its script, as ``generate`` makes them."""
    job = planned_job.plan_job(
        options, words=words, job_file=job_file, catalog_file=catalog_file, ask_slurm=False
    )
    job.judge()
    render_job(job.plan)


@pytest.mark.parametrize("text", JOBS)
def test_the_job_files_are_valid(text: str, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(text)
    use(str(tmp_path / "job.yaml"))


@pytest.mark.parametrize("text", CONFIGS)
def test_the_configurations_are_valid(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(text)
    assert read_config(str(tmp_path / "config.yaml")).values


def test_the_catalogs_are_valid(tmp_path: Path) -> None:
    for text in CATALOGS:
        (tmp_path / "catalog.yaml").write_text(text)
        load(str(tmp_path / "catalog.yaml"))
    (tmp_path / "catalog.yaml").write_text(CATALOGS[0])
    use(words=("train.py",), catalog_file=str(tmp_path / "catalog.yaml"), **TOY)


def test_the_records_are_valid() -> None:
    for text in RECORD_TEXTS:
        assert decode(text.encode()).draft == DRAFT


@inputs(1)
@given(texts(JOBS))
def test_job_files(text: str) -> None:
    file = Path(os.environ["HOME"], "job.yaml")
    file.write_bytes(content(text))
    with bounded():
        use(str(file))


@inputs(1)
@given(texts(CONFIGS), st.booleans())
def test_configuration(text: str, again: bool) -> None:
    file = Path(config_dir(), "config.yaml")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content(text))
    for _ in range(1 + again):  # the second time from the cache
        with bounded():
            use(words=("train.py",))


ODD: Dict[str, Callable[[str], None]] = {
    "pipe": os.mkfifo,
    "socket": lambda file: os.mknod(file, stat.S_IFSOCK | 0o600),
    "folder": os.mkdir,
    **{
        target: functools.partial(os.symlink, target)
        for target in (
            *("/dev/zero", "/dev/tty", "/dev/null", "/proc/self/mem", "/proc/self/pagemap"),
            *("/proc/self/environ", "/proc/kmsg", "/etc", "nowhere"),
        )
    },
}


@inputs(0.2)
@given(
    st.sampled_from(("config.yaml", "partitions.yaml", "templates/job.sh.j2", "templates/task.j2")),
    st.sampled_from(sorted(ODD)),
    st.booleans(),
)
def test_what_is_no_file(name: str, odd: str, named: bool) -> None:
    """In place of the user's own files, or where the user names one."""
    file = os.path.join(config_dir(), name)
    os.makedirs(os.path.dirname(file), exist_ok=True)
    ODD[odd](file)
    try:
        with bounded():
            use(file if named else None, file if named else None, words=("t.py",))
        with bounded():
            list(scripts_at(file)), read_file(file)
    finally:
        (os.rmdir if odd == "folder" else os.unlink)(file)


@inputs(1)
@given(texts(CATALOGS[:1]), st.sampled_from(("gpu", "cpu", "auto")))
def test_catalogs(text: str, partition: str) -> None:
    file = Path(os.environ["HOME"], "catalog.yaml")
    file.write_bytes(content(text))
    with bounded():
        use(words=("t.py",), catalog_file=str(file), **{**TOY, "partition": partition})


@inputs(0.02)
@given(texts(CATALOGS[1:], most=8))
def test_the_shipped_catalog(text: str) -> None:
    file = Path(os.environ["HOME"], "catalog.yaml")
    file.write_bytes(content(text))
    with bounded():
        load(str(file))


@inputs(2)
@example(RECORD_TEXTS[0].replace("python t.py", r"\ud800"))
@given(texts(RECORD_TEXTS))
def test_a_record_with_other_bytes(text: str) -> None:
    _use_record(content(text))


@inputs(2)
@given(data(RECORDS))
def test_a_record_with_other_values(changed: Any) -> None:
    try:
        _use_record(json.dumps(changed).encode("ascii"))
    except ValueError as error:  # json's own, of an int of too many digits
        assert "digits" in str(error)


@inputs(0.5)
@given(texts(RECORD_TEXTS), st.sampled_from((f"{KEY}.neuron.4711.json", f"{KEY}.intent.json")))
def test_a_record_in_the_store(text: str, name: str) -> None:
    store = RecordStore(os.path.join(os.environ["HOME"], "jobs"))
    os.makedirs(store.directory, mode=0o700, exist_ok=True)
    for left in os.listdir(store.directory):
        os.unlink(os.path.join(store.directory, left))
    Path(store.directory, name).write_bytes(content(text))
    with bounded():
        store.recent(), store.find([4711]), list(store.iter()), store.open_intents()
    with bounded():
        for record in store.recent():
            store.saw(record, "COMPLETED", "", "0:0")
            store.saw_tasks(record, {4: ("FAILED", "1:0")})


@inputs(1)
@given(data(({"data": {"a": [1, {"b": None}]}, "lines": {"": 1, "a": 1}, "raw": {"a": "1"}},)))
def test_the_cache_of_yaml(changed: Any) -> None:
    file, text = Path(os.environ["HOME"], "kept.yaml"), "a: [1, {b: }]\n"
    file.write_text(text, encoding="utf-8")
    _keep("yaml", str(file), changed, text)
    with bounded():
        document = yamlfile.read(file, CatalogError, found=True)
        assert document.where(("a", "0"))


@pytest.fixture(scope="module")
def limits() -> Any:
    return dataclasses.asdict(LIMITS)


@inputs(1)
@given(st.data())
def test_the_cache_of_limits(limits: Any, drawn: st.DataObject) -> None:
    _keep("limits", "key", drawn.draw(data(({"at": 1_800_000_000, "limits": limits},))), "")
    with bounded():
        limits_cache.read("key", now=1_800_000_060)


@pytest.fixture(scope="module")
def catalog() -> Any:
    text = f"default_cluster: toy\n{CATALOGS[0]}"
    return dataclasses.asdict(merge([yamlfile.parse(text, "toy.yaml", CatalogError)]))


@inputs(1)
@given(st.data())
def test_the_cache_of_catalogs(catalog: Any, drawn: st.DataObject) -> None:
    kept = json.loads(json.dumps(drawn.draw(data((catalog,)))))
    with bounded(*NOT_RESTORED):
        restored(Catalog, kept)


def _keep(kind: str, name: str, value: Any, source: str) -> None:
    """As ``cache.write`` does."""
    cache.write(kind, name, value, source)


def _use_record(file: bytes) -> None:
    record = None
    with bounded(ValueError):  # which says why it is none, and the store warns
        record = decode(file)
    if record is None:
        return
    with bounded():
        assert encode(record) and record.json_data()
    with bounded():
        record.draft, recorded.request_layer(record), exported_variables(record, {})
    with bounded():
        RecordedJob(record).draft, RecordedJob(record).script()
    if record.job_id is not None:
        with bounded():
            record.log_path(), record.log_path(3, err=True)
