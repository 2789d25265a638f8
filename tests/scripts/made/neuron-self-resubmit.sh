#!/bin/bash
#SBATCH --job-name=again
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # one process
#SBATCH --cpus-per-task=8    # 8 cores per GPU
#SBATCH --gres=gpu:1
#SBATCH --time=00:10:00
#SBATCH --comment="field=nlp;appl=pytorch"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

# A single process: ignore the variables of another training in the submitting shell.
unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

export PYTHONUNBUFFERED=1  # lines reach the log as printed
export OMP_NUM_THREADS=8   # 8 cores

python train.py --resume
count=$(cat count 2>/dev/null || echo 0)
echo $((count + 1)) > count
if [ "$count" -lt 2 ] && [ ! -f finished ]; then
    sbatch --test-only --dependency=afterany:$SLURM_JOB_ID "$0" > next.txt 2>&1
fi
