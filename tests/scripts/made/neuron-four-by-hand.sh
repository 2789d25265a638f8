#!/bin/bash
#SBATCH --job-name=byhand
#SBATCH --partition=cas_v100nv_4
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # one process
#SBATCH --cpus-per-task=40   # 4 GPUs x 10 cores per GPU; about 356 GB of memory per node
#SBATCH --gres=gpu:4
#SBATCH --time=12:00:00
#SBATCH --comment="field=cv;appl=pytorch"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

# A single process: ignore the variables of another training in the submitting shell.
unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

export PYTHONUNBUFFERED=1  # lines reach the log as printed
export OMP_NUM_THREADS=40  # 40 cores

for gpu in 0 1 2 3; do
    CUDA_VISIBLE_DEVICES=$gpu python train.py --seed $gpu > seed_$gpu.txt &
done
wait
