#!/bin/bash
#SBATCH --job-name=jupyter
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # one process
#SBATCH --cpus-per-task=8    # 8 cores per GPU
#SBATCH --gres=gpu:1
#SBATCH --time=8:00:00
#SBATCH --comment="field=misc;appl=jupyter"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

# A single process: ignore the variables of another training in the submitting shell.
unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

export PYTHONUNBUFFERED=1  # lines reach the log as printed
export OMP_NUM_THREADS=8   # 8 cores

port=$((8000 + SLURM_JOB_ID % 1000))
host=$(hostname -s)
echo "ssh -L $port:$host:$port $USER@neuron.ksc.re.kr" > tunnel.txt
jupyter lab --no-browser --ip=0.0.0.0 --port="$port"
