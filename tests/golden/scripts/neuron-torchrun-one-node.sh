#!/bin/bash
#SBATCH --job-name=train
#SBATCH --partition=cas_v100_4
#SBATCH --nodes=1
#SBATCH --cpus-per-task=40  # 4 GPUs x 10 cores per GPU; about 356 GB of memory per node
#SBATCH --gres=gpu:4
#SBATCH --time=2-00:00:00   # the default of neuron
#SBATCH --comment="field=misc;appl=pytorch"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

export PYTHONUNBUFFERED=1                      # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-10}  # 40 cores / 4 processes, unless you exported it

# Check the node before the launch; each fault is one line in the log.
faults=()
command -v torchrun >/dev/null || faults+=('no program on PATH: torchrun')
[ -r train.py ] || faults+=('cannot read train.py')
devices=CUDA_VISIBLE_DEVICES; [ -v "$devices" ] || devices=ROCR_VISIBLE_DEVICES  # neither is set: all are visible
[ "${!devices-all}" ] || faults+=("4 GPUs requested, but $devices is empty")
IFS=, read -ra visible <<<"${!devices-}"
((${#visible[@]} == 0 || ${#visible[@]} >= 4)) || faults+=("4 GPUs requested, ${#visible[@]} available")
{ ! command -v nvidia-smi || timeout 30 nvidia-smi -L; } >/dev/null || faults+=('nvidia-smi finds no GPU')
if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi

# torchrun starts 4 processes of train.py.
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=40 torchrun --standalone \
    --nproc-per-node=4 train.py --epochs 20
