salloc --job-name=debug --partition=amd_a100nv_8 --nodes=2 --ntasks-per-node=4 --cpus-per-task=8 --gres=gpu:4 --time=8:00:00 --comment=python srun --nodes=1 --ntasks=1 --overlap --preserve-env --distribution=block --pty bash -c 'exec bash --rcfile <(printf %s "$NEURONCTL_WIRING") -i'

# $NEURONCTL_WIRING holds these lines, which run in the shell on the first node:
[ -r ~/.bashrc ] && . ~/.bashrc

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
        { echo "$first_node has no address that other nodes can reach: '$MASTER_ADDR'" >&2; }
    export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))
}
address_of() { getent ahostsv4 "$1" | awk '{ print $1; exit }'; }
meet_on_first_node  # sets MASTER_ADDR and MASTER_PORT
