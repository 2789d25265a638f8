#!/bin/bash
#SBATCH -J ray
#SBATCH -p amd_a100nv_8
#SBATCH -N 2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --gres=gpu:1
#SBATCH --time=10:00:00
#SBATCH --comment="field=agenticai;appl=pytorch"

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}
port=6379
srun --nodes=1 --ntasks=1 -w "$head" ray start --head --port=$port --block &
sleep 0.5
for ((i = 1; i < SLURM_JOB_NUM_NODES; i++)); do
    srun --nodes=1 --ntasks=1 -w "${nodes[i]}" ray start --address "$head:$port" --block &
done
sleep 0.5
python tune.py --address "$head:$port"
jobs -p | xargs kill
wait
