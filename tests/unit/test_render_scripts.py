"""Whole scripts, run by a real bash with recorders in the place of srun, torchrun and python.

Whatever starts the program, the program's own arguments and the job's variables arrive byte for
byte. The last command of the chain writes down what it was given.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path
from string import Template
from typing import Any, Dict, List, Tuple

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from plan_builders import plan_of

from neuronctl.launch import launchers
from neuronctl.rendering.render import render_job
from neuronctl.request.job import StepRequest

HOSTILE = [
    "",
    "$$",
    "${local_rank}",
    "-p",
    "--",
    "$HOME",
    "$(exit 9)",
    "`exit 9`",
    "'",
    '"',
    "\\",
    "a\nb",
    "*",
    "~",
    "😀",
]
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
TEXT |= st.sampled_from(HOSTILE)

SECRET = "hf_" + "s" * 28

RECORDER = """#!/bin/bash
printf '%s\\0' "${0##*/}" "$@" >"$RECORD/argv"
env -0 >"$RECORD/env"
exit "${PROGRAM_EXIT:-0}"
"""
SRUN = """#!/bin/bash
while [ "${1#-}" != "$1" ]; do shift; done
export SLURM_PROCID=3 SLURM_LOCALID=1 SLURM_NODEID=1 SLURM_NTASKS=4
exec "$@"
"""
AT_ONCE = "sleep() { command sleep 0.01; }\n"
TOOLS = {
    "srun": SRUN,
    "scontrol": "#!/bin/sh\nprintf 'n1\\nn2\\n'\n",
    "getent": "#!/bin/sh\nexit 0\n",
    "module": "#!/bin/sh\nexit 0\n",
    "scancel": "#!/bin/sh\nexit 0\n",
    "singularity": '#!/bin/bash\nuntil [ "$1" = x.sif ]; do shift; done\nshift\nexec "$@"\n',
}


@pytest.fixture(scope="module")
def bin_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("bin")
    recorders = dict.fromkeys([*launchers.names(), "python", "prog"], RECORDER)
    for name, text in {**recorders, **TOOLS}.items():
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)
    return directory


LAUNCHERS = [name for name in launchers.names() if name != "ray"]
"""Ray's head has to answer before the program starts: tests/slurm/test_launch_ray.py."""

Ran = Tuple[int, List[str], Dict[str, str], str]


def run_script(script: str, bin_dir: Path, **environment: str) -> Ran:
    """(exit code, the last command's argv, its environment, standard error).

    What the script itself sleeps passes at once.
    """
    for name in ("argv", "env"):
        (bin_dir / name).unlink(missing_ok=True)
    result = subprocess.run(
        ["bash", "-c", f"{AT_ONCE}{script}"],
        capture_output=True,
        env={
            "PATH": f"{bin_dir}:{os.environ['PATH']}",
            "HOME": str(bin_dir),
            "RECORD": str(bin_dir),
            "SLURM_JOB_ID": "4711",
            "SLURM_JOB_NODELIST": "n[1-2]",
            **environment,
        },
    )
    argv: List[str] = []
    seen: Dict[str, str] = {}
    if (bin_dir / "argv").exists():
        argv = (bin_dir / "argv").read_bytes().decode().split("\0")[:-1]
        pairs = (bin_dir / "env").read_bytes().decode().split("\0")[:-1]
        seen = dict(pair.split("=", 1) for pair in pairs)
    return result.returncode, argv, seen, result.stderr.decode()


