"""Whatever a file may contain: job files, configuration, catalogs, caches, and records."""

from __future__ import annotations

import functools
import json
import os
import stat
from pathlib import Path
from typing import Any, Callable, Dict

import pytest
from bounds import assert_bounded, inputs
from broken import content, data, texts
from hypothesis import example, given
from hypothesis import strategies as st

from neuronctl.catalog.loader import load as load_catalog
from neuronctl.common.paths import config_dir
from neuronctl.records import found_records, job_record
from neuronctl.records.store import RecordStore
from neuronctl.rendering.render import render_job
from neuronctl.scripts.script_file import read_file, scripts_at
from neuronctl.serving import recipes
from neuronctl.serving.server_job import plan_server
from neuronctl.serving.server_state import connect, read_note, servers_dir
from neuronctl.submission import planned_job
from neuronctl.submission.resubmission import _draft_again, _exported_variables

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
        fields: {field: [nlp, misc]}
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
)

PLAIN = {"partition": "amd_a100nv_8", "gpus_per_node": "1"}
TOY = {"cluster": "toy", "partition": "gpu", "gpus_per_node": "1"}

DRAFT = job_record.RecordDraft(
    cwd="/scratch/kim",
    command_line=("neuronctl", "submit", "-p", "cpu", "t.py"),
    script="#!/bin/bash\n#SBATCH --nodes=1\npython t.py\n",
    request={"partition": "cpu", "env": [["A", "b"]], "args": ["--x"], "nodes": 1, "script": "t"},
    job_name="train",
    partition="cpu",
    output="/scratch/kim/%x-%j.out",
    time_limit=3600,
    nodes=1,
    decisions=(("nodes", "1", "derived", "not asked for"),),
    findings=(("NC101", "warning", "t", "m", "s", "h"),),
)
KEY = "20261121T003400123Z-00c0ffee"
RECORD = job_record.JobRecord(
    **job_record.draft_fields(DRAFT),
    key=KEY,
    status="submitted",
    begun_at=1795221240,
    submitted_at=1795221241,
    user="kim",
    host="login",
    version="1",
    job_id=4711,
    cluster="neuron",
    pid=4711,
    states=(
        job_record.SeenState(1795221250, "PENDING", "Resources"),
        job_record.SeenState(1795221300, "RUNNING"),
    ),
)
RECORD_TEXTS = (job_record.encode(RECORD).decode("ascii"),)


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


@inputs(1)
@given(texts(JOBS))
def test_job_files(text: str) -> None:
    file = Path(os.environ["HOME"], "job.yaml")
    file.write_bytes(content(text))
    with assert_bounded():
        use(str(file))


@inputs(1)
@given(texts(CONFIGS), st.booleans())
def test_configuration(text: str, again: bool) -> None:
    file = Path(config_dir(), "config.yaml")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content(text))
    for _ in range(1 + again):  # the second time from the cache
        with assert_bounded():
            use(words=("train.py",))


ODD: Dict[str, Callable[[str], None]] = {
    "pipe": os.mkfifo,
    "socket": lambda file: os.mknod(file, stat.S_IFSOCK | 0o600),
    "folder": os.mkdir,
    **{
        target: functools.partial(os.symlink, target)
        for target in (
            *("/dev/zero", "/dev/tty", "/dev/null", "/proc/self/mem", "/proc/self/pagemap"),
            *("/proc/self/environ", "/etc", "nowhere"),
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
        with assert_bounded():
            use(file if named else None, file if named else None, words=("t.py",))
        with assert_bounded():
            scripts_at(file, []), read_file(file)
    finally:
        (os.rmdir if odd == "folder" else os.unlink)(file)


RECIPES = [Path(recipes.load(name).file).read_text("utf-8") for name in ("jupyter", "ssh")]
NOTES = (
    '{"recipe": "ssh", "job": "7", "run": "0", "name": "mine", "node": "localhost", '
    '"address": "127.0.0.1", "port": "31000", "localhost": "j7.localhost", "token": "abc", '
    '"pid": 12, "python": "/usr/bin/python3", "program": "/p", "state": "answers", "words": "", '
    '"user": "kim", "since": 1.5, "asked": 2.5, "values": {"host_key": "ssh-ed25519 AAAA"}}\n',
)


@inputs(1)
@given(texts(RECIPES))
def test_recipes(text: str) -> None:
    file = Path(config_dir(), "templates", "recipes", "mine.yaml")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content(text))
    with assert_bounded():
        job = plan_server(
            *(recipes.load("mine"), ("{port}",)),
            lambda more: planned_job.plan_job(PLAIN, body=more["body"], ask_slurm=False),
        )
        assert job.script


@inputs(1)
@given(texts(NOTES))
def test_what_a_job_has_noted(text: str) -> None:
    folder = Path(servers_dir(), "7")
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    (folder / "note").write_bytes(content(text))
    with assert_bounded():
        note = read_note(7)
        if note is not None and note.address == "127.0.0.1":
            assert note.summary and note.place and int(note.since) >= 0
            connect(note, load_catalog(None).cluster())


@inputs(1)
@given(texts(CATALOGS), st.sampled_from(("gpu", "cpu", "auto")))
def test_catalogs(text: str, partition: str) -> None:
    file = Path(os.environ["HOME"], "catalog.yaml")
    file.write_bytes(content(text))
    with assert_bounded():
        use(words=("t.py",), catalog_file=str(file), **{**TOY, "partition": partition})


@inputs(2)
@example(RECORD_TEXTS[0].replace("python t.py", r"\ud800"))
@given(texts(RECORD_TEXTS))
def test_a_record_with_other_bytes(text: str) -> None:
    _assert_record(content(text))


@inputs(2)
@given(data((json.loads(job_record.encode(RECORD)),)))
def test_a_record_with_other_values(changed: Any) -> None:
    try:
        _assert_record(json.dumps(changed).encode("ascii"))
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
    with assert_bounded():
        store.recent(), store.find([4711]), list(store.iter()), store.open_intents()
    with assert_bounded():
        for record in store.recent():
            store.saw(record, "COMPLETED", "", "0:0")


def _assert_record(file: bytes) -> None:
    record = None
    with assert_bounded(ValueError):  # which says why it is none, and the store warns
        record = job_record.decode(file)
    if record is None:
        return
    with assert_bounded():
        assert job_record.encode(record) and record.json_data()
    with assert_bounded():
        (
            record.draft,
            found_records.stored_layer(record.draft.request, "it"),
            _exported_variables(record, {}),
        )
    with assert_bounded():
        _draft_again(record)
    if record.job_id is not None:
        with assert_bounded():
            record.log_path(), record.log_path(3, err=True)
