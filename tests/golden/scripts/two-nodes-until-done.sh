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

# Send the signal $1 to the ranks on each node: the children of the oldest process with a launch's mark. Print their steps.
tell_ranks() {
    "${each_node[@]}" bash -c 'grep -HEaszo "^NEURONCTL_LAUNCH=$SLURM_JOB_ID\.[0-9]+\.$SLURMD_NODENAME\$" \
        $(printf "/proc/%d/environ " $(ps -u "$UID" -o pid= --sort=start_time)) | tr "\0" "\n" |
        awk -F "[/.=]" "!(\$6 in steps) { steps[\$6]; print \$3, \$6 }" |
        while read -r launcher step; do pkill -"$1" -P "$launcher"; echo "$step"; done' bash "$1"
}

# Run the job. Ask it to save before the time limit, and continue in another run until the program exits with 0.
run=$((${SLURM_RESTART_COUNT:-0} + 1)) most=10 asked=''
echo "run $run of at most $most, on $SLURM_JOB_NODELIST"
trap 'asked=${asked:-$SECONDS}; echo "run $run: time to save"; tell_ranks TERM >/dev/null &' USR2
export SLURM_EXIT_ERROR=121  # srun exits with it if it starts nothing; the program has not failed then
# torchrun starts 2 processes of train.py on each of 2 nodes.
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=16 --kill-on-bad-exit=1 --wait=600 \
    bash -c 'exec env NEURONCTL_LAUNCH="$SLURM_JOB_ID.$SLURM_STEP_ID.$SLURMD_NODENAME" torchrun \
        --nnodes=2 --nproc-per-node=2 --rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" \
        --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" \
        --rdzv-conf=is_host=$((SLURM_NODEID == 0)) "$@"' torchrun train.py & program=$!
# Wait for the program, but stop shortly before the job ends: the next run begins from the last save.
while kill -0 "$program" 2>/dev/null && ((SECONDS < ${asked:-SECONDS} + 285)); do sleep 0.5; done
if kill -0 "$program" 2>/dev/null; then code=124; else wait "$program"; code=$?; fi
end() { echo "$1"; exit "$code"; }
[ "$code" -ne 0 ] || end "done in $run runs"
[[ $asked || $code -eq 75 || $code -eq 121 ]] || end "the program failed with exit code $code: no other run follows"
case $code in 75) how=saved ;; 124) how='did not end' ;; 121) how='broke off' ;; *) how='ended after the request to save' ;; esac
echo "run $run $how (exit code $code)"
[ "$run" -lt "$most" ] || end "that was the last of $most runs"
requeue() { squeue -aht RUNNING -j "$SLURM_JOB_ID" | grep -q . && scontrol requeue "$SLURM_JOB_ID"; }
for _ in {1..60}; do requeue && sleep 300; sleep 5; done  # Slurm ends this run when it accepts a request
end "Slurm did not requeue the job: no other run follows"
