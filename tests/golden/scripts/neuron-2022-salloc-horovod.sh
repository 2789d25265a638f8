salloc --job-name=debug --partition=amd_a100nv_8 --nodes=2 --ntasks-per-node=4 --cpus-per-task=8 --gres=gpu:4 --time=2:00:00 --comment=horovod srun --nodes=1 --ntasks=1 --overlap --preserve-env --distribution=block --pty bash -c 'exec bash --rcfile <(printf %s "$NEURONCTL_WIRING") -i'

# $NEURONCTL_WIRING holds these lines, which run in the shell on the first node:
[ -r ~/.bashrc ] && . ~/.bashrc

# /etc/profile defines 'module'. Your own PATH entries stay in front.
type module >/dev/null 2>&1 || { path=$PATH; . /etc/profile; PATH=$path:$PATH; }
module purge
module load gcc/10.2.0 cuda/11.4 cudampi/openmpi-4.1.1 cmake/3.16.9
# 'conda activate' is a shell function, which a batch shell must load first.
. "$(conda info --base)/etc/profile.d/conda.sh"
conda activate horovod

MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)  # the processes meet on the first node
export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))  # on a port derived from the job's id
