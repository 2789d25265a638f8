"""Scripts with one known defect at a known line: each is found there, and nothing else is an error.

``@@`` marks the line. Each defect is planted in three scripts that are right.
"""

from __future__ import annotations

from pathlib import Path
from typing import List, Tuple

import pytest

from neuronctl.catalog.model import Catalog
from neuronctl.submission.judged_script import judge_text

GPU = "#SBATCH -p gpu --gpus-per-node=1 -N 1"
GPUS = "#SBATCH -p gpu --gpus-per-node=4 -N 1 --ntasks-per-node=4"
NODES = "#SBATCH -p gpu --gpus-per-node=4 -N 2 --ntasks-per-node=4"
TWO = "#SBATCH -p gpu --gpus-per-node=4 -N 2"
ONE_EACH = "#SBATCH -p gpu --gpus-per-node=4 -N 3 --ntasks-per-node=1"
EACH = "#SBATCH -p gpu --gpus-per-node=4 -N 2 --ntasks-per-node=1"
RUN = "srun python train.py"

# (code, directives, commands)
DEFECTS: List[Tuple[str, str, str]] = [
    ("NC601", f"{GPU}\n#SBATCH --tiem=10@@", RUN),
    ("NC601", f"{GPU}\n#SBATCH —-time=10@@", RUN),
    ("NC601", f"{GPU}\n#SBATCH -J my job@@", RUN),
    ("NC601", f"{GPU}\n#SBATCH --time=2h@@", RUN),
    ("NC601", f"{GPU}\n#SBATCH --nodes=$COUNT@@", RUN),
    ("NC601", f"{GPU}\n#SBATCH --comment='open@@", RUN),
    ("NC603", GPU, f"cd /tmp\n#SBATCH --time=10@@\n{RUN}"),
    ("NC603", GPU, f"A=1\n\n# words\n#SBATCH -J late@@\n{RUN}"),
    ("NC604", f"{GPU}\n #SBATCH --time=10@@", RUN),
    ("NC604", f"{GPU}\n#SBATCH --time=10 #SBATCH -J x@@", RUN),
    ("NC604", f"{GPU}\n#sbatch --time=10@@", RUN),
    ("NC605", f"{GPU}\n#SBATCH -t 10@@\n#SBATCH --time=20", RUN),
    ("NC605", f"{GPU}\n#SBATCH --job-name=a@@\n#SBATCH -J b", RUN),
    ("NC606", f"{GPU}\n#SBATCH -o /logs/$USER/x.out@@", RUN),
    ("NC606", f"{GPU}\n#SBATCH -e run-${{SLURM_JOB_ID}}.err@@", RUN),
    ("NC608", f"{GPU}\n#BSUB -W 10@@", RUN),
    ("NC611", "#SBATCH -p gpu --gpus-per-node=1\n#SBATCH -N 3 -n 1@@", RUN),
    ("NC611", "#SBATCH -p gpu --gpus-per-node=1\n#SBATCH -n 1 --ntasks-per-node=6@@", RUN),
    ("NC612", f"{GPU}\n#SBATCH -t 08:00@@", RUN),
    ("NC613", f"{GPU}\n#SBATCH --export=ALL,HCA=mlx5_0,mlx5_1@@", RUN),
    ("NC613", f"{GPU}\n#SBATCH --export=A=1@@", RUN),
    ("NC613", f"{GPU}\n#SBATCH --export=A=1@@", "python t.py"),
    ("NC614", "#SBATCH -p gpu -N 1\n#SBATCH --ntasks-per-node=4 --gpus-per-task=1@@", RUN),
    ("NC616", "#SBATCH -p gpu --gpus-per-node=1\n#SBATCH --gres=gpu:1@@", RUN),
    ("NC616", "#SBATCH -p gpu --gres=gpu:a100:1\n#SBATCH --gpus-per-node=1@@", RUN),
    ("NC616", "#SBATCH -p gpu --gpus-per-node=2 -N 2\n#SBATCH --gpus=5@@", RUN),
    ("NC631", GPUS, 'srun bash -c "python t.py $SLURM_PROCID"@@'),
    ("NC631", GPUS, "srun python t.py --local ${SLURM_LOCALID}@@"),
    ("NC631", NODES, "srun python t.py --node=$SLURM_NODEID@@"),
    ("NC632", GPU, f"export MASTER_PORT=12345@@\n{RUN}"),
    ("NC632", GPU, "torchrun --nproc_per_node=1 --master_port 29501 t.py@@"),
    ("NC633", GPU, "export CUDA_VISIBLE_DEVICES=2@@\npython t.py"),
    ("NC633", GPUS, "export CUDA_VISIBLE_DEVICES=7@@\nsrun ./a\npython t.py"),
    ("NC633", GPUS, 'export CUDA_VISIBLE_DEVICES=7@@\nsrun ./a\n"$B" t.py'),
    (
        "NC616",
        "#SBATCH -p gpu --gpus-per-node=1\n#SBATCH --gres=gpu:1@@\n#SBATCH -n 1 --gpus-per-task=1",
        RUN,
    ),
    ("NC632", GPU, "MASTER_PORT=1234@@\necho $MASTER_PORT\npython t.py --port $MASTER_PORT"),
    ("NC646", GPU, "python t.py\nkill $A\nkillall b@@"),
    ("NC633", GPU, "CUDA_VISIBLE_DEVICES=1 python t.py@@"),
    ("NC634", f"{GPU}\n#SBATCH -o out/%j.txt", f"mkdir -p out@@\n{RUN}"),
    ("NC635", f"{GPU}\n#SBATCH --signal=B:TERM@300@@", RUN),
    ("NC635", f"{GPU}\n#SBATCH --signal=B:10@60@@", f"trap 'echo x' EXIT\n{RUN}"),
    ("NC635", f"{GPU}\n#SBATCH --signal=b:sigterm@60@@", RUN),
    ("NC636", f"{GPU} --signal=B:USR1@60", f"trap 'touch x' SIGUSR1@@\n{RUN}"),
    ("NC637", GPU, f"export OMP_NUM_THREADS=16@@\n{RUN}"),
    ("NC640", GPU, f"export API_KEY=abcdefgh12345678@@\n{RUN}"),
    ("NC642", NODES, f"export MASTER_ADDR=127.0.0.1@@\n{RUN}"),
    ("NC643", GPU, f"{RUN}\nfi@@"),
    ("NC643", GPU, f"{RUN}\nif true; then\n  ./a\n}}@@"),
    # As other people phrase them.
    ("NC601", f"{GPU}\n#SBATCH --array=1-10:@@", RUN),
    ("NC601", f"{GPU}\n#SBATCH --array=1..10@@", RUN),
    ("NC601", f"{GPU}\n#SBATCH --time = 1:00:00@@", RUN),
    ("NC613", f"{GPU}\n#SBATCH --export=NONE@@", RUN),
    ("NC632", GPU, "MASTER_PORT=12355 python t.py@@"),
    ("NC632", GPU, "torchrun --nproc-per-node=1 --rdzv_endpoint=$HOST:29500 t.py@@"),
    ("NC632", GPU, 'torchrun --nproc-per-node=1 --rdzv-endpoint "$HOST:29500" t.py@@'),
    ("NC635", f"{GPU}\n#SBATCH --signal=USR1@120", f"trap 'touch s' USR1@@\n{RUN} & wait"),
    ("NC640", GPU, f"wandb login {'0123456789abcdef' * 2}@@\n{RUN}"),
    ("NC121", "#SBATCH -p gpu -N 1\n#SBATCH --gres=gpu:9@@", "srun -n9 ./x"),
    ("NC101", "#SBATCH --gres=gpu:1\n#SBATCH --partition=gup@@", RUN),
    ("NC111", "#SBATCH -p gpu --gres=gpu:1\n#SBATCH -N 9@@", RUN),
    ("NC131", "#SBATCH -p gpu --gres=gpu:1 -N 1\n#SBATCH -c 64@@", "./x"),
    ("NC134", f"{GPU}\n#SBATCH --mem=900G@@", RUN),
    ("NC141", f"{GPU}\n#SBATCH --time=9-0@@", RUN),
    # A launcher that starts once in a job of several nodes.
    # A rank that comes by another variable.
    (
        "NC631",
        ONE_EACH,
        "R=$SLURM_NODEID\nsrun torchrun --nnodes 3 --master_addr=$H --node_rank $R t.py@@",
    ),
    ("NC631", ONE_EACH, 'R=$SLURM_NODEID\nC="python t.py $R"\nsrun bash -c "$C"@@'),
    ("NC631", NODES, "R=$((SLURM_NODEID * 4))\nsrun python t.py --from=$R@@"),
    ("NC644", ONE_EACH, "MASTER_ADDR=$(hostname)@@\necho $MASTER_ADDR\nsrun python t.py"),
    ("NC644", ONE_EACH, "MASTER_ADDR=$(hostname)@@\nsrun bash -c 'python t.py $MASTER_ADDR'"),
    ("NC644", GPU, "HF_HOME=/scratch/x@@\npython t.py"),
    ("NC644", ONE_EACH, "L='python t.py'@@\nsrun bash -c '$L --rank $SLURM_PROCID'"),
    ("NC644", ONE_EACH, 'MASTER_ADDR=$(hostname)@@\nsrun bash -c "python t.py \\$MASTER_ADDR"'),
    (
        "NC631",
        ONE_EACH,
        "cat >r.sh <<E\ntorchrun --node_rank $SLURM_NODEID@@ t.py\nE\nsrun bash r.sh",
    ),
    # Steps that wait for one another.
    # Directives.
    ("NC601", "#SBATCH -p gpu -N 1\n#SBATCH --gres=gpu=1@@", RUN),
    ("NC601", "#SBATCH -p gpu -N 1\n#SBATCH --gres=gpu=a100:1@@", RUN),
    ("NC601", "#SBATCH -p gpu -N 1\n#SBATCH --gres=gres:gpu:1@@", RUN),
    ("NC601", "#SBATCH -p gpu -N 1\n#SBATCH --gres=gpus:1@@", RUN),
    ("NC601", "#SBATCH -p gpu -N 1\n#SBATCH --gres=gpu:1:a100@@", RUN),
    ("NC601", "#SBATCH -p gpu -N 1\n#SBATCH --gpus-per-node=gpu:1@@", RUN),
    ("NC606", "#SBATCH -p gpu -N 1\n#SBATCH --gpus-per-node=${X}@@", RUN),
    ("NC606", "#SBATCH --gres=gpu:1\n#SBATCH --partition=$P@@", RUN),
    ("NC612", f"{GPU}\n#SBATCH --time=00:00:05@@", RUN),
    # Launchers in variables, and what they are told.
    ("NC642", ONE_EACH, "srun torchrun --nnodes=3 --rdzv_endpoint=localhost:$P t.py@@"),
    ("NC642", ONE_EACH, 'H=localhost\nsrun torchrun --nnodes=3 --rdzv-endpoint "$H:$P" t.py@@'),
    ("NC642", ONE_EACH, "srun bash -c 'torchrun --nnodes=3 --rdzv_endpoint=$(hostname):1 t.py'@@"),
    # Log directories.
    ("NC634", f"{GPU}\n#SBATCH -o logs/%j.txt", f'mkdir -p "$SLURM_SUBMIT_DIR/logs"@@\n{RUN}'),
    ("NC634", f"{GPU}\n#SBATCH -o logs/%j.txt", f"mkdir -p logs/a@@\n{RUN}"),
    ("NC634", f"{GPU}\n#SBATCH -e /tmp/%u/x/%j.err", f"mkdir -p /tmp/${{USER}}/x@@\n{RUN}"),
    # The shell.
    ("NC637", f"{GPU} -c 8", "OMP_NUM_THREADS=80 torchrun --nproc_per_node 1 t.py@@"),
    ("NC643", GPU, "python x.py --name <NAME>@@"),
    ("NC643", GPU, "python x.py --name <your_name> --more 1@@"),
    ("NC643", GPU, "cd /scratch/<user>/code@@"),
    ("NC643", GPU, "export HF_TOKEN=<your-token>@@ # from the site"),
    ("NC643", GPU, "python t.py --data </path/to/data>@@"),
    ("NC645", GPU, 'source "$(dirname "$0")/env.sh"@@\npython t.py'),
    ("NC645", GPU, 'D="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"@@\npython $D/t.py'),
    ("NC645", GPU, "cd ${0%/*}@@\npython t.py"),
    ("NC646", GPU, "set -e\npython t.py | tee log@@"),
    ("NC646", GPU, 'if [ -z "$1" ]; then\n  echo "Which?"\n  exit@@\nfi\npython t.py'),
    ("NC646", GPU, "if [ $# -ne 2 ]; then\n  exit@@\nfi\npython t.py"),
    ("NC646", GPU, "cd x || { echo 'no such directory'; exit 0; }@@\npython t.py"),
    ("NC660", GPU, "# for i in 1 2; do\npython t.py $i@@\n# done"),
    ("NC660", GPU, "$starccm+ -batch a.sim@@\npython t.py"),
    ("NC643", f"{GPU}\n#SBATCH -A your_account@@", RUN),
    ("NC643", f"{GPU}\n#SBATCH -o /path/to/logs/%j.out@@", RUN),
    ("NC643", GPU, "DATA=/path/to/data@@\npython t.py $DATA"),
    ("NC612", f"{GPU} -t 0-00:01@@", "make\n./main"),
    ("NC660", GPU, "matlab -batch 'run($SLURM_JOB_ID)'@@"),
    ("NC649", GPU, "python t.py \\\n  --a=1\n  --run=$R@@"),
    # Programs of one GPU, and of none.
    ("NC612", f"{GPU} -t 00:01:00@@", "python train.py"),
    ("NC632", GPU, "P=8888\njupyter lab --port=$P@@"),
    ("NC646", GPU, "python t.py | tee log@@"),
    ("NC646", GPU, "set -x -e\nsrun python t.py | tee log@@\necho end"),
    ("NC646", GPU, "set -eu\nsrun python t.py 2>&1 | tee -a log@@"),
    ("NC648", ONE_EACH, "export NCCL_IB_DISABLE=1@@\nsrun python t.py"),
    ("NC648", ONE_EACH, "NCCL_IB_DISABLE=1 srun python t.py@@"),
    ("NC649", GPU, "python t.py \\ \n  --lr 2@@"),
    ("NC649", GPU, "python t.py \\\n  --a 1\n  --lr 2@@"),
    ("NC649", GPU, "python t.py \\\n  --a 1 \\\n  # --b 2 \\\n  --lr 2@@"),
    # What is lost when the job ends.
    ("NC658", GPU, f"salloc -p gpu --gpus=1@@\n{RUN}"),
    ("NC658", GPU, "srun --pty bash@@"),
    ("NC604", f"{GPU}\n# SBATCH --time=10@@", RUN),
    ("NC604", f"{GPU}\n#SBACTH --time=10@@", RUN),
    ("NC646", GPU, f"{RUN} || true@@"),
    ("NC643", "#SBATCH --gres=gpu:1\n#SBATCH --partition=<partition_name>@@", RUN),
    ("NC604", f"{GPU}\n#BATCH --time=10@@", RUN),
    ("NC635", f"{GPU}\n#SBATCH --signal=INT@60@@", "python t.py"),
    ("NC638", GPU, "conda init bash@@\npython t.py"),
    ("NC604", f"{GPU}\n#SBATCG --time=10@@", RUN),
    ("NC649", GPU, "python t.py \\ \n  ++lr=2@@"),
    ("NC660", GPU, "python t.py --workers $SLURM_CPUS_PER_TASK@@"),
    ("NC660", "#SBATCH -p gpu --gres=gpu:1", "python t.py --gpus=$SLURM_GPUS_PER_NODE@@"),
    (
        "NC631",
        ONE_EACH,
        'srun bash -c "torchrun --nnodes 3 --rdzv_endpoint=$H:1'
        ' --rdzv_conf=is_host=$((SLURM_NODEID == 0)) t.py"@@',
    ),
]

