#!/bin/bash -l
#SBATCH --job-name=train
#SBATCH --partition=gpu
#SBATCH --account=project_2001234
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # 1 task on 1 node
#SBATCH --cpus-per-task=10
#SBATCH --gres=gpu:v100:1,nvme:100
#SBATCH --mem=4G
#SBATCH --time=1:00:00
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

stop() { echo "preflight: $(hostname -s): $1" >&2; exit 1; }
module purge
module load pytorch || stop 'cannot load the modules pytorch'

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # of another training
export PYTHONUNBUFFERED=1  # lines reach the log as printed

tar xf data.tar -C "$LOCAL_SCRATCH"

# Check the node first, and report each defect.
failed=0; defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
command -v python3 >/dev/null || defect 'no program on PATH: python3'
if command -v nvidia-smi; then timeout 30 nvidia-smi -L || defect 'nvidia-smi finds no GPU'
elif command -v rocm-smi; then timeout 30 rocm-smi --showid | grep 'GPU\[' || defect 'rocm-smi finds no GPU'
fi >/dev/null
[ "$failed" -eq 0 ] || exit 1

python3 train.py --data "$LOCAL_SCRATCH"
