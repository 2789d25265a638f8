"""Short scripts with a defect, and scripts that are right: what check finds in each.

A row has a code, the options of one directive, and the commands; ``@@`` ends the line of the
finding. More directives may begin the commands.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import List, Tuple

import pytest

from neuronctl.catalog.cluster import Catalog
from neuronctl.rules import Finding
from neuronctl.submission.existing_script import judge_text

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
    # NC660: names close to one of Slurm's. NC661: what steps do not get, or take from the script.
    ("NC660", ARRAY, "python t.py $SLURM_TASK_ARRAY_ID@@"),
    ("NC660", ARRAY, "python t.py ${SLURM_ARAY_TASK_ID}@@"),
    ("NC660", CPU, "python t.py $SLURM_NODE_LIST@@"),
    ("NC660", ARRAY, "python t.py > out_$SLURM_ARRAY_TASKID.txt@@"),
    ("NC660", ARRAY, "{ python t.py; } 2>&1 >out_$PBS_ARRAYID.txt@@"),
    ("NC660", CPU, "python t.py --workers $PBS_NUM_PPN@@"),
    ("NC660", CPU, "export SLURM_NTASK=4@@\npython t.py"),
    ("NC660", CPU, "SLURM_CPU_PER_TASK=4 python t.py@@"),
    ("NC660", CPU, "SBATCH_NODES=2 sbatch job.sh@@"),
    ("NC661", f"{CPU} --export=NONE@@", "srun python t.py"),
    ("NC661", f"{CPU} --export=none@@", "srun --export=ALL true\nsrun python t.py"),
    ("NC661", CPU, "srun --export=A=1 python t.py@@"),
    ("NC661", CORES, "export SLURM_CPUS_PER_TASK=2@@\nsrun python t.py"),
    # NC622 and NC623: an srun counts like other launchers.
    ("NC622", "-p cpu -N 1 -n 4 -c 2", "srun -c 8 python t.py@@"),
    ("NC623", f"{FOUR} --ntasks-per-node=8", "srun python t.py@@"),
    ("NC623", f"{GPU} --ntasks-per-node=2", "srun python t.py@@"),
    ("NC623", f"{FOUR} --ntasks-per-node=20", "mpirun python t.py@@"),
    # NC627: a program that takes GPU LOCAL_RANK, and sees one.
    ("NC627", "-p gpu -N 1 -n 4 --gpus-per-task=1@@", "srun train --distributed"),
    # NC621: a launcher within a launcher, and nodes that do not know of one another.
    ("NC621", GPUS, "srun torchrun --nproc_per_node=4 t.py@@"),
    ("NC621", GPUS, "srun --ntasks-per-node=1 accelerate launch --num_processes 4 t.py@@"),
    ("NC621", EACH, "srun deepspeed --hostfile hosts t.py@@"),
    ("NC621", GPUS, 'L="torchrun --nproc_per_node=4 t.py"\nsrun bash -c "$L"@@'),
    ("NC621", NODES, 'A=(torchrun --nproc_per_node 4)\nsrun "${A[@]}" t.py@@'),
    ("NC621", EACH, "srun torchrun --nproc_per_node=4 t.py@@"),
    ("NC621", EACH, "srun torchrun --nnodes=3 --nproc_per_node 4 t.py@@"),
    ("NC621", EACH, "srun bash -c 'torchrun --nnodes=3 --node_rank=$SLURM_NODEID t.py'@@"),
    # NC622: steps that do not fit the job.
    ("NC622", GPU, "COUNT=3\nsrun --nodes $COUNT python t.py@@"),
    ("NC622", GPU, "torchrun --nnodes=2 --nproc_per_node=1 --rdzv_endpoint=$H:1 t.py@@"),
    ("NC622", GPU, "accelerate launch --num_machines 3 --num_processes 1 t.py@@"),
    ("NC622", "-p cpu -N 1 -n 8", "srun -n 8 -c 4 ./x@@"),
    ("NC622", "-p cpu -N 1 -n 2", "mpirun -n 6 ./x@@"),
    ("NC622", EACH, "srun torchrun --nnodes=1 --nproc_per_node=4 t.py@@"),
    # NC623: processes and GPUs.
    ("NC623", FOUR, "accelerate launch --num_processes 1 t.py@@"),
    ("NC623", "-p gpu --gpus-per-node=2 -N 1", "horovodrun -np 4 -H localhost:4 python t.py@@"),
    # NC624: what starts once, on the first node.
    ("NC624", TASKS, "nohup python3 -m training.main fit@@"),
    ("NC624", TASKS, "bash -c 'python t.py'@@"),
    ("NC624", TASKS, "apptainer exec x.sif pw.x -i in@@"),
    ("NC624", TASKS, "h=$(srun -N1 -n1 hostname)\npython t.py --host $h@@"),
    ("NC624", EACH, "torchrun --nproc_per_node 4 t.py@@"),
    ("NC624", EACH, "deepspeed t.py@@"),
    ("NC624", EACH, "srun hostname\nfor s in 1 2; do\n  torchrun --nproc_per_node 4 t.py@@\ndone"),
    ("NC624", EACH, "apptainer run x.sif /bin/bash -c 'cd /x; torchrun --nproc_per_node=4 t.py'@@"),
    ("NC624", EACH, "N=$SLURM_NNODES\naccelerate launch --num_machines $N t.py@@"),
    # NC625: GPUs that nothing uses.
    ("NC625", FOUR, "python train.py@@"),
    ("NC625", FOUR, "nvidia-smi -l 60 > use.log &\npython train.py@@"),
    ("NC625", FOUR, "torchrun --standalone --nnodes=1 -m pkg.train@@"),
    ("NC625", EACH, "srun torchrun --nnodes=3 --rdzv-backend=c10d --rdzv-endpoint=$H:1 t.py@@"),
    # NC626: cores that a step does not get.
    ("NC626", CORES, "srun --container-image=x.sqsh python t.py@@"),
    ("NC626", "-p cpu -N 1 -c 8", "srun -c 4 python t.py@@"),
    ("NC626", "-p cpu --exclusive -c 4", "srun -c $SLURM_CPUS_PER_TASK python t.py@@"),
    ("NC626", "-p cpu --exclusive -c 4", "export SRUN_CPUS_PER_TASK=4\nsrun python t.py@@"),
    # NC633: GPUs that the job does not have.
    ("NC633", f"{GPU} --array=0-3", f"export CUDA_VISIBLE_DEVICES={INDEX}@@\n./a"),
    ("NC633", GPU, "CUDA_VISIBLE_DEVICES=0 ./a\nCUDA_VISIBLE_DEVICES=1 ./b@@"),
    # NC651: what the end of the job kills.
    ("NC651", CPU, "for i in 1 2; do\n  ./simulate $i &@@\n  sleep 5\ndone"),
    ("NC651", CPU, "tmux new-session -d -s a 'python t.py'@@"),
    # NC635: signals that miss the program.
    ("NC635", f"{CPU} --signal=B:USR1@60@@", "python t.py"),
    # NC635: a trap that comes too late.
    ("NC635", f"{CPU} --signal=B:USR1@60", "trap 'x' USR1@@\nbash -c 'python t.py'\n"),
    ("NC635", f"{GPU} --signal=B:10@60", "trap 'touch x' SIGUSR1@@\nsrun python train.py"),
    ("NC635", f"{CPU} --signal=USR1@60@@", "python t.py"),
    # NC653: one file for all tasks of an array.
    ("NC653", ARRAY, "#SBATCH -o all.txt@@\nsrun ./a"),
    # NC654, NC655: indexes.
    ("NC654", CPU, f"./a {INDEX}@@"),
    ("NC654", CPU, "#SBATCH --array=0-9@@\n./a --out o.%a"),
    ("NC655", f"{CPU} --array=0-3", f"a=(x y z)\n./a ${{a[{INDEX}]}}@@"),
    ("NC655", f"{CPU} --array=0-2%1", "a=(x y z)\ni=$((SLURM_ARRAY_TASK_ID - 1))\n./a ${a[$i]}@@"),
    # NC663: containers that see no GPU.
    ("NC663", GPU, "singularity exec $IMAGES/x.sif ./a@@"),
    ("NC663", GPU, "singularity exec --bind /data x.sif bash -c 'cd x; python t.py'@@"),
    # NC665: programs that are none.
    ("NC665", CPU, "srun OMP_NUM_THREADS=1 python t.py@@"),
    ("NC649", ARRAY, "python t.py --run=$(SLURM_ARRAY_TASK_ID)@@"),
    ("NC665", CPU, "apptainer exec /x/torch.sif --bind /data python t.py@@"),
    ("NC665", CPU, "python3@@\ndeactivate"),
    ("NC665", CPU, "python -m train.py@@"),
    ("NC665", CPU, "python python t.py@@"),
    # Directives, lines of shell, and variables.
    ("NC601", GPU, "#SBATCH —-time=10@@\nsrun python train.py"),
    ("NC601", GPU, "#SBATCH --time=2h@@\nsrun python train.py"),
    ("NC601", GPU, "#SBATCH --tiem=10@@\nsrun python train.py"),
    ("NC603", GPU, "A=1\n\n# words\n#SBATCH -J late@@\nsrun python train.py"),
    ("NC604", CPU, "SBATCH --gres=gpu:1@@\n./a"),
    ("NC604", GPU, "#SBACTH --time=10@@\nsrun python train.py"),
    ("NC605", GPU, "#SBATCH --gres=nvme:1@@\n#SBATCH --gres=localtmp:9\nsrun python train.py"),
    ("NC606", "--gres=gpu:1", "#SBATCH --partition=$P@@\nsrun python train.py"),
    ("NC606", "-p gpu -N 1", "#SBATCH --gpus-per-node=${X}@@\nsrun python train.py"),
    ("NC606", GPU, "#SBATCH -o logs/@@\nsrun python train.py"),
    ("NC606", GPU, "#SBATCH -e run-${SLURM_JOB_ID}.err@@\nsrun python train.py"),
    ("NC611", "-p gpu --gpus-per-node=1", "#SBATCH -N 3 -n 1@@\nsrun python train.py"),
    ("NC612", "-p cpu -N 1 -n 4", "#SBATCH --mem=8@@\nsrun ./x"),
    ("NC612", CPU, "#SBATCH --mem=48@@\nRscript a.R"),
    ("NC631", TASKS, "export RANK=$SLURM_PROCID@@\necho $RANK\nsrun python t.py"),
    ("NC631", GPUS, 'srun bash -c "python t.py $SLURM_PROCID"@@'),
    ("NC632", "-p gpu --gpus-per-node=1", "export MASTER_PORT=29400@@\npython t.py"),
    ("NC632", GPU, "torchrun --nproc-per-node=1 --rdzv_endpoint=$HOST:29500 t.py@@"),
    ("NC657", GPU, "jupyter lab --ip=0.0.0.0 --NotebookApp.token=${USER}@@"),
    ("NC657", GPU, "python -m jupyter lab --ServerApp.token=''@@ --port 8888"),
    ("NC657", GPU, "srun code-server --bind-addr 0.0.0.0:8080 --auth@@ none ."),
    ("NC657", GPU, "tensorboard --logdir 'my runs' --bind_all@@ --port 6006"),
    ("NC657", GPU, "vllm serve /m/llama --host@@ 0.0.0.0"),
    ("NC637", CPU, "export OMP_NUM_THREADS=64@@\n./a"),
    ("NC640", GPU, "export API_KEY=abcdefgh12345678@@\nsrun python train.py"),
    ("NC642", "-p cpu -N 2 --ntasks-per-node=1", "MASTER_ADDR=127.0.0.1 srun python t.py@@"),
    ("NC642", EACH, 'N=$(scontrol show hostnames $L)\nA=("$N")@@\nsrun -N1 -w ${A[0]} ./a'),
    ("NC642", NODES, "export MASTER_ADDR=$(hostname --ip-address)@@\nsrun python train.py"),
    ("NC642", NODES, "A=$(scontrol show hostnames $SLURM_STEP_NODELIST)@@\nsrun ./x $A"),
    ("NC642", EACH, "srun torchrun --nnodes=3 --rdzv_endpoint=localhost:$P t.py@@"),
    ("NC642", NODES, 'srun bash -c "MASTER_PORT=\\$(shuf -i 1-9 -n 1) python t.py"@@'),
    ("NC643", CPU, "python t.py --lr=__LR__@@"),
    ("NC643", CPU, "#SBATCH -A naiss20YY-XX-ZZ@@\n./a"),
    ("NC643", CPU, '#SBATCH -A "e05-[budget code]"@@\n./a'),
    ("NC645", GPU, 'D="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"@@\npython $D/t.py'),
    ("NC645", GPU, 'source "$(dirname "$0")/env.sh"@@\npython t.py'),
    ("NC649", CPU, "export $N=4@@\n./a"),
    ("NC649", CPU, "python t.py --lr 1 \\\n \n\n  --epochs=3@@"),
    ("NC649", CPU, "if [ $N=1 ]; then@@\n./a\nfi"),
    ("NC649", CPU, "python t.py \\\n\n  --lr 1@@\n"),
    ("NC660", CPU, "mpirun -np $NSLOTS ./a@@"),
    ("NC638", CPU, "conda init@@\n./a"),
    ("NC646", GPU, "srun python t.py\necho end\nexit 0@@"),
    ("NC646", GPU, "set -o pipefail\nsrun python t.py\nexit 0@@"),
    ("NC646", GPU, "srun python train.py &\nwait@@"),
    ("NC646", GPUS, "set -e\nfor i in 1 2; do\n  python t.py $i &\ndone\nwait@@\npython merge.py"),
    ("NC646", GPU, "python train.py\npython test.py > scores\nrm -rf cache@@"),
    ("NC646", GPU, 'python train.py\ncode=$?\necho "ended with $code"@@'),
    ("NC646", GPU, "torchrun --standalone train.py &\npid=$!\nwait $pid\necho done@@"),
    ("NC646", GPU, "python train.py || true@@\npython evaluate.py"),
    ("NC646", GPU, "set -e\npython train.py || echo failed@@"),
    ("NC646", GPU, "python t.py | tee log@@"),
    ("NC646", GPU, "python train.py\nconda deactivate\ndate@@\nexit"),
    ("NC315", "-p gpu -N 1 -n 2", "@@srun uv run python t.py"),
    ("NC315", "-p gpu -N 1 --array=0-3", "@@uv run python t.py"),
    ("NC121", "-p gpu -N 1", "#SBATCH --gres=gpu:9@@\nsrun -n9 ./x"),
]

RIGHT: List[Row] = [
    ("NC622", "-p cpu -N 1 -n 4 -c 2", "srun -n 1 -c 8 python t.py"),
    ("NC623", f"{FOUR} --ntasks-per-node=4", "srun python t.py"),
    ("NC623", f"{FOUR} --ntasks-per-node=8", "srun ./mpi_program"),
    ("NC660", ARRAY, "python t.py $SLURM_ARRAY_TASK_ID $SLURM_TMPDIR $SLURMD_NODENAME"),
    ("NC649", CPU, "python t.py --lr 1 \\\n\npython u.py"),
    ("NC660", ARRAY, "SLURM_TASK_ARRAY_ID=$SLURM_ARRAY_TASK_ID\npython t.py $SLURM_TASK_ARRAY_ID"),
    ("NC661", f"{CPU} --export=NONE", "export SLURM_EXPORT_ENV=ALL\nsrun python t.py"),
    ("NC661", f"{CPU} --export=NONE", "srun --export=ALL python t.py"),
    ("NC661", f"{CPU} --export=ALL,A=1", "srun --export=ALL,B=1 python t.py"),
    ("NC661", CORES, "export SLURM_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK\nsrun python t.py"),
    ("NC661", f"{CPU} --export=NONE", "unset SLURM_EXPORT_ENV\nsrun python t.py"),
    ("NC621", EACH, "srun accelerate launch --config_file c.yaml --num_machines 3 t.py"),
    ("NC621", EACH, "srun torchrun --nnodes=3 --rdzv-backend=c10d --rdzv-endpoint=$H t.py"),
    (
        "NC621",
        EACH,
        "srun bash -c 'torchrun --nnodes=3 --node_rank=$SLURM_NODEID --master_addr=$H t.py'",
    ),
    ("NC621", EACH, "export PET_NNODES=3\nsrun torchrun --rdzv_endpoint=$H:1 t.py"),
    ("NC621", GPUS, "srun -n1 torchrun --nproc_per_node=4 t.py"),
    ("NC621", GPUS, "srun torchrun --nproc_per_node=1 --nnodes=4 --rdzv_endpoint=$H:1 t.py"),
    ("NC622", GPUS, "srun --gres=gpu:2 -n 2 python t.py"),
    ("NC622", "-p cpu -n 4", "srun -n 8 --overcommit ./x"),
    ("NC622", NODES, "srun torchrun --nnodes 8 --nproc_per_node 1 --rdzv_endpoint=$H:$P t.py"),
    ("NC622", "-p cpu -N 2", "mpiexec -ppn 8 ./x\nmpirun -n $SLURM_NTASKS ./x"),
    ("NC623", FOUR, "python t.py --devices 4 --gpu 3\npython u.py --devices 50"),
    ("NC623", EACH, 'horovodrun -np 12 -H "$hosts" python t.py'),
    ("NC624", TASKS, "mpirun pw.x -i in\n./charmrun ./solve in"),
    ("NC624", TASKS, "module load parsl\npython workflow.py"),
    ("NC624", "-p cpu -N 1 -n 8", "python t.py --multiprocessing-distributed"),
    ("NC624", EACH, "srun torchrun --nnodes=3 --nproc_per_node 4 --rdzv_endpoint=$H:$P t.py"),
    ("NC624", EACH, "torchrun --nproc_per_node 4 prepare.py\nsrun python t.py"),
    ("NC624", EACH, "for h in $H; do\n  ssh $h torchrun --nnodes=3 t.py &\ndone\ntorchrun t.py"),
    ("NC624", EACH, "accelerate launch --config_file x.yaml t.py"),
    ("NC624", EACH, "f() {\n  torchrun --nnodes=3 t.py\n}\nexport -f f\nsrun bash -c f"),
    ("NC625", FOUR, "export PET_NPROC_PER_NODE=4\ntorchrun t.py"),
    ("NC625", FOUR, "accelerate launch t.py"),  # of itself, one for each GPU
    ("NC625", FOUR, "singularity exec --nv a.sif serve &\npython ask.py"),
    ("NC625", FOUR, "srun python -u train.py --n_gpu 4"),
    ("NC625", FOUR, "python t.py hydra/launcher=torchrun"),
    ("NC626", CORES, "srun -c 8 --container-image=x.sqsh python t.py"),
    ("NC626", CORES, "export SRUN_CPUS_PER_TASK=8\nsrun python t.py"),
    ("NC626", "-p cpu --exclusive -c 4", "srun -n 1 -c 4 python t.py"),
    ("NC626", "-p cpu -c 4", "srun -c 4 python t.py"),
    ("NC626", "-p cpu -N 1 -c 8", "srun -c 8 python a.py\nsrun -n 1 -c 4 python t.py"),
    ("NC626", CORES, "srun mkdir -p x\nsrun bash -c 'hostname | cut -d. -f1'"),
    ("NC651", CPU, "python serve.py &\npython ask.py"),
    ("NC651", CPU, "python serve.py &\nwhile sleep 60; do date; done"),
    ("NC651", CPU, "nvidia-smi dmon > log &\npython t.py"),
    ("NC633", GPUS, "CUDA_VISIBLE_DEVICES=0,1 ./a &\nCUDA_VISIBLE_DEVICES=2,3 ./b &\nwait"),
    ("NC633", GPU, "export CUDA_VISIBLE_DEVICES=0,1\n./a"),
    ("NC635", f"{CPU} --signal=USR1@60", "srun python t.py"),
    ("NC635", f"{CPU} --signal=B:USR1@60", "exec python t.py"),
    ("NC635", GPU, "trap 'rm -rf x' TERM\npython t.py"),
    ("NC635", f"{CPU} --signal=B:USR1@60", "trap 'x' USR1\nbash -c 'python t.py' &\nwait"),
    ("NC653", f"{ARRAY} -o log.txt --open-mode=append", "srun ./a"),
    ("NC654", CPU, "./a ${SLURM_ARRAY_TASK_ID:-0}"),
    ("NC654", CPU, f'if [ -n "{INDEX}" ]; then\n  ./a {INDEX}\nfi'),
    ("NC654", CPU, f"[[ ! {INDEX} ]] && exit\n./a {INDEX}"),
    ("NC654", CPU, f"# sbatch --array=1-3 job.sh\n./a {INDEX}"),
    ("NC654", CPU, f"echo task {INDEX}\n./a"),
    ("NC655", f"{CPU} --array=1-3", f"a=(x y z)\n./a ${{a[{INDEX}-1]}}"),
    ("NC655", ARRAY, f"a=(x y z)\n[ {INDEX} -gt 2 ] && exit\n./a ${{a[{INDEX}]}}"),
    ("NC655", ARRAY, "a=(x y z)\n./a ${a[$((SLURM_ARRAY_TASK_ID % 3))]}"),
    ("NC655", ARRAY, f"a=(x)\na+=(y)\n./a ${{a[{INDEX}]}}"),
    ("NC663", "-p amd --gpus-per-node=1", "singularity exec x.sif python t.py"),
    ("NC663", GPU, "export APPTAINER_NV=1\napptainer exec x.sif python t.py"),
    ("NC663", GPU, "apptainer exec x.sif bwa mem a b\npython t.py"),
    ("NC663", GPU, "singularity exec $OPTS x.sif a"),
    ("NC665", CPU, "python3 < t.py\necho 'print(1)' | python\npython <<E\nprint(1)\nE"),
    ("NC665", CPU, 'python --version\nv=$(python)\n"$PYTHON"\npython -m pkg.train'),
    ("NC665", CPU, "srun env A=1 python t.py\nA=1 srun python t.py x=1\n! grep x y"),
    # Directives, lines of shell, and variables.
    ("NC646", GPU, "srun python t.py\nexit $?"),
    ("NC646", GPU, "set -eu\nsrun python t.py\nexit 0"),
    ("NC646", GPU, "python t.py & a=$!\npython u.py &\nwait $a\nwait $!"),
    ("NC646", GPU, 'pids=()\npython t.py & pids+=($!)\nfor p in "${pids[@]}"; do wait "$p"; done'),
    ("NC646", GPU, "python serve.py &\npython train.py"),
    ("NC646", GPU, "python t.py &\nwait -n\necho done > x || exit"),
    ("NC646", GPU, "#SBATCH -J a\nset -o errexit\npython t.py\necho done"),
    ("NC646", GPU, "python t.py\nexit"),
    ("NC646", GPU, "if python t.py; then\n  echo done\nfi"),
    ("NC646", GPU, "python t.py\ncode=$?\necho done\nexit $code"),
    ("NC646", GPU, "python t.py || { echo failed; exit 1; }"),
    ("NC646", GPU, "trap 'echo failed; exit 1' ERR\npython t.py\necho done"),
    ("NC646", GPU, "python t.py\ncp -r out /r"),
    ("NC646", GPU, "python -c 'import torch' || true\npython t.py"),
    ("NC646", CPU, "bash a.sh"),
    ("NC601", "-p gpu --gres=gpu:a100:1,nvme:2", "srun python train.py"),
    ("NC601", "-p gpu --gpus=2 --gpus-per-task=1", "srun python train.py"),
    ("NC601", GPU, "#SBATCH --array=0-${N}\nsrun python train.py"),
    ("NC604", GPU, "# SBATCH --time=10\n#SBATCH -t 20\nsrun python train.py"),
    ("NC604", GPU, "#sbatch --export=A=1 -J b train.sbatch\nsrun python train.py"),
    ("NC612", "-p site -n 1", "#SBATCH --time=0-1\n./a"),
    ("NC612", "-p cpu -N 1 -n 64 --mem-per-cpu=1", "srun ./x"),
    ("NC631", EACH, "R=$SLURM_NODEID\nR=2\nsrun python t.py $R"),
    ("NC631", EACH, "R='$SLURM_NODEID'\nsrun bash -c \"torchrun --nnodes 3 --node_rank $R t.py\""),
    ("NC632", "-p gpu --gpus-per-node=1", "export MASTER_PORT=29400\ntorchrun t.py"),
    ("NC632", "-p other -N 2 --gpus-per-node=4", "MASTER_PORT=29500 srun python t.py"),
    ("NC632", GPU, "export MASTER_PORT=${MASTER_PORT:-29500}\npython t.py"),
    ("NC657", GPU, 'jupyter lab --ip=0.0.0.0 --ServerApp.token="$(cat ~/.token)"'),
    ("NC657", GPU, "code-server --auth password --bind-addr 0.0.0.0:8080"),
    ("NC657", GPU, "tensorboard --logdir runs --host 127.0.0.1"),
    ("NC657", GPU, "vllm serve /m --host 0.0.0.0 --api-key $KEY"),
    ("NC657", GPU, "export VLLM_API_KEY=$(cat k)\nvllm serve /m --host 0.0.0.0"),
    ("NC637", "-p cpu -N 1 -n 4", "cc -qopenmp a.c -o a\nsrun ./a"),
    ("NC638", CPU, "conda init\nsource ~/.bashrc\n./a"),
    ("NC638", CPU, ". /x/conda.sh && conda activate e"),
    ("NC640", GPU, "export HF_TOKEN=hf_xxx"),
    ("NC640", CPU, 'echo -e "for control, pwd=\\\\c";pwd\n./a'),
    ("NC640", GPU, "WANDB_API_KEY=$1\npython t.py --token=$2"),
    ("NC642", "-p cpu -N 2 --ntasks-per-node=1", "MASTER_ADDR=localhost python t.py"),
    ("NC642", EACH, "MASTER_ADDR=localhost python prepare.py\nsrun python t.py"),
    ("NC642", NODES, "export MASTER_ADDR=127.0.0.1\nsrun -N 1 -n 4 -c 2 python t.py"),
    ("NC642", NODES, "export MASTER_ADDR=$(hostname)\nsrun bash -c 'x $SLURM_STEP_NODELIST'"),
    ("NC642", EACH, "srun torchrun --nnodes=3 --rdzv_endpoint=$H:$P t.py"),
    ("NC642", GPUS, 'srun bash -c "MASTER_PORT=$((9000 + RANDOM)) python t.py"'),
    ("NC642", EACH, "hosts=$SLURM_JOB_NODELIST\nm=$(scontrol show hostnames $hosts | head -n1)"),
    ("NC643", CPU, "DATA=$CHANGE_ME\n./a --todo"),
    ("NC643", CPU, "#SBATCH -A your_project\n#SBATCH -A naiss2024-5-12\n./a"),
    ("NC643", CPU, "python t.py --name=__main__"),
    ("NC645", GPU, 'echo "usage: $0 FILE"\npython t.py'),
    ("NC645", GPU, 'if [ -z "$SLURM_JOB_ID" ]; then\n  cd "$(dirname "$0")"\nfi'),
    ("NC649", CPU, "[ $root = /x ] && ./a"),
    ("NC660", CPU, "A=/x B=$A/y\n./a $B"),
    (
        "NC660",
        CPU,
        "SBATCH_MEM_PER_NODE=1G sbatch a.sh\nexport SBATCH_OPTS=-t1\nsbatch $SBATCH_OPTS",
    ),
    ("NC627", "-p gpu -N 1 -n 4 --gpus-per-task=1", "srun --gpu-bind=none train --distributed"),
    ("NC627", "-p gpu -N 4 --ntasks-per-node=1 --gpus-per-task=1", "srun train --distributed"),
    ("NC627", "-p gpu -N 1 -n 4 --gpus-per-task=1", "srun ./jax_program"),
    ("NC660", CPU, '#tmp="--tmp=/x"\n./a $tmp'),
    ("NC315", "-p gpu -N 1 -n 2", "srun uv run --no-sync python t.py"),
    ("NC315", "-p gpu -N 1 -G 2", "uv run torchrun --nproc_per_node=2 t.py"),
    ("NC315", "-p gpu -N 1 -n 2", "export UV_NO_SYNC=1\nsrun uv run t.py"),
]


def judged(text: str, small: Catalog) -> Tuple[Finding, ...]:
    return judge_text("job.sh", text, small, small.clusters["small"]).findings


def found(options: str, commands: str, small: Catalog) -> List[Tuple[str, int, str]]:
    """Return the code, line, and severity of each finding."""
    text = f"#!/bin/bash -l\n#SBATCH {options}\n{commands}\n".replace("@@", "")
    findings = judged(text, small)
    return [(one.code, one.place.line, one.severity) for one in findings]


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("srun -n 2 python train.py", 3),
        ("torchrun --nproc_per_node=2 train.py", 3),
        ("python train.py", 0),
        ("srun -n 2 python gone.py", 0),
    ],
)
def test_wandb_init_of_every_rank(command: str, line: int, small: Catalog, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import wandb\nwandb.init()\n")
    lines = [one[1] for one in found("-p gpu -N 1 -n 2", command, small) if one[0] == "NC314"]
    assert lines == [line] * (line > 0)


@pytest.mark.parametrize(("code", "options", "commands"), FOUND)
def test_a_defect_is_found_on_its_line(
    code: str, options: str, commands: str, small: Catalog
) -> None:
    told = found(options, commands, small)
    line = f"\n#SBATCH {options}\n{commands}".partition("@@")[0].count("\n") + 1
    assert (code, line) in [each[:2] for each in told]
    assert {each[0] for each in told if each[2] == "error"} <= {code}


def test_the_directory_of_a_script_whose_directives_come_too_late(small: Catalog) -> None:
    text = f'#!/bin/bash\nset -e\n#SBATCH {GPU}\ncd "$(dirname "$0")"\npython t.py\n'
    told = {(one.code, one.place.line) for one in judged(text, small)}
    assert {("NC603", 3), ("NC645", 4)} <= told


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
        findings = judged(f"#!/bin/bash -l\n#SBATCH {EACH}\n{commands}\n", small)
        codes = ("NC621", "NC622", "NC624", "NC632", "NC642")
        return [one.hint for one in findings if one.code in codes]

    (hint,) = hints(f"{srun}torchrun --nproc_per_node=4 t.py")
    options, before = re.search("--nnodes[^,]*", hint), re.search(r"export FIRST=[^;]*", hint)
    assert options and before
    line = f'srun --ntasks="$SLURM_NNODES" --ntasks-per-node=1 torchrun {options[0]} '
    assert hints(f"{before[0]}\n{line}--nproc_per_node=4 t.py") == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("conda activate x\npython t.py", [3]),
        ("module load gcc/12 cuda\nconda activate x\npython t.py", [3, 4]),
        ("module load anaconda3\nconda activate x\npython t.py", [3]),
        ('eval "$(conda shell.bash hook)"\nconda activate x\npython t.py', []),
        ("uenv miniconda3-py39\nconda activate x\npython t.py", []),
        ("source activate x\npython t.py", [3]),
        ("conda init\npython t.py", [3]),
        ("conda activate x\nconda init\npython t.py", [3, 4]),
        ("conda init\nsource ~/.bashrc\npython t.py", []),
        ("PATH=$HOME/conda/bin:$PATH\nsource activate x\npython t.py", []),
    ],
)
def test_conda_and_module_in_a_shell_that_is_no_login_shell(
    text: str, lines: List[int], small: Catalog
) -> None:
    findings = judged(f"#!/bin/bash\n#SBATCH {GPU}\n{text}\n", small)
    assert [one.place.line for one in findings if one.code == "NC638"] == lines


@pytest.mark.parametrize(
    ("log", "reason", "hint"),
    [
        ("logs/", "a directory, and no file", "write logs/%x-%j.log"),
        ("~/a.log", "no path, as sbatch does not expand ~", "such as /home/NAME/logs/%x-%j.log"),
        ("~/logs/", "no path, as sbatch does not expand ~", "such as /home/NAME/logs/%x-%j.log"),
    ],
)
def test_the_hint_for_a_log_that_is_no_file(
    log: str, reason: str, hint: str, small: Catalog
) -> None:
    findings = judged(f"#!/bin/bash\n#SBATCH {GPU} -o {log}\npython t.py\n", small)
    (finding,) = [one for one in findings if one.code == "NC606"]
    assert finding.message.startswith(f"--output={log} is {reason};")
    assert finding.hint.endswith(hint)


def test_the_cluster_whose_module_needs_a_login_shell_is_named(small: Catalog) -> None:
    findings = judged(f"#!/bin/bash\n#SBATCH {GPU}\nmodule load gcc\n", small)
    (message,) = [one.message for one in findings if one.code == "NC638"]
    assert message == "on small, module exists only in login shells"


def test_a_program_that_states_another_size(small: Catalog) -> None:
    Path("t.py").write_text("from lightning import Trainer\nTrainer(devices=4, num_nodes=2)\n")
    assert ("NC306", 3, "warning") in found(GPUS, "srun python t.py", small)
    right = found(NODES, "srun python t.py", small)
    moved = found(GPUS, "cd /tmp\nsrun python t.py", small)
    Path("t.py").write_text("from lightning import Trainer\nTrainer(devices=1)\n")
    one_device = found(GPUS, "srun python t.py", small)  # NC625 reports it
    assert "NC306" not in {each[0] for each in (*right, *moved, *one_device)}
