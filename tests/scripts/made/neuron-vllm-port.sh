#!/bin/bash
#SBATCH --job-name=vllm
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # one process
#SBATCH --cpus-per-task=8
#SBATCH --gres=gpu:2
#SBATCH --time=4:00:00
#SBATCH --comment="field=nlp;appl=vllm"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

# A single process: ignore the variables of another training in the submitting shell.
unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

export PYTHONUNBUFFERED=1  # lines reach the log as printed
export OMP_NUM_THREADS=8   # 8 cores

port=$(shuf -i 20000-29999 -n 1)
vllm serve ./model --tensor-parallel-size 2 --port "$port" &
until curl -sf "http://localhost:$port/health"; do sleep 1; done
python ask.py --url "http://localhost:$port/v1"
kill %1
