"""What is seen on this machine of a job, before it is submitted."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path
from typing import Any, Tuple

import pytest
from plan_builders import plan_of

from neuronctl.catalog.cluster import Catalog
from neuronctl.common.errors import UsageError
from neuronctl.launch import environments
from neuronctl.launch.environments import Conda, find_conda
from neuronctl.request.job import StepRequest
from neuronctl.rules import LocalFacts, RuleContext, apply_rules, local_facts

SIF_X86 = b"#!/usr/bin/env run-singularity\n\0" + b"SIF_MAGIC\0" + b"01\0" + b"02\0" + b"\0" * 16


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('training')\n")
    return tmp_path


def seen(**fields: Any) -> LocalFacts:
    return local_facts.gather_local_facts(plan_of(**{"script": "train.py", **fields}))


def told(code: str, **fields: Any) -> Tuple[str, str]:
    """(message, hint) of the rule's finding on this machine, if it finds anything."""
    made = plan_of(**{"script": "train.py", **fields})
    context = RuleContext(
        made, Catalog({"toy": made.cluster}, "toy", ()), local_facts.gather_local_facts(made)
    )
    found = (one for one in apply_rules(context) if one.code == code)
    return next(((one.message, one.hint) for one in found), ("", ""))


def problem(code: str, **fields: Any) -> str:
    """Why something cannot be used, or ""."""
    return told(code, **fields)[0]


def well(facts: LocalFacts) -> bool:
    """Whether nothing is known against what the job needs."""
    faults = (facts.chdir, facts.program, facts.image, facts.environment, facts.log)
    return faults == (None,) * 5


def test_the_directory_is_gone(here: Path) -> None:
    shutil.rmtree(here)
    with pytest.raises(UsageError, match="no longer exists"):
        seen()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("none.py", "no file 'none.py' in /"),
        ("no-such-program", "no program 'no-such-program' in /"),
        ("folder", "'folder' is a directory, not a program"),
        ("fifo.py", "'fifo.py' is not a file"),
        ("fifo", "'fifo' is not a file"),
        ("moved.py", "no file 'moved.py' in /"),
        ("./tool", "'./tool' is not executable"),
    ],
)
def test_a_program_that_cannot_run(here: Path, script: str, words: str) -> None:
    (here / "folder").mkdir()
    for name in ("fifo", "fifo.py"):
        os.mkfifo(here / name)
    (here / "moved.py").symlink_to("/gone/t.py")
    (here / "tool").write_text("#!/bin/sh\n")
    (here / "tool").chmod(0o644)
    assert problem("NC401", script=script).startswith(words)


def test_programs_that_can(here: Path) -> None:
    (here / "tool").write_text("#!/bin/sh\n")
    (here / "tool").chmod(0o755)
    for script in ("./tool", "sh", "train.py", str(here / "train.py")):
        assert problem("NC401", script=script) == ""


def test_programs_that_the_job_brings(here: Path) -> None:
    for given in ({"modules": ("gromacs/21",)}, {"setup": ("PATH=$PATH:/opt/x",)}, {"conda": "e"}):
        assert problem("NC401", script="gmx_mpi", **given) == ""
        assert "no file" in problem("NC401", script="none.py", **given)
    tool = here / "env" / "bin" / "tool"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    assert problem("NC401", script="tool", venv="env") == ""
    assert "no program 'tol'" in problem("NC401", script="tol", venv="env")


def test_a_batch_script_is_known_by_its_directives(here: Path) -> None:
    (here / "job.sh").write_text("#!/bin/bash\n#SBATCH -N 2\nsrun true\n")
    assert seen(script="./job.sh").has_directives
    (here / "job.sh").write_text("#!/bin/bash\necho '#SBATCH is a word'\n")
    assert not seen(script="./job.sh").has_directives


def test_in_a_container_only_a_file_is_looked_for(here: Path) -> None:
    (here / "image.sif").write_bytes(SIF_X86)
    assert problem("NC401", script="only-in-there", container="image.sif") == ""
    assert "no file" in problem("NC401", script="none.py", container="image.sif")


def test_images(here: Path) -> None:
    assert problem("NC403", container="none.sif") == "no container image 'none.sif'"
    assert problem("NC403", container="docker://ubuntu") == ""
    (here / "image.sif").write_bytes(SIF_X86)
    assert problem("NC403", container="image.sif") == ""


