#!/bin/bash
#SBATCH --job-name=train
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1  # torchrun starts the processes
#SBATCH --cpus-per-task=16   # 2 GPUs x 8 cores per GPU
#SBATCH --gres=gpu:2
#SBATCH --time=1-00:00:00
#SBATCH --comment="field=misc;appl=pytorch"
#SBATCH --requeue
#SBATCH --open-mode=append   # a requeued job keeps its log
#SBATCH --signal=B:USR2@300  # then TERM goes to what handles it, to save
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

job() {
    begin_run                                     # which run it is; at its end, end_run decides whether another one follows
    meet_on_first_node                            # sets MASTER_ADDR and MASTER_PORT
    export PYTHONUNBUFFERED=1                     # lines reach the log as printed
    export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}  # 16 cores / 2 processes, unless you exported it
    export HF_HUB_OFFLINE=1
    check_nodes || exit 1                         # programs, files, GPUs, the way to the first node
    launched=yes                                  # from here on, a failure is the program's
    # Slurm signals this shell before the end; let it signal the tasks with TERM.
    trap 'ask_to_save; scancel --signal=TERM "$SLURM_JOB_ID"' USR2
    trap : TERM                                   # at scancel and the time limit: wait until the tasks have saved
    # torchrun starts 2 processes of train.py on each of 2 nodes.
    (trap exit TERM; trap note_success EXIT  # if it ended with 0
    srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=16 --kill-on-bad-exit=1 \
        bash -c "$(declare -f on_each_node supervise told_all pass_on); supervise LOCAL_RANK on_each_node \"\$@\"" \
        bash train.py --lr 0.1 "${resume_with[@]}") &
    program=$!
    wait_for_process "$program"
}

on_each_node() {  # exec: signals reach the program itself
    exec torchrun --nnodes=2 --nproc-per-node=2 --rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" \
        --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" --rdzv-conf=is_host=$((SLURM_NODEID == 0)) \
        "$@"
}

# ---- Helpers, the same in every script of this kind: nothing below is yours. The last line starts job. ----

