#!/bin/bash
#SBATCH --job-name=goeson
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # the most that a step needs
#SBATCH --cpus-per-task=8    # 8 cores per GPU
#SBATCH --gres=gpu:1
#SBATCH --time=1:00:00
#SBATCH --comment="field=nlp;appl=pytorch"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # of another training
export PYTHONUNBUFFERED=1  # lines reach the log as printed

job() {
    check_node || exit 1       # programs, files, GPUs
    run_step 1 step_1          # prepare.py starts once
    try_step 2 step_2          # fail.py starts once
    run_step 3 step_3          # evaluate.py starts once
}

step_1() {  # prepare.py starts once
    python prepare.py
}

step_2() {  # fail.py starts once
    python fail.py --code 7
}

step_3() {  # evaluate.py starts once
    python evaluate.py
}

# ---- Helpers, the same in every script of this kind: nothing below is yours. The last line starts job. ----

# Check the node, and report each defect.
check_node() {
    failed=0; defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
    command -v python >/dev/null || defect 'no program on PATH: python'
    [ -r prepare.py ] || defect 'cannot read prepare.py'
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
try_step() {
    start_and_wait "$@"
    [ "$step_code" -eq 0 ] || echo "step $1 ended with exit code $step_code; the job goes on" >&2
}
start_and_wait() {
    local step_function step_process step_failed
    step_code=0 step_processes=()
    for step_function in "${@:2}"; do
        (trap - INT QUIT; "$step_function") &  # bash ignores both in the background
        step_processes+=("$!")
    done
    for step_process in "${step_processes[@]}"; do
        while kill -0 "$step_process" 2>/dev/null; do sleep 0.5 || true; done  # a signal to 'wait' as it ends would lose its exit code
        wait "$step_process" || { step_failed=$?; [ "$step_code" -ne 0 ] || step_code=$step_failed; }
    done
}

job
