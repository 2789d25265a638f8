"""As test_script_findings: the rules on directives, on lines of shell, and on variables."""

from __future__ import annotations

from typing import List

import pytest
from test_script_findings import (
    CORES,
    CPU,
    EACH,
    GPU,
    GPUS,
    NODES,
    TASKS,
    Row,
    found,
)

from neuronctl.catalog.model import Catalog
from neuronctl.submission.judged_script import judge_text

FOUND: List[Row] = [
    ("NC601", "-p gpu -N 1", "#SBATCH --gres=gpu=1@@\nsrun python train.py"),
    ("NC601", GPU, "#SBATCH --tiem=10@@\nsrun python train.py"),
    ("NC601", GPU, "#SBATCH —-time=10@@\nsrun python train.py"),
    ("NC601", GPU, "#SBATCH -J my job@@\nsrun python train.py"),
    ("NC601", GPU, "#SBATCH --time=2h@@\nsrun python train.py"),
    ("NC603", GPU, "cd /tmp\n#SBATCH --time=10@@\nsrun python train.py"),
    ("NC603", GPU, "A=1\n\n# words\n#SBATCH -J late@@\nsrun python train.py"),
    ("NC604", CPU, "SBATCH --gres=gpu:1@@\n./a"),
    ("NC604", GPU, "#BATCH --time=10@@\nsrun python train.py"),
    ("NC604", GPU, "#sbatch --time=10@@\nsrun python train.py"),
    ("NC604", GPU, "#SBACTH --time=10@@\nsrun python train.py"),
    ("NC604", GPU, "#SBATCG --time=10@@\nsrun python train.py"),
    ("NC605", GPU, "#SBATCH -t 10@@\n#SBATCH --time=20\nsrun python train.py"),
    ("NC605", GPU, "#SBATCH --job-name=a@@\n#SBATCH -J b\nsrun python train.py"),
    ("NC606", "--gres=gpu:1", "#SBATCH --partition=$P@@\nsrun python train.py"),
    ("NC606", "-p gpu -N 1", "#SBATCH --gpus-per-node=${X}@@\nsrun python train.py"),
    ("NC606", GPU, "#SBATCH -o logs/@@\nsrun python train.py"),
    ("NC606", GPU, "#SBATCH --error=~/x.err@@\nsrun python train.py"),
    ("NC606", GPU, "#SBATCH -e run-${SLURM_JOB_ID}.err@@\nsrun python train.py"),
    ("NC611", "-p gpu --gpus-per-node=1", "#SBATCH -N 3 -n 1@@\nsrun python train.py"),
    ("NC612", "-p cpu -N 1 -n 4", "#SBATCH --mem=8@@\nsrun ./x"),
    ("NC612", "-p cpu -N 1", "#SBATCH --mem-per-cpu=1@@\nsrun python train.py"),
    ("NC612", CPU, "#SBATCH --mem=48@@\nRscript a.R"),
    ("NC631", TASKS, "export RANK=$SLURM_PROCID@@\nsrun python t.py"),
    ("NC631", NODES, "srun python t.py --node=$SLURM_NODEID@@"),
    ("NC631", GPUS, 'srun bash -c "python t.py $SLURM_PROCID"@@'),
    ("NC631", EACH, "cat >r.sh <<E\ntorchrun --node_rank $SLURM_NODEID@@ t.py\nE\nsrun bash r.sh"),
    ("NC631", GPUS, "srun python t.py --local ${SLURM_LOCALID}@@"),
    ("NC632", GPU, "MASTER_PORT=12355 python t.py@@"),
    ("NC632", "-p gpu --gpus-per-node=1", "export MASTER_PORT=29400@@\npython t.py"),
    ("NC632", GPU, "torchrun --nproc_per_node=1 --master_port 29501 t.py@@"),
    ("NC632", GPU, "torchrun --nproc-per-node=1 --rdzv_endpoint=$HOST:29500 t.py@@"),
    ("NC632", GPU, "MASTER_PORT=1234@@\necho $MASTER_PORT\npython t.py --port $MASTER_PORT"),
    ("NC634", f"{CPU} -o /w/p/logs/%j", "cd /w/p\nmkdir -p logs@@\n./a"),
    ("NC634", GPU, "#SBATCH -o out/%j/log.txt@@\nmkdir -p out\nsrun python train.py"),
    ("NC657", GPU, "jupyter lab --ip=0.0.0.0 --NotebookApp.token=${USER}@@"),
    ("NC657", GPU, "python -m jupyter lab --ServerApp.token=''@@ --port 8888"),
    ("NC634", GPU, "#SBATCH -o out/%j.txt\nmkdir -p out@@\nsrun python train.py"),
    ("NC634", GPU, "#SBATCH -e /tmp/%u/x/%j.err\nmkdir -p /tmp/${USER}/x@@\nsrun python train.py"),
    ("NC634", GPU, "#SBATCH -o logs/%j.txt\nmkdir -p logs/a@@\nsrun python train.py"),
    ("NC637", f"{CPU} -c 4", "bwa mem -t 16 x y > z@@"),
    ("NC637", f"{GPU} -c 4", "make -j64@@"),
    ("NC637", CPU, "export OMP_NUM_THREADS=64@@\n./a"),
    ("NC637", CPU, "STAR --runThreadN 16 --genomeDir g@@"),
    ("NC637", "-p cpu -N 1 --ntasks-per-node=2", "python t.py --workers 24@@"),
    ("NC638", CPU, "conda init@@\n./a"),
    ("NC638", CPU, "python t.py\nsource v/bin/activate@@"),
    ("NC640", GPU, "export API_KEY=abcdefgh12345678@@\nsrun python train.py"),
    ("NC640", GPU, "wandb login 0123456789abcdef0123456789abcdef@@\nsrun python train.py"),
    ("NC642", "-p cpu -N 2 --ntasks-per-node=1", "MASTER_ADDR=127.0.0.1 srun python t.py@@"),
    ("NC642", NODES, "export MASTER_ADDR=127.0.0.1@@\nsrun python train.py"),
    ("NC642", NODES, "export MASTER_ADDR=$(hostname --ip-address)@@\nsrun python train.py"),
    ("NC642", NODES, "A=$(srun -n1 -N1 hostname -i)@@\nsrun python train.py --addr $A"),
    (
        "NC642",
        NODES,
        "A=$(scontrol show hostnames $SLURM_STEP_NODELIST | head -n 1)@@\nsrun ./x $A",
    ),
    ("NC642", EACH, "srun torchrun --nnodes=3 --rdzv_endpoint=localhost:$P t.py@@"),
    ("NC642", NODES, 'srun bash -c "MASTER_PORT=\\$(shuf -i 1-9 -n 1) python t.py"@@'),
    ("NC643", CPU, "python t.py ...@@"),
    ("NC643", CPU, "python t.py --lr=__LR__@@"),
    ("NC643", CPU, "DATA=CHANGE_ME@@\n./a $DATA"),
    ("NC643", CPU, "#SBATCH --account=....@@\n./a"),
    ("NC643", CPU, "cd /scratch/USERNAME/x@@\n./a"),
    ("NC645", GPU, "cd ${0%/*}@@\npython t.py"),
    ("NC645", GPU, 'source "$(dirname "$0")/env.sh"@@\npython t.py'),
    ("NC645", GPU, 'D="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"@@\npython $D/t.py'),
    ("NC646", GPU, "python t.py | tee log@@"),
    ("NC646", GPU, "python t.py | head -100@@"),
    ("NC646", GPU, "srun python train.py || true@@"),
    ("NC646", GPU, "zcat x | python t.py | gzip > y@@"),
    ("NC646", GPU, "python t.py\necho done\n# so\n# that\nexit $?@@"),
    ("NC649", CPU, "./a > log 2&>1@@"),
    ("NC649", CPU, "export $N=4@@\n./a"),
    ("NC649", CPU, '$root = "/x"@@\n./a $root'),
    ("NC649", CPU, "if [ $N=1 ]; then@@\n./a\nfi"),
    ("NC649", CPU, "for i in {1..$N}; do@@\n./a $i\ndone"),
    ("NC660", CPU, "#tmp=/x\n./a $tmp@@"),
    ("NC660", CPU, "cd $PBS_O_WORKDIR@@\n./a"),
    ("NC660", CPU, "mpirun -np $NSLOTS ./a@@"),
    ("NC660", CPU, "# x=1\npython t.py --out ${x}@@"),
    ("NC660", f"{CPU} --array=1-10", "./a $SGE_TASK_ID@@"),
]

