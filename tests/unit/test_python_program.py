"""What the text of a Python program shows of several processes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, List

import pytest
from plan_builders import plan_of

from neuronctl.catalog.cluster import Catalog
from neuronctl.rules import RuleContext, apply_rules, local_facts
from neuronctl.rules.base import ALONE, NO_SIGN, Finding
from neuronctl.rules.python_program import judge_copies

TRAINS = """
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader  # not torch.distributed

def main():
    "One GPU; for DDP, see train_ddp.py."
    model = nn.Linear(10, 1).cuda()
    for x, y in DataLoader([]):
        nn.functional.mse_loss(model(x), y).backward()
    print(f"done {1}")
    torch.save(model.state_dict(), "model.pt")

main()
"""

KNOWN: Dict[str, str] = {
    "ddp": "from torch.nn.parallel import DistributedDataParallel as Wrap\n" + TRAINS,
    "process group": "import torch.distributed as dist\ndist.init_process_group()\n" + TRAINS,
    "fsdp": "from torch.distributed.fsdp import fully_shard\n" + TRAINS,
    "fsdp by name": TRAINS + "\nwrap(model, policy=FSDP)\n",
    "accelerate": "from accelerate import Accelerator\n" + TRAINS,
    "lightning": "import lightning as L\nL.Trainer().fit(model)\n",
    "pytorch lightning": "import pytorch_lightning as pl\npl.Trainer(devices=4).fit(m)\n",
    "fabric": "from lightning.fabric import Fabric\n" + TRAINS,
    "deepspeed": "import deepspeed\nengine = deepspeed.initialize()\nengine.backward(loss)\n",
    "horovod": "import horovod.torch as hvd\nhvd.init()\n" + TRAINS,
    "trainer": "from transformers import AutoModel, Trainer\nTrainer().train()\n",
    "trainer's module": "import transformers\ntransformers.Seq2SeqTrainer().train()\n",
    "sft trainer": "from trl import SFTTrainer\nSFTTrainer().train()\n",
    "ray": "import ray\nray.init()\n" + TRAINS,
    "jax": "import jax\njax.pmap(step)\n",
    "tensorflow": "import tensorflow as tf\ntf.distribute.MirroredStrategy()\n",
    "mpi4py": "from mpi4py import MPI\n" + TRAINS,
    "rank by environment": 'import os\nrank = int(os.environ["RANK"])\n' + TRAINS,
    "slurm's task": 'import os\nme = os.getenv("SLURM_PROCID")\n' + TRAINS,
    "an option": 'p.add_argument("--local_rank", type=int)\n' + TRAINS,
    "starts torchrun": 'import os\nos.system("torchrun --standalone real.py")\n',
    "python 2": "import horovod.torch\nprint 'training'\n",
}
HIDDEN: Dict[str, str] = {
    "exec": 'exec(open("real.py").read())\n',
    "importlib": 'import importlib\nimportlib.import_module("re" + "al").main()\n',
    "runpy": 'import runpy\nrunpy.run_path("real.py")\n',
    "a package": "from mylab.training import main\nmain()\n",
    "subprocess": 'import subprocess\nsubprocess.run(["./start.sh"])\n',
    "another Python": "print 'training'\n",
    "nul": "\0",
}


def known(tmp_path: Path, text: str) -> str:
    (tmp_path / "t.py").write_text(text)
    return judge_copies(str(tmp_path / "t.py"), [str(tmp_path)], module=False)


@pytest.mark.parametrize("text", KNOWN.values(), ids=KNOWN.keys())
def test_every_framework_is_seen(text: str, tmp_path: Path) -> None:
    assert known(tmp_path, text) == ""


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN.keys())
def test_what_hides_the_rest_is_not_judged(text: str, tmp_path: Path) -> None:
    assert known(tmp_path, text) == ""
    # A training that stands beside it is no proof either.
    if "print '" not in text and "\0" not in text:
        assert known(tmp_path, text + TRAINS) == NO_SIGN


def test_a_training_for_one_gpu(tmp_path: Path) -> None:
    assert known(tmp_path, TRAINS) == ALONE
    # One process on all GPUs: each copy would use them all.
    assert known(tmp_path, f"{TRAINS}\nmodel = nn.DataParallel(model)\n") == ALONE
    assert known(tmp_path, "print('training')\n") == NO_SIGN
    lightning = "from lightning import Trainer\nTrainer(callbacks=[Own()], devices={})\n"
    assert known(tmp_path, lightning.format(1)) == NO_SIGN
    assert known(tmp_path, lightning.format(4)) == ""
    # Copies that can tell themselves apart may share a list of work.
    for line in ("import os; os.getpid()", "import socket", "import os; os.rename('a', 'b')"):
        assert known(tmp_path, f"{line}\n{TRAINS}") == NO_SIGN


@pytest.mark.parametrize(
    ("files", "program"),
    [
        ({"tools.py": KNOWN["ddp"]}, "import tools\ntools.main()\n"),
        ({"lab/__init__.py": "", "lab/loop.py": KNOWN["ddp"]}, "from lab import loop\n"),
        ({"lab/loop.py": KNOWN["ddp"]}, "import lab.loop\n"),
        ({"lab/__init__.py": "from .deep import run\n", "lab/deep/__init__.py": KNOWN["ray"]},)
        + ("def main():\n    from lab import run\n",),
        ({"a.py": "import b\n", "b.py": "import a, c\n", "c.py": KNOWN["mpi4py"]}, "import a\n"),
    ],
)
def test_local_imports_are_read(files: Dict[str, str], program: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert known(tmp_path, program) == ""
    for name in files:
        (tmp_path / name).write_text(
            re.sub(r"(?s).*(ddp|MPI|ray\.|Distributed).*", TRAINS, files[name])
        )
    assert known(tmp_path, program) == ALONE


def findings(**fields: Any) -> Dict[str, str]:
    """The code and severity of what is found of a program in this directory."""
    return {one.code: one.severity for one in found(**fields)}


def found(**fields: Any) -> List[Finding]:
    made = plan_of(**fields)
    facts = local_facts.gather_local_facts(made)
    context = RuleContext(made, Catalog({"toy": made.cluster}, "toy", ()), facts)
    return list(apply_rules(context))


def test_one_task_is_not_the_advice_for_one_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAINS)
    for tasks, advice in ((1, "start one process: --launcher python"), (2, "request one task")):
        list_found = found(gpus_per_node=2, script="train.py", ntasks=tasks)
        (copies,) = (finding for finding in list_found if finding.code == "NC310")
        assert f"; or {advice}; " in copies.hint


def test_the_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pkg").mkdir()
    for name in ("train.py", "pkg/train.py"):
        (tmp_path / name).write_text(TRAINS)
    (tmp_path / "hello.py").write_text("print('hello')\n")
    several = {"nodes": 2, "gpus_per_node": 2}
    module = {"script": "python", "args": ("-W", "ignore", "-m", "pkg.train")}
    for program in ({"script": "train.py"}, {"script": "python3", "args": ("train.py",)}, module):
        assert findings(**several, **program)["NC310"] == "error"
        assert "NC310" not in findings(**several, **program, launcher="torchrun")
        assert "NC310" not in findings(gpus_per_node=1, **program)
    assert findings(**several, script="hello.py")["NC310"] == "warning"
    # Those who count tasks, or run lines before, may know better.
    assert findings(**several, script="train.py", ntasks_per_node=2)["NC310"] == "warning"
    assert findings(**several, script="train.py", setup=("cd x",))["NC310"] == "warning"
    for elsewhere in ({"script": "gone.py"}, {"script": "python", "args": ("-m", "installed")}):
        assert "NC310" not in findings(**several, **elsewhere)
    container = {"container": "x.sif", "script": str(tmp_path / "train.py")}
    assert "NC310" not in findings(**several, **container)
