"""``neuronctl init``: what it works out, asks, and writes, and that submit takes it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Callable, List, Mapping

import pytest
from fake_slurm import FakeSlurm
from terminal import on_terminal

from neuronctl.common.errors import JobFileError
from neuronctl.common.yamlfile import parse

Run = Callable[..., "subprocess.CompletedProcess[str]"]

TRAIN = "import torch\n\nif __name__ == '__main__':\n    print('training')\n"
DISTRIBUTED = TRAIN + "    torch.distributed.init_process_group()\n"
ALONE = TRAIN + "    torch.ones(1, requires_grad=True).backward()\n"

ONE_GPU = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

def main():
\tdata = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
\tloader = DataLoader(data, batch_size=8, shuffle=True)
\tmodel = torch.nn.Linear(8, 1).to("cuda:0")  # 한글
\toptimizer = torch.optim.SGD(model.parameters(), lr=0.1)
\tfor epoch in range(3):
\t\tfor x, y in loader:
\t\t\tmodel(x).sum().backward()
\ttorch.save(model.state_dict(), "model.pt")

if __name__ == "__main__":
\tmain()"""


@pytest.fixture(autouse=True)
def site(
    tmp_path: Path,
    fake_slurm: FakeSlurm,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A cluster that takes jobs from any directory; nothing is active in the shell."""
    catalog = tmp_path_factory.mktemp("catalog") / "site.yaml"
    catalog.write_text("clusters: {neuron: {policy: {submit_from: []}}}\n")
    monkeypatch.setenv("NEURONCTL_CATALOG", str(catalog))
    for name in ("VIRTUAL_ENV", "CONDA_DEFAULT_ENV"):
        monkeypatch.delenv(name, raising=False)
    fake_slurm.answer("sbatch", "4711\n")


def project(directory: Path, files: Mapping[str, str]) -> Path:
    directory.mkdir(mode=0o755, exist_ok=True)
    for name, text in files.items():
        (directory / name).write_text(text)
    return directory


def written(directory: Path) -> Mapping[str, object]:
    return parse((directory / "job.yaml").read_text(), "job.yaml", JobFileError).data


def test_what_init_writes_is_what_submit_takes(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    here = project(tmp_path / "p", {"train.py": TRAIN, "data.py": "x = 1\n"})
    said = run("init", "--field", "nlp", "-t", "30", cwd=here).stderr
    assert "program: train.py (the only one here)" in said
    assert "appl: pytorch (the program imports torch)" in said
    assert written(here) == {
        **{"script": "train.py", "partition": "auto", "gpus-per-node": 1},
        **{"time": 30, "field": "nlp", "appl": "pytorch"},
    }
    assert (here / "job.yaml").stat().st_mode & 0o777 == 0o600
    sent = run("submit", cwd=here)
    assert sent.stderr.startswith("neuronctl: using job.yaml\n") and "error" not in sent.stderr
    assert '--comment="field=nlp;appl=pytorch"' in fake_slurm.stdin()
    assert "--time=00:30:00" in fake_slurm.stdin()


def test_options_and_arguments_reach_the_file_as_typed(run: Run, tmp_path: Path) -> None:
    here = project(tmp_path / "p", {"train.py": TRAIN, "other.py": TRAIN})
    words = ["train.py", "--lr", "0.10", "a b", "# c", "한글", "true"]
    options = ["-p", "amd_a100nv_8", "--gpus-per-node", "2", "--launcher", "none", "--monitor"]
    options += ["--field", "nlp", "--appl", "jax", "-J", "한 글", "--no-preflight"]
    options += ["--setup", "a: b", "-t", "1:00:00"]
    run("init", *options, *words, cwd=here)
    direct = run("generate", *options, *words, cwd=here).stdout
    assert run("generate", cwd=here).stdout == direct
    assert run("generate", "-f", "job.yaml", cwd=here).stdout == direct


def test_where_the_program_is_not_clear_it_is_to_be_named(run: Run, tmp_path: Path) -> None:
    none = project(tmp_path / "none", {"README": ""})
    said = run("init", cwd=none, code=2).stderr
    assert "there is no Python file here" in said and "neuronctl init PROGRAM" in said
    three = project(tmp_path / "three", dict.fromkeys(("a.py", "b.py", "c.py"), TRAIN))
    said = run("init", cwd=three, code=2).stderr
    assert "There are 3 here: a.py, b.py, c.py" in said and "neuronctl init a.py" in said
    script = project(tmp_path / "script", {"job.sh": "#!/bin/bash\n#SBATCH -N 1\npython x.py\n"})
    said = run("init", "job.sh", cwd=script, code=2).stderr
    assert "neuronctl submit job.sh" in said
    assert not list(tmp_path.rglob("job.yaml"))


def test_an_existing_file_is_kept(run: Run, tmp_path: Path) -> None:
    here = project(tmp_path / "p", {"train.py": TRAIN, "job.yaml": "script: mine.py\n"})
    said = run("init", "--field", "nlp", cwd=here, code=2).stderr
    assert "'job.yaml' already exists" in said and "--force" in said
    assert written(here) == {"script": "mine.py"}
    run("init", "--field", "nlp", "--force", cwd=here)
    assert written(here)["script"] == "train.py"


def test_nothing_is_written_for_a_job_that_would_be_refused(
    run: Run, tmp_path: Path, clean_home: Path
) -> None:
    here = project(tmp_path / "p", {"train.py": TRAIN})
    said = run("init", cwd=here, code=4).stderr
    assert "NC202" in said and "use --field" in said and "--force" not in said
    assert "NC202" in run("init", "--force", cwd=here, code=4).stderr
    (here / "train.py").write_text(ALONE)
    said = run("init", "--field", "nlp", "-N", "2", "--gpus-per-node", "2", cwd=here, code=4).stderr
    assert "error NC310" in said and "neuronctl help first-multi-node-training from" in said
    assert not (here / "job.yaml").exists() and not (clean_home / ".config").exists()


def test_the_environment_is_found(run: Run, tmp_path: Path) -> None:
    here = project(tmp_path / "p", {"train.py": TRAIN, "requirements.txt": "torch\n"})
    said = run("init", "--field", "nlp", cwd=here).stderr
    assert "there is a requirements.txt, but no environment: python3 -m venv .venv" in said
    assert "venv" not in written(here)
    (here / "uv.lock").touch()
    said = run("init", "--field", "nlp", "--force", cwd=here).stderr
    assert "requirements.txt" not in said and "run 'uv sync' on the login node first" in said
    assert "venv" not in written(here)
    (here / ".venv" / "bin").mkdir(parents=True)
    (here / ".venv" / "bin" / "activate").touch()
    assert "uv sync" not in run("init", "--field", "nlp", "--force", cwd=here).stderr
    assert written(here)["venv"] == ".venv"


def answered(monkeypatch: pytest.MonkeyPatch, here: Path, *answers: str, argv: List[str]) -> str:
    monkeypatch.chdir(here)
    return on_terminal("".join(f"{answer}\n" for answer in answers), "init", *argv)


def test_a_terminal_is_asked_for_size_and_comment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = {"a.py": DISTRIBUTED, "b.py": DISTRIBUTED}
    here = project(tmp_path / "p", files)
    said = answered(monkeypatch, here, "9", "2", "nlpp", "nlp", "", argv=["b.py"])
    assert "did you mean nlp" in said
    assert said.count("]: ") == 3 and "wrote job.yaml" in said
    assert written(here) == {
        **{"script": "b.py", "partition": "auto", "gpus-per-node": 2},
        **{"field": "nlp", "appl": "pytorch", "time": "2-00:00:00"},
    }


def test_an_account_that_the_site_requires(run: Run, tmp_path: Path) -> None:
    catalog = Path(os.environ["NEURONCTL_CATALOG"])
    catalog.write_text("clusters: {neuron: {policy: {submit_from: [], account_required: true}}}\n")
    here = project(tmp_path / "p", {"my a.py": TRAIN, "my b.py": TRAIN})
    assert "neuronctl init 'my a.py'" in run("init", cwd=here, code=2).stderr
    refused = run("init", "--field", "nlp", "my a.py", cwd=here, code=4).stderr
    assert "NC231" in refused and "add -A ACCOUNT" in refused
    run("init", "-A", "lab", "--field", "nlp", "my a.py", cwd=here)
    assert written(here)["account"] == "lab"


def test_the_change_that_makes_a_program_distributed(run: Run, tmp_path: Path) -> None:
    here = project(tmp_path / "p", {"my train.py": ONE_GPU})
    size = ["--field", "nlp", "--appl", "pytorch", "-N", "2", "--gpus-per-node", "2"]
    refused = run("init", *size, "my train.py", cwd=here, code=4)
    assert (
        "neuronctl: NC310: " in refused.stderr
        and "error" not in refused.stderr
        and not (here / "job.yaml").exists()
    )
    assert (
        "train.py' | patch 'my train.py'; then: neuronctl init" in refused.stderr
        and "its own batches" in refused.stderr
    )
    subprocess.run(
        ["git", "apply", "-p0"], input=refused.stdout.encode(), cwd=here, check=True,
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path)},
    )  # fmt: skip
    assert "DistributedDataParallel(model)" in (here / "my train.py").read_text()
    again = run("init", *size, "my train.py", cwd=here)
    assert again.stdout == "" and "NC310" not in again.stderr
    run("submit", "--dry-run", cwd=here)


def test_what_is_no_program_for_one_gpu_has_no_change(run: Run, tmp_path: Path) -> None:
    here = project(tmp_path / "p", {"train.py": ALONE, "two.py": DISTRIBUTED})
    size = ["--field", "nlp", "--appl", "pytorch", "-N", "2", "--gpus-per-node", "2"]
    assert run("init", *size, "train.py", cwd=here, code=4).stdout == ""
    assert run("init", *size, "two.py", cwd=here).stdout == ""


def test_a_refusal_has_the_line_that_makes_the_change(run: Run, tmp_path: Path) -> None:
    here = project(tmp_path / "p", {"train.py": ONE_GPU})
    size = ["-p", "amd_a100nv_8", "-N", "2", "--gpus-per-node", "2", "--field", "nlp"]
    call = ["generate", *size, "--appl", "pytorch"]
    said = run(*call, "-D", str(here), "train.py", code=None).stderr
    line = f"neuronctl init -N 2 --gpus-per-node 2 -D {here} train.py | patch {here}/train.py"
    assert line in " ".join(said.split())
    said = run(*call, "python", "-m", "train", cwd=here, code=None).stderr
    assert "NC310" in said and "patch" not in said  # a module's name is no file's
