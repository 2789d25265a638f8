"""--profile: a file for each rank that was asked for, and a job that ends as it would without."""

from __future__ import annotations

import json
from typing import List

import pytest
from harness import COMMENT, Sandbox

pytestmark = pytest.mark.usefixtures("no_jobs")

NSYS = """\
#!/usr/bin/env python3
# A stand-in with nsys's command line, which leaves the program alone when its seconds are over.
import json, os, subprocess, sys, time
assert sys.argv[1] == "profile", sys.argv
words, options = sys.argv[2:], {}
while words[0].startswith("--"):
    name, _, value = words.pop(0)[2:].partition("=")
    options[name] = value
if os.environ.get("NSYS_FAILS"):
    sys.exit("unrecognised option")
program = subprocess.Popen(words)
try:
    program.wait(sum(float(options[name]) for name in ("delay", "duration") if name in options))
except subprocess.TimeoutExpired:
    pass
with open(options["output"] + ".nsys-rep", "w") as file:
    json.dump(options, file)
"""

PROGRAM = """\
import os, sys, time
end = time.time() + float(sys.argv[1])
while time.time() < end:
    sum(range(1000))
rank = os.environ.get("RANK", "0")
print("rank", rank, sys.argv[1:], flush=True)
sys.exit(int(sys.argv[2]) if rank == "0" else 0)
"""


def submitted(sandbox: Sandbox, code: int, *words: str) -> str:
    """The log of a job that ended with ``code``, errors included."""
    sandbox.write("bin/nsys", NSYS)
    sandbox.write("prog.py", PROGRAM)
    sandbox.exec(["chmod", "755", "bin/nsys"])
    options = ["-p", "amd_a100nv_8", "-t", "5", COMMENT, "--no-preflight", "-o", "p_%j.out"]
    call = ["sh", "-c", 'PATH=$PWD/bin:$PATH exec neuronctl submit "$@"', "sh", *options]
    done = sandbox.exec([*call, "-e", "p_%j.out", "--wait", "--json", *words], check=False)
    log = sandbox.exec(["sh", "-c", "cat $(ls -t p_*.out | head -1)"], check=False).stdout
    assert done.returncode == code, log + done.stderr
    return f"p_{json.loads(done.stdout)['job_id']}.out"


def files(sandbox: Sandbox, log: str, end: str) -> List[str]:
    """Of each file with this end, what its name says beside the job's id."""
    names = sandbox.exec(["sh", "-c", f"cd {log}.profiles && ls"]).stdout.split()
    return [name.partition(".")[2][: -len(end)] for name in names if name.endswith(end)]


def test_ranks_of_two_nodes_and_a_tool_that_ends_first(sandbox: Sandbox) -> None:
    words = ["-N", "2", "--gpus-per-node", "2", "--launcher", "srun", "--profile", "nsys:0,3@1-2"]
    log = submitted(sandbox, 7, *words, "prog.py", "4", "7", "a b", "$HOME")
    assert files(sandbox, log, ".nsys-rep") == ["program.rank-0.gpu35", "program.rank-3.gpu36"]
    made = sandbox.exec(["sh", "-c", f"cat {log}.profiles/*rank-3*.nsys-rep"]).stdout
    assert json.loads(made)["delay"] == json.loads(made)["duration"] == "1"
    text = sandbox.exec(["cat", log]).stdout
    assert "profile: nsys of ranks 0, 3, from 1 to 2 s after the start, into /" in text
    for rank in range(4):
        assert f"rank {rank} ['4', '7', 'a b', '$HOME']" in text


def test_a_tool_that_starts_nothing_leaves_the_program(sandbox: Sandbox) -> None:
    words = ["--gpus-per-node", "1", "--env", "NSYS_FAILS=1", "--profile", "nsys", "prog.py"]
    text = sandbox.exec(["cat", submitted(sandbox, 3, *words, "0", "3")]).stdout
    assert "nsys did not start it, so it is not profiled" in text and "rank 0 ['0', '3']" in text


def test_py_spy_of_steps(sandbox: Sandbox) -> None:
    sandbox.write("ends.sh", "#!/bin/sh\nexit 5\n")
    sandbox.exec(["chmod", "755", "ends.sh"])
    sandbox.write(
        "steps.yaml",
        "gpus-per-node: 1\nprofile: py-spy@1-2\nsteps:\n- run: echo prepared\n"
        "- {script: prog.py, args: [4, 0]}\n- {script: ends.sh}\n",
    )
    log = submitted(sandbox, 5, "-f", "steps.yaml")
    assert files(sandbox, log, ".svg") == ["step-2.rank-0.gpu35"]
    text = sandbox.exec(["cat", log]).stdout
    assert "prepared" in text and "rank 0: py-spy wrote no /" in text  # step 3 ended at once
    flames = sandbox.exec(["sh", "-c", f"cat {log}.profiles/*.svg"]).stdout
    assert "<svg" in flames and "prog.py" in flames
