#!/bin/bash
#SBATCH --job-name="every option"
#SBATCH --partition=amd_a100nv_8
#SBATCH --account=acc
#SBATCH --qos=long
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2  # 4 tasks on 2 nodes
#SBATCH --cpus-per-task=8
#SBATCH --gres=gpu:a100:2,nvme:1
#SBATCH --exclusive
#SBATCH --constraint=hwperf
#SBATCH --reservation=school
#SBATCH --nodelist=gpu[35-36]
#SBATCH --exclude=gpu37
#SBATCH --time=01:30:00
#SBATCH --comment="field=nlp;appl=pytorch"
#SBATCH --dependency=afterok:17
#SBATCH --no-requeue
#SBATCH --mail-type=END,FAIL
#SBATCH --mail-user=me@example.org
#SBATCH --output=%x.log
#SBATCH --error=%x.err
#SBATCH --nice=100
#SBATCH --hold

MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)  # the processes meet on the first node
export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))  # on a port derived from the job's id
export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}  # 16 cores / 2 processes, unless you exported it

# Check each node before the launch; each fault is one line in the log.
check_node() {
    local faults=() devices visible
    command -v python >/dev/null || faults+=('no program on PATH: python')
    [ -r train.py ] || faults+=('cannot read train.py')
    devices=CUDA_VISIBLE_DEVICES; [ -v "$devices" ] || devices=ROCR_VISIBLE_DEVICES  # neither is set: all are visible
    [ "${!devices-all}" ] || faults+=("2 GPUs requested, but $devices is empty")
    IFS=, read -ra visible <<<"${!devices-}"
    ((${#visible[@]} == 0 || ${#visible[@]} >= 2)) || faults+=("2 GPUs requested, ${#visible[@]} available")
    { ! command -v nvidia-smi || timeout 30 nvidia-smi -L; } >/dev/null || faults+=('nvidia-smi finds no GPU')
    getent hosts "$MASTER_ADDR" >/dev/null || faults+=("cannot resolve $MASTER_ADDR")
    if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi
}
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=1 --overlap --kill-on-bad-exit=0 --mem=0 bash -c "$(declare -f check_node); check_node" </dev/null || exit 1

# srun starts 2 tasks of train.py on each of 2 nodes.
srun --nodes=2 --ntasks=4 --ntasks-per-node=2 --cpus-per-task=8 --kill-on-bad-exit=1 --wait=600 \
    bash -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS \
        LOCAL_WORLD_SIZE=2
    exec "$@"' bash python train.py