FOUND += [
    ("NC101", "--gres=gpu:1", "#SBATCH --partition=gup@@\n./a"),
    ("NC121", "-p gpu -N 1", "#SBATCH --gres=gpu:9@@\nsrun -n9 ./x"),
    ("NC131", "-p gpu --gres=gpu:1 -N 1", "#SBATCH -c 64@@\n./x"),
    ("NC134", GPU, "#SBATCH --mem=900G@@\n./x"),
    ("NC141", GPU, "#SBATCH --time=9-0@@\n./x"),
    ("NC646", GPU, "srun python t.py\necho end\nexit 0@@"),
    ("NC646", GPU, "srun python t.py || true@@"),
    ("NC646", GPU, "set -o pipefail\nsrun python t.py\nexit 0@@"),
    ("NC646", GPU, "python t.py\necho done\nif [ $? -ne 0 ]; then@@\n  exit 1\nfi"),
]

RIGHT: List[Row] = [
    ("NC634", GPU, "#SBATCH -o /var/x.log\nmkdir -p /var/y\n./a"),
    ("NC646", GPU, "srun python t.py\nexit $?"),
    ("NC646", GPU, "set -eu\nsrun python t.py\nexit 0"),
    ("NC646", GPU, "srun python t.py\necho done"),
    ("NC601", CPU, "#SBATCH -A lab\n./a"),
    ("NC601", "-p gpu --gres=gpu:a100:1,nvme:2", "srun python train.py"),
    ("NC601", CPU, "#SBATCH -C a|b\n./a"),
    ("NC601", GPU, "#SBATCH --array=0-${N}\nsrun python train.py"),
    ("NC604", CPU, "SBATCHES=1\n./a"),
    ("NC604", GPU, "# SBATCH --time=10\n#SBATCH -t 20\nsrun python train.py"),
    ("NC604", CPU, "#--epochs=3\n./a"),
    ("NC604", GPU, "#sbatch --export=A=1 -J b train.sbatch\nsrun python train.py"),
    ("NC606", "-p gpu --gres=gpu:a100:1", "srun python train.py"),
    ("NC606", f"{GPU} -o logs/x", "srun python train.py"),
    ("NC612", "-p site -n 1", "#SBATCH --time=0-1\n./a"),
    ("NC612", "-p cpu -N 1 -n 64 --mem-per-cpu=1", "srun ./x"),
    ("NC612", CPU, "#SBATCH --mem=100\nRscript a.R"),
    ("NC612", f"{GPU} -t 5", "python train.py"),
    ("NC631", EACH, "R=$SLURM_NODEID\nR=2\nsrun python t.py $R"),
    ("NC631", EACH, "cat >r.sh <<'E'\npython t.py $SLURM_NODEID\nE\nsrun bash r.sh"),
    ("NC631", EACH, "R='$SLURM_NODEID'\nsrun bash -c \"torchrun --nnodes 3 --node_rank $R t.py\""),
    ("NC632", "-p gpu --gpus-per-node=1", "export MASTER_PORT=29400\ntorchrun t.py"),
    ("NC632", "-p other -N 2 --gpus-per-node=4", "MASTER_PORT=29500 srun python t.py"),
    ("NC632", GPU, "torchrun --standalone --master_port 29501 t.py"),
    ("NC632", GPU, "export MASTER_PORT=${MASTER_PORT:-29500}\npython t.py"),
    ("NC634", f"{CPU} -o out/logs/%j", "mkdir -p $ROOT/logs\n./a"),
    ("NC634", f"{CPU} -o /r/logs/x.log", 'W="${W:-/q}"\nmkdir -p "$W/logs"'),
    ("NC657", GPU, 'jupyter lab --ip=0.0.0.0 --ServerApp.token="$(cat ~/.token)"'),
    ("NC634", GPU, "#SBATCH -o %j.txt\nmkdir -p logs\nsrun python train.py"),
    ("NC634", GPU, "#SBATCH -o logs/%j.txt\nR=${R:-/x}\nmkdir -p $R/logs\npython t.py"),
    ("NC637", "-p cpu -N 1 -n 4", "srun ./flex_gnu_mpi"),
    ("NC637", f"{CPU} -c 4", "bwa mem -t 4 x y > z"),
    ("NC637", "-p cpu -N 1 -n 4", "cc -qopenmp a.c -o a\nsrun ./a"),
    ("NC637", CORES, "N=8\nbowtie2 -p $N -x i -U a"),
    ("NC638", CPU, ". v/bin/activate\npython t.py"),
    ("NC638", CPU, "conda init\nsource ~/.bashrc\n./a"),
    ("NC638", CPU, ". /x/conda.sh && conda activate e"),
    ("NC638", CPU, "conda env create -f e.yml\nsource env.sh"),
    ("NC640", GPU, "export HF_TOKEN=hf_xxx"),
    ("NC640", CPU, 'echo -e "for control, pwd=\\\\c";pwd\n./a'),
    ("NC640", GPU, "set -x\nset +x\nsource .env\npython t.py"),
    ("NC640", GPU, "WANDB_API_KEY=$1\npython t.py --token=$2"),
    ("NC642", "-p cpu -N 2 --ntasks-per-node=1", "MASTER_ADDR=localhost python t.py"),
    ("NC642", NODES, "export MASTER_ADDR=$(hostname)\nsrun bash -c 'x $SLURM_STEP_NODELIST'"),
    ("NC642", GPU, "A=$(hostname -i)\npython train.py --addr $A"),
    ("NC642", EACH, "srun torchrun --nnodes=3 --rdzv_endpoint=$H:$P t.py"),
    ("NC642", GPUS, 'srun bash -c "MASTER_PORT=$((9000 + RANDOM)) python t.py"'),
    ("NC642", EACH, "hosts=$SLURM_JOB_NODELIST\nm=$(scontrol show hostnames $hosts | head -n1)"),
    ("NC643", CPU, "python t.py .. ./..."),
    ("NC643", CPU, "DATA=$CHANGE_ME\n./a --todo"),
    ("NC643", CPU, "python t.py --name=__main__"),
    ("NC643", CPU, 'echo "please input your path"'),
    ("NC645", GPU, 'echo "usage: $0 FILE"\npython t.py'),
    ("NC645", GPU, 'if [ -z "$SLURM_JOB_ID" ]; then\n  cd "$(dirname "$0")"\nfi'),
    ("NC646", CPU, "srun ./a"),
    ("NC646", CPU, "bash a.sh"),
    ("NC646", CPU, "python t.py\nexit"),
    ("NC646", CPU, "srun ./a\ncp -r o /r"),
    ("NC649", CPU, "export N=4\n./a"),
    ("NC649", CPU, "./a > log 2>&1"),
    ("NC649", CPU, "[ $root = /x ] && ./a"),
    ("NC649", CPU, "A=(x y)\npython t.py $A"),
    ("NC660", CPU, "A=/x B=$A/y\n./a $B"),
    ("NC660", CPU, "python t.py $model $step"),
    ("NC660", CPU, 'FLAGS="--all"\n./a $FLAGS'),
    ("NC660", CPU, '#tmp="--tmp=/x"\n./a $tmp'),
]


