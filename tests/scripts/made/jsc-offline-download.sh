#!/bin/bash
#SBATCH --job-name=evaluate
#SBATCH --partition=dc-gpu
#SBATCH --account=training2436
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --gres=gpu:4
#SBATCH --time=1:00:00
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

export MASTER_ADDR=127.0.0.1 MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))  # where the processes meet
export PYTHONUNBUFFERED=1                                                   # lines reach the log as printed
export HF_HUB_OFFLINE=1                                                     # jureca wants it
export HF_DATASETS_OFFLINE=1                                                # jureca wants it
export HF_EVALUATE_OFFLINE=1                                                # jureca wants it
export TRANSFORMERS_OFFLINE=1                                               # jureca wants it

export HF_HOME=$PWD/hf
source sc_venv_template/activate.sh

# Check the node first, and report each defect.
(failed=0; defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
command -v python >/dev/null || defect 'no program on PATH: python'
[ -r evaluate.py ] || defect 'cannot read evaluate.py'
gpus=$(awk -F, '{ print NF }' <<<"${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-}}")  # 0: no list, all are seen
[ "$gpus" -eq 0 ] || [ "$gpus" -ge 4 ] || defect "4 GPUs requested, $gpus available"
! command -v nvidia-smi >/dev/null || timeout 30 nvidia-smi -L >/dev/null || defect 'nvidia-smi finds no GPU'
exit "$failed") || exit 1

srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=8 --cpu-bind=none \
    bash -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS \
        LOCAL_WORLD_SIZE=1
    exec "$@"' bash python evaluate.py --offline
