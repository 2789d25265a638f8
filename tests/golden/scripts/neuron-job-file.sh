#!/bin/bash
#SBATCH --job-name=train
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1  # torchrun starts the processes
#SBATCH --cpus-per-task=32   # 4 GPUs x 8 cores per GPU
#SBATCH --gres=gpu:4
#SBATCH --time=12:00:00
#SBATCH --comment="field=nlp;appl=pytorch-ddp"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

stop() { echo "preflight: $(hostname -s): $1" >&2; exit 1; }
# /etc/profile defines 'module'. Your own PATH entries stay in front.
type module >/dev/null 2>&1 || { path=$PATH; . /etc/profile; PATH=$path:$PATH; }
module purge
module load gcc/11.5.0 cuda/12.9.1 || stop 'cannot load the modules gcc/11.5.0 cuda/12.9.1'
. "$HOME"/envs/nlp/bin/activate || stop 'cannot activate the environment ~/envs/nlp'

MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)  # the processes meet on the first node
export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))  # on a port derived from the job's id
export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}  # 32 cores / 4 processes, unless you exported it
export NCCL_DEBUG=INFO
export HF_HOME=/scratch/shared/hf

set -e  # the first of these lines that fails ends the job
trap '[[ $- != *e* ]] || echo "preflight: $(hostname -s): a setup line failed: $BASH_COMMAND" >&2' ERR
tar xf data.tar -C "$TMPDIR"
ln -s "$TMPDIR/data" data
set +e; trap - ERR

# Check each node before the launch; each fault is one line in the log.
check_node() {
    local faults=() devices visible
    command -v torchrun >/dev/null || faults+=('no program on PATH: torchrun')
    [ -r train.py ] || faults+=('cannot read train.py')
    [ -x "$VIRTUAL_ENV/bin/python" ] || faults+=("cannot run $VIRTUAL_ENV/bin/python")
    devices=CUDA_VISIBLE_DEVICES; [ -v "$devices" ] || devices=ROCR_VISIBLE_DEVICES  # neither is set: all are visible
    [ "${!devices-all}" ] || faults+=("4 GPUs requested, but $devices is empty")
    IFS=, read -ra visible <<<"${!devices-}"
    ((${#visible[@]} == 0 || ${#visible[@]} >= 4)) || faults+=("4 GPUs requested, ${#visible[@]} available")
    { ! command -v nvidia-smi || timeout 30 nvidia-smi -L; } >/dev/null || faults+=('nvidia-smi finds no GPU')
    getent hosts "$MASTER_ADDR" >/dev/null || faults+=("cannot resolve $MASTER_ADDR")
    if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi
}
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=1 --overlap --kill-on-bad-exit=0 --mem=0 bash -c "$(declare -f check_node); check_node" </dev/null || exit 1

# torchrun starts 4 processes of train.py on each of 2 nodes.
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=32 --kill-on-bad-exit=1 --wait=600 \
    bash -c 'exec torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d \
        --rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" \
        --rdzv-conf=is_host=$((SLURM_NODEID == 0)) "$@"' torchrun train.py --lr 0.10 --name \
    'a first run'
