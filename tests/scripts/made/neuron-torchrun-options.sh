#!/bin/bash
#SBATCH --job-name=torchopt
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --cpus-per-task=8
#SBATCH --gres=gpu:2
#SBATCH --time=8:00:00
#SBATCH --comment="field=nlp;appl=pytorch-ddp"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-4}  # 8 cores / 2 processes, unless you exported it

# Check the node first, and report each defect.
(failed=0; defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
command -v torchrun >/dev/null || defect 'no program on PATH: torchrun'
[ -r train.py ] || defect 'cannot read train.py'
gpus=$(awk -F, '{ print NF }' <<<"${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-}}")  # 0: no list, all are seen
[ "$gpus" -eq 0 ] || [ "$gpus" -ge 2 ] || defect "2 GPUs requested, $gpus available"
! command -v nvidia-smi >/dev/null || timeout 30 nvidia-smi -L >/dev/null || defect 'nvidia-smi finds no GPU'
exit "$failed") || exit 1

# torchrun starts 2 processes of train.py.
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=8 torchrun --standalone \
    --nproc-per-node=2 --role=trainer --numa-binding=node --tee=3 --log-dir=torchlogs train.py \
    --epochs 3
