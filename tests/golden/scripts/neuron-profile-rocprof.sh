#!/bin/bash
#SBATCH --job-name=solver
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
    profile_ranks              # rocprof of all ranks, from 10 to 30 s after the start
    exec bash -c '. "$NEURONCTL_PROFILE" || exec "$@"' program ./solver
}

# ---- Helpers, the same in every script of this kind: nothing below is yours. The last line starts job. ----

# Check the node, and report each defect.
check_node() {
    local failed=0
    defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
    command -v ./solver >/dev/null || defect 'cannot run ./solver'
    command -v rocprofv3 >/dev/null || defect 'no program on PATH: rocprofv3'
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
    { declare -f profile_rank; echo 'profile_rank "$@"'; } >"$NEURONCTL_PROFILE" || exit 1
    echo "profile: rocprof of all ranks, from 10 to 30 s after the start, into ${NEURONCTL_PROFILE%/*}/$SLURM_JOB_ID.*_results.db"
    echo "profile: open with rocpd convert -i FILE --output-format pftrace, then https://ui.perfetto.dev"
}
# Run a program, with the profiler if this rank is to be profiled, and end with the program's exit code.
profile_rank() {
    local rank=${OMPI_COMM_WORLD_RANK:-${HOROVOD_RANK:-${RANK:-${PMIX_RANK:-${PMI_RANK:-${SLURM_PROCID:-0}}}}}}
    local place file
    place="$(hostname -s), rank $rank"
    command -v rocprofv3 >/dev/null ||
        { echo "profile: $place: no rocprofv3 on PATH, so it is not profiled" >&2; exec "$@"; }
    file=${NEURONCTL_PROFILE%/*}/$SLURM_JOB_ID${SLURM_RESTART_COUNT:+-$SLURM_RESTART_COUNT}.$0.rank-$rank.$(hostname -s)
    exec rocprofv3 --runtime-trace --output-directory="${file%/*}" --output-file="${file##*/}.%pid%" --collection-period 10:20:1 -- "$@"
}

job
