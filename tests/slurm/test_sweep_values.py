"""What reaches the tasks of a sweep, and how a scaling study is shown, on a real Slurm."""

from __future__ import annotations

import json
import shlex
from typing import Any, Dict, List

from harness import Sandbox, wait_until

JOB = ("-p", "amd_a100nv_8", "-t", "5", "--field", "misc", "--appl", "pytorch", "--no-preflight")
ODD = [
    *("a b", "it's", "$(id) `id` $HOME", "back\\slash", "새 값", "-dash", "two\nlines", "a\tb"),
    *("*?[a]", "!x", '"q"', "{y}", "{x}", "a;b&c|d>e<f", "%s %d", "~", "  lead"),
]
SHOW = (
    "import json, sys\nprint('neuronctl: metric=%d' % len(sys.argv))\nprint(json.dumps(sys.argv))"
)
SHARE = """\
import os, time
time.sleep(2 / int(os.environ["SLURM_NTASKS"]))
"""


def ended(sandbox: Sandbox, name: str) -> List[Dict[str, Any]]:
    """The tasks of a sweep, once all have ended."""

    def look() -> List[Dict[str, Any]]:
        told = sandbox.exec(["neuronctl", "sweep", "status", name, "--json"]).stdout
        tasks: List[Dict[str, Any]] = json.loads(told)["tasks"]
        return tasks if all(task["exit_code"] is not None for task in tasks) else []

    return sorted(wait_until(look), key=lambda task: int(task["number"]))


def test_odd_values_of_a_job_file_arrive(sandbox: Sandbox, no_jobs: None) -> None:
    sandbox.write("show.py", SHOW)
    job = {"script": "show.py", "args": ["{x}", "--y={x}", "{{x}}", "${HOME}"]}
    sandbox.write("odd.yaml", json.dumps({**job, "sweep": {"params": {"x": ODD}}}))
    sandbox.exec(["neuronctl", "sweep", *JOB, "--gpus-per-node", "1", "-f", "odd.yaml", "-Jodd"])
    tasks = ended(sandbox, "odd")
    assert [task["parameters"]["x"] for task in tasks] == ODD
    assert [json.loads(task["last_line"])[1:] for task in tasks] == [
        [value, f"--y={value}", "{x}", "${HOME}"] for value in ODD
    ]
    assert {task["metric"] for task in tasks} == {5.0}


def test_a_scaling_study_over_nodes(sandbox: Sandbox, no_jobs: None) -> None:
    sandbox.write("share.py", SHARE)
    words = shlex.split("--ntasks-per-node 1 --gpus-per-node 1 --launcher srun -J scaling")
    sandbox.exec(["neuronctl", "sweep", *JOB, *words, "--param", "nodes=1,2", "share.py"])
    one, two = ended(sandbox, "scaling")
    assert (one["exit_code"], two["exit_code"]) == (0, 0)
    assert (one["speedup"], one["efficiency"]) == (1.0, 1.0)
    assert two["speedup"] == one["seconds"] / two["seconds"]
    assert two["efficiency"] == two["speedup"] / 2
    sandbox.exec(["neuronctl", "sweep", "status", "scaling", "--html", "scaling.html"])
    assert sandbox.exec(["cat", "scaling.html"]).stdout.count("<circle") == 2
