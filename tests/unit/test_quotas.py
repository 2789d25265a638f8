"""What is left of quotas where a job writes (NC413), by stand-ins for lfs and quota.

Their output is that of lfs-quota(1) and quota(1); no Lustre, and no kernel with disk quotas, was at
hand.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, List

import pytest
from plan_builders import plan_of

from neuronctl.catalog.cluster import Catalog
from neuronctl.planning.job_plan import CodeSnapshot
from neuronctl.rules import RuleContext, apply_rules, quotas
from neuronctl.rules.local_facts import gather_local_facts
from neuronctl.rules.quotas import Quota, read_quotas
from neuronctl.slurm import process

LFS = """\
Disk quotas for usr kim (uid 1001):
      Filesystem  kbytes   quota   limit   grace   files   quota   limit   grace
        /home01 [66437777]* 66000000 67108864   6d23h   99400       0  100000       -
Disk quotas for grp lab (gid 2001):
      Filesystem  kbytes   quota   limit   grace   files   quota   limit   grace
        /home01 1000 0 2000 - 10 0 0 -
uid 1001 is using default block quota setting
"""
QUOTA = """\
Disk quotas for user kim (uid 1001):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
nfs:/export/home  104857*  102400  512000 1        2310       0       0       0
      /dev/sdb1       24       0       0       0      10       0       0       0
