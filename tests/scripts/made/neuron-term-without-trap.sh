#!/bin/bash
#SBATCH --job-name=term
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # one process
#SBATCH --cpus-per-task=8    # 8 cores per GPU
#SBATCH --gres=gpu:1
#SBATCH --time=1:00:00
#SBATCH --comment="field=misc;appl=pytorch"
#SBATCH --signal=B:TERM@300
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

# A single process: ignore the variables of another training in the submitting shell.
unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

export PYTHONUNBUFFERED=1  # lines reach the log as printed
export OMP_NUM_THREADS=8   # 8 cores

# Slurm signals this shell before the end; pass the signal on to the program.
trap 'kill -s TERM "$program"' TERM

python train.py &
program=$!
# A signal interrupts 'wait': wait until the program has ended, and exit with its exit code.
while kill -0 "$program" 2>/dev/null; do
    wait "$program" || true
done
wait "$program"
