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

job() {
    meet_on_first_node                            # sets MASTER_ADDR and MASTER_PORT
    export PYTHONUNBUFFERED=1                     # lines reach the log as printed
    export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}  # 16 cores / 2 processes, unless you exported it
    export PATH="/opt/x/bin:$PATH"
    export COST='5$ &'
    check_nodes || exit 1                         # programs, files, GPUs, the way to the first node
    trap : TERM                                   # at scancel and the time limit: wait until the tasks have saved
    # torchrun starts 2 processes of train.py on each of 2 nodes.
    srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=16 --kill-on-bad-exit=1 \
        bash -c "$(declare -f on_each_node supervise told_all); supervise on_each_node \"\$@\"" \
        bash train.py "--id=${SLURM_JOB_ID//\$/\$\$}" \
        "${SLURM_JOB_USER//\$/\$\$}_\$\$x \"two\" words" '$'
}

on_each_node() {  # exec: signals reach the program itself
    exec torchrun --nnodes=2 --nproc-per-node=2 --rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" \
        --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" --rdzv-conf=is_host=$((SLURM_NODEID == 0)) \
        "$@"
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
# Check every node and report each defect, instead of letting the training hang.
check_nodes() {
    echo "preflight: $SLURM_JOB_NODELIST, 2 GPUs per node"
    srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=1 --overlap --kill-on-bad-exit=0 \
        bash -c "$(declare -f check_node); check_node" </dev/null || return 1
    echo "preflight: all is well"
}
check_node() {
    local failed=0 gpus
    defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
    if [ "$SLURM_NODEID" -eq 0 ]; then
        # A node that could not come (124: the time is over) says so itself.
        timeout 12 python3 -c 'import os, socket, sys
try:
    with socket.create_server((sys.argv[1], int(sys.argv[2]))) as server:
        for _ in range(int(sys.argv[3])):
            server.accept()[0].recv(1)
except OSError as error:
    why = os.strerror(error.errno) if error.errno else error
    sys.exit(f"preflight: {socket.gethostname()}: port {sys.argv[2]} cannot be used: {why}")' \
            "$MASTER_ADDR" "$MASTER_PORT" "$((SLURM_JOB_NUM_NODES - 1))" || [ "$?" -eq 124 ] || failed=1
    else
        SECONDS=0
        until timeout 2 bash -c 'exec 3<>"/dev/tcp/$MASTER_ADDR/$MASTER_PORT"' 2>/dev/null; do
            [ "$SECONDS" -lt 8 ] || { defect "cannot reach $MASTER_ADDR port $MASTER_PORT, the first node"; break; }
            sleep 0.2
        done
    fi
    command -v torchrun >/dev/null || defect 'no program on PATH: torchrun'
    [ -r train.py ] || defect 'cannot read train.py'
    gpus=$(awk -F, '{ print NF }' <<<"${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-}}")  # 0: no list, all are seen
    [ "$gpus" -eq 0 ] || [ "$gpus" -ge 2 ] || defect "2 GPUs requested, $gpus available"
    if command -v nvidia-smi; then timeout 30 nvidia-smi -L || defect 'nvidia-smi finds no GPU'
    elif command -v rocm-smi; then timeout 30 rocm-smi --showid | grep 'GPU\[' || defect 'rocm-smi finds no GPU'
    fi >/dev/null
    return "$failed"
}
# The seconds between Slurm's TERM and its KILL, asked once for all tasks.
export job_kill_wait; job_kill_wait=$(timeout 9 scontrol show config 2>/dev/null | awk '/^KillWait/ { print $3 }') || true
# Run a function in the background, hand signals on to it, and end with its exit code.
supervise() {
    local told=-1 job_witness supervised supervised_code
    send() { kill -s "$1" "$supervised" 2>/dev/null; }
    (trap '' HUP USR1 USR2; exec tail --pid=$$ -f /dev/null) </dev/null &>/dev/null & job_witness=$!; disown 2>/dev/null || true
    trap 'send HUP' HUP; trap 'send INT' INT; trap 'send USR1' USR1; trap 'send USR2' USR2
    # By Slurm, twice at the time limit: end with 1, before its KILL, not to hide the exit code of another that failed.
    trap '((SECONDS <= told)) || { told=$((SECONDS + 1)); told_all || send TERM; }' TERM
    (trap - INT QUIT; "$@") <&0 &  # bash ignores INT and QUIT in the background
    supervised=$!
    while kill -0 "$supervised" 2>/dev/null; do  # a signal to 'wait' as it ends would lose its exit code
        sleep 0.5; ((told < 0 || SECONDS < told + ${job_kill_wait:-30} - 2)) || exit 1
    done
    wait "$supervised"; supervised_code=$?
    # Slurm may signal this shell after its program, and a task that has yet to set its trap would die of that signal.
    ((supervised_code == 0 || told >= 0 || supervised_code != 143 && SECONDS > 3)) || sleep 3
    kill -KILL "$job_witness" 2>/dev/null; exit "$((told >= 0 && supervised_code == 143 ? 1 : supervised_code))"
}
# Whether Slurm has sent TERM to every process (proctrack/linuxproc), so that the witness died of it, or to its tasks alone.
told_all() { for _ in 1 2 3 4 5; do kill -0 "${job_witness:-$$}" 2>/dev/null || return 0; sleep 0.1; done; false; }

job
