#!/bin/bash -l
#SBATCH -J farm
#SBATCH -N 1
#SBATCH --ntasks-per-node=4
#SBATCH -c 1
#SBATCH -p gpu
#SBATCH -t 00:30:00

task() { srun --exact -n 1 -c 1 --overlap python align.py "$1"; }
while read -r sample; do
    task "$sample" < /dev/null &
done < samples.txt
wait
