#!/bin/bash
#SBATCH -J worklist
#SBATCH -p cpu
#SBATCH -c 4
#SBATCH -t 12:00:00
#SBATCH --comment="field=bio;appl=in_house"

# one job takes the list itself, since every array task counts as a submitted job
xargs -a samples.txt -P 2 -I{} python align.py {}
ls out > listing.txt
