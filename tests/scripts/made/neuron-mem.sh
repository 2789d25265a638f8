#!/bin/bash
#SBATCH --job-name=mem
#SBATCH --partition=bigmem
#SBATCH --nodes=1
#SBATCH --cpus-per-task=4
#SBATCH --mem=2G
#SBATCH --time=4:00:00
#SBATCH --comment="field=bio;appl=in_house"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # in case a training set them
export PYTHONUNBUFFERED=1  # lines reach the log as printed

# Check the node before the launch; each fault is one line in the log.
faults=()
command -v python >/dev/null || faults+=('no program on PATH: python')
[ -r assemble.py ] || faults+=('cannot read assemble.py')
if ((${#faults[@]})); then printf "preflight: $(hostname -s): %s\n" "${faults[@]}" >&2; exit 1; fi

exec python assemble.py --threads 4
