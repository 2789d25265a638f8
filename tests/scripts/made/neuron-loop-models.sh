#!/bin/bash
#SBATCH --job-name=bench
#SBATCH --partition=cas_v100nv_4
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # one process
#SBATCH --cpus-per-task=10   # 10 cores per GPU; about 89 GB of memory per node
#SBATCH --gres=gpu:1
#SBATCH --time=8:00:00
#SBATCH --comment="field=cv;appl=pytorch"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # of another training
export PYTHONUNBUFFERED=1  # lines reach the log as printed

# Check the node first, and report each defect.
failed=0; defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
if command -v nvidia-smi; then timeout 30 nvidia-smi -L || defect 'nvidia-smi finds no GPU'
elif command -v rocm-smi; then timeout 30 rocm-smi --showid | grep 'GPU\[' || defect 'rocm-smi finds no GPU'
fi >/dev/null
[ "$failed" -eq 0 ] || exit 1

for model in resnet18 vgg16 vit_b; do
    for seed in 1 2; do
        python train.py --model "$model" --seed "$seed" | tee "log_${model}_$seed.txt"
    done
done
echo "all done"
