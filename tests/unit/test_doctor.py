"""What doctor says of space that runs out: quotas, and files about to expire."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import List

import pytest

from neuronctl import doctor

HEAD = """\
Disk quotas for user kim (uid 1000):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + "  /dev/sda1 1048576* 1000000 1200000   6days  12  0  0\n", ["1.0 GiB of 977"]),
        (HEAD + "  nfs:/home 1048576  0  2097152           1234  0  5000\n", ["1.0 GiB of 2.0"]),
        (HEAD + "  nfs:/home     12       0       0              34     0     0\n", []),
        ("  /home 67108864* 67108864 69206016 6d23h59m 120 200000 200000 -\n", ["64.0 GiB of"]),
        ("/home/a/long/name\n      [5120] 0 10240 - 7* 7 7 -\n", ["5.0 MiB of 10.0 MiB, 7 of"]),
        ("Disk quotas for user kim (uid 1000): none\n", []),
        ("", []),
    ],
)  # fmt: skip
def test_quotas(text: str, said: List[str]) -> None:
    found = list(doctor.parse_quotas(text))
    assert len(found) == len(said)
    for one, words in zip(found, said):
        assert words in one.words


def test_space_that_runs_out(
    tmp_path: Path, clean_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bin, scratch = tmp_path / "bin", tmp_path / "scratch"
    bin.mkdir()
    scratch.mkdir()
    (scratch / "old.pt").write_text("x")
    os.utime(scratch / "old.pt", (time.time() - 13 * 86400,) * 2)
    for name, answer in (("quota", "  /h 200 100 0 6days 5 0 0"), ("lfs", "/s 95 0 100 - 5 0 0 -")):
        (bin / name).write_text(f"#!/bin/sh\necho '{answer}'\nexit 1\n")
        (bin / name).chmod(0o755)
    (tmp_path / "x.yaml").write_text(f"clusters: {{neuron: {{scratch: {scratch}}}}}\n")
    monkeypatch.setenv("PATH", f"{bin}:/usr/bin:/bin")
    names = ("quota", "scratch")
    checks = [one for one in doctor.examine(str(tmp_path / "x.yaml")) if one.name in names]
    used, nearly, old = checks
    assert (used.state, used.exit_code, nearly.state) == ("wrong", 9, "ok")
    assert used.words == "used up: 200 KiB of 100 KiB on /h"
    assert "du -xh" in used.hint and "du -xh" in nearly.hint
    assert f"not used for 12 days, such as {scratch}/old.pt" in old.words
    assert f"find {scratch} -type f -atime +11" in old.hint
