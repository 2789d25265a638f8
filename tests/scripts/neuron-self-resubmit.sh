#!/bin/bash
#SBATCH -J again
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:1
#SBATCH -t 00:10:00
#SBATCH --comment="field=nlp;appl=pytorch"

python train.py --resume
count=$(cat count 2>/dev/null || echo 0)
echo $((count + 1)) > count
if [ "$count" -lt 2 ] && [ ! -f finished ]; then
    sbatch --test-only --dependency=afterany:$SLURM_JOB_ID "$0" > next.txt 2>&1
fi
