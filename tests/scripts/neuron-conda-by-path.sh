#!/bin/bash
#SBATCH -J conda
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:1
#SBATCH -t 01:00:00
#SBATCH --comment="field=nlp;appl=pytorch"

export CONDA_ENVS_PATH=$PWD/envs
export CONDA_PKGS_DIRS=$PWD/pkgs
. miniconda/etc/profile.d/conda.sh
conda activate llm
python train.py
