#!/bin/bash
#SBATCH --job-name=train
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --cpus-per-task=8    # 8 cores per GPU
#SBATCH --gres=gpu:1
#SBATCH --time=2:00:00
#SBATCH --comment="field=misc;appl=pytorch"
#SBATCH --no-requeue
#SBATCH --signal=B:USR2@300  # then TERM goes to what handles it, to save
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # in case a training set them
export PYTHONUNBUFFERED=1  # lines reach the log as printed

# Check the node before the launch; each fault is one line in the log.
faults=()
command -v python >/dev/null || faults+=('no program on PATH: python')
[ -r train.py ] || faults+=('cannot read train.py')
devices=CUDA_VISIBLE_DEVICES; [ -v "$devices" ] || devices=ROCR_VISIBLE_DEVICES  # neither is set: all are visible
[ "${!devices-all}" ] || faults+=("1 GPU requested, but $devices is empty")
{ ! command -v nvidia-smi || timeout 30 nvidia-smi -L; } >/dev/null || faults+=('nvidia-smi finds no GPU')
if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi

# Run the job. Ask it to save before the time limit, and continue in another run until the program exits with 0.
# Each run is a job of its own that waits for the previous one to end. Its arguments: a mark, its number, the previous job.
mark=${1-} run=${2:-1} before=${3-} most=10 asked='' next=''
state=$([ ! "$before" ] || scontrol show job "$before" | grep -o 'JobState=[A-Z]*' || sacct -nX -o State -j "$before")
[[ ! $state =~ CANCELLED|COMPLETED ]] || exit 0  # no run follows one that was cancelled or is done
try() { for ((left = $1; left > 0; left--)); do "${@:2}" && return; sleep 5; done; return 1; }  # try a command up to $1 times
next_run() {  # submit the next run unless it is in the queue; print its job id
    queue=$(squeue -ah --me -t PENDING -o '%A %E') || return  # if slurmctld does not answer, do not submit twice
    sed -n "s/ afterany:$SLURM_JOB_ID(.*//p" <<<"$queue" | grep -m 1 . ||
        (cd "$SLURM_SUBMIT_DIR" && sbatch --parsable --dependency="afterany:$SLURM_JOB_ID" --open-mode=append \
            --output="$(readlink /proc/$$/fd/1)" --error="$(readlink /proc/$$/fd/2)" "$0" "$mark" "$((run + 1))" "$SLURM_JOB_ID")
}
echo "run $run of at most $most, on $SLURM_JOB_NODELIST, as job $SLURM_JOB_ID"
[ "$run" -ge "$most" ] || ! next=$(try 5 next_run) || echo "run $((run + 1)) waits as job $next"
trap 'asked=${asked:-$SECONDS}; echo "run $run: time to save"; kill -s TERM "$program" 2>/dev/null' USR2
trap 'kill -s TERM "$program" 2>/dev/null; wait "$program"; exit 143' TERM  # scancel
python train.py --lr 0.1 & program=$!
# Wait for the program, but stop shortly before the job ends: the next run begins from the last save.
while kill -0 "$program" 2>/dev/null && ((SECONDS < ${asked:-SECONDS} + 285)); do sleep 0.5; done
if kill -0 "$program" 2>/dev/null; then code=124; else wait "$program"; code=$?; fi
end() { echo "$1"; [ ! "$next" ] || try "$((code ? 60 : 1))" scancel -t PENDING "$next"; exit "$code"; }  # end without another run
[ "$code" -ne 0 ] || end "done in $run runs"
[[ $asked || $code -eq 75 ]] || end "the program failed with exit code $code: no other run follows"
case $code in 75) how=saved ;; 124) how='did not end' ;; 143) how='did not save' ;; *) how='ended after the request to save' ;; esac
echo "run $run $how (exit code $code)"
[ "$run" -lt "$most" ] || end "that was the last of $most runs"
next=$(try 120 next_run) || end "the next run could not be submitted: no other run follows"
echo "another run follows, as job $next"; exit "$code"
