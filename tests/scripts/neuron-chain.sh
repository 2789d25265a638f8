#!/bin/bash
#SBATCH -J chain
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:1
#SBATCH -t 2-00:00:00
#SBATCH --dependency=singleton
#SBATCH --comment="field=nlp;appl=pytorch"

# submitted five times in a row; each run resumes where the one before it ended
RESUME=${RESUME:-1}
if [ "$RESUME" = 1 ] && [ -f out/last.ckpt ]; then
    python train.py --resume out/last.ckpt
else
    python train.py
fi