# Begin a run, and note it in a file; end here if no other may follow.
begin_run() {
    local tries=20
    runs_file=$PWD/train_$SLURM_JOB_ID.runs asked='' launched='' slurm_stops=''
    ((${SLURM_RESTART_COUNT:-0})) || rm -f "$runs_file"  # of another job that had this id
    touch "$runs_file" || exit 1
    checkpoint=$PWD/'my run/last.pt'
    run=$(grep -c ' begin ' "$runs_file")
    [ "$run" -eq 0 ] || [ "$(last_of end 1)" = "$run" ] || note_lost_end
    [ "$(last_of end 5)" != finished ] || { echo "the program ended with 0 in run $run: no other run begins"; exit 0; }
    [ "$run" -eq 0 ] || may_go_on || { ! is_marked || end_cancelled; exit 1; }
    ! is_avoided || requeue
    export NEURONCTL_RUN=$((run += 1))
    resume_with=()
    [ "$run" -eq 1 ] || resume_with=(--resume 'the latest')
    trap ask_to_save USR2; trap 'end_run "$?"' EXIT
    until note begin "$SLURM_JOB_NODELIST" "$(progress)" "$(stat -L -c %s "/proc/$$/fd/1")" "$(stat -L -c %s "/proc/$$/fd/2")" "$SLURM_JOB_ID"; do
        # No room: without its note, runs would follow without end.
        ((tries--)) || { trap - EXIT; echo "no run begins: $runs_file cannot be written" >&2; exit 1; }
        sleep 30; echo >>"$runs_file"  # after what may be a part of a line
    done
    run_ends=0; find_end
    export NEURONCTL_SAVE_FROM=$((run_ends - 360))  # Slurm may be a minute early
    echo "run $run of at most 10, on $SLURM_JOB_NODELIST"
}
# The shell that runs the program notes that it ended with 0, at once and first of all: this shell, which looks twice a
# second, or its node may be gone before it sees that.
note_success() { [ "$?" -ne 0 ] || printf '%s finished %(%s)T\n' "$NEURONCTL_RUN" -1 >>"$runs_file" || true; }
has_finished() { [ "$(last_of finished 1)" = "$run" ]; }
# At the end of a run: 0 is the end of all. What has saved as asked to, or says so with 75, or has met its time limit
# goes on; so does what never got as far as the program.
end_run() {
    [ "$1" -ne 0 ] || has_finished || note finished || true  # as the user's lines or steps may not have done
    local code=$1 cause=failed
    trap : USR2; trap 'exit "$code"' TERM
    ! has_finished || code=0  # also where Slurm's signal came between
    if [ "$code" -eq 0 ]; then cause=finished
    elif [ "$slurm_stops" ] && ((SECONDS >= slurm_stops)); then cause=limit
    elif [ "$asked" ] || [ "$code" -eq 75 ]; then cause=saved
    elif node_failed; then cause=node
    elif [ -z "$launched" ] && ! is_lacking "$code"; then cause=node
    fi
    # Slurm has ended it, for scancel or another job: if it starts it again, that run finds out why.
    [ "$cause" = finished ] || [[ $(job_state) =~ ^(RUNNING)?$ ]] || exit "$code"
    note_end "$code" "$cause"
    [ "$cause" != node ] || note_failed_nodes
    if [ "$cause$launched" = failed ]; then
        echo "run $run ended with exit code $code before its program began"
        says_over "what it needs is missing on its nodes, and would be in each run"
    else
        echo "run $run ended with exit code $code: $(in_words "$cause")"
    fi
    [[ $cause == finished || $cause == failed ]] || ! may_go_on || requeue
    [[ $cause == finished || $cause == failed ]] || ! is_marked || end_cancelled
    exit "$code"
}
# Whether another run may follow; says why if not.
may_go_on() {
    local last
    last=$(awk '$2 == "end" && $5 ~ /^(saved|limit)$/ && $6 == "still" { print $1 + 0, $5 }' "$runs_file" | tail -n 2)
    if is_marked; then says_over "it was cancelled"
    elif [ "$run" -ge 10 ]; then says_over "that was the last of 10 runs"
    elif [ "$last" = "$((run - 1)) ${last##* }"$'\n'"$run ${last##* }" ]; then
        says_over "two runs without progress ended the same way: $(in_words "${last##* }")"
    elif [ "$(grep -cE ' end [0-9]+ [0-9-]+ (lost|node) ' "$runs_file")" -gt 2 ]; then
        says_over "nodes have failed more than 2 times"
    fi
}
in_words() {
    case $1 in
        finished) echo 'the program ended with 0' ;;
        saved) echo 'it ended to go on in another run' ;;
        limit) echo 'time limit reached' ;;
        failed) echo 'the program failed' ;;
        node) echo 'a failure of its node, or before the program began' ;;
    esac
}
# Whether neuronctl has noted that it cancels the job, which it does before it tells Slurm.
is_marked() { grep -q '^- cancel ' "$runs_file"; }
# The job is to end as one that was cancelled, also where this shell is faster than neuronctl's scancel.
end_cancelled() {
    scancel "$SLURM_JOB_ID" || true
    for _ in {1..60}; do sleep 1; done  # until Slurm ends this shell
}
says_over() { echo "no other run follows: $1" >&2; note over "$1"; return 1; }
# Have Slurm end this run, and start another. What was cancelled meanwhile is not to come back.
requeue() {
    [ -z "$(avoided)" ] || trap '' TERM  # which Slurm sends while it is told of the nodes
    until [ "$(job_state)" = RUNNING ] && scontrol requeue "$SLURM_JOB_ID"; do sleep 5; done
    start_elsewhere "$SLURM_JOB_ID"
    ! is_marked || scancel "$SLURM_JOB_ID"
    [ -z "$(avoided)" ] || exit 1
    while sleep 1; do :; done  # until Slurm ends this shell
}
# When Slurm ends this run: its administrator may change that. Where it does not say, as it last did.
find_end() {
    local told
    told=$(SLURM_TIME_FORMAT=%s timeout 5 squeue -h -j "$SLURM_JOB_ID" -o %e) || true
    [[ ! $told =~ ^[0-9]+$ ]] || run_ends=$told
}
# Slurm says that the run is about to end. What has not ended shortly before is left to Slurm.
ask_to_save() {
    local left
    find_end
    left=$(((run_ends > 0 ? run_ends - $(date +%s) : 300) - 10))
    asked=yes slurm_stops=$((SECONDS + (left > 1 ? left : 1)))
    note asked TERM
    echo "run $run: time to save; it ends in $left s"
}
note() { echo "$run $1 $(date +%s) ${*:2}" >>"$runs_file"; }
note_end() {
    local moved=still seconds
    seconds=$(last_of begin 3)
    seconds=$(($(date +%s) - ${seconds:-$(date +%s)}))  # somebody may have removed the notes
    [ "$1" != - ] || [ "$seconds" -le 86400 ] || seconds=86400  # noted by the next one, which has waited
    [ "$(progress)" = "$(last_of begin 5)" ] || moved=moved
    note end "$1 $2 $moved" "$seconds"
}
last_of() { awk -v word="$1" -v field="$2" '$2 == word { found = $field } END { print found }' "$runs_file"; }
progress() { find -L "$checkpoint" -type f -printf '%p %s %T@\n' 2>/dev/null | LC_ALL=C sort | cksum | tr ' ' -; }
# What the last run has written into its logs, and whether that is a failure of its node.
said() {
    local fd
    for fd in 1 2; do
        [ ! -f "/proc/$$/fd/$fd" ] || tail -c "+$(($(last_of begin $((fd + 5))) + 1))" "/proc/$$/fd/$fd"
    done
}
node_failed() { grep -qE 'preflight: [^ ]+: ((nvidia|rocm)-smi finds no GPU|[0-9]+ GPUs requested, [0-9]+ available|port [0-9]+ cannot be used)|uncorrectable (NVLink|ECC) error|GPU is lost|(GPU|GPU has) fallen off the bus|(CUDA|HIP) error: .*(no longer (accessible|available)|hardware (stack )?error)|CUDA-capable device\(s\) is/are busy or unavailable|GPU requires reset|Xid \([^)]*\): (48|62|63|64|74|79|92|94|95|119|120|140|143|149|154)($|[^0-9])|Unable to determine the device handle|CUDA driver initialization failed|no CUDA-capable device|hipErrorNoDevice|Stale file handle|Transport endpoint is not connected' <(said); }
# Whether a run that has not got as far as its program, and ended with $1, lacks something that no run would find: on all
# of its nodes, and where no run has found it before.
is_lacking() {
    local nodes lacking
    ! grep -qE ' end [0-9]+ [0-9-]+ (saved|limit|stall) ' "$runs_file" || return 1
    [ "$1" -ne 126 ] && [ "$1" -ne 127 ] || return 0
    nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sort -u)
    lacking=$(said | sed -nE 's/^preflight: ([^ :]+): (no (program|conda)|cannot (run|read|bind)) .*/\1/p' | sort -u)
    [ "$nodes" ] && [ "$lacking" = "$nodes" ]
}
# Note which nodes of the last run failed: its only one, or those that its log names, if not all.
note_failed_nodes() {
    local nodes failed
    nodes=$(scontrol show hostnames "$(last_of begin 4)" | sort)
    if [[ $nodes == *$'\n'* ]]; then
        failed=$(said | sed -nE 's/^(preflight: ([^ :]+): .*|srun: error: Node failure on ([^ ]+))$/\2\3/p' | grep -Fx "$nodes" | sort -u)
        [ "$failed" != "$nodes" ] || return 0
        nodes=$failed
    elif ! [ "${1-}" ] && ! node_failed; then
        return 0
    fi
    [ "$nodes" ] || return 0
    note avoid "$(paste -sd , <<<"$nodes")"
    says_avoided "$nodes"
}
says_avoided() {
    local node out
    out=,$(avoided),
    for node in $1; do
        if [[ $out == *,$node,* ]]; then echo "run $run: $node is left out of all later runs"
        else echo "run $run: $node is not left out of later runs: the job's partition, -w, -x, and -C leave too few others with the GPUs, cores, and memory that it needs"; fi
    done
}
# Those that failed in any run, if the job has others enough: of its partition, with the features of its -C, and the GPUs,
# cores, and memory of a node that it needs, without those of its -x. What its -w names is part of each run.
avoided() {
    local nodes left
    nodes=$(awk '$2 == "avoid" { print $4 }' "$runs_file" | tr , '\n' | sort -u)
    [ -z "$nodes" ] || nodes=$(grep -vFx "$(hosts ReqNodeList)" <<<"$nodes")
    [ "$nodes" ] || return 0
    left=$(suitable | sort -u | grep -vFx "$(hosts ExcNodeList)" | grep -cvFx "$nodes")
    [ "$left" -lt "$SLURM_JOB_NUM_NODES" ] || paste -sd , <<<"$nodes"
}
# Where a -C counts nodes, has brackets, or both & and |, they are not known: none is listed.
suitable() {
    sinfo -h -N -p "$SLURM_JOB_PARTITION" -o '%N %c %m %G %f' | job=$(scontrol show job "$SLURM_JOB_ID") awk '
        function of_job(name) {
            if (!match(ENVIRON["job"], "[ \n]" name "=[^ \n]*")) return ""
            name = substr(ENVIRON["job"], RSTART + length(name) + 2, RLENGTH - length(name) - 2)
            return name == "(null)" ? "" : name
        }
        function megabytes(size) { return size * (size ~ /T/ ? 1048576 : size ~ /G/ ? 1024 : 1) }
        function read(gres,    parts, count) {  # gpu, gpu:a100, gpu:2, gpu:a100:2
            count = split(gres, parts, /[:=]/)
            many = count > 1 && parts[count] ~ /^[0-9]+$/ ? parts[count] : 1
            kind = count > 1 && parts[2] !~ /^[0-9]+$/ ? parts[2] : ""
            return parts[1] == "gpu"
        }
        function has_gpus(given,    needed, each, left, i, j) {
            gsub(/[(][^)]*[)]/, "", given)
            for (i = split(tres, needed, ","); i > 0; i--) {
                if (!read(needed[i])) continue
                left = many; of = kind
                for (j = split(given, each, ","); j > 0; j--)
                    if (read(each[j]) && (of == "" || of == kind)) left -= many
                if (left > 0) return 0
            }
            return 1
        }
        BEGIN {
            wanted = of_job("Features"); any = wanted ~ /[|]/; count = split(wanted, words, /[&|,]/)
            cores = of_job("MinCPUsNode") + 0; memory = megabytes(of_job("MinMemoryNode")); if (!memory) memory = megabytes(of_job("MinMemoryCPU")) * cores
            tres = of_job("TresPerNode") "," of_job("TresPerTask"); gsub(/gres[:\/]/, "", tres)
        }
        wanted ~ /[][()*]/ || any && wanted ~ /[&,]/ { exit }
        { has = 0; for (i in words) has += index("," $5 ",", "," words[i] ",") > 0 }
        (any ? has : has == count) && $2 >= cores && $3 >= memory && has_gpus($4) { print $1 }'
}
of_job() { scontrol show job "$SLURM_JOB_ID" | sed -nE -e "s/^ *(ReqNodeList=[^ ]* )?$1=([^ ]*).*/\2/" -e T -e 's/^[(]null[)]$//' -e p; }
hosts() {
    local list
    list=$(of_job "$1")
    [ -z "$list" ] || scontrol show hostnames "$list"
}
# Whether this run, which has not begun, has such a node, and has not been sent elsewhere before.
is_avoided() {
    local nodes
    nodes=$(avoided | tr , '\n')
    [ "$nodes" ] && scontrol show hostnames "$SLURM_JOB_NODELIST" | grep -qFx "$nodes" && [ "$(last_of elsewhere 1)" != "$run" ] || return 1
    note elsewhere "$SLURM_JOB_NODELIST"
    echo "run $((run + 1)) is to begin elsewhere than on $(avoided), where an earlier one failed"
}
to_exclude() {
    local more had
    more=$(avoided)
    [ "$more" ] || return 0
    had=$(of_job ExcNodeList)
    echo "${had:+$had,}$more"
}
start_elsewhere() {
    local nodes
    nodes=$(to_exclude)
    [ -z "$nodes" ] || [ -z "$1" ] || scontrol update JobId="$1" ExcNodeList="$nodes"
}
job_state() { squeue -h -t all -j "$SLURM_JOB_ID" -o %T; }
# A run that could not note its end: its node died, somebody killed this shell, or Slurm took it for another job.
note_lost_end() {
    local state
    state=$(how_slurm_ended)
    note_end - "${state#node }"
    [ "$state" = "${state#node }" ] || note_failed_nodes died
}
how_slurm_ended() {
    ! has_finished || { echo finished; return; }
    case $(sacct -D -X -n -P -j "$SLURM_JOB_ID" -o State | grep -vE 'RUNNING|PENDING' | tail -n 1) in
        NODE_FAIL* | BOOT_FAIL*) echo node lost ;;
        PREEMPTED*) echo preempted ;;
        REQUEUED*) echo requeued ;;
        *) echo lost ;;
    esac
}
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
# Run a function in the background, hand signals on to it, and end with its exit code.
# TERM goes to those of its processes that have the variable $1, in place of the launcher.
supervise() {
    local launcher_mark=$1 told=-1 job_witness supervised supervised_code
    shift
    send() { kill -s "$1" "$supervised" 2>/dev/null; }
    (trap '' HUP USR1 USR2; exec tail --pid=$$ -f /dev/null) </dev/null &>/dev/null & job_witness=$!; disown 2>/dev/null || true
    trap 'send HUP' HUP; trap 'send INT' INT; trap 'send USR1' USR1; trap 'send USR2' USR2
    # By Slurm, twice at the time limit: end with 1, before its KILL, not to hide the exit code of another that failed.
    trap '((SECONDS <= told)) || { told=$((SECONDS + 1)); told_all || pass_on TERM "$supervised" "$launcher_mark"; }' TERM
    (trap - INT QUIT; "$@") <&0 &  # bash ignores INT and QUIT in the background
    supervised=$!
    while kill -0 "$supervised" 2>/dev/null; do  # a signal to 'wait' as it ends would lose its exit code
        sleep 0.5
    done
    wait "$supervised"; supervised_code=$?
    # Slurm may signal this shell after its program, and a task that has yet to set its trap would die of that signal.
    ((supervised_code == 0 || told >= 0 || supervised_code != 143 && SECONDS > 3)) || sleep 3
    kill -KILL "$job_witness" 2>/dev/null; exit "$((told >= 0 && supervised_code == 143 ? 1 : supervised_code))"
}
# Whether Slurm has sent TERM to every process (proctrack/linuxproc), so that the witness died of it, or to its tasks alone.
told_all() { for _ in 1 2 3 4 5; do kill -0 "${job_witness:-$$}" 2>/dev/null || return 0; sleep 0.1; done; false; }
# Wait for a process and end with its exit code.
wait_for_process() {
    while kill -0 "$1" 2>/dev/null; do  # a signal to 'wait' as it ends would lose its exit code
        sleep 0.5 || true
        ((SECONDS < ${slurm_stops:-SECONDS + 1})) || exit 1
    done
    wait "$1"
}
# Send the signal $1 to the processes below $2: to each that handles it, or else to those below that one, as a shell
# that merely waits for one would die of it. With $3: only to those that have this variable. Fails if none handles it.
pass_on() {
    local IFS=$'\n' child handled number unheard=1
    number=$(kill -l "$1")
    for child in $(grep -ls "^PPid:[[:blank:]]$2\$" /proc/[0-9]*/status | sed 's/[^0-9]//g'); do
        ! grep -qsx srun "/proc/$child/comm" || { unheard=0; continue; }  # whose tasks are Slurm's to signal
        handled=0
        if [ -z "${3-}" ] || grep -qsz "^$3=" "/proc/$child/environ"; then
            handled=$(sed -n 's/^Sig\(Blk\|Cgt\):[[:blank:]]*/0x/p' "/proc/$child/status" 2>/dev/null | paste -sd '|') || true
            : "${handled:=0}"
        fi
        if ((handled >> number - 1 & 1)); then
            kill -s "$1" "$child" 2>/dev/null && unheard=0
            continue
        fi
        ! pass_on "$1" "$child" "${3-}" || unheard=0
    done
    return "$unheard"
}

job
