"""What a job does with its nodes is sampled on them, and told by report. The GPUs stand in."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Tuple

import pytest
from harness import COMMENT, Sandbox, at_once

pytestmark = pytest.mark.usefixtures("no_jobs")

NVIDIA_SMI = """\
#!/usr/bin/env python3
# Four GPUs whose use is known: GPU 0 is idle in the first two of four samples.
import os, sys
words = dict(word[2:].partition("=")[::2] for word in sys.argv[1:] if word.startswith("--"))
units = {"utilization.gpu": " [%]", "memory.used": " [MiB]", "memory.total": " [MiB]"}
units["power.draw"] = " [W]"
if "-L" in sys.argv:
    sys.exit(0)
fields = words["query-gpu"].split(",")
print(", ".join(field + units.get(field, "") for field in fields))
with open("asked_" + os.environ["SLURM_JOB_ID"], "a+") as asked:
    sample = asked.tell()
    asked.write(".")
for gpu, use in enumerate([0 if sample % 4 < 2 else 100, 0, 97, 98]):
    values = {"index": gpu, "utilization.gpu": use, "memory.used": 40000}
    values.update({"memory.total": 81559, "power.draw": "[N/A]"})
    print(", ".join(str(values.get(field, "[N/A]")) for field in fields))
"""

SAMPLED = """\
import glob, os, time
def wait_for_samples(nodes, more=2, log=None):
    "Until each node's file beside the log has so many more lines; the time limit ends it."
    log = log or os.readlink("/proc/self/fd/1")
    def lines():
        files = [path for path in glob.glob(log + ".samples/*.csv") if "gpus" not in path]
        return sorted(open(path).read().count("\\n") for path in files)[-nodes:]
    before = sum(lines())
    while len(lines()) < nodes or sum(lines()) < before + nodes * more:
        time.sleep(0.3)
"""

BUSY = f"""\
import sys
{SAMPLED}
held = bytearray(300 << 20)
for place in range(0, len(held), 4096):
    held[place] = 1
while time.process_time() < float(sys.argv[1]):
    pass
