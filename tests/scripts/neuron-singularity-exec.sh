#!/bin/bash
#SBATCH -J sing
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:1
#SBATCH -t 04:00:00
#SBATCH --comment="field=cv;appl=pytorch"

module load singularity/4.3.4
singularity exec --nv -B data:/data -B out:/out llama.sif python train.py --data /data
