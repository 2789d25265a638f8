#!/bin/bash
#SBATCH -J singrun
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:1
#SBATCH -t 04:00:00
#SBATCH --comment="field=cv;appl=pytorch"

singularity run --nv --writable-tmpfs llama.sif --task all