wait_for_samples(1, 2)
resident = [line for line in open("/proc/self/status") if line.startswith("RssAnon:")]
print("CPU", sum(os.times()[:2]), "MEMORY", int(resident[0].split()[1]) << 10, flush=True)
wait_for_samples(1)
sys.exit(int(sys.argv[2]))
"""

WAITS = """\
log=$(readlink /proc/$$/fd/1)
has_samples() { for file in "$log".samples/*.csv; do [ "$(wc -l <"$file")" -lt 4 ] || echo; done; }
until [ "$(has_samples 2>/dev/null | wc -l)" -ge "${FILES:-0}" ]; do sleep 0.5; done
"""
"""A script that waits until so many files of samples have some; the time limit ends it."""


def submitted(sandbox: Sandbox, *words: str, tool: str = NVIDIA_SMI, code: int = 0) -> str:
    """The id of a job that ended with ``code``; ``tool`` is what its nodes have as nvidia-smi."""
    sandbox.write("bin/nvidia-smi", tool)
    sandbox.write("busy.py", BUSY)
    sandbox.exec(["chmod", "755", "bin/nvidia-smi"])
    options = ["-p", "amd_a100nv_8", "-t", "5", COMMENT, "--monitor"]
    call = ["sh", "-c", 'PATH=$PWD/bin:$PATH exec neuronctl submit "$@"', "sh"]
    done = sandbox.exec([*call, *options, "--wait", "--json", *words], check=False)
    log = sandbox.exec(["sh", "-c", "cat $(ls -t *.out *.err | head -2)"], check=False).stdout
    assert done.returncode == code, log + done.stderr
    return str(json.loads(done.stdout)["job_id"])


def report(sandbox: Sandbox, job: str) -> Dict[str, Any]:
    told = sandbox.exec(["neuronctl", "report", job, "--json"]).stdout
    document: Dict[str, Any] = json.loads(told)
    assert document["schema"] == "neuronctl.report/2"
    data: Dict[str, Any] = document["jobs"][0]
    return data


def test_known_use_is_told(sandbox: Sandbox) -> None:
    alone = ["--gpus-per-node", "4", "--no-preflight", "--launcher", "python"]
    job = submitted(sandbox, *alone, "-J", "one", "busy.py", "8", "7", code=7)
    data = report(sandbox, job)
    (node,) = data["nodes_sampled"]
    count = node["gpus"][0]["samples"]
    idle = (2 * (count // 4) + min(2, count % 4)) / count
    first = node["gpus"][0]
    assert abs(first["idle"] - idle) < 0.02 and abs(first["use"] / 100 - (1 - idle)) < 0.02
    assert [gpu["use"] for gpu in node["gpus"]][1:] == pytest.approx([0, 97, 98])
    log = sandbox.exec(["cat", f"one_{job}.out"]).stdout
    measured = re.search(r"CPU (\S+) MEMORY (\d+)", log)
    assert measured and node["cpu"] == pytest.approx(float(measured[1]), abs=3)
    assert node["memory_peak"] == pytest.approx(int(measured[2]), rel=0.1)
    assert node["cores"] == 32
    text = sandbox.exec(["neuronctl", "report", job]).stdout
    assert "exit code 7" in text and re.search(r" 97% +0%", text), text


def test_two_nodes_signals_and_exit_codes_are_as_without(sandbox: Sandbox) -> None:
    sandbox.write(
        "hears.py",
        f"import signal, subprocess\n{SAMPLED}"
        "def heard(*_):\n"
        "    print('heard', flush=True)\n"
        "    os._exit(9)\n"
        "signal.signal(signal.SIGUSR1, heard)\n"
        "held = b'x' * (100 << 20)\n"
        "wait_for_samples(2, 2, f'two_{os.environ[\"SLURM_JOB_ID\"]}.out')\n"
        "if os.environ['SLURM_PROCID'] == '0':\n"
        "    subprocess.run(['scancel', '--signal=USR1', os.environ['SLURM_JOB_ID']])\n"
        "time.sleep(120)\n",
    )
    words = ["-N", "2", "--gpus-per-node", "2", "--launcher", "srun", "-J", "two"]
    job = submitted(sandbox, *words, "hears.py", code=9)
    log = sandbox.exec(["cat", f"two_{job}.out"]).stdout
    assert log.count("heard") >= 4  # where Slurm signals every process, some hear it twice
    nodes = report(sandbox, job)["nodes_sampled"]
    assert [node["node"] for node in nodes] == ["gpu35", "gpu36"]
    assert min(node["samples"] for node in nodes) >= 2
    # Each node's own: the nodes of a sandbox are one machine.
    first, second = (node["memory_peak"] for node in nodes)
    assert 90 << 20 < second < first < 250 << 20
    assert all(node["memory"] == 16 * 3800 << 20 for node in nodes)
    told = sandbox.exec(["neuronctl", "report", job]).stdout
    assert re.search(r"gpu36 +3 ", told), told


OWN = """\
#!/bin/bash -eu
#SBATCH -c2
echo "BASH_ENV=${BASH_ENV-none} own=${OWN-none} functions=$(declare -F | wc -l)"
jobs
srun true
wait
exit 3
"""


def test_a_script_of_ones_own_is_sampled_unchanged(sandbox: Sandbox) -> None:
    sandbox.write("bin/nvidia-smi", NVIDIA_SMI)
    sandbox.write("own.sh", OWN.replace("wait\n", f"wait\n{WAITS}"))
    sandbox.write("before.sh", "OWN=read\n")
    sandbox.write("sampled/neuronctl/config.yaml", "monitor: true\n")
    call = 'chmod 755 bin/nvidia-smi; PATH=$PWD/bin:$PATH exec neuronctl sbatch "$@"'
    options = ["-p", "amd_a100nv_8", "-N2", "--ntasks-per-node=1", "-c2", "--gres=gpu:2", "-t5"]
    options += [COMMENT, "--parsable", "--wait", "-o", "own_%j.out"]

    def check(run: Tuple[str, List[str], int]) -> None:
        before, more, count = run
        own = f"export FILES={2 * count}; " + (f"export BASH_ENV={before}; " if before else "")
        own += "export XDG_CONFIG_HOME=$PWD/sampled; " if count else ""
        done = sandbox.exec(["sh", "-c", own + call, "sh", *more, "own.sh"], check=False)
        assert done.returncode == 3, done.stderr
        job = done.stdout.strip()
        log = sandbox.exec(["cat", f"own_{job}.out"]).stdout
        is_read = "read" if before else "none"
        assert f"BASH_ENV={before or 'none'} own={is_read} functions=0\n" == log
        sandbox.exec(["sh", "-c", f"scontrol write batch_script {job} - | cmp - own.sh"])
        nodes = report(sandbox, job)["nodes_sampled"]
        assert len(nodes) == count
        assert all(node["samples"] >= 2 and len(node["gpus"]) == 4 for node in nodes)

    at_once(check, (("", options, 2), ("before.sh", [*options, "-N1"], 1), ("", options, 0)))