DEFECTS += [
    ("NC649", GPU, "set OMP_NUM_THREADS=2@@\npython t.py"),
    ("NC615", GPU, "python t.py \u2013-lr 1@@"),
    ("NC615", GPU, "python\u00a0t.py@@"),
    ("NC615", GPU, "A=${\u200bHOME}@@\npython t.py $A"),
    ("NC635", f"{GPU}\n#SBATCH --signal=TERM@60@@", "$HOME/bin/marian -c x"),
    ("NC643", GPU, "conda activate {Environment Name}@@\npython t.py"),
    ("NC643", GPU, "python t.py --data {path}@@"),
    ("NC643", "#SBATCH --gres=gpu:1\n#SBATCH --partition={partition}@@", RUN),
    ("NC635", f"{GPU}\n#SBATCH --signal=B:USR1@30@@", f". ./config.sh\n{RUN}"),
    ("NC660", GPU, "python t.py --out $out@@\nout=results"),
    ("NC660", GPU, "log=$out/log@@\nout=results\npython t.py $out $log"),
    ("NC612", f"{GPU}\n#SBATCH -t 2@@", "python train.py"),
    ("NC612", f"{GPU}\n#SBATCH --time=48@@", "srun python -m finetune"),
    ("NC633", GPUS, "CUDA_VISIBLE_DEVICES=1 python t.py@@\nCUDA_VISIBLE_DEVICES=1 python u.py"),
    ("NC643", f"{GPU}\n#SBATCH -o <your-path>/logs/%j@@", RUN),
    ("NC646", GPU, "zcat x | python t.py | gzip > y@@"),
    ("NC649", GPU, "python t.py --a 1\\\n--b 2@@"),
    ("NC649", GPU, "i=1\nif [$i = 1]; then@@\n  python t.py\nfi"),
    # What many people's scripts have.
    ("NC606", f"{GPU}\n#SBATCH -o logs/@@", RUN),
    ("NC606", f"{GPU}\n#SBATCH --error=~/x.err@@", RUN),
    ("NC612", f"{GPU}\n#SBATCH --mem=64@@", RUN),
    ("NC612", f"{GPU} -c 2\n#SBATCH --mem-per-cpu=8@@", RUN),
    ("NC633", f"{GPU} --array=0-3", "CUDA_VISIBLE_DEVICES=$SLURM_ARRAY_TASK_ID python t.py@@"),
    ("NC633", TWO, "for i in 0 1 4; do\n  CUDA_VISIBLE_DEVICES=$i python t.py $i &@@\ndone\nwait"),
    ("NC633", TWO, 'for i in {0..7}; do\n  CUDA_VISIBLE_DEVICES="$i" ./x &@@\ndone\nwait'),
    ("NC637", f"{GPU} -c 4", "gmx mdrun -ntmpi 2 -ntomp 8@@"),
    ("NC637", f"{GPU} -c 4", "make -j64@@"),
    ("NC637", f"{GPU} -c 4", "python t.py --num_workers=16@@"),
    ("NC638", GPU, "bash venv/bin/activate@@\npython t.py"),
    ("NC638", GPU, "./venv/bin/activate@@\npython t.py"),
    ("NC642", ONE_EACH, "export MASTER_ADDR=$SLURM_JOB_NODELIST@@\nsrun python t.py"),
    ("NC642", ONE_EACH, "master=${SLURM_NODELIST:0:9}@@\nsrun python t.py --url tcp://$master:1"),
    ("NC649", GPU, "LR = 0.1@@\npython t.py --lr $LR"),
    ("NC649", GPU, "$LR=0.1@@\npython t.py --lr $LR"),
    ("NC649", GPU, "LR= 0.1@@\npython t.py --lr $LR"),
    ("NC649", GPU, "python t.py --a 1 \\\n  --b 2 \\\nwait@@"),
    ("NC649", GPU, "python t.py --a 1 \\\npython u.py@@"),
    ("NC649", GPU, "pip install numpy>=1.2@@"),
    ("NC658", GPU, "docker run -it --gpus all image python t.py@@"),
    ("NC660", GPU, "DATA_DIR=/x\npython t.py --data $DATADIR@@"),
    ("NC660", GPU, "python t.py --data /x/$SLURM_JOB_NODE_LIST@@"),
    ("NC660", GPU, "mpirun -np $SLURM_NTASKS ./x@@"),
    ("NC612", "#SBATCH -p cpu -N 1\n#SBATCH --mem-per-cpu=1@@", RUN),
    ("NC612", "#SBATCH -p cpu -N 1 -n 4\n#SBATCH --mem=8@@", "srun ./x"),
    ("NC649", GPU, "python t.py a=1\n  train.lr=2@@ \\\n  b=3"),
    ("NC649", GPU, "export PYTHONPATH=/a:/b:\\\n  /c:$PYTHONPATH@@\npython t.py"),
    ("NC649", GPU, "export LD_LIBRARY_PATH=/a/lib:\n/b/lib@@\npython t.py"),
    ("NC642", GPUS, "srun bash -c 'export MASTER_PORT=$((9000 + RANDOM)); python t.py'@@"),
    ("NC642", NODES, 'srun bash -c "MASTER_PORT=\\$(shuf -i 1-9 -n 1) python t.py"@@'),
    ("NC646", GPU, "set +e\npython t.py@@\nset -e\necho end"),
    (
        "NC632",
        GPUS,
        "P=4321\nfor i in 1 2; do\n  torchrun --master_port $P t.py $i &@@\ndone\nwait",
    ),
    ("NC643", GPU, "python t.py --entity your-entity@@"),
    ("NC643", GPU, "torchrun --nproc_per_node=1 your_script.py@@"),
    ("NC634", f"{GPU}\n#SBATCH -o logs/%j.txt", 'R="${R:-$PWD}"\nmkdir -p "${R}/logs"@@\n' + RUN),
    ("NC646", GPU, "python t.py | head -100@@"),
    ("NC660", GPU, "ROOT_DIR=/x\nA=$ROOT_DIR/y\ncd $ROOT_DRI@@\npython t.py $A"),
    ("NC646", GPU, 'python t.py\nscancel "$SLURM_JOB_ID"@@'),
    ("NC649", GPU, "python t.py \\\n  a=1 \\\n  b=2\n  c=3 \\@@\n  d=4"),
    ("NC643", f"{GPU}\n#SBATCH -w nodeX@@", RUN),
    ("NC643", f"{GPU}\n#SBATCH --nodelist=node_name@@", RUN),
    ("NC660", GPU, "cd ${where}@@\npython t.py"),
    ("NC646", GPU, "for i in 1 2; do\n  python t.py $i\ndone\nmy-job-stats -a@@"),
    ("NC646", GPU, "for i in 1 2; do\n  python t.py $i\n  echo $i@@\ndone"),
    ("NC646", GPU, "python t.py\necho done@@"),
    ("NC646", GPU, "gmx mdrun -nt 1\nconda deactivate\ndate@@\nexit"),
    ("NC646", GPUS, "for i in 1 2; do\n  python t.py $i &\ndone\nwait@@\necho done"),
    (
        "NC660",
        GPU,
        "ENSEMBLE_A=1\nENSEMBLE_B=1\nENSEMBLE_C=1\nENSEMBLE_D=1\nENSEBLE_E=1@@\npython t.py",
    ),
    ("NC648", "#SBATCH -p cpu -N 2", "export NCCL_IB_DISABLE=1@@\nsrun --gres=gpu:2 python t.py"),
    ("NC648", GPU, "export CUDA_LAUNCH_BLOCKING=1@@\npython t.py"),
    ("NC660", GPU, 'if [ -z "$SLURM_GPUS" ]; then@@\n  echo none\n  exit 0\nfi\npython t.py'),
    ("NC660", GPU, '[[ -z "${SLURM_NTASKS}" ]] && exit 1@@\npython t.py'),
    ("NC660", GPU, "proj2_DIR=/x\ncd $PROJ_DIR@@\npython t.py"),
    ("NC660", GPU, "# in=. sbatch job.sh\npython t.py $in ${outDir}@@"),
    ("NC660", GPU, "NGPU=2\nA=$((64 / $NGPU))\nB=$((A / $NGPUS))@@\npython t.py $A $B"),
]

