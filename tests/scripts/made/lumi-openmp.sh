#!/bin/bash
#SBATCH --job-name=solver
#SBATCH --partition=standard
#SBATCH --account=project_465000000
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=4
#SBATCH --time=00:30:00
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err
#SBATCH --hint=nomultithread

export MASTER_ADDR=127.0.0.1 MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))  # where the processes meet
export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-4}  # 8 cores / 2 processes, unless you exported it

set -e  # the first of these lines that fails ends the job
trap '[[ $- != *e* ]] || echo "preflight: $(hostname -s): a setup line failed: $BASH_COMMAND" >&2' ERR
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
export OMP_PLACES=cores
set +e; trap - ERR

# Check the node before the launch; each fault is one line in the log.
faults=()
command -v ./solver >/dev/null || faults+=('cannot run ./solver')
if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi

# srun starts 2 tasks of ./solver.
srun --nodes=1 --ntasks=2 --ntasks-per-node=2 --cpus-per-task=4 --kill-on-bad-exit=1 --wait=600 \
    --cpu-bind=none \
    bash -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS \
        LOCAL_WORLD_SIZE=2
    exec "$@"' bash ./solver input.dat
