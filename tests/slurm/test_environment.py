"""What jobs ran with, as they saw it themselves, and how show and diff tell of it."""

from __future__ import annotations

import json
from typing import Any, Dict

import pytest
from harness import COMMENT, Sandbox

pytestmark = pytest.mark.usefixtures("no_jobs")

SIZE = ["-p", "amd_a100nv_8", "-t", "5", COMMENT]

TRAIN = """\
import glob, os, time
print(os.environ.get("BASH_ENV", "none"), os.environ.get("HF_TOKEN", "none"), flush=True)
seen = f"{os.environ['XDG_STATE_HOME']}/neuronctl/environments/{os.environ['SLURM_JOB_ID']}.*.json"
while '"python"' not in "".join(open(path).read() for path in glob.glob(seen)):
    time.sleep(0.2)  # the time limit ends it
"""
MADE = """\
python=$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')
below=$1/lib/$(python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])')/site-packages
mkdir -p "$1/bin" "$below/torch"
ln -s "$python" "$1/bin/python"
printf 'home = %s\ninclude-system-site-packages = false\n' "${python%/*}" >"$1/pyvenv.cfg"
echo "export VIRTUAL_ENV=$PWD/$1 PATH=$PWD/$1/bin:\\$PATH" >"$1/bin/activate"
cd "$below"
echo "__version__ = '$2'" >torch/version.py
mkdir "torch-$2.dist-info" "made_up-$3.dist-info"
"""


def ran_with(sandbox: Sandbox, job: str) -> Dict[str, Any]:
    told: Dict[str, Any] = json.loads(sandbox.exec(["neuronctl", "show", job, "--json"]).stdout)
    return dict(told["environment"])


def test_two_jobs_with_another_torch(sandbox: Sandbox) -> None:
    """A generated script, and one's own that activates its environment itself."""
    sandbox.write("bin/nvidia-smi", "#!/bin/sh\necho '550.54.14, NVIDIA A100-SXM4-80GB'\n")
    sandbox.write("train.py", TRAIN)
    sandbox.write("own.sh", "#!/bin/bash\n. new/bin/activate\npython train.py | cat\nexit 3\n")
    sandbox.exec(["chmod", "+x", "bin/nvidia-smi"])
    for name, torch, other in (("old", "2.4.0", "1.0"), ("new", "2.6.0", "1.1")):
        sandbox.exec(["sh", "-ec", MADE, "sh", name, torch, other])
    call = ["sh", "-c", 'export HF_TOKEN=hf_its_own; PATH=$PWD/bin:$PATH exec neuronctl "$@"', "sh"]
    made = [*call, "submit", *SIZE, "--gpus-per-node=1", "--venv=old", "--launcher=python"]
    first = json.loads(sandbox.exec([*made, "--wait", "--json", "train.py"]).stdout)["job_id"]
    own = [*call, "sbatch", *SIZE, "--gres=gpu:1", "-c2", "--parsable", "--wait", "own.sh"]
    done = sandbox.exec(own, check=False)
    assert done.returncode == 3, done.stderr
    second = done.stdout.strip()
    assert sandbox.exec(["cat", f"slurm-{second}.out"]).stdout == "none hf_its_own\n"
    seen = ran_with(sandbox, str(first))
    assert (seen["torch"], seen["driver"]) == ("2.4.0", "550.54.14")
    assert seen["gpus"] == ["NVIDIA A100-SXM4-80GB"]
    assert seen["packages"] == {"made-up": "1.0", "torch": "2.4.0"}
    text = " ".join(sandbox.exec(["neuronctl", "show", second]).stdout.split())
    assert "torch 2.6.0 driver 550.54.14 GPUs 1 x NVIDIA A100-SXM4-80GB packages pip list" in text
    text = sandbox.exec(["neuronctl", "show", str(first), second]).stdout.partition("RAN WITH")[2]
    rows = [line.split() for line in text.splitlines()[1:]]
    assert rows == [["torch", "2.4.0", "2.6.0"], ["made-up", "1.0", "1.1"]]
    kept = sandbox.exec(["sh", "-c", 'grep -rl its_own "$XDG_STATE_HOME"'], check=False)
    assert kept.stdout == ""


def test_a_body_whose_tool_hangs_and_a_job_without_python(sandbox: Sandbox) -> None:
    sandbox.write("bin/nvidia-smi", "#!/bin/sh\nexec sleep 600\n")
    sandbox.write("train.py", TRAIN)
    sandbox.write("body.sh", ". body/bin/activate\npython train.py\nwait\njobs\nexit 5\n")
    sandbox.exec(["chmod", "+x", "bin/nvidia-smi"])
    sandbox.exec(["sh", "-ec", MADE, "sh", "body", "2.5.1", "1.0"])
    call = ["sh", "-c", 'PATH=$PWD/bin:$PATH exec neuronctl submit "$@"', "sh", *SIZE, "--wait"]
    call += ["--gpus-per-node=1", "--no-preflight", "--json"]
    done = sandbox.exec([*call, "--body", "body.sh"], check=False)
    assert done.returncode == 5, done.stderr
    seen = ran_with(sandbox, str(json.loads(done.stdout)["job_id"]))
    assert (seen["torch"], seen["driver"], seen["gpus"]) == ("2.5.1", None, [])
    done = sandbox.exec([*call, "sleep", "1"])
    told = sandbox.exec(["neuronctl", "show", str(json.loads(done.stdout)["job_id"]), "--json"])
    seen = json.loads(told.stdout)["environment"] or {}
    assert seen.get("python") is None
