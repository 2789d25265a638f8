#!/bin/bash
#SBATCH --job-name=body
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --cpus-per-task=8   # 8 cores per GPU
#SBATCH --gres=gpu:1
#SBATCH --time=2:00:00
#SBATCH --comment="field=misc;appl=pytorch"
#SBATCH --signal=B:USR1@60  # B: so that it reaches the program
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # in case a training set them
export PYTHONUNBUFFERED=1  # lines reach the log as printed

# Check the node before the launch; each fault is one line in the log.
faults=()
devices=CUDA_VISIBLE_DEVICES; [ -v "$devices" ] || devices=ROCR_VISIBLE_DEVICES  # neither is set: all are visible
[ "${!devices-all}" ] || faults+=("1 GPU requested, but $devices is empty")
{ ! command -v nvidia-smi || timeout 30 nvidia-smi -L; } >/dev/null || faults+=('nvidia-smi finds no GPU')
if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi

job() {
set -euo pipefail
cat <<EOF
begin
EOF
python train.py | tee -a log
}

# Send the signal $1 to the processes that the shell $2 started and that handle it; Slurm signals srun's tasks.
tell_program() {
    local process caught name
    while read -r process caught name; do
        if [ "$name" = srun ]; then continue
        elif ((0x$caught >> $(kill -l "$1") - 1 & 1)); then kill -s "$1" "$process" 2>/dev/null
        else tell_program "$1" "$process"; fi
    done < <(ps -o pid=,caught=,comm= --ppid "$2")
}

# Slurm signals this shell before the time limit; pass USR1 on to the program.
trap 'tell_program USR1 "$program"; scancel --signal=USR1 "$SLURM_JOB_ID"' USR1
job & program=$!
while kill -0 "$program" 2>/dev/null; do sleep 0.5; done  # 'wait' alone would lose the exit code at a signal
wait "$program"
