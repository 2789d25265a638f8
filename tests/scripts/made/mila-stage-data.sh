#!/bin/bash
#SBATCH --job-name=mila-stage-data
#SBATCH --partition=unkillable
#SBATCH --nodes=1
#SBATCH --cpus-per-task=2
#SBATCH --gres=gpu:1
#SBATCH --mem=1G
#SBATCH --time=0:30:00
#SBATCH --output=slurm-%j.out

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # of another training
export PYTHONUNBUFFERED=1  # lines reach the log as printed

cp data.tar local.tar
tar xf local.tar

job() {
    check_node || exit 1       # programs, files, GPUs
    trap save_and_end TERM     # at scancel and the time limit: TERM goes on to what handles it
    run_step 1 step_1          # train.py starts once
    run_step 2 step_2          # the shell text starts once
}

step_1() {  # train.py starts once
    python train.py --data data
}
step_2() {  # the shell text starts once
cp -r out results
exit  # in here, where a trap of EXIT finds the variables of these lines
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
# Run a step, whose number is $1: its functions, side by side, each in a shell of its own. If one fails,
# the job ends as the first that failed.
run_step() {
    start_and_wait "$@"
    [ "$step_code" -eq 0 ] || { echo "step $1 ended with exit code $step_code, and so the job" >&2; exit "$step_code"; }
}
start_and_wait() {
    local step_function step_process step_failed
    step_code=0 job_processes=()
    for step_function in "${@:2}"; do
        (trap - INT QUIT; trap exit TERM; "$step_function") &  # bash ignores both in the background
        job_processes+=("$!")
    done
    for step_process in "${job_processes[@]}"; do
        wait_for_process "$step_process" || { step_failed=$?; [ "$step_code" -ne 0 ] || step_code=$step_failed; }
    done
    [ -z "$job_ends" ] || exit "$step_code"
}
job_ends='' job_processes=()
# Slurm sends TERM to this shell and to srun's tasks, and KILL after its KillWait: what else runs here receives TERM, too.
save_and_end() {
    told_all || to_processes TERM || exit 143
    kill -s TERM "${job_processes[@]}" 2>/dev/null || true  # shells of this script, which end when their program has
    job_ends=yes
}
# Send a signal to those of the processes that this shell has started that handle it.
to_processes() {
    local job_process unheard=1
    for job_process in ${job_processes[@]+"${job_processes[@]}"}; do
        ! pass_on "$1" "$job_process" || unheard=0
    done
    return "$unheard"
}
# Whether Slurm has sent TERM to every process (proctrack/linuxproc), so that the witness died of it, or to its tasks alone.
told_all() { for _ in 1 2 3 4 5; do kill -0 "${job_witness:-$$}" 2>/dev/null || return 0; sleep 0.1; done; false; }
# Wait for a process, looking often at first, and end with its exit code.
wait_for_process() {
    (trap '' HUP USR1 USR2; exec tail --pid=$$ -f /dev/null) </dev/null &>/dev/null & job_witness=$!; disown 2>/dev/null || true
    set -- "$1" 0.01 0.02 0.05 0.1 0.2 0.5
    while kill -0 "$1" 2>/dev/null; do  # a signal to 'wait' as it ends would lose its exit code
        sleep "$2" || true
        [ $# -eq 2 ] || set -- "$1" "${@:3}"
    done
    kill -KILL "$job_witness" 2>/dev/null || true; job_witness=''
    wait "$1"
}
# Send the signal $1 to the processes below $2: to each that handles it, or else to those below that one, as a shell
# that merely waits for one would die of it. Fails if none handles it.
pass_on() {
    local IFS=$'\n' child handled number unheard=1
    number=$(kill -l "$1")
    for child in $(grep -ls "^PPid:[[:blank:]]$2\$" /proc/[0-9]*/status | sed 's/[^0-9]//g'); do
        ! grep -qsx srun "/proc/$child/comm" || { unheard=0; continue; }  # whose tasks are Slurm's to signal
        handled=$(sed -n 's/^Sig\(Blk\|Cgt\):[[:blank:]]*/0x/p' "/proc/$child/status" 2>/dev/null | paste -sd '|') || true
        if ((handled >> number - 1 & 1)); then
            kill -s "$1" "$child" 2>/dev/null && unheard=0
            continue
        fi
        ! pass_on "$1" "$child" || unheard=0
    done
    return "$unheard"
}

job