@pytest.mark.parametrize(("code", "options", "commands"), FOUND)
def test_a_defect_is_found_on_its_line(
    code: str, options: str, commands: str, small: Catalog
) -> None:
    told = found(options, commands, small)
    line = f"\n#SBATCH {options}\n{commands}".partition("@@")[0].count("\n") + 1
    assert (code, line) in [each[:2] for each in told]
    assert {each[0] for each in told if each[2] == "error"} <= {code}


@pytest.mark.parametrize(("code", "options", "commands"), RIGHT)
def test_a_right_script_has_no_such_finding(
    code: str, options: str, commands: str, small: Catalog
) -> None:
    assert code not in {each[0] for each in found(options, commands, small)}


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("conda activate x\npython t.py", [3]),
        ("module load gcc/12 cuda\nconda activate x\npython t.py", [3, 4]),
        ("module load anaconda3\nconda activate x\npython t.py", [3]),
        ('eval "$(conda shell.bash hook)"\nconda activate x\npython t.py', []),
        ("source activate x\npython t.py", [3]),
        ("PATH=$HOME/conda/bin:$PATH\nsource activate x\npython t.py", []),
    ],
)
def test_conda_and_module_in_a_shell_that_is_no_login_shell(
    text: str, lines: List[int], small: Catalog
) -> None:
    script = f"#!/bin/bash\n#SBATCH {GPU}\n{text}\n"
    findings = judge_text("job.sh", script, small, small.clusters["small"]).findings
    assert [one.place.line for one in findings if one.finding.code == "NC638"] == lines


def test_a_dash_of_a_word_processor_in_the_first_line(small: Catalog) -> None:
    text = f"#!/bin/bash –l\n#SBATCH {GPU}\npython t.py\n"
    findings = judge_text("job.sh", text, small, small.clusters["small"]).findings
    assert ("NC615", 1) in [(one.finding.code, one.place.line) for one in findings]
