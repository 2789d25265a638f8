"""Wishes that make a job wait: dependencies, a moment to begin at, other options."""

from __future__ import annotations

import dataclasses
import time

import pytest
from slurm_answers import BUSY, NOW, codes, job, judged, live, node, with_partition


def test_singleton_waits_for_jobs_of_its_name() -> None:
    asked = {"gpus_per_node": 1, "dependency": "singleton", "job_name": "fold"}
    assert judged(live(), **asked).verdict.kind == "can start now"
    assert judged(live((job(1, name="other"),)), **asked).verdict.kind == "can start now"
    verdict = judged(live((job(1, name="other"), job(2, name="fold"))), **asked).verdict
    assert (verdict.kind, verdict.cause) == ("will wait", "Dependency")
    assert "your jobs of the same name" in verdict.words
    asked["dependency"] = "SINGLETON"  # Slurm takes it, too
    assert judged(live((job(2, name="fold"),)), **asked).verdict == verdict
    # What is certain comes before what is not known.
    verdict = judged(live(BUSY), **asked).verdict
    assert (verdict.kind, verdict.cause) == ("will wait", "QOSMaxJobsPerUserLimit")


STATES = {7: "FAILED", 8: "COMPLETED", 9: "RUNNING"}


@pytest.mark.parametrize(
    ("text", "kind", "cause"),
    [
        ("afterok:7", "will wait", "DependencyNeverSatisfied"),
        ("afterok:7,afterany:9", "will wait", "DependencyNeverSatisfied"),
        ("aftercorr:8", "not known", ""),
        ("afternotok:8", "will wait", "DependencyNeverSatisfied"),
        ("afterok:8", "can start now", ""),
        ("afterok:8:9", "will wait", "Dependency"),
        ("afterok:7?afterok:9", "not known", ""),
        ("after:9+5", "not known", ""),
        ("afterok:7_3", "not known", ""),
        ("afterany:8", "can start now", ""),
        ("afterok:11", "not known", ""),
        ("afterany:11:9", "will wait", "Dependency"),
        ("afterany:11", "can start now", ""),
        ("afterany:9,afterok:11", "not known", ""),
        ("afterok:11111111111", "not known", ""),
        ("afterok:\u0667", "not known", ""),
    ],
)
def test_dependencies(text: str, kind: str, cause: str) -> None:
    states = {one: STATES[one] for one in STATES if str(one) in text}
    verdict = judged(live(job_states=states), gpus_per_node=1, dependency=text).verdict
    assert (verdict.kind, verdict.cause) == (kind, cause)


def test_a_dependency_that_cannot_be_met_is_told_with_its_job() -> None:
    verdict = judged(live(job_states={7: "FAILED"}), dependency="afterok:7").verdict
    assert verdict.words.startswith("forever: --dependency=afterok:7 cannot be met, because job 7 ")
    # Each is named once.
    for state, words in (("FAILED", "because job 7 ended as FAILED"), ("RUNNING", "on job 7 (--")):
        twice = judged(live(job_states={7: state}), dependency="afterok:7,afterok:7:7").verdict
        assert words in twice.words and twice.words.count("job 7") == 1
    # Tasks of an array have ids of their own; of them all, one state tells nothing.
    several = live(job_states={7: "FAILED", 6: "COMPLETED"})
    assert judged(several, dependency="afterok:7").verdict.kind == "not known"


def test_indexes_of_tasks_are_no_jobs() -> None:
    look = live(job_states={7: "RUNNING"})
    for text in ("afterok:7_[1-3]", "afterok:7_2", "after:7+5"):
        assert "NC512" not in codes(judged(look, dependency=text)), text


def test_what_it_waits_for_does_not_hide_that_slurm_may_refuse_it() -> None:
    look = live(limits=with_partition(max_memory_mb_per_cpu=999))
    assert judged(look, gpus_per_node=1, sbatch=("hold",)).verdict.kind == "not known"
    assert judged(live(), gpus_per_node=1, sbatch=("hold", "tmp=5")).verdict.kind == "not known"
    assert judged(live(), gpus_per_node=1, sbatch=("licenses=foo",)).verdict.kind == "not known"


@pytest.mark.parametrize("option", ["hint=nomultithread", "threads-per-core=1"])
@pytest.mark.parametrize(("threads", "kind"), [(1, "can start now"), (2, "not known")])
def test_options_about_threads(option: str, threads: int, kind: str) -> None:
    nodes = (node("n1", threads=threads),)
    limits = dataclasses.replace(with_partition(), nodes=nodes)
    assert judged(live(limits=limits), sbatch=(option,)).verdict.kind == kind


def test_a_gres_of_none_is_none() -> None:
    assert judged(live(), gres=("none",)).verdict.kind == "can start now"


def test_a_moment_to_begin_at_is_told() -> None:
    verdict = judged(live(), gpus_per_node=1, sbatch=("begin=now+90minutes",)).verdict
    assert (verdict.kind, verdict.cause) == ("will wait", "BeginTime")
    assert verdict.until == NOW + 5400
    shown = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(NOW + 5400))
    assert f"it starts at {shown} (--begin=now+90minutes), 01:30:00 from now" in verdict.words
    # Slurm names what it depends on first.
    look = live(job_states={9: "RUNNING"})
    both = judged(look, sbatch=("begin=now+1hour",), dependency="afterok:9").verdict
    assert (both.cause, both.until) == ("Dependency", None)
