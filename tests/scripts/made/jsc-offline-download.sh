#!/bin/bash
#SBATCH --job-name=evaluate
#SBATCH --partition=dc-gpu
#SBATCH --account=training2436
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --gres=gpu:4
#SBATCH --time=1:00:00
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

# All processes run on one node and meet there, on this job's own port.
export MASTER_ADDR=127.0.0.1
export MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))

export PYTHONUNBUFFERED=1      # lines reach the log as printed
export OMP_NUM_THREADS=8       # 8 cores
export HF_HUB_OFFLINE=1        # jureca wants it
export HF_DATASETS_OFFLINE=1   # jureca wants it
export HF_EVALUATE_OFFLINE=1   # jureca wants it
export TRANSFORMERS_OFFLINE=1  # jureca wants it

export HF_HOME=$PWD/hf
source sc_venv_template/activate.sh

srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=8 --cpu-bind=none \
    --kill-on-bad-exit=1 bash -c '
  export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS \
      LOCAL_WORLD_SIZE=1
  # Tasks that Slurm stops because another one failed must not hide its exit code.
  trap stopped=1 TERM; trap : HUP INT USR1 USR2
  "$@"
  code=$?
  exit "$((stopped && code > 128 ? 1 : code))"' task python evaluate.py --offline
