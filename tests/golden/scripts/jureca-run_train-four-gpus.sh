#!/bin/bash
#SBATCH --job-name=train
#SBATCH --partition=dc-gpu
#SBATCH --account=training2436
#SBATCH --nodes=1
#SBATCH --cpus-per-task=128  # 4 GPUs x 32 cores per GPU
#SBATCH --gres=gpu:4
#SBATCH --time=1:00:00
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

export MASTER_ADDR=127.0.0.1 MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))  # where the processes meet
export PYTHONUNBUFFERED=1                      # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-32}  # 128 cores / 4 processes, unless you exported it
export HF_HUB_OFFLINE=1                        # jureca wants it
export HF_DATASETS_OFFLINE=1                   # jureca wants it
export HF_EVALUATE_OFFLINE=1                   # jureca wants it
export TRANSFORMERS_OFFLINE=1                  # jureca wants it

source "$HOME/course/$USER/sc_venv_template/activate.sh"

# Check the node first, and report each defect.
(failed=0; defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
command -v torchrun_jsc >/dev/null || defect 'no program on PATH: torchrun_jsc'
[ -r train.py ] || defect 'cannot read train.py'
gpus=$(awk -F, '{ print NF }' <<<"${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-}}")  # 0: no list, all are seen
[ "$gpus" -eq 0 ] || [ "$gpus" -ge 4 ] || defect "4 GPUs requested, $gpus available"
if command -v nvidia-smi; then timeout 30 nvidia-smi -L || defect 'nvidia-smi finds no GPU'
elif command -v rocm-smi; then timeout 30 rocm-smi --showid | grep 'GPU\[' || defect 'rocm-smi finds no GPU'
fi >/dev/null
exit "$failed") || exit 1

on_each_node() {  # exec: signals reach the program itself
    exec torchrun_jsc --nnodes=1 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" \
        --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" --rdzv-conf=is_host=$((SLURM_NODEID == 0)) \
        train.py
}
trap : TERM                                    # at scancel and the time limit: wait until the tasks have saved
# torchrun_jsc starts 4 processes of train.py.
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=128 --cpu-bind=none \
    bash -c "$(declare -f on_each_node); on_each_node"
