export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}  # 32 cores / 4 processes, unless you exported it
horovodrun --gloo -np 16 -H gpu32:4,gpu33:4,gpu34:4,gpu35:4 python train_hvd.py
