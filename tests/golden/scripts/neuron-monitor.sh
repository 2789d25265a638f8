#!/bin/bash
#SBATCH --job-name=train
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --cpus-per-task=8  # 8 cores per GPU
#SBATCH --gres=gpu:1
#SBATCH --time=2:00:00
#SBATCH --comment="field=misc;appl=pytorch"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # of another training
export PYTHONUNBUFFERED=1  # lines reach the log as printed

job() {
    check_node || exit 1       # programs, files, GPUs
    monitor_nodes              # use of GPUs, cores, and memory, every 30 s
    exec python train.py
}

# ---- Helpers, the same in every script of this kind: nothing below is yours. The last line starts job. ----

# Check the node, and report each defect.
check_node() {
    local failed=0
    defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
    command -v python >/dev/null || defect 'no program on PATH: python'
    [ -r train.py ] || defect 'cannot read train.py'
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
    (bash -c "$(declare -f sample_node sample_gpus ask_gpus join_gpus count_processes sample_amd_gpus amd_gpus); sample_node \"\$@\"" bash \
        "$log.samples" 30 "$$" </dev/null &>/dev/null &)
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

job
