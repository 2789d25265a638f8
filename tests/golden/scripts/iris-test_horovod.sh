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

# Check each node before the launch: one line in the log instead of a training that hangs.
check_node() {
    local failed=0
    defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
    command -v mpirun >/dev/null || defect 'no program on PATH: mpirun'
    command -v python >/dev/null || defect 'no program on PATH: python'
    [ -r test_horovod.py ] || defect 'cannot read test_horovod.py'
    gpus=$(awk -F, '{ print NF }' <<<"${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-}}")  # 0: no list, all are seen
    [ "$gpus" -eq 0 ] || [ "$gpus" -ge 4 ] || defect "4 GPUs requested, $gpus available"
    ! command -v nvidia-smi >/dev/null || timeout 30 nvidia-smi -L >/dev/null || defect 'nvidia-smi finds no GPU'
    return "$failed"
}
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=1 --overlap --kill-on-bad-exit=0 \
    bash -c "$(declare -f check_node); check_node" </dev/null || exit 1

# mpirun starts 4 processes of test_horovod.py on each of 2 nodes.
exec mpirun -np 8 --bind-to none python test_horovod.py
