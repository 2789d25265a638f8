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

# Check the node before the launch; each fault is one line in the log.
faults=()
command -v accelerate >/dev/null || faults+=('no program on PATH: accelerate')
[ -r train.py ] || faults+=('cannot read train.py')
devices=CUDA_VISIBLE_DEVICES; [ -v "$devices" ] || devices=ROCR_VISIBLE_DEVICES  # neither is set: all are visible
[ "${!devices-all}" ] || faults+=("2 GPUs requested, but $devices is empty")
IFS=, read -ra visible <<<"${!devices-}"
((${#visible[@]} == 0 || ${#visible[@]} >= 2)) || faults+=("2 GPUs requested, ${#visible[@]} available")
{ ! command -v nvidia-smi || timeout 30 nvidia-smi -L; } >/dev/null || faults+=('nvidia-smi finds no GPU')
if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi

# accelerate starts 2 processes of train.py.
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=16 accelerate launch \
    --num_processes=2 --num_machines=1 --main_process_port=0 --config_file=zero3.yaml train.py \
    --bf16
