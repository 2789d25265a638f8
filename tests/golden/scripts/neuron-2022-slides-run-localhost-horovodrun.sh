export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}  # 32 cores / 4 processes, unless you exported it
horovodrun --gloo -np 4 -H gpu32:4 python train_hvd.py