def test_environments(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no virtual environment 'env'" in problem("NC406", venv="env")
    assert "python3 -m venv env;" in told("NC406", venv="env")[1]
    (here / "env" / "bin").mkdir(parents=True)
    assert "no bin/activate" in problem("NC406", venv="env")
    (here / "env" / "bin" / "activate").touch()
    assert problem("NC406", venv="env") == ""
    assert "'./none'" in problem("NC406", conda="./none")
    monkeypatch.setenv("PATH", str(here))
    assert "--conda needs 'conda'" in problem("NC406", conda="base")
    assert "--module NAME" in told("NC406", conda="base")[1]
    assert problem("NC406", conda="base", setup=(". conda.sh",)) != "", "too late"
    assert problem("NC406", conda="base", modules=("conda",)) == ""
    (here / "conda").touch(mode=0o755)
    assert problem("NC406", conda="base") == ""


def test_where_conda_is_found(
    here: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(here / "bin"))
    monkeypatch.delenv("CONDA_EXE", raising=False)
    monkeypatch.setattr(environments, "CONDA_PLACES", ("~/miniconda3", "~/miniforge3"))

    def install(base: Path, env: str) -> None:
        (base / "etc/profile.d").mkdir(parents=True)
        (base / "etc/profile.d/conda.sh").touch()
        (base / "envs" / env).mkdir(parents=True)

    assert find_conda("a") is None
    install(home / "miniconda3", "a")
    install(home / "miniforge3", "b")
    for name, place in (("a", "~/miniconda3"), ("b", "~/miniforge3"), ("c", "~/miniconda3")):
        assert find_conda(name) == Conda(f"in a usual place: {place}", place)
    install(here / "own", "c")
    monkeypatch.setenv("CONDA_EXE", f"{here}/own/bin/conda")
    assert find_conda("a") == Conda(f"by CONDA_EXE: {here}/own/bin/conda", f"{here}/own")
    monkeypatch.setenv("CONDA_EXE", "gone/bin/conda")
    assert find_conda("a") == Conda("in a usual place: ~/miniconda3", "~/miniconda3")
    (here / "bin").mkdir()
    (here / "bin/conda").touch(mode=0o755)
    assert find_conda("a") == Conda(f"on PATH: {here}/bin/conda")
    for path in (f"{here}/own", f"{here}/own/envs/c/", "./own/envs/c", "own/envs/c"):
        given = Conda(f"by the path given: {here}/own", f"{here}/own", given=True)
        assert find_conda(path) == given
    assert find_conda("envs/c", f"{here}/own") == given, "below the job's directory"
    assert find_conda("~/miniforge3/envs/b").base == f"{home}/miniforge3"  # type: ignore[union-attr]
    (home / "others/d").mkdir(parents=True)
    assert find_conda("~/others/d") == Conda(f"on PATH: {here}/bin/conda")


def test_everything_is_looked_up_in_the_jobs_directory(here: Path) -> None:
    project = here / "project"
    (project / "logs").mkdir(parents=True)
    (project / "venv/bin").mkdir(parents=True)
    (project / "venv/bin/activate").touch()
    (project / "own.py").write_text("dist.init_process_group()\n")
    (project / "image.sif").write_bytes(SIF_X86)
    fields = {"script": "own.py", "output": "logs/%j", "chdir": str(project)}
    facts = seen(**fields, venv="venv")
    assert well(facts) and facts.directory == str(project.resolve())
    facts = seen(**fields, container="image.sif")
    assert well(facts)
    assert problem("NC401", **{**fields, "script": "train.py"}).startswith(
        f"no file 'train.py' in {project}"
    )
    assert problem("NC411", **{**fields, "output": "x/%j"}).startswith(
        f"the log directory '{project}/x' does not exist"
    )
    gone = {**fields, "chdir": f"{here}/~/x"}
    facts = seen(**gone)
    assert well(dataclasses.replace(facts, chdir=None)), "they are in a directory that is not there"
    assert "Slurm does not expand ~" in told("NC412", **gone)[1]


def test_log_files(here: Path) -> None:
    words, hint = told("NC411", output="no ne/%x_%j.out")
    assert words.startswith("the log directory 'no ne' does not exist; the job would")
    assert "mkdir -p 'no ne';" in hint
    for pattern in ("%j/x.out", "runs/%4A/x.out"):
        words, hint = told("NC411", output=pattern)
        assert "cannot exist yet: it is named after the job id" in words
        assert "-o %x_%j.out" in hint
    assert "the log directory '%j' does not exist" in problem("NC411", output="%%j/x")
    (here / "train_1.out").mkdir()
    assert "the log file 'train_1.out' is a directory" in problem("NC411")
    assert problem("NC411", output="/dev/null") == ""
    words = problem("NC411", output="x" * 260)
    assert "too long: 260 bytes, and at most 255 are possible; the job would fail" in words


@pytest.mark.skipif(os.getuid() == 0, reason="nothing is closed to root")
def test_what_is_closed(here: Path) -> None:
    (here / "logs").mkdir(mode=0o500)
    assert "you cannot write to" in problem("NC411", output="logs/%j")
    (here / "image.sif").write_bytes(SIF_X86)
    (here / "image.sif").chmod(0)
    assert "permission denied" in problem("NC403", container="image.sif")
    (here / "secret.py").write_text("")
    (here / "secret.py").chmod(0)
    assert "cannot read" in problem("NC401", script="secret.py")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('echo a\necho "b\necho c\n', "line 2: unexpected EOF while looking for match"),
        ("if true; then\n  echo a\n", "line 2: syntax error: unexpected end of file"),
        ("for x in a; do\n  echo\n  fi\n", "line 3: syntax error near unexpected token"),
        ("echo a; ;\n", "line 1: syntax error near unexpected token `;'"),
        ("cat <<EOF\nhi\n", "here-document at line 1 delimited by end-of-file (wanted `EOF')"),
        ("[[ a == b ]\n", "line 1: syntax error in conditional expression"),
        ("x=(1 2\n", "line 1: unexpected EOF while looking for matching `)'"),
    ],
)
def test_shell_text_that_bash_cannot_read(text: str, where: str) -> None:
    found = problem("NC407", script=None, body=text)
    assert found.startswith("bash cannot read the shell text, line ") and where in found
    lines = tuple(text.rstrip("\n").split("\n"))
    assert problem("NC407", setup=lines).startswith("bash cannot read --setup, line ")
    # Lines of an option are one text.
    assert seen(setup=("if true", "then x", "fi")).broken_texts == ()