FOUR = "#SBATCH -p gpu --gres=gpu:4 -N 1"
MPI = "#SBATCH -p cpu -N 2 --ntasks-per-node=3"
KEY = "17a0123456789abcdef0123456789abcdef01234"
DEFECTS += [
    ("NC643", "#SBATCH --gres=gpu:1\n#SBATCH --partition=@@", RUN),
    ("NC643", f"{GPU}\n#SBATCH --account=@@", RUN),
    ("NC643", f"{GPU}\n#SBATCH --qos=@@", RUN),
    ("NC643", f"{GPU}\n#SBATCH --array=0-9%TASKS@@", "python t.py $SLURM_ARRAY_TASK_ID"),
    ("NC640", GPU, "set -x\nexport $(grep -v '^#' .env | xargs)@@\npython t.py"),
    ("NC640", GPU, "set -euxo pipefail\nsource $HOME/run/.env@@\npython t.py"),
    ("NC640", GPU, "set -o xtrace\nset -a\n. ./.env@@\npython t.py"),
    ("NC640", GPU, f"WANDB_API_KEY=${KEY}@@\npython t.py"),
    ("NC646", GPU, 'python t.py\necho ""\necho "Exit code: $?"@@\necho end'),
    ("NC646", GPU, "python t.py\necho done # with it\ncode=$?@@\nexit $code"),
    ("NC646", GPU, "python t.py\necho done >> log; exit $?@@"),
    ("NC646", GPU, "python t.py\necho done\nif [ $? -ne 0 ]; then@@\n  exit 1\nfi"),
    ("NC646", GPU, "perun monitor t.py\nexit 0@@"),
    ("NC646", GPU, 'python t.py\ncode=$?\necho "code: $code" >> log@@'),
    ("NC646", GPU, 'python t.py\necho "code: $?"@@'),
    # Work in a branch, in a text, in a function, in $( ), and what only wraps up behind it.
    ("NC646", GPU, "if python t.py; then\n  echo done@@\nfi"),
    ("NC646", GPU, "if [ -f x ]; then\n  python t.py\nelse\n  python u.py\nfi\necho done@@"),
    ("NC646", GPU, "python t.py || echo failed@@"),
    ("NC646", GPU, "(python t.py)\necho done@@"),
    ("NC646", GPU, 'while read x; do python t.py "$x"; done < list\necho done@@'),
    ("NC646", GPU, 'cmd=$(sed -n 1p list)\neval "$cmd"\nexit 0@@'),
    ("NC646", GPU, "f() {\n  python $1\n}\nf t.py\nf u.py\necho done@@"),
    ("NC646", GPU, 'cd /x\nn=$(bedtools intersect -a x -b y)\necho "$n"@@'),
    ("NC646", GPU, "for x in *; do\n  cat a/$x b/$x > c/$x\ndone\necho done@@"),
    ("NC646", GPU, "trap 'echo end' TERM\npython t.py\necho done@@"),
    ("NC646", GPU, "bash t.sh\ncd /\nrmdir x@@"),
    ("NC646", GPU, "prog a > b\nprog -v@@"),
    ("NC646", GPU, "python t.py | tee log@@\ncp -r a b\necho done"),
    ("NC646", GPU, "python t.py\necho done\n# so\n# that\nexit $?@@"),
    ("NC646", GPU, "set -e\npython t.py\n[ -f x ] && rm x@@"),
    ("NC646", GPU, "python t.py &\nA=$!\npython u.py &\nwait $A\nwait $!\necho done@@"),
]

