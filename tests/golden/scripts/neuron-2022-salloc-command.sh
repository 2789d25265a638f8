salloc --job-name=interactive --partition=cas_v100nv_8 --nodes=1 --ntasks-per-node=1 --cpus-per-task=4 --gres=gpu:1 --comment=python srun --nodes=1 --ntasks=1 --overlap --preserve-env --distribution=block bash -c 'eval "$NEURONCTL_WIRING"' bash nvidia-smi --query-gpu=name,memory.total --format=csv

# $NEURONCTL_WIRING holds these lines, which run on the first node, before CMD:
stop() { echo "preflight: $(hostname -s): $1" >&2; exit 1; }
# /etc/profile defines 'module'. Your own PATH entries stay in front.
type module >/dev/null 2>&1 || { path=$PATH; . /etc/profile; PATH=$path:$PATH; }
module purge
module load cuda/11.4 || stop 'cannot load the modules cuda/11.4'
# 'conda activate' is a shell function, which a batch shell must load first.
. "$(conda info --base)/etc/profile.d/conda.sh" || stop 'conda not found'
conda activate horovod || stop 'cannot activate the environment horovod'

export MASTER_ADDR=127.0.0.1 MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))  # where the processes meet

exec "$@"
