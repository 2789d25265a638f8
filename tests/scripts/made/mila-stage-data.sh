#!/bin/bash
#SBATCH --job-name=mila-stage-data
#SBATCH --partition=unkillable
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # the most that a step needs
#SBATCH --cpus-per-task=2
#SBATCH --gres=gpu:1
#SBATCH --mem=1G
#SBATCH --time=0:30:00
#SBATCH --output=slurm-%j.out

# A single process: ignore the variables of another training in the submitting shell.
unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

export PYTHONUNBUFFERED=1  # lines reach the log as printed
export OMP_NUM_THREADS=2   # 2 cores

cp data.tar local.tar
tar xf local.tar

# Wait until these processes have ended, whatever interrupts the wait; fail as the first that failed.
finish() {
    running=$* code=0
    for one in $running; do
        while kill -0 "$one" 2>/dev/null; do wait "$one" || true; done
        wait "$one" || { failed=$?; [ "$code" -ne 0 ] || code=$failed; }
    done
    return "$code"
}

# Step 1 of 2: train.py starts once.
(
python train.py --data data
) &
finish $! || exit

# Step 2 of 2: the shell text starts once.
(
cp -r out results
) &
finish $! || exit
