#!/bin/bash
#SBATCH --job-name=train
#SBATCH --partition=cpu
#SBATCH --nodes=1
#SBATCH --cpus-per-task=16
#SBATCH --time=6:00:00
#SBATCH --comment="field=misc;appl=pytorch"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # of another training
export PYTHONUNBUFFERED=1  # lines reach the log as printed

# Check the node first, and report each defect.
(failed=0; defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
command -v python >/dev/null || defect 'no program on PATH: python'
[ -r train.py ] || defect 'cannot read train.py'
exit "$failed") || exit 1

exec python train.py
