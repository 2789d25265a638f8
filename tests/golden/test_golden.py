"""Whole scripts, compared as text: a change in any of them is seen by a person before it counts.

``pytest tests/golden --update-golden`` writes them anew.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Callable, Dict, List

import pytest
from cases import ALLOCATION, CASES, FILES

SCRIPTS = Path(__file__).parent / "scripts"
MADE = Path(__file__).parents[1] / "scripts" / "made"
SHELLCHECK = shutil.which("shellcheck", path=str(Path(sys.executable).parent)) or "shellcheck"

Run = Callable[..., "subprocess.CompletedProcess[str]"]


SECRET = "hf_" + "a" * 28


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / os.path.expanduser(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "solver").chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("name", CASES)
def test_script_is_the_golden_one(name: str, project: Path, run: Run, update_golden: bool) -> None:
    allocation = dict(ALLOCATION) if CASES[name][0] == "run" else {}
    result = run(*CASES[name], cwd=project, env={"HF_TOKEN": SECRET, **allocation})
    if CASES[name][0] == "generate":  # salloc says too whether there is a Slurm to be asked
        assert result.stderr == ""
    if update_golden:
        (SCRIPTS / name).write_text(result.stdout, encoding="utf-8")
    assert result.stdout == (SCRIPTS / name).read_text(encoding="utf-8"), (
        "look at the difference; --update-golden writes the file anew"
    )


def test_every_golden_file_has_a_case() -> None:
    assert {path.name for path in SCRIPTS.iterdir()} == set(CASES)


@pytest.mark.parametrize("folder", [SCRIPTS, MADE], ids=lambda path: path.name)
def test_bash_and_shellcheck_can_read_them(folder: Path) -> None:
    """Severity, shell and the one exception stand in the .shellcheckrc beside them."""
    files = sorted(folder.iterdir())
    for file in files:
        subprocess.run(["bash", "-n", file], check=True)
    result = subprocess.run(
        [SHELLCHECK, "--severity=warning", *files], capture_output=True, text=True
    )
    assert (result.returncode, result.stdout) == (0, "")


def directives(script: str) -> Dict[str, str]:
    """option -> value of the ``#SBATCH`` lines; none twice, each with a long name."""
    found: Dict[str, str] = {}
    for line in script.splitlines():
        match = re.match(r"#SBATCH --([a-z-]+)(?:=(\"[^\"]*\"|\S+))?(?:\s+# .*)?$", line)
        if line.startswith("#SBATCH"):
            assert match, line
            assert match[1] not in found, line
            found[match[1]] = (match[2] or "").strip('"')
    return found


def test_tutorial_script_carries_what_the_tutorial_says() -> None:
    """The figures of the tutorial's own train_hvd.sh, copied from it."""
    script = (SCRIPTS / "neuron-2022-train_hvd.sh").read_text()
    assert directives(script) == {
        "job-name": "pytorch_horovod",
        "time": "24:00:00",
        "comment": "pytorch",
        "partition": "amd_a100nv_8",
        "nodes": "4",
        "ntasks-per-node": "8",
        "cpus-per-task": "4",
        "output": "%x_%j.out",
        "error": "%x_%j.err",
        "gres": "gpu:8",
    }
    lines = script.splitlines()
    modules = lines.index("module purge")
    assert lines[modules + 1].startswith("module load gcc/10.2.0 cuda/11.4 cudampi/openmpi-4.1.1")
    assert script.endswith("""\n    exec "$@"' bash python train_hvd.py\n""")


def test_tutorial_allocation_carries_what_the_tutorial_says() -> None:
    command = (SCRIPTS / "neuron-2022-salloc.sh").read_text().splitlines()[0].split()
    assert command[0] == "salloc"
    asked = {
        *["--partition=amd_a100nv_8", "--job-name=debug", "--nodes=2", "--time=8:00:00"],
        *["--gres=gpu:4", "--comment=python"],
    }
    assert asked <= set(command[: command.index("srun")])


def body(name: str) -> List[str]:
    return (SCRIPTS / name).read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", CASES)
def test_free_of_well_known_defects(name: str) -> None:
    """What public scripts get wrong, and what can be seen in the text alone."""
    text = "\n".join(line for line in body(name) if not line.lstrip().startswith("# "))
    text = re.sub(r"(?m)  # .*$", "", text)
    code = re.sub(r"'[^']*'", "''", text)  # what a task evaluates, and the program's own words
    outside_tasks = re.sub(r"(?ms)^check_node\(\) {.*?^}$", "", code)
    assert not re.search(r"\$\{?SLURM_(PROCID|NODEID|LOCALID)", outside_tasks)
    assert not re.search(r"hostname (-[iI]|--ip|--all)", code)
    assert not re.search(r"CUDA_VISIBLE_DEVICES=", code)
    assert "gpus-per-task" not in code
    assert not re.search(r"--export\b", code)
    assert "set -u" not in code
    assert not re.search(r"[\r\u2010-\u2015\u00a0]", code)
    for line in "\n".join(body(name)).replace(" \\\n", "").splitlines():
        if re.match(r" *(exec )?srun ", line):
            # What runs beside the launch, or before it, is no node's to end.
            wanted = "0" if " --overlap" in line else "1"
            assert "--cpus-per-task=" in line
            assert f"--kill-on-bad-exit={wanted}" in line or " --ntasks=1 " in line
    starts = [n for n, line in enumerate(body(name)) if line.startswith("#SBATCH")]
    assert starts == list(range(1, len(starts) + 1)), "directives stand together, at the top"


BUDGETS = {
    "neuron-python-one-gpu.sh": ("", 25),
    **{
        f"two-nodes-{launcher}.sh": ("", 45)
        for launcher in ("torchrun", "srun", "accelerate", "deepspeed", "horovodrun", "mpirun")
    },
    "one-gpu-until-done.sh": ("neuron-python-one-gpu.sh", 30),
    "one-gpu-chain.sh": ("neuron-python-one-gpu.sh", 40),
    "two-nodes-until-done.sh": ("two-nodes-torchrun.sh", 30),
    "two-nodes-chain.sh": ("two-nodes-torchrun.sh", 40),
    "neuron-monitor.sh": ("neuron-python-one-gpu.sh", 45),
    "two-nodes-monitor.sh": ("two-nodes-torchrun.sh", 45),
    "two-nodes-signal.sh": ("two-nodes-torchrun.sh", 20),
    "two-nodes-everything.sh": ("", 190),
}
"""Of a script: the one that it adds to, and how many lines it may add, or have."""


@pytest.mark.parametrize("name", BUDGETS)
def test_a_person_can_read_it(name: str) -> None:
    base, most = BUDGETS[name]
    lines = len(body(name)) - (len(body(base)) if base else 0)
    assert lines <= most
    assert max(map(len, body(name))) <= 190


def test_secret_is_in_no_script() -> None:
    assert "HF_TOKEN" in CASES["neuron-env.sh"]  # whose value is the test's
    assert SECRET not in "\n".join(body("neuron-env.sh"))
