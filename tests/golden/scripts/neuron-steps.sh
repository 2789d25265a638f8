#!/bin/bash
#SBATCH --job-name=steps
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1  # the most that a step needs
#SBATCH --cpus-per-task=32   # 4 GPUs x 8 cores per GPU
#SBATCH --gres=gpu:4
#SBATCH --time=1:00:00
#SBATCH --comment="field=nlp;appl=pytorch"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)  # the processes meet on the first node
export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))  # on a port derived from the job's id
export PYTHONUNBUFFERED=1  # lines reach the log as printed

# Check each node before the launch; each fault is one line in the log.
check_node() {
    local faults=() devices visible
    devices=CUDA_VISIBLE_DEVICES; [ -v "$devices" ] || devices=ROCR_VISIBLE_DEVICES  # neither is set: all are visible
    [ "${!devices-all}" ] || faults+=("4 GPUs requested, but $devices is empty")
    IFS=, read -ra visible <<<"${!devices-}"
    ((${#visible[@]} == 0 || ${#visible[@]} >= 4)) || faults+=("4 GPUs requested, ${#visible[@]} available")
    { ! command -v nvidia-smi || timeout 30 nvidia-smi -L; } >/dev/null || faults+=('nvidia-smi finds no GPU')
    getent hosts "$MASTER_ADDR" >/dev/null || faults+=("cannot resolve $MASTER_ADDR")
    if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi
}
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=1 --overlap --kill-on-bad-exit=0 --mem=0 bash -c "$(declare -f check_node); check_node" </dev/null || exit 1

# Step 1: the shell text starts once, on the first node.
{
    set -e
    for part in a b; do
      tar xf "data-$part.tar"
    done
} &
code=0; wait "$!" || code=$?
[ "$code" -eq 0 ] || { echo "step 1 failed with exit code $code; the job ends with it" >&2; exit "$code"; }

# Step 2: torchrun starts 4 processes of train.py on each of 2 nodes.
{
    export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}  # 32 cores / 4 processes, unless you exported it
    srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=32 --kill-on-bad-exit=1 --wait=600 \
        bash -c 'exec torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d \
            --rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" \
            --rdzv-conf=is_host=$((SLURM_NODEID == 0)) "$@"' torchrun train.py --epochs 20 'two words'
} &
code=0; wait "$!" || code=$?
[ "$code" -eq 0 ] || { echo "step 2 failed with exit code $code; the job ends with it" >&2; exit "$code"; }

# Step 3, side by side.
processes=()
# the shell text starts once.
{
    srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=8 --gres=gpu:1 --exact --mem=0 bash \
        -c 'python eval.py --fold 1'
} &
processes+=("$!")
# eval.py starts once.
{
    srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=8 --gres=gpu:1 --exact --mem=0 python \
        eval.py --fold 2
} &
processes+=("$!")
# torchrun starts 2 processes of eval.py.
{
    export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}  # 16 cores / 2 processes, unless you exported it
    srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=16 --gres=gpu:2 --exact --mem=0 \
        torchrun --standalone --nproc-per-node=2 eval.py
} &
processes+=("$!")
code=0; for process in "${processes[@]}"; do wait "$process" || code=$?; done
[ "$code" -eq 0 ] || { echo "step 3 failed with exit code $code; the job ends with it" >&2; exit "$code"; }

# Step 4: bash starts once, on the first node.
{
    bash report.sh
} &
code=0; wait "$!" || code=$?
[ "$code" -eq 0 ] || echo "step 4 failed with exit code $code; the job goes on" >&2
