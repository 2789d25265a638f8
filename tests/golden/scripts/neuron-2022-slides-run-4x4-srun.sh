job() {
    meet_on_first_node                            # sets MASTER_ADDR and MASTER_PORT
    export PYTHONUNBUFFERED=1                     # lines reach the log as printed
    export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}  # 32 cores / 4 processes, unless you exported it
    exec srun --nodes=4 --nodelist=gpu32,gpu33,gpu34,gpu35 --ntasks=16 --ntasks-per-node=4 \
        --cpus-per-task=8 --kill-on-bad-exit=1 \
        bash -c "$(declare -f each_task supervise wait_for_process); supervise each_task"
}

each_task() {  # exec: signals reach the program itself
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS \
        LOCAL_WORLD_SIZE=4
    exec python train_hvd.py
}

# ---- Helpers, the same in every script of this kind: nothing below is yours. The last line starts job. ----

# The processes meet on the first node, on this job's own port.
meet_on_first_node() {
    local first_node route
    first_node=gpu32
    MASTER_ADDR=$(address_of "$first_node")
    if [[ $MASTER_ADDR == 127.* ]]; then  # in the node's own /etc/hosts, as on Debian: take the route to the last
        route=$(ip route get "$(address_of "$(scontrol show hostnames "$SLURM_JOB_NODELIST" | tail -n 1)")")
        MASTER_ADDR=$(sed -n 's/.* src \([^ ]*\).*/\1/p' <<<"$route")
        export GLOO_SOCKET_IFNAME="${GLOO_SOCKET_IFNAME:-$(sed -n 's/.* dev \([^ ]*\).*/\1/p' <<<"$route")}"
    fi
    [[ $MASTER_ADDR && $MASTER_ADDR != 127.* ]] ||
        { echo "$first_node has no address that other nodes can reach: '$MASTER_ADDR'" >&2; exit 1; }
    export MASTER_ADDR MASTER_PORT=$((10000 + (SLURM_JOB_ID + $$) % 20000))
}
address_of() { getent ahostsv4 "$1" | awk '{ print $1; exit }'; }
# Run a function in the background, hand signals on to it, and end with its exit code.
supervise() {
    local slurm_stops='' supervised supervised_code
    send() { kill -s "$1" "$supervised" 2>/dev/null; }
    kill_wait() { scontrol show config 2>/dev/null | awk '/^KillWait/ { wait = $3 } END { print wait ? wait : 30 }'; }
    trap 'send HUP' HUP; trap 'send INT' INT; trap 'send USR1' USR1; trap 'send USR2' USR2
    # By Slurm: end with 1, before its KILL, not to hide the exit code of another that failed. Above 128: all have it.
    trap '[ "$?" -gt 128 ] || send TERM; slurm_stops=$((SECONDS + $(kill_wait) - 1))' TERM
    (trap - INT QUIT; "$@") <&0 &  # bash ignores INT and QUIT in the background
    supervised=$!
    wait_for_process "$supervised"; supervised_code=$?
    # Slurm may signal this shell after its program, and a task that has yet to set its trap would die of that signal.
    ((supervised_code == 0 || slurm_stops || supervised_code != 143 && SECONDS > 3)) || sleep 3
    exit "$((slurm_stops && supervised_code == 143 ? 1 : supervised_code))"
}
# Wait for a process and end with its exit code.
wait_for_process() {
    while kill -0 "$1" 2>/dev/null; do  # a signal to 'wait' as it ends would lose its exit code
        sleep 0.5 || true
        ((SECONDS < ${slurm_stops:-SECONDS + 1})) || exit 1
    done
    wait "$1"
}

job
