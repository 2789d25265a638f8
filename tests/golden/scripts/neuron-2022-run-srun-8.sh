MASTER_ADDR=gpu32                             # the processes meet on the first node
export MASTER_ADDR MASTER_PORT=$((10000 + (SLURM_JOB_ID + $$) % 20000))  # on a port derived from the job's id
export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}  # 32 cores / 4 processes, unless you exported it
srun --nodes=2 --nodelist=gpu32,gpu33 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=8 \
    --kill-on-bad-exit=1 --wait=600 \
    bash -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS \
        LOCAL_WORLD_SIZE=4
    exec "$@"' bash python train_hvd.py
