#!/bin/bash
#SBATCH --job-name=train
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8  # one task per GPU
#SBATCH --cpus-per-task=8    # 8 GPUs x 8 cores per GPU / 8 tasks
#SBATCH --gres=gpu:8
#SBATCH --time=1-00:00:00
#SBATCH --comment="field=misc;appl=pytorch"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

export PYTHONUNBUFFERED=1                     # lines reach the log as printed
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}  # 64 cores / 8 processes, unless you exported it

# Check each node before the launch; each fault is one line in the log.
check_node() {
    local faults=() devices visible
    command -v horovodrun >/dev/null || faults+=('no program on PATH: horovodrun')
    command -v python >/dev/null || faults+=('no program on PATH: python')
    [ -r train.py ] || faults+=('cannot read train.py')
    devices=CUDA_VISIBLE_DEVICES; [ -v "$devices" ] || devices=ROCR_VISIBLE_DEVICES  # neither is set: all are visible
    [ "${!devices-all}" ] || faults+=("8 GPUs requested, but $devices is empty")
    IFS=, read -ra visible <<<"${!devices-}"
    ((${#visible[@]} == 0 || ${#visible[@]} >= 8)) || faults+=("8 GPUs requested, ${#visible[@]} available")
    { ! command -v nvidia-smi || timeout 30 nvidia-smi -L; } >/dev/null || faults+=('nvidia-smi finds no GPU')
    [ "$SLURM_NODEID" -gt 0 ] || for host in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
        timeout 10 ssh -n -o BatchMode=yes -o ConnectTimeout=5 "$host" true ||
            faults+=("ssh to $host asks for a password or fails")
    done
    if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi
}
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=1 --overlap --kill-on-bad-exit=0 --mem=0 bash -c "$(declare -f check_node); check_node" </dev/null || exit 1

hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed "s/\$/:8/" | paste -sd,)
# horovodrun starts 8 processes of train.py on each of 2 nodes.
exec horovodrun --gloo -np 16 -H "$hosts" --network-interface ib0 python train.py
