#!/bin/bash
#SBATCH --job-name=ray
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --gres=gpu:1
#SBATCH --time=10:00:00
#SBATCH --comment="field=agenticai;appl=pytorch"
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

export PYTHONUNBUFFERED=1  # lines reach the log as printed

# Check the node first and report each defect.
failed=0
defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
if command -v nvidia-smi >/dev/null; then
    timeout 30 nvidia-smi -L >/dev/null || defect "nvidia-smi finds no GPU"
elif command -v rocm-smi >/dev/null; then
    # Its exit code is 0 in any case.
    timeout 30 rocm-smi --showid | grep 'GPU\[' >/dev/null || defect "rocm-smi finds no GPU"
fi
[ "$failed" -eq 0 ] || exit 1

# the shell text starts once, on the first node.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}
port=6379
srun --nodes=1 --ntasks=1 -w "$head" ray start --head --port=$port --block &
sleep 0.5
for ((i = 1; i < SLURM_JOB_NUM_NODES; i++)); do
    srun --nodes=1 --ntasks=1 -w "${nodes[i]}" ray start --address "$head:$port" --block &
done
sleep 0.5
python tune.py --address "$head:$port"
jobs -p | xargs kill
wait
