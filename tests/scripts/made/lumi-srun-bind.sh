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

# The processes meet on the first node, on this job's own port.
first_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_ADDR=$(getent ahostsv4 "$first_node" | awk '{ print $1; exit }')
case $MASTER_ADDR in
    '' | 127.*)
        echo "$first_node has no address that other nodes can reach: '$MASTER_ADDR'" >&2
        exit 1
        ;;
esac
export MASTER_ADDR
export MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))

export PYTHONUNBUFFERED=1  # lines reach the log as printed
export OMP_NUM_THREADS=7   # 56 cores / 8 processes
export MPICH_GPU_SUPPORT_ENABLED=1

# the shell text starts once, on the first node.
cat << EOF > select_gpu
#!/bin/bash
export ROCR_VISIBLE_DEVICES=\$SLURM_LOCALID
exec \$*
EOF
chmod +x ./select_gpu
srun --cpus-per-task=7 --cpu-bind=none ./select_gpu ./solver input.dat
