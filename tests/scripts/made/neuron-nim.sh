#!/bin/bash
#SBATCH --job-name=nim
#SBATCH --partition=eme_h200nv_8
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # one process
#SBATCH --cpus-per-task=12   # 12 cores per GPU
#SBATCH --gres=gpu:1
#SBATCH --time=4:00:00
#SBATCH --comment="field=agenticai;appl=tensorrt"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # of another training
export PYTHONUNBUFFERED=1  # lines reach the log as printed

# Check the node first, and report each defect.
failed=0; defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
if command -v nvidia-smi; then timeout 30 nvidia-smi -L || defect 'nvidia-smi finds no GPU'
elif command -v rocm-smi; then timeout 30 rocm-smi --showid | grep 'GPU\[' || defect 'rocm-smi finds no GPU'
fi >/dev/null
[ "$failed" -eq 0 ] || exit 1

export NIM_CACHE_PATH=$PWD/nim
mkdir -p "$NIM_CACHE_PATH"
singularity run --nv --writable-tmpfs --bind "$NIM_CACHE_PATH:/opt/nim/.cache" llama.sif &
until curl -sf http://localhost:8000/v1/health/ready; do sleep 1; done
python ask.py --url http://localhost:8000/v1
kill %1
