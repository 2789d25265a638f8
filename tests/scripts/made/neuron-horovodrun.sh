#!/bin/bash
#SBATCH --job-name=hvd
#SBATCH --partition=cas_v100nv_8
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=4  # about 178 GB of memory per node
#SBATCH --gres=gpu:4
#SBATCH --time=8:00:00
#SBATCH --comment="field=cv;appl=tensorflow"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-4}  # 16 cores / 4 processes, unless you exported it

# Check the node first, and report each defect.
(failed=0; defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
command -v horovodrun >/dev/null || defect 'no program on PATH: horovodrun'
command -v python >/dev/null || defect 'no program on PATH: python'
[ -r train.py ] || defect 'cannot read train.py'
gpus=$(awk -F, '{ print NF }' <<<"${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-}}")  # 0: no list, all are seen
[ "$gpus" -eq 0 ] || [ "$gpus" -ge 4 ] || defect "4 GPUs requested, $gpus available"
! command -v nvidia-smi >/dev/null || timeout 30 nvidia-smi -L >/dev/null || defect 'nvidia-smi finds no GPU'
exit "$failed") || exit 1

hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed "s/\$/:4/" | paste -sd,)
# horovodrun starts 4 processes of train.py.
exec horovodrun --gloo -np 4 -H "$hosts" --fusion-threshold-mb 32 python train.py
