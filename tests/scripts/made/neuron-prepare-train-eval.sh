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

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # in case a training set them
export PYTHONUNBUFFERED=1  # lines reach the log as printed

# Check the node before the launch; each fault is one line in the log.
faults=()
command -v python >/dev/null || faults+=('no program on PATH: python')
command -v torchrun >/dev/null || faults+=('no program on PATH: torchrun')
[ -r prepare.py ] || faults+=('cannot read prepare.py')
[ -r train.py ] || faults+=('cannot read train.py')
[ -r evaluate.py ] || faults+=('cannot read evaluate.py')
devices=CUDA_VISIBLE_DEVICES; [ -v "$devices" ] || devices=ROCR_VISIBLE_DEVICES  # neither is set: all are visible
[ "${!devices-all}" ] || faults+=("2 GPUs requested, but $devices is empty")
IFS=, read -ra visible <<<"${!devices-}"
((${#visible[@]} == 0 || ${#visible[@]} >= 2)) || faults+=("2 GPUs requested, ${#visible[@]} available")
{ ! command -v nvidia-smi || timeout 30 nvidia-smi -L; } >/dev/null || faults+=('nvidia-smi finds no GPU')
if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi

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
