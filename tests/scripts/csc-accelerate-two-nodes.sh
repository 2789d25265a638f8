#!/bin/bash
#SBATCH --account=project_2001234
#SBATCH --partition=gpumedium
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --gres=gpu:a100:2
#SBATCH --time=02:00:00

export MASTER_IP=$(hostname -i)
RUN="accelerate launch --config_file zero3.yaml --num_processes 4 --num_machines 2 \
  --machine_rank \$SLURM_NODEID --main_process_ip $MASTER_IP --main_process_port 29500"
srun -c 8 bash -c "$RUN train.py --bf16"
