#!/bin/bash
#SBATCH --job-name=lumi-srun-bind
#SBATCH --partition=standard-g
#SBATCH --account=project_465000000
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=7
#SBATCH --gpus-per-node=8
#SBATCH --time=00:30:00
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

job() {
    meet_on_first_node         # sets MASTER_ADDR and MASTER_PORT
    export PYTHONUNBUFFERED=1  # lines reach the log as printed
    export MPICH_GPU_SUPPORT_ENABLED=1
    check_node || exit 1       # programs, files, GPUs
    # the shell text starts once, on the first node.
    shell_text
}

shell_text() {
cat << EOF > select_gpu
#!/bin/bash
export ROCR_VISIBLE_DEVICES=\$SLURM_LOCALID
exec \$*
EOF
chmod +x ./select_gpu
srun --cpus-per-task=7 --cpu-bind=none ./select_gpu ./solver input.dat
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
address_of() { getent ahostsv4 "$1" | awk '{ print $1; exit }'; }
# Check the node, and report each defect.
check_node() {
    failed=0; defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
    gpus=$(awk -F, '{ print NF }' <<<"${CUDA_VISIBLE_DEVICES:-${ROCR_VISIBLE_DEVICES:-}}")  # 0: no list, all are seen
    [ "$gpus" -eq 0 ] || [ "$gpus" -ge 8 ] || defect "8 GPUs requested, $gpus available"
    if command -v nvidia-smi; then timeout 30 nvidia-smi -L || defect 'nvidia-smi finds no GPU'
    elif command -v rocm-smi; then timeout 30 rocm-smi --showid | grep 'GPU\[' || defect 'rocm-smi finds no GPU'
    fi >/dev/null
    return "$failed"
}

job
