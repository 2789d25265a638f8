#!/bin/bash
#SBATCH --job-name=openmp
#SBATCH --partition=cpu
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # 1 task on 1 node
#SBATCH --cpus-per-task=1
#SBATCH --time=00:05:00
#SBATCH --comment="field=phys;appl=in_house"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # of another training
export PYTHONUNBUFFERED=1  # lines reach the log as printed
export OMP_NUM_THREADS=10

# Check the node first, and report each defect.
failed=0; defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
command -v ./solver >/dev/null || defect 'cannot run ./solver'
[ "$failed" -eq 0 ] || exit 1

./solver input.dat
