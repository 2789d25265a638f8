"""``neuronctl generate``: the script on standard output, and nothing else there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Callable

import pytest

pytestmark = pytest.mark.usefixtures("program")
Run = Callable[..., "subprocess.CompletedProcess[str]"]

SITE = ["--cluster", "neuron-2022", "-p", "amd_a100nv_8", "--comment", "pytorch"]
ONE = [*SITE, "--gpus-per-node", "1"]


def test_job_file_and_what_overrides_it(run: Run, tmp_path: Path, clean_home: Path) -> None:
    config = clean_home / ".config" / "neuronctl" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("cluster: neuron-2022\ncomment: config\naccount: config\ntime: 1:00:00\n")
    (tmp_path / "job.yaml").write_text(
        "partition: amd_a100nv_8\ngres: gpu:a100:4\ncomment: file\ntime: 2:00:00\n"
        "env: {A: file, B: file}\nscript: train.py\nargs: [--lr, 0.10]\n"
    )
    from_file = run("generate", "-f", "job.yaml").stdout
    for line in ("--account=config", "--comment=file", "--time=2:00:00", "--gres=gpu:a100:4"):
        assert f"#SBATCH {line}\n" in from_file
    assert from_file.endswith(" train.py --lr 0.10\n")
    options = ["-t", "3:00:00", "--gpus-per-node", "1", "--env", "B=line"]
    over = run("generate", "-f", "job.yaml", *options, "train.py", "--lr", "1").stdout
    for line in ("--account=config", "--comment=file", "--time=3:00:00", "--gres=gpu:1"):
        assert f"#SBATCH {line}\n" in over
    assert "export A=file\n" in over and "export B=line\n" in over
    assert over.endswith("\nexec python train.py --lr 1\n")


def test_warnings_go_to_standard_error(run: Run) -> None:
    result = run("generate", *SITE, "train.py")
    assert "warning NC122" in result.stderr
    assert result.stdout.startswith("#!/bin/bash\n")


def test_needs_neither_slurm_nor_heavy_modules(tmp_path: Path) -> None:
    """What is imported is paid for at every call."""
    probe = (
        "import sys\nfrom neuronctl.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = {'rich', 'subprocess', 'asyncio', 'email', 'http', 'logging'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", probe, "generate", *ONE, "train.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PATH": str(Path(__file__).parents[1] / "on_path")},
    )
    assert (result.returncode, result.stderr) == (0, "[]\n")


def test_a_file_name_never_becomes_a_line_of_the_script(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a\nrm x\n.yaml").write_text("time: '30:00'\ngpus_per_node: 1\n")
    result = run("generate", *SITE, "--file", "a\nrm x\n.yaml", "train.py")
    assert result.returncode == 0 and "MM:SS" in result.stdout
    assert not [line for line in result.stdout.splitlines() if line.startswith("rm ")]


def test_broken_shell_text_is_refused_with_the_line_of_its_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "body.sh").write_text("#!/bin/bash\n\necho a\necho 'b\n")
    refused = run("generate", *ONE, "--body", "body.sh", code=4)
    assert "NC407" in refused.stderr and "line 4: unexpected EOF" in refused.stderr
    (tmp_path / "body.sh").write_text("#!/bin/bash\n# nothing\n")
    refused = run("generate", *ONE, "--body", "body.sh", code=2)
    assert "'body.sh' is empty" in refused.stderr
    (tmp_path / "body.sh").write_text("#!/usr/bin/env python3\nprint('a')\n")
    refused = run("generate", *ONE, "--body", "body.sh", code=2)
    assert "'body.sh' is not for bash: it begins with #!/usr/bin/env python3" in refused.stderr


def test_shell_text_of_a_job_file_is_judged_as_a_script_is(run: Run, tmp_path: Path) -> None:
    """``import`` takes no check away."""
    head = "#!/bin/bash\n#SBATCH -p amd_a100nv_8 -N 2 --ntasks-per-node=4 --gres=gpu:4 -c 2 -t 10\n"
    head += '#SBATCH --comment="field=misc;appl=pytorch"\n'
    (tmp_path / "job.sh").write_text(f"{head}echo a\nsrun torchrun --nproc_per_node=4 t.py\n")
    run("import", "job.sh", "-o", "job.yaml", "--cluster", "neuron")
    said = run("generate", "-f", "job.yaml", code=4).stderr
    assert re.search(r"error NC621: the shell text, line \d: srun starts torchrun 4 times", said)
