#!/bin/bash
#SBATCH --job-name=bench
#SBATCH --partition=cas_v100nv_4
#SBATCH --nodes=1
#SBATCH --cpus-per-task=10  # 10 cores per GPU; about 89 GB of memory per node
#SBATCH --gres=gpu:1
#SBATCH --time=8:00:00
#SBATCH --comment="field=cv;appl=pytorch"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # in case a training set them
export PYTHONUNBUFFERED=1  # lines reach the log as printed

# Check the node before the launch; each fault is one line in the log.
faults=()
devices=CUDA_VISIBLE_DEVICES; [ -v "$devices" ] || devices=ROCR_VISIBLE_DEVICES  # neither is set: all are visible
[ "${!devices-all}" ] || faults+=("1 GPU requested, but $devices is empty")
{ ! command -v nvidia-smi || timeout 30 nvidia-smi -L; } >/dev/null || faults+=('nvidia-smi finds no GPU')
if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi

set -e
for model in resnet18 vgg16 vit_b; do
    for seed in 1 2; do
        python train.py --model "$model" --seed "$seed" | tee "log_${model}_$seed.txt"
    done
done
echo "all done"
