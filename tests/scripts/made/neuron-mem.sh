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

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # left by an outer torchrun
export PYTHONUNBUFFERED=1                                                  # lines reach the log as printed

# Check the node first, and report each defect.
(failed=0; defect() { echo "preflight: $(hostname -s): $1" >&2; failed=1; }
command -v python >/dev/null || defect 'no program on PATH: python'
[ -r assemble.py ] || defect 'cannot read assemble.py'
exit "$failed") || exit 1

exec python assemble.py --threads 4
