#!/bin/bash
#SBATCH -J mem
#SBATCH -p bigmem
#SBATCH --mem=2G
#SBATCH -c 4
#SBATCH -t 04:00:00
#SBATCH --comment="field=bio;appl=in_house"

python assemble.py --threads 4
