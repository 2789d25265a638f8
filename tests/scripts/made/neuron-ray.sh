#!/bin/bash
#SBATCH --job-name=ray
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --gres=gpu:1
#SBATCH --time=10:00:00
#SBATCH --comment="field=agenticai;appl=pytorch"
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
export OMP_NUM_THREADS=8   # 8 cores

# the shell text starts once, on the first node.
nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
head=${nodes[0]}
port=6379
srun --nodes=1 --ntasks=1 -w "$head" ray start --head --port=$port --block &
sleep 0.5
for ((i = 1; i < SLURM_JOB_NUM_NODES; i++)); do
    srun --nodes=1 --ntasks=1 -w "${nodes[i]}" ray start --address "$head:$port" --block &
done
sleep 0.5
python tune.py --address "$head:$port"
kill $(jobs -p)
wait