def test_each_step_with_broken_shell_text_is_named() -> None:
    broken, well = StepRequest(body="fi\n"), StepRequest(body="x\n")
    steps = (well, broken, StepRequest(together=(well, broken)))
    found = seen(script=None, steps=steps).broken_texts
    assert [one.partition(":")[0] for one, *_ in found] == ["step 2", "step 3, part 2"]


def test_what_starts_the_program_is_on_path(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(here / "bin"))
    several = {"launcher": "torchrun", "gpus_per_node": 2}
    assert seen(**several).not_on_path == ("torchrun",)
    assert seen(launcher="python").not_on_path == ("python",)
    assert seen(launcher="srun", nodes=2).not_on_path == ("python",)
    assert seen(launcher="mpirun", nodes=2).not_on_path == ("mpirun", "python")
    assert seen(script="python", args=("train.py",), launcher="none").not_on_path == ()  # NC401
    message, hint = told("NC401", **several)
    assert "no program 'torchrun' on PATH" in message
    assert all(word in hint for word in ("--conda", "--venv", "--module"))
    for brought in ({"modules": ("cuda",)}, {"conda": "nlp"}, {"container": "/x.sif"}):
        assert seen(**several, **brought).not_on_path == ()
    for name in ("bin/torchrun", "env/bin/python"):
        (here / name).parent.mkdir(parents=True)
        (here / name).touch(0o755)
    assert seen(**several).not_on_path == ()
    assert seen(launcher="python", venv="env").not_on_path == ()


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("Trainer(max_epochs=3, devices=4,\n    num_nodes=2)", (("devices", 4), ("num_nodes", 2))),
        ("pl.Trainer(callbacks=[Stop(gpus=9)], gpus=2)", (("gpus", 2),)),
        ("mp.spawn(main, args=(1,), nprocs=4)", (("nprocs", 4),)),
        ("ScalingConfig(num_workers=8, use_gpu=True)", (("num_workers", 8),)),
        ("Trainer(devices=-1, num_nodes=nodes)\nDataLoader(data, num_workers=8)", ()),
        ("# Trainer(devices=4)\nTrainer(devices=4 * n, num_nodes=args.num_nodes)", ()),
    ],
)
def test_sizes_that_a_program_states(
    here: Path, text: str, sizes: Tuple[Tuple[str, int], ...]
) -> None:
    (here / "train.py").write_text(text)
    assert seen().stated_sizes == sizes
