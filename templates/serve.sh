# A server: a port that is this job's alone, a token that only you can read, and a note once it answers.
NODE=${SLURMD_NODENAME:-$(hostname -s)} FOLDER=$SERVE/${SLURM_JOB_ID:?}
[ -n "$ADDRESS" ] || ADDRESS=$(getent ahostsv4 "$NODE" | awk '$1 !~ /^127\./ { print $1; exit }')
[ -n "$ADDRESS" ] || ADDRESS=$(hostname -I | awk '{ print $1 }')
free_port() {  # the first from $1 on that has no socket; below the kernel's own ports, above those of MASTER_PORT
    local number port
    for ((number = $1; number < $1 + 2768; number++)); do
        port=$((30000 + number % 2768))
        grep -qs ": [0-9A-F]*:$(printf %04X "$port") " /proc/net/tcp /proc/net/tcp6 || { echo "$port"; return; }
    done
    echo "serve: $NODE has no free port" >&2; return 1
}
has_socket() {  # whether the port has a socket of yours in state $1: 0A listens, 01 is a connection
    awk -v port=":$(printf %04X "$PORT")$" -v state="$1" -v user="$UID" \
        '$2 ~ port && $4 == state && $8 == user { found = 1 } END { exit !found }' /proc/net/tcp /proc/net/tcp6
}
ask() (  # PATH [HEADER [BODY [STATUS]]]: whether the server answers so; no process's command line shows any of it
    exec 3<>"/dev/tcp/$ADDRESS/$PORT" || exit
    { printf '%s %s HTTP/1.0\r\nHost: localhost:%s\r\n' "$([ -n "$3" ] && echo POST || echo GET)" "$1" "$PORT"
    printf '%s' "${2:+$2$'\r\n'}" "${3:+Content-Length: ${#3}$'\r\n'}" $'\r\n' "$3"; } >&3
    IFS=' ' read -r -t 600 version status _ <&3 && timeout 5 cat <&3 >/dev/null  # a server may log who leaves early
    [[ $version == HTTP/* && $status == ${4:-2}* ]]
)
end_server() {  # MESSAGE [CODE]: end the server, and the job with this exit code
    echo "serve: $1" >&2; echo "${2:-1}" >"$FOLDER/.code"
    pkill -P "$$"; sleep 30; pkill -KILL -P "$$"
}
watch_server() {
    trap '' TERM
    until has_socket 0A && ready; do sleep $((SECONDS < 60 ? 1 : 5)); done
    (umask 077; echo "$SECONDS" >"$FOLDER/ready")
    echo "serve: $RECIPE answers on port $PORT of $NODE"
    local used=$SECONDS
    while [ -n "$IDLE" ] && sleep 5; do
        if has_socket 01 || timeout 30 nvidia-smi ${CUDA_VISIBLE_DEVICES:+-i "$CUDA_VISIBLE_DEVICES"} 2>/dev/null \
            --query-gpu=utilization.gpu --format=csv,noheader,nounits | grep -qE '^ *([6-9]|[0-9]{2,})'; then used=$SECONDS; fi
        ((SECONDS - used < IDLE)) || end_server "nobody used it for $IDLE s, so it ends" 0
    done
}
close_server() {
    local code=$?
    [ ! -e "$FOLDER/.code" ] || read -r code <"$FOLDER/.code"
    ((code == 0)) || echo "serve: $RECIPE ended with exit code $code$([ -e "$FOLDER/ready" ] || echo ', and never answered')" >&2
    kill -KILL "$watch" 2>/dev/null; rm -rf "$FOLDER"
    exit "$code"
}
JOB=$SLURM_JOB_ID NAME=$SLURM_JOB_NAME PORT=$(free_port "$SLURM_JOB_ID") && TOKEN=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n') || exit 1
rm -rf "$FOLDER"
(umask 077; mkdir "$FOLDER" && for name in RECIPE JOB NAME NODE ADDRESS PORT TOKEN; do echo "${!name}" >"$FOLDER/${name,,}" || exit; done) ||
    { echo "serve: $NODE cannot write $SERVE; set XDG_STATE_HOME to a directory that the nodes can write" >&2; exit 1; }
export SERVE FOLDER NODE ADDRESS PORT TOKEN
export SINGULARITY_BIND="${SINGULARITY_BIND:+$SINGULARITY_BIND,}$SERVE" APPTAINER_BIND="${APPTAINER_BIND:+$APPTAINER_BIND,}$SERVE"
trap close_server EXIT; trap : TERM
watch_server & watch=$!; disown  # bash need not say how it ended
