"""Scripts with one known defect at a known line: each is found there, and nothing else is an error.

``@@`` marks the line. Each defect is planted in three scripts that are right.
"""

from __future__ import annotations

from pathlib import Path
from typing import List, Tuple

import pytest
from test_script_rules import CATALOG

from neuronctl.catalog.loader import load
from neuronctl.catalog.model import Catalog
from neuronctl.submission.script_check import check_text

GPU = "#SBATCH -p gpu --gpus-per-node=1 -N 1"
GPUS = "#SBATCH -p gpu --gpus-per-node=4 -N 1 --ntasks-per-node=4"
NODES = "#SBATCH -p gpu --gpus-per-node=4 -N 2 --ntasks-per-node=4"
EACH = "#SBATCH -p gpu --gpus-per-node=4 -N 2 --ntasks-per-node=1"
RUN = "srun python train.py"

# (code, directives, commands)
DEFECTS: List[Tuple[str, str, str]] = [
    ("NC601", f"{GPU}\n#SBATCH --tiem=10@@", RUN),
    ("NC601", f"{GPU}\n#SBATCH —-time=10@@", RUN),
    ("NC601", f"{GPU}\n#SBATCH -J my job@@", RUN),
    ("NC601", f"{GPU}\n#SBATCH --time=2h@@", RUN),
    ("NC601", f"{GPU}\n#SBATCH --nodes=$COUNT@@", RUN),
    ("NC601", f"{GPU}\n#SBATCH --comment='open@@", RUN),
    ("NC603", GPU, f"cd /tmp\n#SBATCH --time=10@@\n{RUN}"),
    ("NC603", GPU, f"A=1\n\n# words\n#SBATCH -J late@@\n{RUN}"),
    ("NC604", f"{GPU}\n #SBATCH --time=10@@", RUN),
    ("NC604", f"{GPU}\n#SBATCH --time=10 #SBATCH -J x@@", RUN),
    ("NC604", f"{GPU}\n#sbatch --time=10@@", RUN),
    ("NC605", f"{GPU}\n#SBATCH -t 10@@\n#SBATCH --time=20", RUN),
    ("NC605", f"{GPU}\n#SBATCH --job-name=a@@\n#SBATCH -J b", RUN),
    ("NC606", f"{GPU}\n#SBATCH -o /logs/$USER/x.out@@", RUN),
    ("NC606", f"{GPU}\n#SBATCH -e run-${{SLURM_JOB_ID}}.err@@", RUN),
    ("NC607", f"{GPU}\n#SBATCH --wrap=hostname@@", RUN),
    ("NC608", f"{GPU}\n#BSUB -W 10@@", RUN),
    ("NC610", GPU, f"<<<<<<< mine@@\n{RUN}\n=======\n{RUN} -v\n>>>>>>> theirs"),
    ("NC611", "#SBATCH -p gpu --gpus-per-node=1\n#SBATCH -N 3 -n 1@@", RUN),
    ("NC611", "#SBATCH -p gpu --gpus-per-node=1\n#SBATCH -n 1 --ntasks-per-node=6@@", RUN),
    ("NC612", f"{GPU}\n#SBATCH -t 08:00@@", RUN),
    ("NC613", f"{GPU}\n#SBATCH --export=ALL,HCA=mlx5_0,mlx5_1@@", RUN),
    ("NC613", f"{GPU}\n#SBATCH --export=A=1@@", RUN),
    ("NC613", f"{GPU}\n#SBATCH --export=A=1@@", "python t.py"),
    ("NC614", "#SBATCH -p gpu -N 1\n#SBATCH --ntasks-per-node=4 --gpus-per-task=1@@", RUN),
    ("NC616", "#SBATCH -p gpu --gpus-per-node=1\n#SBATCH --gres=gpu:1@@", RUN),
    ("NC616", "#SBATCH -p gpu --gres=gpu:a100:1\n#SBATCH --gpus-per-node=1@@", RUN),
    ("NC616", "#SBATCH -p gpu --gpus-per-node=2 -N 2\n#SBATCH --gpus=3@@", RUN),
    ("NC621", GPUS, "srun torchrun --nproc_per_node=4 t.py@@"),
    ("NC621", GPUS, "srun bash -c 'cd x && torchrun --nproc_per_node=4 t.py'@@"),
    ("NC621", GPUS, "srun --ntasks-per-node=1 accelerate launch --num_processes 4 t.py@@"),
    ("NC621", GPUS, "srun mpirun -np 4 python t.py@@"),
    ("NC621", GPUS, "srun -n 4 python -m torch.distributed.run --nproc_per_node=4 t.py@@"),
    ("NC621", EACH, "srun torchrun --nproc_per_node=4 t.py@@"),
    ("NC621", GPUS, "srun singularity exec --nv x.sif torchrun --nproc_per_node=4 t.py@@"),
    ("NC622", GPU, "srun -N2 python t.py@@"),
    ("NC622", GPU, "COUNT=3\nsrun --nodes $COUNT python t.py@@"),
    ("NC622", GPU, "torchrun --nnodes=2 --nproc_per_node=1 --rdzv_endpoint=$H:1 t.py@@"),
    ("NC623", EACH.replace("-N 2", "-N 1"), "accelerate launch --num_processes 1 t.py@@"),
    ("NC623", EACH.replace("-N 2", "-N 1"), "torchrun --nproc-per-node 8 t.py@@"),
    ("NC623", GPU, "N=2\ndeepspeed --num_gpus=$N t.py@@"),
    ("NC624", "#SBATCH -p gpu -N 1 -n 4", "python -u train.py@@"),
    ("NC624", "#SBATCH -p gpu -N 1 --ntasks-per-node=2", "nohup python3 a/b.py --x 1@@"),
    ("NC625", "#SBATCH -p gpu --gres=gpu:4 -N 1", "python train.py@@"),
    ("NC625", "#SBATCH -p gpu --gres=gpu:4 -N 1 -n 1", "srun python train.py@@"),
    ("NC626", "#SBATCH -p gpu -N 1 -n 2 -c 8", f"{RUN}@@"),
    ("NC631", GPUS, 'srun bash -c "python t.py $SLURM_PROCID"@@'),
    ("NC631", GPUS, "srun python t.py --local ${SLURM_LOCALID}@@"),
    ("NC631", NODES, "srun python t.py --node=$SLURM_NODEID@@"),
    ("NC632", GPU, f"export MASTER_PORT=12345@@\n{RUN}"),
    ("NC632", GPU, "torchrun --nproc_per_node=1 --master_port 29501 t.py@@"),
    ("NC633", GPU, f"export CUDA_VISIBLE_DEVICES=2@@\n{RUN}"),
    ("NC633", GPU, "CUDA_VISIBLE_DEVICES=1 python t.py@@"),
    ("NC634", f"{GPU}\n#SBATCH -o out/%j.txt", f"mkdir -p out@@\n{RUN}"),
    ("NC635", f"{GPU}\n#SBATCH --signal=B:TERM@300@@", RUN),
    ("NC635", f"{GPU}\n#SBATCH --signal=B:10@60@@", f"trap 'echo x' EXIT\n{RUN}"),
    ("NC635", f"{GPU}\n#SBATCH --signal=b:sigterm@60@@", RUN),
    ("NC636", f"{GPU} --signal=B:USR1@60", f"trap 'touch x' SIGUSR1@@\n{RUN}"),
    ("NC637", GPU, f"OMP_NUM_THREADS=16@@\n{RUN}"),
    ("NC640", GPU, f"export API_KEY=abcdefgh12345678@@\n{RUN}"),
    ("NC641", f"{GPU} --signal=B:USR1@60", f"set -eu\ntrap x USR1\n{RUN} &\nwait $!@@"),
    ("NC642", NODES, f"export MASTER_ADDR=127.0.0.1@@\n{RUN}"),
    ("NC643", GPU, f"{RUN}\nfi@@"),
    ("NC643", GPU, f"{RUN}\nif true; then\n  ./a\n}}@@"),
    # As other people phrase them.
    ("NC601", f"{GPU}\n#SBATCH --array=1-10:@@", RUN),
    ("NC601", f"{GPU}\n#SBATCH --array=1..10@@", RUN),
    ("NC601", f"{GPU}\n#SBATCH --time = 1:00:00@@", RUN),
    ("NC613", f"{GPU}\n#SBATCH --export=NONE@@", RUN),
    ("NC621", GPUS, 'L="torchrun --nproc_per_node=4"\nsrun $L t.py@@'),
    ("NC621", GPUS, 'L="torchrun --nproc_per_node=4 t.py"\nsrun bash -c "$L"@@'),
    ("NC621", GPUS, "srun env A=1 torchrun --nproc_per_node=4 t.py@@"),
    ("NC621", GPUS, "srun --container-image=a.sqsh torchrun --nproc_per_node=4 t.py@@"),
    ("NC621", GPUS, "srun python $(which torchrun) --nproc_per_node=4 t.py@@"),
    ("NC622", GPU, "accelerate launch --num_machines 3 --num_processes 1 t.py@@"),
    ("NC622", "#SBATCH -p gpu -N 1 -n 4", "srun -n 16 ./mpi@@"),
    ("NC624", "#SBATCH -p gpu -N 2 --ntasks-per-node=2", "python -m training.main fit@@"),
    ("NC632", GPU, "MASTER_PORT=12355 python t.py@@"),
    ("NC632", GPU, "torchrun --nproc-per-node=1 --rdzv_endpoint=$HOST:29500 t.py@@"),
    ("NC632", GPU, 'torchrun --nproc-per-node=1 --rdzv-endpoint "$HOST:29500" t.py@@'),
    ("NC635", f"{GPU}\n#SBATCH --signal=USR1@120", f"trap 'touch s' USR1@@\n{RUN} & wait"),
    ("NC640", GPU, f"wandb login {'0123456789abcdef' * 2}@@\n{RUN}"),
    ("NC121", "#SBATCH -p gpu -N 1\n#SBATCH --gres=gpu:9@@", "srun -n9 ./x"),
    ("NC101", "#SBATCH --gres=gpu:1\n#SBATCH --partition=gup@@", RUN),
    ("NC111", "#SBATCH -p gpu --gres=gpu:1\n#SBATCH -N 9@@", RUN),
    ("NC131", "#SBATCH -p gpu --gres=gpu:1 -N 1\n#SBATCH -c 64@@", "./x"),
    ("NC134", f"{GPU}\n#SBATCH --mem=900G@@", RUN),
    ("NC141", f"{GPU}\n#SBATCH --time=9-0@@", RUN),
]

