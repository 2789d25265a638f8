"""The record store on a real file system: whole, private, found by name, never in the way."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
import time
from pathlib import Path

import pytest

from neuronctl.common.errors import RecordError
from neuronctl.records.store import JobRecord, RecordDraft, RecordStore, SeenState
from neuronctl.slurm.job_id import JobId
from neuronctl.tracking.job_names import newest


def draft(**given: object) -> RecordDraft:
    values = {
        "cwd": "/scratch/kim",
        "command_line": ("neuronctl", "submit", "-p", "cpu", "t.py"),
        "script": "#!/bin/bash\npython t.py\n",
        "request": {"partition": "cpu", "env": [["A", "b"]]},
        "job_name": "train",
        "partition": "cpu",
        "output": "/scratch/kim/%x-%j.out",
        "decisions": (("nodes", "1", "derived", "not asked for"),),
        "findings": (("NC101", "warning", "t", "m", "s", "h"),),
        **given,
    }
    return RecordDraft(**values)  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return RecordStore(str(tmp_path / "state" / "neuronctl" / "jobs"))


def submitted(store: RecordStore, job_id: int, cluster: str | None = "neuron") -> JobRecord:
    return store.complete(store.begin(draft()), job_id, cluster)


def names(store: RecordStore) -> list[str]:
    return sorted(os.listdir(store.directory))


def test_from_intent_to_record(store: RecordStore) -> None:
    before = int(time.time())
    key = store.begin(draft())
    assert names(store) == [f"{key}.intent.json"]
    assert store.recent() == [] and store.get(4711) is None
    (intent,) = store.iter()
    assert intent.status == "intent" and before <= intent.begun_at <= time.time()

    record = store.complete(key, 4711, "neuron")
    assert names(store) == [f"{key}.neuron.4711.json"]
    assert store.get(4711) == record == store.recent()[0]
    assert (record.status, record.job_id, record.cluster) == ("submitted", 4711, "neuron")
    assert record.draft == draft() and record.user and record.host
    assert record.log_path() == "/scratch/kim/train-4711.out"
    assert store.warnings == []


def test_a_refused_submission(store: RecordStore) -> None:
    key = store.begin(draft())
    store.failed(key, "Invalid qos; HF_TOKEN=abc")
    assert names(store) == [f"{key}.failed.json"]
    (record,) = store.iter()
    assert (record.status, record.failure) == ("failed", "Invalid qos; HF_TOKEN=abc")
    assert store.recent() == []


def test_private_to_the_user(store: RecordStore) -> None:
    before = os.umask(0)
    try:
        submitted(store, 1)
    finally:
        os.umask(before)
    (file,) = Path(store.directory).iterdir()
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (Path(store.directory), file)]
    assert modes == [0o700, 0o600]
    Path(store.directory).chmod(0o755)
    submitted(store, 2)
    assert stat.S_IMODE(Path(store.directory).stat().st_mode) == 0o700


def test_the_script_is_kept_byte_for_byte(store: RecordStore) -> None:
    script = "export HF_TOKEN=x\npython \udce9.py\n"
    store.begin(draft(script=script))
    (record,) = store.iter()
    assert record.draft.script == script


def test_log_paths(store: RecordStore) -> None:
    pattern = draft(output="/s/%x-%A_%a-%j.out", error="/s/%N-%j.err", array="0-3")
    record = store.complete(store.begin(pattern), 40, None)
    assert record.log_path(3, own_id=43) == "/s/train-40_3-43.out"
    assert record.log_path(3, own_id=43, err=True) == "/s/%N-43.err"
    assert record.log_path(3, own_id=43, err=True, node_list="gpu[07-08]") == "/s/gpu07-43.err"


def test_found_by_id_and_cluster(store: RecordStore) -> None:
    submitted(store, 1, "neuron")
    other = submitted(store, 1, "other.x")
    unknown = submitted(store, 2, None)
    newest = submitted(store, 1, "neuron")
    assert store.get(1, "neuron") == newest
    assert store.get(1, "other.x") == other
    assert store.get(2, "neuron") == unknown
    assert store.get(1, "third") is None
    assert store.find([1, 2, 3], "neuron") == {1: newest, 2: unknown}
    assert store.recent(cluster="neuron") == [newest, unknown], "an older job 1 is another job"


def test_states_seen(store: RecordStore) -> None:
    record = submitted(store, 1)
    record = store.saw(record, "PENDING", "Priority")
    record = store.saw(record, "PENDING", "Resources")
    record = store.saw(record, "FAILED")
    record = store.saw(record, "FAILED", exit="3:0")
    record = store.saw(record, "FAILED")
    assert [(s.state, s.reason, s.exit) for s in record.states] == [
        ("PENDING", "Priority", ""),
        ("FAILED", "", ""),
        ("FAILED", "", "3:0"),
    ]
    assert store.get(1) == record
    assert isinstance(record.states[0], SeenState)


def test_of_many_names_one_file_is_read(store: RecordStore) -> None:
    submitted(store, 1)
    for n in range(300):  # each would be named in the warnings if it were read
        (Path(store.directory) / f"20250101T{n:09d}Z-00000000.neuron.{n + 2}.json").touch()
    os.utime(store.directory, (1, 1))
    assert store.get(1) is not None and len(store.recent(1)) == 1 and store.open_intents() == []
    assert len(store.recent(since=int(time.time()) - 3600)) == 1
    assert store.warnings == []


def test_what_is_not_a_record_is_skipped_and_left(store: RecordStore) -> None:
    good = submitted(store, 1)
    stamp = "20261121T004406399Z-0000000"
    other = {
        f"{stamp}1.neuron.2.json": '{"schema": 1, "key"',
        f"{stamp}2.neuron.3.json": '{"schema": 99}',
        f"{stamp}3.neuron.4.json": "[1]",
        f"{stamp}4.neuron.5.json": '{"schema": 1}',
        f"{stamp}5.neuron.6.json": "",
        "notes.txt": "mine",
        ".hidden": "",
    }
    for name, text in other.items():
        (Path(store.directory) / name).write_text(text)
    assert list(store.iter()) == [good]
    assert len(store.warnings) == 5
    said = "\n".join(store.warnings)
    assert (
        "not a record of this version of neuronctl (schema 99)" in said
        and "incomplete record" in said
    )
    assert {name: (Path(store.directory) / name).read_text() for name in other} == other


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("job_id", "4711"),
        ("states", [1]),
        ("begun_at", None),
        ("key", "../../../../tmp/20261121T004406399Z-00000001"),
    ],
)
def test_a_record_with_a_wrong_type_is_skipped(
    store: RecordStore, name: str, value: object
) -> None:
    submitted(store, 1)
    (file,) = Path(store.directory).iterdir()
    file.write_text(json.dumps({**json.loads(file.read_text()), name: value}))
    assert store.get(1) is None
    assert len(store.warnings) == 1


@pytest.mark.parametrize(
    ("name", "value"), [("script", None), ("decisions", [1]), ("request", []), ("surroundings", 1)]
)
def test_a_damaged_draft_leaves_its_job(store: RecordStore, name: str, value: object) -> None:
    submitted(store, 1)
    (file,) = Path(store.directory).iterdir()
    data = json.loads(file.read_text())
    data["draft"][name] = value
    file.write_text(json.dumps(data))
    record = store.get(1)
    assert record is not None and record.job_name == "train" and store.warnings == []
    with pytest.raises(RecordError, match="is damaged"):
        _ = record.draft
    assert store.saw(record, "RUNNING").states[0].state == "RUNNING"


def test_cut_off_between_record_and_intent(store: RecordStore) -> None:
    key = store.begin(draft())
    intent = (Path(store.directory) / f"{key}.intent.json").read_bytes()
    store.complete(key, 7, "neuron")
    (Path(store.directory) / f"{key}.intent.json").write_bytes(intent)
    assert [record.status for record in store.iter()] == ["submitted"]


def test_a_directory_that_cannot_be_written() -> None:
    store = RecordStore("/proc/self/neuronctl/jobs")  # /proc takes no files, whoever asks
    with pytest.raises(RecordError, match="cannot write"):
        store.begin(draft())
    assert store.recent() == [] and store.get(1) is None


def test_nothing_is_left_of_a_write_that_failed(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = store.begin(draft())

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(RecordError, match="No space left on device"):
            store.complete(key, 1)
    assert names(store) == [f"{key}.intent.json"]
    store.complete(key, 1)
    assert store.get(1) is not None


def test_completing_what_is_gone(store: RecordStore) -> None:
    with pytest.raises(RecordError, match="missing or damaged"):
        store.complete("20261121T004406399Z-00000000", 1)


def _submit_many(directory: Path, first: int) -> None:
    store = RecordStore(str(directory))
    for job_id in range(first, first + 20):
        submitted(store, job_id)


def test_two_login_nodes_at_once(store: RecordStore) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_submit_many, args=(store.directory, n)) for n in (100, 200)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(r.job_id or 0 for r in store.recent()) == [*range(100, 120), *range(200, 220)]
    assert len(names(store)) == 40 and store.warnings == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_record_of_another_user_is_skipped(store: RecordStore) -> None:
    submitted(store, 1)
    (file,) = Path(store.directory).iterdir()
    os.chown(file, 12345, -1)
    assert store.get(1) is None and "belongs to user 12345" in store.warnings[0]


def test_a_record_that_others_can_write_is_skipped(store: RecordStore) -> None:
    submitted(store, 1)
    (file,) = Path(store.directory).iterdir()
    file.chmod(0o666)
    assert store.get(1) is None and "other users can write it" in store.warnings[0]


def test_another_login_node_has_settled_the_submission(store: RecordStore) -> None:
    """It recovered the intent between sbatch's refusal, or doubt, and the record of that."""
    found, given_up = (store.begin(draft()) for _ in range(2))
    store.complete(found, 7, "neuron")
    store.failed(given_up, "never reached Slurm")
    before = names(store)
    for key in (found, given_up):
        store.failed(key, "Socket timed out")
        store.failed(key, "Socket timed out", certain=False)
    assert names(store) == before
    assert store.get(7) is not None


def test_the_newest_of_a_name_if_a_clock_was_ahead(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    for ahead, job_id in ((0, 4), (3600, 5), (1, 9)):
        monkeypatch.setattr("time.time", lambda ahead=ahead: now + ahead)
        store.complete(store.begin(draft()), job_id)
    assert newest("train", store) == JobId(9)
