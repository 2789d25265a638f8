#!/bin/bash
#SBATCH --job-name=four
#SBATCH --partition=cas_v100nv_4
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4  # 4 tasks on 1 node
#SBATCH --cpus-per-task=2    # about 71 GB of memory per node
#SBATCH --gres=gpu:4
#SBATCH --time=12:00:00
#SBATCH --comment="field=cv;appl=pytorch"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # of another training
export PYTHONUNBUFFERED=1                       # lines reach the log as printed

job() {
    check_node || exit 1                            # programs, files, GPUs
    run_step 1 step_1_1 step_1_2 step_1_3 step_1_4  # side by side
}

step_1_1() {  # train.py starts once
    srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=2 --gres=gpu:1 --exact \
        --kill-on-bad-exit=1 python train.py --lr 0.1
}

step_1_2() {  # train.py starts once
    srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=2 --gres=gpu:1 --exact \
        --kill-on-bad-exit=1 python train.py --lr 0.01
}

step_1_3() {  # train.py starts once
    srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=2 --gres=gpu:1 --exact \
        --kill-on-bad-exit=1 python train.py --lr 0.001
}

step_1_4() {  # train.py starts once
    srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=2 --gres=gpu:1 --exact \
        --kill-on-bad-exit=1 python train.py --lr 0.0001
}

# ---- Helpers, the same in every script of this kind: nothing below is yours. The last line starts job. ----

# Check the node, and report each defect.
check_node() {
    failed=0; defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
    command -v python >/dev/null || defect 'no program on PATH: python'
    [ -r train.py ] || defect 'cannot read train.py'
    gpus=$(awk -F, '{ print NF }' <<<"${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-}}")  # 0: no list, all are seen
    [ "$gpus" -eq 0 ] || [ "$gpus" -ge 4 ] || defect "4 GPUs requested, $gpus available"
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
