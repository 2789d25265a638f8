#!/bin/bash
# no job: a chain of jobs, each after the one before it
id=$(sbatch --parsable -J link -p amd_a100nv_8 --gres=gpu:1 -t 10 --comment="field=nlp;appl=pytorch" --wrap "python train.py")
for part in 2 3; do
    id=$(sbatch --parsable --dependency=afterany:$id -J link -p amd_a100nv_8 --gres=gpu:1 -t 10 --comment="field=nlp;appl=pytorch" --wrap "python train.py --resume")
done
