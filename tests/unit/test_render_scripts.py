"""Whole scripts, run by a real bash with recorders in the place of srun, torchrun and python.

Whatever starts the program, the program's own arguments and the job's variables arrive byte for
byte. The last command of the chain writes down what it was given.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path
from signal import SIGKILL
from typing import Any, Dict, List, Optional, Tuple

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from plan_builders import plan_of

from neuronctl.launch import launchers
from neuronctl.rendering.render import render_job

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])) | st.sampled_from(
    [
        "",
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
        "실험",
        "😀",
    ]
)

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
TOOLS = {
    "srun": SRUN,
    "scontrol": "#!/bin/sh\nprintf 'n1\\nn2\\n'\n",
    "getent": '#!/bin/sh\n[ -n "${ADDRESS=10.1.2.3}" ] && echo "$ADDRESS STREAM"\n',
    "module": "#!/bin/sh\nexit 0\n",
}


@pytest.fixture(scope="module")
def bin_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("bin")
    recorders = dict.fromkeys([*launchers.names(), "python", "prog"], RECORDER)
    for name, text in {**recorders, **TOOLS}.items():
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)
    return directory


Ran = Tuple[int, List[str], Dict[str, str], str]


def run_script(script: str, bin_dir: Path, **environment: str) -> Ran:
    """(exit code, the last command's argv, its environment, standard error)."""
    for name in ("argv", "env"):
        (bin_dir / name).unlink(missing_ok=True)
    result = subprocess.run(
        ["bash", "-c", script],
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


@pytest.mark.parametrize("launcher", launchers.names())
@pytest.mark.parametrize("program", ["train.py", "prog"])
@settings(
    deadline=None,
    database=None,
    max_examples=3,
    phases=[Phase.generate],  # each example starts processes; a failing one is readable as it is
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(args=st.lists(TEXT, max_size=24), values=st.lists(TEXT, max_size=12))
def test_arguments_and_variables_arrive_byte_for_byte(
    launcher: str, program: str, args: List[str], values: List[str], bin_dir: Path
) -> None:
    # A lone ":" is put in by a shell of each task, which not every recorder runs; on a real Slurm
    # tests/slurm/test_fidelity.py has it.
    assume(":" not in args)
    env = tuple((f"VALUE_{number}", value) for number, value in enumerate(values))
    made = plan_of(launcher=launcher, script=program, args=tuple(args), env=env, **shape(launcher))
    code, argv, seen, errors = run_script(render_job(made), bin_dir)
    assert (code, errors) == (0, "")
    assert argv[len(argv) - len(args) - 1 :] in ([program, *args], ["prog", *args])
    assert {name: seen[name] for name, _ in env} == dict(env)


@pytest.mark.parametrize("launcher", launchers.names())
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
    assert (seen["MASTER_ADDR"], seen["MASTER_PORT"]) == ("10.1.2.3", str(10000 + 4711))


def test_torchrun_evaluates_on_each_node_what_differs_there(bin_dir: Path) -> None:
    script = render_job(plan_of(launcher="torchrun", nodes=2, gpus_per_node=2, preflight=False))
    _, argv, _, _ = run_script(script, bin_dir)
    assert argv[0] == "torchrun"
    assert {"--nnodes=2", "--nproc-per-node=2", "--rdzv-backend=c10d"} <= set(argv)
    assert {"--rdzv-id=4711", f"--rdzv-endpoint=10.1.2.3:{10000 + 4711}"} <= set(argv)
    assert "--rdzv-conf=is_host=0" in argv  # the recorder is on node 1


def test_one_process_sees_nothing_of_another_training(bin_dir: Path) -> None:
    script = render_job(plan_of(launcher="python", gpus_per_node=1))
    stale = {"RANK": "9", "LOCAL_RANK": "9", "WORLD_SIZE": "9", "LOCAL_WORLD_SIZE": "9"}
    _, _, seen, _ = run_script(script, bin_dir, MASTER_ADDR="stale", MASTER_PORT="1", **stale)
    assert not {*stale, "MASTER_ADDR", "MASTER_PORT"} & set(seen)


@pytest.mark.parametrize("address", ["127.0.1.1", ""])
def test_first_node_without_an_address_ends_the_job(address: str, bin_dir: Path) -> None:
    script = render_job(plan_of(launcher="torchrun", nodes=2, gpus_per_node=2, preflight=False))
    code, argv, _, errors = run_script(script, bin_dir, ADDRESS=address)
    assert (code, argv) == (1, [])
    assert "n1 has no address that other nodes can reach" in errors


def test_port_is_of_the_job_and_below_the_ephemeral_range(bin_dir: Path) -> None:
    script = render_job(plan_of(launcher="srun", nodes=2, gpus_per_node=2, preflight=False))
    for job_id in (1, 19999, 20000, 67108863):
        _, _, seen, _ = run_script(script, bin_dir, SLURM_JOB_ID=str(job_id))
        assert 10000 <= int(seen["MASTER_PORT"]) < 32768


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
    made = plan_of(
        launcher="python", preflight=False, env=(("HF_TOKEN", "hf_secret"), ("API_KEY", ""))
    )
    script = render_job(made)
    assert "hf_secret" not in script
    assert made.secrets == {"HF_TOKEN": "hf_secret"}
    code, argv, _, errors = run_script(script, bin_dir)
    assert code != 0 and argv == []
    assert "HF_TOKEN" in errors and "export it before you submit" in errors
    code, _, seen, _ = run_script(script, bin_dir, **made.secrets)
    assert code == 0
    assert (seen["HF_TOKEN"], seen["API_KEY"]) == ("hf_secret", "")


@pytest.mark.parametrize("fields", [{"conda": "x"}, {"venv": "missing"}])
def test_missing_environment_ends_the_job(fields: Dict[str, str], bin_dir: Path) -> None:
    code, argv, _, _ = run_script(render_job(plan_of(launcher="python", **fields)), bin_dir)
    assert (code, argv) == (1, [])


def test_missing_module_ends_the_job(bin_dir: Path) -> None:
    script = render_job(plan_of(launcher="python", preflight=False, modules=("cuda/99",)))
    assert run_script(script, bin_dir)[0] == 0
    failing = 'module() { [ "$1" != load ]; }\n' + script
    assert run_script(failing, bin_dir)[:2] == (1, [])


def test_venv_below_home_in_a_job_file(bin_dir: Path) -> None:
    (bin_dir / "my env" / "bin").mkdir(parents=True)
    (bin_dir / "my env" / "bin" / "activate").write_text("export FROM_VENV=1\n")
    script = render_job(plan_of(launcher="python", preflight=False, venv="~/my env/"))
    assert run_script(script, bin_dir)[2]["FROM_VENV"] == "1"


SIGNALLED = """
trap 'echo saved >"$RECORD/saved"; exit 0' USR1
sleep 0.5
kill -s USR1 $(sed -n 's/^PPid:[[:blank:]]*//p' /proc/$PPID/status)
for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 0.1; done
exit 3
"""


def test_signal_of_the_batch_shell_reaches_the_program(bin_dir: Path, tmp_path: Path) -> None:
    """The program signals the batch shell as Slurm would, and gets the signal handed on."""
    program = tmp_path / "save"
    program.write_text("#!/bin/bash\n" + SIGNALLED)
    program.chmod(0o755)
    made = plan_of(launcher="python", script=str(program), signal="B:USR1@60")
    code, _, _, errors = run_script(render_job(made), bin_dir)
    assert (code, errors) == (0, "")
    assert (bin_dir / "saved").read_text() == "saved\n"


def test_own_trap_replaces_the_one_of_the_script(bin_dir: Path, tmp_path: Path) -> None:
    program = tmp_path / "work"
    program.write_text("#!/bin/bash\nsleep 0.5\nkill -s USR1 $PPID\nsleep 0.3\nexit 5\n")
    program.chmod(0o755)
    trap = "trap 'echo mine >\"$RECORD/mine\"' SIGUSR1"
    made = plan_of(launcher="python", script=str(program), signal="B:USR1@60", setup=(trap,))
    script = render_job(made)
    assert script.count("trap ") == 1
    code, _, _, errors = run_script(script, bin_dir)
    assert (code, errors) == (5, "")
    assert (bin_dir / "mine").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("variables", "smi", "defect"),
    [
        ({"CUDA_VISIBLE_DEVICES": "2,3"}, {}, ""),
        ({"ROCR_VISIBLE_DEVICES": "0,1"}, {"rocm-smi": "echo 'GPU[0]: Device ID: 0x74a1'"}, ""),
        ({}, {}, ""),
        ({"CUDA_VISIBLE_DEVICES": "2"}, {}, "2 GPUs requested, 1 available"),
        ({"ROCR_VISIBLE_DEVICES": "0"}, {}, "2 GPUs requested, 1 available"),
        ({}, {"nvidia-smi": "exit 9"}, "nvidia-smi finds no GPU"),
        ({}, {"rocm-smi": "echo WARNING: No AMD GPUs specified"}, "rocm-smi finds no GPU"),
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


def test_who_chooses_gpus_is_not_told_how_many(bin_dir: Path) -> None:
    for chosen in (
        {"env": (("CUDA_VISIBLE_DEVICES", "1"),)},
        {"setup": ("HIP_VISIBLE_DEVICES=1",)},
    ):
        script = render_job(plan_of(launcher="srun", script="prog", gpus_per_node=2, **chosen))
        assert run_script(script, bin_dir, CUDA_VISIBLE_DEVICES="0,1")[0] == 0


def test_one_node_that_lacks_things(bin_dir: Path) -> None:
    script = render_job(plan_of(launcher="python", script="nowhere.py", venv="~/lacking"))
    (bin_dir / "lacking" / "bin").mkdir(parents=True)
    (bin_dir / "lacking" / "bin" / "activate").write_text("export VIRTUAL_ENV=~/lacking\n")
    code, argv, _, errors = run_script(script, bin_dir)
    assert (code, argv) == (1, [])
    told = [line.split(": ", 2)[2] for line in errors.splitlines()]
    assert told == ["cannot read nowhere.py", f"cannot run {bin_dir}/lacking/bin/python"]


@pytest.mark.parametrize(
    ("script", "tasks", "ranks"),
    [("prog", 1, False), ("prog", 2, True), ("train.py", 1, True)],
)
def test_one_task_of_a_program_is_no_training(
    script: str, tasks: int, ranks: bool, bin_dir: Path
) -> None:
    made = plan_of(launcher="srun", script=script, ntasks_per_node=tasks, preflight=False)
    stale = {"WORLD_SIZE": "64", "RANK": "5", "MASTER_ADDR": "elsewhere"}
    seen = run_script(render_job(made), bin_dir, **stale)[2]
    assert ({"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"} <= set(seen)) == ranks
    assert ranks or not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} & set(seen)


def test_threads_that_are_exported_stay(bin_dir: Path) -> None:
    script = render_job(plan_of(**shape("srun"), ntasks_per_node=2))
    assert run_script(script, bin_dir, OMP_NUM_THREADS="3")[2]["OMP_NUM_THREADS"] == "3"
    assert run_script(script, bin_dir)[2]["OMP_NUM_THREADS"] != "3"


def test_own_name_that_is_a_loopback(bin_dir: Path) -> None:
    """As on Debian, whose /etc/hosts gives 127.0.1.1 to the name of the machine itself."""
    names = '#!/bin/sh\n[ "$2" = n1 ] && echo 127.0.1.1 STREAM || echo 10.1.2.4 STREAM\n'
    route = "#!/bin/sh\n[ \"$*\" = 'route get 10.1.2.4' ] && "
    route += "echo '10.1.2.4 dev ib0 src 10.1.2.3 uid 0'\n"
    kept = (bin_dir / "getent").read_text()
    (bin_dir / "getent").write_text(names)
    (bin_dir / "ip").write_text(route)
    (bin_dir / "ip").chmod(0o755)
    try:
        script = render_job(plan_of(launcher="srun", nodes=2, preflight=False))
        seen = run_script(script, bin_dir)[2]
        own = run_script(script, bin_dir, GLOO_SOCKET_IFNAME="eth1")[2]
    finally:
        (bin_dir / "getent").write_text(kept)
        (bin_dir / "ip").unlink()
    assert (seen["MASTER_ADDR"], seen["GLOO_SOCKET_IFNAME"]) == ("10.1.2.3", "ib0")
    assert own["GLOO_SOCKET_IFNAME"] == "eth1"


@pytest.mark.parametrize(
    "fields",
    [
        {"launcher": "torchrun", "nodes": 2},
        {"launcher": "srun", "nodes": 2, "signal": "USR1@60"},
        {"launcher": "torchrun", "nodes": 2, "signal": "USR1@60"},
        {"launcher": "python"},
        {"launcher": "mpirun", "ntasks_per_node": 2},
        {"launcher": "python", "setup": ("x=1",), "signal": "USR1@60"},
        {"script": None, "body": "prog a"},
        {"script": None, "body": "prog a", "signal": "TERM@60", "gpus_per_node": 1},
    ],
)
def test_a_shell_with_options_of_the_user(fields: Dict[str, Any], bin_dir: Path) -> None:
    """SHELLOPTS is in the environment of every bash of the job."""
    made = plan_of(**{"script": "prog", "preflight": False, **fields})
    options = {"SHELLOPTS": "nounset:errexit:pipefail"}
    for code in (0, 7):
        ran = run_script(render_job(made), bin_dir, PROGRAM_EXIT=str(code), **options)
        assert (ran[0], ran[3]) == (code, "")


def test_measuring_the_nodes_ends_no_job(bin_dir: Path) -> None:
    """Whatever fails in it: the node gives another name, or the time is over."""
    made = plan_of(launcher="srun", script="prog", preflight="deep")
    script = render_job(made).replace("ROUND = 5, 0.3", "ROUND = 1, 0.01")
    assert "\n    measure_nodes  " in script
    for text in (script, script.replace("timeout -k 5 55 ", "sh -c 'exit 124' ")):
        ran = run_script(f"set -euo pipefail\n{text}", bin_dir, PROGRAM_EXIT="7")
        assert (ran[0], ran[1][:1]) == (7, ["prog"]), ran[3]


def test_the_preflight_leaves_variables_alone(bin_dir: Path) -> None:
    for more in ({}, {"signal": "USR1@60"}):
        made = plan_of(launcher="python", script="prog", gpus_per_node=2, **more)
        given = {"gpus": "mine", "failed": "mine", "CUDA_VISIBLE_DEVICES": "0,1"}
        code, _, seen, errors = run_script(render_job(made), bin_dir, **given)
        assert (code, errors) == (0, "")
        assert (seen["gpus"], seen["failed"]) == ("mine", "mine")


def functions_of(script: str, *names: str) -> str:
    """The texts of these functions of a script."""
    wanted = rf"^(?:{'|'.join(names)})\(\) \{{(?:.*\}}$|\n(?:.*\n)*?\}}$)"
    return "\n".join(re.findall(wanted, script, re.MULTILINE))


@pytest.mark.parametrize(
    ("begun", "stalled", "moved"),
    [
        (2200, None, "moved"),
        (30, None, "still"),
        (2200, 300, "still"),  # it hung after a moment; then it was waited for, and for its save
        (2200, 0, "moved"),
    ],
)
def test_a_run_that_hung_at_once_has_not_moved(
    begun: int, stalled: Optional[int], moved: str, tmp_path: Path
) -> None:
    """However long it was waited for. All in seconds before its end."""
    script = render_job(plan_of(until_done=True, stall="30m", time_limit="2:00:00"))
    functions = functions_of(script, "note", "last_of", "progress", "stalled", "note_end")
    now, noted = int(time.time()), tmp_path / "runs"
    lines = [f"1 begin {now - begun} n1 unknown 0 0"]
    lines += [] if stalled is None else [f"1 stall {now - stalled}"]
    noted.write_text("".join(f"{line}\n" for line in lines))
    ended = f"{functions}\nrun=1 runs_file={noted}; note_end 1 stall"
    subprocess.run(["bash", "-euc", ended], check=True)
    assert noted.read_text().splitlines()[-1].split()[5] == moved


def test_the_end_of_a_run_is_noted_whatever_became_of_its_notes(tmp_path: Path) -> None:
    script = render_job(plan_of(until_done=True, time_limit="2:00:00"))
    functions = functions_of(script, "note", "last_of", "progress", "note_end")
    noted = tmp_path / "runs"
    noted.write_text("1 asked 1000 TERM\n")
    argv = ["bash", "-euc", f"{functions}\nrun=1 runs_file={noted}; note_end 75 saved"]
    subprocess.run(argv, check=True)
    assert noted.read_text().splitlines()[-1].split()[1::2] == ["end", "75", "moved"]
    noted.write_text(f"1 begin {int(time.time()) - 9000} n1 unknown 0 0\n")
    argv[-1] += "; note_end - lost"  # the next one, which has waited
    subprocess.run(argv, check=True)
    own, seen = (int(line.split()[-1]) for line in noted.read_text().splitlines()[1:])
    assert 9000 <= own < 9060 and seen == 7200, "its time limit may have been changed"


@pytest.mark.parametrize(
    ("told", "left"),
    [("3600", 3590), ("100", 90), ("", 290), ("N/A", 290)],  # longer, shorter, silence
)
def test_a_run_whose_time_limit_was_changed_has_the_time_to_save_that_is_left(
    told: str, left: int, tmp_path: Path
) -> None:
    script = render_job(plan_of(until_done=True, time_limit="2:00:00"))
    functions = functions_of(script, "note", "find_end", "ask_to_save")
    now = int(time.time())
    squeue = tmp_path / "squeue"
    squeue.write_text(f"#!/bin/sh\necho {now + int(told) if told.isdigit() else told}\n")
    squeue.chmod(0o755)
    text = f"run=1 runs_file={tmp_path}/runs SECONDS=0 run_ends={now + 300}; ask_to_save"
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"}
    argv = ["bash", "-euc", f"{functions}\n{text}; echo $slurm_stops"]
    ran = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    assert left - 5 <= int(ran.stdout.split()[-1]) <= left + 5


CHAINED = """\
submit_next() { note next 9; }
waiting_next() { :; }
start_elsewhere() { :; }
sleep() { command sleep 0.1; }
"""


def chained(tmp_path: Path, noted: str, names: str, commands: str) -> List[str]:
    """The lines that commands of a chain's script add to the notes of its runs."""
    script = render_job(plan_of(until_done=True, requeue=False))
    runs = tmp_path / "runs"
    runs.write_text(noted)
    text = f"{functions_of(script, *names.split())}\n{CHAINED}run=1 runs_file={runs}\n{commands}"
    subprocess.run(["bash", "-uc", text], check=False)
    return runs.read_text()[len(noted) :].splitlines()


def test_a_chain_goes_on_where_what_submits_its_next_run_was_killed(tmp_path: Path) -> None:
    names = "note last_of keep_next has_next says_over"
    killed = ": & submitter=$!; wait; keep_next"
    begun = "1 begin 1000 n1 unknown 0 0 7\n"
    added = chained(tmp_path, begun, names, killed)
    assert [line.split()[1::2] for line in added] == [["next", "9"]]
    assert chained(tmp_path, f"{begun}1 next 1000 8\n", names, killed) == []


NODES = """\
scontrol() {
    [ "$2" != hostnames ] || { tr , '\\n' <<<"$3"; return; }
    printf '   %s\\n' "ReqNodeList=$REQUIRED ExcNodeList=$EXCLUDED" "Features=$FEATURES " \\
        "MinCPUsNode=${CORES-1} MinMemory${MEMORY-CPU=2G} MinTmpDiskNode=0" "${TRES-}"
}
sinfo() {
    printf '%s\\n' 'n1 32 256000 gpu:a100:8(S:0,1) a100,ib' \\
        'n2 64 512000 gpu:h100:4,gpu:mig:7 h100,ib' \\
        'n3 16 128000 gpu:2 h100' 'n3 16 128000 gpu:2 h100'
}
"""


@pytest.mark.parametrize(
    ("required", "excluded", "features", "avoided"),
    [
        ("(null)", "(null)", "(null)", "n1"),
        ("n1", "(null)", "(null)", ""),
        ("n2", "(null)", "(null)", "n1"),
        ("(null)", "n2", "(null)", "n1"),
        ("(null)", "n2,n3", "(null)", ""),
        ("(null)", "(null)", "a100", ""),
        ("(null)", "(null)", "ib", "n1"),
        ("(null)", "(null)", "h100&ib", "n1"),
        ("(null)", "n2", "h100&ib", ""),
        ("(null)", "n2", "a100|h100", "n1"),
        ("(null)", "(null)", "[a100|h100]", ""),
        ("(null)", "(null)", "h100*1&ib*1", ""),
    ],
)
def test_a_node_that_failed_is_left_out_if_the_job_may_have_others(
    required: str, excluded: str, features: str, avoided: str, tmp_path: Path
) -> None:
    """Slurm would hold the job for ever otherwise: the job's own -w, -x, and -C count."""
    functions = functions_of(
        render_job(plan_of(until_done=True)),
        *("says_avoided", "avoided", "suitable", "of_job", "hosts", "to_exclude"),
    )
    noted, own = tmp_path / "runs", excluded.replace("(null)", "")
    noted.write_text("1 avoid 1000 n1\n")
    job = {"REQUIRED": required, "EXCLUDED": excluded, "FEATURES": features}
    job.update(
        SLURM_JOB_PARTITION="gpu",
        SLURM_JOB_NUM_NODES="1",
        SLURM_JOB_ID="7",
        PATH=os.environ["PATH"],
    )
    text = f"{functions}\n{NODES}run=1 runs_file={noted}; to_exclude; says_avoided n1"
    argv = ["bash", "-uc", text]
    ran = subprocess.run(argv, env=job, stdout=subprocess.PIPE, text=True, check=True)
    *exclude, said = ran.stdout.splitlines()
    assert exclude == ([",".join(filter(None, (own, avoided)))] if avoided else [])
    assert f"n1 is {'' if avoided else 'not '}left out of" in said


@pytest.mark.parametrize(
    ("needs", "others"),
    [
        ({"TRES": "TresPerNode=gres:gpu:2"}, 2),
        ({"TRES": "TresPerNode=gres/gpu:3"}, 1),
        ({"TRES": "TresPerNode=gres/gpu:h100:4"}, 1),
        ({"TRES": "TresPerNode=gres:gpu:h100:5"}, 0),
        ({"TRES": "TresPerNode=gres:gpu:a100:1"}, 0),
        ({"TRES": "TresPerNode=gres:gpu:12"}, 0),
        ({"TRES": "TresPerTask=gres/gpu=3"}, 1),
        ({"TRES": "TresPerNode=gres:gpu"}, 2),
        ({"MEMORY": "Node=200G"}, 1),
        ({"MEMORY": "Node=600G"}, 0),
        ({"MEMORY": "CPU=8G", "CORES": "16"}, 1),
        ({"CORES": "17"}, 1),
        ({"CORES": "8"}, 2),
        ({}, 2),
    ],
)
def test_others_have_the_gpus_cores_and_memory_of_the_job(
    needs: Dict[str, str], others: int, tmp_path: Path
) -> None:
    script = render_job(plan_of(until_done=True))
    functions = functions_of(script, "avoided", "suitable", "of_job", "hosts")
    (tmp_path / "runs").write_text("1 avoid 1000 n1\n")
    none = dict.fromkeys(("REQUIRED", "EXCLUDED", "FEATURES"), "(null)")
    job = {**none, **needs, "SLURM_JOB_PARTITION": "gpu", "SLURM_JOB_ID": "7"}
    for nodes in (1, 2):
        env = {**job, "SLURM_JOB_NUM_NODES": str(nodes), "PATH": os.environ["PATH"]}
        text = f"{functions}\n{NODES}runs_file={tmp_path}/runs; avoided"
        argv = ["bash", "-uc", text]
        ran = subprocess.run(argv, env=env, stdout=subprocess.PIPE, text=True, check=True)
        assert ran.stdout.split() == (["n1"] if nodes <= others else [])


ENDS = """\
#!/bin/sh
echo ran >>ran
until [ -e waiting ]; do /bin/sleep 0.01; done
"""
# The batch shell is killed in one of its pauses, once the program's end has been noted.
KILLS = """\
#!/bin/sh
[ "$PPID" = "$(cat pid)" ] || exec /bin/sleep "$@"
touch waiting
until grep -qs finished ./*.runs; do /bin/sleep 0.01; done
kill -9 "$(cat pid)"
"""


@pytest.mark.parametrize("launcher", ["python", "srun"])
@pytest.mark.parametrize("chain", [False, True])
def test_a_shell_that_is_killed_after_its_program_ended_with_0(
    chain: bool, launcher: str, tmp_path: Path
) -> None:
    """No other run begins, whatever Slurm says of the killed one, or of its node."""
    none = dict.fromkeys(("squeue", "sacct", "scancel"), "#!/bin/sh\n")
    made = {**TOOLS, **none, "sbatch": "#!/bin/sh\nenv -0 >sent\necho 9\n"}
    made.update(prog=ENDS, sleep=KILLS)
    more = {"requeue": False} if chain else {}
    plan = plan_of(until_done=True, launcher=launcher, script="prog", **shape(launcher), **more)
    for name, text in {**made, "job": render_job(plan)}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)

    def run(*words: str, **job: str) -> subprocess.CompletedProcess[str]:
        path = f"{tmp_path}:{os.environ['PATH']}"
        there = {"SLURM_JOB_NODELIST": "n1", "SLURM_SUBMIT_DIR": str(tmp_path)}
        env, told = {"PATH": path, **there, **job}, 'echo "$$" >pid; exec bash job "$@"'
        env.update(GIVEN="a\nb", SBATCH_PARTITION="other")
        argv = ["bash", "-c", told, "bash", *words]
        return subprocess.run(argv, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True)

    assert run(SLURM_JOB_ID="7").returncode == -SIGKILL
    if chain:
        sent = (tmp_path / "sent").read_text().split("\0")  # the environment of the submission
        assert "GIVEN=a\nb" in sent and not [one for one in sent if re.match("SLURM|SBATCH", one)]
        second = run("neuronctl-", "7", "7", SLURM_JOB_ID="9")
    else:
        second = run(SLURM_JOB_ID="7", SLURM_RESTART_COUNT="1")
    said = "the program ended with 0 in run 1: no other run begins\n"
    assert (second.returncode, second.stdout) == (0, said)
    assert (tmp_path / "ran").read_text() == "ran\n"


def test_a_run_that_cannot_be_noted_waits_for_room_and_then_ends_the_chain(tmp_path: Path) -> None:
    """It would begin run after run otherwise, without end; room that comes back is noticed."""
    script = render_job(plan_of(until_done=True, requeue=False))
    stubs = "squeue() { :; }; sacct() { :; }; submit_next() { note next 9; }; sleep() { :; }\n"
    stubs += 'end_run() { echo "another run"; }\n'
    names = ("begin_run", "last_of", "is_next", "is_avoided", "avoided", "progress", "may_go_on")
    text = functions_of(script, *names)
    shell = f'{text}\n{stubs}note() {{ [ "$1" = next ] || ((tries < ROOM)); }}\nbegin_run; wait'
    env = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1"}
    for room, code in ((15, 0), (0, 1)):
        argv = ["bash", "-c", shell.replace("ROOM", str(room))]
        ran = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert ran.returncode == code, ran
        assert ("cannot be written" in ran.stderr) == bool(code)
        assert "another run" not in ran.stdout or not code


class Made:
    """A script of --until-done that runs here, between commands that note how they were called."""

    def __init__(self, place: Path, prog: str, **more: Any) -> None:
        self.place = place
        self.script = render_job(plan_of(until_done=True, script="prog", launcher="python", **more))
        note = '#!/bin/sh\necho "${0##*/} $*" >>calls\n'
        made = dict.fromkeys(("squeue", "sacct", "sinfo"), note)
        made["sbatch"] = note + "echo 9\n"
        made["scontrol"] = note + "[ $2 != hostnames ] || echo n1\n"
        made["scancel"] = f"{note}[ ! -s pid ] || kill -TERM $(cat pid)\n"
        made["hostname"] = "#!/bin/sh\necho n1\n"
        made["squeue"] += "case $* in *%T*) echo RUNNING;; esac\n"
        made["sleep"] = "#!/bin/sh\nexec /bin/sleep 0.1\n"
        for name, text in {**made, **({"prog": prog} if prog else {}), "job": self.script}.items():
            (place / name).write_text(text)
            (place / name).chmod(0o755)

    def run(self, **job: str) -> int:
        there = {"SLURM_JOB_NODELIST": "n1", "SLURM_SUBMIT_DIR": str(self.place)}
        env = {"PATH": f"{self.place}:/usr/bin:/bin", "SLURM_JOB_ID": "7", **there, **job}
        argv = ["bash", "-c", 'echo "$$" >pid; exec bash job >>log 2>&1']
        return subprocess.run(argv, cwd=self.place, env=env, check=False).returncode

    def lines(self, name: str) -> List[List[str]]:
        (path,) = self.place.glob(name)
        return [line.split() for line in path.read_text().splitlines()]

    def noted(self, word: str) -> List[List[str]]:
        return [words for words in self.lines("*.runs") if words[1] == word]


@pytest.mark.parametrize("chain", [False, True])
def test_what_no_run_would_find_ends_it_at_once(chain: bool, tmp_path: Path) -> None:
    """A program that is missing on all nodes: the preflight says so, and no retry is of use."""
    more = {"requeue": False} if chain else {}
    made = Made(tmp_path, "", **more)
    assert made.run() == 1
    assert [words[4] for words in made.noted("end")] == ["failed"]
    assert " ".join(made.noted("over")[0]).endswith(
        "missing on its nodes, and would be in each run"
    )
    assert "no other run follows: what it needs is missing" in (tmp_path / "log").read_text()
    assert not [words for words in made.lines("calls") if "requeue" in words]


@pytest.mark.parametrize("nodes", ["n1", "n1\\nn2"])
def test_what_is_missing_on_a_node_alone_is_a_failure_of_the_node(
    nodes: str, tmp_path: Path
) -> None:
    """Where an earlier run had it, or another node has it: another run may have it, too."""
    made = Made(tmp_path, "")
    (path,) = re.findall(r"runs_file=\$PWD/(\S*)\$SLURM_JOB_ID", made.script)
    lines = "1 begin 1000 n1 a 0 0 7\n1 asked 1100 TERM\n1 end 1101 1 saved moved 101\n"
    lines = lines if nodes == "n1" else "1 begin 1000 n1 a 0 0 7\n1 end 1001 - preempted still 1\n"
    (tmp_path / f"{path}7.runs").write_text(lines)
    (tmp_path / "scontrol").write_text(
        f"#!/bin/sh\n[ $2 != hostnames ] || printf '{nodes}\\n'\n"
        '[ "$1" != requeue ] || { echo asked >requeued; kill -KILL $(cat pid); }\n'
    )
    made.run(SLURM_RESTART_COUNT="1")
    assert [words[4] for words in made.noted("end")][1:] == ["node"]
    assert (tmp_path / "requeued").exists()


@pytest.mark.parametrize("chain", [False, True])
def test_an_end_is_noted_once(chain: bool, tmp_path: Path) -> None:
    made = Made(tmp_path, "#!/bin/sh\nexit 0\n", **({"requeue": False} if chain else {}))
    assert made.run() == 0
    assert len(made.noted("finished")) == len(made.noted("end")) == 1


@pytest.mark.parametrize("chain", [False, True])
def test_what_is_cancelled_ends_as_cancelled(chain: bool, tmp_path: Path) -> None:
    """Also a run that saves just between the note of ``neuronctl cancel`` and its scancel."""
    prog = "#!/bin/sh\necho '- cancel 1000' >>$(echo *.runs)\nexit 75\n"
    made = Made(tmp_path, prog, **({"requeue": False} if chain else {}))
    assert made.run() == 75
    assert ["scancel", "7"] in made.lines("calls")
    assert not [words for words in made.lines("calls") if "requeue" in words]


def test_a_run_submits_the_next_one_before_all_else(tmp_path: Path) -> None:
    """What is killed before has no successor: slurmdbd, which may be slow, is asked later."""
    made = Made(tmp_path, "#!/bin/sh\n/bin/sleep 1\nexit 75\n", requeue=False)
    made.run()
    asked = [words[0] for words in made.lines("calls")]
    assert asked.index("sbatch") < asked.index("sacct")
    assert asked[: asked.index("sbatch")].count("squeue") <= 2