def shape(launcher: str) -> Dict[str, Any]:
    """Two nodes where the launcher can; without the look at each of them before the launch."""
    nodes = 2 if launchers.load(launcher).distributed else 1
    return {"nodes": nodes, "gpus_per_node": 1, "preflight": False}


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize(
    ("program", "image"), [("train.py", None), ("prog", None), ("train.py", "x.sif")]
)
@settings(
    deadline=None,
    database=None,
    max_examples=3,
    phases=[Phase.generate],  # each example starts processes; a failing one is readable as it is
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(args=st.lists(TEXT, max_size=24), values=st.lists(TEXT, max_size=12))
def test_arguments_and_variables_arrive_byte_for_byte(
    launcher: str, program: str, image: Any, args: List[str], values: List[str], bin_dir: Path
) -> None:
    # A lone ":" is put in by a shell of each task, which not every recorder runs; on a real Slurm
    # tests/slurm/test_fidelity.py has it.
    assume(":" not in args)
    env = tuple((f"VALUE_{number}", value) for number, value in enumerate(values))
    what = {"script": program, "args": tuple(args), "env": env, "container": image}
    made = plan_of(launcher=launcher, **what, **shape(launcher))
    code, argv, seen, errors = run_script(render_job(made), bin_dir)
    assert (code, errors) == (0, "")
    if made.launcher.macros != launchers.NEVER:  # as torchrun reads them
        argv = [Template(word).safe_substitute(local_rank="0") for word in argv]
    assert argv[len(argv) - len(args) - 1 :] in ([program, *args], ["prog", *args])
    assert {name: seen[name] for name, _ in env} == dict(env)


@pytest.mark.parametrize("launcher", ["none", "srun", "torchrun"])
def test_arguments_of_a_step_arrive_byte_for_byte(launcher: str, bin_dir: Path) -> None:
    step = StepRequest(script="train.py", args=tuple(HOSTILE), launcher=launcher)
    made = plan_of(script=None, steps=(step,), env=(("VALUE", "a\nb"),), preflight=False)
    code, argv, seen, errors = run_script(render_job(made), bin_dir)
    assert (code, errors, seen["VALUE"]) == (0, "", "a\nb")
    if made.launches[0].launcher.macros != launchers.NEVER:
        argv = [Template(word).safe_substitute(local_rank="0") for word in argv]
    assert argv[-len(HOSTILE) :] == HOSTILE


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_script_ends_with_the_programs_exit_code(launcher: str, bin_dir: Path) -> None:
    for signal in (None, "B:USR1@60"):
        made = plan_of(launcher=launcher, signal=signal, **shape(launcher))
        code, argv, _, errors = run_script(render_job(made), bin_dir, PROGRAM_EXIT="17")
        assert (code, errors) == (17, "")
        assert argv[-1] == "train.py"


def test_srun_tells_each_process_its_rank(bin_dir: Path) -> None:
    script = render_job(plan_of(launcher="srun", nodes=2, gpus_per_node=2, preflight=False))
    stale = {"RANK": "9", "WORLD_SIZE": "9", "MASTER_ADDR": "stale", "MASTER_PORT": "1"}
    _, argv, seen, _ = run_script(script, bin_dir, **stale)
    assert argv == ["python", "train.py"]
    assert (seen["RANK"], seen["LOCAL_RANK"], seen["WORLD_SIZE"]) == ("3", "1", "4")
    assert seen["LOCAL_WORLD_SIZE"] == "2"
    assert (seen["MASTER_ADDR"], seen["MASTER_PORT"]) == ("n1", str(10000 + 4711))
    _, _, seen, _ = run_script(script, bin_dir, SLURM_JOB_ID="67108863")
    assert int(seen["MASTER_PORT"]) < 32768, "below the ephemeral range"


def test_one_process_sees_nothing_of_another_training(bin_dir: Path) -> None:
    script = render_job(plan_of(launcher="python", gpus_per_node=1))
    stale = {"RANK": "9", "LOCAL_RANK": "9", "WORLD_SIZE": "9", "LOCAL_WORLD_SIZE": "9"}
    _, _, seen, _ = run_script(script, bin_dir, MASTER_ADDR="stale", MASTER_PORT="1", **stale)
    assert not {*stale, "MASTER_ADDR", "MASTER_PORT"} & set(seen)


def test_users_variables_and_setup_have_the_last_word(bin_dir: Path) -> None:
    made = plan_of(
        launcher="srun",
        nodes=2,
        gpus_per_node=2,
        preflight=False,
        env=(("MASTER_PORT", "29500"), ("OMP_NUM_THREADS", "1")),
        setup=("export MASTER_ADDR=n9",),
    )
    _, _, seen, _ = run_script(render_job(made), bin_dir)
    assert (seen["MASTER_ADDR"], seen["MASTER_PORT"]) == ("n9", "29500")
    assert seen["OMP_NUM_THREADS"] == "1"


def test_secret_comes_from_the_environment_only(bin_dir: Path) -> None:
    made = plan_of(launcher="python", preflight=False, env=(("HF_TOKEN", SECRET), ("API_KEY", "")))
    script = render_job(made)
    assert SECRET not in script
    assert made.secrets == {"HF_TOKEN": SECRET}
    code, argv, _, errors = run_script(script, bin_dir)
    assert code != 0 and argv == []
    assert "HF_TOKEN" in errors and "export it before you submit" in errors
    code, _, seen, _ = run_script(script, bin_dir, **made.secrets)
    assert code == 0
    assert (seen["HF_TOKEN"], seen["API_KEY"]) == (SECRET, "")


@pytest.mark.parametrize("fields", [{"conda": "x"}, {"venv": "missing"}, {"modules": ("cuda/99",)}])
def test_missing_software_ends_the_job(fields: Dict[str, Any], bin_dir: Path) -> None:
    script = render_job(plan_of(launcher="python", preflight=False, **fields))
    code, argv, _, _ = run_script('module() { [ "$1" != load ]; }\n' + script, bin_dir)
    assert (code, argv) == (1, [])


def test_venv_below_home_in_a_job_file(bin_dir: Path) -> None:
    (bin_dir / "my env" / "bin").mkdir(parents=True)
    (bin_dir / "my env" / "bin" / "activate").write_text("export FROM_VENV=1\n")
    script = render_job(plan_of(launcher="python", preflight=False, venv="~/my env/"))
    assert run_script(script, bin_dir)[2]["FROM_VENV"] == "1"


SIGNALLED = """
trap 'echo saved >"$RECORD/saved"; exit 7' USR1
sleep 0.5
kill -s USR1 $(sed -n 's/^PPid:[[:blank:]]*//p' /proc/$PPID/status)
for n in {1..200}; do sleep 0.1; done
exit 3
"""


def test_signal_of_the_batch_shell_reaches_the_program(bin_dir: Path, tmp_path: Path) -> None:
    """The program signals the batch shell as Slurm would, and gets the signal handed on."""
    program = tmp_path / "save"
    program.write_text("#!/bin/bash\n" + SIGNALLED)
    program.chmod(0o755)
    made = plan_of(script=None, body=f"{program} | tee /dev/null\n", signal="B:USR1@60")
    code, _, _, errors = run_script("set -o pipefail\n" + render_job(made), bin_dir)
    assert (code, errors) == (7, "")
    assert (bin_dir / "saved").read_text() == "saved\n"


def test_own_trap_replaces_the_one_of_the_script(bin_dir: Path, tmp_path: Path) -> None:
    program = tmp_path / "work"
    program.write_text("#!/bin/bash\nsleep 0.5\nkill -s USR1 $PPID\nsleep 0.3\nexit 5\n")
    program.chmod(0o755)
    trap = "trap 'echo mine >\"$RECORD/mine\"' SIGUSR1"
    made = plan_of(launcher="python", script=str(program), signal="B:USR1@60", setup=(trap,))
    script = render_job(made)
    assert script.count(" SIGUSR1") == 1 and "' USR1" not in script, script
    code, _, _, errors = run_script(script, bin_dir)
    assert (code, errors) == (5, "")
    assert (bin_dir / "mine").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("variables", "smi", "defect"),
    [
        ({"CUDA_VISIBLE_DEVICES": "2,3"}, {}, ""),
        ({"ROCR_VISIBLE_DEVICES": "0,1"}, {}, ""),
        ({}, {}, ""),
        ({"CUDA_VISIBLE_DEVICES": "2"}, {}, "2 GPUs requested, 1 available"),
        ({"ROCR_VISIBLE_DEVICES": "0"}, {}, "2 GPUs requested, 1 available"),
        ({"CUDA_VISIBLE_DEVICES": ""}, {}, "2 GPUs requested, but CUDA_VISIBLE_DEVICES is empty"),
        ({"ROCR_VISIBLE_DEVICES": ""}, {}, "2 GPUs requested, but ROCR_VISIBLE_DEVICES is empty"),
        ({}, {"nvidia-smi": "exit 9"}, "nvidia-smi finds no GPU"),
    ],
)
def test_gpus_of_one_node(
    variables: Dict[str, str], smi: Dict[str, str], defect: str, bin_dir: Path
) -> None:
    script = render_job(plan_of(launcher="srun", script="prog", gpus_per_node=2))
    assert "declare -f check_node" not in script, "one node costs no step"
    for name, text in smi.items():
        (bin_dir / name).write_text(f"#!/bin/sh\n{text}\n")
        (bin_dir / name).chmod(0o755)
    try:
        code, argv, _, errors = run_script(f"set -euo pipefail\n{script}", bin_dir, **variables)
    finally:
        for name in smi:
            (bin_dir / name).unlink()
    assert (code, bool(argv)) == ((1, False) if defect else (0, True)), errors
    told = [line.split(": ", 2)[2] for line in errors.splitlines() if "preflight: " in line]
    assert told == ([defect] if defect else [])


