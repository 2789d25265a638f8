#!/bin/bash
# no job: a queue on the login node, because array tasks count as submitted jobs
for seed in 1 2 3; do
    while [ "$(squeue -h -u "$USER" -n fed | wc -l)" -ge 2 ]; do sleep 1; done
    sbatch -J fed -p amd_a100nv_8 --gres=gpu:1 -t 10 --comment="field=nlp;appl=pytorch" \
        --wrap "python train.py --seed $seed"
done
