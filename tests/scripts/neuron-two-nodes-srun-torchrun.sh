#!/bin/bash
#SBATCH -J ddp2
#SBATCH -p amd_a100nv_8
#SBATCH -N 2
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:2
#SBATCH --cpus-per-task=16
#SBATCH -t 1-00:00:00
#SBATCH --comment="field=nlp;appl=pytorch-ddp"

export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
export MASTER_PORT=29500
export OMP_NUM_THREADS=4
srun --cpus-per-task=16 torchrun --nnodes=$SLURM_NNODES --nproc_per_node=2 \
    --rdzv_id=$SLURM_JOB_ID --rdzv_backend=c10d --rdzv_endpoint=$MASTER_ADDR:$MASTER_PORT train.py
