#!/bin/bash
#SBATCH --account=project_2001234
#SBATCH --partition=small
#SBATCH --cpus-per-task=2
#SBATCH --time=00:15:00

export PYTHONPATH=$PWD/project:$PYTHONPATH
source venv/bin/activate
export TOKENIZERS_PARALLELISM=false
python main.py
