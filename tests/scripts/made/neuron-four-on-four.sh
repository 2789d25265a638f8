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

# A single process: ignore the variables of another training in the submitting shell.
unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

export PYTHONUNBUFFERED=1  # lines reach the log as printed

# Check the node first and report each defect.
failed=0
defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
command -v python >/dev/null || defect 'no program on PATH: python'
[ -r train.py ] || defect 'cannot read train.py'
gpus=$(awk -F, '{ print NF }' <<<"${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-}}")
# 0: Slurm sets no list of GPUs here, and a program sees all of them.
[ "$gpus" -eq 0 ] || [ "$gpus" -ge 4 ] || defect "4 GPUs requested, $gpus available"
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

# Step 1 of 1, side by side:
# - train.py starts once.
(
trap - INT QUIT  # which bash ignores in the background
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=2 --gres=gpu:1 --exact \
    --kill-on-bad-exit=1 python train.py --lr 0.1
) &
together=($!)
# - train.py starts once.
(
trap - INT QUIT  # which bash ignores in the background
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=2 --gres=gpu:1 --exact \
    --kill-on-bad-exit=1 python train.py --lr 0.01
) &
together+=($!)
# - train.py starts once.
(
trap - INT QUIT  # which bash ignores in the background
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=2 --gres=gpu:1 --exact \
    --kill-on-bad-exit=1 python train.py --lr 0.001
) &
together+=($!)
# - train.py starts once.
(
trap - INT QUIT  # which bash ignores in the background
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=2 --gres=gpu:1 --exact \
    --kill-on-bad-exit=1 python train.py --lr 0.0001
) &
together+=($!)
finish "${together[@]}" || end_job 1 $?
