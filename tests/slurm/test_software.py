"""Where a job runs and what it finds there.

The order in which its environment is made, with conda from a module and by its path; values that
refer to variables; ``--chdir``.

The stand-in for conda has its shape: ``bin/conda``, which tells the installation and writes the
shell text of an activation, and ``etc/profile.d/conda.sh``, a function around it.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List

import pytest
from bench import cannot
from harness import Sandbox

SUBMIT = ["-p", "amd_a100nv_8", "--gpus-per-node", "1", "-t", "5"]
SUBMIT += ["--field", "misc", "--appl", "pytorch-ddp"]
ONE = [*SUBMIT, "--launcher", "python"]

CONDA_SH = """\
export CONDA_EXE='@BASE@/bin/conda'
conda() {
    case $1 in
        activate) eval "$("$CONDA_EXE" shell.posix "$@" || echo false)" ;;
        *) "$CONDA_EXE" "$@" ;;
    esac
}
"""
CONDA = """\
#!/bin/sh
case "$1 $2" in
    "info --base") echo '@BASE@'; exit ;;
    "shell.posix activate") ;;
    *) exit 2 ;;
esac
for prefix in "$3" "@BASE@/envs/$3" "$CONDA_ENVS_PATH/$3"; do
    [ -d "$prefix/conda-meta" ] || continue
    prefix=$(cd "$prefix" && pwd)
    echo "export CONDA_PREFIX='$prefix' CONDA_BY='@BASE@' TRACE=\\"\\$TRACE conda\\""
    echo "export PATH='$prefix/bin':\\"\\$PATH\\""
    exit
done
echo "EnvironmentNameNotFound: Could not find conda environment: $3" >&2
exit 1
"""
MODULE = '#%Module1.0\nsetenv TRACE "$::env(TRACE) module"\n'

TELL = """\
import json, os, sys
told = {name: value for name, value in os.environ.items() if "SECRET" not in name}
said = json.dumps({**told, "args": sys.argv[1:], "cwd": os.getcwd()})
# In the log, long lines of several processes mix.
if "TOLD" in os.environ:
    with open(f"{os.environ['TOLD']}/{os.uname().nodename}.{os.getpid()}", "w") as file:
        file.write(said)
else:
    print(said)
