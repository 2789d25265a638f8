export MASTER_ADDR=127.0.0.1 MASTER_PORT=$((10000 + (SLURM_JOB_ID + $$) % 20000))  # where the processes meet
export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}  # 32 cores / 4 processes, unless you exported it

job() {
    exec srun --nodes=1 --nodelist=gpu32 --ntasks=4 --ntasks-per-node=4 --cpus-per-task=8 \
        --kill-on-bad-exit=1 bash -c "$(declare -f each_task supervise); supervise each_task"
}

each_task() {  # exec: signals reach the program itself
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS \
        LOCAL_WORLD_SIZE=4
    exec python train_hvd.py
}

# ---- Helpers, the same in every script of this kind: nothing below is yours. The last line starts job. ----

# Run a function in the background, hand signals on to it, and end with its exit code.
supervise() {
    local slurm_stops='' supervised supervised_code
    send() { kill -s "$1" "$supervised" 2>/dev/null; }
    trap 'send HUP' HUP; trap 'send INT' INT; trap 'send USR1' USR1; trap 'send USR2' USR2
    trap 'slurm_stops=1; send TERM' TERM  # by Slurm: not to hide the exit code of another that failed
    (trap - INT QUIT; "$@") <&0 &  # bash ignores INT and QUIT in the background
    supervised=$!
    while kill -0 "$supervised"; do sleep 0.5; done 2>/dev/null  # a signal to 'wait' as it ends would lose its exit code
    wait "$supervised"; supervised_code=$?
    ((supervised_code <= 128 || slurm_stops)) || sleep 1  # Slurm signals one process after the other, this shell perhaps last
    exit "$((slurm_stops && supervised_code > 128 ? 1 : supervised_code))"
}

job
