#!/bin/bash
#SBATCH --job-name=solver
#SBATCH --partition=booster
#SBATCH --account=hai_project
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=12
#SBATCH --gres=gpu:4
#SBATCH --time=4:00:00
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err
#SBATCH --threads-per-core=1

MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)i  # the processes meet on the first node
export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))  # on a port derived from the job's id
export PYTHONUNBUFFERED=1                      # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-12}  # 48 cores / 4 processes, unless you exported it
export HF_HUB_OFFLINE=1                        # juwels-booster wants it
export HF_DATASETS_OFFLINE=1                   # juwels-booster wants it
export HF_EVALUATE_OFFLINE=1                   # juwels-booster wants it
export TRANSFORMERS_OFFLINE=1                  # juwels-booster wants it
export GLOO_SOCKET_IFNAME=ib0                  # juwels-booster wants it
export CUDA_VISIBLE_DEVICES=0,1,2,3
export NCCL_SOCKET_IFNAME=ib0
export MASTER_PORT=6000

# Check each node before the launch; each fault is one line in the log.
check_node() {
    local faults=() devices
    command -v ./solver >/dev/null || faults+=('cannot run ./solver')
    devices=CUDA_VISIBLE_DEVICES; [ -v "$devices" ] || devices=ROCR_VISIBLE_DEVICES  # neither is set: all are visible
    [ "${!devices-all}" ] || faults+=("1 GPU requested, but $devices is empty")
    { ! command -v nvidia-smi || timeout 30 nvidia-smi -L; } >/dev/null || faults+=('nvidia-smi finds no GPU')
    getent hosts "$MASTER_ADDR" >/dev/null || faults+=("cannot resolve $MASTER_ADDR")
    if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi
}
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=1 --overlap --kill-on-bad-exit=0 --cpu-bind=none --mem=0 bash -c "$(declare -f check_node); check_node" </dev/null || exit 1

# srun starts 4 tasks of ./solver on each of 2 nodes.
srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=12 --kill-on-bad-exit=1 --wait=600 \
    --cpu-bind=none \
    bash -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS \
        LOCAL_WORLD_SIZE=4
    exec "$@"' bash ./solver --input mesh.dat
