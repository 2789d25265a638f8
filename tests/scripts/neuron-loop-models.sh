#!/bin/bash
#SBATCH --job-name=bench
#SBATCH --partition=cas_v100nv_4
#SBATCH --nodes=1
#SBATCH --gres=gpu:1
#SBATCH --time=08:00:00
#SBATCH --comment="field=cv;appl=pytorch"

for model in resnet18 vgg16 vit_b; do
    for seed in 1 2; do
        python train.py --model "$model" --seed "$seed" | tee "log_${model}_$seed.txt"
    done
done
echo "all done"
