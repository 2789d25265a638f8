#!/bin/bash -l
#SBATCH --job-name=train
#SBATCH --partition=gpu
#SBATCH --qos=normal
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # 1 task on 1 node
#SBATCH --cpus-per-task=7
#SBATCH --gpus-per-node=1
#SBATCH --time=0-02:00:00
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # left by an outer torchrun
export PYTHONUNBUFFERED=1                                                  # lines reach the log as printed

export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}

# Check the node first, and report each defect.
(failed=0; defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
command -v python >/dev/null || defect 'no program on PATH: python'
[ -r train.py ] || defect 'cannot read train.py'
! command -v nvidia-smi >/dev/null || timeout 30 nvidia-smi -L >/dev/null || defect 'nvidia-smi finds no GPU'
exit "$failed") || exit 1

exec python train.py
