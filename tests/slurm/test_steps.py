"""Shell text, steps, and signals in every form, as Slurm runs them."""

from __future__ import annotations

from typing import Dict, List

import pytest
import yaml
from harness import Sandbox, wait_until
from test_signal_launchers import SAVE

JOB: Dict[str, object] = {
    "partition": "amd_a100nv_8",
    "time": "1",
    "field": "misc",
    "appl": "pytorch",
    "preflight": False,
}

SHOW = """
import os, sys
keys = ("SLURM_PROCID", "RANK", "WORLD_SIZE", "CUDA_VISIBLE_DEVICES")
print("ran", *[os.environ.get(key, "-") for key in keys], *sys.argv[1:], flush=True)
"""

INTERRUPTED = """
import time
try:
    time.sleep(300)
except KeyboardInterrupt:
    print("saved", flush=True)
"""


def submitted(sandbox: Sandbox, jobs: Dict[str, Dict[str, object]]) -> Dict[str, List[str]]:
    """State, exit code and log of each job once all have ended, by name."""
    for name, job in jobs.items():
        sandbox.write(f"{name}.yaml", yaml.safe_dump({**JOB, **job}))
        sandbox.exec(["neuronctl", "submit", "-f", f"{name}.yaml", "-J", name, "-o", f"{name}.log"])
    wait_until(lambda: not sandbox.exec(["squeue", "-h"]).stdout.strip(), seconds=300)
    names = ",".join(jobs)
    query = ["sacct", "-X", "-n", "-P", "--name", names, "-o", "JobName,State,ExitCode"]

    def known() -> List[List[str]]:
        return [line.split("|") for line in sandbox.exec(query).stdout.splitlines()]

    wait_until(lambda: {name for name, state, _ in known() if state != "RUNNING"} == {*jobs})
    ended = known()
    return {
        name: [state, code, sandbox.exec(["cat", f"{name}.log"]).stdout]
        for name, state, code in ended
    }


def test_steps_run_in_order_and_side_by_side(sandbox: Sandbox, no_jobs: None) -> None:
    sandbox.write("show.py", SHOW)
    in_order: Dict[str, object] = {
        "nodes": 2,
        "gpus-per-node": 4,
        "setup": "set -eu",
        "steps": [
            {"run": "cat <<EOF\nfirst $SLURM_JOB_ID\nEOF\ncd /; X=1; set +e; false; echo after\n"},
            {"script": "show.py", "launcher": "srun", "args": ["two words", "$HOME", ""]},
            {"script": "show.py", "nodes": 1, "gpus-per-node": 1},
            {"run": 'false\necho "not here"\n', "allow-failure": True},
            {"run": 'echo "${X-unset} $PWD"; srun -N 2 -n 2 echo both; (exit 7)'},
            {"run": "echo never"},
        ],
    }
    beside: Dict[str, object] = {
        "gpus-per-node": 4,
        "steps": [
            {
                "together": [
                    {"run": "touch at-once.$SLURM_STEP_ID\n" + _MET, "gpus-per-node": 1},
                    {"run": "touch at-once.$SLURM_STEP_ID\n" + _MET + "\nexit 5"},
                    {"run": "touch at-once.$SLURM_STEP_ID\n" + _MET, "gpus-per-node": 2},
                ]
            },
            {"run": "echo never"},
        ],
    }
    met = _MET.replace("at-once", "met").replace("3 ]", "4 ]")
    one: Dict[str, object] = {"run": f"echo on $(hostname)\ntouch met.$SLURM_STEP_ID\n{met}"}
    spread: Dict[str, object] = {
        "nodes": 2,
        "gpus-per-node": 2,
        "steps": [{"together": [{**one, "gpus-per-node": 1}, *({**one} for _ in range(3))]}],
    }
    ended = submitted(sandbox, {"in-order": in_order, "beside": beside, "spread": spread})
    state, code, log = ended["in-order"]
    assert (state, code) == ("FAILED", "7:0"), log
    assert "first " in log and "after" in log
    assert log.count("ran ") == 9 and log.count("two words $HOME \n") == 8
    assert "ran 0 - - 0\n" in log
    assert "not here" not in log and "never" not in log
    assert "step 4 failed with exit code 1; the job goes on" in log
    assert "step 5 failed with exit code 7; the job ends with it" in log
    assert f"unset {sandbox.scratch}\n" in log and log.count("both\n") == 2
    state, code, log = ended["beside"]
    assert (state, code) == ("FAILED", "5:0"), log
    gpus = sorted(line.split()[1] for line in log.splitlines() if line.startswith("GPUs "))
    assert len(set(",".join(gpus).split(","))) == 4, gpus
    assert "never" not in log
    state, code, log = ended["spread"]
    assert (state, code) == ("COMPLETED", "0:0"), log
    hosts = [line for line in log.splitlines() if line.startswith("on ")]
    assert len(hosts) == 4 and len(set(hosts)) == 2, log