CARRIERS = [
    "#!/bin/bash -l\n{directives}\n{commands}\n",
    "#!/bin/bash -l\n# Ü: a training\n\n#SBATCH --mail-type=END\n{directives}\n\n# go\necho start\n"
    'if [ -n "$X" ]; then\n  echo "$X"\nfi\n{commands}\necho done\n',
    "#!/bin/bash -l\n{directives}\n##SBATCH --nothing\nsay() {{\n  echo \"$1\"\n}}\nsay 'it is'\n"
    "cat <<EOF\n#SBATCH -n 99\nEOF\n{commands}\n",
]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    path = tmp_path_factory.mktemp("catalog") / "small.yaml"
    path.write_text(CATALOG, encoding="utf-8")
    return load(str(path))


@pytest.mark.parametrize("carrier", range(len(CARRIERS)))
@pytest.mark.parametrize("number", range(len(DEFECTS)))
def test_defect(
    number: int, carrier: int, small: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, directives, commands = DEFECTS[number]
    marked = CARRIERS[carrier].format(directives=directives, commands=commands)
    line = marked[: marked.index("@@")].count("\n") + 1
    checked = check_text(
        "job.sh",
        marked.replace("@@", ""),
        small,
        small.clusters["small"],
    )
    found = [(one.finding.code, one.place.line) for one in checked.findings]
    assert (code, line) in found
    assert {one.finding.code for one in checked.findings if one.finding.refuses} <= {code}
