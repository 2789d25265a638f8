#!/bin/bash
#SBATCH --job-name=goeson
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # the most that a step needs
#SBATCH --cpus-per-task=8    # 8 cores per GPU
#SBATCH --gres=gpu:1
#SBATCH --time=1:00:00
#SBATCH --comment="field=nlp;appl=pytorch"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

# A single process: ignore the variables of another training in the submitting shell.
unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

export PYTHONUNBUFFERED=1  # lines reach the log as printed
export OMP_NUM_THREADS=8   # 8 cores

# Wait until these processes have ended, whatever interrupts the wait; fail as the first that failed.
finish() {
    running=$* code=0
    for one in $running; do
        while kill -0 "$one" 2>/dev/null; do wait "$one" || true; done
        wait "$one" || { failed=$?; [ "$code" -ne 0 ] || code=$failed; }
    done
    return "$code"
}

# Step 1 of 3: prepare.py starts once.
(
python prepare.py
) &
finish $! || exit

# Step 2 of 3: fail.py starts once.
(
python fail.py --code 7
) &
finish $! || echo "step 2 ended with exit code $?; the job goes on" >&2

# Step 3 of 3: evaluate.py starts once.
(
python evaluate.py
) &
finish $! || exit
