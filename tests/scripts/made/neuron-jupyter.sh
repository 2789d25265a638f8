#!/bin/bash
#SBATCH --job-name=jupyter
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # one process
#SBATCH --cpus-per-task=8    # 8 cores per GPU
#SBATCH --gres=gpu:1
#SBATCH --time=8:00:00
#SBATCH --comment="field=misc;appl=jupyter"
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

port=$((8000 + SLURM_JOB_ID % 1000))
host=$(hostname -s)
echo "ssh -L $port:$host:$port $USER@neuron.ksc.re.kr" > tunnel.txt
jupyter lab --no-browser --ip=0.0.0.0 --port="$port"