@pytest.mark.parametrize("launcher", ["deepspeed", "torchrun"])
@pytest.mark.parametrize(
    ("listed", "words"),
    [("", "but CUDA_VISIBLE_DEVICES is empty"), ("3", "1 available")],
)
def test_a_job_that_lists_too_few_gpus_itself(
    launcher: str, listed: str, words: str, bin_dir: Path
) -> None:
    """So many processes would start, or lack a GPU."""
    env = (("CUDA_VISIBLE_DEVICES", listed),)
    made = plan_of(launcher=launcher, script="prog", gpus_per_node=2, env=env)
    code, argv, _, errors = run_script(render_job(made), bin_dir)
    assert (code, argv) == (1, [])
    assert f"2 GPUs requested, {words}" in errors


@pytest.mark.parametrize(
    ("script", "tasks", "ranks"), [("prog", 1, False), ("prog", 2, True), ("train.py", 1, True)]
)
def test_one_task_of_a_program_is_no_training(
    script: str, tasks: int, ranks: bool, bin_dir: Path
) -> None:
    made = plan_of(launcher="srun", script=script, ntasks_per_node=tasks, preflight=False)
    stale = {"WORLD_SIZE": "64", "RANK": "5", "MASTER_ADDR": "elsewhere"}
    seen = run_script(render_job(made), bin_dir, **stale)[2]
    assert ({"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"} <= set(seen)) == ranks
    assert ranks or not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} & set(seen)


