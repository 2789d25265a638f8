#!/bin/bash
#SBATCH --job-name=solver
#SBATCH --partition=cpu
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=48
#SBATCH --cpus-per-task=1  # one core a task unless asked
#SBATCH --time=00:30:00
#SBATCH --comment="field=phys;appl=in_house"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

type module >/dev/null 2>&1 || . /etc/profile
module purge
module load gcc/15.2.0 mpi/openmpi-4.1.8 || exit 1

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
export OMP_NUM_THREADS=1   # 48 cores / 48 processes

srun --nodes=2 --ntasks-per-node=48 --cpus-per-task=1 --kill-on-bad-exit=1 bash -c '
  export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS \
      LOCAL_WORLD_SIZE=48
  exec "$@"' task ./solver 'input file.dat'
