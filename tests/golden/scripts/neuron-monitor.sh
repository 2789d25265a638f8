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
    (bash -c "$(declare -f sample_node sample_gpus); sample_node \"\$@\"" bash \
        "$log.samples" 30 "$$" </dev/null &>/dev/null &)
}
sample_node() {
    local folder=$1 every=$2 batch_shell=${3-} name=${SLURMD_NODENAME:-$(hostname -s)} own=$BASHPID
    local file processes environment controllers path group cpu_file=/dev/null memory_file=/dev/null limit_file=/dev/null limit='' gpus pause
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
        read -rt "$every" -u "$pause"
    done
    kill "$gpus"
}
sample_gpus() {
    local fields=timestamp,index,utilization.gpu,memory.used,memory.total,power.draw,temperature.gpu,clocks.sm,clocks.max.sm,clocks_event_reasons.active,ecc.errors.uncorrected.volatile.total
    local query=(nvidia-smi ${CUDA_VISIBLE_DEVICES:+-i "$CUDA_VISIBLE_DEVICES"} "--format=csv,nounits") answer unknown
    until answer=$(timeout 30 "${query[@]}" --query-gpu="$fields"); do  # not every driver knows each of them
        [[ $answer =~ \"([a-z._]+)\"\ is\ not\ a\ valid\ field ]] || return 0
        unknown=${BASH_REMATCH[1]}
        case $unknown in
            clocks_event_reasons.active) fields=${fields/$unknown/clocks_throttle_reasons.active} ;;
            timestamp | index) return 0 ;;
            *) fields=${fields/,$unknown/} ;;
        esac
    done
    exec "${query[@]}" --query-gpu="$fields" --loop="$1"
}

job
