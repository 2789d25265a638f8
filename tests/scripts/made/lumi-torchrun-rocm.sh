#!/bin/bash
#SBATCH --job-name=train
#SBATCH --partition=standard-g
#SBATCH --account=project_465000000
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=56
#SBATCH --gpus-per-node=8
#SBATCH --time=1:00:00
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)  # the processes meet on the first node
export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))  # on a port derived from the job's id
export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export PYTHONNOUSERSITE=1                     # ~/.local is not the image's
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-7}  # 56 cores / 8 processes, unless you exported it
export NCCL_SOCKET_IFNAME=hsn

# Check each node before the launch; each fault is one line in the log.
check_node() {
    local faults=() devices visible
    command -v singularity >/dev/null || faults+=('no program on PATH: singularity')
    [ -r train.py ] || faults+=('cannot read train.py')
    [ -r torch.sif ] || faults+=('cannot read torch.sif')
    devices=CUDA_VISIBLE_DEVICES; [ -v "$devices" ] || devices=ROCR_VISIBLE_DEVICES  # neither is set: all are visible
    [ "${!devices-all}" ] || faults+=("8 GPUs requested, but $devices is empty")
    IFS=, read -ra visible <<<"${!devices-}"
    ((${#visible[@]} == 0 || ${#visible[@]} >= 8)) || faults+=("8 GPUs requested, ${#visible[@]} available")
    ! command -v rocm-smi >/dev/null || timeout 30 rocm-smi --showuse --csv | grep -q ^card || faults+=('rocm-smi finds no GPU')
    getent hosts "$MASTER_ADDR" >/dev/null || faults+=("cannot resolve $MASTER_ADDR")
    if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi
}
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=1 --overlap --kill-on-bad-exit=0 --mem=0 bash -c "$(declare -f check_node); check_node" </dev/null || exit 1

# torchrun starts 8 processes of train.py on each of 2 nodes.
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=56 --kill-on-bad-exit=1 --wait=600 \
    bash -c 'exec singularity exec --rocm --bind "$PWD" --bind /scratch:/scratch --pwd "$PWD" \
        torch.sif torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d \
        --rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" \
        --rdzv-conf=is_host=$((SLURM_NODEID == 0)) "$@"' torchrun train.py
