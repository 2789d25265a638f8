"""What neuronctl makes of the job files in tests/scripts, compared as text.

``pytest tests/golden --update-golden`` writes it anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_golden import MADE

from neuronctl.cli.root import root as command_line

SCRIPTS = Path(__file__).parents[1] / "scripts"
NAMES = sorted(path.stem for path in SCRIPTS.glob("*.yaml") if path.stem != "catalog")
ON_PATH = ("mytool", "flask", "ray", "conda")
DIRECTORY = "/the/directory"
"""Stands for the directory of submission, which --chdir makes part of a script."""


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the programs of the job files lie in; nothing of it is run."""
    directory = tmp_path_factory.mktemp("project")
    for name in NAMES:
        for file in re.findall(r"[\w./]+\.(?:py|sif)\b", (SCRIPTS / f"{name}.yaml").read_text()):
            (directory / file).write_text("")
    programs = tmp_path_factory.mktemp("programs")
    for file in (directory / "solver", *(programs / one for one in ON_PATH)):
        file.write_text("#!/bin/sh\n")
        file.chmod(0o755)
    for folder in ("data", "logs", "out", "project", "venv/bin"):
        (directory / folder).mkdir(parents=True)
    (directory / "project" / "main.py").write_text("")
    (directory / "venv" / "bin" / "activate").write_text("")
    return directory


@pytest.mark.parametrize("name", NAMES)
def test_script_of_a_job_file(
    name: str,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    update_golden: bool,
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setenv("NEURONCTL_CATALOG", str(SCRIPTS / "catalog.yaml"))
    programs = next(project.parent.glob("programs*"))
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    monkeypatch.setenv("USER", "you")
    file = str(SCRIPTS / f"{name}.yaml")
    code = command_line.main(["generate", "-f", file], prog_name="neuronctl", standalone_mode=False)
    said = capsys.readouterr()
    assert code in (None, 0), said.err
    script = said.out.replace(str(project), DIRECTORY)
    if update_golden:
        (MADE / f"{name}.sh").write_text(script, encoding="utf-8")
    assert script == (MADE / f"{name}.sh").read_text(encoding="utf-8"), (
        "look at the difference; --update-golden writes the file anew"
    )


def test_each_script_is_there_three_times() -> None:
    plain = {path.stem for path in SCRIPTS.glob("*.sh")}
    assert set(NAMES) == plain == {path.stem for path in MADE.iterdir()}
    assert len(NAMES) >= 25
