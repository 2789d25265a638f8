#!/bin/bash
#SBATCH --job-name=jsc-evaluate-per-node
#SBATCH --partition=dc-gpu
#SBATCH --account=training2436
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --gres=gpu:4
#SBATCH --time=1:00:00
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

job() {
    meet_on_first_node             # sets MASTER_ADDR and MASTER_PORT
    export PYTHONUNBUFFERED=1      # lines reach the log as printed
    export HF_HUB_OFFLINE=1        # jureca wants it
    export HF_DATASETS_OFFLINE=1   # jureca wants it
    export HF_EVALUATE_OFFLINE=1   # jureca wants it
    export TRANSFORMERS_OFFLINE=1  # jureca wants it
    check_node || exit 1           # programs, files, GPUs
    # the shell text starts once, on the first node.
    shell_text
}

shell_text() {
set -euo pipefail
python prepare.py
srun --cpus-per-task=4 --cpu-bind=none bash -c 'python evaluate.py --shard $SLURM_PROCID --of $SLURM_NTASKS'
cat out/shard_* > merged.txt
exit  # in here, where a trap of EXIT finds the variables of these lines
}

# ---- Helpers, the same in every script of this kind: nothing below is yours. The last line starts job. ----

# The processes meet on the first node, on this job's own port.
meet_on_first_node() {
    local first_node route
    first_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
    MASTER_ADDR=$(address_of "$first_node")
    if [[ $MASTER_ADDR == 127.* ]]; then  # in the node's own /etc/hosts, as on Debian: take the route to the last
        route=$(ip route get "$(address_of "$(scontrol show hostnames "$SLURM_JOB_NODELIST" | tail -n 1)")")
        MASTER_ADDR=$(sed -n 's/.* src \([^ ]*\).*/\1/p' <<<"$route")
        export GLOO_SOCKET_IFNAME="${GLOO_SOCKET_IFNAME:-$(sed -n 's/.* dev \([^ ]*\).*/\1/p' <<<"$route")}"
    fi
    [[ $MASTER_ADDR && $MASTER_ADDR != 127.* ]] ||
        { echo "$first_node has no address that other nodes can reach: '$MASTER_ADDR'" >&2; exit 1; }
    export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))
}
address_of() { getent ahostsv4 "$1i" | awk '{ print $1; exit }'; }
# Check the node, and report each defect.
check_node() {
    failed=0; defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
    gpus=$(awk -F, '{ print NF }' <<<"${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-}}")  # 0: no list, all are seen
    [ "$gpus" -eq 0 ] || [ "$gpus" -ge 4 ] || defect "4 GPUs requested, $gpus available"
    if command -v nvidia-smi; then timeout 30 nvidia-smi -L || defect 'nvidia-smi finds no GPU'
    elif command -v rocm-smi; then timeout 30 rocm-smi --showid | grep 'GPU\[' || defect 'rocm-smi finds no GPU'
    fi >/dev/null
    return "$failed"
}

job
