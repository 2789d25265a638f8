salloc --job-name=interactive --partition=gpu --nodes=1 --ntasks-per-node=2 --cpus-per-task=6 --gpus-per-node=2 --reservation=hpcschool-gpu --time=02:00:00 srun --nodes=1 --ntasks=1 --overlap --preserve-env --distribution=block --pty bash -c 'exec bash --rcfile <(printf %s "$NEURONCTL_WIRING") -i'

# $NEURONCTL_WIRING holds these lines, which run in the shell on the first node:
[ -r ~/.bashrc ] && . ~/.bashrc

export MASTER_ADDR=127.0.0.1 MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))  # where the processes meet
