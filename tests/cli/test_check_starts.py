"""``neuronctl check --starts``: what a script starts, where, and how often."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable, List, Tuple

import pytest

Run = Callable[..., Any]

HEAD = """\
#!/bin/bash
#SBATCH -p amd_a100nv_8 -N 4 --ntasks-per-node={tasks} --gres=gpu:2 -c 16
#SBATCH --comment="field=nlp;appl=pytorch"
"""


@pytest.mark.parametrize(
    ("tasks", "command", "row"),
    [
        (1, "torchrun --nproc_per_node 2 t.py", "torchrun t.py|1 of 4|1 of 4|2|1"),
        (1, "torchrun t.py", "torchrun t.py|1 of 4|1 of 4|1|2"),
        (
            1,
            "srun torchrun --nnodes 4 --nproc_per_node=gpu --rdzv_endpoint=$H:1 t.py",
            "srun torchrun t.py|4 of 4|4 of 4|8|1",
        ),
        (
            2,
            "srun torchrun --nnodes 4 --nproc_per_node=2 --rdzv_endpoint=$H:1 t.py",
            "srun torchrun t.py|4 of 4|8 of 8|16|2/4",
        ),
        (2, "srun python -m pkg.train", "srun -m pkg.train|4 of 4|8 of 8|8|1"),
        (2, "srun -N 1 -n 1 --gpus=1 ./a &\nwait", "srun a &|1 of 4|1 of 8|1|1"),
        (2, "mpirun ./solver", "mpirun solver|4 of 4|8 of 8|8|1"),
        (
            1,
            "srun bash -c 'accelerate launch --num_machines 4 --num_processes 8 t.py'",
            "srun bash accelerate launch t.py|4 of 4|4 of 4|8|1",
        ),
        (
            1,
            "for g in 0 1; do\n  CUDA_VISIBLE_DEVICES=$g python t.py\ndone",
            "t.py (in a loop)|1 of 4|1 of 4|1|1",
        ),
        (1, "torchrun --nproc_per_node $N t.py", "torchrun t.py|1 of 4|1 of 4|?|?"),
    ],
)
def test_a_person_sees_where_and_how_often(
    run: Run, tmp_path: Path, tasks: int, command: str, row: str
) -> None:
    text = HEAD.format(tasks=tasks) + f"cd x\nmodule load y\n{command}\n"
    (tmp_path / "job.sh").write_text(text, encoding="utf-8")
    lines: List[str] = run("check", "--starts", "job.sh", code=None).stdout.splitlines()
    what, *others = row.split("|")
    assert lines[0].startswith("job.sh: 4 nodes, each with ")
    assert " ".join(lines[1].split()) == "LINE STARTS NODES TASKS PROCESSES GPUS EACH"
    assert len(lines) == 3
    found: Tuple[str, ...] = tuple(one.strip() for one in lines[2].split("  ") if one.strip())
    assert found[1:] == (what, *others)


def test_the_same_in_json(run: Run, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(HEAD.format(tasks=1) + "srun ./x\n", encoding="utf-8")
    broken = "#!/bin/bash\n#SBATCH --time=nonsense\nhostname\n"
    (tmp_path / "broken.sh").write_text(broken)
    words = "neuronctl: broken.sh has errors; without --starts, check shows them\n"
    assert run("check", "--starts", "broken.sh", code=4).stderr == words
    result = run("check", "--starts", "--json", "job.sh", code=None)
    (file,) = json.loads(result.stdout)["files"]
    assert file["starts"] == [
        {
            "line": 4,
            "what": "srun x",
            "nodes": 4,
            "tasks": 4,
            "processes": 4,
            "gpus_each": "2",
            "looped": False,
            "background": False,
        }
    ]
    plain = json.loads(run("check", "--json", "job.sh", code=None).stdout)
    assert "starts" not in plain["files"][0]


def test_a_script_that_starts_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(HEAD.format(tasks=1) + "cd x\nls\n", encoding="utf-8")
    assert "starts nothing that" in run("check", "--starts", "job.sh", code=None).stdout
