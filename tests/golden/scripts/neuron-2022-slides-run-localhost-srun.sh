# All processes run on one node and meet there, on this job's own port.
export MASTER_ADDR=127.0.0.1
export MASTER_PORT=$((10000 + (SLURM_JOB_ID + $$) % 20000))
export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}  # 32 cores / 4 processes, unless you exported it
srun --nodes=1 --nodelist=gpu32 --ntasks=4 --ntasks-per-node=4 --cpus-per-task=8 \
    --kill-on-bad-exit=1 bash -c '
  export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS \
      LOCAL_WORLD_SIZE=4
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
  exit "$((stopped && code > 128 ? 1 : code))"' task python train_hvd.py
