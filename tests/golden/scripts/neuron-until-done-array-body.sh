#!/bin/bash
#SBATCH --job-name=body
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --cpus-per-task=8    # 8 cores per GPU
#SBATCH --gres=gpu:1
#SBATCH --time=2:00:00
#SBATCH --comment="field=misc;appl=pytorch"
#SBATCH --array=0-3
#SBATCH --requeue
#SBATCH --open-mode=append   # a requeued job keeps its log
#SBATCH --signal=B:USR2@120  # then USR1 goes to what handles it, to save
#SBATCH --output=%x.%A-%a.log

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # in case a training set them
export PYTHONUNBUFFERED=1  # lines reach the log as printed

# Check the node before the launch; each fault is one line in the log.
faults=()
{ ! command -v nvidia-smi || timeout 30 nvidia-smi -L; } >/dev/null || faults+=('nvidia-smi finds no GPU')
if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi

job() {
set -euo pipefail
cat <<EOF
begin
EOF
python train.py | tee -a log
}

# The signal $1 to what the shell $2 has started and that handles it; srun's tasks are Slurm's to signal.
tell_program() {
    local process caught name
    while read -r process caught name; do
        if [ "$name" = srun ]; then continue
        elif ((0x$caught >> $(kill -l "$1") - 1 & 1)); then kill -s "$1" "$process"
        else tell_program "$1" "$process"; fi
    done < <(ps -o pid=,caught=,comm= --ppid "$2")
}

# Run the job; asked to save before the time limit, go on in another run, until it ends with 0.
run=$((${SLURM_RESTART_COUNT:-0} + 1)) most=10 asked=''
export NEURONCTL_RUN=$run
echo "run $run of at most $most, on $SLURM_JOB_NODELIST"
trap 'asked=$SECONDS; echo "run $run: time to save"; tell_program USR1 "$program"; scancel --signal=USR1 "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"' USR2
trap 'tell_program TERM "$program"; scancel --signal=TERM "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"; wait "$program"; exit 143' TERM  # scancel
job & program=$!
# A signal ends 'wait', not the program. Shortly before the end, nobody is waited for: the next run begins from the last save.
wait "$program"; while kill -0 "$program" 2>/dev/null && ((SECONDS < ${asked:-SECONDS} + 105)); do sleep 0.5; done
code=124; kill -0 "$program" 2>/dev/null || { code=0; wait "$program" || code=$?; }
if [ "$code" -eq 0 ]; then
    echo "done in $run runs"
elif [[ ! $asked && $code -ne 75 ]]; then
    echo "the program failed with exit code $code: no other run follows"
elif [ "$run" -ge "$most" ]; then
    echo "that was the last of $most runs"
else
    echo "run $run ended with exit code $code: another one follows"
    for _ in {1..60}; do  # Slurm ends this run at the first one that it takes
        [ "$(squeue -ah -j "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID" -o %T)" = RUNNING ] && scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID" && sleep 300; sleep 5
    done
fi
exit "$code"
