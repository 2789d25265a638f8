#!/bin/bash
#SBATCH --job-name=solver
#SBATCH --partition=standard
#SBATCH --account=project_465000000
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=4
#SBATCH --time=00:30:00
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err
#SBATCH --hint=nomultithread

export MASTER_ADDR=127.0.0.1 MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))  # where the processes meet
export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-4}  # 8 cores / 2 processes, unless you exported it

export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
export OMP_PLACES=cores

job() {
    check_node || exit 1                          # programs, files, GPUs
    trap : TERM                                   # at scancel and the time limit: wait until the tasks have saved
    # srun starts 2 tasks of ./solver.
    srun --nodes=1 --ntasks=2 --ntasks-per-node=2 --cpus-per-task=4 --kill-on-bad-exit=1 \
        --cpu-bind=none \
        bash -c "$(declare -f each_task supervise wait_for_process); supervise each_task"
}

each_task() {  # exec: signals reach the program itself
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS \
        LOCAL_WORLD_SIZE=2
    exec ./solver input.dat
}

# ---- Helpers, the same in every script of this kind: nothing below is yours. The last line starts job. ----

# Check the node, and report each defect.
check_node() {
    local failed=0
    defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
    command -v ./solver >/dev/null || defect 'cannot run ./solver'
    return "$failed"
}
# Run a function in the background, hand signals on to it, and end with its exit code.
supervise() {
    local slurm_stops='' supervised supervised_code
    send() { kill -s "$1" "$supervised" 2>/dev/null; }
    kill_wait() { scontrol show config 2>/dev/null | awk '/^KillWait/ { wait = $3 } END { print wait ? wait : 30 }'; }
    trap 'send HUP' HUP; trap 'send INT' INT; trap 'send USR1' USR1; trap 'send USR2' USR2
    # By Slurm: end with 1, before its KILL, not to hide the exit code of another that failed. Above 128: all have it.
    trap '[ "$?" -gt 128 ] || send TERM; slurm_stops=$((SECONDS + $(kill_wait) - 1))' TERM
    (trap - INT QUIT; "$@") <&0 &  # bash ignores INT and QUIT in the background
    supervised=$!
    wait_for_process "$supervised"; supervised_code=$?
    # Slurm may signal this shell after its program, and a task that has yet to set its trap would die of that signal.
    ((supervised_code == 0 || slurm_stops || supervised_code != 143 && SECONDS > 3)) || sleep 3
    exit "$((slurm_stops && supervised_code == 143 ? 1 : supervised_code))"
}
# Wait for a process and end with its exit code.
wait_for_process() {
    while kill -0 "$1" 2>/dev/null; do  # a signal to 'wait' as it ends would lose its exit code
        sleep 0.5 || true
        ((SECONDS < ${slurm_stops:-SECONDS + 1})) || exit 1
    done
    wait "$1"
}

job
