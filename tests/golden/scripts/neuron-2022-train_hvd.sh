#!/bin/bash
#SBATCH --job-name=pytorch_horovod
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=4
#SBATCH --gres=gpu:8
#SBATCH --time=24:00:00
#SBATCH --comment=pytorch
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

type module >/dev/null 2>&1 || . /etc/profile
module purge
module load gcc/10.2.0 cuda/11.4 cudampi/openmpi-4.1.1 || exit 1

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
export OMP_NUM_THREADS=4   # 32 cores / 8 processes

srun --nodes=4 --ntasks-per-node=8 --cpus-per-task=4 --kill-on-bad-exit=1 bash -c '
  export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS \
      LOCAL_WORLD_SIZE=8
  exec "$@"' task python train_hvd.py
