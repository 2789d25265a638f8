#!/bin/bash -l
#SBATCH --job-name=main
#SBATCH --partition=small
#SBATCH --account=project_2001234
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # one process
#SBATCH --cpus-per-task=2
#SBATCH --time=00:15:00
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

stop() { echo "preflight: $(hostname -s): $1" >&2; exit 1; }
export PYTHONPATH=$PWD/project:$PYTHONPATH
. venv/bin/activate || stop 'cannot activate the environment venv'

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # of another training
export PYTHONUNBUFFERED=1  # lines reach the log as printed
export TOKENIZERS_PARALLELISM=false

# Check the node first, and report each defect.
failed=0; defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
command -v python >/dev/null || defect 'no program on PATH: python'
[ -r main.py ] || defect 'cannot read main.py'
[ -x "$VIRTUAL_ENV/bin/python" ] || defect "cannot run $VIRTUAL_ENV/bin/python"
[ "$failed" -eq 0 ] || exit 1

python main.py
