#!/bin/bash
#SBATCH --job-name=jsc-evaluate-per-node
#SBATCH --partition=dc-gpu
#SBATCH --account=training2436
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --gres=gpu:4
#SBATCH --time=1:00:00
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

# The processes meet on the first node, on this job's own port.
first_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_ADDR=$(getent ahostsv4 "${first_node}i" | awk '{ print $1; exit }')
case $MASTER_ADDR in
    '' | 127.*)
        echo "$first_node has no address that other nodes can reach: '$MASTER_ADDR'" >&2
        exit 1
        ;;
esac
export MASTER_ADDR
export MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))

export PYTHONUNBUFFERED=1      # lines reach the log as printed
export OMP_NUM_THREADS=4       # 4 cores
export HF_HUB_OFFLINE=1        # jureca wants it
export HF_DATASETS_OFFLINE=1   # jureca wants it
export HF_EVALUATE_OFFLINE=1   # jureca wants it
export TRANSFORMERS_OFFLINE=1  # jureca wants it

# the shell text starts once, on the first node.
set -euo pipefail
python prepare.py
srun --cpus-per-task=4 --cpu-bind=none bash -c 'python evaluate.py --shard $SLURM_PROCID --of $SLURM_NTASKS'
cat out/shard_* > merged.txt
