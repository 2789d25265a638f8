#!/bin/bash
#SBATCH -J vllm
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:2
#SBATCH --cpus-per-task=8
#SBATCH -t 04:00:00
#SBATCH --comment="field=nlp;appl=vllm"

port=$(shuf -i 20000-29999 -n 1)
vllm serve ./model --tensor-parallel-size 2 --port "$port" &
until curl -sf "http://localhost:$port/health"; do sleep 1; done
python ask.py --url "http://localhost:$port/v1"
kill %1
