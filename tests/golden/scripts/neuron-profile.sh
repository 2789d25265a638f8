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

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # of another training
export PYTHONUNBUFFERED=1  # lines reach the log as printed

job() {
    check_node || exit 1       # programs, files, GPUs
    profile_ranks              # py-spy of all ranks, from 0 to 30 s after the start
    exec bash -c '. "$NEURONCTL_PROFILE" || exec "$@"' program python train.py
}

# ---- Helpers, the same in every script of this kind: nothing below is yours. The last line starts job. ----

# Check the node, and report each defect.
check_node() {
    local failed=0
    defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
    command -v py-spy >/dev/null || defect 'no program on PATH: py-spy'
    command -v python >/dev/null || defect 'no program on PATH: python'
    [ -r train.py ] || defect 'cannot read train.py'
    if command -v nvidia-smi; then timeout 30 nvidia-smi -L || defect 'nvidia-smi finds no GPU'
    elif command -v rocm-smi; then timeout 30 rocm-smi --showid | grep 'GPU\[' || defect 'rocm-smi finds no GPU'
    fi >/dev/null
    return "$failed"
}
# Write down, beside the log, what each process of the program runs to be profiled.
profile_ranks() {
    local log
    log=$(readlink "/proc/$$/fd/1") && [ -f "$log" ] || log=$PWD/job
    export NEURONCTL_PROFILE=$log.profiles/$SLURM_JOB_ID.sh
    mkdir -p "${NEURONCTL_PROFILE%/*}" || exit 1
    { declare -f profile_rank run_profiled; echo 'profile_rank "$@"'; } >"$NEURONCTL_PROFILE" || exit 1
    echo "profile: py-spy of all ranks, from 0 to 30 s after the start, into ${NEURONCTL_PROFILE%/*}/$SLURM_JOB_ID.*.svg"
    echo "profile: open with any browser"
}
# Run a program, with the profiler if this rank is to be profiled, and end with the program's exit code.
profile_rank() {
    local rank=${OMPI_COMM_WORLD_RANK:-${HOROVOD_RANK:-${RANK:-${PMIX_RANK:-${PMI_RANK:-${SLURM_PROCID:-0}}}}}}
    local place file profiler code
    place="$(hostname -s), rank $rank"
    command -v py-spy >/dev/null ||
        { echo "profile: $place: no py-spy on PATH, so it is not profiled" >&2; exec "$@"; }
    file=${NEURONCTL_PROFILE%/*}/$SLURM_JOB_ID${SLURM_RESTART_COUNT:+-$SLURM_RESTART_COUNT}.$0.rank-$rank.$(hostname -s)
    rm -f "$file".{pid,code,log}
    # Slurm signals a task alone, or every process: then the sleep that this shell waits for has died of it.
    to_program() { [ "$2" -gt 128 ] || kill -s "$1" "$(cat "$file.pid")" 2>/dev/null; }
    trap 'to_program HUP "$?"' HUP; trap 'to_program INT "$?"' INT; trap 'to_program QUIT "$?"' QUIT; trap 'to_program USR1 "$?"' USR1; trap 'to_program USR2 "$?"' USR2; trap 'to_program TERM "$?"' TERM
    run_profiled "$file" "$@" <&0 &
    {
        until ((SECONDS >= 1)) || [ -s "$file.code" ]; do sleep 0.5; done
        for _ in {1..10}; do  # at first it may be a shell, and no Python yet
            [ ! -s "$file.code" ] && ! py-spy record --pid "$(cat "$file.pid")" --output "$file.svg" --duration 30 --subprocesses || break
            sleep 1
        done
    } </dev/null &>"$file.log" &
    profiler=$!
    while kill -0 "$profiler" 2>/dev/null; do sleep 0.5; done
    if [ ! -s "$file.pid" ]; then
        echo "profile: $place: py-spy did not start it, so it is not profiled" >&2
        trap - HUP INT QUIT USR1 USR2 TERM
        exec "$@"
    fi
    until [ -s "$file.code" ]; do  # nsys may end first
        sleep 0.5
        kill -0 "$(cat "$file.pid")" 2>/dev/null || sleep 2
        kill -0 "$(cat "$file.pid")" 2>/dev/null || [ -s "$file.code" ] || echo 1 >"$file.code"
    done
    [ -e "$file.svg" ] || echo "profile: $place: py-spy wrote no $file.svg: $(tail -n 1 "$file.log")" >&2
    code=$(cat "$file.code")
    rm -f "$file".{pid,code}
    exit "$code"
}
# Run the program behind a file's name, and write its number and its exit code into such files.
run_profiled() {
    trap : HUP INT QUIT USR1 USR2 TERM
    (trap - INT QUIT; exec "${@:2}") <&0 &  # bash ignores both in the background
    echo "$!" >"$1.pid"
    while kill -0 "$!" 2>/dev/null; do sleep 0.5; done
    wait "$!"
    echo "$?" >"$1.code"
    exit "$(cat "$1.code")"
}

job
