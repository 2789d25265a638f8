#!/bin/bash
#SBATCH --job-name=body
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # one process
#SBATCH --cpus-per-task=8    # 8 cores per GPU
#SBATCH --gres=gpu:1
#SBATCH --time=2:00:00
#SBATCH --comment="field=misc;appl=pytorch"
#SBATCH --signal=B:USR1@60
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

# A single process: ignore the variables of another training in the submitting shell.
unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

export PYTHONUNBUFFERED=1  # lines reach the log as printed

# Check the node first and report each defect.
failed=0
defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
if command -v nvidia-smi >/dev/null; then
    timeout 30 nvidia-smi -L >/dev/null || defect "nvidia-smi finds no GPU"
elif command -v rocm-smi >/dev/null; then
    # Its exit code is 0 in any case.
    timeout 30 rocm-smi --showid | grep 'GPU\[' >/dev/null || defect "rocm-smi finds no GPU"
fi
[ "$failed" -eq 0 ] || exit 1

# Slurm signals this shell before the end: pass USR1 on to each process that handles it. What srun
# has started is Slurm's to signal.
pass_on() {
    local child handled=0
    [ "$(cat "/proc/$1/comm" 2>/dev/null)" != srun ] || return 0
    handled=$(sed -n "s/^Sig\(Blk\|Cgt\):[[:blank:]]*/0x/p" "/proc/$1/status" 2>/dev/null | paste -sd "|") || true
    if ((handled >> 9 & 1)); then
        kill -s USR1 "$1"
    else
        for child in $(pgrep -P "$1"); do pass_on "$child"; done
    fi
}
trap 'scancel --signal=USR1 "$SLURM_JOB_ID"; pass_on "$program"' USR1

(
trap - INT QUIT  # which bash ignores in the background
set -euo pipefail
cat <<EOF
begin
EOF
python train.py | tee log
) &
program=$!
# Poll instead of waiting: if a signal interrupts 'wait' just as the program ends, bash loses its exit code.
while kill -0 "$program" 2>/dev/null; do
    sleep 0.5 || true
done
wait "$program"
