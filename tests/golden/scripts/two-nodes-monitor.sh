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
# Look at this node every 10 seconds; write what the job uses into the files $1.csv and $1.gpus.csv.
watch_node() {
    local file=$1 node=${SLURMD_NODENAME:-$(hostname -s)} gpus spent now
    local cores=${SLURM_JOB_CPUS_PER_NODE%%[(,]*}
    trap '' HUP INT QUIT USR1 USR2 ALRM XCPU
    file=$file.$node
    mkdir -p "${file%/*}" && [ -s "$file.csv" ] || printf '# cores=%s memory=%sM every=10\ntime,cpu,memory\n' \
        "$cores" "${SLURM_MEM_PER_NODE:-$((${SLURM_MEM_PER_CPU:-0} * ${cores:-0}))}" >"$file.csv"  # in seconds and bytes
    while :; do
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
        "${each_node[@]}" bash -c "$(declare -f read_gpus read_processes watch_node); watch_node \"\$@\"" bash "$file" </dev/null
        kill -0 "$$" && sleep 30
    done &>/dev/null
}
(watch_nodes &)

# torchrun starts 2 processes of train.py on each of 2 nodes.
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=16 --kill-on-bad-exit=1 --wait=600 \
    bash -c 'exec torchrun --nnodes=2 --nproc-per-node=2 --rdzv-backend=c10d \
        --rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" \
        --rdzv-conf=is_host=$((SLURM_NODEID == 0)) "$@"' torchrun train.py
