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
        bash -c "$(declare -f each_task supervise told_all); supervise each_task"
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
# The seconds between Slurm's TERM and its KILL, asked once for all tasks.
export job_kill_wait; job_kill_wait=$(timeout 9 scontrol show config 2>/dev/null | awk '/^KillWait/ { print $3 }') || true
# Run a function in the background, hand signals on to it, and end with its exit code.
supervise() {
    local told=-1 job_witness supervised supervised_code
    send() { kill -s "$1" "$supervised" 2>/dev/null; }
    (trap '' HUP USR1 USR2; exec tail --pid=$$ -f /dev/null) </dev/null &>/dev/null & job_witness=$!; disown 2>/dev/null || true
    trap 'send HUP' HUP; trap 'send INT' INT; trap 'send USR1' USR1; trap 'send USR2' USR2
    # By Slurm, twice at the time limit: end with 1, before its KILL, not to hide the exit code of another that failed.
    trap '((SECONDS <= told)) || { told=$((SECONDS + 1)); told_all || send TERM; }' TERM
    (trap - INT QUIT; "$@") <&0 &  # bash ignores INT and QUIT in the background
    supervised=$!
    while kill -0 "$supervised" 2>/dev/null; do  # a signal to 'wait' as it ends would lose its exit code
        sleep 0.5; ((told < 0 || SECONDS < told + ${job_kill_wait:-30} - 2)) || exit 1
    done
    wait "$supervised"; supervised_code=$?
    # Slurm may signal this shell after its program, and a task that has yet to set its trap would die of that signal.
    ((supervised_code == 0 || told >= 0 || supervised_code != 143 && SECONDS > 3)) || sleep 3
    kill -KILL "$job_witness" 2>/dev/null; exit "$((told >= 0 && supervised_code == 143 ? 1 : supervised_code))"
}
# Whether Slurm has sent TERM to every process (proctrack/linuxproc), so that the witness died of it, or to its tasks alone.
told_all() { for _ in 1 2 3 4 5; do kill -0 "${job_witness:-$$}" 2>/dev/null || return 0; sleep 0.1; done; false; }

job
