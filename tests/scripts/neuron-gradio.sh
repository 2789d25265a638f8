#!/bin/bash
#SBATCH -J demo
#SBATCH -p cas_v100_2
#SBATCH --gres=gpu:1
#SBATCH -t 04:00:00
#SBATCH --comment="field=nlp;appl=pytorch"

export GRADIO_SERVER_NAME=0.0.0.0
export GRADIO_SERVER_PORT=7860
python app.py --share
