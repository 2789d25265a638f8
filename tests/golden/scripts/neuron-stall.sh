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
    watch_for_stall            # ends it if nothing changes for 30 min
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
# If neither the log nor the checkpoint changes for 30 min, keep the stacks of the job's processes, and end the job.
watch_for_stall() {
    (bash -c "$(declare -f watch_log log_state progress keep_stacks show_stacks abort_python); watch_log \"\$@\"" bash \
        "$$" 3>&1 4>&2 </dev/null &>/dev/null &)
}
watch_log() {
    local batch_shell=$1 seen now quiet=0 file log='' stacks saved=''
    trap '' HUP INT QUIT USR1 USR2 ALRM XCPU
    local checkpoint='my run/last.pt'
    seen=$(log_state)
    while sleep 60 && kill -0 "$batch_shell"; do
        now=$(log_state)
        if [ "$now" != "$seen" ]; then
            seen=$now quiet=0 saved=''
            continue
        fi
        now=$(progress)
        [[ -z $saved || $now == "$saved" ]] || quiet=0
        saved=$now
        [[ $seen || -e $checkpoint ]] || continue
        (((quiet += 60) >= 1800)) || continue
        stacks=$(keep_stacks)
        if [ "$(log_state)" != "$seen" ] || [ "$(progress)" != "$saved" ]; then quiet=0; continue; fi
        for file in 4 3; do
            [ ! -f "/proc/self/fd/$file" ] || log=$(readlink "/proc/self/fd/$file")
        done
        [ -z "$log" ] || printf '@stall\t%s\t%s\t%s\t%s\n%s\n' "$SLURM_JOB_ID" "$(date +%s)" 1800 \
            "${NEURONCTL_RUN:-1}" "$stacks" >>"${log% (deleted)}.stacks"
        echo "the job no longer moves: for 30 min, neither this log nor the checkpoint has changed" >&4
        ! grep -q '@process.*[[:blank:]]\(no py-spy\|py-spy failed\)$' <<<"$stacks" ||
            { bash -c "$(declare -f abort_python); abort_python"; sleep 3; }
        until timeout 60 scancel "$SLURM_JOB_ID"; do sleep 30; kill -0 "$batch_shell" || break; done
        return 0
    done
}
# Sizes and times of the logs that are files, also of one that somebody has removed.
log_state() { stat -L -c '%F %s %.Y' /proc/self/fd/3 /proc/self/fd/4 | grep '^regular'; }
progress() { find -L "$checkpoint" -type f -printf '%p %s %T@\n' 2>/dev/null | LC_ALL=C sort | cksum | tr ' ' -; }
# The stacks on all nodes, each line behind the number of its node.
keep_stacks() {
    show_stacks | sed 's/^/0: /'
}
# What of Python handles ABRT and not TERM, as with faulthandler, prints its stacks into the log, and has nothing to save.
abort_python() {
    local file pid handled
    for file in $(grep -lz "^SLURM_JOB_ID=$SLURM_JOB_ID\$" /proc/[0-9]*/environ); do
        pid=${file//[!0-9]/}
        [[ /proc/$pid/ns/net -ef /proc/self/ns/net && $(readlink "/proc/$pid/exe") == *python* ]] || continue
        handled=0x0$(sed -n 's/^SigCgt:[[:blank:]]*//p' "/proc/$pid/status")
        ((!(handled >> 5 & 1) || handled >> 14 & 1)) || kill -ABRT "$pid"
    done
}
# Print "@process node pid rank state name tool" of each of the job's processes on this node, and its stacks below.
show_stacks() {
    local files file thread pid name state line own rank step path python spy tool told begun=$SECONDS
    mapfile -t files < <(grep -lz "^SLURM_JOB_ID=$SLURM_JOB_ID\$" /proc/[0-9]*/environ 2>/dev/null)
    for file in "${files[@]}"; do
        pid=${file//[!0-9]/}
        [[ /proc/$pid/ns/net -ef /proc/self/ns/net ]] || continue  # nodes that are namespaces of one machine
        name='' rank='' own='' step='' path='' python='' tool='' told=''
        read -r name <"/proc/$pid/comm" || continue  # it has ended
        read -r state <"/proc/$pid/stat" || continue
        state=${state##*) }
        while IFS= read -rd '' line; do
            python=${python:-$line}
            [[ ! $line =~ show_stacks|sample_node ]] || continue 2  # who looks, and the sampler
        done <"/proc/$pid/cmdline"
        while IFS= read -rd '' line; do
            case $line in
                RANK=*) own=${line#*=} ;;
                SLURM_PROCID=*) rank=${line#*=} ;;
                SLURM_STEP_ID=*) step=yes ;;  # which the batch shell has not, and it is no rank
                PATH=*) path=${line#*=} ;;
            esac
        done <"$file"
        if [[ $(readlink "/proc/$pid/exe") == *python* ]]; then
            tool='no py-spy'
            if spy=$(PATH=$path:$PATH:${python%/*} && command -v py-spy); then
                tool='py-spy failed'
                if ((SECONDS < begun + 60)); then
                    told=$(timeout 20 "$spy" dump --pid "$pid") && tool=py-spy || told=''
                fi
            fi
        fi
        printf '@process\t%s\t%s\t%s\t%s\t%s\t%s\n' "${SLURMD_NODENAME:-$(hostname -s)}" "$pid" \
            "${own:-${step:+$rank}}" "${state%% *}" "$name" "$tool"
        if [ -n "$told" ]; then
            sed '/^Process /d; /^ *$/d' <<<"$told"
            continue
        fi
        for thread in "/proc/$pid/task"/*; do
            line=''
            read -r name <"$thread/comm" || continue
            read -r state <"$thread/stat" || continue
            read -r line <"$thread/wchan" || true  # it has no line's end
            state=${state##*) }
            printf 'thread %s: state %s%s\n' "$name" "${state%% *}" "${line:+, in ${line/#0/user space}}"
        done | sort | uniq -c | sed 's/^ *//'
    done 2>/dev/null
}

job
