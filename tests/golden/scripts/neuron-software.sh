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

stop() { echo "preflight: $(hostname -s): $1" >&2; exit 1; }
# /etc/profile defines 'module'. Your own PATH entries stay in front.
type module >/dev/null 2>&1 || { path=$PATH; . /etc/profile; PATH=$path:$PATH; }
module purge
module load cuda/12.9.1 || stop 'cannot load the modules cuda/12.9.1'
# 'conda activate' is a shell function, which a batch shell must load first.
. "$(conda info --base)/etc/profile.d/conda.sh" || stop 'conda not found'
conda activate 'my env' || stop 'cannot activate the environment my env'

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # of another training
export PYTHONUNBUFFERED=1  # lines reach the log as printed

ulimit -c 0

job() {
    check_node || exit 1       # programs, files, GPUs
    trap save_and_end TERM     # at scancel and the time limit: TERM goes on to what handles it
    (trap - INT QUIT; trap exit TERM; python train.py) &  # bash ignores both in the background
    job_processes=("$!")
    wait_for_process "$!"
}

# ---- Helpers, the same in every script of this kind: nothing below is yours. The last line starts job. ----

# Check the node, and report each defect.
check_node() {
    local failed=0
    defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
    command -v python >/dev/null || defect 'no program on PATH: python'
    [ -r train.py ] || defect 'cannot read train.py'
    [ -d "$CONDA_PREFIX" ] || defect "no conda environment $CONDA_PREFIX"
    if command -v nvidia-smi; then timeout 30 nvidia-smi -L || defect 'nvidia-smi finds no GPU'
    elif command -v rocm-smi; then timeout 30 rocm-smi --showid | grep 'GPU\[' || defect 'rocm-smi finds no GPU'
    fi >/dev/null
    return "$failed"
}
job_processes=()
# Slurm sends TERM to this shell and to srun's tasks, and KILL after its KillWait: what else runs here receives TERM, too.
save_and_end() {
    told_all || to_processes TERM || exit 143
    kill -s TERM "${job_processes[@]}" 2>/dev/null || true  # shells of this script, which end when their program has
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
# Wait for a process and end with its exit code.
wait_for_process() {
    (trap '' HUP USR1 USR2; exec tail --pid=$$ -f /dev/null) </dev/null &>/dev/null & job_witness=$!; disown 2>/dev/null || true
    while kill -0 "$1" 2>/dev/null; do  # a signal to 'wait' as it ends would lose its exit code
        sleep 0.5 || true
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