"""


@pytest.fixture(autouse=True)
def place(sandbox: Sandbox, no_jobs: None) -> None:
    """A program that tells what it got; each test ends with an empty queue."""
    sandbox.write("tell.py", TELL)


def install(sandbox: Sandbox, base: str) -> None:
    """A conda with one environment."""
    sandbox.write(f"{base}/etc/profile.d/conda.sh", CONDA_SH.replace("@BASE@", base))
    sandbox.write(f"{base}/bin/conda", CONDA.replace("@BASE@", base))
    sandbox.write(f"{base}/envs/torch/conda-meta/history", "")
    sandbox.exec(["chmod", "+x", f"{base}/bin/conda"])


def told_by(sandbox: Sandbox, *words: str, before: str = "true") -> List[Dict[str, Any]]:
    """What each process of a submitted job told; ``before`` are lines of the submitting shell."""
    line = "rm -rf log told; mkdir told; export TOLD=$PWD/told\n"
    line += f'{before}\nexec neuronctl submit --wait --json -o log "$@"'
    sandbox.exec(["bash", "-c", line, "bash", *words])
    texts = sandbox.exec(["sh", "-c", "for one in told/*; do cat $one; echo; done"]).stdout
    return [json.loads(line) for line in texts.splitlines()]


WAYS = {
    # Options, a line of the modulefile, what a dry run says.
    "a module": ([], "prepend-path PATH @HERE@/conda/bin", "not found here"),
    "the path given": (
        *(["--conda", "@HERE@/conda/envs/torch"], ""),
        "by the path given: @HERE@/conda",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_order_with_each_way_to_have_conda(sandbox: Sandbox, way: str) -> None:
    if not sandbox.status()["modules"]:
        cannot("environment-modules or procps is not installed")
    here = sandbox.scratch
    options, of_module, says = WAYS[way]
    install(sandbox, f"{here}/conda")
    sandbox.write("modulefiles/mine/1.0", MODULE + of_module.replace("@HERE@", here) + "\n")
    words = [*ONE, "--conda", "torch", "--module", "mine/1.0"]
    before = "export TRACE=first MODULEPATH=$PWD/modulefiles"
    words += ["--setup", 'export TRACE="$TRACE setup"']
    words += [*(word.replace("@HERE@", here) for word in options), "tell.py"]
    shell = ["bash", "-c", f'{before}; exec neuronctl submit --dry-run "$@"', "bash", *words]
    assert f": conda {says.replace('@HERE@', here)}" in sandbox.exec(shell).stderr
    (told,) = told_by(sandbox, *words, before=before)
    assert told["TRACE"] == "first module conda setup"
    assert told["CONDA_PREFIX"] == f"{here}/conda/envs/torch"
    assert told["CONDA_BY"] == f"{here}/conda"
    assert told["PATH"].startswith(f"{told['CONDA_PREFIX']}/bin:")


def test_modules_of_the_submitting_shell(sandbox: Sandbox) -> None:
    if not sandbox.status()["modules"]:
        cannot("environment-modules or procps is not installed")
    for name in ("mine", "other"):
        sandbox.write(f"modulefiles/{name}/1.0", "#%Module1.0\n")
    before = "path=$PATH; . /etc/profile; PATH=$path:$PATH"
    before += "; module use $PWD/modulefiles; module load other/1.0"
    words = ["--module", "mine/1.0"]
    (told,) = told_by(sandbox, *ONE, *words, "tell.py", before=before)
    assert told["LOADEDMODULES"] == "mine/1.0"


def test_a_secret_and_resubmission(sandbox: Sandbox) -> None:
    words = [*ONE, "--env", "MY_TOKEN", "--env", "P", "-o", "log", "tell.py"]
    before = "export MY_TOKEN='a$b$$c' P='$HOME$$'"
    shell = ["bash", "-c", f'{before}; exec neuronctl "$@"', "bash"]
    submitted = sandbox.exec([*shell, "submit", "--wait", "--json", *words])
    job = json.loads(submitted.stdout)["job_id"]
    for again in ([], ["-t", "4", "-o", "log"]):
        sandbox.exec([*shell, "resubmit", "--wait", *again, str(job)])
        told = json.loads(sandbox.exec(["cat", "log"]).stdout)
        assert (told["MY_TOKEN"], told["P"]) == ("a$b$$c", "$HOME$$")
    shown = sandbox.exec(["neuronctl", "show", "--json", str(job)]).stdout
    assert "a$b" not in shown


def test_chdir_is_sbatchs(sandbox: Sandbox) -> None:
    """The program, the log and what a later command looks for are in the job's directory."""
    here = sandbox.scratch
    sandbox.exec(["rm", "-rf", "project"])
    sandbox.write("project/a dir/own.py", TELL)
    sandbox.exec(["mkdir", "-p", "project/a dir/logs"])
    submit = ["neuronctl", "submit", "--wait", "--json", *ONE, "-o", "logs/%j.log"]
    result = sandbox.exec([*submit, "-D", "project/a dir", "own.py", "x"])
    data = json.loads(result.stdout)
    job, directory = data["job_id"], f"{here}/project/a dir"
    assert data["logs"]["output"] == f"{directory}/logs/{job}.log"
    told = json.loads(sandbox.exec(["neuronctl", "logs", str(job)]).stdout)
    assert (told["cwd"], told["SLURM_SUBMIT_DIR"]) == (directory, here)
    shown = json.loads(sandbox.exec(["neuronctl", "show", "--json", str(job)]).stdout)
    assert shown["record"]["cwd"] == directory
    assert shown["record"]["draft"]["submit_dir"] == here
    work_dir = sandbox.exec(["scontrol", "show", "job", str(job)]).stdout
    assert f"WorkDir={directory}\n" in work_dir

    # From anywhere, byte for byte and planned anew.
    for more in ([], ["-t", "6"]):
        line = f'cd / && exec neuronctl resubmit --wait --json {job} "$@"'
        again = json.loads(sandbox.exec(["sh", "-c", line, "sh", *more]).stdout)["job_id"]
        told = json.loads(sandbox.exec(["neuronctl", "logs", str(again)]).stdout)
        assert (told["cwd"], told["SLURM_SUBMIT_DIR"]) == (directory, here)
    sandbox.write("moved/own.py", TELL)
    moved = ["neuronctl", "resubmit", "--wait", "--json", str(job), "-D", "moved", "-o", "log"]
    sandbox.exec(moved)
    assert json.loads(sandbox.exec(["cat", "moved/log"]).stdout)["cwd"] == f"{here}/moved"

    sandbox.exec(["rm", f"{directory}/own.py"])
    result = sandbox.exec([*submit, "-D", "project/a dir", "own.py"], check=False)
    assert f"error NC401: no file 'own.py' in {directory}" in result.stderr