# (code that must not be found, directives, commands): right, and almost one of the above.
RIGHT: List[Tuple[str, str, str]] = [
    ("NC612", "#SBATCH -p cpu -N 1 -n 64 --mem-per-cpu=1", "srun ./x"),
    ("NC612", f"{GPU} -t 5", "python train.py"),
    ("NC643", f"{GPU}\n#SBATCH --comment=\n#SBATCH --constraint=", RUN),
    ("NC643", f"{GPU}\n#SBATCH --array=0-9%4", "python t.py $SLURM_ARRAY_TASK_ID"),
    ("NC640", GPU, "export $(grep -v '^#' .env | xargs)\nset -x\npython t.py"),
    ("NC640", GPU, "set -x\nset +x\nsource .env\npython t.py"),
    ("NC640", GPU, "set -x\nsource .venv/bin/activate\nls .env\npython t.py"),
    ("NC640", GPU, "WANDB_API_KEY=$1\npython t.py --token=$2"),
    ("NC640", GPU, "WANDB_API_KEY=$a0123456789abcdef0123456789abcdef\npython t.py"),
    ("NC646", GPU, 'python t.py\ncode=$?\necho "code: $code"\nexit $code'),
    ("NC646", GPU, "echo start\npython t.py\nexit $?"),
    ("NC646", GPU, "python t.py\necho 'print $?'\npython u.py"),
    ("NC646", GPU, "python t.py\necho end\ntest -f out\nexit $?"),
    ("NC646", GPU, "f() {\n  python t.py\n}\nf\nexit $?"),
    ("NC633", GPUS, "export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7\nsrun python t.py"),
    ("NC633", GPUS, "CUDA_VISIBLE_DEVICES=7 srun python t.py\npython u.py"),
    (
        "NC632",
        GPU,
        "MASTER_PORT=1234\necho $MASTER_PORT\n# torchrun --master_port $MASTER_PORT t.py",
    ),
    ("NC660", f"{GPU}\n# Usage: sbatch job.sh <config>", 'python t.py "$1"'),
    ("NC660", f"{GPU}\n# Usage: sbatch job.sh <config>", 'python t.py "${@:2}"'),
    ("NC660", f"{GPU}\n# Usage: sbatch other.sh <config>", "python t.py"),
    ("NC660", f"{GPU}\n# Usage: sbatch --array=1-4 job.sh", "python t.py"),
    ("NC660", f"{GPU}\n# sbatch job.sh  then look at the log", "python t.py"),
    (
        "NC633",
        "#SBATCH -p gpu --gpus-per-node=4 -N 1",
        "CUDA_VISIBLE_DEVICES=0\n./a &\nCUDA_VISIBLE_DEVICES=3\n./a &\nwait",
    ),
    ("NC640", GPU, 'if [ -n "$HF_TOKEN" ]; then\n  echo "HF_TOKEN: Set"\nfi\npython t.py'),
    ("NC640", GPU, "python launch.py --gradio-auth USERNAME:PASSWD"),
    ("NC643", GPU, "D=${D:-/path/to/data}\npython t.py --data $D"),
    ("NC612", f"{GPU} --time=48", "python evaluate.py"),
    ("NC612", f"{GPU} --time=120", "python train.py"),
    ("NC612", f"{GPU} --time=0", "python train.py"),
    ("NC640", GPU, 'TOKEN=$(python3 -c "import secrets; print(secrets.token_hex(24))")'),
    (
        "NC645",
        GPU,
        'D=$(dirname "$0")\nif [ -f "$SLURM_SUBMIT_DIR/a" ]; then\n'
        '  D="$SLURM_SUBMIT_DIR"\nfi\npython $D/t.py',
    ),
    ("NC649", GPU, "python t.py a=1 \\\n  train.lr=2 \\\n  b=3"),
    ("NC649", GPU, "export PYTHONPATH=/a:/b:\\\n/c:$PYTHONPATH\npython t.py"),
    ("NC604", f"{GPU}\n# sbatch --account NAME --cpus-per-task N check.slurm SHARDS", RUN),
    ("NC632", GPUS, "for i in 1 2; do\n  torchrun --master_port $((4321 + i)) t.py &\ndone\nwait"),
    ("NC632", GPUS, "P=$RANDOM\nfor i in 1 2; do\n  torchrun --master_port $P t.py\ndone"),
    ("NC643", GPU, "python t.py --name yours --entity your-own-thing"),
    ("NC612", f"{GPU} --time=00:00:60", "python t.py"),
    ("NC634", f"{GPU}\n#SBATCH -o logs/%j.txt", "R=${R:-/x}\nmkdir -p $R/logs\npython t.py"),
    ("NC646", GPU, "ls | head -100\npython t.py | tail -5\nhead -1 x"),
    ("NC660", GPU, "ROOT_DIR=/x\ncd $ROOT_DIR\nsource settings.sh\ncd $ROOT_DRI\npython t.py"),
    ("NC635", f"{GPU} --signal=HUP@90", "conda activate <ENV>\nsrun python t.py"),
    ("NC646", GPU, "python t.py\nscancel 123"),
    ("NC649", GPU, "python t.py \\\n  a=1 \\\n  b=2\nc=3"),
    ("NC666", GPU, "conda activate <ENV>\npython t.py"),
    ("NC642", GPUS, "export MASTER_PORT=$((9000 + RANDOM))\nsrun bash -c 'python t.py'"),
    ("NC642", GPUS, 'srun bash -c "MASTER_PORT=$((9000 + RANDOM)) python t.py"'),
    ("NC646", GPU, "set +e\npython t.py\nset -e\nif [ -f out ]; then\n  exit 1\nfi"),
    ("NC646", GPU, "set +e\npython t.py\ncode=$?\nset -e\nexit $code"),
    ("NC648", EACH, "export FI_PROVIDER=efa NCCL_IB_DISABLE=1\nsrun python t.py"),
    ("NC660", GPU, "PATH=$PATH:x\nIFS=,\npython t.py"),
    ("NC660", GPU, "run() {\n  python t.py $out\n}\nout=results\nrun"),
    ("NC660", GPU, "out=a\npython t.py --out $out\nout=b\npython t.py --out $out"),
    ("NC660", GPU, "python t.py --out ${out:-a}\nout=b\npython t.py --out $out"),
    ("NC649", GPU, 'echo "$( \\\n  --lr 2)"\npython t.py'),
    ("NC649", GPU, "\\\n  --lr 2\npython t.py"),
    ("NC606", f"{GPU} -o logs/x", RUN),
    ("NC101", "#SBATCH --partition=$P --gpus-per-node=1", RUN),
    ("NC644", GPU, "CUDA_VISIBLE_DEVICES=0\npython t.py"),
    ("NC649", GPU, "set -- A=1 b\nset -e\npython t.py"),
    ("NC632", GPU, "MASTER_PORT=1234\necho $MASTER_PORT\ntorchrun t.py"),
    ("NC643", GPU, "conda activate NAME\npython t.py"),
    ("NC601", f"{GPU}\n#SBATCH --array=0-${{N}}", RUN),
    ("NC643", GPU, "find . -exec ls {} +\nawk '{print}' x\nls {a,b} {1..3} a{b}\n{ ls; }"),
    ("NC615", GPU, "echo \u201cstart\u201d \u2013 now\npython t.py --name '실험 \u2013 1'"),
    (
        "NC633",
        GPUS,
        "CUDA_VISIBLE_DEVICES=1 python t.py &\nCUDA_VISIBLE_DEVICES=2 python u.py\nwait",
    ),
    ("NC643", f"{GPU} -o run-<%j>.log", RUN),
    ("NC649", GPU, "if [ -n $A ] && [[ $A == [0-9]* ]]; then\n  python t.py\nfi"),
    ("NC612", f"{GPU} --mem=64G", RUN),
    ("NC612", f"{GPU} --mem=0", RUN),
    ("NC612", f"{GPU} -c 16 --mem-per-cpu=500", RUN),
    ("NC633", f"{GPUS} --array=0-3", "CUDA_VISIBLE_DEVICES=$SLURM_ARRAY_TASK_ID python t.py"),
    ("NC633", TWO, "for i in 0 1 2 3; do\n  CUDA_VISIBLE_DEVICES=$i python t.py $i &\ndone\nwait"),
    ("NC637", f"{GPU} -c 8", "gmx mdrun -ntmpi 1 -ntomp 8"),
    ("NC637", GPU, "python t.py --num_workers=4"),
    ("NC638", GPU, "source venv/bin/activate\npython t.py"),
    (
        "NC642",
        ONE_EACH,
        "hosts=$SLURM_JOB_NODELIST\nm=$(scontrol show hostnames $hosts | head -n1)",
    ),
    ("NC649", GPU, "CUDA_VISIBLE_DEVICES= python t.py"),
    ("NC649", GPU, "srun \\\n  python t.py --name echo \\\n  --b"),
    ("NC649", GPU, "python t.py --fp16 \\\n\nwait"),
    ("NC649", GPU, "OUT=$A/$B/$1\npython t.py"),
    ("NC649", GPU, "exec julia t.jl\nx = 1"),
    ("NC658", GPU, "conda create -y -n x python\nyes | conda install numpy"),
    ("NC658", GPU, "docker run -itd image"),
    ("NC660", GPU, "DATA_DIR=/x\nfor DATADIR in $DATA_DIR/*; do\n  python t.py $DATADIR\ndone"),
    ("NC660", GPU, "python t.py $DATADIR --job $SLURM_JOB_UID"),
    ("NC660", "#SBATCH -p gpu --gpus-per-node=1 -N 1 -n 1", "mpirun -np $SLURM_NTASKS ./x"),
    ("NC649", GPU, "python t.py a  `# first` \\\n  --b 2  `# next` \\\n  --c 3"),
    ("NC640", GPU, "singularity exec --pwd /data/theradardetectionofall/ a.sif python t.py"),
    ("NC604", f"{GPU}\n#sbatch --export=A=1 -J b train.sbatch", RUN),
    ("NC635", f"{GPU}\n#SBATCH --signal=INT@60", "srun python t.py"),
    ("NC638", GPU, "source ~/.bashrc; conda activate x\npython t.py"),
    ("NC634", f"{GPU}\n#SBATCH -o /scratch/me/%j.txt", "mkdir -p /scratch/me/tmp\npython t.py"),
    ("NC643", f"{GPU}\n#SBATCH -w node1", RUN),
    ("NC660", GPU, "for where in a b; do\n  cd ${where}\n  python t.py\ndone"),
    ("NC660", GPU, "# qsub passes where\ncd ${where}\npython t.py"),
    ("NC646", GPU, "set -e\npython t.py\necho done"),
    ("NC646", GPU, "python t.py\nexit"),
    ("NC646", GPU, "python t.py && echo done"),
    ("NC646", GPU, "for i in 1 2; do\n  python t.py $i || exit 1\n  echo $i\ndone"),
    ("NC646", GPU, "until python t.py; do\n  sleep 60\ndone\necho done"),
    ("NC646", GPU, "while true; do\n  python t.py && break\n  sleep 60\ndone\necho done"),
    ("NC646", GPU, "f() {\n  python $1 || exit 1\n}\nf t.py\nf u.py\necho done"),
    ("NC646", GPU, "trap 'exit 1' ERR\npython t.py\necho done"),
    ("NC646", GPU, "python t.py\n[ $? -eq 0 ]"),
    ("NC646", GPU, "python t.py\nif [ -f x ]; then\n  rm x\nfi\npython u.py"),
    ("NC646", GPU, "eval $(ssh-agent)\necho done"),
    ("NC646", GPU, "die() {\n  exit 1\n}\npython t.py || die\necho done"),
    ("NC646", GPU, "python t.py || exit\npython u.py"),
    ("NC646", GPU, "hostname\necho done"),
    ("NC646", GPUS, "python t.py &\nA=$!\npython u.py &\nwait $A\nwait $!"),
    ("NC660", GPU, "RUN_1_A=1\nRUN_2_A=1\nRUNS_A=1\nRUN_A=1\nRUN_B=1\nRUN_C=1\npython t.py"),
    ("NC604", f"{GPU}\n#  sbatch --account=a \\\n#   --time=5 job.sh", RUN),
    ("NC614", "#SBATCH -p gpu -N 1 -n 2 --gpus-per-task=1", "srun -n1 -G1 python a.py &\nwait"),
    ("NC648", "#SBATCH -p cpu -N 2", "export NCCL_IB_DISABLE=1\nsrun python t.py"),
    ("NC648", GPU, "# for debugging\nexport CUDA_LAUNCH_BLOCKING=1\npython t.py"),
    ("NC660", GPU, 'if [ -z "$SLURM_GPUS" ]; then\n  N=1\nelse\n  exit 1\nfi\npython t.py $N'),
    ("NC660", f"{GPU} -n 2", 'if [ -z "$SLURM_NTASKS" ]; then\n  exit 1\nfi\npython t.py'),
    ("NC660", GPU, "data1=/x\npython t.py $DATA"),
    ("NC660", GPU, "# in=. outDir=x sbatch job.sh\npython t.py $in ${outDir}"),
    ("NC660", f"{GPU} -c 2", "python t.py --workers $SLURM_CPUS_PER_TASK"),
    ("NC660", GPU, "python t.py --workers ${SLURM_CPUS_PER_TASK:-4}"),
    ("NC658", GPU, "bash -c 'srun --pty bash -c ls'"),
    ("NC636", GPU, "trap 'rm -rf x' TERM\npython t.py"),
    ("NC101", "#SBATCH --gres=gpu:1\n#SBATCH --partition=<partition_name>", RUN),
    ("NC604", f"{GPU}\n# SBATCH --time=10\n#SBATCH -t 20", RUN),
    ("NC604", f"{GPU}\n##SBATCH --time=10\n# SBATCH is Slurm's", RUN),
    ("NC632", f"{GPU} --mem=0", "torchrun --nproc_per_node=1 --master_port 29501 t.py"),
    ("NC632", GPU, "torchrun --standalone --master_port 29501 t.py"),
    ("NC632", GPU, "export MASTER_PORT=${MASTER_PORT:-29500}\npython t.py"),
    ("NC646", GPU, f"set -e\n{RUN}\nexit 0"),
    ("NC646", GPU, f"{RUN} || exit 1\nexit 0"),
    ("NC646", GPU, f"{RUN} || true\npython evaluate.py"),
    ("NC646", GPU, f"{RUN}\ncode=$?\necho $code\nexit 0"),
    ("NC658", GPU, "srun --pty python t.py"),
    ("NC658", GPU, "if [ -z $SLURM_JOB_ID ]; then\n  salloc -p gpu\nfi"),
    (
        "NC631",
        ONE_EACH,
        "R='$SLURM_NODEID'\nsrun bash -c \"torchrun --nnodes 3 --node_rank $R t.py\"",
    ),
    ("NC631", ONE_EACH, "R=$SLURM_NODEID\nR=2\nsrun python t.py $R"),
    ("NC644", ONE_EACH, "MASTER_ADDR=$(hostname)\nsrun torchrun --master_addr $MASTER_ADDR t.py"),
    ("NC644", ONE_EACH, "MASTER_ADDR=$(hostname)\nexport MASTER_ADDR\nsrun python t.py"),
    (
        "NC644",
        ONE_EACH,
        "MASTER_ADDR=$(hostname)\nsrun torchrun --nnodes=3 --rdzv-endpoint=$H:1 t.py",
    ),
    ("NC640", GPU, "export HF_TOKEN=hf_xxx"),
    ("NC640", GPU, 'singularity exec --nv --pwd "$PWD" a.sif python t.py --api-key "$KEY"'),
    ("NC632", "#SBATCH -p other -N 2 --gpus-per-node=4", "MASTER_PORT=29500 srun python t.py"),
    ("NC644", ONE_EACH, "set -a\nMASTER_ADDR=$(hostname)\nsrun python t.py"),
    ("NC644", ONE_EACH, "declare -x MASTER_ADDR=$(hostname)\nsrun python t.py"),
    ("NC631", ONE_EACH, "cat >r.sh <<'E'\npython t.py $SLURM_NODEID\nE\nsrun bash r.sh"),
    ("NC642", ONE_EACH, 'srun bash -c "torchrun --nnodes=3 --rdzv_endpoint=$(hostname):1 t.py"'),
    ("NC644", ONE_EACH, "srun bash -c 'for i in 1 2; do python t.py $i; done'"),
    ("NC644", ONE_EACH, "L=1\nsrun --export=ALL,L bash -c 'python t.py $L'"),
    ("NC644", ONE_EACH, "WORLD_SIZE=12\nsrun torchrun --nnodes=3 --rdzv_endpoint=$H:1 t.py"),
    ("NC601", "#SBATCH -p gpu --gres=gpu:a100:1,nvme:2", RUN),
    ("NC606", "#SBATCH -p gpu --gres=gpu:a100:1", RUN),
    ("NC612", f"{GPU} --time=00:05:00", RUN),
    ("NC642", ONE_EACH, "srun torchrun --nnodes=3 --rdzv_endpoint=$H:$P t.py"),
    ("NC634", f"{GPU}\n#SBATCH -o logs/%j.txt", f"mkdir -p $SLURM_SUBMIT_DIR/results\n{RUN}"),
    ("NC634", f"{GPU}\n#SBATCH -o %j.txt", f"mkdir -p logs\n{RUN}"),
    ("NC637", f"{GPUS} -c 2", f"export OMP_NUM_THREADS=2\n{RUN}"),
    ("NC637", f"{GPU} -c 8", "OMP_NUM_THREADS=8 torchrun --nproc_per_node 1 t.py"),
    ("NC637", f"{GPUS} -c 2", f"export OMP_NUM_THREADS=8@@\n{RUN}"),
    (
        "NC637",
        f"{ONE_EACH} -c 8",
        "OMP_NUM_THREADS=8@@ srun torchrun --nproc_per_node 4 --nnodes=3 t.py",
    ),
    ("NC638", GPU, "module load anaconda\nsource activate pt\npython t.py"),
    ("NC643", GPU, "python t.py --stop \"<EOS>\" --form '<a> <b>'"),
    ("NC643", GPU, "python t.py <in.txt >out.txt"),
    ("NC643", GPU, "cat <<END\nuse it as x <NAME> y\nEND"),
    ("NC645", GPU, 'echo "usage: $0 FILE"\npython t.py'),
    ("NC645", GPU, 'if [ -z "$SLURM_JOB_ID" ]; then\n  cd "$(dirname "$0")"\nfi'),
    ("NC646", GPU, "set -euo pipefail\npython t.py | tee log"),
    ("NC646", GPU, "set -e\nls | tee log"),
    ("NC646", GPU, 'if [ -f out ]; then\n  echo "out exists, skipping"\n  exit 0\nfi\npython t.py'),
    ("NC646", GPU, 'if [ "$1" = -h ]; then\n  echo "usage: $0"\n  exit 0\nfi\npython t.py'),
    ("NC646", GPU, "if [ $? -eq 0 ]; then\n  exit\nfi\npython t.py"),
    ("NC660", GPU, "srun bash -c 'python t.py $SLURM_PROCID'"),
    ("NC660", GPU, "awk '{print $SLURM_JOB_ID}' log\npython t.py"),
    (
        "NC638",
        "#SBATCH -p cpu -N 1",
        ". spack/share/spack/setup-env.sh\nspack load openfoam\n./Allrun",
    ),
    ("NC643", GPU, "# as in /path/to/data\npython t.py --paths to/data"),
    ("NC634", f"{GPU}\n#SBATCH -o /scratch/%j.txt", f"mkdir -p /scratch/run\n{RUN}"),
    ("NC660", GPU, "# i=1\nfor i in 1 2; do\n  python t.py $i\ndone"),
    ("NC660", GPU, "# i=1\nsource settings.sh\npython t.py $i"),
    ("NC648", ONE_EACH, "# there is no InfiniBand here\nexport NCCL_IB_DISABLE=1"),
    ("NC612", f"{GPU} -t 00:01:00", "python hello.py"),
    ("NC648", GPU, "export NCCL_IB_DISABLE=1\npython t.py"),
    ("NC649", GPU, "python t.py \\\n  --a 1 \\\n  --lr 2"),
    ("NC649", GPU, "python t.py --a 1\ncat <<END\n  --lr 2\nEND"),
    ("NC614", "#SBATCH -p gpu -N 1 -n 4 --gpus-per-task=1", "torchrun --nproc_per_node=4 t.py"),
    ("NC633", f"{GPUS}", "[ $(nvidia-smi -L | wc -l) = 4 ] && export CUDA_VISIBLE_DEVICES=0,1"),
    ("NC640", GPU, "export OPENAI_API_KEY=sk-local VLLM_API_KEY=token-abc123"),
    ("NC635", f"{GPU}\n#SBATCH --signal=B:USR1@60", "source lib.sh\npython t.py"),
    ("NC133", "#SBATCH -p gpu -N 1 --gpus-per-node=4", "torchrun --nproc_per_node 4 t.py"),
]

