#!/bin/bash -l
#SBATCH --job-name=test_horovod
#SBATCH --partition=gpu
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4  # one task per GPU
#SBATCH --cpus-per-task=6
#SBATCH --gpus-per-node=4
#SBATCH --time=02:00:00
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-6}  # 24 cores / 4 processes, unless you exported it

# Check each node before the launch; each fault is one line in the log.
check_node() {
    local faults=() devices visible
    command -v mpirun >/dev/null || faults+=('no program on PATH: mpirun')
    command -v python >/dev/null || faults+=('no program on PATH: python')
    [ -r test_horovod.py ] || faults+=('cannot read test_horovod.py')
    devices=CUDA_VISIBLE_DEVICES; [ -v "$devices" ] || devices=ROCR_VISIBLE_DEVICES  # neither is set: all are visible
    [ "${!devices-all}" ] || faults+=("4 GPUs requested, but $devices is empty")
    IFS=, read -ra visible <<<"${!devices-}"
    ((${#visible[@]} == 0 || ${#visible[@]} >= 4)) || faults+=("4 GPUs requested, ${#visible[@]} available")
    { ! command -v nvidia-smi || timeout 30 nvidia-smi -L; } >/dev/null || faults+=('nvidia-smi finds no GPU')
    if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi
}
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=1 --overlap --kill-on-bad-exit=0 --mem=0 bash -c "$(declare -f check_node); check_node" </dev/null || exit 1

# mpirun starts 4 processes of test_horovod.py on each of 2 nodes.
exec mpirun -np 8 --bind-to none python test_horovod.py
