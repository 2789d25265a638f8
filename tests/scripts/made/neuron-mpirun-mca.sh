#!/bin/bash
#SBATCH --job-name=mca
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=8  # 2 GPUs x 8 cores per GPU / 2 tasks
#SBATCH --gres=gpu:2
#SBATCH --time=8:00:00
#SBATCH --comment="field=phys;appl=in_house"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

export PYTHONUNBUFFERED=1  # lines reach the log as printed
export OMP_NUM_THREADS=4

# Check the node first, and report each defect.
(failed=0; defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
command -v mpirun >/dev/null || defect 'no program on PATH: mpirun'
command -v ./solver >/dev/null || defect 'cannot run ./solver'
gpus=$(awk -F, '{ print NF }' <<<"${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-}}")  # 0: no list, all are seen
[ "$gpus" -eq 0 ] || [ "$gpus" -ge 2 ] || defect "2 GPUs requested, $gpus available"
! command -v nvidia-smi >/dev/null || timeout 30 nvidia-smi -L >/dev/null || defect 'nvidia-smi finds no GPU'
exit "$failed") || exit 1

# mpirun starts 2 processes of ./solver.
exec mpirun -np 2 --bind-to none --mca btl self,vader,tcp ./solver input.dat
