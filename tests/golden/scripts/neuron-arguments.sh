#!/bin/bash
#SBATCH --job-name=train
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1  # torchrun starts the processes
#SBATCH --cpus-per-task=16   # 2 GPUs x 8 cores per GPU
#SBATCH --gres=gpu:2
#SBATCH --time=1-00:00:00
#SBATCH --comment="field=misc;appl=pytorch"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

# The processes meet on the first node, on this job's own port.
first_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
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
export MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))

export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}  # 16 cores / 2 processes, unless you exported it

# Check every node first and report each defect, instead of letting the training hang.
echo "preflight: $SLURM_JOB_NODELIST, 2 GPUs per node"
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=1 --overlap --kill-on-bad-exit=0 bash -s <<'PREFLIGHT' || exit 1
failed=0
defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
if [ "$SLURM_NODEID" -eq 0 ]; then
    # A node that could not come (124: the time is over) says so itself.
    timeout 12 python3 - "$MASTER_ADDR" "$MASTER_PORT" <<'LISTEN' || [ "$?" -eq 124 ] || failed=1
import os, socket, sys
address, port = sys.argv[1], int(sys.argv[2])
try:
    with socket.create_server((address, port)) as server:
        for _ in range(1):
            server.accept()[0].recv(1)
except OSError as error:
    why = os.strerror(error.errno) if error.errno else error
    sys.exit(f"preflight: {socket.gethostname()}: port {port} cannot be used: {why}")
LISTEN
else
    SECONDS=0
    until timeout 2 bash -c 'exec 3<>"/dev/tcp/$MASTER_ADDR/$MASTER_PORT"' 2>/dev/null; do
        if [ "$SECONDS" -ge 8 ]; then
            defect "cannot reach $MASTER_ADDR port $MASTER_PORT, the first node"
            break
        fi
        sleep 0.2
    done
fi
command -v torchrun >/dev/null || defect 'no program on PATH: torchrun'
[ -r train.py ] || defect 'cannot read train.py'
gpus=$(awk -F, '{ print NF }' <<<"${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-}}")
# 0: Slurm sets no list of GPUs here, and a program sees all of them.
[ "$gpus" -eq 0 ] || [ "$gpus" -ge 2 ] || defect "2 GPUs requested, $gpus available"
if command -v nvidia-smi >/dev/null; then
    timeout 30 nvidia-smi -L >/dev/null || defect "nvidia-smi finds no GPU"
elif command -v rocm-smi >/dev/null; then
    # Its exit code is 0 in any case.
    timeout 30 rocm-smi --showid | grep 'GPU\[' >/dev/null || defect "rocm-smi finds no GPU"
fi
exit "$failed"
PREFLIGHT
echo "preflight: all is well"

# torchrun starts 2 processes of train.py on each of 2 nodes.
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=16 --kill-on-bad-exit=1 bash -c '
  # Slurm signals this shell, which signals the program.
  for signal in HUP INT USR1 USR2; do trap "kill -s $signal \$program 2>/dev/null" "$signal"; done
  # Tasks that Slurm stops because another one failed must not hide its exit code.
  trap "stopped=1; kill -s TERM \$program 2>/dev/null" TERM
  (
  trap - INT QUIT  # which bash ignores in the background
  exec torchrun --nnodes=2 --nproc-per-node=2 --rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" \
      --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" --rdzv-conf=is_host=$((SLURM_NODEID == 0)) \
      "$@"
  ) <&0 &
  program=$!
  # Poll instead of waiting: if a signal interrupts a wait just as the program ends, bash loses its exit code.
  while kill -0 "$program"; do sleep 0.5; done 2>/dev/null
  wait "$program"
  code=$?
  # Slurm signals one process after the other: the program may end before this shell hears of it.
  ((code <= 128 || stopped)) || sleep 1
  exit "$((stopped && code > 128 ? 1 : code))"' torchrun train.py '' 'two words' '$five' '$(touch seen)' '`touch seen`' 'it'"'"'s' 'say "no"' \
    'a
b' 'tab	here' 'back\slash' '*' '~' '!' 'a;b' 'a&b' -p --help -- --name='with blank' \
    '실험'
