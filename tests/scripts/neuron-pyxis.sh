#!/bin/bash
#SBATCH -J enroot
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:1
#SBATCH -t 01:00:00
#SBATCH --comment="field=nlp;appl=pytorch"

srun --container-image=./torch.sqsh --container-mounts=data:/data python train.py --data /data
