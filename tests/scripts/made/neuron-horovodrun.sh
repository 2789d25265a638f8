#!/bin/bash
#SBATCH --job-name=hvd
#SBATCH --partition=cas_v100nv_8
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=4  # about 178 GB of memory per node
#SBATCH --gres=gpu:4
#SBATCH --time=8:00:00
#SBATCH --comment="field=cv;appl=tensorflow"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-4}  # 16 cores / 4 processes, unless you exported it

# Check the node before the launch; each fault is one line in the log.
faults=()
command -v horovodrun >/dev/null || faults+=('no program on PATH: horovodrun')
command -v python >/dev/null || faults+=('no program on PATH: python')
[ -r train.py ] || faults+=('cannot read train.py')
devices=CUDA_VISIBLE_DEVICES; [ -v "$devices" ] || devices=ROCR_VISIBLE_DEVICES  # neither is set: all are visible
[ "${!devices-all}" ] || faults+=("4 GPUs requested, but $devices is empty")
IFS=, read -ra visible <<<"${!devices-}"
((${#visible[@]} == 0 || ${#visible[@]} >= 4)) || faults+=("4 GPUs requested, ${#visible[@]} available")
{ ! command -v nvidia-smi || timeout 30 nvidia-smi -L; } >/dev/null || faults+=('nvidia-smi finds no GPU')
if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi

hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed "s/\$/:4/" | paste -sd,)
# horovodrun starts 4 processes of train.py.
exec horovodrun --gloo -np 4 -H "$hosts" --fusion-threshold-mb 32 python train.py
