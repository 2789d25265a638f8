#!/bin/bash
#SBATCH --job-name=vasp
#SBATCH --partition=cpu
#SBATCH --ntasks=40
#SBATCH --cpus-per-task=1  # one core per task by default
#SBATCH --time=10:00:00
#SBATCH --comment="field=phys;appl=vasp"
#SBATCH --output=%x.o%j
#SBATCH --error=%x.e%j

stop() { echo "preflight: $(hostname -s): $1" >&2; exit 1; }
# /etc/profile defines 'module'. Your own PATH entries stay in front.
type module >/dev/null 2>&1 || { path=$PATH; . /etc/profile; PATH=$path:$PATH; }
module purge
module load gcc/11.5.0 mpi/openmpi-4.1.8 || stop 'cannot load the modules gcc/11.5.0 mpi/openmpi-4.1.8'

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # in case a training set them
export PYTHONUNBUFFERED=1  # lines reach the log as printed

# Check the node before the launch; each fault is one line in the log.
faults=()
command -v mpirun >/dev/null || faults+=('no program on PATH: mpirun')
if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi

# mpirun starts once, on the first node.
exec mpirun -n 2 --bind-to none ./solver INCAR
