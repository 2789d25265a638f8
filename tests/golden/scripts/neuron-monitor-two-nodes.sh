#!/bin/bash
#SBATCH --job-name=train
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1  # torchrun starts the processes
#SBATCH --cpus-per-task=16   # 2 GPUs x 8 cores per GPU
#SBATCH --gres=gpu:2
#SBATCH --time=2-00:00:00    # the default of neuron
#SBATCH --comment="field=misc;appl=pytorch"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

job() {
    meet_on_first_node                            # sets MASTER_ADDR and MASTER_PORT
    export PYTHONUNBUFFERED=1                     # lines reach the log as printed
    export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}  # 16 cores / 2 processes, unless you exported it
    check_nodes || exit 1                         # programs, files, GPUs, the way to the first node
    monitor_nodes                                 # use of GPUs, cores, and memory, every 10 s
    trap : TERM                                   # at scancel and the time limit: wait until the tasks have saved
    # torchrun starts 2 processes of train.py on each of 2 nodes.
    srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=16 --kill-on-bad-exit=1 \
        bash -c "$(declare -f on_each_node supervise told_all); supervise on_each_node"
}

on_each_node() {  # exec: signals reach the program itself
    exec torchrun --nnodes=2 --nproc-per-node=2 --rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" \
        --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" --rdzv-conf=is_host=$((SLURM_NODEID == 0)) \
        train.py
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
# Sample the use of GPUs, cores, and memory on each node into files beside the log, for neuronctl report.
monitor_nodes() {
    local log
    log=$(readlink "/proc/$$/fd/1") && [ -f "$log" ] || return 0
    ((${SLURM_RESTART_COUNT:-0})) || rm -f "$log.samples/$SLURM_JOB_ID"[.-]*  # of another job that had this id
    (srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=1 --overlap --kill-on-bad-exit=0 --mem=0 \
        bash -c "$(declare -f sample_node sample_gpus ask_gpus join_gpus count_processes sample_amd_gpus amd_gpus); sample_node \"\$@\"" bash \
        "$log.samples" 10 </dev/null &>/dev/null &)
}
sample_node() {
    local folder=$1 every=$2 batch_shell=${3-} name=${SLURMD_NODENAME:-$(hostname -s)} own=$BASHPID
    local file processes environment controllers path group cpu_file=/dev/null memory_file=/dev/null limit_file=/dev/null limit='' gpus pause samples=0 counting=''
    trap '' HUP INT QUIT USR1 USR2 ALRM XCPU
    file=$folder/$SLURM_JOB_ID${SLURM_RESTART_COUNT:+-$SLURM_RESTART_COUNT}.$name  # a requeue keeps what was sampled before
    mkdir -p "$folder" && exec {pause}<> <(:) && exec >"$file.csv" || return 0
    # The job's control group, of version 2 or 1, where Slurm uses them.
    while IFS=: read -r _ controllers path; do
        [[ $path =~ ^/.*/job_[0-9]+ ]] || continue
        group=${BASH_REMATCH[0]}
        case ,$controllers, in
            ,,) cpu_file=/sys/fs/cgroup$group/cpu.stat memory_file=/sys/fs/cgroup$group/memory.stat
                limit_file=/sys/fs/cgroup$group/memory.max ;;
            *,cpuacct,*) cpu_file=/sys/fs/cgroup/cpuacct$group/cpuacct.usage ;;
            *,memory,*) memory_file=/sys/fs/cgroup/memory$group/memory.stat
                limit_file=/sys/fs/cgroup/memory$group/memory.limit_in_bytes ;;
        esac
    done </proc/self/cgroup
    read -r limit <"$limit_file"
    local cores=${SLURM_JOB_CPUS_PER_NODE-}
    cores=${cores%%[(,]*}
    if [[ ! $limit =~ ^[0-9]{1,15}$ ]]; then
        limit=${SLURM_MEM_PER_NODE:-0}
        ((limit)) || limit=$((${SLURM_MEM_PER_CPU:-0} * ${cores:-0}))  # of a step with --mem=0, and what comes with cores
        limit+=M
    fi
    printf '# node=%s job=%s cores=%s memory=%s every=%s start=%(%s)T\n' \
        "$name" "$SLURM_JOB_ID" "$cores" "$limit" "$every" -1
    echo 'time [s],cpu [s],memory [B],read [B],written [B],received [B],sent [B]'
    sample_gpus "$every" >"$file.gpus.csv" &
    gpus=$!
    while [ -z "$batch_shell" ] || kill -0 "$batch_shell"; do
        processes=''
        for environment in $(grep -lz "^SLURM_JOB_ID=$SLURM_JOB_ID\$" /proc/[0-9]*/environ); do
            # Of this node, where nodes are namespaces of one machine; and not the sampler.
            [[ ${environment%environ}ns/net -ef /proc/self/ns/net && $environment != "/proc/$own/environ" ]] || continue
            processes+=" $environment"
        done
        cat "$cpu_file" "$memory_file" ${processes//environ/stat} ${processes//environ/io} ${processes//environ/status} /proc/net/dev |
            awk -v now="$(printf '%(%s)T' -1)" -v ticks="$(getconf CLK_TCK)" '
                NF == 1 && $1 + 0 > 0 { grouped = $1 / 1e9 }  # cpuacct.usage; in version 2, cpu.stat
                $1 == "usage_usec" { grouped = $2 / 1e6 }
                $1 == "anon" || $1 == "shmem" || $1 == "total_rss" || $1 == "total_shmem" { parts[$1] = $2 }
                $1 == "RssAnon:" { resident += $2 * 1024 }
                $1 == "rchar:" { got += $2 }
                $1 == "wchar:" { put += $2 }
                / \(.*\) [A-Z] / { sub(/.*\) /, ""); spent += $12 + $13 + $14 + $15 }  # and what its ended children took
                /^ *[^ ]+: *[0-9]/ && NF > 10 && !/^ *lo:/ { sub(/^.*:/, ""); came += $1; went += $9 }
                END {
                    held = "total_rss" in parts ? parts["total_rss"] + parts["total_shmem"] : parts["anon"] + parts["shmem"]
                    printf "%s,%.2f,%.0f,%.0f,%.0f,%.0f,%.0f\n", now, grouped ? grouped : spent / ticks,
                        held ? held : resident, got, put, came, went
                }'
        if ((++samples % 60 == 6)) && ! kill -0 $counting; then
            count_processes "$file.processes" &
            counting=$!
        fi
        read -rt "$every" -u "$pause"
    done
    kill "$gpus"
}
sample_gpus() {
    local query=(nvidia-smi ${CUDA_VISIBLE_DEVICES:+-i "$CUDA_VISIBLE_DEVICES"} "--format=csv,nounits") fields answer
    command -v nvidia-smi >/dev/null || { sample_amd_gpus "$1"; return; }
    fields=index,memory.total,clocks.max.sm,pcie.link.gen.max,pcie.link.width.max,pci.bus_id
    ask_gpus || return 0
    echo "${answer//, /,}"
    local rows=${answer//[!$'\n']/}
    fields=timestamp,index,utilization.gpu,memory.used,power.draw,temperature.gpu,clocks.sm,clocks_event_reasons.active,ecc.errors.uncorrected.volatile.total,pcie.link.gen.current,pcie.link.width.current
    ask_gpus || return 0
    exec "${query[@]}" --query-gpu="$fields" --loop="$1" > >(join_gpus "${#rows}")
}
ask_gpus() {  # not every driver knows each of the fields
    local unknown
    until answer=$(timeout 30 "${query[@]}" --query-gpu="$fields"); do
        [[ $answer =~ \"([a-z._]+)\"\ is\ not\ a\ valid\ field ]] || return 1
        unknown=${BASH_REMATCH[1]}
        case $unknown in
            clocks_event_reasons.active) fields=${fields/$unknown/clocks_throttle_reasons.active} ;;
            timestamp | index) return 1 ;;
            *) fields=${fields/,$unknown/} ;;
        esac
    done
}
count_processes() {  # One line of a moment's programs, TIME,GPU,GPU,... by PCI address.
    local found
    found=$(timeout 30 nvidia-smi ${CUDA_VISIBLE_DEVICES:+-i "$CUDA_VISIBLE_DEVICES"} --query-compute-apps=gpu_bus_id --format=csv,noheader) || return 0
    printf '%(%s)T,%s\n' -1 "${found//$'\n'/,}" >>"$1"
}
join_gpus() {  # Makes one line of a moment's rows, TIME,INDEX,FIGURES of each of $1 GPUs.
    local row commas index line='' seen=,
    while IFS= read -r row; do
        row=${row//, /,} row=${row//x00000000/x} row=${row//.[0-9][0-9],/,}  # whole watts
        index=${row#*,} index=${index%%,*}
        if [[ $index == index ]]; then
            echo "$row"
            commas=${row//[!,]/}
        fi
        [[ $index =~ ^[0-9]+$ && ${row//[!,]/} == "$commas" ]] || continue
        if [[ $seen == *,$index,* ]]; then  # another GPU did not answer
            echo "$line"
            line='' seen=,
        fi
        line=${line:+$line,${row#*,}}
        line=${line:-$row} seen+=$index,
        index=${seen//[!,]/}
        if ((${#index} > $1)); then
            echo "$line"
            line='' seen=,
        fi
    done
    [ -z "$line" ] || echo "$line"
}
# amd-smi and rocm-smi are started for each sample, so seldom that they take at most 0.5 % of a core.
sample_amd_gpus() {
    local tool spent seconds TIMEFORMAT=%3U+%3S
    tool=(amd-smi metric --usage --power --clock --temperature --mem-usage --csv)
    [[ $(timeout 30 "${tool[@]}") == *gfx_activity* ]] ||
        tool=(rocm-smi --showuse --showmeminfo vram --showpower --showtemp --showclocks --csv)
    command -v "${tool[0]}" >/dev/null || return 0
    echo 'timestamp,index,utilization.gpu [%],memory.used [MiB],memory.total [MiB],power.draw [W],temperature.gpu,clocks.sm [MHz],clocks.max.sm [MHz]'
    exec 3>&1
    while :; do
        spent=$({ time timeout 30 "${tool[@]}" 2>/dev/null | amd_gpus >&3; } 2>&1)
        seconds=$1
        if [[ $spent =~ ^([0-9]+)[.,]([0-9]+)\+([0-9]+)[.,]([0-9]+)$ ]]; then
            spent=$((10#${BASH_REMATCH[1]}${BASH_REMATCH[2]} + 10#${BASH_REMATCH[3]}${BASH_REMATCH[4]}))  # ms
            ((seconds >= spent / 5)) || seconds=$((spent / 5))
        fi
        read -rt "$seconds" -u "$pause"
    done
}
amd_gpus() {  # one line of what amd-smi or rocm-smi says of the job's GPUs, by the titles of its columns
    awk -F, -v now="$(printf '%(%Y/%m/%d %H:%M:%S)T' -1)" -v mine="${SLURM_STEP_GPUS:-${SLURM_JOB_GPUS-}}" '
        function told(title, other,  text) {
            text = title in place ? $(place[title]) : ""
            gsub(/[^0-9.]/, "", text)
            return text != "" || other == "" ? text : told(other)
        }
        function mebibytes(title, in_bytes) {
            return told(title) != "" || told(in_bytes) == "" ? told(title) : sprintf("%.0f", told(in_bytes) / 1048576)
        }
        { gsub(/"[^"]*"|\[[^]]*\]/, "") }  # lists, with commas in them
        $1 == "gpu" || $1 == "device" { for (n = 1; n <= NF; n++) place[$n] = n; known = 1 }
        known && $1 ~ /^(card)?[0-9]+$/ {
            sub(/card/, "", $1)
            order[++count] = $1
            row[$1] = "," $1 "," told("gfx_activity", "GPU use (%)") \
                "," mebibytes("used_vram", "VRAM Total Used Memory (B)") \
                "," mebibytes("total_vram", "VRAM Total Memory (B)") \
                "," (told("socket_power") != "" ? told("socket_power") : \
                    told("Current Socket Graphics Package Power (W)", "Average Graphics Package Power (W)")) \
                "," (told("hotspot", "edge") != "" ? told("hotspot", "edge") : \
                    told("Temperature (Sensor junction) (C)", "Temperature (Sensor edge) (C)")) \
                "," told("gfx_0_clk", "sclk clock speed:") "," told("gfx_0_max_clk")
        }
        END {
            held = split(mine, ids, ",")
            for (n in ids) own[ids[n]] = 1
            printf "%s", now
            for (n = 1; n <= count; n++) if (!held || count <= held || order[n] in own) printf "%s", row[order[n]]
            print ""
        }'
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
