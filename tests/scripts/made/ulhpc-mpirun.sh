#!/bin/bash -l
#SBATCH --job-name=test_horovod
#SBATCH --partition=gpu
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=6
#SBATCH --gpus-per-node=4
#SBATCH --time=02:00:00
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-6}  # 24 cores / 4 processes, unless you exported it

job() {
    check_nodes || exit 1                         # programs, files, GPUs
    # mpirun starts 4 processes of test_horovod.py on each of 2 nodes.
    mpirun -np 8 --bind-to none python test_horovod.py
}

# ---- Helpers, the same in every script of this kind: nothing below is yours. The last line starts job. ----

# Check every node and report each defect, instead of letting the training hang.
check_nodes() {
    echo "preflight: $SLURM_JOB_NODELIST, 4 GPUs per node"
    srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=1 --overlap --kill-on-bad-exit=0 \
        bash -c "$(declare -f check_node); check_node" </dev/null || return 1
    echo "preflight: all is well"
}
check_node() {
    failed=0; defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
    command -v mpirun >/dev/null || defect 'no program on PATH: mpirun'
    command -v python >/dev/null || defect 'no program on PATH: python'
    [ -r test_horovod.py ] || defect 'cannot read test_horovod.py'
    gpus=$(awk -F, '{ print NF }' <<<"${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-}}")  # 0: no list, all are seen
    [ "$gpus" -eq 0 ] || [ "$gpus" -ge 4 ] || defect "4 GPUs requested, $gpus available"
    if command -v nvidia-smi; then timeout 30 nvidia-smi -L || defect 'nvidia-smi finds no GPU'
    elif command -v rocm-smi; then timeout 30 rocm-smi --showid | grep 'GPU\[' || defect 'rocm-smi finds no GPU'
    fi >/dev/null
    return "$failed"
}

job
