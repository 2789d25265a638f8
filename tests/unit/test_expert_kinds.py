"""Kinds of defects that an expert sees in scripts, each beside a twin that is right.

``@@`` marks the line of the defect, ``##`` divides it from the twin, which has no such finding.
"""

from __future__ import annotations

from typing import List, Tuple

import pytest

from neuronctl.catalog.model import Catalog
from neuronctl.scripts.shell_reader import read_shell
from neuronctl.submission.judged_script import judge_text

CPU = "-p cpu -N 1 -n 1"
ARRAY = f"{CPU} --array=1-10"
GPU = "-p gpu -N 1 -n 1 --gres=gpu:1"
GPUS = "-p gpu --gpus-per-node=4"
TWO = "-p cpu -N 2 -n 8"
ZERO = f"{CPU} --array=0-9"

# (code, directive, the defect ## the twin)
KINDS: List[Tuple[str, str, str]] = [
    # What runs within a container, within bash -c, or by a name that is no launcher's.
    (
        "NC635",
        CPU,
        "#SBATCH --signal=USR1@60@@\napptainer exec x.sif bash -lc 'python t.py'"
        " ## #SBATCH --signal=USR1@60\nsrun apptainer exec x.sif python t.py",
    ),
    (
        "NC636",
        f"{CPU} --signal=B:USR1@60",
        "trap 'x' USR1@@\nbash -c 'python t.py'\n ## trap 'x' USR1\nbash -c 'python t.py' &\nwait",
    ),
    ("NC646", CPU, "bash -c 'python t.py'\necho done@@ ## bash -c 'python t.py'"),
    # Exit codes of the work that something behind it replaces.
    ("NC646", CPU, "srun ./a > o\nmv o /r\ncd\necho done@@ ## srun ./a\ncp -r o /r"),
    ("NC646", CPU, "srun ./a\njobinfo $SLURM_JOB_ID@@ ## srun ./a\n./b $SLURM_JOB_ID x"),
    (
        "NC646",
        CPU,
        "f() {\nsrun ./a $1\nsed -i s/r/y/ p@@\n}\nfor i in 1 2; do\nf $i\ndone"
        " ## f() {\nsrun ./a $1 || exit 1\nsed -i s/r/y/ p\n}\nfor i in 1 2; do\nf $i\ndone",
    ),
    (
        "NC646",
        CPU,
        "for i in 1 2; do\npython t.py $i@@\ndone"
        " ## for i in 1 2; do\npython t.py $i || code=1\ndone\nexit $code",
    ),
    (
        "NC646",
        CPU,
        "for i in 1 2; do\npython t.py $i@@\nlast=$i\ndone"
        " ## set -e\nfor i in 1 2; do\npython t.py $i\nlast=$i\ndone",
    ),
    (
        "NC646",
        CPU,
        "srun python t.py 1@@\nsrun python t.py 2"
        " ## srun python p.py || exit 1\nsrun python t.py 2",
    ),
    (
        "NC646",
        CPU,
        "srun bash -c 'python t.py; echo done'@@ ## srun bash -c 'python t.py && echo done'",
    ),
    # Cores of a step, in a container, by a variable, and of a script.
    # What is started, and does nothing, or not what is meant.
    (
        "NC634",
        f"{CPU} -o out/logs/%j",
        "mkdir -p $ROOT/out/logs@@\n./a ## mkdir -p $ROOT/logs\n./a",
    ),
    (
        "NC632",
        "-p gpu --gpus-per-node=1",
        'PORT=${PORT:-8000}\nvllm serve m --port "$PORT"@@'
        ' ## PORT=$((8000 + SLURM_JOB_ID % 999))\nvllm serve m --port "$PORT"',
    ),
    # Logs of one name, cores of processes, and a node that is another job's.
    (
        "NC637",
        "-p gpu --gpus-per-node=2",
        "torchrun --nproc_per_node=2 t.py@@"
        " ## #SBATCH --cpus-per-task=8\ntorchrun --nproc_per_node=2 t.py",
    ),
    # Variables that nothing sets.
    ("NC660", CPU, "set -u\necho $SUBMITDIR@@\n./a ## set -u\necho ${SUBMITDIR:-} $SCRATCH\n./a"),
    ("NC660", CPU, "set -eu\necho $rate@@\n./a ## set -eu\nread rate < x\necho $rate\n./a"),
    ("NC660", CPU, "OUT=$folder\n./a >> ${OUT}@@ ## folder=x\nOUT=$folder\n./a >> ${OUT}"),
    ("NC660", CPU, "OUT=\n./a > $OUT@@ ## OUT=\n[ $# = 1 ] && OUT=$1\n./a > $OUT"),
    (
        "NC660",
        CPU,
        "JOBDIR=/x\n./a $JOBDIR $JOB_DIR@@ ## JOBDIR=/x\nJOB_DIR=/y\n./a $JOBDIR $JOB_DIR",
    ),
    (
        "NC660",
        CPU,
        "./a ${SLURM_JOB_GPUS_PER_NODE:-2}@@"
        " ## ./a ${SLURM_GPUS_PER_NODE:-2} ${SLURM_TMPDIR:-/tmp}",
    ),
    (
        "NC660",
        CPU,
        "./a\n# code=$?\nif [ $code -ne 0 ]; then@@\necho failed\nfi"
        " ## ./a\ncode=$?\nif [ $code -ne 0 ]; then\necho failed\nfi\nexit $code",
    ),
    # Ranks and ports that a launcher gives its processes itself.
    (
        "NC631",
        TWO,
        "export RANK=$SLURM_PROCID@@\nsrun python t.py"
        " ## export RANK=$SLURM_PROCID\nsrun torchrun --nnodes=2 --rdzv-backend=c10d "
        "--rdzv-endpoint=$H:1 t.py",
    ),
    (
        "NC632",
        "-p gpu --gpus-per-node=1",
        "export MASTER_PORT=29400@@\npython t.py ## export MASTER_PORT=29400\ntorchrun t.py",
    ),
    # GPUs of a container.
    ("NC612", CPU, "#SBATCH --mem=48@@\nRscript a.R ## #SBATCH --mem=100\nRscript a.R"),
    ("NC649", CPU, "if [[ ! -f *.vcf ]]; then@@\n./a\nfi ## if [[ ! -f a.vcf ]]; then\n./a\nfi"),
    ("NC660", f"{CPU} --mem=4G", "./a $SLURM_MEM_PER_CPU@@ ## ./a $SLURM_MEM_PER_NODE"),
    ("NC666", f"{CPU}@@", " ## ./a"),
    # What nobody has filled in.
    ("NC643", CPU, "#SBATCH --account=....@@\n./a ## #SBATCH --account=ab..c\n./a"),
    ("NC643", CPU, "#SBATCH --account=[account]@@\n./a ## #SBATCH -w n[1-2]\nls [ab]*"),
    ("NC643", CPU, "cd [path-to-X]/data@@\n./a ## cd path_of/data\n./a"),
    (
        "NC643",
        CPU,
        'cd "please input your local path here"@@\n./a ## echo "please input your path"',
    ),
    ("NC649", CPU, '$root = "/x"@@\n./a $root ## [ $root = /x ] && ./a'),
    # Lines of which bash makes something else.
    ("NC649", CPU, "export N = 4@@\n./a ## export N=4\n./a"),
    ("NC649", CPU, "export $N=4@@\n./a ## CUDA_VISIBLE_DEVICES= ./a"),
    ("NC649", CPU, "for i in {1..$N}; do@@\n./a $i\ndone ## for i in {1..9}; do\n./a $i\ndone"),
    ("NC649", CPU, "if [ $N=1 ]; then@@\n./a\nfi ## if [ $N = 1 ]; then\n./a\nfi"),
    ("NC649", CPU, '[[ "$N"=="b" ]] && ./a@@ ## [[ $N =~ a=b ]] && ./a'),
    ("NC649", CPU, "./a > log 2&>1@@ ## ./a > log 2>&1"),
    ("NC649", CPU, "L=(1, 2, 3)@@\n./a ${L[1]} ## L=(1 2 3)\n./a ${L[1]}"),
    ("NC649", CPU, "L=(1 2 3)\n./a $L[1]@@ ## L=(1 2 3)\n./a ${L[1]} '$L[1]'"),
    ("NC649", CPU, 'L="a b"\n./a ${L[$N]}@@ ## read -ra L < x\n./a ${L[$N]}'),
    # What another shell, or another scheduler, has.
    ("NC660", CPU, "cd $PBS_O_WORKDIR@@\n./a ## cd ${PBS_O_WORKDIR:-.}\n./a"),
    ("NC660", ARRAY, "./a $SGE_TASK_ID@@ ## ./a $SLURM_ARRAY_TASK_ID"),
    ("NC660", CPU, "mpirun -np $NSLOTS ./a@@ ## NSLOTS=4\nmpirun -np $NSLOTS ./a"),
    ("NC660", CPU, "N=x\npython a.py '$N'@@ ## N=x\npython a.py \"$N\"\nawk '{$N}' x"),
    (
        "NC660",
        CPU,
        "n=0\ncat x | while read f; do\n./a $f || n=1@@\ndone\nexit $n"
        " ## n=0\nwhile read f; do\n./a $f || n=1\ndone < x\nexit $n",
    ),
    # Indexes of arrays.
    # One file for several.
    # One after the other.
    # Threads and cores.
    ("NC637", f"{CPU} -c 4", "bwa mem -t 16 x y > z@@ ## bwa mem -t 4 x y > z"),
    ("NC637", f"{CPU} -c 8", "N=16\nbowtie2 -p $N -x i -U a@@ ## N=8\nbowtie2 -p $N -x i -U a"),
    ("NC637", CPU, "STAR --runThreadN 16 --genomeDir g@@ ## STAR --runThreadN 2 --genomeDir g"),
    (
        "NC637",
        "-p cpu -N 1 --ntasks-per-node=2",
        "python t.py --workers 24@@ ## python t.py --workers 4",
    ),
    (
        "NC637",
        "-p gpu -N 1 -n 1 --gres=gpu:4 -c 8",
        "torchrun --nproc_per_node=4 t.py --num_workers_dataloader 8@@"
        " ## torchrun --nproc_per_node=4 t.py --num_workers 4",
    ),
    # What only seems to be said.
    ("NC649", CPU, "samtools index x\n    &> log@@ ## samtools index x \\\n    &> log\n> new"),
    (
        "NC646",
        CPU,
        "bwa mem x y | samtools sort -o z@@ ## set -o pipefail\nbwa mem x y | samtools sort -o z",
    ),
    ("NC646", CPU, "./b &\npython t.py\nkill %1@@ ## ./b &\npython t.py && kill %1"),
    # What nobody has filled in.
    ("NC643", CPU, "cd /home/your_username/x@@\n./a ## cd /home/yourba/x\n./a"),
    ("NC643", CPU, "cd /scratch/USERNAME/x@@\n./a ## cd /scratch/$USERNAME/x\n./a"),
    ("NC643", CPU, "cd /scratch/[your_netid]/x@@\n./a ## ls /scratch/[a-y]*/x\n./a"),
    ("NC643", CPU, "export X=/apps/XXXVERSION/bin@@\n./a ## X=$(mktemp -d /tmp/XXXX)\n./a $X"),
    ("NC643", CPU, "DATA=CHANGE_ME@@\n./a $DATA ## DATA=$CHANGE_ME\n./a --todo"),
    ("NC643", CPU, "python t.py --lr=__LR__@@ ## python t.py --name=__main__"),
    ("NC643", CPU, "python t.py ...@@ ## python t.py .. ./..."),
    ("NC643", f"{CPU} --dependency=afterok:<jobid>@@", "./a ## ./a 1>x"),
    # GPUs that nobody requests, or that a container does not see.
    # An environment that is gone.
    (
        "NC638",
        CPU,
        "module load x\nmodule purge@@\npython t.py ## module purge\nmodule load x\npython t.py",
    ),
    (
        "NC638",
        CPU,
        "source v/bin/activate\ndeactivate@@\npython t.py"
        " ## source v/bin/activate\npython t.py\ndeactivate",
    ),
    ("NC638", CPU, "python t.py\nsource v/bin/activate@@ ## . v/bin/activate\npython t.py"),
    (
        "NC638",
        CPU,
        "source v/bin/activate\nmodule load python/3.9@@\npython t.py"
        " ## source v/bin/activate\nmodule load cuda\npython t.py",
    ),
    # Guards, and lines behind the end of the script.
    ("NC660", CPU, "# x=1\npython t.py --out ${x}@@ ## # x=1\nexit\npython t.py --out ${x}"),
    ("NC646", CPU, "python t.py\ncp a r@@\nexit\n./b ## set -e\npython t.py\ncp a r\nexit"),
    ("NC646", CPU, "python t.py\nmv a r@@ ## python t.py\nmv $TMPDIR/a r"),
    ("NC637", CPU, "export OMP_NUM_THREADS=64@@\n./a ## export OMP_NUM_THREADS=64\nsrun -c 64 ./a"),
    # Of several GPUs, nodes and tasks.
    (
        "NC640",
        CPU,
        "set -x -e\nexport HF_TOKEN=$(cat t)@@\n./a"
        " ## set -x\nset +x\nexport HF_TOKEN=$(cat t)\nset -x\nexport N=$(cat n)\n./a",
    ),
    (
        "NC632",
        f"{GPU} --array=1-3",
        "vllm serve m &@@\n./a ## vllm serve m --port $((8000 + SLURM_JOB_ID % 99)) &\n./a",
    ),
    (
        "NC634",
        f"{CPU} -o /w/p/logs/%j",
        "cd /w/p\nmkdir -p logs@@\n./a ## cd /w/q\nmkdir -p logs\n./a",
    ),
    (
        "NC637",
        f"{CPU} -c 8",
        "for t in 1 8 32; do\nexport OMP_NUM_THREADS=$t@@\n./a\ndone"
        " ## for t in 1 4 8; do\nexport OMP_NUM_THREADS=$t\n./a\ndone",
    ),
    ("NC646", CPU, "bash a.sh\nsleep 20\ndate@@ ## bash a.sh"),
    ("NC646", CPU, "for i in 1 2; do\npython t.py $i@@\ndone\nexit ## python t.py\nexit"),
    ("NC646", CPU, "matlab -nodisplay -r solve@@ ## matlab -batch solve"),
    ("NC646", CPU, "python t.py\nsource deactivate@@ ## python t.py\nsource a"),
    (
        "NC646",
        CPU,
        "for i in 1 2; do\npython t.py $i@@\ndone ## for i in 61; do\npython t.py $i\ndone",
    ),
    (
        "NC649",
        "",
        "python t.py \\\n  a=1\n  b=2 \\@@\n ## cmd=\"python t.py \\\n  a='1'\\\n  b=2 \\\n  c\"",
    ),
    # What follows a here-document, whose line goes on.
    # A program whose file is looked for, and options of srun's plugins.
    # A script that writes jobs.
    (
        "NC631",
        "",
        "cat > j.sh <<EOF\n#!/bin/bash\n#SBATCH -n 2\necho $SLURM_JOB_ID@@\nEOF\nsbatch j.sh"
        " ## cat > j.sh <<'EOF'\n#!/bin/bash\n#SBATCH -n 2\necho $SLURM_JOB_ID\nEOF\nsbatch j.sh",
    ),
    # What else hides an exit code, and where none is the job's.
    ("NC646", CPU, 'python t.py\necho "$(date): $?"@@ ## python t.py\necho "$?: $(date)"; exit 1'),
    ("NC646", CPU, "python a.py@@\npython eval.py ## python prepare.py\npython a.py"),
    ("NC646", CPU, "/opt/nextflow a.nf@@\nbash logs.sh ## /opt/nextflow a.nf && bash logs.sh"),
    (
        "NC646",
        CPU,
        "for i in 1 2; do\npython t.py $i@@\nif [ $i -eq $n ]; then\nbreak\nfi\ndone"
        " ## while true; do\npython t.py\ndone",
    ),
    (
        "NC646",
        CPU,
        "if ! grep -q a b; then\necho stop\nexit@@\nfi\npython t.py"
        " ## if grep -q a b; then\necho stop\nexit\nfi\npython t.py",
    ),
    (
        "NC660",
        GPU,
        "nvidia-smi -i $gpu@@\n#gpu=1\n./a ## nvidia-smi -i $CUDA_VISIBLE_DEVICES\n"
        "#CUDA_VISIBLE_DEVICES=1\n./a",
    ),
    # Words that quotes join, and lists of which one element is meant for all.
    ("NC649", CPU, 'python t.py "$(< args.txt)"@@ ## python t.py $(< args.txt)'),
    ("NC649", CPU, 'python t.py "--a 1 --b 2"@@ ## python t.py --extra "--a 1 --b 2"'),
    ("NC649", CPU, 'A="--a 1 --b $X"\npython t.py "$A"@@ ## A="--a 1 --b $X"\npython t.py $A'),
    ("NC649", CPU, 'A="-N 1 -n 1"\nsrun "$A" ./a@@ ## A="-N 1"\nsrun bash -c "$A"'),
    ("NC649", CPU, 'C="python t.py"\nsrun "$C"@@ ## C="python t.py"\nsrun bash -c "$C"'),
    ("NC649", CPU, 'C="python t.py"\n"$C"@@ ## C="python t.py"\neval "$C"'),
    (
        "NC649",
        CPU,
        'A=(--a 1 --b 2)\npython t.py $A@@ ## A=(--a 1 --b 2)\npython t.py "${A[@]}"',
    ),
    ("NC649", CPU, 'A=(--a 1 --b 2)\npython t.py "${A[*]}"@@ ## A=(x y)\npython t.py $A'),
    (
        "NC649",
        CPU,
        'A="--name \\"my run\\" -x"\npython t.py $A@@ ## A="--name \'x\' -y"\npython t.py $A',
    ),
    # A variable in the line that sets it.
    ("NC660", CPU, "export A=/x B=$A/y@@\n./a $B ## A=/x B=$A/y\n./a $B"),
    ("NC660", CPU, "SEED=3 ./a --seed $SEED@@ ## SEED=3\nSEED=4 ./a --seed $SEED"),
    ("NC660", CPU, "f() {\nlocal a=$1 b=$a/x@@\n./a $b\n}\nf 1 ## export PATH=/x:$PATH L=$PATH"),
    # Programs behind others that start them, and behind options that nobody knows.
    (
        "NC642",
        f"{GPUS} -N 2 --ntasks-per-node=1",
        "srun --of-site torchrun --nnodes=2 --nproc_per_node=4 --rdzv_backend=c10d "
        "--rdzv_endpoint=localhost:1 t.py@@ ## srun --of-site x torchrun --nnodes=2 "
        "--nproc_per_node=4 --rdzv_backend=c10d --rdzv_endpoint=$N:1 t.py",
    ),
    (
        "NC637",
        f"{GPUS} -N 1 --ntasks-per-node=1 -c 32",
        "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK@@\n"
        "srun -c $SLURM_CPUS_PER_TASK torchrun --nproc_per_node=4 t.py"
        " ## export OMP_NUM_THREADS=8\nsrun -c 32 torchrun --nproc_per_node=4 t.py",
    ),
    (
        "NC634",
        f"{CPU} -o /r/logs/x.log",
        'W="${W:-/r}"\nmkdir -p "$W/logs"@@ ## W="${W:-/q}"\nmkdir -p "$W/logs"',
    ),
    # Directives: characters of no name, remarks, mail that nobody gets.
    ("NC601", CPU, "#SBATCH -A lab|standby@@\n./a ## #SBATCH -A lab\n./a"),
    ("NC601", CPU, "#SBATCH -q a;b@@\n./a ## #SBATCH -C a|b\n./a"),
    ("NC604", CPU, "#--gres=gpu:1@@\n./a ## #--epochs=3\n./a"),
    ("NC604", CPU, "SBATCH --gres=gpu:1@@\n./a ## SBATCHES=1\n./a"),
    # What stands in the text for another shell, and what bash does not expand.
    (
        "NC649",
        CPU,
        'apptainer exec x.sif bash -c "source e; a.py \\\n --a \\"b c\\" \\ \n --c d@@\n --e"'
        ' ## apptainer exec x.sif bash -c "source e; python t.py \\\n --a \\"b c\\" \\\n --c d"',
    ),
    (
        "NC649",
        CPU,
        "srun bash -c '\npython t.py \\ \n --a@@\n' ## srun bash -c '\npython t.py \\\n --a\n'",
    ),
    ("NC649", CPU, "alias p=python@@\np t.py ## shopt -s expand_aliases\nalias p=python\np t.py"),
    ("NC643", CPU, "C=$1\npython t.py --c conf/{C}.json@@ ## C=$1\npython t.py --c conf/{D}.json"),
    ("NC643", CPU, "N=a\nO=out/{N}/b@@\n./a $O ## N=a\nO=out/${N}/b\n./a $O"),
    ("NC643", CPU, "#SBATCH -A project_200xxxx@@\n./a ## #SBATCH -A project_200\n./a"),
    ("NC643", CPU, "export WANDB_API_KEY=xxx@@\npython t.py ## export WANDB_API_KEY\npython t.py"),
    # Lists that are read at once.
    # What other jobs feel, and what nothing heeds.
    # Directives that do nothing, or too much.
    ("NC612", "-p site -n 1", "#SBATCH --time=0@@\n./a ## #SBATCH --time=0-1\n./a"),
    # GPUs, tasks, and cores of what starts them.
    (
        "NC637",
        "-p gpu --gpus-per-node=2",
        "accelerate launch --num_processes=2 t.py@@"
        " ## #SBATCH -c 8\naccelerate launch --num_processes=2 t.py",
    ),
    # Environments and variables.
    ("NC638", CPU, "conda init@@\n./a ## conda init\nsource ~/.bashrc\n./a"),
    ("NC644", CPU, "TF_CPP_MIN_LOG_LEVEL=2@@\npython t.py ## export TF_X=2\npython t.py"),
    (
        "NC660",
        CPU,
        "export PYTHONBUFFERED=1@@\npython t.py ## export PYTHONUNBUFFERED=1\npython t.py",
    ),
    ("NC660", CPU, "python t.py $model@@ ## python t.py $model $step"),
    # Words that are missing, variables that nothing uses or looks for, waits that end too soon.
    ("NC638", CPU, "source /x/conda.sh conda activate e@@ ## . /x/conda.sh && conda activate e"),
    ("NC638", CPU, "source env create -f e.yml@@ ## conda env create -f e.yml\nsource env.sh"),
    ("NC660", CPU, 'FLAGS="--all"@@\n./a ## FLAGS="--all"\n./a $FLAGS'),
    ("NC660", CPU, "IN=$1@@\n./a ## IN=$1\ncat > b <<E\n$IN\nE\n./a b"),
    ("NC660", CPU, "export OMP_NUM_THREAD=4@@\n./a ## export OMP_NUM_TEAMS=4\n./a"),
    # A program that a variable is named after,
    # Within the text for another shell, in a loop, and by other words.
    (
        "NC638",
        CPU,
        "srun bash -c 'conda activate x; python t.py'@@"
        " ## srun bash -lc 'conda activate x; python t.py'",
    ),
    (
        "NC646",
        CPU,
        "if [ ! $N ]; then\necho need a number of the array\nexit@@\nfi\n./a"
        " ## if [ -f a ]; then\necho a is done\nexit\nfi\n./a",
    ),
    # What wrong warnings of real scripts were about, each beside one that is right.
    (
        "NC660",
        f"{CPU} --mem-per-cpu=2G",
        "m=$SLURM_MEM_PER_NODE@@\n./a $m"
        " ## if [ $SLURM_MEM_PER_CPU -gt 0 ]; then\nm=1\nelse\nm=$SLURM_MEM_PER_NODE\nfi\n./a $m",
    ),
    ("NC660", CPU, '#tmp=/x\n./a $tmp@@ ## #tmp="--tmp=/x"\n./a $tmp'),
    ("NC640", CPU, 'echo "pwd=hunter2"@@\n./a ## echo -e "for control, pwd=\\\\c";pwd\n./a'),
    (
        "NC646",
        CPU,
        "cat x > $F\necho y >> $G@@ ## cat > $F <<E\nx\nE\necho y >> $F",
    ),
    ("NC612", CPU, "#SBATCH --time=5:00@@\n./a ## #SBATCH --time=10:00\n./a"),
    # Before a command, behind a pipe, in the text for another shell.
    (
        "NC642",
        "-p cpu -N 2 --ntasks-per-node=1",
        "MASTER_ADDR=127.0.0.1 srun python t.py@@ ## MASTER_ADDR=localhost python t.py",
    ),
    ("NC646", CPU, "srun ./a | tee log || exit 1@@\n./b ## srun ./a | grep y || exit 1\n./b"),
    (
        "NC646",
        CPU,
        "if ! python t.py | tee log; then@@\nexit 1\nfi\n./b"
        " ## set -o pipefail\nif ! python t.py | tee log; then\nexit 1\nfi\n./b",
    ),
    (
        "NC646",
        CPU,
        "bash -c 'python t.py | tee log'@@ ## bash -c 'set -o pipefail; python t.py | tee log'",
    ),
    ("NC646", CPU, "enroot start x bash -c 'python t.py | tee l'@@ ## enroot start x python t.py"),
    ("NC646", CPU, "mpirun ./a\nsbatch next.sh@@ ## mpirun ./a && sbatch next.sh"),
    ("NC646", CPU, "for((r=1;r<9;r++)); do\nsrun ./a $r@@\ndone ## srun ./a"),
    # A letter that is left out, a value that is empty.
    ("NC660", CPU, "export STEPS=5\n./a --n=$STEP@@\n./b $STEPS ## export STEPS=5\n./a $STEPS"),
    (
        "NC660",
        CPU,
        "INDEX_A=$1\n./a $INDEX_A > o_$INDX_A@@ ## INDEX_A=$1\n./a $INDEX_A > o_$INDEX_B",
    ),
    ("NC660", CPU, 'resume=""\n./a --resume $resume@@ ## extra=""\n./a --resume $extra'),
    ("NC660", CPU, "rm -rf /x/$NAME@@\n./a ## rm -rf /x/${NAME:?}\n./a"),
    # Counts of cores, threads and GPUs, by other names and behind other programs.
    (
        "NC637",
        f"{CPU} -c 2",
        "apptainer run x.sif gmx mdrun -ntomp 8@@ ## apptainer run x.sif mdrun -ntomp 8",
    ),
    ("NC637", "-p cpu -N 1 -n 4", "srun ./flex_gnu_omp@@ ## srun ./flex_gnu_mpi"),
    (
        "NC637",
        "-p cpu -N 1 -n 4",
        "icx -qopenmp a.c -o a\nsrun ./a@@ ## cc -qopenmp a.c -o a\nsrun ./a",
    ),
    (
        "NC637",
        "-p cpu -N 1 -n 4",
        "gcc -fopenmp a.c -o a\nsrun ./a@@ ## gcc -fopenmp a.c -o a\nsrun -n 1 -c 4 ./a",
    ),
    (
        "NC666",
        CPU,
        'echo "$(pwd)"\nmodule load x\necho a@@ ## echo "$(./a)"\nmodule load x',
    ),
]


