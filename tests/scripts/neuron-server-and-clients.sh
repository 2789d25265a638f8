#!/bin/bash
#SBATCH -J rollout
#SBATCH -p amd_a100nv_8
#SBATCH -N 2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=2
#SBATCH --gres=gpu:1
#SBATCH -t 05:00:00
#SBATCH --comment="field=robotics;appl=pytorch"

python server.py --port 7788 &
server=$!
srun --cpus-per-task=2 --overlap python client.py --port 7788
code=$?
kill "$server"
exit "$code"
