#!/bin/bash
#SBATCH -J heredoc
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:1
#SBATCH -t 02:00:00
#SBATCH --comment="field=nlp;appl=pytorch"

cat > config.yaml <<YAML
job: ${SLURM_JOB_NAME}
batch_size: 32
YAML
cat <<'EOT' > note.txt
not expanded: $HOME `date`
EOT
python train.py --config config.yaml
