#!/bin/bash
#SBATCH --job-name=mpirun
#SBATCH --partition=cpu
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=1  # one core per task by default
#SBATCH --time=00:30:00
#SBATCH --comment="field=phys;appl=in_house"
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
command -v mpirun >/dev/null || defect 'no program on PATH: mpirun'
[ "$failed" -eq 0 ] || exit 1

# mpirun starts once, on the first node.
mpirun -n 2 ./solver
