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

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # in case a training set them
export PYTHONUNBUFFERED=1  # lines reach the log as printed

# Check the node before the launch; each fault is one line in the log.
faults=()
command -v python >/dev/null || faults+=('no program on PATH: python')
[ -r train.py ] || faults+=('cannot read train.py')
devices=CUDA_VISIBLE_DEVICES; [ -v "$devices" ] || devices=ROCR_VISIBLE_DEVICES  # no list: all are visible
[ "${!devices-all}" ] || faults+=("1 GPU requested, but $devices is empty")
{ ! command -v nvidia-smi || timeout 30 nvidia-smi -L; } >/dev/null || faults+=('nvidia-smi finds no GPU')
if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi

# Print the job's GPUs on this node, once or every $2 seconds, as CSV with nvidia-smi's titles: the figures $1.
read_gpus() {
    ${2:+exec} nvidia-smi ${CUDA_VISIBLE_DEVICES:+-i "$CUDA_VISIBLE_DEVICES"} --format=csv,nounits ${2:+--loop="$2"} --query-gpu="$1"
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

# Sample the use of GPUs, cores, and memory on each node into files beside the log, for neuronctl report.
monitor_nodes() {
    local log
    log=$(readlink "/proc/$$/fd/1") && [ -f "$log" ] || return 0
    (bash -c "$(declare -f read_gpus read_processes sample_node); sample_node \"\$@\"" bash \
        "$log.samples" 10 "$$" </dev/null &>/dev/null &)
}
sample_node() {
    local folder=$1 every=$2 batch_shell=${3-} node=${SLURMD_NODENAME:-$(hostname -s)} file gpus line
    local cores=${SLURM_JOB_CPUS_PER_NODE%%[(,]*} memory=${SLURM_MEM_PER_NODE:-0}
    ((memory)) || memory=$((${SLURM_MEM_PER_CPU:-0} * ${cores:-0}))
    trap '' HUP INT QUIT USR1 USR2 ALRM XCPU
    file=$folder/$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}.$node
    mkdir -p "$folder" && exec >"$file.csv" || return 0
    echo "# cores=$cores memory=${memory}M every=$every"
    echo 'time,cpu,memory'  # in seconds and bytes
    read_gpus index,utilization.gpu,memory.used,memory.total,power.draw "$every" \
        > >(while IFS= read -r line; do printf '%(%s)T,%s\n' -1 "$line"; done >"$file.gpus.csv") &
    gpus=$!
    while [ -z "$batch_shell" ] || kill -0 "$batch_shell"; do
        printf '%(%s)T,%s\n' -1 "$(read_processes "$node")"
        sleep "$every"
    done
    kill "$gpus"
}
monitor_nodes

exec python train.py
