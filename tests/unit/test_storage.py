"""Quotas as quota and lfs print them; caches and old files in made directories."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import List

import pytest

from neuronctl import doctor
from neuronctl.storage import caches_in, expiring, parse_quotas

NAMES = ("quota", "caches", "scratch")
HEAD = """\
Disk quotas for user kim (uid 1000):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
"""
LFS_HEAD = "Disk quotas for usr kim (uid 1000):\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + "  /dev/sda1 1048576* 1000000 1200000   6days  12  0  0\n", ["1.0 GiB of 977"]),
        (HEAD + "  nfs:/home 1048576  0  2097152           1234  0  5000\n", ["1.0 GiB of 2.0"]),
        (HEAD + "  nfs:/home     12       0       0              34     0     0\n", []),
        (HEAD + "  nfs:/home  12   2048   4096   999    900   1000   none\n", ["999 of"]),
        ("  /home 67108864* 67108864 69206016 6d23h59m 120 200000 200000 -\n", ["64.0 GiB of"]),
        ("/home/a/long/name\n      [5120] 0 10240 - 7* 7 7 -\n", ["5.0 MiB of 10.0 MiB, 7 of"]),
        (LFS_HEAD + "Some errors happened when getting quota info.\n", []),
        ("Disk quotas for user kim (uid 1000): none\n", []),
        ("", []),
        ("\x00 9 9 9 9 9 9\n" * 3, ["9.0 KiB of 9.0 KiB"] * 3),
    ],
)  # fmt: skip
def test_quotas(text: str, said: List[str]) -> None:
    found = parse_quotas(text)
    assert len(found) == len(said)
    for one, words in zip(found, said):
        assert words in str(one)


def test_how_much_of_a_quota_is_used() -> None:
    soft, hard, files = parse_quotas(
        "/a 1048576* 1000000 1200000 6days 1 0 0\n/b 5 0 10 - 1 0 0\n/c 5 0 10 - 9 10 12 -\n"
    )
    assert soft.share > 1 and hard.share == 0.5 and files.share == 0.9


def test_caches_below_home(tmp_path: Path) -> None:
    home, scratch = tmp_path / "home", tmp_path / "scratch"
    for place, count in ((".cache/huggingface/hub", 300), (".cache/pip", 100), (".conda/pkgs", 0)):
        (home / place).mkdir(parents=True)
        (home / place / "x").write_bytes(b"x" * count * 1024)
    (scratch / "apptainer").mkdir(parents=True)
    (home / ".apptainer").mkdir()
    (home / ".apptainer" / "cache").symlink_to(scratch / "apptainer")  # it takes no room at home
    (home / ".cache" / "pip" / "loop").symlink_to(home)
    found = caches_in(str(home), {})
    assert [cache.name for cache in found] == ["Hugging Face", "pip", "conda"]
    assert found[0].bytes >= 300 * 1024 > found[1].bytes >= 100 * 1024
    moved = {"HF_HOME": str(scratch), "PIP_CACHE_DIR": str(home / "nothing")}
    assert [cache.name for cache in caches_in(str(home), moved)] == ["conda"]
    assert caches_in(str(tmp_path / "nobody"), {}) == ()


def test_what_expires(tmp_path: Path) -> None:
    now = time.time()
    (tmp_path / "below").mkdir()
    for name, read, written in (("below/old", 13, 20), ("read", 2, 20), ("written", 20, 2)):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (now - read * 86400, now - written * 86400))
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    found = expiring(str(tmp_path), 12)
    assert found is not None and (found.files, found.first) == (1, str(tmp_path / "below" / "old"))
    assert expiring(str(tmp_path), 14) is None and expiring(str(tmp_path / "none"), 1) is None


def test_what_doctor_says_of_space_that_runs_out(
    tmp_path: Path, clean_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bin, scratch = tmp_path / "bin", tmp_path / "scratch"
    bin.mkdir()
    scratch.mkdir()
    (clean_home / ".cache" / "huggingface").mkdir(parents=True)
    (clean_home / ".cache" / "huggingface" / "model").write_bytes(b"x" * 9000)
    (scratch / "old.pt").write_text("x")
    os.utime(scratch / "old.pt", (time.time() - 13 * 86400,) * 2)
    for name, answer in (("quota", "  /h 200 100 0 6days 5 0 0"), ("lfs", "/s 95 0 100 - 5 0 0 -")):
        (bin / name).write_text(f"#!/bin/sh\necho '{answer}'\nexit 1\n")
        (bin / name).chmod(0o755)
    (tmp_path / "x.yaml").write_text(f"clusters: {{neuron: {{scratch: {scratch}}}}}\n")
    monkeypatch.setenv("PATH", str(bin))
    monkeypatch.setattr(doctor, "_LARGE", 4096)
    checks = [one for one in doctor.examine(str(tmp_path / "x.yaml")) if one.name in NAMES]
    used, nearly, caches, old = checks
    assert (used.state, used.exit_code, nearly.state) == ("wrong", 9, "ok")
    assert used.words == "used up: 200 KiB of 100 KiB on /h"
    assert "du -xh" in used.hint and "du -xh" in nearly.hint
    assert caches.words.startswith("Hugging Face 12.0 KiB in ")
    assert f"export HF_HOME={scratch}/huggingface" in caches.hint
    assert f"1 file not used for 12 days, such as {scratch}/old.pt" in old.words
    assert old.hint.endswith(f"find {scratch} -type f -atime +11")