CARRIERS = [
    "#!/bin/bash -l\n{directives}\n{commands}\n",
    "#!/bin/bash -l\n# Ü: a training\n\n#SBATCH --mail-type=END\n{directives}\n\n# go\necho start\n"
    'if [ -n "$X" ]; then\n  echo "$X"\nfi\n{commands}\n# done\n',
    "#!/bin/bash -l\n{directives}\n##SBATCH --nothing\nsay() {{\n  echo \"$1\"\n}}\nsay 'it is'\n"
    "cat <<EOF\n#SBATCH -n 99\nEOF\n{commands}\n",
]


@pytest.mark.parametrize("carrier", range(len(CARRIERS)))
@pytest.mark.parametrize("number", range(len(DEFECTS)))
def test_defect(
    number: int, carrier: int, small: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, directives, commands = DEFECTS[number]
    marked = CARRIERS[carrier].format(directives=directives, commands=commands)
    line = marked[: marked.index("@@")].count("\n") + 1
    checked = judge_text(
        "job.sh",
        marked.replace("@@", ""),
        small,
        small.clusters["small"],
    )
    found = [(one.finding.code, one.place.line) for one in checked.findings]
    assert (code, line) in found
    assert {one.finding.code for one in checked.findings if one.finding.refuses} <= {code}


@pytest.mark.parametrize("carrier", range(len(CARRIERS)))
@pytest.mark.parametrize("number", range(len(RIGHT)))
def test_right_neighbour(
    number: int, carrier: int, small: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, directives, commands = RIGHT[number]
    text = CARRIERS[carrier].format(directives=directives, commands=commands)
    findings = judge_text("job.sh", text, small, small.clusters["small"]).findings
    assert code not in {one.finding.code for one in findings}


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ("#!/bin/sh –l", "error note"),
        ("#!/bin/bash —l", "error"),
        ("#!/bin/bash -l -x", "error"),
        ("#!/bin/bash # a training", "error"),
        ("#!/usr/bin/env bash -l", "error"),
        ("#!bin/bash", "error"),
        ("#!/bin/bsh", "error"),
        ("#!/bin/sh", "note"),
        ("#!/bin/bash", ""),
        ("#! /bin/bash -le ", ""),
        ("#!/usr/bin/env bash", ""),
        ("#!/usr/bin/env -S bash -l", ""),
        ("#!/usr/bin/env python3", ""),
    ],
)
def test_first_line(line: str, severity: str, small: Catalog) -> None:
    text = f"{line}\n{GPU}\nsource env.sh\npython t.py\n"
    found = judge_text("job.sh", text, small, small.clusters["small"]).findings
    said = [one.finding.severity for one in found if one.finding.code == "NC617"]
    assert " ".join(said) == severity


