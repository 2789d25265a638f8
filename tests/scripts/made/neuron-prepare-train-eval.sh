#!/bin/bash
#SBATCH --job-name=finetune
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --gres=gpu:2
#SBATCH --time=1-00:00:00
#SBATCH --comment="field=nlp;appl=pytorch-ddp"
#SBATCH --output=%x_%j.out

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # left by an outer torchrun
export PYTHONUNBUFFERED=1                                                  # lines reach the log as printed

# Check the node first, and report each defect.
(failed=0; defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
command -v python >/dev/null || defect 'no program on PATH: python'
command -v torchrun >/dev/null || defect 'no program on PATH: torchrun'
[ -r prepare.py ] || defect 'cannot read prepare.py'
[ -r train.py ] || defect 'cannot read train.py'
[ -r evaluate.py ] || defect 'cannot read evaluate.py'
gpus=$(awk -F, '{ print NF }' <<<"${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-}}")  # 0: no list, all are seen
[ "$gpus" -eq 0 ] || [ "$gpus" -ge 2 ] || defect "2 GPUs requested, $gpus available"
! command -v nvidia-smi >/dev/null || timeout 30 nvidia-smi -L >/dev/null || defect 'nvidia-smi finds no GPU'
exit "$failed") || exit 1

# Step 1: prepare.py starts once.
{
    python prepare.py --split train --out data
} &
code=0; wait "$!" || code=$?
[ "$code" -eq 0 ] || { echo "step 1 failed with exit code $code; the job ends with it" >&2; exit "$code"; }

# Step 2: torchrun starts 2 processes of train.py.
{
    export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}  # 16 cores / 2 processes, unless you exported it
    srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=16 torchrun --standalone \
        --nproc-per-node=2 train.py --data data
} &
code=0; wait "$!" || code=$?
[ "$code" -eq 0 ] || { echo "step 2 failed with exit code $code; the job ends with it" >&2; exit "$code"; }

# Step 3: evaluate.py starts once.
{
    python evaluate.py --data data --ckpt out/model.pt
} &
code=0; wait "$!" || code=$?
[ "$code" -eq 0 ] || { echo "step 3 failed with exit code $code; the job ends with it" >&2; exit "$code"; }
