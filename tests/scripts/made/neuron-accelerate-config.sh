#!/bin/bash
#SBATCH --job-name=accel
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --cpus-per-task=16
#SBATCH --gres=gpu:2
#SBATCH --time=8:00:00
#SBATCH --comment="field=nlp;appl=deepspeed"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}  # 16 cores / 2 processes, unless you exported it

# Check the node first, and report each defect.
(failed=0; defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
command -v accelerate >/dev/null || defect 'no program on PATH: accelerate'
[ -r train.py ] || defect 'cannot read train.py'
gpus=$(awk -F, '{ print NF }' <<<"${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-}}")  # 0: no list, all are seen
[ "$gpus" -eq 0 ] || [ "$gpus" -ge 2 ] || defect "2 GPUs requested, $gpus available"
! command -v nvidia-smi >/dev/null || timeout 30 nvidia-smi -L >/dev/null || defect 'nvidia-smi finds no GPU'
exit "$failed") || exit 1

# accelerate starts 2 processes of train.py.
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=16 accelerate launch \
    --num_processes=2 --num_machines=1 --main_process_port=0 --config_file=zero3.yaml train.py \
    --bf16
