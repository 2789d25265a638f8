#!/bin/bash
#SBATCH --job-name=finetune
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --gres=gpu:2
#SBATCH --time=1-00:00:00
#SBATCH --comment="field=nlp;appl=pytorch-ddp"
#SBATCH --output=%x_%j.out

# A single process: ignore the variables of another training in the submitting shell.
unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

export PYTHONUNBUFFERED=1  # lines reach the log as printed
export OMP_NUM_THREADS=16  # 16 cores

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
python prepare.py --split train --out data
) &
finish $! || exit

# Step 2 of 3: torchrun starts 2 processes of train.py.
(
export OMP_NUM_THREADS=8  # 16 cores / 2 processes
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=16 --kill-on-bad-exit=1 torchrun \
    --standalone --nproc-per-node=2 train.py --data data
) &
finish $! || exit

# Step 3 of 3: evaluate.py starts once.
(
python evaluate.py --data data --ckpt out/model.pt
) &
finish $! || exit
