#!/bin/bash
#SBATCH -J requeue
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:1
#SBATCH -t 1-00:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
#SBATCH --comment="field=nlp;appl=pytorch"

again() {
    echo requeue > requeued.txt
    scontrol requeue "$SLURM_JOB_ID"
}
trap again USR1
python train.py --resume &
wait
