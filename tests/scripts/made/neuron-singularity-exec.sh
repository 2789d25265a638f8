#!/bin/bash
#SBATCH --job-name=sing
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --cpus-per-task=8  # 8 cores per GPU
#SBATCH --gres=gpu:1
#SBATCH --time=4:00:00
#SBATCH --comment="field=cv;appl=pytorch"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

stop() { echo "preflight: $(hostname -s): $1" >&2; exit 1; }
# /etc/profile defines 'module'. Your own PATH entries stay in front.
type module >/dev/null 2>&1 || { path=$PATH; . /etc/profile; PATH=$path:$PATH; }
module purge
module load singularity/4.3.4 || stop 'cannot load the modules singularity/4.3.4'

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # in case a training set them
export PYTHONUNBUFFERED=1  # lines reach the log as printed
export PYTHONNOUSERSITE=1  # ~/.local is not the image's

# Scratch and this directory; binding one twice gives a warning per process.
export BINDS="/scratch/$USER"; [ "$PWD" = "$BINDS" ] || BINDS+=",$PWD"

# Check the node before the launch; each fault is one line in the log.
faults=()
command -v singularity >/dev/null || faults+=('no program on PATH: singularity')
[ -r train.py ] || faults+=('cannot read train.py')
[ -r llama.sif ] || faults+=('cannot read llama.sif')
devices=CUDA_VISIBLE_DEVICES; [ -v "$devices" ] || devices=ROCR_VISIBLE_DEVICES  # neither is set: all are visible
[ "${!devices-all}" ] || faults+=("1 GPU requested, but $devices is empty")
{ ! command -v nvidia-smi || timeout 30 nvidia-smi -L; } >/dev/null || faults+=('nvidia-smi finds no GPU')
if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi

exec singularity exec --nv --bind "$BINDS" --bind data:/data --bind out:/out --pwd "$PWD" llama.sif \
    python train.py --data /data
