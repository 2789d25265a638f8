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
from cases import ALLOCATION, ALLOCATIONS, CASES, FILES

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
    for words, other in ALLOCATIONS.items():
        allocation.update(other if words in name else {})
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
    assert 'bash -c "$(declare -f each_task supervise told_all); supervise each_task"\n' in script
    task = script[script.index("\neach_task() {") :].partition("\n}\n")[0]
    assert task.endswith("\n    exec python train_hvd.py")


def test_tutorial_allocation_carries_what_the_tutorial_says() -> None:
    command = (SCRIPTS / "neuron-2022-salloc.sh").read_text().splitlines()[0].split()
    assert command[0] == "salloc"
    asked = {
        *["--partition=amd_a100nv_8", "--job-name=debug", "--nodes=2", "--time=8:00:00"],
        *["--gres=gpu:4", "--comment=python"],
    }
    assert asked <= set(command[: command.index("srun")])


GIVEN = re.compile(r"declare -f ([\w ]+)[);]")
"""The functions that a bash on each node, or a file beside the log, gets."""
HELPERS = "# ---- Helpers, the same in every script of this kind: "


def body(name: str) -> List[str]:
    return (SCRIPTS / name).read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", CASES)
def test_free_of_well_known_defects(name: str) -> None:
    """What public scripts get wrong, and what can be seen in the text alone."""
    text = "\n".join(line for line in body(name) if not line.lstrip().startswith("# "))
    code = re.sub(r"'[^']*'", "''", text)  # the program's own words are not ours
    given = "|".join({name for names in GIVEN.findall(code) for name in names.split()}) or "-"
    outside_tasks = re.sub(rf"(?ms)^({given})\(\) {{.*?^}}$", "", code)
    assert not re.search(r"\$\{?SLURM_(PROCID|NODEID|LOCALID)", outside_tasks)
    assert not re.search(r"hostname (-[iI]|--ip|--all)", code)
    assert not re.search(r"CUDA_VISIBLE_DEVICES=", code)
    assert "gpus-per-task" not in code
    assert not re.search(r"--export\b", code)
    assert "set -u" not in code
    assert not re.search(r"[\r\u2010-\u2015\u00a0]", code)
    for line in "\n".join(body(name)).replace(" \\\n", "").splitlines():
        if re.match(r" *(exec )?srun ", line):
            # The look before the launch goes on after a defect: all nodes shall speak.
            wanted = "0" if "check_node" in line else "1"
            assert "--cpus-per-task=" in line
            assert f"--kill-on-bad-exit={wanted}" in line or " --ntasks=1 " in line
    starts = [n for n, line in enumerate(body(name)) if line.startswith("#SBATCH")]
    assert starts == list(range(1, len(starts) + 1)), "directives stand together, at the top"


@pytest.mark.parametrize("name", CASES)
def test_the_first_screen_is_the_whole_story(name: str) -> None:
    lines = body(name)
    story = [number for number, line in enumerate(lines) if line.startswith(HELPERS)]
    # A step is a function of its own: its text is as long as the user's.
    steps = [number for number, line in enumerate(lines) if line.startswith("step_1() {")]
    assert [*steps, *story, len(lines)][0] <= 45
    if story:
        called = "\n".join(lines[: story[0]])
        defined = re.findall(r"(?m)^(\w+)\(\) {", "\n".join(lines[story[0] :]))
        helpers = "\n".join(lines[story[0] :])
        assert lines[-1].split(" ")[0] == "job"
        assert all(helpers.count(one) + called.count(one) > 1 for one in defined), "none in vain"


def test_a_job_of_one_gpu_fits_into_25_lines() -> None:
    assert len(body("neuron-python-one-gpu.sh")) <= 25, "with the preflight"


def test_secret_is_in_no_script() -> None:
    assert "HF_TOKEN" in CASES["neuron-env.sh"]  # whose value is the test's
    assert SECRET not in "\n".join(body("neuron-env.sh"))
