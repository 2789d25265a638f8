#!/bin/bash
#SBATCH --job-name=pytorch_horovod
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=4
#SBATCH --gres=gpu:8
#SBATCH --time=24:00:00
#SBATCH --comment=pytorch
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

stop() { echo "preflight: $(hostname -s): $1" >&2; exit 1; }
# /etc/profile defines 'module'. Your own PATH entries stay in front.
type module >/dev/null 2>&1 || { path=$PATH; . /etc/profile; PATH=$path:$PATH; }
module purge
module load gcc/10.2.0 cuda/11.4 cudampi/openmpi-4.1.1 || stop 'cannot load the modules gcc/10.2.0 cuda/11.4 cudampi/openmpi-4.1.1'

MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)  # the processes meet on the first node
export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))  # on a port derived from the job's id
export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-4}  # 32 cores / 8 processes, unless you exported it

# Check each node before the launch; each fault is one line in the log.
check_node() {
    local faults=() devices visible
    command -v python >/dev/null || faults+=('no program on PATH: python')
    [ -r train_hvd.py ] || faults+=('cannot read train_hvd.py')
    devices=CUDA_VISIBLE_DEVICES; [ -v "$devices" ] || devices=ROCR_VISIBLE_DEVICES  # neither is set: all are visible
    [ "${!devices-all}" ] || faults+=("8 GPUs requested, but $devices is empty")
    IFS=, read -ra visible <<<"${!devices-}"
    ((${#visible[@]} == 0 || ${#visible[@]} >= 8)) || faults+=("8 GPUs requested, ${#visible[@]} available")
    { ! command -v nvidia-smi || timeout 30 nvidia-smi -L; } >/dev/null || faults+=('nvidia-smi finds no GPU')
    getent hosts "$MASTER_ADDR" >/dev/null || faults+=("cannot resolve $MASTER_ADDR")
    if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi
}
srun --nodes=4 --ntasks=4 --ntasks-per-node=1 --cpus-per-task=1 --overlap --kill-on-bad-exit=0 --mem=0 bash -c "$(declare -f check_node); check_node" </dev/null || exit 1

# srun starts 8 tasks of train_hvd.py on each of 4 nodes.
srun --nodes=4 --ntasks=32 --ntasks-per-node=8 --cpus-per-task=4 --kill-on-bad-exit=1 --wait=600 \
    bash -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS \
        LOCAL_WORLD_SIZE=8
    exec "$@"' bash python train_hvd.py