@pytest.mark.parametrize(("before", "found"), [("", True), ("PATH=$HOME/conda/bin:$PATH\n", False)])
def test_source_activate(before: str, found: bool, small: Catalog) -> None:
    text = f"#!/bin/bash\n{GPU}\n{before}source activate pt\npython t.py\n"
    findings = judge_text("job.sh", text, small, small.clusters["small"]).findings
    assert ("NC638" in {one.finding.code for one in findings}) == found


@pytest.mark.parametrize(
    ("commands", "found"),
    [
        (f"{RUN}\necho end\nexit 0", True),
        (f"{RUN}\nexit 0", True),
        (f"{RUN}\nexit 3", True),
        (f"{RUN}\nexit $?", False),
        (f"set -eu\n{RUN}\nexit 0", False),
        (f"set -o errexit\n{RUN}\nexit 0", False),
        (f"set -o pipefail\n{RUN}\nexit 0", True),
        (f"{RUN}\npython evaluate.py || exit 3\nexit 0", False),
    ],
)
def test_exit_0(commands: str, found: bool, small: Catalog) -> None:
    text = f"#!/bin/bash\n{GPU}\n{commands}\n"
    findings = judge_text("job.sh", text, small, small.clusters["small"]).findings
    assert ("NC646" in {one.finding.code for one in findings}) == found


