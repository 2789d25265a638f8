#!/bin/bash
#SBATCH --job-name=singularity
#SBATCH --partition=small-g
#SBATCH --account=project_465000000
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=7
#SBATCH --gpus-per-node=1
#SBATCH --time=00:30:00
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

module use /appl/local/training/modules
module load singularity-bindings

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # of another training
export PYTHONUNBUFFERED=1  # lines reach the log as printed

# Check the node first, and report each defect.
(failed=0; defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
command -v singularity >/dev/null || defect 'no program on PATH: singularity'
if command -v nvidia-smi; then timeout 30 nvidia-smi -L || defect 'nvidia-smi finds no GPU'
elif command -v rocm-smi; then timeout 30 rocm-smi --showid | grep 'GPU\[' || defect 'rocm-smi finds no GPU'
fi >/dev/null
exit "$failed") || exit 1

trap : TERM                # at scancel and the time limit: wait until the tasks have saved
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=7 singularity run --rocm \
    --writable-tmpfs torch.sif train.py
