#!/bin/bash -x
#SBATCH --account=hai_project
#SBATCH --partition=booster
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=12
#SBATCH --gres=gpu:4
#SBATCH --time=04:00:00
#SBATCH --threads-per-core=1

export CUDA_VISIBLE_DEVICES=0,1,2,3
export NCCL_SOCKET_IFNAME=ib0
export MASTER_PORT=6000
srun --cpus-per-task=12 --cpu-bind=none ./solver --input mesh.dat
