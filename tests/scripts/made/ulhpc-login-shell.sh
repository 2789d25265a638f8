#!/bin/bash -l
#SBATCH --job-name=train
#SBATCH --partition=gpu
#SBATCH --qos=normal
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # 1 task on 1 node
#SBATCH --cpus-per-task=7
#SBATCH --gpus-per-node=1
#SBATCH --time=0-02:00:00
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # in case a training set them
export PYTHONUNBUFFERED=1  # lines reach the log as printed

set -e  # the first of these lines that fails ends the job
trap '[[ $- != *e* ]] || echo "preflight: $(hostname -s): a setup line failed: $BASH_COMMAND" >&2' ERR
export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}
set +e; trap - ERR

# Check the node before the launch; each fault is one line in the log.
faults=()
command -v python >/dev/null || faults+=('no program on PATH: python')
[ -r train.py ] || faults+=('cannot read train.py')
devices=CUDA_VISIBLE_DEVICES; [ -v "$devices" ] || devices=ROCR_VISIBLE_DEVICES  # neither is set: all are visible
[ "${!devices-all}" ] || faults+=("1 GPU requested, but $devices is empty")
{ ! command -v nvidia-smi || timeout 30 nvidia-smi -L; } >/dev/null || faults+=('nvidia-smi finds no GPU')
if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi

exec python train.py
