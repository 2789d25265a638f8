#!/bin/bash
#SBATCH --job-name=flask
#SBATCH --partition=cpu
#SBATCH --nodes=1
#SBATCH --cpus-per-task=2
#SBATCH --time=4:00:00
#SBATCH --comment="field=misc;appl=misc"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # of another training
export PYTHONUNBUFFERED=1  # lines reach the log as printed
export FLASK_APP=app.py

# Check the node first, and report each defect.
(failed=0; defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
command -v flask >/dev/null || defect 'no program on PATH: flask'
exit "$failed") || exit 1

exec flask run --host "$HOSTNAME" --port 5050
