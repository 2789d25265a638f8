"""What the sandbox says when the machine lacks something."""

from __future__ import annotations

from pathlib import Path

import pytest

from neuronctl.common.errors import SlurmUnavailableError
from neuronctl.sandbox import requirements
from neuronctl.slurm.sandbox_address import sub_ids


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", range(0)),
        ("other:100000:65536\n", range(0)),
        ("4711:100000:65536\n", range(100000, 165536)),
        ("4711:100000:65536\n4711:300000:70000\nother:1:99999\n", range(100000, 165536)),
        ("4711:x:65536\n4711:1\n4711\n:::\n", range(0)),
    ],
)
def test_sub_ids_of_a_user(tmp_path: Path, text: str, found: range) -> None:
    file = tmp_path / "subuid"
    file.write_text(text)
    assert sub_ids(str(file), 4711) == found


def test_all_that_is_missing_is_named_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requirements, "SEARCH_PATH", str(tmp_path))
    with pytest.raises(SlurmUnavailableError) as caught:
        requirements.check(987654)
    for word in ("slurm-wlm", "slurmdbd", "munge", "mariadb-server", "uidmap", "/etc/subuid"):
        assert word in caught.value.message
    assert "apt-get install" in caught.value.hint
    assert "usermod --add-subuids" in caught.value.hint
    assert "usermod --add-subgids" in caught.value.hint


def test_root_needs_no_sub_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "SEARCH_PATH", str(tmp_path))
    with pytest.raises(SlurmUnavailableError) as caught:
        requirements.check(0)
    assert "uidmap" not in caught.value.message
    assert "/etc/subuid" not in caught.value.message


def test_daemons_see_nothing_of_the_callers_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", "/nowhere")
    monkeypatch.setenv("LD_PRELOAD", "x.so")
    monkeypatch.setenv("PATH", "/nowhere")
    env = requirements.clean_environment()
    assert not {"SLURM_CONF", "LD_PRELOAD"} & set(env)
    assert env["PATH"] == requirements.SEARCH_PATH
