export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}  # 16 cores / 2 processes, unless you exported it
horovodrun --gloo -np 4 -H gpu32:2,gpu33:2 python train_hvd.py
