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

MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)  # the processes meet on the first node
export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))  # on a port derived from the job's id
export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}  # 16 cores / 2 processes, unless you exported it

each_node=(srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=1 --overlap --kill-on-bad-exit=0 --mem=0)
# Check each node before the launch; each fault is one line in the log.
check_node() {
    local faults=() devices visible
    command -v torchrun >/dev/null || faults+=('no program on PATH: torchrun')
    [ -r train.py ] || faults+=('cannot read train.py')
    devices=CUDA_VISIBLE_DEVICES; [ -v "$devices" ] || devices=ROCR_VISIBLE_DEVICES  # neither is set: all are visible
    [ "${!devices-all}" ] || faults+=("2 GPUs requested, but $devices is empty")
    IFS=, read -ra visible <<<"${!devices-}"
    ((${#visible[@]} == 0 || ${#visible[@]} >= 2)) || faults+=("2 GPUs requested, ${#visible[@]} available")
    { ! command -v nvidia-smi || timeout 30 nvidia-smi -L; } >/dev/null || faults+=('nvidia-smi finds no GPU')
    getent hosts "$MASTER_ADDR" >/dev/null || faults+=("cannot resolve $MASTER_ADDR")
    if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi
}
"${each_node[@]}" bash -c "$(declare -f check_node); check_node" </dev/null || exit 1

# Print the job's GPUs on this node as CSV with nvidia-smi's titles: the figures $1.
read_gpus() {
    nvidia-smi ${CUDA_VISIBLE_DEVICES:+-i "$CUDA_VISIBLE_DEVICES"} --format=csv,nounits --query-gpu="$1"
}
# Print the CPU seconds of the job's processes on the node $1, with those of their ended children, and their memory in bytes.
read_processes() {
    local own
    own=$(grep -lsz "^SLURM_JOB_ID=$SLURM_JOB_ID\$" $(grep -lsz "^SLURMD_NODENAME=$1\$" /proc/[0-9]*/environ))
    cat ${own//environ/stat} ${own//environ/status} 2>/dev/null | awk -v ticks="$(getconf CLK_TCK)" '
        / \(.*\) [A-Z] / { sub(/.*\) /, ""); cpu += $12 + $13 + $14 + $15 }
        $1 == "RssAnon:" { memory += $2 * 1024 }
        END { printf "%.2f,%.0f\n", cpu / ticks, memory }'
}
# Look at this node every 10 seconds.
# Print "used" (a GPU is above 5%), "busy" (half of the job's cores are, or figures are missing), or "rests".
watch_node() {
    local node=${SLURMD_NODENAME:-$(hostname -s)} gpus spent before='' at=$SECONDS
    local cores=${SLURM_JOB_CPUS_PER_NODE%%[(,]*}
    trap '' HUP INT QUIT USR1 USR2 ALRM XCPU
    while :; do
        gpus=$(timeout -k 5 30 bash -c "$(declare -f read_gpus); read_gpus index,utilization.gpu,memory.used,memory.total,power.draw" 2>/dev/null)
        spent=$(read_processes "$node")
        echo "$node $(awk -F ' *, *' -v spent="${spent%,*}" -v before="$before" -v seconds="$((SECONDS - at))" -v cores="$cores" '
            NR == 1 { for (column = 1; column <= NF; column++) if ($column ~ /^ *utilization/) use = column; next }
            use && $use ~ /^ *[0-9]/ { known = 1; if ($use > 5) used = 1; next }
            { unknown = 1 }
            END {
                busy = unknown || !known || before == "" || spent - before > cores / 2 * seconds
                print used ? "used" : busy ? "busy" : "rests"
            }' <<<"$gpus")"
        before=${spent%,*} at=$SECONDS
        sleep 10
    done
}
# End the job once all nodes have been idle for 30 min, counted from the first use of a GPU or after 30 minutes.
watch_nodes() {
    local node how at unwatched='' used='' since=1800
    declare -A rests
    while kill -0 "$$"; do
        "${each_node[@]}" bash -c "$(declare -f read_gpus read_processes watch_node); watch_node \"\$@\"" bash </dev/null
        kill -0 "$$" && echo '- unwatched' && sleep 30
    done 2>/dev/null | while read -r node how; do
        [ "$unwatched$how" != unwatched ] || { unwatched=yes; echo "idle: the watch on the nodes ended and starts again" >&2; }
        [ "$how" != used ] || used=yes since=0
        for at in "${rests[@]}"; do ((SECONDS - at < 60)) || how=busy; done  # a node has not reported
        [ "$how" = rests ] || { rests=() since=$((since > SECONDS ? since : SECONDS)); continue; }
        rests[$node]=$SECONDS
        set -- "${!rests[@]}"
        (($# >= 2 && SECONDS - since >= 1800)) || continue
        echo "idle: no GPU was used${used:+, and at most half of the cores were busy, for 30 min}, so the job ends" >&2
        for _ in {1..60}; do scancel "$SLURM_JOB_ID" && exit; sleep 15; done
    done
}
(watch_nodes &)

# torchrun starts 2 processes of train.py on each of 2 nodes.
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=16 --kill-on-bad-exit=1 --wait=600 \
    bash -c 'exec torchrun --nnodes=2 --nproc-per-node=2 --rdzv-backend=c10d \
        --rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" \
        --rdzv-conf=is_host=$((SLURM_NODEID == 0)) "$@"' torchrun train.py
