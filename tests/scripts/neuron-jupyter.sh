#!/bin/bash
#SBATCH -J jupyter
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:1
#SBATCH -t 08:00:00
#SBATCH --comment="field=misc;appl=jupyter"

port=$((8000 + SLURM_JOB_ID % 1000))
host=$(hostname -s)
echo "ssh -L $port:$host:$port $USER@neuron.ksc.re.kr" > tunnel.txt
jupyter lab --no-browser --ip=0.0.0.0 --port="$port"