TOLD = """#!/bin/sh
echo "${0##*/} $*" >>"$RECORD/told"
case "${0##*/} ${1-}" in squeue*) echo RUNNING ;; sbatch*) echo 4712 ;; esac
"""


@pytest.mark.parametrize("chain", [False, True])
@pytest.mark.parametrize(
    ("code", "run", "last", "follows"),
    [
        (0, 2, "done in 2 runs", False),
        (9, 2, "the program failed with exit code 9: no other run follows", False),
        (75, 2, "run 2 saved (exit code 75)", True),
        (75, 3, "that was the last of 3 runs", False),
        (121, 2, "run 2 broke off (exit code 121)", True),  # Slurm starts no step in this job
    ],
)
def test_end_of_a_run(
    chain: bool, code: int, run: int, last: str, follows: bool, bin_dir: Path, tmp_path: Path
) -> None:
    more = {"requeue": False} if chain else {}
    broken = last.startswith("run 2 broke")
    launcher = "srun" if broken else "python"
    made = plan_of(launcher=launcher, until_done=True, max_runs=3, preflight=False, **more)
    script = tmp_path / "slurm_script"
    # Slurm ends a run that waits 300 s for that.
    ended = 'sleep() { [ "$1" != 300 ] || exit "$code"; command sleep 0.01; }\n'
    script.write_text(ended + render_job(made))
    if broken:
        (tmp_path / "srun").write_text("#!/bin/sh\nexit $SLURM_EXIT_ERROR\n")
        (tmp_path / "srun").chmod(0o755)
    for name in ("squeue", "sbatch", "scontrol", "scancel", "sacct"):
        (tmp_path / name).write_text(TOLD)
        (tmp_path / name).chmod(0o755)
    environment = {
        **{"PATH": f"{tmp_path}:{bin_dir}:{os.environ['PATH']}", "HOME": str(bin_dir)},
        **{"RECORD": str(tmp_path), "SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": "n1"},
        **{"SLURM_JOB_NAME": "train", "SLURM_SUBMIT_DIR": str(tmp_path)},
        **{"SLURM_RESTART_COUNT": str(run - 1), "PROGRAM_EXIT": str(code)},
    }
    words = ["neuronctl-k", str(run), "4710"] if chain else []
    argv = ["bash", str(script), *words]
    ran = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (code, "")
    lines = ran.stdout.splitlines()
    assert (lines.pop() == "another run follows, as job 4712") == (chain and follows)
    assert last in ran.stdout.splitlines()[-2:]
    assert f"run {run} of at most 3, on n1" in ran.stdout
    told = (tmp_path / "told").read_text() if (tmp_path / "told").exists() else ""
    if chain:
        assert ("sbatch" in told) == (run < 3)
        assert ("scancel -t PENDING 4712" in told) == (run < 3 and not follows)
        assert "run 3 waits as job 4712" in ran.stdout or run == 3
    else:
        assert ("scontrol requeue 4711" in told) == follows


