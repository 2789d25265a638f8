"""Right scripts have no errors: our own, and those of the tutorials."""

from __future__ import annotations

from pathlib import Path
from typing import Set

import pytest

from neuronctl.catalog.loader import load
from neuronctl.submission.script_check import CheckedScript, check_text

SCRIPTS = Path(__file__).resolve().parents[1] / "golden" / "scripts"
OURS = sorted(
    path.name for path in SCRIPTS.glob("*.sh") if path.read_text(encoding="utf-8").startswith("#!")
)
CLUSTERS = sorted(load(None).clusters, key=len, reverse=True)

TRAIN_HVD = """\
#!/bin/sh
#SBATCH -J pytorch_horovod # job name
#SBATCH --time=24:00:00 # walltime
#SBATCH --comment=pytorch # application name
#SBATCH -p amd_a100nv_8 # partition name (queue or class)
#SBATCH --nodes=4 # the number of nodes
#SBATCH --ntasks-per-node=8 # number of tasks per node
#SBATCH --cpus-per-task=4 # number of cpus per task
#SBATCH -o %x_%j.out
#SBATCH -e %x_%j.err
#SBATCH --gres=gpu:8 # number of GPUs per node

module purge
module load gcc/10.2.0 cuda/11.4 cudampi/openmpi-4.1.1

srun python ./train_hvd.py
"""
COURSE = """\
#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gres=gpu:4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --time=06:00:00
#SBATCH --partition=dc-gpu
#SBATCH --account=course
export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"
source $HOME/course/$USER/sc_venv_template/activate.sh
export CUDA_VISIBLE_DEVICES=0,1,2,3
time srun python3 gpu_training.py
"""


def checked(text: str, cluster: str) -> CheckedScript:
    catalog = load(None)
    return check_text(
        "job.sh", text, catalog, catalog.clusters[cluster], ask_slurm=False, environment={}
    )


@pytest.mark.parametrize("name", OURS)
def test_our_own_scripts_are_clean(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    cluster = next(one for one in CLUSTERS if name.startswith(f"{one}-"))
    found = checked((SCRIPTS / name).read_text(encoding="utf-8"), cluster).findings
    assert [one.finding.message for one in found] == []


def test_the_tutorials_script_in_its_year_and_now() -> None:
    then = checked(TRAIN_HVD, "neuron-2022")
    assert {one.finding.code for one in then.findings} == {"NC626"}
    now = checked(TRAIN_HVD, "neuron")
    errors = [one for one in now.findings if one.finding.refuses]
    assert [(one.finding.code, one.place.line) for one in errors] == [("NC202", 4)]


def test_without_a_directive_the_options_are_on_a_command_line() -> None:
    text = "#!/bin/bash\nsrun -N2 python train.py\n"
    assert checked(text, "neuron").findings == ()
    catalog = load(None)
    submitted = check_text(
        *("job.sh", text, catalog, catalog.clusters["neuron"]),
        ask_slurm=False,
        environment={},
        command_line=[],
    )
    assert {one.finding.code for one in submitted.findings} >= {"NC101", "NC201"}


@pytest.mark.parametrize(
    ("directives", "line", "found"),
    [
        ("-o /no-such-file-system/%u/%j.out", "./x", set()),
        ("-o /tmp/no-such-directory/%j.out", "./x", {"NC411"}),
        ("--gres=gpu:0", "export CUDA_VISIBLE_DEVICES=0", set()),
        ("-J x", "export CUDA_VISIBLE_DEVICES=1", {"NC633"}),
        ("-J x", "export HF_TOKEN='<your-token-here>'", set()),
        ("-J x", "export HF_TOKEN=<your-token-here>", set()),
        ("-J x", "export WANDB_API_KEY=your_api_key_here", set()),
        ("-J x", "export HF_TOKEN=hf_xxxxxxxxxxxxxxxx", set()),
        ("-J x", "export WANDB_API_KEY=yours0123456789", {"NC640"}),
        ("-J x", "export HF_TOKEN=hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567", {"NC640"}),
    ],
)
def test_what_is_not_known_or_not_meant_is_not_reported(
    directives: str, line: str, found: Set[str]
) -> None:
    text = (
        "#!/bin/bash\n#SBATCH -p amd_a100nv_8 --gres=gpu:1\n"
        f'#SBATCH --comment="field=misc;appl=pytorch"\n#SBATCH {directives}\n{line}\n'
    )
    codes = {one.finding.code for one in checked(text, "neuron").findings}
    assert codes - {"NC122", "NC605"} == found


def test_a_courses_first_script_leaves_three_gpus_idle() -> None:
    (one,) = checked(COURSE, "jureca").findings
    assert (one.finding.code, one.place.line) == ("NC625", 12)
    assert "3 GPUs stay idle" in one.finding.message


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("python train.py", {"NC625"}),
        ("nvidia-smi -l 60 > use.log &\npython train.py", {"NC625"}),
        ("vllm serve m --tensor-parallel-size 4 &\npython ask.py\nkill %1", set()),
        ("singularity exec --nv a.sif serve &\npython ask.py", set()),
        ("python train.py --trainer.devices=4", set()),
        ("python train.py --num-gpus 4", set()),
        ("srun python -u train.py --n_gpu 4", set()),
        ("python train.py --device cuda", {"NC625"}),
    ],
)
def test_what_uses_several_gpus_by_itself_is_not_said_to_idle(body: str, found: Set[str]) -> None:
    text = (
        "#!/bin/bash\n#SBATCH -p amd_a100nv_8 -N 1 --gres=gpu:4\n"
        '#SBATCH --comment="field=misc;appl=pytorch"\n' + body + "\n"
    )
    assert {one.finding.code for one in checked(text, "neuron").findings} == found


@pytest.mark.parametrize(
    "body",
    [
        'srun bash -c "torchrun --nnodes $SLURM_NNODES --nproc_per_node 4 --rdzv_endpoint '
        '$HEAD:$PORT t.py --node \\$SLURM_NODEID"',
        "for i in 0 1 2 3; do CUDA_VISIBLE_DEVICES=$i python t.py & done\nwait",
        "srun -N1 -n1 ray start --head --block &\npython t.py",
        "srun -n1 -w $HEAD hostname -i\nsrun torchrun --nnodes=2 t.py",
        "RUN='srun -n 4'\n$RUN python t.py --rank $SLURM_PROCID",
        "cat > next.sh <<'EOF'\n#!/bin/bash\n#SBATCH -p elsewhere\nsrun -N9 x\nEOF\nsbatch next.sh",
        'if [ -n "$A" ]; then\n  mpirun -np 2 ./x\nelse\n  ./y\nfi',
        "echo $SLURM_PROCID $SLURM_NODEID\nmpirun -np 2 -x PATH ./x",
        "accelerate launch --config_file c.yaml t.py",
        "export HF_TOKEN=$(cat ~/token) WANDB_API_KEY=$KEY\nsrun ./x",
    ],
)
def test_what_may_be_meant_is_no_error(body: str) -> None:
    text = (
        "#!/bin/bash\n#SBATCH -p amd_a100nv_8 -N 2 --ntasks-per-node=1 --gres=gpu:4\n"
        '#SBATCH --comment="field=misc;appl=pytorch"\n' + body + "\n"
    )
    assert not checked(text, "neuron").has_errors
