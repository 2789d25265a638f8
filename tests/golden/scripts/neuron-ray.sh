#!/bin/bash
#SBATCH --job-name=train
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1  # one task per node by default
#SBATCH --cpus-per-task=16   # 2 GPUs x 8 cores per GPU
#SBATCH --gres=gpu:2
#SBATCH --time=1-00:00:00
#SBATCH --comment="field=misc;appl=pytorch"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)  # the processes meet on the first node
export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))  # on a port derived from the job's id
export PYTHONUNBUFFERED=1  # lines reach the log as printed

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

unset RAY_ADDRESS  # it may name another cluster
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN="${RAY_AUTH_TOKEN:-$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')}"
export RAY_USAGE_STATS_ENABLED=0 RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=0
export RAY_enable_metrics_collection=0 {AUTOSCALER,DASHBOARD}_METRIC_PORT=99999  # off, because metrics ask for no token
# train.py starts once, on the first node.
srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=16 --kill-on-bad-exit=1 --wait=600 \
    bash -c '
    options=("${@:2:$1}"); shift $((1 + $1))
    dir=$(mktemp -d "/tmp/ray_$SLURM_JOB_ID.XXXXXX") || exit 1  # short, because Ray makes sockets in it
    trap "kill \$ray \$program 2>/dev/null; wait \$ray; rm -rf $dir" EXIT
    fail() { grep -v state-dump "$dir/log" | tail -n 40; echo "ray: $(hostname -s): $1" >&2; exit 1; }
    start_ray() {  # on free ports, except for those in "$@"
        ray start --block --temp-dir="$dir/ray" --num-cpus="$SLURM_CPUS_PER_TASK" --num-gpus=2 \
            --{node-manager,object-manager,min-worker,max-worker,runtime-env-agent,metrics-export}-port=0 \
            --dashboard-agent-{listen,grpc}-port=0 "$@" "${options[@]}" >"$dir/log" 2>&1 & ray=$!
    }
    head_answers() { (: <"/dev/tcp/$MASTER_ADDR/$MASTER_PORT") 2>/dev/null; }
    if [ "$SLURM_NODEID" -gt 0 ]; then  # a worker ends with the head, whose exit code counts
        trap "exit 0" TERM
        until head_answers; do sleep 1; done
        start_ray --address="$MASTER_ADDR:$MASTER_PORT"
        while head_answers; do sleep 2; kill -0 "$ray" 2>/dev/null || fail "the worker ended"; done
        exit 0
    fi
    own=$(getent ahostsv4 "$MASTER_ADDR" | grep -v ^127 | head -n 1 | cut -d " " -f 1)
    client=$(python -c "import grpc, socket; one = socket.socket(); one.bind((\"\", 0)); print(one.getsockname()[1])" 2>/dev/null)
    client=${client:+--ray-client-server-port=${RAY_CLIENT_PORT:-$client}}  # without grpc, Ray refuses the option
    start_ray --head --port="$MASTER_PORT" --include-dashboard=false ${own:+--node-ip-address=$own} $client
    export RAY_ADDRESS=$MASTER_ADDR:$MASTER_PORT
    until joined=$(timeout 60 python -c "import ray; ray.init(); print(len(ray.nodes()))" 2>/dev/null | tail -n 1)
        [ "${joined:-0}" -ge "$SLURM_STEP_NUM_NODES" ]; do
        kill -0 "$ray" 2>/dev/null || fail "the head ended"
        [ "$SECONDS" -lt 300 ] || fail "only ${joined:-0} of $SLURM_STEP_NUM_NODES nodes joined within 5 minutes"
    done
    (trap - INT QUIT; exec "$@") & program=$!  # undo what bash ignores in the background
    wait -n "$program" "$ray"; code=$?
    kill -0 "$ray" 2>/dev/null || fail "the head ended"
    exit "$code"
' ray 0 python train.py
