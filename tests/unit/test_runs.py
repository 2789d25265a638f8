"""The file in which a script notes its runs, as neuronctl reads it back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from test_diagnosis import run_of

from neuronctl.common.frozen import replace
from neuronctl.diagnosis.ended import diagnose
from neuronctl.diagnosis.evidence import JobEvidence
from neuronctl.diagnosis.log_text import read_tail
from neuronctl.records.job_record import JobRecord, RecordDraft
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.squeue import QueueJob
from neuronctl.tracking.chains import chain_of, fold, jobs_to_end
from neuronctl.tracking.job_status import JobStatus, from_record
from neuronctl.tracking.runs import mark_cancelled, read_runs, runs_of
from neuronctl.tracking.runs_words import runs_words

TEXT = """\
1 begin 1000 n[1-2] unknown 0 0
1 asked 1090 TERM
1 end 1100 1 saved moved 100
2 begin 1300 n3 unknown 50 60
2 end 1301 - lost still 1
3 begin 1500 n3 unknown 70 80
"""


def recorded(folder: Path, **more: Any) -> JobStatus:
    output, runs = str(folder / "%j.out"), str(folder / "%j.runs")
    more = {"request": {}, **more}
    draft = RecordDraft(
        str(folder), job_name="train", partition="gpu", output=output, runs=runs, **more
    )
    given = {"key": "k", "status": "submitted", "begun_at": 1, "script_sha256": "", "job_id": 7}
    who = {"user": "me", "host": "h", "version": "1"}
    return from_record(JobRecord.of(draft, **given, **who), "")[0]


def test_runs_as_noted(tmp_path: Path) -> None:
    found = read_runs(TEXT)
    first, second, third = found.runs
    assert (first.number, first.begin, first.nodes, first.code) == (1, 1000, "n[1-2]", 1)
    assert (first.cause, first.moved, first.seconds) == ("saved", True, 100)
    assert (second.cause, second.code, second.moved) == ("lost", None, False)
    assert (third.seconds, third.log_sizes) == (None, (70, 80))
    status = recorded(tmp_path)
    running = replace(status, state="RUNNING", elapsed=30)
    assert found.words(running) == "run 3, 2:11 in all, 2 requeues"
    waiting = read_runs("\n".join(TEXT.splitlines()[:3]))
    assert waiting.words(replace(status, state="PENDING")) == "run 2, 1:40 in all, 1 requeue"
    assert read_runs(TEXT.splitlines()[0]).words(running) == ""
    back = read_runs("1 begin 1000 n 0 0 0\n1 end 900 1 saved moved -100\n2 begin 900 n 0 0 0\n")
    assert back.words(running) == "run 2, 0:30 in all, 1 requeue", "its clock was set back"
    over = read_runs(TEXT + "3 over 1600 that was \x1b[31mall\n")
    assert over.words(running).endswith("that was ?[31mall")


def test_lines_that_cannot_be_read_are_left_out() -> None:
    assert read_runs("1 begin\nx begin y z\n\n1 end\n5 end 1 2\n\0\n").runs == ()


def test_only_the_users_own_file_counts(tmp_path: Path) -> None:
    status = recorded(tmp_path)
    record, file = status.record, tmp_path / "7.runs"
    assert runs_of(None, None) is None and runs_of(record, None) is None
    mark_cancelled([status])
    assert not file.exists()
    file.write_text(TEXT)
    assert len(runs_of(record, None).runs) == 3  # type: ignore[union-attr]
    mark_cancelled([status])
    assert file.read_text().startswith(TEXT + "- cancel ")
    elsewhere = tmp_path / "elsewhere"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    assert runs_of(record, None) is None
    file.unlink()
    os.mkfifo(file)
    assert runs_of(record, None) is None
    mark_cancelled([status])


CHAINED = """\
1 begin 1000 n1 unknown 0 0 7
1 next 1001 8
1 end 1100 - lost moved 100
2 begin 1300 n3 unknown 50 60 8
2 begin 1301 n4 unknown 50 60 9
2 next 1302 10
"""


def row(number: int, state: str, command: str = "/dev/stdin neuronctl-k") -> QueueJob:
    fields = dict.fromkeys(QueueJob.__annotations__)
    given = {"id": JobId(number), "job_id": number, "state": state, "command": command}
    given["name"] = "train"
    return QueueJob(**{**fields, **given})  # type: ignore[arg-type]


def test_a_chain_is_its_first_job(tmp_path: Path) -> None:
    status = recorded(tmp_path)
    (tmp_path / "7.runs").write_text(CHAINED)
    chain = chain_of(status.record)
    assert chain is not None and (chain.jobs, chain.last) == ({7, 8, 10}, 10)
    chains = {7: chain}
    rows = [row(number, "RUNNING" if number == 8 else "PENDING") for number in (8, 10, 11)]
    rows.insert(0, row(7, "FAILED"))
    assert [(str(one.id), one.job_id) for one in fold(rows, chains)] == [("11", 11), ("7", 8)]
    assert [str(id) for id in jobs_to_end(7, chain, rows)] == ["10", "8"]
    # What the file does not say, before Slurm 24 the job itself does.
    unknown = row(12, "PENDING", "/dev/stdin neuronctl-k 7 8")
    assert [one.job_id for one in fold([unknown], {})] == [12]
    assert fold([unknown], {})[0].id == JobId(7)
    assert [one.job_id for one in fold([row(7, "FAILED", "/s/7.sh"), unknown], {})] == [12]
    assert [str(id) for id in jobs_to_end(7, chain, [*rows, unknown])] == ["12", "10", "8"]
    running = replace(status, state="RUNNING", elapsed=30, job_id=8)
    assert chain.runs.words(running) == "run 2 as job 8, 2:10 in all"
    (tmp_path / "7.runs").write_text(CHAINED + "2 end 1400 0 finished moved 100\n")
    over = chain_of(status.record)
    assert over is not None and over.last == 8
    ended = [row(8, "COMPLETED"), row(10, "CANCELLED")]
    assert [one.job_id for one in fold(ended, {7: over})] == [8]
    # Something killed its shell as the program had ended with 0: the next job saw that.
    (tmp_path / "7.runs").write_text(CHAINED + "2 end 1400 - finished moved 100\n")
    seen = chain_of(status.record)
    assert seen is not None and seen.last == 10
    # Whoever cancels it between two runs has cancelled it, though the first of them says FAILED.
    for end, last in (("75 saved moved", 10), ("1 failed still", 10), ("0 finished moved", 8)):
        why = "- over 1400 it was cancelled\n"
        text = f"{CHAINED}- cancel 1399\n2 end 1400 {end} 100\n{why}"
        (tmp_path / "7.runs").write_text(text)
        cancelled = chain_of(status.record)
        assert cancelled is not None and cancelled.last == last, end
    # Cancelled while its second run went on: as that one ended, and not as the one that waited.
    (tmp_path / "7.runs").write_text(f"{CHAINED}- cancel 1399\n")
    went_on = chain_of(status.record)
    assert went_on is not None
    ended = [row(8, "CANCELLED"), row(10, "CANCELLED")]
    assert [one.job_id for one in fold(ended, {7: went_on})] == [8]
    # Cancelled as the third one waited: it has had two runs, of which job 8 was the second.
    (tmp_path / "7.runs").write_text(f"{CHAINED}2 end 1400 75 saved moved 100\n- cancel 1401\n")
    waited = chain_of(status.record)
    assert waited is not None
    ended = [row(8, "FAILED"), row(10, "CANCELLED")]
    assert [one.job_id for one in fold(ended, {7: waited})] == [10]
    cancelled_status = replace(status, state="CANCELLED", job_id=10)
    assert waited.runs.words(cancelled_status).startswith("run 2 as job 8, ")
    assert chain_of(None) is None


def test_another_job_that_got_the_number_of_a_run(tmp_path: Path) -> None:
    """slurmctld had not written down what it had accepted, or began to count anew."""
    status = recorded(tmp_path)
    (tmp_path / "7.runs").write_text(CHAINED)
    chain = chain_of(status.record)
    assert chain is not None
    named = replace(row(10, "RUNNING", "/s/other.sh"), name="other")
    told = row(10, "PENDING", "/dev/stdin neuronctl-k 9 9")
    for other, owner in ((named, "10"), (told, "9")):
        rows = [row(7, "FAILED"), other]
        assert [str(one.id) for one in fold(rows, {7: chain})] == [owner, "7"] or owner == "9"
        assert str(fold([other], {7: chain})[0].id) == owner
        assert jobs_to_end(7, chain, rows) == ()
    again = replace(chain, first=10)  # a chain of the same name
    assert str(fold([row(10, "RUNNING")], {7: chain, 10: again})[0].id) == "10"


def test_a_job_that_ended_before_slurm_took_its_next_run(tmp_path: Path) -> None:
    noted = "1 begin 1000 n1 unknown 0 0 7\n1 next 1001 8\n1 end 1100 75 saved moved 100\n"
    noted += "2 begin 1300 n1 unknown 0 0 8\n2 asked 1320 TERM\n2 end 1329 75 saved moved 29\n"
    (tmp_path / "7.runs").write_text(noted)
    (tmp_path / "7.out").write_text("run 2: no next run yet: job submit limit; trying again\n#\n")
    status = replace(recorded(tmp_path), state="TIMEOUT", job_id=8, elapsed=80, node_list="n1")
    logs = (read_tail(str(tmp_path / "7.out")),)
    made = diagnose(JobEvidence(status, 1500, logs=logs, runs=read_runs(noted)))
    assert made.what == "TIMEOUT: run 2 was to go on in another one"
    assert "resubmit 7' goes on" in made.remedy and made.line and made.line.number == 2
    assert runs_words(status).endswith("it ended before Slurm had taken run 3")
    for state, more in (
        ("RUNNING", ""),
        ("TIMEOUT", "2 next 1330 9\n"),
        ("FAILED", "2 over 1 x\n"),
    ):
        (tmp_path / "7.runs").write_text(noted + more)
        assert "before Slurm" not in runs_words(replace(status, state=state))


def test_a_run_that_asks_for_the_next_one_is_no_previous_one(tmp_path: Path) -> None:
    (tmp_path / "7.runs").write_text(CHAINED + "2 end 1400 75 saved moved 100\n")
    status = replace(recorded(tmp_path), state="RUNNING", job_id=8, node_list="n3", elapsed=130)
    what = diagnose(JobEvidence(status, 1500)).what
    assert "its previous run on n1 ended" in what and "ran 2 times" not in what


def test_a_held_run_is_released_by_its_own_id(tmp_path: Path) -> None:
    status = replace(recorded(tmp_path), state="PENDING", job_id=8, reason="JobHeldUser")
    assert "scontrol release 8'" in diagnose(JobEvidence(status, 1500)).remedy


def test_a_requeue_is_its_own_scripts(tmp_path: Path) -> None:
    status = replace(recorded(tmp_path), state="PENDING", reason="BeginTime", submit=1104)
    (tmp_path / "7.runs").write_text("1 begin 1000 n1 a 0 0\n1 end 1104 1 saved moved 104\n")
    earlier = (run_of(1000, 1104, "REQUEUED"),)
    made = diagnose(JobEvidence(status, 1200, earlier=earlier))
    assert "in another run; requeued by its own script (REQUEUED)" in made.cause
    begun = "2 begin 1110 n1 a 0 0\n"
    (tmp_path / "7.runs").write_text(f"1 begin 1000 n1 a 0 0\n1 end 1104 3 node still 104\n{begun}")
    runs = replace(status, state="RUNNING", submit=1104)
    made = diagnose(JobEvidence(runs, 1200, earlier=earlier))
    assert "a failure of its node, or before the program began; requeued by its own" in made.what
    asked = f"1 begin 1000 n1 a 0 0\n1 end 1104 - requeued moved 104\n{begun}"
    (tmp_path / "7.runs").write_text(asked)
    assert "requeued by a user" in diagnose(JobEvidence(runs, 1200, earlier=earlier)).what
    # A chain's runs are jobs of their own: nothing was requeued.
    (tmp_path / "7.runs").write_text("1 begin 1000 n1 a 0 0 7\n1 end 1104 75 saved moved 104\n")
    made = diagnose(JobEvidence(replace(status, job_id=8), 1200))
    assert made.what.startswith("pending for 1 min 36 s: ")
    assert "its previous run on n1 ended after 1 min 44 s: it ended to go on in" in made.cause
    (tmp_path / "7.runs").write_text("1 begin 1000 n1 a 0 0\n")
    assert "requeued by a user" in diagnose(JobEvidence(status, 1200, earlier=earlier)).cause
