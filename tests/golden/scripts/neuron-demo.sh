#!/bin/bash
#SBATCH --job-name=train_ddp
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1  # torchrun starts the processes
#SBATCH --cpus-per-task=16   # 2 GPUs x 8 cores a GPU
#SBATCH --gres=gpu:2
#SBATCH --time=00:10:00
#SBATCH --comment="field=misc;appl=pytorch-ddp"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

# The processes meet on the first node, at its address, at a port of this job's own.
first_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_ADDR=$(getent ahostsv4 "$first_node" | awk '{ print $1; exit }')
case $MASTER_ADDR in
    '' | 127.*)
        echo "$first_node has no address that other nodes can reach: '$MASTER_ADDR'" >&2
        exit 1
        ;;
esac
export MASTER_ADDR
export MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))

export PYTHONUNBUFFERED=1  # lines reach the log as printed
export OMP_NUM_THREADS=8   # 16 cores / 2 processes

srun --nodes=2 --ntasks-per-node=1 --cpus-per-task=16 --kill-on-bad-exit=1 bash -c '
  exec torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" \
      --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" --rdzv-conf=is_host=$((SLURM_NODEID == 0)) \
      --nproc-per-node=2 "$@"' torchrun examples/train_ddp.py
