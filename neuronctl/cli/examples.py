"""Two examples of each command, for the end of its help."""

from __future__ import annotations

from typing import Mapping, Tuple

EXAMPLES: Mapping[str, Tuple[str, ...]] = {
    "submit": (
        "neuronctl submit -N 2 --gpus-per-node 4 -t 8:00:00 train.py --epochs 20",
        "neuronctl submit --follow",
        "neuronctl submit -t 30 job.sh",
    ),
    "sbatch": (
        "neuronctl sbatch -p amd_a100nv_8 job.sh",
        "neuronctl sbatch --gres=gpu:1 --wrap 'python eval.py'",
    ),
    "generate": (
        "neuronctl generate -N 2 --gpus-per-node 2 -t 60 train.py",
        "neuronctl generate -f job.yaml --write job.sh",
    ),
    "init": (
        "neuronctl init",
        "neuronctl init -N 2 --gpus-per-node 2 -t 2:00:00 train.py --epochs 3",
    ),
    "salloc": (
        "neuronctl salloc -p auto --gpus-per-node 1 -t 60",
        "neuronctl salloc -N 2 --gpus-per-node 2 -t 30 --conda torch",
    ),
    "run": (
        "neuronctl run train.py --epochs 1",
        "neuronctl run -N 1 --launcher torchrun train.py",
    ),
    "status": ("neuronctl status --watch", "neuronctl status 4711 4712 --json"),
    "why": ("neuronctl why 4711", "neuronctl why train --stacks"),
    "logs": ("neuronctl logs -f train", "neuronctl logs 4711 --err"),
    "top": ("neuronctl top 4711", "neuronctl top train --json"),
    "attach": ("neuronctl attach 4711", "neuronctl attach train nvidia-smi"),
    "wait": (
        "neuronctl wait 4711 4712 --timeout 10m",
        "neuronctl wait prep train --any",
    ),
    "cancel": ("neuronctl cancel train", "neuronctl cancel --state pending --yes"),
    "history": ("neuronctl history --since 7d", "neuronctl history --json"),
    "show": ("neuronctl show 4711", "neuronctl show train --script"),
    "report": ("neuronctl report 4711", "neuronctl report --since 7d"),
    "resubmit": (
        "neuronctl resubmit 4711 -t 16:00:00",
        "neuronctl resubmit train -- --lr 0.01",
    ),
    "check": ("neuronctl check job.sh", "neuronctl check --fix scripts/*.sh"),
    "import": ("neuronctl import job.sh", "neuronctl import job.sh -o job.yaml"),
    "explain": ("neuronctl explain NC310", "neuronctl explain nc603"),
    "brief": ("neuronctl brief", "neuronctl brief --agents >> AGENTS.md"),
    "partitions": ("neuronctl partitions --live", "neuronctl partitions amd_a100nv_8"),
    "doctor": ("neuronctl doctor", "neuronctl doctor --json"),
    "help": ("neuronctl help launchers", "neuronctl help submit"),
    "catalog check": (
        "neuronctl catalog check partitions.yaml",
        "neuronctl catalog check ~/.config/neuronctl/partitions.yaml",
    ),
    "catalog diff": ("neuronctl catalog diff", "neuronctl catalog diff --json"),
    "catalog import": (
        "neuronctl catalog import",
        "neuronctl catalog import --write partitions.yaml",
    ),
    "catalog": ("neuronctl catalog import --write partitions.yaml", "neuronctl catalog diff"),
    "config": ("neuronctl config", "neuronctl config --json"),
    "sandbox": ("neuronctl sandbox up --nodes amd_a100nv_8=4", "neuronctl sandbox shell"),
    "config edit": ("neuronctl config edit", "EDITOR=vim neuronctl config edit"),
    "completion": (
        "neuronctl completion bash --install",
        "neuronctl completion zsh --install",
    ),
    "sandbox up": ("neuronctl sandbox up", "neuronctl sandbox up --nodes amd_a100nv_8=4"),
    "sandbox down": ("neuronctl sandbox down", "neuronctl sandbox down && neuronctl sandbox up"),
    "sandbox shell": ("neuronctl sandbox shell", "neuronctl sandbox up && neuronctl sandbox shell"),
    "sandbox exec": (
        "neuronctl sandbox exec -- sinfo",
        "neuronctl sandbox exec --copy train.py -- neuronctl submit train.py",
    ),
    "sandbox status": ("neuronctl sandbox status", "neuronctl sandbox status --json"),
    "sandbox packages": (
        "neuronctl sandbox packages",
        "sudo apt-get install $(neuronctl sandbox packages)",
    ),
}


EPILOGS: Mapping[str, str] = {
    path: "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
    for path, lines in EXAMPLES.items()
}
"""As click has them at the end of a command's help."""
