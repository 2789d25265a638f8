#!/bin/bash
#SBATCH -J strict
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:1
#SBATCH -t 01:00:00
#SBATCH --comment="field=nlp;appl=pytorch"

set -euo pipefail
trap 'echo "failed in line $LINENO" >> trace.txt' ERR
python prepare.py
python fail.py --code 5 | tee fail.txt
python evaluate.py
