#!/bin/bash
#SBATCH --job-name=pair
#SBATCH --partition=cpu
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4  # 4 tasks on 1 node
#SBATCH --cpus-per-task=1    # one core per task by default
#SBATCH --time=4:00:00
#SBATCH --comment="field=chem;appl=lammps"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # of another training
export PYTHONUNBUFFERED=1  # lines reach the log as printed

# the shell text starts once, on the first node.
mpirun -n 2 --bind-to none ./solver in.left  > left.txt &
mpirun -n 2 --bind-to none ./solver in.right > right.txt &
wait
cat left.txt right.txt > both.txt
