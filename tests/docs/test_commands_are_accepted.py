"""What a page or a help text says to type is accepted on Neuron, with an empty configuration.

``…`` in a command stands for the options of every job: SIZE takes its place. Nothing is submitted:
`submit`, `sweep`, and `serve` run with --dry-run on a machine without Slurm, and `salloc` is judged
by `generate`, whose rules are the same.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import List, Tuple

import pytest
from doc_pages import ROOT, examples, pages, shell_lines
from test_doc_examples import Run, write_files

from neuronctl.cli.examples import EXAMPLES

SIZE = "-p amd_a100nv_8 --gpus-per-node 1 -t 10 --field misc --appl pytorch"
JOB = "{partition: cpu, field: misc, appl: in_house, time: 10}\n"
"""What the reader's job.yaml may say, where a page shows none."""
JUDGED = ("submit", "generate", "salloc", "sweep", "serve")
ABOUT_SWEEPS = ("status", "add", "retry", "cancel", "logs", "rm")

REFUSED = {
    "--gpus-per-node 16": "the page shows the refusal",
    "--gpus-per-node 9": "the page shows the refusal",
    "submit -N 20": "the page shows the refusal",
    "submit --follow": "init wrote its job.yaml",
    "two_nodes.yaml": "import wrote it",
    "prepare.yaml": "its content does not matter there",
    "train.yaml": "its content does not matter there",
    "--body -": "its text follows on the next lines",
}
"""Part of a command -> why it may be refused, or cannot be judged alone."""

Command = Tuple[Path, str, str]


def commands() -> List[Command]:
    """Return page, place, and text of each command that can be judged; help texts as pages."""
    typed = []
    for page in pages():
        if page.parent.name == "ko":  # whose code is that of the English page
            continue
        raw = page.read_text(encoding="utf-8")
        for each in (*examples(page), *shell_lines(page)):
            # shell_lines leaves '…' out, so it is looked up on the page.
            line = raw.splitlines()[each.line - 1]
            text = each.command
            if "…" in line.partition(" #")[0] and "…" not in text:
                text = re.sub(r"^(neuronctl \w+)", r"\1 …", text)
            typed.append((page, str(each), text))
    for name, texts in EXAMPLES.items():
        typed += [(ROOT / "help", f"help {name}: {text}", text) for text in texts]
    return [each for each in typed if is_judged(each[2])]


def is_judged(text: str) -> bool:
    argv = shlex.split(text, comments=True)
    if argv[:1] != ["neuronctl"] or argv[1:2] == [] or argv[1] not in JUDGED:
        return False
    if argv[1] == "sweep" and argv[2:3] and argv[2] in ABOUT_SWEEPS:
        return False
    return not {"--help", "--list", "connect", "list"} & {*argv}


def test_there_are_commands_to_judge() -> None:
    assert len(commands()) > 70


@pytest.fixture
def neuron(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory from which Neuron takes jobs."""
    place = tmp_path / "scratch"
    place.mkdir()
    for name in ("torch", "ray", "vllm"):
        programs = place / ".venvs" / name / "bin"
        programs.mkdir(parents=True)
        (programs / "activate").touch()
        for program in ("jupyter-lab", "code-server", "ray", "vllm", "sshd"):
            (programs / program).write_text("#!/bin/sh\n")
            (programs / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}/.venvs/torch/bin:{os.environ['PATH']}")
    keys = Path(os.environ["HOME"], ".ssh")
    keys.mkdir(exist_ok=True)
    (keys / "id_ed25519.pub").write_text("ssh-ed25519 AAAA\n")
    (place / "project" / "logs").mkdir(parents=True)
    for name in ("train.py", "project/train.py"):
        (place / name).write_text("import torch.distributed\n")
    (place / "job.yaml").write_text(JOB)
    (place / "job-body.sh").write_text("srun hostname\n")
    subprocess.run(["git", "init", "--quiet", str(place)], check=True)
    layer = tmp_path / "layer.yaml"
    layer.write_text(f"clusters: {{neuron: {{policy: {{submit_from: [{place}]}}}}}}\n")
    monkeypatch.setenv("NEURONCTL_CATALOG", str(layer))
    return place


def make_files(argv: List[str], place: Path) -> None:
    """Make what the command names: programs, scripts, images, and job files."""
    directives = f"{SIZE.partition(' --field')[0]} --comment=field=misc;appl=pytorch"
    contents = {
        ".py": "import torch.distributed\n",
        ".sh": f"#!/bin/bash\n#SBATCH {directives}\ntrue\n",
        ".sif": "",
        ".sqsh": "",
        ".txt": "true\n",
        ".pub": "ssh-ed25519 AAAA\n",
    }
    for word in argv:
        path = place / word
        if path.suffix in contents and not word.startswith(("/", "~", "-")) and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(contents[path.suffix])
            path.chmod(0o755)


@pytest.mark.parametrize(
    ("page", "place", "text"), commands(), ids=[each[1] for each in commands()]
)
def test_a_printed_command_is_accepted(
    page: Path, place: str, text: str, neuron: Path, run: Run
) -> None:
    if any(part in text for part in REFUSED):
        return
    if page.is_file():
        write_files(page, neuron)
    text = re.split(r" (?:>|\||<<)", text.replace("…", SIZE))[0]
    argv = shlex.split(text.replace(" ~/", f" {neuron}/"), comments=True)
    make_files(argv, neuron)
    command, *rest = argv[1:]
    dry = ["--dry-run"] if command != "generate" and "--dry-run" not in rest else []
    if command == "salloc":
        command, dry, rest = "generate", [], [*rest, "train.py"]
    done = run(command, *dry, *rest, cwd=neuron, code=None)
    assert done.returncode == 0, f"{text}\n{done.stderr}"
