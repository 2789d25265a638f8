#!/bin/bash
#SBATCH --job-name="every option"
#SBATCH --partition=amd_a100nv_8
#SBATCH --account=acc
#SBATCH --qos=long
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2  # 4 tasks on 2 nodes
#SBATCH --cpus-per-task=8
#SBATCH --gres=gpu:a100:2,nvme:1
#SBATCH --exclusive
#SBATCH --constraint=hwperf
#SBATCH --reservation=school
#SBATCH --nodelist=gpu[35-36]
#SBATCH --exclude=gpu37
#SBATCH --time=01:30:00
#SBATCH --comment="field=nlp;appl=pytorch"
#SBATCH --dependency=afterok:17
#SBATCH --no-requeue
#SBATCH --mail-type=END,FAIL
#SBATCH --mail-user=me@example.org
#SBATCH --output=%x.log
#SBATCH --error=%x.err
#SBATCH --nice=100
#SBATCH --hold

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

srun --nodes=2 --ntasks-per-node=2 --cpus-per-task=8 --kill-on-bad-exit=1 bash -c '
  export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS \
      LOCAL_WORLD_SIZE=2
  exec "$@"' task python train.py
