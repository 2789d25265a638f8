#!/bin/bash -l
#SBATCH --job-name=farm
#SBATCH --partition=gpu
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=1
#SBATCH --time=00:30:00
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # of another training
export PYTHONUNBUFFERED=1  # lines reach the log as printed

# the shell text starts once, on the first node.
task() { srun --exact -n 1 -c 1 --overlap python align.py "$1"; }
while read -r sample; do
    task "$sample" < /dev/null &
done < samples.txt
wait
