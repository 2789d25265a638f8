"""What doctor says of space that runs out."""

from __future__ import annotations

from pathlib import Path

import pytest

from neuronctl import doctor


def test_quotas_that_are_used_up(
    tmp_path: Path, clean_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, answer in (("quota", "  /h 200* 100 0 6days"), ("lfs", "/s 95 0 100 - 5 0 0 -")):
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{answer}'\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (used,) = (check for check in doctor.examine() if check.name == "quota")
    assert (used.state, used.exit_code) == ("wrong", 9)
    assert used.words == "used up, says quota: /h 200* 100 0 6days" and "du -xh" in used.hint
