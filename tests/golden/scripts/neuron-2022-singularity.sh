#!/bin/bash
#SBATCH --job-name=debug
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4  # one task per GPU
#SBATCH --cpus-per-task=8    # 4 GPUs x 8 cores per GPU / 4 tasks
#SBATCH --gres=gpu:4
#SBATCH --time=2:00:00
#SBATCH --comment=horovod
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)  # the processes meet on the first node
export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))  # on a port derived from the job's id
export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export PYTHONNOUSERSITE=1                     # ~/.local is not the image's
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}  # 32 cores / 4 processes, unless you exported it

# Scratch and this directory; binding one twice gives a warning per process.
export BINDS="/scratch/$USER"; [ "$PWD" = "$BINDS" ] || BINDS+=",$PWD"

# Check each node before the launch; each fault is one line in the log.
check_node() {
    local faults=() devices visible
    command -v singularity >/dev/null || faults+=('no program on PATH: singularity')
    [ -r pytorch_imagenet_resnet50.py ] || faults+=('cannot read pytorch_imagenet_resnet50.py')
    [ -r pytorch_22.03-hd-py3.sif ] || faults+=('cannot read pytorch_22.03-hd-py3.sif')
    devices=CUDA_VISIBLE_DEVICES; [ -v "$devices" ] || devices=ROCR_VISIBLE_DEVICES  # neither is set: all are visible
    [ "${!devices-all}" ] || faults+=("4 GPUs requested, but $devices is empty")
    IFS=, read -ra visible <<<"${!devices-}"
    ((${#visible[@]} == 0 || ${#visible[@]} >= 4)) || faults+=("4 GPUs requested, ${#visible[@]} available")
    { ! command -v nvidia-smi || timeout 30 nvidia-smi -L; } >/dev/null || faults+=('nvidia-smi finds no GPU')
    getent hosts "$MASTER_ADDR" >/dev/null || faults+=("cannot resolve $MASTER_ADDR")
    if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi
}
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=1 --overlap --kill-on-bad-exit=0 --mem=0 bash -c "$(declare -f check_node); check_node" </dev/null || exit 1

# srun starts 4 tasks of pytorch_imagenet_resnet50.py on each of 2 nodes.
srun --nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=8 --kill-on-bad-exit=1 --wait=600 \
    bash -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS \
        LOCAL_WORLD_SIZE=4
    exec singularity exec --nv --bind "$BINDS" --pwd "$PWD" pytorch_22.03-hd-py3.sif "$@"' bash \
    python pytorch_imagenet_resnet50.py
