#!/bin/bash
#SBATCH --job-name=rollout
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=2
#SBATCH --gres=gpu:1
#SBATCH --time=5:00:00
#SBATCH --comment="field=robotics;appl=pytorch"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

# The processes meet on the first node, on this job's own port.
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
export OMP_NUM_THREADS=2   # 4 cores / 2 processes

# the shell text starts once, on the first node.
python server.py --port 7788 &
server=$!
srun --cpus-per-task=2 --overlap python client.py --port 7788
code=$?
kill "$server"
exit "$code"
