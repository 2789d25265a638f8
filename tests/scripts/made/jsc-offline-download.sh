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
export PYTHONUNBUFFERED=1      # lines reach the log as printed
export HF_HUB_OFFLINE=1        # jureca wants it
export HF_DATASETS_OFFLINE=1   # jureca wants it
export HF_EVALUATE_OFFLINE=1   # jureca wants it
export TRANSFORMERS_OFFLINE=1  # jureca wants it

set -e  # the first of these lines that fails ends the job
trap '[[ $- != *e* ]] || echo "preflight: $(hostname -s): a setup line failed: $BASH_COMMAND" >&2' ERR
export HF_HOME=$PWD/hf
source sc_venv_template/activate.sh
set +e; trap - ERR

# Check the node before the launch; each fault is one line in the log.
faults=()
command -v python >/dev/null || faults+=('no program on PATH: python')
[ -r evaluate.py ] || faults+=('cannot read evaluate.py')
devices=CUDA_VISIBLE_DEVICES; [ -v "$devices" ] || devices=ROCR_VISIBLE_DEVICES  # neither is set: all are visible
[ "${!devices-all}" ] || faults+=("4 GPUs requested, but $devices is empty")
IFS=, read -ra visible <<<"${!devices-}"
((${#visible[@]} == 0 || ${#visible[@]} >= 4)) || faults+=("4 GPUs requested, ${#visible[@]} available")
{ ! command -v nvidia-smi || timeout 30 nvidia-smi -L; } >/dev/null || faults+=('nvidia-smi finds no GPU')
if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi

srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=8 --cpu-bind=none \
    bash -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS \
        LOCAL_WORLD_SIZE=1
    exec "$@"' bash python evaluate.py --offline