def test_a_trap_that_requeues_waits_for_the_program(small: Catalog) -> None:
    text = f"#!/bin/bash\n{GPU}\ntrap 'scontrol requeue $SLURM_JOB_ID' TERM\npython t.py\n"
    findings = judge_text("job.sh", text, small, small.clusters["small"]).findings
    assert [(one.finding.code, one.place.line) for one in findings] == [("NC636", 3)]


@pytest.mark.parametrize(
    ("commands", "found"),
    [
        ("module load cuda\nconda activate x", True),
        ("echo start\n#srun python t.py --lr 1\necho done", True),
        ("source ~/venv/bin/activate\ncd ~/x", True),
        ("echo hello", False),
        ("module load cuda\nhostname", False),
        ("module load cuda\n. ./steps.sh", False),
        ('module load cuda\neval "$RUN"', False),
        ("module load cuda\n./test", False),
        ("module load cuda\n$RUN", False),
        ("module load conda\nconda create -y -n x python", False),
        ("module load cuda\nx=$(python t.py)", False),
    ],
)
def test_a_script_that_starts_nothing(commands: str, found: bool, small: Catalog) -> None:
    text = f"#!/bin/bash -l\n{GPU}\n{commands}\n"
    findings = judge_text("job.sh", text, small, small.clusters["small"]).findings
    assert ("NC666" in {one.finding.code for one in findings}) == found


