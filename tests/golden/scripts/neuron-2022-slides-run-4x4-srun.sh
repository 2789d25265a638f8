# The processes meet on the first node, on this job's own port.
first_node=gpu32
address() { getent ahostsv4 "$1" | awk '{ print $1; exit }'; }
MASTER_ADDR=$(address "$first_node")
if [[ $MASTER_ADDR == 127.* ]]; then
    # The node's own /etc/hosts has 127.0.1.1 for its name, as on Debian: use the address, and for Gloo
    # the interface, of the route to the last node.
    route=$(ip route get "$(address "$(scontrol show hostnames "$SLURM_JOB_NODELIST" | tail -n 1)")")
    MASTER_ADDR=$(sed -n 's/.* src \([^ ]*\).*/\1/p' <<<"$route")
    export GLOO_SOCKET_IFNAME="${GLOO_SOCKET_IFNAME:-$(sed -n 's/.* dev \([^ ]*\).*/\1/p' <<<"$route")}"
fi
case $MASTER_ADDR in
    '' | 127.*)
        echo "$first_node has no address that other nodes can reach: '$MASTER_ADDR'" >&2
        exit 1
        ;;
esac
export MASTER_ADDR
export MASTER_PORT=$((10000 + (SLURM_JOB_ID + $$) % 20000))
export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}  # 32 cores / 4 processes, unless you exported it
srun --nodes=4 --nodelist=gpu32,gpu33,gpu34,gpu35 --ntasks=16 --ntasks-per-node=4 \
    --cpus-per-task=8 --kill-on-bad-exit=1 bash -c '
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
