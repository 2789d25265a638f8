#!/bin/bash
#SBATCH -J path
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:1
#SBATCH -t 01:00:00
#SBATCH --comment="field=chem;appl=gromacs"

export APP=$PWD/app
export PATH=$APP/bin:$PATH
export LD_LIBRARY_PATH=$APP/lib:$LD_LIBRARY_PATH
export HF_HOME=/scratch/$USER/hf
mytool --input x.dat
