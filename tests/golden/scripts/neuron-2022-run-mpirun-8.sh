export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}  # 32 cores / 4 processes, unless you exported it
mpirun -np 8 -H gpu32:4,gpu33:4 --bind-to none python train_hvd.py
