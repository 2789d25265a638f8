"""Examples of each command, for the end of its help."""

from __future__ import annotations

from typing import Mapping, Tuple

_EXAMPLES = {
    "submit": "submit -p auto -N 2 -G 8 --field misc --appl pytorch train.py | submit -t 30 job.sh",
    "sbatch": "sbatch -p amd_a100nv_8 job.sh | sbatch --gres=gpu:1 --wrap 'python eval.py'",
    "sweep": "sweep -f job.yaml --param lr=0.1,0.01 train.py --lr {lr} | "
    "sweep -f job.yaml --commands commands.txt --side-by-side 8",
    "sweep status": "sweep status train | sweep status train --csv > train.csv | "
    "sweep status scaling --html scaling.html",
    "sweep retry": "sweep retry train --failed | sweep retry train 5 8 --mem 64G",
    "sweep add": "sweep add train --param lr=0.001",
    "sweep cancel": "sweep cancel train",
    "sweep rm": "sweep rm train",
    "sweep logs": "sweep logs train 17 | sweep logs train 17 --attempt 1",
    "generate": "generate -p auto -N 2 -G 4 --field misc --appl pytorch train.py | "
    "generate -f job.yaml train.py > job.sh",
    "init": "init | init -N 2 --gpus-per-node 2 -t 2:00:00 train.py --epochs 3",
    "salloc": "salloc -p auto --gpus-per-node 1 --field misc --appl pytorch | salloc -f job.yaml",
    "run": "run train.py --epochs 1 | run -N 1 --launcher torchrun train.py",
    "serve": "serve -p auto -G 1 --field misc --appl pytorch jupyter | "
    "serve --list | serve connect",
    "status": "status --watch | status 4711 4712 --json",
    "why": "why 4711 | why train --stacks",
    "logs": "logs -f train | logs 4711 --err",
    "top": "top 4711 | top train --json",
    "attach": "attach 4711 | attach train nvidia-smi",
    "wait": "wait 4711 4712 --timeout 10m | wait prep train --any",
    "cancel": "cancel train | cancel --state pending --yes",
    "history": "history -n 50 | history --json",
    "show": "show 4711 | show train --script",
    "report": "report 4711 | report --since 7d",
    "resubmit": "resubmit 4711 -t 16:00:00 | resubmit train -- --lr 0.01",
    "check": "check job.sh | check --fix scripts/*.sh",
    "import": "import job.sh | import job.sh -o job.yaml",
    "explain": "explain NC310 | explain nc603",
    "brief": "brief | brief --agents >> AGENTS.md",
    "partitions": "partitions --live | partitions amd_a100nv_8",
    "doctor": "doctor | doctor --json",
    "login": "login neuron | login neuron x1234a01@neuron.ksc.re.kr",
    "logout": "logout neuron",
    "pull": "pull results/ | pull checkpoints/last.pt",
    "help": "help launchers | help submit",
    "catalog check": "catalog check partitions.yaml | "
    "catalog check ~/.config/neuronctl/partitions.yaml",
    "catalog import": "catalog import > partitions.yaml",
    "catalog diff": "catalog diff",
    "catalog": "catalog import > partitions.yaml | catalog check my.yaml",
    "config": "config | config --json",
    "sandbox": "sandbox up --nodes amd_a100nv_8=4 | sandbox shell",
    "config edit": "config edit",
    "completion": "completion bash >> ~/.bashrc | completion zsh >> ~/.zshrc",
    "sandbox up": "sandbox up | sandbox up --nodes amd_a100nv_8=4",
    "sandbox down": "sandbox down",
    "sandbox shell": "sandbox shell",
    "sandbox exec": "sandbox exec -- sinfo | "
    "sandbox exec --copy train.py -- neuronctl submit train.py",
    "sandbox status": "sandbox status | sandbox status --json",
    "sandbox packages": "sandbox packages",
}
"""The words after ``neuronctl``, by command; " | " separates the examples of one command."""

EXAMPLES: Mapping[str, Tuple[str, ...]] = {
    path: tuple(f"neuronctl {words}" for words in lines.split(" | "))
    for path, lines in _EXAMPLES.items()
}

EPILOGS: Mapping[str, str] = {
    path: "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
    for path, lines in EXAMPLES.items()
}
"""The examples by command, as click prints them at the end of the command's help."""
