export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-6}  # 12 cores / 2 processes, unless you exported it
mpirun -np 2 -H iris-171:2 --bind-to none python test_horovod.py