@pytest.mark.parametrize(
    ("commands", "found"),
    [
        ("if [ $OMPI_COMM_WORLD_RANK -eq 0 ]; then\n  ./a\nfi\n./b", True),
        ('[[ "${PMI_RANK}" == 0 ]] && ./a', True),
        ("if [ ${PMI_RANK:-0} -eq 0 ]; then\n  ./a\nfi", False),
        ("mpirun bash -c '[ $PMI_RANK -eq 0 ] && ./a'", False),
        ("f() {\n  [ $PMI_RANK -eq 0 ] && ./a\n}\nexport -f f\nmpirun f", False),
    ],
)
def test_a_rank_of_mpirun_in_the_batch_shell(commands: str, found: bool, small: Catalog) -> None:
    text = f"#!/bin/bash -l\n{GPU}\n{commands}\n"
    findings = judge_text("job.sh", text, small, small.clusters["small"]).findings
    assert ("NC660" in {one.finding.code for one in findings}) == found


@pytest.mark.parametrize(("module", "found"), [("gcc", True), ("spack/0.20", False)])
def test_a_module_of_spack(module: str, found: bool, small: Catalog) -> None:
    text = f"#!/bin/bash\n{GPU}\nmodule load {module}\nspack load openfoam\n./Allrun\n"
    findings = judge_text("job.sh", text, small, small.clusters["small"]).findings
    assert ("NC638" in {one.finding.code for one in findings}) == found


@pytest.mark.parametrize(("name", "found"), [("SLURM_JOB_NODELIST", 5), ("HOME", None)])
@pytest.mark.parametrize(("before", "quoted"), [("", False), ("\\", False), ("", True)])
def test_a_here_document_for_sbatch(
    name: str, found: int, before: str, quoted: bool, small: Catalog
) -> None:
    end = "'EOF'" if quoted else "EOF"
    text = (
        f"#!/bin/bash\nsbatch <<{end}\n#!/bin/bash\n#SBATCH -N 2\n"
        f"scontrol show hostnames {before}${name} > hosts\nEOF\n"
    )
    findings = judge_text("job.sh", text, small, small.clusters["small"]).findings
    lines = [one.place.line for one in findings if one.finding.code == "NC631"]
    assert lines == ([found] if found and not before and not quoted else [])


@pytest.mark.parametrize(
    "remark", ["# Usage: sbatch job.sh <config>", "#   sbatch -p gpu -N 1 run/job.sh CONFIG"]
)
def test_an_argument_that_nothing_reads(remark: str, small: Catalog) -> None:
    text = f"#!/bin/bash -l\n{GPU}\n{remark}\npython t.py\n"
    findings = judge_text("run/job.sh", text, small, small.clusters["small"]).findings
    assert [(one.finding.code, one.place.line) for one in findings] == [("NC660", 3)]


@pytest.mark.parametrize(
    ("directives", "commands", "said"),
    [
        (
            f"{GPUS} -n 1",
            "srun torchrun --nproc_per_node 4 t.py",
            "remove --ntasks-per-node: torch",
        ),
        (f"{GPUS} -n 1", "srun ./x", "remove one of the two, or write --ntasks=4"),
        (GPU, "python t.py\nkillall a", "even if python has failed"),
    ],
)
def test_what_is_said(directives: str, commands: str, said: str, small: Catalog) -> None:
    text = f"#!/bin/bash -l\n{directives}\n{commands}\n"
    findings = judge_text("job.sh", text, small, small.clusters["small"]).findings
    found = [one.finding for one in findings]
    assert said in "\n".join(f"{one.severity}: {one.message}; {one.hint}" for one in found)
