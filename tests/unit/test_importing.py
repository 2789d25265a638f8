"""``neuronctl import``: what a job file says of a script, and what it leaves to the person."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Dict, List, Optional, Tuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from neuronctl.catalog.loader import load
from neuronctl.catalog.model import Cluster
from neuronctl.common import yamlfile
from neuronctl.common.errors import JobFileError, UsageError
from neuronctl.common.yamlfile.writer import Entry, write
from neuronctl.importing.job_file_draft import JobFileDraft, draft_job_file
from neuronctl.planning import JobPlan, plan
from neuronctl.rendering.render import render_job
from neuronctl.request.job import build_request
from neuronctl.request.job_file import parse_job_file
from neuronctl.scripts.as_request import as_request
from neuronctl.scripts.header import read_header
from neuronctl.scripts.shell_text import read_shell
from neuronctl.scripts.statements import units, uses_arguments

SCRIPTS = Path(__file__).parents[1] / "scripts"
REFUSED = ("mila-unicode-dashes", "mila-variable-directive")
NAMES = sorted(path.stem for path in SCRIPTS.glob("*.sh") if path.stem not in REFUSED)


def cluster(name: str = "anywhere") -> Cluster:
    return load(str(SCRIPTS / "catalog.yaml")).cluster(name)


def imported(text: str, on: str = "anywhere", *, name: str = "job.sh") -> JobFileDraft:
    return draft_job_file(text, name, cluster(on))


def data(made: JobFileDraft) -> Dict[str, object]:
    """The content of the job file, with every value as it is typed there."""
    document = yamlfile.parse(made.text, "job.yaml", JobFileError)
    return {
        key: value if isinstance(value, bool) else document.raw.get((key,), value)
        for key, value in document.data.items()
    }


def script(shell: str, *directives: str) -> str:
    lines = ["#!/bin/bash", *(f"#SBATCH {one}" for one in ("-J x", "-p all", "-t 10", *directives))]
    return "\n".join([*lines, "", shell, ""])


def shell_keys(shell: str, *directives: str) -> Dict[str, object]:
    """The keys of the job file that are not about the allocation."""
    made = imported(script(shell, *directives))
    told = ("refers to the arguments", "for programs that read them")
    assert all(any(text in remark.message for text in told) for remark in made.remarks)
    kept = data(made)
    lines = str(kept.get("setup", "")).split("\n")
    if lines[0].startswith("unset SLURM_"):
        rest = "\n".join(lines[1:])
        kept = {**kept, "setup": rest} if rest else {k: v for k, v in kept.items() if k != "setup"}
    for key in ("job-name", "partition", "nodes", "ntasks-per-node", "cpus-per-task", "gres"):
        kept.pop(key, None)
    for key in ("time", "output"):
        kept.pop(key)
    return kept


def planned(made: JobFileDraft, on: str = "anywhere") -> JobPlan:
    return plan(build_request([parse_job_file(made.text, "job.yaml")]), cluster(on))


# ------------------------------------------------------------------ the 73 scripts


@pytest.mark.parametrize("name", NAMES)
def test_slurm_is_asked_for_the_same(name: str) -> None:
    text = (SCRIPTS / f"{name}.sh").read_text()
    on = re.findall(r"(?m)^cluster: (\S+)", (SCRIPTS / f"{name}.yaml").read_text())[0]
    made = imported(text, on, name=f"{name}.sh")
    script = render_job(planned(made, on))
    before, after = read_header(text), read_header(script)
    wanted, ours = (as_request(one, "x", cluster(on)) for one in (before, after))
    # What Slurm takes where a script says nothing.
    assert after.value("job-name") == before.value("job-name") or f"{name}.sh"
    default = "slurm-%A_%a.out" if wanted.array else "slurm-%j.out"
    assert ours.output == (wanted.output or default)
    assert ours.error == wanted.error
    assert ours.nodes == (wanted.nodes or 1) and ours.ntasks_per_node == wanted.ntasks_per_node
    assert ours.cpus_per_task == wanted.cpus_per_task
    typed = before.value("cpus-per-task")
    assert after.value("cpus-per-task") == typed or (typed is None and "srun --nodes" in script)
    for field in ("gpus_per_node", "gpu_type", "gres", "mem", "array", "signal", "requeue", "qos"):
        assert getattr(ours, field) == getattr(wanted, field), field
    for field in ("account", "comment", "constraint", "dependency", "nodelist", "mail_type"):
        assert getattr(ours, field) == getattr(wanted, field), field
    assert set(ours.sbatch) - {"open-mode=append"} == set(wanted.sbatch) - {"open-mode=append"}


def test_most_become_more_than_shell_text() -> None:
    kinds: List[str] = []
    for name in NAMES:
        made = imported((SCRIPTS / f"{name}.sh").read_text(), name=f"{name}.sh")
        keys = data(made)
        if "steps" in keys or "script" in keys:
            kinds.append("program")
        elif keys.keys() & {"module", "conda", "venv", "env"}:
            kinds.append("environment")
        else:
            kinds.append("text")
    assert len(kinds) == len(NAMES)
    assert kinds.count("program") >= 42
    assert kinds.count("text") <= 26


def test_our_own_scripts_come_back_as_shell_text_with_their_directives() -> None:
    for file in sorted((SCRIPTS / "made").glob("*.sh")):
        made = imported(file.read_text(), name=file.name)
        assert data(made).keys() & {"run", "script", "steps"}


# ----------------------------------------------------------------- the directives


def test_directives_become_keys() -> None:
    made = imported(
        "#!/bin/bash\n"
        "#SBATCH -J x -p all,other -A acct -N 2 --ntasks-per-node=3 -c 4  # a remark\n"
        "# about the memory\n"
        "#SBATCH --gres=gpu:v100:2,nvme:10 --mem 10G --exclusive -C fast -x n3 -w n[1-2]\n"
        "#SBATCH --time=1-0 --array=1-4%2 --signal=B:USR1@60 --no-requeue --nice=5 --hold\n"
        "#SBATCH --mail-type=END --mail-type=FAIL --mail-user=me@x.org -o o.%A.%a -e e -D /tmp\n"
        "./solver\n"
    )
    keys = data(made)
    assert {key: keys[key] for key in list(keys)[:22]} == {
        "job-name": "x",
        "partition": "all,other",
        "account": "acct",
        "nodes": "2",
        "ntasks-per-node": "3",
        "cpus-per-task": "4",
        "gres": "gpu:v100:2,nvme:10",
        "mem": "10G",
        "exclusive": True,
        "constraint": "fast",
        "nodelist": "n[1-2]",
        "exclude": "n3",
        "time": "1-0",
        "array": "1-4%2",
        "requeue": False,
        "signal": "B:USR1@60",
        "mail-type": "END,FAIL",
        "mail-user": "me@x.org",
        "chdir": "/tmp",
        "output": "o.%A.%a",
        "error": "e",
        "sbatch": ["nice=5", "hold"],
    }
    assert made.text.startswith("# From job.sh\n# about the memory\n"), made.text
    assert "# a remark" in made.text
    assert [remark for remark in made.remarks if remark.differs] == []


def test_what_the_script_leaves_to_slurm_stays_so() -> None:
    made = imported("#!/bin/bash\n#SBATCH -p all --gres=gpu:2\npython train.py\n")
    assert data(made)["cpus-per-task"] == "0"
    options = {one.option: one.value for one in planned(made).directives}
    assert (
        options
        == {
            "job-name": "job.sh",
            "partition": "all",
            "nodes": "1",
            "ntasks-per-node": "1",
            "gpus-per-node": "2",
            "output": "slurm-%j.out",
        }
        or options["gres"] == "gpu:2"
    )
    assert "cpus-per-task" not in options and "time" not in options


def test_a_range_of_nodes() -> None:
    made = imported(script("srun --cpus-per-task=2 hostname", "-N 2-4", "-c 2"))
    assert data(made)["nodes"] == "2-4"
    assert (planned(made).nodes, planned(made).most_nodes) == (2, 4)
    assert [remark for remark in made.remarks if remark.differs] == []


@pytest.mark.parametrize(
    ("directive", "line", "message"),
    [
        ("-n 10", 5, "--ntasks=10 without --nodes"),
        ("-N 4 -n 10", 5, "--ntasks=10: the job file requests 4 nodes with 3 tasks on each"),
        ("-G 4", 5, "--gpus=4: the job file requests 1 node with 4 GPUs on each"),
        ("-N 1-2 -G 4", 5, "--gpus=4: the job file requests 1 node with 4 GPUs on each"),
        ("-N 2 -G 4 --gpus-per-node=1", 5, "--gpus=4: the job file requests 2 nodes with 1 GPU on"),
        ("-N 2-4 -n 8", 5, "--nodes=2-4 with --ntasks=8"),
        ("--gpus=2 --ntasks-per-gpu=1", 5, "--ntasks-per-gpu=1: a job file cannot say this"),
        ("--test-only", 5, "--test-only: a job file cannot say this"),
        ("--gpus-per-task=1 -n 1", 5, "--gpus-per-task=1: a job file cannot say this"),
        ("--gres=gres:gpu:1", 5, "Slurm 24.11 refuses 'gres:' before a resource"),
        ("--dependency=nonsense", 5, "--dependency is not carried over: 'nonsense'"),
        ("--gres=gpu:a100:1,gpu:v100:1", 5, "--gres=gpu:a100:1,gpu:v100:1 is not carried over"),
        ("--nice=5 --uid=root --clusters=x", 5, "--clusters=x: a job file cannot say this"),
        ("-J y trailing", 5, ""),
    ],
)
def test_what_a_job_file_cannot_say(directive: str, line: int, message: str) -> None:
    if not message:
        with pytest.raises(UsageError, match=r"job.sh:5: sbatch refuses this script"):
            imported(script("date", directive))
        return
    made = imported(script("date", directive))
    said = [one for one in made.remarks if message in one.message]
    assert [one.line for one in said] == [line], made.remarks
    planned(made)


def test_directives_that_sbatch_does_not_read_are_left_out_and_told() -> None:
    made = imported(script("date\n#SBATCH --mem=5G\ncat <<E\n#SBATCH -p other\nE"))
    assert [(one.line, one.message) for one in made.remarks] == [
        (7, "'#SBATCH --mem=5G' has no effect (after the first command): not carried over")
    ]
    assert "--mem" not in made.text
    assert "#SBATCH -p other" in made.text


def test_cores_per_gpu_become_cores_per_task() -> None:
    made = imported(script("date", "--gres=gpu:2 --cpus-per-gpu=8"))
    assert data(made)["cpus-per-task"] == "16"
    assert [remark for remark in made.remarks if remark.differs] == []


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#!/bin/csh\n#SBATCH -p all\ndate\n", "job.sh:1: a script for csh"),
        ("#!/usr/bin/env python3\n#SBATCH -p all\nprint()\n", "job.sh:1: a script for python3"),
        (
            "#!/bin/bash\n#SBATCH -p a\n#SBATCH hetjob\n#SBATCH -p b\n",
            "job.sh:3: a heterogeneous job of 2",
        ),
        ("#!/bin/bash\r\n#SBATCH -p a\r\ndate\r\n", "job.sh:1: sbatch refuses this script"),
        ("date\n", "job.sh:1: sbatch refuses this script"),
        ("", "job.sh:1: sbatch refuses this script"),
        ("#!/bin/bash\ndate\nprintf '\x1b[1m'\n", "job.sh:3: cannot be imported"),
        ("#!/bin/bash\ndate\necho \udcff\n", "job.sh:3: cannot be imported"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        imported(text)
    assert message in caught.value.message
    assert caught.value.hint


def test_a_path_of_several_variables_is_carried_over_whole() -> None:
    shell = "export PYTHONPATH=$PYTHONPATH:$HOME/a\npython train.py --out $HOME/$USER/x"
    keys = shell_keys(shell)
    assert keys["env"] == {"PYTHONPATH": "$PYTHONPATH:$HOME/a"}
    assert keys["args"] == ["--out", "$HOME/$USER/x"]


@pytest.mark.parametrize(
    ("shell", "said"),
    [
        ("exec 1000<>fifo\necho a >&1000", []),  # the grammar does not know it, and bash does
        ("echo a\nif true; then\n  ./x", ["bash says: syntax error"]),
    ],
)
def test_bash_is_asked_what_it_cannot_read(shell: str, said: List[str]) -> None:
    made = imported(script(shell))
    assert [": ".join(one.message.split(": ")[:2]) for one in made.remarks] == said
    assert shell.split("\n")[0] in made.text


def test_an_option_of_a_plugin_is_carried_over() -> None:
    made = imported(script("./x", "--image=docker:a/b"))
    assert "image=docker:a/b" in made.text and made.remarks == ()
    assert "#SBATCH --image=docker:a/b" in render_job(planned(made))


def test_what_only_is_called_a_key_is_no_secret() -> None:
    line = "x --auth-none=0 --bucket-key=group"
    assert line in str(shell_keys(f"for i in 1 2; do\n  {line}\ndone")["run"])


@pytest.mark.parametrize(
    "line",
    [
        "max_token_len=$(( 512 * 4 ))",
        "# token: from the environment, see HF_TOKEN",
        "cat > a.py <<END\ntoken=os.getenv('HF')\nEND",
        "num_key_heads=4",
    ],
)
def test_what_tells_nothing_is_carried_over(line: str) -> None:
    made = imported(script(f"{line}\nfor i in 1 2; do ./x; done"))
    assert line.partition("\n")[0] in made.text and "***" not in made.text


def test_a_variable_that_sbatch_sets_by_another_option() -> None:
    text = script("torchrun --nproc_per_node=$SLURM_GPUS_PER_NODE t.py", "--gpus-per-node=a100:4")
    made = imported(text)
    assert "export SLURM_GPUS_PER_NODE=a100:4" in render_job(planned(made))
    lumi = draft_job_file(text.replace("all", "small-g"), "job.sh", cluster("lumi"))
    assert "export SLURM_GPUS_PER_NODE" not in lumi.text
    other = draft_job_file(script("./x", "--gres=gpu:4"), "job.sh", cluster("lumi"))
    assert "unset SLURM_GPUS_PER_NODE" in other.text


@pytest.mark.parametrize(
    ("directives", "command", "first"),
    [
        ("--gpus-per-node=4", "./x", "export SLURM_GPUS_PER_NODE=4"),
        ("-N 1 --gpus=2", "./x", "export SLURM_GPUS=2"),
        ("--gres=gpu:1", "./x", None),
        ("-n 2 -N 1", "./x", "unset SLURM_NTASKS_PER_NODE"),
        ("-N 2 -c 4", "python x.py", "unset SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE"),
        ("-N 2 -c 4 -n 4 --gres=gpu:2", "srun ./x", None),
        ("-N 2 --ntasks-per-node=2", "hostname; ./x", None),
    ],
)
def test_slurms_variables_are_those_of_the_script(
    directives: str, command: str, first: Optional[str]
) -> None:
    made = imported(script(command, directives))
    keys = data(made)
    begins = str(keys.get("setup") or keys.get("run", "")).partition("\n")[0]
    assert (begins if begins.startswith(("export", "unset")) else None) == first


def test_tasks_that_nobody_asked_for_are_left_to_slurm() -> None:
    """Slurm sets SLURM_NTASKS for a job with tasks, and Lightning then expects srun."""
    for directive, found in (("-c 4", False), ("-n 1", True), ("--ntasks-per-node=1", True)):
        made = render_job(planned(imported(script("python x.py", directive))))
        assert ("--ntasks-per-node=1" in made) is found


def test_variables_that_neuronctl_adds_are_told() -> None:
    (told,) = imported(script("srun python x.py", "-N 2 --ntasks-per-node=2 -c 4")).remarks
    assert "RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT" in told.message
    own = "export MASTER_ADDR=$(hostname) MASTER_PORT=2345 RANK= LOCAL_RANK= WORLD_SIZE=4"
    assert not imported(script(f"{own}\nsrun python x.py", "-N 2 --ntasks-per-node=2 -c 4")).remarks


@pytest.mark.parametrize("indexes", ["1,3-5", "[1,3-5]", "[1,3-5]%2", "[1,3-5%2]"])
def test_an_array_in_brackets(indexes: str) -> None:
    """sbatch takes all of them."""
    made = imported(script("./x", f"--array={indexes}"))
    limit = "%2" if "%" in indexes else ""
    assert data(made)["array"] == f"1,3-5{limit}" and not made.remarks


def test_the_model_of_gpus_per_task_stays() -> None:
    made = imported(script("srun ./x", "--ntasks-per-node=2", "--gpus-per-task=v100:1"))
    assert "#SBATCH --gres=gpu:v100:2" in render_job(planned(made))


def test_what_nothing_uses_any_more_is_told() -> None:
    lines = """\
    nodes=( $(scontrol show hostnames $SLURM_JOB_NODELIST) )
    head=${nodes[0]}
    port=$((10000 + SLURM_JOB_ID % 20000))
    data=/x
    unused=1
    srun torchrun --nnodes 2 --nproc_per_node 4 --rdzv_id 1 --rdzv_backend c10d
    """
    lines = "\n".join(line.strip() for line in lines.splitlines()).strip()
    lines += " --rdzv_endpoint $head:$port t.py --data $data"
    made = imported(script(lines, "-N 2", "--ntasks-per-node=1", "--gres=gpu:4", "-c 16"))
    assert data(made)["launcher"] == "torchrun"
    told = [one.message for one in made.remarks if "any more" in one.message]
    assert told == [f"nothing uses {name} any more" for name in ("nodes", "head", "port")]


# -------------------------------------------------------------- software, variables


def test_modules_conda_variables_and_the_program() -> None:
    assert shell_keys(
        "module purge\nmodule load gcc/11 cuda/12\nmodule load conda\n"
        'eval "$(conda shell.bash hook)"\nconda activate llm\n'
        "export A=1 B='x y'\nexport HF_HOME=/scratch/$USER/hf\n"
        "echo $A\npython train.py --lr 0.10 'a b'\n"
    ) == {
        "module": ["gcc/11", "cuda/12", "conda"],
        "conda": "llm",
        "env": {"A": 1, "B": "x y", "HF_HOME": "/scratch/$USER/hf"},
        "setup": "echo $A",
        "expand": True,
        "script": "train.py",
        "args": ["--lr", 0.1, "a b"],
    }


@pytest.mark.parametrize(
    ("shell", "keys"),
    [
        ("ml gcc", {"module": ["gcc"]}),
        ("source env/bin/activate", {"venv": "env"}),
        (". $HOME/env/bin/activate", {"venv": "~/env"}),
        ("source activate /x/envs/a", {"conda": "/x/envs/a"}),
        # Not in neuronctl's order: it stays as it is.
        ("module use /x\nmodule load a", {"setup": "module use /x\nmodule load a\n"}),
        ("source activate a\nmodule load b", {"setup": "source activate a\nmodule load b\n"}),
        ("module load b\nmodule purge", {"setup": "module load b\nmodule purge\n"}),
        ("module load $M", {"setup": "module load $M"}),
        ("module load -s a", {"setup": "module load -s a"}),
        ("conda activate ~/x", {"setup": "conda activate ~/x"}),
        # What neuronctl sets later would overwrite this.
        ("export MASTER_PORT=1\nmodule load a",
         {"env": {"MASTER_PORT": 1}, "setup": "module load a"}),
        ("export A=~/x", {"setup": "export A=~/x"}),
        ("export A=$(date)", {"setup": "export A=$(date)\n"}),
        ("export A=1\nexport A=2", {"env": {"A": 1}, "setup": "export A=2"}),
        ("set -u\nexport A=$X", {"setup": "set -u\nexport A=$X\n"}),
        ("export A='5$'", {"env": {"A": "5$"}}),
        ("cd /x || exit 1", {"setup": "cd /x || exit 1\n"}),
        ("A=1", {"setup": "A=1"}),
    ],
)  # fmt: skip
def test_what_comes_before_the_program(shell: str, keys: Dict[str, object]) -> None:
    assert shell_keys(f"{shell}\n./solver") == {**keys, "script": "./solver"}


def test_comments_stay() -> None:
    made = imported(script(
        "# the software\nmodule load a  # and why\n\n# variables\nexport A=1\n\n"
        "# what it is about\n./solver  # done\n# the end"
    ))  # fmt: skip
    lines = made.text.split("\n")
    for one in ("the software", "and why", "variables", "what it is about", "done", "the end"):
        assert f"# {one}" in lines
    assert lines[lines.index("# variables") + 1] == "env:"


def test_a_login_shell_and_its_options() -> None:
    text = "#!/bin/bash -le\n#SBATCH -p all -t 5\nexport A=1\n./solver\n"
    keys = data(imported(text))
    assert str(keys["setup"]).startswith("# The script began with a login shell.\n[ ! -r")
    assert str(keys["setup"]).endswith("set -e\n")
    assert keys["script"] == "./solver"


# --------------------------------------------------------------------- the launch


@pytest.mark.parametrize(
    ("command", "directives", "keys"),
    [
        ("python train.py", "--gres=gpu:2 -c 4", {"launcher": "none", "script": "train.py"}),
        ("python -u train.py a", "--gres=gpu:1",
         {"script": "python", "args": ["-u", "train.py", "a"]}),
        ("./train.py", "", {"run": "./train.py\n"}),
        ('python train.py "$1"', "", {"run": 'python train.py "$1"\n'}),
        ("D=/x/$USER\npython train.py $D", "",
         {"setup": "D=/x/$USER", "expand": True, "script": "train.py", "args": ["$D"]}),
        ('python train.py "$SLURM_JOB_ID" $SLURM_ARRAY_TASK_ID', "",
         {"expand": True, "script": "train.py", "args": ["$SLURM_JOB_ID", "$SLURM_ARRAY_TASK_ID"]}),
        ("python train.py '$5' \"$A\"b", "",
         {"expand": True, "script": "train.py", "args": ["$$5", "${A}b"]}),
        ("python train.py $A", "", {"run": "python train.py $A\n"}),
        ("python train.py *.txt", "", {"run": "python train.py *.txt\n"}),
        ("python train.py > log", "", {"run": "python train.py > log\n"}),
        ("A=1 python train.py", "", {"run": "A=1 python train.py\n"}),
        ("bash run.sh a", "-N 2", {"script": "bash", "args": ["run.sh", "a"]}),
        ("srun python train.py --x", "-N 2 --ntasks-per-node=2 --gres=gpu:2 -c 4",
         {"launcher": "srun", "script": "train.py", "args": ["--x"]}),
        # Fewer than the allocation has: it stays what it is, started once.
        ("srun -n 1 ./a", "-N 2", {"script": "srun", "args": ["-n", 1, "./a"]}),
        ("srun -N $SLURM_NNODES -n 4 -l --mpi pmix ./a", "-N 2 --ntasks-per-node=2",
         {"launcher": "srun", "launcher-option": ["-l", "--mpi=pmix"], "script": "./a"}),
        # Cores that are left to Slurm are no number for neuronctl's srun.
        ("srun ./a", "--gres=gpu:1", {"script": "srun", "args": ["./a"]}),
        ("torchrun --standalone --nproc_per_node=2 --tee 3 train.py", "--gres=gpu:2 -c 4",
         {"launcher": "torchrun", "launcher-option": ["--tee=3"], "script": "train.py"}),
        ("torchrun --nproc_per_node=2 --use_env train.py", "--gres=gpu:2 -c 4",
         {"launcher": "torchrun", "launcher-option": ["--use_env"], "script": "train.py"}),
        ("accelerate launch --num_processes 2 --quiet t.py", "--gres=gpu:2 -c 4",
         {"launcher": "accelerate", "launcher-option": ["--quiet"], "script": "t.py"}),
        ("torchrun --nproc_per_node=1 train.py", "--gres=gpu:2 -c 4",
         {"script": "torchrun", "args": ["--nproc_per_node=1", "train.py"]}),
        ("torchrun --nproc_per_node=2 train.py", "--gres=gpu:2 -c 4 --ntasks-per-node=2",
         {"script": "torchrun", "args": ["--nproc_per_node=2", "train.py"]}),
        ("srun torchrun --nnodes=2 --rdzv_endpoint=$(hostname):1 t.py", "-N 2 --ntasks-per-node=1",
         {"run": "srun torchrun --nnodes=2 --rdzv_endpoint=$(hostname):1 t.py\n"}),
        ("srun torchrun --nnodes $SLURM_NNODES --nproc_per_node gpu --rdzv_endpoint $H:$P t.py",
         "-N 2 --gres=gpu:2 -c 4", {"launcher": "torchrun", "script": "t.py"}),
        # Without a meeting point, each node would train alone.
        ("srun torchrun --nnodes=2 --nproc_per_node=2 t.py", "-N 2 --gres=gpu:2 -c 4",
         {"launcher": "srun", "script": "torchrun",
          "args": ["--nnodes=2", "--nproc_per_node=2", "t.py"]}),
        ("srun bash -c 'torchrun --nnodes=2 --node_rank=$SLURM_NODEID --nproc_per_node=2 "
         "--master_addr=$MASTER_ADDR --master_port=29500 -m pkg.train a'", "-N 2 --gres=gpu:2 -c 4",
         {"launcher": "torchrun", "script": "python", "args": ["-m", "pkg.train", "a"]}),
        ("accelerate launch --num_processes 2 --multi_gpu --mixed_precision bf16 t.py",
         "--gres=gpu:2 -c 4", {"launcher": "accelerate",
          "launcher-option": ["--mixed_precision=bf16"], "script": "t.py"}),
        ("accelerate launch --num_processes 1 t.py", "--gres=gpu:2 -c 4",
         {"script": "accelerate", "args": ["launch", "--num_processes", 1, "t.py"]}),
        ("deepspeed --num_gpus=2 t.py --deepspeed ds.json", "--gres=gpu:2 -c 4",
         {"launcher": "deepspeed", "script": "t.py", "args": ["--deepspeed", "ds.json"]}),
        # mpirun binds its processes; neuronctl's does not, unless it is told how.
        ("mpirun -np 4 ./a", "-n 4 -N 1", {"script": "mpirun", "args": ["-np", 4, "./a"]}),
        ("mpirun -np 4 --bind-to core ./a", "-n 4 -N 1",
         {"launcher": "mpirun", "launcher-option": ["--bind-to", "core"], "script": "./a"}),
        ("mpirun -np 2 --bind-to core ./a", "-n 4 -N 1",
         {"script": "mpirun", "args": ["-np", 2, "--bind-to", "core", "./a"]}),
        ("singularity exec --nv -B a:/b,c img.sif python t.py", "--gres=gpu:1 -c 2",
         {"container": "./img.sif", "bind": ["a:/b,c"], "script": "t.py"}),
        # neuronctl would hand the GPUs in.
        ("singularity exec img.sif ./a", "--gres=gpu:1",
         {"script": "singularity", "args": ["exec", "img.sif", "./a"]}),
        ("singularity exec --pwd /x img.sif ./a", "",
         {"script": "singularity", "args": ["exec", "--pwd", "/x", "img.sif", "./a"]}),
        ("apptainer exec -e --writable-tmpfs /i/img.sif ./a", "",
         {"container": "/i/img.sif", "container-runtime": "apptainer",
          "container-option": ["-e", "--writable-tmpfs"], "script": "./a"}),
        ("trap 'echo x' USR1\npython t.py", "--signal=B:USR1@60",
         {"signal": "B:USR1@60", "run": "trap 'echo x' USR1\npython t.py\n"}),
        ("f() { ./a; }\nf", "", {"run": "f() { ./a; }\nf\n"}),
        ("python a.py &\nwait", "", {"run": "python a.py &\nwait\n"}),
        ("", "", {"run": ":\n"}),
    ],
)  # fmt: skip
def test_the_program(command: str, directives: str, keys: Dict[str, object]) -> None:
    assert shell_keys(command, *filter(None, [directives])) == keys


def test_steps() -> None:
    shell = "date\npython a.py\n# the training\nsrun ./b\necho done"
    program = {"script": "a.py", "allow-failure": True}
    wanted: List[Dict[str, object]] = [
        program,
        {"launcher": "srun", "script": "./b", "allow-failure": True},
        {"run": "echo done\n"},
    ]
    assert shell_keys(shell) == {"setup": "date", "steps": wanted}
    for one in wanted:
        one.pop("allow-failure", None)
    assert shell_keys("set -e\n" + shell) == {"setup": "set -e\ndate\n", "steps": wanted}
    assert "  # the training\n  - launcher: srun\n" in imported(script(shell)).text


@pytest.mark.parametrize(
    "shell",
    [
        "set -e\n./a\nX=1\n./b",  # a variable that the next step would not have
        "set -e\n./a\ncd x\n./b",
        "set -e\n./a\nset +e\n./b",
        "set -e\n./a || true\n./b",
        "set -e\n./a &\n./b",
        "set -e\nfor i in 1 2; do ./a; done\n./b",
        "./a\necho $?\nsrun ./b",
        "./a\n./b",  # nothing is gained
        "set -e\nset +e\n./a\n./b",
    ],
)
def test_what_are_no_steps(shell: str) -> None:
    assert shell_keys(shell) == {"run": shell + "\n"}


def test_what_needs_no_number_of_cores_gets_none() -> None:
    left = imported(script("export N=${SLURM_CPUS_PER_TASK:-4}\n./a"))
    assert data(left)["cpus-per-task"] == "0"
    by_srun = imported(script("srun ./a"))
    assert "cpus-per-task" not in data(by_srun)


def test_arguments_of_the_script_are_told() -> None:
    made = imported(script('f() { echo "$1"; }\npython train.py --lr "$1" | tee x'))
    assert [one.line for one in made.remarks] == [7]
    assert uses_arguments('f() { echo "$1"; }') is None
    assert uses_arguments("set -- a\necho $1") is None
    assert uses_arguments("awk '{ print $1 }' x") is None


# --------------------------------------------------------------------------- YAML


def test_a_name_cannot_break_the_file() -> None:
    made = imported("#!/bin/bash\ndate\n", name="a\nrun: rm -rf x\x1b.sh")
    assert made.text.split("\n")[0] == "# From a?run: rm -rf x?.sh"


@settings(max_examples=300, deadline=None)
@given(text=st.text(min_size=1), others=st.lists(st.text(), max_size=3))
@example(text=" a\nb\n", others=["", "- ", "-", "a: b", "# x", "\x85", "\u2028", "'", '"', "null"])
@example(
    text="\n\n",
    others=[
        "010",
        "1.10",
        "~",
        "true",
        "[",
        "a,b",
        "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
    ],
)
@example(text="\tx\n", others=["\ufeff", "\x7f", "\t"])
def test_yaml_is_read_back_as_it_was(text: str, others: List[str]) -> None:
    entries = [Entry("one", text, ("remark\n: x",), "behind"), Entry("many", others)]
    entries += [
        Entry("steps", [{"": ["x"], "run": text, "args": others}]),
        Entry("env", {"A": text}),
    ]
    made = write(entries, above=["top"])
    document = yamlfile.parse(made, "x.yaml", JobFileError)

    def typed(path: Tuple[str, ...], value: object) -> object:
        return document.raw.get(path, value)

    found = document.data
    assert typed(("one",), found["one"]) == text
    assert [typed(("many", str(n)), one) for n, one in enumerate(found["many"])] == others
    step = found["steps"][0]
    assert typed(("steps", "0", "run"), step["run"]) == text
    assert [typed(("steps", "0", "args", str(n)), v) for n, v in enumerate(step["args"])] == others
    assert typed(("env", "A"), found["env"]["A"]) == text


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from(["cat <<E", "E", "a; b", "for i in 1; do", "done", "", "# x", "a \\"]))
)
def test_units_are_the_text(lines: List[str]) -> None:
    text = "\n".join(lines)
    assert "\n".join(one.text for one in units(text)) == text
    read_shell(text)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--gres=gpu:2 --gpus-per-node=1", "--gpus-per-node=1: the job file takes --gres=gpu:2"),
        ("--gpus=2 --gpus-per-node=v100:1", "Slurm refuses GPUs with a type beside GPUs without"),
        ("--gpus-per-node=1", ""),
    ],
)
def test_gpus_of_several_options(options: str, told: str) -> None:
    catalog = load(None)
    text = f"#!/bin/bash\n#SBATCH -p cas_v100nv_8 -N2 -t 5 {options}\ntrue\n"
    remarks = [
        one.message for one in draft_job_file(text, "job.sh", catalog.clusters["neuron"]).remarks
    ]
    said = [one for one in remarks if "GPUs with a type" in one or "which wins" in one]
    assert len(said) == bool(told)
    assert all(told in one for one in said)


@pytest.mark.parametrize("odd", [")", ")(", "a|", "a=(", "<", "'", "$(", "if ", "`", "{", "a;"])
def test_text_that_is_not_bash_takes_no_time(odd: str) -> None:
    """The grammar's time grows with the square of its length."""
    text = f"#!/bin/bash\n#SBATCH -p cpu\npython train.py\n{odd * 50_000}"
    before = time.process_time()
    made = imported(text[:50_000])
    assert time.process_time() - before < 20  # 2 s on a machine that does nothing else
    assert "python train.py" in made.text
    with pytest.raises(UsageError, match=r"more than 50,000 characters"):
        imported(text)
