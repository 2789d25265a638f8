#!/bin/bash
#SBATCH -J above
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:1
#SBATCH -t 01:00:00
#SBATCH --comment="field=cv;appl=pytorch"

cd project/deep || exit 1
cd ..
python main.py
