#!/bin/bash
#SBATCH --job-name=term
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # one process
#SBATCH --cpus-per-task=8    # 8 cores per GPU
#SBATCH --gres=gpu:1
#SBATCH --time=1:00:00
#SBATCH --comment="field=misc;appl=pytorch"
#SBATCH --signal=B:TERM@300
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # of another training
export PYTHONUNBUFFERED=1  # lines reach the log as printed

job() {
    check_node || exit 1       # programs, files, GPUs
    # Slurm signals this shell before the end: TERM goes on to each process that handles it.
    trap 'pass_on "$program"' TERM
    python train.py &
    program=$!
    wait_for_program
}

# ---- Helpers, the same in every script of this kind: nothing below is yours. The last line starts job. ----

# Check the node, and report each defect.
check_node() {
    failed=0; defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
    command -v python >/dev/null || defect 'no program on PATH: python'
    [ -r train.py ] || defect 'cannot read train.py'
    if command -v nvidia-smi; then timeout 30 nvidia-smi -L || defect 'nvidia-smi finds no GPU'
    elif command -v rocm-smi; then timeout 30 rocm-smi --showid | grep 'GPU\[' || defect 'rocm-smi finds no GPU'
    fi >/dev/null
    return "$failed"
}
# Wait for the program, and end with its exit code.
wait_for_program() {
    while kill -0 "$program" 2>/dev/null; do sleep 0.5 || true; done  # a signal to 'wait' as it ends would lose it
    wait "$program"
}
# Send TERM to a process if it handles that, or else to those below it that do: a shell that merely
# waits for one would die of it. With $2: only to processes that have this variable.
pass_on() {
    local child handled=0
    [ "$(cat "/proc/$1/comm" 2>/dev/null)" != srun ] || return 0  # whose tasks are Slurm's to signal
    if [ -z "${2-}" ] || grep -qz "^$2=" "/proc/$1/environ" 2>/dev/null; then
        handled=$(sed -n 's/^Sig\(Blk\|Cgt\):[[:blank:]]*/0x/p' "/proc/$1/status" 2>/dev/null | paste -sd '|') || true
    fi
    if ((handled >> 14 & 1)); then
        kill -s TERM "$1"
    else
        for child in $(pgrep -P "$1"); do pass_on "$child" "${2-}"; done
    fi
}

job
