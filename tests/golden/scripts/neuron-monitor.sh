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
devices=CUDA_VISIBLE_DEVICES; [ -v "$devices" ] || devices=ROCR_VISIBLE_DEVICES  # neither is set: all are visible
[ "${!devices-all}" ] || faults+=("1 GPU requested, but $devices is empty")
{ ! command -v nvidia-smi || timeout 30 nvidia-smi -L; } >/dev/null || faults+=('nvidia-smi finds no GPU')
if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi

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
# Look at this node every 10 seconds; write what the job uses into the files $1.csv and $1.gpus.csv.
watch_node() {
    local file=$1 batch_shell=$2 node=${SLURMD_NODENAME:-$(hostname -s)} gpus spent now
    local cores=${SLURM_JOB_CPUS_PER_NODE%%[(,]*}
    trap '' HUP INT QUIT USR1 USR2 ALRM XCPU
    file=$file.$node
    mkdir -p "${file%/*}" && [ -s "$file.csv" ] || printf '# cores=%s memory=%sM every=10\ntime,cpu,memory\n' \
        "$cores" "${SLURM_MEM_PER_NODE:-$((${SLURM_MEM_PER_CPU:-0} * ${cores:-0}))}" >"$file.csv"  # in seconds and bytes
    while [ -z "$batch_shell" ] || kill -0 "$batch_shell" 2>/dev/null; do
        gpus=$(timeout -k 5 30 bash -c "$(declare -f read_gpus); read_gpus index,utilization.gpu,memory.used,memory.total,power.draw" 2>/dev/null)
        spent=$(read_processes "$node")
        printf -v now '%(%s)T' -1
        echo "$now,$spent" >>"$file.csv"
        [[ $gpus != *utilization* ]] || sed "$([ ! -s "$file.gpus.csv" ] || echo '1d;')s/^/$now,/" <<<"$gpus" >>"$file.gpus.csv"
        sleep 10
    done
}
# Sample the use of GPUs, cores, and memory on each node into files beside the log, for neuronctl report.
watch_nodes() {
    local log=/proc/$BASHPID/fd/1 file
    log=$(readlink "$log") && [ -f "$log" ] && file=$log.samples/$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0} || return
    rm -f "$file".*.csv
    while kill -0 "$$"; do
        bash -c "$(declare -f read_gpus read_processes watch_node); watch_node \"\$@\"" bash "$file" "$$" </dev/null
        kill -0 "$$" && sleep 30
    done &>/dev/null
}
(watch_nodes &)

exec python train.py
