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

# Check the node before the launch; each fault is one line in the log.
faults=()
command -v mpirun >/dev/null || faults+=('no program on PATH: mpirun')
command -v ./solver >/dev/null || faults+=('cannot run ./solver')
devices=CUDA_VISIBLE_DEVICES; [ -v "$devices" ] || devices=ROCR_VISIBLE_DEVICES  # neither is set: all are visible
[ "${!devices-all}" ] || faults+=("2 GPUs requested, but $devices is empty")
IFS=, read -ra visible <<<"${!devices-}"
((${#visible[@]} == 0 || ${#visible[@]} >= 2)) || faults+=("2 GPUs requested, ${#visible[@]} available")
{ ! command -v nvidia-smi || timeout 30 nvidia-smi -L; } >/dev/null || faults+=('nvidia-smi finds no GPU')
if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi

# mpirun starts 2 processes of ./solver.
exec mpirun -np 2 --bind-to none --mca btl self,vader,tcp ./solver input.dat
