#!/bin/bash
#SBATCH --job-name=rollout
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=2
#SBATCH --gres=gpu:1
#SBATCH --time=5:00:00
#SBATCH --comment="field=robotics;appl=pytorch"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

job() {
    meet_on_first_node         # sets MASTER_ADDR and MASTER_PORT
    export PYTHONUNBUFFERED=1  # lines reach the log as printed
    check_node || exit 1       # programs, files, GPUs
    # the shell text starts once, on the first node.
    shell_text
}

shell_text() {
python server.py --port 7788 &
server=$!
srun --cpus-per-task=2 --overlap python client.py --port 7788
code=$?
kill "$server"
exit "$code"
exit  # in here, where a trap of EXIT finds the variables of these lines
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
    failed=0; defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
    if command -v nvidia-smi; then timeout 30 nvidia-smi -L || defect 'nvidia-smi finds no GPU'
    elif command -v rocm-smi; then timeout 30 rocm-smi --showid | grep 'GPU\[' || defect 'rocm-smi finds no GPU'
    fi >/dev/null
    return "$failed"
}

job
