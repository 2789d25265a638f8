#!/bin/bash
#SBATCH --job-name=train
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1  # torchrun starts the processes
#SBATCH --cpus-per-task=16   # 2 GPUs x 8 cores per GPU
#SBATCH --gres=gpu:2
#SBATCH --time=1-00:00:00
#SBATCH --comment="field=misc;appl=pytorch"
#SBATCH --no-requeue
#SBATCH --signal=B:USR2@300  # then TERM goes to what handles it, to save
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

stop() { echo "preflight: $(hostname -s): $1" >&2; exit 1; }
# /etc/profile defines 'module'. Your own PATH entries stay in front.
type module >/dev/null 2>&1 || { path=$PATH; . /etc/profile; PATH=$path:$PATH; }
module purge
module load cuda/12.9.1 || stop 'cannot load the modules cuda/12.9.1'

MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)  # the processes meet on the first node
export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))  # on a port derived from the job's id
export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export PYTHONNOUSERSITE=1                     # ~/.local is not the image's
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}  # 16 cores / 2 processes, unless you exported it

set -e  # the first of these lines that fails ends the job
trap '[[ $- != *e* ]] || echo "preflight: $(hostname -s): a setup line failed: $BASH_COMMAND" >&2' ERR
ulimit -c 0
set +e; trap - ERR

# Scratch and this directory; binding one twice gives a warning per process.
export BINDS="/scratch/$USER"; [ "$PWD" = "$BINDS" ] || BINDS+=",$PWD"

each_node=(srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=1 --overlap --kill-on-bad-exit=0 --mem=0)
# Check each node before the launch; each fault is one line in the log.
check_node() {
    local faults=() devices visible
    command -v singularity >/dev/null || faults+=('no program on PATH: singularity')
    [ -r train.py ] || faults+=('cannot read train.py')
    [ -r pytorch_22.03-hd-py3.sif ] || faults+=('cannot read pytorch_22.03-hd-py3.sif')
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

# If neither the log nor the checkpoint changes for 1 h, end the run, and write its stacks to the log (py-spy).
watch_log() {
    local seen='' now since=$SECONDS
    while sleep 60; ((SECONDS - since < 3600)); do
        kill -0 "$$" 2>/dev/null || return
        read -rd '' -t 60 now < <(stat -L -c '%s %.Y' /proc/$$/fd/[12]; find -L out -type f -printf '%p %s %T@ ' 2>/dev/null)
        [ $? -gt 128 ] || [ "$now" = "$seen" ] || { seen=$now since=$SECONDS; }
    done
    echo "the job no longer moves: for 1 h, neither this log nor the checkpoint has changed" >&2
    timeout -k 5 120 "${each_node[@]}" bash -c 'command -v py-spy >/dev/null || exit; for process in $(pgrep -U "$UID" python); do
            grep -qsz "^SLURM_JOB_ID=$SLURM_JOB_ID\$" "/proc/$process/environ" && timeout -k 5 20 py-spy dump --pid "$process"
        done' >&2
    kill -s USR2 "$$"
}
(watch_log &)

# Send the signal $1 to the ranks on each node: the children of the oldest process with a launch's mark. Print their steps.
tell_ranks() {
    "${each_node[@]}" bash -c 'grep -HEaszo "^NEURONCTL_LAUNCH=$SLURM_JOB_ID\.[0-9]+\.$SLURMD_NODENAME\$" \
        $(printf "/proc/%d/environ " $(ps -u "$UID" -o pid= --sort=start_time)) | tr "\0" "\n" |
        awk -F "[/.=]" "!(\$6 in steps) { steps[\$6]; print \$3, \$6 }" |
        while read -r launcher step; do pkill -"$1" -P "$launcher"; echo "$step"; done' bash "$1"
}

# Run the job. Ask it to save before the time limit, and continue in another run until the program exits with 0.
# Each run is a job of its own that waits for the previous one to end. Its arguments: a mark, its number, the previous job.
mark=${1-} run=${2:-1} before=${3-} most=10 asked='' next=''
state=$([ ! "$before" ] || scontrol show job "$before" | grep -o 'JobState=[A-Z]*' || sacct -nX -o State -j "$before")
[[ ! $state =~ CANCELLED|COMPLETED ]] || exit 0  # no run follows one that was cancelled or is done
try() { for ((left = $1; left > 0; left--)); do "${@:2}" && return; sleep 5; done; return 1; }  # try a command up to $1 times
next_run() {  # submit the next run unless it is in the queue; print its job id
    queue=$(squeue -ah --me -t PENDING -o '%A %E') || return  # if slurmctld does not answer, do not submit twice
    sed -n "s/ afterany:$SLURM_JOB_ID(.*//p" <<<"$queue" | grep -m 1 . ||
        (cd "$SLURM_SUBMIT_DIR" && sbatch --parsable --dependency="afterany:$SLURM_JOB_ID" --open-mode=append \
            --output="$(readlink /proc/$$/fd/1)" --error="$(readlink /proc/$$/fd/2)" "$0" "$mark" "$((run + 1))" "$SLURM_JOB_ID")
}
resume_with=()
[ "$run" -eq 1 ] || resume_with=(--resume 'the latest')
echo "run $run of at most $most, on $SLURM_JOB_NODELIST, as job $SLURM_JOB_ID"
[ "$run" -ge "$most" ] || ! next=$(try 5 next_run) || echo "run $((run + 1)) waits as job $next"
look() { timeout 20 find -L out -type f -printf '%p %s %T@\n' 2>/dev/null; }  # list the checkpoint's files
trap 'asked=${asked:-$SECONDS}; echo "run $run: time to save"; seen=${seen-$(look)}; tell_ranks TERM >/dev/null &' USR2
export SLURM_EXIT_ERROR=121  # srun exits with it if it starts nothing; the program has not failed then
# torchrun starts 2 processes of train.py on each of 2 nodes.
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=16 --kill-on-bad-exit=1 --wait=600 \
    bash -c 'exec singularity exec --nv --bind "$BINDS" --pwd "$PWD" pytorch_22.03-hd-py3.sif \
        env NEURONCTL_LAUNCH="$SLURM_JOB_ID.$SLURM_STEP_ID.$SLURMD_NODENAME" torchrun \
        --nnodes=2 --nproc-per-node=2 --rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" \
        --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" \
        --rdzv-conf=is_host=$((SLURM_NODEID == 0)) "$@"' torchrun train.py "${resume_with[@]}" & program=$!
# Wait for the program, but stop shortly before the job ends: the next run begins from the last save.
while kill -0 "$program" 2>/dev/null && ((SECONDS < ${asked:-SECONDS} + 285)); do sleep 0.5; done
if kill -0 "$program" 2>/dev/null; then code=124; else wait "$program"; code=$?; fi
end() { echo "$1"; [ ! "$next" ] || try "$((code ? 60 : 1))" scancel -t PENDING "$next"; exit "$code"; }  # end without another run
[ "$code" -ne 0 ] || end "done in $run runs"
[[ $asked || $code -eq 75 || $code -eq 121 ]] || end "the program failed with exit code $code: no other run follows"
case $code in 75) how=saved ;; 124) how='did not end' ;; 121) how='broke off' ;; *) how='ended after the request to save' ;; esac
[ ! "$asked" ] || [ "$(look)" = "$seen" ] || how=saved
echo "run $run $how (exit code $code)"
[ "$run" -lt "$most" ] || end "that was the last of $most runs"
next=$(try 120 next_run) || end "the next run could not be submitted: no other run follows"
echo "another run follows, as job $next"; exit "$code"
