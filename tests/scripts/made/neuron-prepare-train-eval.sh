#!/bin/bash
#SBATCH --job-name=finetune
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --gres=gpu:2
#SBATCH --time=1-00:00:00
#SBATCH --comment="field=nlp;appl=pytorch-ddp"
#SBATCH --output=%x_%j.out

# A single process: ignore the variables of another training in the submitting shell.
unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

export PYTHONUNBUFFERED=1  # lines reach the log as printed

# Check the node first and report each defect.
failed=0
defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
command -v python >/dev/null || defect 'no program on PATH: python'
[ -r prepare.py ] || defect 'cannot read prepare.py'
gpus=$(awk -F, '{ print NF }' <<<"${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-}}")
# 0: Slurm sets no list of GPUs here, and a program sees all of them.
[ "$gpus" -eq 0 ] || [ "$gpus" -ge 2 ] || defect "2 GPUs requested, $gpus available"
if command -v nvidia-smi >/dev/null; then
    timeout 30 nvidia-smi -L >/dev/null || defect "nvidia-smi finds no GPU"
elif command -v rocm-smi >/dev/null; then
    # Its exit code is 0 in any case.
    timeout 30 rocm-smi --showid | grep 'GPU\[' >/dev/null || defect "rocm-smi finds no GPU"
fi
[ "$failed" -eq 0 ] || exit 1

# Wait until these processes have ended; fail as the first that failed. Poll instead of waiting: if a
# signal interrupts 'wait' just as a process ends, bash loses its exit code.
finish() {
    running=$* code=0
    for one in $running; do
        while kill -0 "$one" 2>/dev/null; do sleep 0.5 || true; done
        wait "$one" || { failed=$?; [ "$code" -ne 0 ] || code=$failed; }
    done
    return "$code"
}
end_job() { echo "step $1 ended with exit code $2, and so the job" >&2; exit "$2"; }

# Step 1 of 3: prepare.py starts once.
(
trap - INT QUIT  # which bash ignores in the background
python prepare.py --split train --out data
) &
finish $! || end_job 1 $?

# Step 2 of 3: torchrun starts 2 processes of train.py.
(
trap - INT QUIT  # which bash ignores in the background
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}  # 16 cores / 2 processes, unless you exported it
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=16 --kill-on-bad-exit=1 torchrun \
    --standalone --nproc-per-node=2 train.py --data data
) &
finish $! || end_job 2 $?

# Step 3 of 3: evaluate.py starts once.
(
trap - INT QUIT  # which bash ignores in the background
python evaluate.py --data data --ckpt out/model.pt
) &
finish $! || end_job 3 $?
