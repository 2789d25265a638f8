#!/bin/bash
#SBATCH -J nim
#SBATCH -p eme_h200nv_8
#SBATCH --gres=gpu:1
#SBATCH -t 04:00:00
#SBATCH --comment="field=agenticai;appl=tensorrt"

export NIM_CACHE_PATH=$PWD/nim
mkdir -p "$NIM_CACHE_PATH"
singularity run --nv --writable-tmpfs --bind "$NIM_CACHE_PATH:/opt/nim/.cache" llama.sif &
until curl -sf http://localhost:8000/v1/health/ready; do sleep 1; done
python ask.py --url http://localhost:8000/v1
kill %1
