#!/bin/bash
#SBATCH -J flask
#SBATCH -p cpu
#SBATCH -c 2
#SBATCH -t 04:00:00
#SBATCH --comment="field=misc;appl=misc"

export FLASK_APP=app.py
flask run --host "$(hostname -s)" --port 5050
