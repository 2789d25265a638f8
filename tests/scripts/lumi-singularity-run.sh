#!/bin/bash
#SBATCH --account=project_465000000
#SBATCH --partition=small-g
#SBATCH --gpus-per-node=1
#SBATCH --cpus-per-task=7
#SBATCH --time=00:30:00

module use /appl/local/training/modules
module load singularity-bindings
srun -c 7 singularity run --rocm --writable-tmpfs torch.sif train.py
