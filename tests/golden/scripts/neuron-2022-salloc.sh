salloc --job-name=debug --partition=amd_a100nv_8 --nodes=2 --ntasks-per-node=4 --cpus-per-task=8 --gres=gpu:4 --time=8:00:00 --comment=python srun --nodes=1 --ntasks=1 --overlap --preserve-env --distribution=block --pty bash -c 'exec bash --rcfile <(printf %s "$NEURONCTL_WIRING") -i'

# $NEURONCTL_WIRING holds these lines, which run in the shell on the first node:
[ -r ~/.bashrc ] && . ~/.bashrc

MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)  # the processes meet on the first node
export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))  # on a port derived from the job's id
