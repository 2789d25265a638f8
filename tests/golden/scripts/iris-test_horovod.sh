#!/bin/bash -l
#SBATCH --job-name=test_horovod
#SBATCH --partition=gpu
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4  # one task per GPU
#SBATCH --cpus-per-task=6
#SBATCH --gpus-per-node=4
#SBATCH --time=02:00:00
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-6}  # 24 cores / 4 processes, unless you exported it

# Check every node first and report each defect, instead of letting the training hang.
echo "preflight: $SLURM_JOB_NODELIST, 4 GPUs per node"
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=1 --overlap --kill-on-bad-exit=0 bash -s <<'PREFLIGHT' || exit 1
failed=0
defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
command -v mpirun >/dev/null || defect 'no program on PATH: mpirun'
command -v python >/dev/null || defect 'no program on PATH: python'
[ -r test_horovod.py ] || defect 'cannot read test_horovod.py'
gpus=$(awk -F, '{ print NF }' <<<"${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-}}")
# 0: Slurm sets no list of GPUs here, and a program sees all of them.
[ "$gpus" -eq 0 ] || [ "$gpus" -ge 4 ] || defect "4 GPUs requested, $gpus available"
if command -v nvidia-smi >/dev/null; then
    timeout 30 nvidia-smi -L >/dev/null || defect "nvidia-smi finds no GPU"
elif command -v rocm-smi >/dev/null; then
    # Its exit code is 0 in any case.
    timeout 30 rocm-smi --showid | grep 'GPU\[' >/dev/null || defect "rocm-smi finds no GPU"
fi
exit "$failed"
PREFLIGHT
echo "preflight: all is well"

# mpirun starts 4 processes of test_horovod.py on each of 2 nodes.
mpirun -np 8 --bind-to none python test_horovod.py
