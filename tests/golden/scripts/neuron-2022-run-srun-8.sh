# The processes meet on the first node, on this job's own port.
first_node=gpu32
MASTER_ADDR=$(getent ahostsv4 "$first_node" | awk '{ print $1; exit }')
case $MASTER_ADDR in
    '' | 127.*)
        echo "$first_node has no address that other nodes can reach: '$MASTER_ADDR'" >&2
        exit 1
        ;;
esac
export MASTER_ADDR
export MASTER_PORT=$((10000 + (SLURM_JOB_ID + $$) % 20000))
export PYTHONUNBUFFERED=1  # lines reach the log as printed
export OMP_NUM_THREADS=8   # 32 cores / 4 processes
srun --nodes=2 --nodelist=gpu32,gpu33 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=8 \
    --kill-on-bad-exit=1 bash -c '
  export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS \
      LOCAL_WORLD_SIZE=4
  # Tasks that Slurm stops because another one failed must not hide its exit code.
  trap stopped=1 TERM; trap : HUP INT USR1 USR2
  "$@"
  code=$?
  exit "$((stopped && code > 128 ? 1 : code))"' task python train_hvd.py
