"""What a new option costs: one entry in one file, and the page of the reference made from it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Callable, Dict

import pytest

pytestmark = pytest.mark.xdist_group("new_option")
Run = Callable[..., "subprocess.CompletedProcess[str]"]

TABLE = "neuronctl/request/job.py"
ENTRY = '    wckey: Optional[str] = option("--wckey KEY", "Key to book the job on.")\n'
SCRIPT = "#!/bin/bash\n#SBATCH -p amd_a100nv_8 --gres=gpu:1 --wckey='my key'\npython train.py\n"


@pytest.fixture(scope="module")
def with_entry(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Dict[str, str]:
    """The variables with which neuronctl has one entry more in its table."""
    made = tmp_path_factory.mktemp("with-entry")
    for name in ("neuronctl", "templates"):
        shutil.copytree(root / name, made / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "partitions.yaml", made)
    text = (made / TABLE).read_text(encoding="utf-8")
    before = "    mail_type: Optional[str]"
    assert text.count(before) == 1
    (made / TABLE).write_text(text.replace(before, ENTRY + before), encoding="utf-8")
    return {"PYTHONPATH": str(made)}


def test_an_option_is_written_from_the_command_line_and_a_job_file(
    run: Run, with_entry: Dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "job.yaml").write_text("wckey: my key\nscript: train.py\n")
    words = ("generate", "-p", "amd_a100nv_8", "--gres=gpu:1", "--field=misc", "--appl=pytorch")
    by_line = run(*words, "--wckey", "my key", "train.py", env=with_entry).stdout
    assert '\n#SBATCH --wckey="my key"\n' in by_line
    assert run(*words, "-f", "job.yaml", env=with_entry).stdout == by_line


def test_an_option_is_read_in_a_script_imported_completed_and_explained(
    run: Run, with_entry: Dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "job.sh").write_text(SCRIPT)
    assert "\nwckey: my key\n" in run("import", "job.sh", env=with_entry).stdout
    asked = {"_NEURONCTL_COMPLETE": "zsh_complete", "COMP_CWORD": "2"}
    asked = {**with_entry, **asked, "COMP_WORDS": "neuronctl submit --wck"}
    assert "--wckey" in run(env=asked).stdout
    assert "--wckey KEY" in run("submit", "--help", env=with_entry).stdout