Disk quotas for group lab (gid 2001): none
"""
Machine = Callable[..., List[str]]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Make a machine with these mounts and programs; returns the calls of its programs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(quotas, "TIMEOUT", 60)  # of a busy machine
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("HF_HOME", "WANDB_DIR"):
        monkeypatch.delenv(name, raising=False)
    calls, programs_of = tmp_path / "calls", tmp_path / "bin"
    calls.touch()
    programs_of.mkdir()
    monkeypatch.setenv("PATH", f"{programs_of}:{os.environ['PATH']}")

    def make(mounts: str, **programs: str) -> List[str]:
        (tmp_path / "mounts").write_text(mounts)
        monkeypatch.setattr(quotas, "_MOUNTS", str(tmp_path / "mounts"))
        for name, body in programs.items():
            (programs_of / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {calls}\n{body}')
            (programs_of / name).chmod(0o755)
        return calls.read_text().splitlines()

    return make


def printed(text: str) -> str:
    return f"cat <<'end'\n{text}end\n"


def test_lfs_quota_is_read() -> None:
    mine, group = read_quotas("lfs", LFS, 0)
    assert mine == Quota(
        "/home01", 66437777 << 10, 67108864 << 10, 99400, 100000, "", mine.source, ()
    )
    assert mine.is_low and "655 MiB of 64.0 GiB and 600 of 100,000 files left" in mine.words
    assert (group.owner, group.limit, group.most_files) == ("group lab", 2000 << 10, 0)
    assert not group.is_low and "quota of group lab on /home01 (lfs, " in group.words


def test_quota_is_read_and_a_passed_grace_makes_the_soft_limit_hard() -> None:
    (mine,) = read_quotas("quota", QUOTA, 100)
    assert (mine.place, mine.limit, mine.is_low) == ("nfs:/export/home", 102400 << 10, True)
    (mine,) = read_quotas("quota", QUOTA.replace(" 1   ", " 200 "), 100)
    assert (mine.limit, mine.is_low) == (512000 << 10, False)


def test_sizes_with_units_are_read() -> None:
    (mine,) = read_quotas("quotainfo", "/scratch 1.5T 0k 100T - 3M 0 4M -\n", 0)
    assert (mine.used, mine.limit) == (1.5 * (1 << 40), 100 << 40)
    assert (mine.files, mine.most_files) == (3_000_000, 4_000_000)


@pytest.mark.parametrize("text", ["", "none\n", "/home01 a b c d e f g h\n", "/x 1 2 3\n" * 9])
def test_other_output_says_nothing(text: str) -> None:
    assert list(read_quotas("quotainfo", text, 0)) == []


@pytest.mark.parametrize(
    ("used", "files", "is_low"),
    [(97, 10_000, False), (99, 10_000, True), (10, 99_001, True), (10, 97_000, False)],
)
def test_less_than_two_percent_or_1000_files(used: int, files: int, is_low: bool) -> None:
    assert Quota("/x", used, 100, files, 100_000).is_low == is_low


def findings(**fields: object) -> List[str]:
    made = plan_of(**{"script": "train.py", **fields})
    context = RuleContext(
        made, Catalog({"toy": made.cluster}, "toy", ()), gather_local_facts(made, quotas=True)
    )
    return [one.message for one in apply_rules(context) if one.code == "NC413"]


def test_a_job_that_writes_there_is_warned_of(machine: Machine, tmp_path: Path) -> None:
    text = LFS.replace("/home01", str(tmp_path))
    mounts = f"mgs:/lustre {tmp_path} lustre rw 0 0\n"
    machine(mounts, lfs=printed(text))
    (message,) = findings()
    assert "600 of 100,000 files left" in message
    assert message.endswith(
        "the job writes there: working directory (--chdir DIR), log (-o DIR/%x_%j.out)"
    )
    (tmp_path / "other").mkdir()
    machine(mounts + f"/dev/sdb1 {tmp_path}/other ext4 rw 0 0\n")
    fields = {"chdir": f"{tmp_path}/other", "output": f"{tmp_path}/other/%j.out"}
    assert findings(**fields) == []
    (message,) = findings(**fields, env=(("HF_HOME", f"{tmp_path}/models"),))
    assert message.endswith("the job writes there: HF_HOME (--env HF_HOME=DIR)")


@pytest.mark.parametrize(
    ("fields", "text", "holds"),
    [
        ({"env": (("WANDB_DIR", "~/runs"),)}, "", "WANDB_DIR"),
        ({}, "from transformers import Trainer\n", "HF_HOME"),
    ],
)
def test_caches_of_models_and_folders_of_runs(
    machine: Machine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fields: Any,
    text: str,
    holds: str,
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    (tmp_path / "train.py").write_text(text)
    lfs = printed(LFS.replace("/home01", str(home)))
    machine(f"x {tmp_path} lustre rw 0 0\nx {home} lustre rw 0 0\n", lfs=lfs)
    (message,) = findings(**fields)
    assert message.endswith(f"the job writes there: {holds} (--env {holds}=DIR)")


def test_a_snapshot_is_written_where_it_is_kept(machine: Machine, tmp_path: Path) -> None:
    place = tmp_path / "snapshots"
    machine(f"x {place} lustre rw 0 0\n", lfs=printed(LFS.replace("/home01", str(place))))
    code = CodeSnapshot(str(tmp_path), "", "", f"{place}/a", None)
    made = replace(plan_of(script="train.py"), code=code)
    (quota, _) = quotas.quotas_where_it_writes(made, ())
    assert quota.holds == ("copy of the code",)


def test_what_quota_says_of_a_device_holds_for_its_mount(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "my home").mkdir()
    mounted = f"nfs:/export/home {tmp_path}/my\\040home nfs4 rw 0 0\n"
    machine(mounted, quota=printed(QUOTA) + "exit 1\n")
    (message,) = findings(chdir=f"{tmp_path}/my home")
    assert f"on {tmp_path}/my home (quota, " in message


def test_a_command_is_asked_once_an_hour(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = f"mgs:/lustre {tmp_path} lustre rw 0 0\n"
    machine(mounts, lfs=printed(LFS.replace("/home01", str(tmp_path))))
    assert findings() == findings() != []
    assert machine(mounts) == [f"lfs quota {tmp_path}"]
    later = time.time() + 3601
    monkeypatch.setattr(time, "time", lambda: later)
    assert findings()
    assert machine(mounts) == [f"lfs quota {tmp_path}"] * 2


@pytest.mark.parametrize("body", ["exit 3\n", "exec sleep 600\n", "kill -9 $$\n"])
def test_a_command_that_fails_or_hangs_says_nothing_for_an_hour(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    monkeypatch.setattr(quotas, "TIMEOUT", 0.3 if "sleep" in body else 60)
    mounts = f"mgs:/lustre {tmp_path} lustre rw 0 0\n"
    machine(mounts, lfs=body)
    assert findings() == []
    monkeypatch.setattr(quotas, "TIMEOUT", 60)
    machine(mounts, lfs=printed(LFS.replace("/home01", str(tmp_path))))
    assert findings() == []


def test_one_that_cannot_be_killed_is_not_waited_for(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hung:
        def __init__(self, *_: object, **__: object) -> None: ...

        def answers(self) -> List[object]:
            time.sleep(600)
            return []

    monkeypatch.setattr(process, "Queries", Hung)
    monkeypatch.setattr(quotas, "TIMEOUT", 0.1)
    machine(f"mgs:/lustre {tmp_path} lustre rw 0 0\n")
    assert findings() == []


def test_no_program_is_asked_where_there_are_no_quotas(machine: Machine, tmp_path: Path) -> None:
    mounts = f"overlay / overlay rw 0 0\ntmpfs {tmp_path} tmpfs rw 0 0\n"
    machine(mounts, lfs="", quota="")
    assert findings() == [] and machine(mounts) == []
    assert not os.path.exists(tmp_path / "cache")
