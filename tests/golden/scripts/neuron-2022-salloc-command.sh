salloc --job-name=interactive --partition=cas_v100nv_8 --nodes=1 --ntasks-per-node=1 --cpus-per-task=4 --gres=gpu:1 --comment=python srun --nodes=1 --ntasks=1 --overlap --preserve-env --distribution=block bash -c 'eval "$NEURONCTL_WIRING"' bash nvidia-smi --query-gpu=name,memory.total --format=csv

# $NEURONCTL_WIRING holds these lines, which run on the first node, before CMD:

type module >/dev/null 2>&1 || { path=$PATH; . /etc/profile; PATH=$path:$PATH; }
module purge
module load cuda/11.4 || exit 1
# 'conda activate' is a shell function that a batch shell has to load first.
. "$(conda info --base)/etc/profile.d/conda.sh" || exit 1
conda activate horovod || exit 1

# All processes are on one node and meet there, at a port of this job's own.
export MASTER_ADDR=127.0.0.1
export MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))

export OMP_NUM_THREADS=4  # 4 cores

exec "$@"
