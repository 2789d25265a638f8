"""Stands for a training program: says where it runs, and with what."""

import argparse
import os
import time

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--lr", type=float, default=0.1)
options = parser.parse_args()

rank, size = os.environ.get("SLURM_PROCID", "0"), os.environ.get("SLURM_STEP_NUM_TASKS", "1")
print(f"process {rank} of {size} on {os.uname().nodename}, learning rate {options.lr}", flush=True)
for epoch in range(1, options.epochs + 1):
    time.sleep(0.2)
    print(f"epoch {epoch} loss {options.lr / epoch:.4f}", flush=True)
