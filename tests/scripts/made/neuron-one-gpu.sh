#!/bin/bash
#SBATCH --job-name=resnet
#SBATCH --partition=cas_v100_2
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # 1 task on 1 node
#SBATCH --cpus-per-task=16
#SBATCH --gres=gpu:1
#SBATCH --time=12:00:00
#SBATCH --comment="field=cv;appl=pytorch"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

stop() { echo "preflight: $(hostname -s): $1" >&2; exit 1; }
# /etc/profile defines 'module'. Your own PATH entries stay in front.
type module >/dev/null 2>&1 || { path=$PATH; . /etc/profile; PATH=$path:$PATH; }
module purge
module load gcc/11.5.0 cuda/12.4.1 || stop 'cannot load the modules gcc/11.5.0 cuda/12.4.1'

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # in case a training set them
export PYTHONUNBUFFERED=1  # lines reach the log as printed

# Check the node before the launch; each fault is one line in the log.
faults=()
command -v python >/dev/null || faults+=('no program on PATH: python')
[ -r train.py ] || faults+=('cannot read train.py')
devices=CUDA_VISIBLE_DEVICES; [ -v "$devices" ] || devices=ROCR_VISIBLE_DEVICES  # neither is set: all are visible
[ "${!devices-all}" ] || faults+=("1 GPU requested, but $devices is empty")
{ ! command -v nvidia-smi || timeout 30 nvidia-smi -L; } >/dev/null || faults+=('nvidia-smi finds no GPU')
if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi

exec python train.py --arch resnet50 --lr 0.1
