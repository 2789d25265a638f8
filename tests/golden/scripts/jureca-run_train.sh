#!/bin/bash
#SBATCH --job-name=train
#SBATCH --partition=dc-gpu
#SBATCH --account=training2436
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=128
#SBATCH --gres=gpu:4
#SBATCH --time=1:00:00
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)i  # the processes meet on the first node
export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))  # on a port derived from the job's id
export PYTHONUNBUFFERED=1                      # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-32}  # 128 cores / 4 processes, unless you exported it
export HF_HUB_OFFLINE=1                        # jureca wants it
export HF_DATASETS_OFFLINE=1                   # jureca wants it
export HF_EVALUATE_OFFLINE=1                   # jureca wants it
export TRANSFORMERS_OFFLINE=1                  # jureca wants it

# Check each node before the launch; each fault is one line in the log.
check_node() {
    local faults=() devices visible
    command -v torchrun_jsc >/dev/null || faults+=('no program on PATH: torchrun_jsc')
    [ -r train.py ] || faults+=('cannot read train.py')
    devices=CUDA_VISIBLE_DEVICES; [ -v "$devices" ] || devices=ROCR_VISIBLE_DEVICES  # neither is set: all are visible
    [ "${!devices-all}" ] || faults+=("4 GPUs requested, but $devices is empty")
    IFS=, read -ra visible <<<"${!devices-}"
    ((${#visible[@]} == 0 || ${#visible[@]} >= 4)) || faults+=("4 GPUs requested, ${#visible[@]} available")
    { ! command -v nvidia-smi || timeout 30 nvidia-smi -L; } >/dev/null || faults+=('nvidia-smi finds no GPU')
    getent hosts "$MASTER_ADDR" >/dev/null || faults+=("cannot resolve $MASTER_ADDR")
    if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi
}
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=1 --overlap --kill-on-bad-exit=0 --cpu-bind=none --mem=0 bash -c "$(declare -f check_node); check_node" </dev/null || exit 1

# torchrun_jsc starts 4 processes of train.py on each of 2 nodes.
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=128 --kill-on-bad-exit=1 --wait=600 \
    --cpu-bind=none bash -c 'exec torchrun_jsc --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d \
        --rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" \
        --rdzv-conf=is_host=$((SLURM_NODEID == 0)) "$@"' torchrun_jsc train.py
