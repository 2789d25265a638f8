export PYTHONUNBUFFERED=1  # lines reach the log as printed
export OMP_NUM_THREADS=6   # 6 cores
mpirun -np 1 -H iris-171:1 --bind-to none python test_horovod.py
