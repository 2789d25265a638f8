#!/bin/bash
#SBATCH -J stops
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:1
#SBATCH -t 01:00:00
#SBATCH --comment="field=nlp;appl=pytorch"

set -e
python prepare.py
python fail.py --code 7
python evaluate.py
