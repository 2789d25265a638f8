#!/bin/bash
#SBATCH --job-name=train
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --cpus-per-task=8    # 8 cores per GPU
#SBATCH --gres=gpu:1
#SBATCH --time=2:00:00
#SBATCH --comment="field=misc;appl=pytorch"
#SBATCH --requeue
#SBATCH --open-mode=append   # a requeued job keeps its log
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
run=$((${SLURM_RESTART_COUNT:-0} + 1)) most=10 asked=''
echo "run $run of at most $most, on $SLURM_JOB_NODELIST"
trap 'asked=${asked:-$SECONDS}; echo "run $run: time to save"; kill -s TERM "$program" 2>/dev/null' USR2
trap 'kill -s TERM "$program" 2>/dev/null; wait "$program"; exit 143' TERM  # scancel
python train.py --lr 0.1 & program=$!
# Wait for the program, but stop shortly before the job ends: the next run begins from the last save.
while kill -0 "$program" 2>/dev/null && ((SECONDS < ${asked:-SECONDS} + 285)); do sleep 0.5; done
if kill -0 "$program" 2>/dev/null; then code=124; else wait "$program"; code=$?; fi
end() { echo "$1"; exit "$code"; }
[ "$code" -ne 0 ] || end "done in $run runs"
[[ $asked || $code -eq 75 ]] || end "the program failed with exit code $code: no other run follows"
case $code in 75) how=saved ;; 124) how='did not end' ;; 143) how='did not save' ;; *) how='ended after the request to save' ;; esac
echo "run $run $how (exit code $code)"
[ "$run" -lt "$most" ] || end "that was the last of $most runs"
requeue() { squeue -aht RUNNING -j "$SLURM_JOB_ID" | grep -q . && scontrol requeue "$SLURM_JOB_ID"; }
for _ in {1..60}; do requeue && sleep 300; sleep 5; done  # Slurm ends this run when it accepts a request
end "Slurm did not requeue the job: no other run follows"