@pytest.mark.parametrize(
    ("variables", "names"),
    [
        ({"CUDA_VISIBLE_DEVICES": "2,3"}, ["2", "3"]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-a1,MIG-b2/3"}, ["GPU-a1", "MIG-b2/3"]),
        ({"ROCR_VISIBLE_DEVICES": "2,3"}, ["0", "1"]),
        ({"CUDA_VISIBLE_DEVICES": ""}, ["0", "1"]),
        ({}, ["0", "1"]),
    ],
)
def test_deepspeed_starts_a_process_per_gpu(
    variables: Dict[str, str], names: List[str], bin_dir: Path
) -> None:
    made = plan_of(launcher="deepspeed", nodes=2, gpus_per_node=2, preflight=False)
    code, argv, _, errors = run_script(render_job(made), bin_dir, **variables)
    (word,) = [word for word in argv if word.startswith("--world_info=")]
    world = json.loads(base64.urlsafe_b64decode(word.partition("=")[2]))
    assert (code, errors, world) == (0, "", {"0": names, "1": names})


@pytest.mark.parametrize(
    ("setup", "code", "starts"),
    [
        (("false",), 1, False),
        (("true", "(exit 7)", "true"), 7, False),
        (("if false; then", "    true", "fi", "false || true"), 0, True),
        (("set +e", "false"), 0, True),
        (("X=1", "false | true"), 0, True),
    ],
)
def test_a_setup_line_that_fails_ends_the_job(
    setup: Tuple[str, ...], code: int, starts: bool, bin_dir: Path
) -> None:
    made = plan_of(launcher="python", script="prog", setup=setup, preflight=False)
    ended, argv, _, errors = run_script(render_job(made), bin_dir)
    assert (ended, bool(argv)) == (code, starts)
    assert ("a setup line failed: " in errors) != starts


@pytest.mark.parametrize("more", [{}, {"until_done": True}])
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("false\ntouch $RECORD/went-on\n", 1),
        ("# remark\n\nset +e\nfalse\ntouch $RECORD/went-on\n", 0),
        ("shopt -s extglob\nfalse\ntouch $RECORD/went-on\n", 1),
        ("false; touch $RECORD/went-on\n", 0),
    ],
)
def test_shell_text_ends_at_its_first_failing_line(
    body: str, code: int, more: Dict[str, Any], bin_dir: Path
) -> None:
    """At the top level of a job file as in its steps."""
    made = plan_of(script=None, body=body, preflight=False, **more)
    ended = run_script(render_job(made), bin_dir)[0]
    went_on = bin_dir / "went-on"
    assert (ended, went_on.exists()) == (code, code == 0)
    went_on.unlink(missing_ok=True)


@pytest.mark.parametrize("state", ["CANCELLED", "COMPLETED", "NODE_FAIL", "FAILED"])
def test_chain_ends_with_what_was_cancelled(state: str, bin_dir: Path) -> None:
    made = plan_of(launcher="python", until_done=True, requeue=False, preflight=False)
    tools = f"scontrol() {{ echo JobState={state}; }}\nscancel() {{ :; }}\n"
    tools += "sbatch() { echo 5; }\nsqueue() { :; }\nset -- mark 2 4710\n"
    names = {"SLURM_JOB_NAME": "train", "SLURM_SUBMIT_DIR": str(bin_dir)}
    code, argv, _, errors = run_script(tools + render_job(made), bin_dir, **names)
    assert (code, errors) == (0, "")
    assert bool(argv) == (state in ("NODE_FAIL", "FAILED"))


