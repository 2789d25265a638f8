#!/bin/bash
#SBATCH --job-name=train
#SBATCH --partition=cas_v100_4
#SBATCH --nodes=1
#SBATCH --cpus-per-task=40  # 4 GPUs x 10 cores per GPU; about 356 GB of memory per node
#SBATCH --gres=gpu:4
#SBATCH --time=2-00:00:00   # the default of neuron
#SBATCH --comment="field=misc;appl=pytorch"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

export PYTHONUNBUFFERED=1                      # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-10}  # 40 cores / 4 processes, unless you exported it

# Check the node first, and report each defect.
(failed=0; defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
command -v torchrun >/dev/null || defect 'no program on PATH: torchrun'
[ -r train.py ] || defect 'cannot read train.py'
gpus=$(awk -F, '{ print NF }' <<<"${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-}}")  # 0: no list, all are seen
[ "$gpus" -eq 0 ] || [ "$gpus" -ge 4 ] || defect "4 GPUs requested, $gpus available"
! command -v nvidia-smi >/dev/null || timeout 30 nvidia-smi -L >/dev/null || defect 'nvidia-smi finds no GPU'
exit "$failed") || exit 1

# torchrun starts 4 processes of train.py.
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=40 torchrun --standalone \
    --nproc-per-node=4 train.py --epochs 20