_MET = """echo GPUs $CUDA_VISIBLE_DEVICES
until [ "$(ls at-once.* | wc -l)" -eq 3 ]; do sleep 0.2; done"""


@pytest.mark.long
def test_a_signal_arrives_in_every_form(sandbox: Sandbox, no_jobs: None) -> None:
    sandbox.write("save.py", SAVE)
    sandbox.write("wrapper.sh", "#!/bin/bash\npython save.py\necho after $?\n")
    sandbox.exec(["chmod", "+x", "wrapper.sh"])
    sandbox.write("interrupted.py", INTERRUPTED)
    # Slurm may be 60 s early: the programs have 20 s to begin.
    usr1: Dict[str, object] = {"gpus-per-node": 1, "time": "2", "signal": "USR1@40"}
    term: Dict[str, object] = {**usr1, "signal": "TERM@40", "env": {"WITH": "TERM"}}
    forms: Dict[str, Dict[str, object]] = {
        "python": {**usr1, "script": "save.py", "setup": "set -euo pipefail"},
        "srun": {**usr1, "script": "save.py", "launcher": "srun"},
        "to-shell": {**usr1, "signal": "B:USR1@40", "script": "save.py", "setup": "set -e"},
        "wrapper": {**usr1, "script": "./wrapper.sh"},
        # Python and bash leave a signal alone that was ignored when they started.
        "interrupt": {**usr1, "signal": "INT@40", "script": "interrupted.py"},
        "text-int": {
            **usr1,
            "signal": "INT@40",
            "run": "set -euo pipefail\npython interrupted.py\necho after $?",
        },
        "bash-term": {**term, "script": "bash", "args": ["wrapper.sh"]},
        "text": {**usr1, "run": "set -euo pipefail\npython save.py | cat\necho after $?"},
        "text-srun": {**term, "run": "srun -n 1 python save.py\necho after $?"},
        "text-trap": {
            **usr1,
            "signal": "B:USR1@40",
            # The trap ends the first wait with a code of its own, at which `run` would stop.
            "run": "trap 'kill -s USR1 $!' USR1\npython save.py &\n"
            "wait $! || wait $!\necho after $?",
        },
        "steps": {**usr1, "steps": [{"run": "true"}, {"run": "python save.py"}]},
        "together": {
            **usr1,
            "gpus-per-node": 2,
            "steps": [
                {"together": [{"run": "python save.py"}, {"script": "save.py", "launcher": "srun"}]}
            ],
        },
    }
    ended = submitted(sandbox, forms)
    for name in forms:
        state, code, log = ended[name]
        expected = 2 if name == "together" else 1
        assert (state, code, log.count("saved\n")) == ("COMPLETED", "0:0", expected), (name, log)
        assert ("after 0\n" in log) is (name.startswith(("text", "wrapper", "bash"))), (name, log)
        assert "never" not in log
