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

job() {
    meet_on_first_node         # sets MASTER_ADDR and MASTER_PORT
    export PYTHONUNBUFFERED=1  # lines reach the log as printed
    check_node || exit 1       # programs, files, GPUs
    # mpirun starts once, on the first node.
    exec mpirun -n 16 ./solver
}

# ---- Helpers, the same in every script of this kind: nothing below is yours. The last line starts job. ----

# The processes meet on the first node, on this job's own port.
meet_on_first_node() {
    local first_node route
    first_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
    MASTER_ADDR=$(address_of "$first_node")
    if [[ $MASTER_ADDR == 127.* ]]; then  # in the node's own /etc/hosts, as on Debian: take the route to the last
        route=$(ip route get "$(address_of "$(scontrol show hostnames "$SLURM_JOB_NODELIST" | tail -n 1)")")
        MASTER_ADDR=$(sed -n 's/.* src \([^ ]*\).*/\1/p' <<<"$route")
        export GLOO_SOCKET_IFNAME="${GLOO_SOCKET_IFNAME:-$(sed -n 's/.* dev \([^ ]*\).*/\1/p' <<<"$route")}"
    fi
    [[ $MASTER_ADDR && $MASTER_ADDR != 127.* ]] ||
        { echo "$first_node has no address that other nodes can reach: '$MASTER_ADDR'" >&2; exit 1; }
    export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))
}
address_of() { getent ahostsv4 "$1" | awk '{ print $1; exit }'; }
# Check the node, and report each defect.
check_node() {
    local failed=0
    defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
    command -v mpirun >/dev/null || defect 'no program on PATH: mpirun'
    return "$failed"
}

job
