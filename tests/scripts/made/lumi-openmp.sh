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

# All processes run on one node and meet there, on this job's own port.
export MASTER_ADDR=127.0.0.1
export MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))

export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-4}  # 8 cores / 2 processes, unless you exported it

export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
export OMP_PLACES=cores

# Check the node first and report each defect.
failed=0
defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
command -v ./solver >/dev/null || defect 'cannot run ./solver'
[ "$failed" -eq 0 ] || exit 1

# srun starts 2 tasks of ./solver.
srun --nodes=1 --ntasks=2 --ntasks-per-node=2 --cpus-per-task=4 --kill-on-bad-exit=1 \
    --cpu-bind=none bash -c '
  export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS \
      LOCAL_WORLD_SIZE=2
  # Slurm signals this shell, which signals the program.
  for signal in HUP INT USR1 USR2; do trap "kill -s $signal \$program 2>/dev/null" "$signal"; done
  # Tasks that Slurm stops because another one failed must not hide its exit code.
  trap "stopped=1; kill -s TERM \$program 2>/dev/null" TERM
  (
  trap - INT QUIT  # which bash ignores in the background
  exec "$@"
  ) <&0 &
  program=$!
  # Poll instead of waiting: if a signal interrupts a wait just as the program ends, bash loses its exit code.
  while kill -0 "$program"; do sleep 0.5; done 2>/dev/null
  wait "$program"
  code=$?
  # Slurm signals one process after the other: the program may end before this shell hears of it.
  ((code <= 128 || stopped)) || sleep 1
  exit "$((stopped && code > 128 ? 1 : code))"' task ./solver input.dat
