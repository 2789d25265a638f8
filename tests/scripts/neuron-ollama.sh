#!/bin/bash
#SBATCH -J ollama
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:1
#SBATCH -t 04:00:00
#SBATCH --comment="field=nlp;appl=ollama"

export OLLAMA_HOST=127.0.0.1:$((11000 + SLURM_JOB_ID % 1000))
export OLLAMA_MODELS=/scratch/$USER/ollama
ollama serve > ollama.log 2>&1 &
until curl -sf "http://$OLLAMA_HOST/api/tags" > /dev/null; do sleep 1; done
python ask.py --model llama3
kill %1
