"""Short scripts with a defect, and scripts that are right: what check finds in each.

A row has a code, the options of one directive, and the commands; ``@@`` ends the line of the
finding. More directives may begin the commands.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import List, Tuple

import pytest

from neuronctl.catalog.model import Catalog
from neuronctl.submission.judged_script import judge_text

CPU = "-p cpu -N 1 -n 1"
CORES = f"{CPU} -c 8"
ARRAY = f"{CPU} --array=0-9"
TASKS = "-p cpu -N 2 -n 8"
GPU = "-p gpu --gpus-per-node=1 -N 1"
FOUR = "-p gpu --gpus-per-node=4 -N 1"
GPUS = f"{FOUR} --ntasks-per-node=4"
NODES = "-p gpu --gpus-per-node=4 -N 2 --ntasks-per-node=4"
EACH = "-p gpu --gpus-per-node=4 -N 3 --ntasks-per-node=1"
INDEX = "$SLURM_ARRAY_TASK_ID"

Row = Tuple[str, str, str]

FOUND: List[Row] = [
    # NC621: a launcher within a launcher, and nodes that do not know of one another.
    ("NC621", GPUS, "srun torchrun --nproc_per_node=4 t.py@@"),
    ("NC621", GPUS, "srun bash -c 'cd x && torchrun --nproc_per_node=4 t.py'@@"),
    ("NC621", GPUS, "srun --ntasks-per-node=1 accelerate launch --num_processes 4 t.py@@"),
    ("NC621", GPUS, "srun mpirun -np 4 python t.py@@"),
    ("NC621", EACH, "srun deepspeed --hostfile hosts t.py@@"),
    ("NC621", GPUS, "srun singularity exec --nv x.sif torchrun --nproc_per_node=4 t.py@@"),
    ("NC621", GPUS, 'L="torchrun --nproc_per_node=4"\nsrun $L t.py@@'),
    ("NC621", GPUS, 'L="torchrun --nproc_per_node=4 t.py"\nsrun bash -c "$L"@@'),
    ("NC621", NODES, 'A=(torchrun --nproc_per_node 4)\nsrun "${A[@]}" t.py@@'),
    ("NC621", EACH, "srun torchrun --nproc_per_node=4 t.py@@"),
    ("NC621", EACH, "srun torchrun --nnodes=3 --nproc_per_node 4 t.py@@"),
    ("NC621", EACH, "srun torchrun --nnodes=$SLURM_NNODES --rdzv-backend=c10d t.py@@"),
    ("NC621", EACH, "srun torchrun --nnodes=3 --rdzv_endpoint=$H:$P t.py@@"),
    ("NC621", EACH, "srun torchrun --nproc_per_node 4 --rdzv_endpoint=$H:1 t.py@@"),
    ("NC621", EACH, "srun bash -c 'torchrun --nnodes=3 --node_rank=$SLURM_NODEID t.py'@@"),
    # NC622: steps that do not fit the job.
    ("NC622", GPU, "srun --container-image a.sqsh --container-mounts=/a:/b -N2 ./x@@"),
    ("NC622", GPU, "COUNT=3\nsrun --nodes $COUNT python t.py@@"),
    ("NC622", GPU, "torchrun --nnodes=2 --nproc_per_node=1 --rdzv_endpoint=$H:1 t.py@@"),
    ("NC622", GPU, "accelerate launch --num_machines 3 --num_processes 1 t.py@@"),
    ("NC622", EACH, "srun torchrun --nnodes=2 --nproc_per_node=4 --rdzv_endpoint=$H t.py@@"),
    ("NC622", EACH, "srun torchrun --nnodes=1 --nproc_per_node=4 t.py@@"),
    ("NC622", "-p cpu -N 1 -n 4", "srun -n 16 ./mpi@@"),
    ("NC622", "-p cpu -N 1 -n 8", "srun -n 8 -c 4 ./x@@"),
    ("NC622", "-p cpu -N 1 -n 2", "mpirun -n 6 ./x@@"),
    # NC623: processes and GPUs.
    ("NC623", FOUR, "accelerate launch --num_processes 1 t.py@@"),
    ("NC623", FOUR, "torchrun --nproc-per-node 8 t.py@@"),
    ("NC623", GPU, "N=2\ndeepspeed --num_gpus=$N t.py@@"),
    ("NC623", "-p gpu --gpus-per-node=2 -N 1", "horovodrun -np 4 -H localhost:4 python t.py@@"),
    ("NC623", GPUS, "srun -n1 torchrun --nproc_per_node 3 t.py@@"),
    # NC624: what starts once, on the first node.
    ("NC624", "-p gpu -N 1 -n 4", "python -u train.py@@"),
    ("NC624", "-p cpu -N 1 -n 4", "gmx_mpi mdrun -deffnm md@@"),
    ("NC624", TASKS, "nohup python3 -m training.main fit@@"),
    ("NC624", TASKS, "uv run t.py@@"),
    ("NC624", TASKS, "bash -c 'python t.py'@@"),
    ("NC624", TASKS, "for i in 1 2; do\n  python t.py $i@@\ndone"),
    ("NC624", TASKS, "nsys profile -o x -t cuda python t.py@@"),
    ("NC624", TASKS, "apptainer exec x.sif pw.x -i in@@"),
    ("NC624", TASKS, "Rscript fit.R@@"),
    ("NC624", TASKS, "bash train.sh --lr 1@@"),
    ("NC624", TASKS, "h=$(srun -N1 -n1 hostname)\npython t.py --host $h@@"),
    ("NC624", EACH, "torchrun --nproc_per_node 4 t.py@@"),
    ("NC624", EACH, "torchrun --nnodes=3 --nproc_per_node 4 --rdzv_endpoint=$H:$P t.py@@"),
    ("NC624", EACH, "N=$SLURM_NNODES\naccelerate launch --num_machines $N t.py@@"),
    ("NC624", EACH, "python -m torch.distributed.launch --nproc_per_node 4 t.py@@"),
    ("NC624", EACH, "deepspeed t.py@@"),
    ("NC624", EACH, "srun hostname\nfor s in 1 2; do\n  torchrun --nproc_per_node 4 t.py@@\ndone"),
    ("NC624", EACH, "apptainer run x.sif /bin/bash -c 'cd /x; torchrun --nproc_per_node=4 t.py'@@"),
    # NC625: GPUs that nothing uses.
    ("NC625", FOUR, "python train.py@@"),
    ("NC625", FOUR, "for i in a b; do\n  python t.py $i@@\ndone"),
    ("NC625", FOUR, "nvidia-smi -l 60 > use.log &\npython train.py@@"),
    ("NC625", f"{FOUR} -n 1", "srun python train.py@@"),
    ("NC625", NODES, "mpirun -n 3 python t.py@@"),
    ("NC625", FOUR, "torchrun --standalone --nnodes=1 -m pkg.train@@"),
    ("NC625", EACH, "srun torchrun --nnodes=3 --rdzv-backend=c10d --rdzv-endpoint=$H:1 t.py@@"),
    ("NC625", GPU, "bwa mem ref.fa a.fq > a.sam@@"),
    ("NC625", GPU, "module load conda\npip install torch@@"),
    # NC626: cores that a step does not get.
    ("NC626", CORES, "srun --container-image=x.sqsh python t.py@@"),
    ("NC626", CORES, "srun bash -c 'mkdir x; ./a'@@"),
    ("NC626", CORES, "srun --environment ${EDF_FILE} python t.py@@"),
    # NC627: steps that wait for one another.
    # NC651: what the end of the job kills.
    ("NC651", CPU, "nohup python t.py > log 2>&1 &@@\necho started\nsleep 5"),
    ("NC651", CPU, "for i in 1 2; do\n  ./simulate $i &@@\ndone"),
    ("NC651", CPU, "python t.py --fold 1 &@@\npython t.py --fold 2"),
    ("NC651", CPU, "tmux new-session -d -s a 'python t.py'@@"),
    # NC635: signals that miss the program.
    ("NC635", f"{CPU} --signal=USR1@60@@", "python t.py"),
    ("NC635", f"{CPU} --signal=SIGTERM@60@@", "bash -c 'python t.py'"),
    ("NC635", f"{CPU} --signal=B:USR1@60@@", "python t.py"),
    # NC636, NC652: what comes too late, or is lost with the node.
    ("NC636", f"{CPU} --signal=B:USR1@60", "trap 'x' USR1@@\nbash -c 'python t.py'\n"),
    ("NC636", f"{GPU} --signal=B:10@60", "trap 'touch x' SIGUSR1@@\nsrun python train.py"),
    ("NC652", GPU, "python t.py --out_dir /tmp/run@@"),
    ("NC652", GPU, "O=$TMPDIR/run\nsrun python t.py --save-path=$O@@\necho end"),
    ("NC652", CPU, "python t.py > /dev/shm/scores.csv@@"),
    # NC653: one file for all tasks of an array.
    ("NC653", ARRAY, "#SBATCH -o all.txt@@\nsrun ./a"),
    ("NC653", ARRAY, "#SBATCH -o %x-%A.txt@@\nsrun ./a"),
    # NC654, NC655: indexes.
    ("NC654", CPU, f"./a {INDEX}@@"),
    ("NC654", CPU, "f=$(sed -n ${SLURM_ARRAY_TASK_ID}p list)@@\npython t.py $f"),
    ("NC655", f"{CPU} --array=0-3", f"a=(x y z)\n./a ${{a[{INDEX}]}}@@"),
    ("NC655", f"{CPU} --array=1-3", "a=(x 'y z' w)\nb=${a[SLURM_ARRAY_TASK_ID]}@@\n./a $b"),
    ("NC655", f"{CPU} --array=0-2%1", "a=(x y z)\ni=$((SLURM_ARRAY_TASK_ID - 1))\n./a ${a[$i]}@@"),
    # NC663: containers that see no GPU.
    ("NC663", GPU, "singularity exec $IMAGES/x.sif ./a@@"),
    ("NC663", GPU, "singularity exec --bind /data x.sif bash -c 'cd x; python t.py'@@"),
    ("NC663", "-p gpu --gpus-per-node=1", "#SBATCH -J amd_a100nv_8\nsrun apptainer run x.sif@@"),
    # NC665: programs that are none.
    ("NC665", CPU, "srun OMP_NUM_THREADS=1 python t.py@@"),
    ("NC665", TASKS, "mpirun -np 2 A=1 ./x@@"),
    ("NC665", CPU, "python -m train.py@@"),
    ("NC665", CPU, "python python t.py@@"),
    ("NC665", CPU, "python3@@\ndeactivate"),
]

RIGHT: List[Row] = [
    ("NC621", EACH, "srun accelerate launch --config_file c.yaml --num_machines 3 t.py"),
    ("NC621", EACH, "srun torchrun --nnodes=3 --rdzv-backend=c10d --rdzv-endpoint=$H t.py"),
    (
        "NC621",
        EACH,
        "srun bash -c 'torchrun --nnodes=3 --node_rank=$SLURM_NODEID --master_addr=$H t.py'",
    ),
    ("NC621", EACH, "export PET_NNODES=3\nsrun torchrun --rdzv_endpoint=$H:1 t.py"),
    ("NC621", EACH, "srun torchrun $MEET --nnodes=3 t.py"),
    ("NC621", GPUS, "srun -n1 torchrun --nproc_per_node=4 t.py"),
    ("NC621", GPUS, "srun torchrun --nproc_per_node=1 --nnodes=4 --rdzv_endpoint=$H:1 t.py"),
    ("NC622", EACH, "srun torchrun --nnodes=1:3 --rdzv_endpoint=$H t.py"),
    ("NC622", EACH, "srun -N1 -n1 torchrun --nnodes=1 t.py"),
    ("NC622", GPUS, "srun --gres=gpu:2 -n 2 python t.py"),
    ("NC622", "-p cpu -N 1 -n 2", "mpirun --oversubscribe -n 6 ./x"),
    ("NC622", "-p cpu -n 4", "srun -n 8 --overcommit ./x"),
    ("NC622", "-p cpu -n 4 --exclusive", "srun -n 8 ./x"),
    ("NC622", "-p cpu -N 2", "mpiexec -ppn 8 ./x\nmpirun -n $SLURM_NTASKS ./x"),
    ("NC622", NODES, "srun torchrun --nnodes 8 --nproc_per_node 1 --rdzv_endpoint=$H:$P t.py"),
    ("NC623", FOUR, "torchrun --nproc_per_node=1 a.py\ntorchrun --nproc_per_node=4 b.py"),
    ("NC623", FOUR, "python t.py --devices 4 --gpu 3\npython u.py --devices 50"),
    ("NC623", f"{GPU} -n 4", "srun python mpi.py"),
    ("NC623", EACH, 'horovodrun -np 12 -H "$hosts" python t.py'),
    ("NC624", TASKS, 'srun "${PYTHON_BIN}" t.py'),
    ("NC624", TASKS, "srun bash -c 'python t.py'"),
    ("NC624", TASKS, "mpirun pw.x -i in\n./charmrun ./solve in"),
    ("NC624", TASKS, "python -m venv env\npython -m pip install x"),
    ("NC624", TASKS, "./prepare.sh\n./train.sh"),
    ("NC624", TASKS, "module load parsl\npython workflow.py"),
    ("NC624", "-p cpu -N 1 -n 8", "python t.py --multiprocessing-distributed"),
    ("NC624", "-p cpu -N 1 -n 8", "python t.py --num-ranks=8"),
    ("NC624", EACH, "srun torchrun --nnodes=3 --nproc_per_node 4 --rdzv_endpoint=$H:$P t.py"),
    ("NC624", EACH, "torchrun --nproc_per_node 4 prepare.py\nsrun python t.py"),
    (
        "NC624",
        EACH,
        "for h in $HOSTS; do\n  ssh $h torchrun --nnodes=3 t.py &\ndone\ntorchrun t.py",
    ),
    ("NC624", EACH, "deepspeed --hostfile hosts t.py"),
    ("NC624", EACH, "accelerate launch --config_file x.yaml t.py"),
    ("NC624", EACH, "f() {\n  torchrun --nnodes=3 t.py\n}\nexport -f f\nsrun bash -c f"),
    ("NC625", FOUR, "torchrun --nproc_per_node=$N t.py"),
    ("NC625", FOUR, "torchrun $OPTIONS t.py"),
    ("NC625", FOUR, "export PET_NPROC_PER_NODE=4\ntorchrun t.py"),
    ("NC625", FOUR, "accelerate launch t.py"),  # of itself, one for each GPU
    ("NC625", FOUR, "torchrun a.py\ntorchrun --nproc_per_node=4 t.py"),
    ("NC625", FOUR, "for i in a b; do\n  ./t.py $i &\ndone\nwait"),
    ("NC625", FOUR, "singularity exec --nv a.sif serve &\npython ask.py"),
    ("NC625", FOUR, "srun python -u train.py --n_gpu 4"),
    ("NC625", FOUR, "python t.py hydra/launcher=torchrun"),
    ("NC625", FOUR, "python t.py --num_gpus 4"),
    ("NC625", GPU, "bwa mem ref.fa a.fq > a.sam\npip install x\npython t.py"),
    ("NC625", GPU, 'pip install x\neval "$1"'),
    ("NC626", CORES, "srun -c 8 --container-image=x.sqsh python t.py"),
    ("NC626", CORES, "export SRUN_CPUS_PER_TASK=8\nsrun python t.py"),
    ("NC626", CORES, "srun mkdir -p x\nsrun bash -c 'hostname | cut -d. -f1'"),
    ("NC651", CPU, "python serve.py &\npython ask.py"),
    ("NC651", CPU, "for i in 1 2; do\n  ./simulate $i &\ndone\nwait"),
    ("NC651", CPU, "python serve.py &\nsleep infinity"),
    ("NC651", CPU, "python serve.py &\nwhile sleep 60; do date; done"),
    ("NC651", CPU, "nvidia-smi dmon > log &\npython t.py"),
    ("NC635", f"{CPU} --signal=USR1@60", "srun python t.py"),
    ("NC635", f"{CPU} --signal=USR1@60", "mpirun python t.py"),
    ("NC635", f"{CPU} --signal=B:USR1@60", "exec python t.py"),
    ("NC635", f"{CPU} --signal=B:USR1@60", "trap 'touch save' USR1\npython t.py &\nwait"),
    ("NC636", GPU, "trap 'rm -rf x' TERM\npython t.py"),
    ("NC636", f"{CPU} --signal=B:USR1@60", "trap 'x' USR1\nbash -c 'python t.py' &\nwait"),
    ("NC652", GPU, "python t.py --out /tmp/run\ncp -r /tmp/run ."),
    ("NC652", GPU, "python t.py --out /tmp/run\npython u.py --data /tmp/run"),
    ("NC652", GPU, "export TMPDIR=/scratch/me\npython t.py --out $TMPDIR/run"),
    ("NC652", GPU, "python t.py --output_dir /tmp/debug > /tmp/log.txt"),
    ("NC653", f"{ARRAY} -o log/%x-%4a.txt", "srun ./a"),
    ("NC653", f"{ARRAY} -o log.txt --open-mode=append", "srun ./a"),
    ("NC653", f"{CPU} --array=7 -o log.txt", "srun ./a > log"),
    ("NC654", ARRAY, f"./a {INDEX}"),
    ("NC654", CPU, "./a ${SLURM_ARRAY_TASK_ID:-0}"),
    ("NC654", CPU, f'if [ -n "{INDEX}" ]; then\n  ./a {INDEX}\nfi'),
    ("NC654", CPU, f"[[ ! {INDEX} ]] && exit\n./a {INDEX}"),
    ("NC654", CPU, f"if test {INDEX}; then\n  ./a {INDEX}\nfi"),
    ("NC654", CPU, f"# sbatch --array=1-3 job.sh\n./a {INDEX}"),
    ("NC654", CPU, f"echo task {INDEX}\n./a"),
    ("NC655", f"{CPU} --array=0-2", f"a=(x y z)\n./a ${{a[{INDEX}]}}"),
    ("NC655", f"{CPU} --array=1-3", f"a=(x y z)\n./a ${{a[{INDEX}-1]}}"),
    ("NC655", ARRAY, f"a=(x y z)\n[ {INDEX} -gt 2 ] && exit\n./a ${{a[{INDEX}]}}"),
    ("NC655", ARRAY, "a=(x y z)\n./a ${a[$((SLURM_ARRAY_TASK_ID % 3))]}"),
    ("NC655", ARRAY, f"a=(x*)\n./a ${{a[{INDEX}]}}"),
    ("NC655", ARRAY, f"a=(x)\na+=(y)\n./a ${{a[{INDEX}]}}"),
    ("NC663", GPU, "singularity exec --nv x.sif python t.py"),
    ("NC663", CPU, "singularity exec x.sif python t.py"),
    ("NC663", "-p amd --gpus-per-node=1", "singularity exec x.sif python t.py"),
    ("NC663", GPU, "export APPTAINER_NV=1\napptainer exec x.sif python t.py"),
    ("NC663", GPU, "apptainer exec x.sif bwa mem a b\npython t.py"),
    ("NC663", GPU, "singularity exec $OPTS x.sif a"),
    ("NC665", CPU, "python3 < t.py\necho 'print(1)' | python\npython <<E\nprint(1)\nE"),
    ("NC665", CPU, 'python --version\nv=$(python)\n"$PYTHON"\npython -m pkg.train'),
    ("NC665", CPU, "srun env A=1 python t.py\nA=1 srun python t.py x=1\n! grep x y"),
]


def found(options: str, commands: str, small: Catalog) -> List[Tuple[str, int, str]]:
    """Return the code, line, and severity of each finding."""
    text = f"#!/bin/bash -l\n#SBATCH {options}\n{commands}\n".replace("@@", "")
    findings = judge_text("job.sh", text, small, small.clusters["small"]).findings
    return [(one.finding.code, one.place.line, one.finding.severity) for one in findings]


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


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
    ("code", "options", "commands", "severity"),
    [
        ("NC621", EACH, "srun torchrun --nnodes=$SLURM_NNODES t.py", "error"),
        ("NC621", EACH, "srun torchrun --nnodes=$N t.py", "warning"),
        ("NC622", EACH, "srun torchrun --nnodes=1 t.py", "warning"),
        ("NC622", GPU, "torchrun --nnodes=4 --node_rank=3 --master_addr=$H t.py", "warning"),
        ("NC624", "-p cpu -N 1 -n 8", "python t.py", "note"),
        ("NC624", TASKS, "python t.py", "warning"),
        ("NC624", TASKS, "python t.py --num_gpus=8", "note"),
        ("NC624", EACH, "torchrun --nnodes=3 --rdzv_endpoint=$H:$P t.py", "error"),
    ],
)
def test_a_finding_is_as_severe_as_it_is_certain(
    code: str, options: str, commands: str, severity: str, small: Catalog
) -> None:
    assert severity in [each[2] for each in found(options, commands, small) if each[0] == code]


@pytest.mark.parametrize("srun", ["", 'srun --ntasks="$SLURM_NNODES" --ntasks-per-node=1 '])
def test_the_hint_for_a_torchrun_on_several_nodes_is_a_line_that_works(
    srun: str, small: Catalog
) -> None:
    def hints(commands: str) -> List[str]:
        text = f"#!/bin/bash -l\n#SBATCH {EACH}\n{commands}\n"
        findings = judge_text("job.sh", text, small, small.clusters["small"]).findings
        codes = ("NC621", "NC622", "NC624", "NC632", "NC642")
        return [one.finding.hint for one in findings if one.finding.code in codes]

    (hint,) = hints(f"{srun}torchrun --nproc_per_node=4 t.py")
    options, before = re.search("--nnodes[^,]*", hint), re.search(r"export FIRST=[^;]*", hint)
    assert options and before
    line = f'srun --ntasks="$SLURM_NNODES" --ntasks-per-node=1 torchrun {options[0]} '
    assert hints(f"{before[0]}\n{line}--nproc_per_node=4 t.py") == []