def ask(how: str, folder: Path, bin_dir: Path, **request: Any) -> Tuple[int, List[str], str]:
    """Ask a program to save that then does ``how``; the exit code, the log's lines, the errors."""
    made = plan_of(launcher="python", until_done=True, max_runs=9, preflight=False, **request)
    (folder / "python").write_text(
        f"#!/bin/bash\n{how}\nwhile kill -USR2 $PPID; do sleep 0.2; done\n"
    )
    (folder / "scontrol").write_text("#!/bin/sh\nexit 1\n")
    for name in ("squeue", "sbatch", "scancel"):
        (folder / name).write_text("#!/bin/sh\necho 'slurmctld does not answer' >&2; exit 1\n")
    for path in folder.iterdir():
        path.chmod(0o755)
    environment = {
        **{"PATH": f"{folder}:{bin_dir}:{os.environ['PATH']}", "HOME": str(folder)},
        **{"SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": "n1", "SLURM_SUBMIT_DIR": str(folder)},
    }
    text = f"sleep() {{ command sleep 0.01; }}\n{render_job(made)}"
    ran = subprocess.run(
        ["bash", "-c", text], cwd=folder, env=environment, capture_output=True, text=True
    )
    return ran.returncode, ran.stdout.splitlines(), ran.stderr


@pytest.mark.parametrize(
    ("how", "code", "words"),
    [
        ("trap 'exit 75' TERM", 75, "saved"),
        ("trap 'echo x >>kept; exit 1' TERM", 1, "saved"),
        ("echo x >kept; trap 'exit 1' TERM", 1, "ended after the request to save"),
        ("echo x >kept; trap 'kill -KILL $$' TERM", 137, "ended after the request to save"),
        ("echo x >kept", 143, "did not save"),
    ],
)
def test_a_run_saved_only_with_evidence(
    how: str, code: int, words: str, bin_dir: Path, tmp_path: Path
) -> None:
    exit_code, lines, _ = ask(how, tmp_path, bin_dir, checkpoint="kept")
    assert (exit_code, lines[-2]) == (code, f"run 1 {words} (exit code {code})")


@pytest.mark.parametrize("chain", [False, True])
def test_no_other_run_is_announced_that_does_not_follow(
    chain: bool, bin_dir: Path, tmp_path: Path
) -> None:
    more = {"requeue": False} if chain else {}
    _, lines, errors = ask("trap 'exit 75' TERM", tmp_path, bin_dir, **more)
    assert lines[-1].endswith("no other run follows")
    assert "No such process" not in errors
    assert not [line for line in lines if line.startswith("another run follows")]


def test_a_program_that_ended_gets_no_signal(bin_dir: Path, tmp_path: Path) -> None:
    """scancel comes while the run waits for its requeue."""
    how = "(command sleep 0.3; kill -TERM $PPID) & trap 'exit 75' TERM"
    code, lines, errors = ask(how, tmp_path, bin_dir)
    assert (code, "No such process" in errors) == (143, False), lines


def test_a_job_is_ended_though_a_look_never_returns(bin_dir: Path, tmp_path: Path) -> None:
    """As where its file server or node no longer answers. Only its own processes are looked at."""
    for name, text in {
        "stat": "exec sleep 20",
        "py-spy": 'tr "\\0" "\\n" <"/proc/$3/environ" | grep ^SLURM_JOB_ID= >>"$RECORD/looked"',
        "python": 'until [ -s "$RECORD/ended" ]; do sleep 0.2; done',
        "scancel": 'echo "$@" >"$RECORD/ended"',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    made = plan_of(launcher="python", stall="2s", preflight=False)
    environment = {
        **{"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)},
        **{"SLURM_JOB_ID": "4711", "RECORD": str(tmp_path)},
    }
    foreign = {**environment, "SLURM_JOB_ID": "47110"}
    with (tmp_path / "errors").open("w") as errors, subprocess.Popen(["python"], env=foreign):
        subprocess.run(["bash", "-c", render_job(made)], env=environment, stderr=errors)
    assert set((tmp_path / "looked").read_text().split()) == {"SLURM_JOB_ID=4711"}
    assert (tmp_path / "ended").read_text() == "4711\n"
    assert "the job no longer moves: for 2 s" in (tmp_path / "errors").read_text()
