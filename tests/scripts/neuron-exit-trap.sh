#!/bin/bash
#SBATCH -J cleanup
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:1
#SBATCH -t 01:00:00
#SBATCH --comment="field=nlp;appl=pytorch"

set -e
work=$(mktemp -d ./work.XXXXXX)
trap 'cp "$work"/* . ; rm -rf "$work"' EXIT
python train.py --out "$work/out"
echo finished > "$work/state.txt"