@pytest.mark.parametrize("number", range(len(KINDS)))
def test_a_kind_is_found_and_its_twin_is_right(number: int, small: Catalog) -> None:
    code, directive, texts = KINDS[number]
    defect, twin = texts.split(" ## ")
    for text, wanted in ((defect, True), (twin, False)):
        head = f"#!/bin/bash -l\n#SBATCH {directive}\n" if directive else "#!/bin/bash -l\n"
        if not wanted and "<" in directive:
            head = "#!/bin/bash -l\n"
        lines = (head + text).split("\n")
        at = next((n for n, line in enumerate(lines, 1) if line.endswith("@@")), 0)
        script = "\n".join(line.replace("@@", "") for line in lines) + "\n"
        found = judge_text("job.sh", script, small, small.clusters["small"]).findings
        own = [one.place.line for one in found if one.finding.code == code]
        assert (at in own) if wanted else not own, [one.finding.message for one in found]


def test_a_script_may_end_with_a_backslash() -> None:
    assert read_shell("python t.py \\\n  --a \\\n").broken is None


def test_no_hint_says_to_type_what_is_refused_next(small: Catalog) -> None:
    for option, hint in (("-r a100_1", "remove it"), ("-n 2", "write #SBATCH -n 2")):
        text = f"#!/bin/bash\n#YBATCH {option}\n#SBATCH -p cpu\n./a\n"
        found = judge_text("job.sh", text, small, small.clusters["small"]).findings
        assert [hint in one.finding.hint for one in found if one.finding.code == "NC604"] == [True]


def test_spack_may_come_with_the_shell_that_submits(small: Catalog) -> None:
    text = "#!/bin/bash\n#SBATCH -p cpu\nspack load x\n./a\n"
    found = judge_text("job.sh", text, small, small.clusters["small"]).findings
    told = [one.finding.message for one in found if one.finding.code == "NC638"]
    assert "works only if the shell that submits" in told[0]
