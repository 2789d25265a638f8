"""``neuronctl check`` and ``explain``, as processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, List

import pytest
from fake_slurm import FakeSlurm

RIGHT = """\
#!/bin/bash
#SBATCH --partition=cas_v100_4 --gres=gpu:1
#SBATCH --comment="field=misc;appl=pytorch"
python train.py
"""
WRONG = RIGHT.replace("gpu:1", "gpu:1 -t 9-00")
Run = Callable[..., Any]


def scripts(folder: Path, **texts: str) -> List[str]:
    for name, text in texts.items():
        (folder / f"{name}.sh").write_text(text, encoding="utf-8")
    return [f"{name}.sh" for name in texts]


def test_a_right_script(run: Run, tmp_path: Path) -> None:
    result = run("check", *scripts(tmp_path, right=RIGHT))
    assert (result.stdout, result.stderr) == ("right.sh: nothing found\n", "")


def test_an_error_is_underlined_where_it_stands(run: Run, tmp_path: Path) -> None:
    lines = run("check", *scripts(tmp_path, wrong=WRONG), code=4).stdout.splitlines()
    assert lines[0].startswith("wrong.sh:2:45: error NC141: requested a time limit of 9-00:00:00")
    assert lines[1] == "  2 | #SBATCH --partition=cas_v100_4 --gres=gpu:1 -t 9-00"
    assert lines[2] == "    | " + " " * 44 + "^" * 7
    assert lines[3].startswith("  hint: ")
    assert lines[4].startswith("  from: ")
    assert lines[-1] == "wrong.sh: 1 error"


def test_warnings_alone_are_no_error(run: Run, tmp_path: Path) -> None:
    text = RIGHT.replace("#SBATCH", "#sbatch -n 1\n#SBATCH", 1)
    result = run("check", *scripts(tmp_path, job=text))
    assert result.stdout.endswith("job.sh: 1 warning\n")


def test_several_files_and_standard_input(run: Run, tmp_path: Path) -> None:
    names = scripts(tmp_path, right=RIGHT, wrong=WRONG)
    result = run("check", *names, "-", input="#SBATCH -n 1\necho\n", code=4)
    assert "right.sh: nothing found" in result.stdout
    assert "wrong.sh: 1 error" in result.stdout
    assert "<stdin>:1:1: error NC602" in result.stdout
    sourced = run("check", "-", input="say() { echo; }\n").stdout
    assert "<stdin>:1:1: warning NC602" in sourced
    assert result.stdout.endswith("\n3 scripts, 1 of them clean: 2 errors, 1 warning\n")


def test_a_folder_is_told_by_cause_with_each_cure_once(run: Run, tmp_path: Path) -> None:
    old = RIGHT.replace("field=misc;appl=pytorch", "pytorch").replace("python", "./a &\n./b &\n#")
    scripts(tmp_path, **{f"old{n}": old for n in range(3)}, wrong=WRONG, right=RIGHT)
    lines = run("check", ".", code=4).stdout.splitlines()
    assert lines[0].startswith("error NC202 in 3 scripts: comment is not what")
    assert lines[1].startswith("warning NC651 in 3 scripts: nothing waits for")
    assert lines[2] == ""
    assert sum(line.startswith("  hint: use --comment=") for line in lines) == 1
    assert sum("wait as the last" in line for line in lines) == 1
    assert sum("error NC202: comment 'pytorch'" in line for line in lines) == 3
    assert lines[-1] == "5 scripts, 1 of them clean: 4 errors, 3 warnings"


@pytest.mark.parametrize("seed", range(3))
def test_causes_that_are_as_frequent_come_by_code(tmp_path: Path, seed: int) -> None:
    lines = ["#!/bin/bash", "#SBATCH -n 1", "cd $SLURM_SUBMIT_DIRR", "srun -n 2 python a.py &"]
    text = "\n".join([*lines, "export CUDA_VISIBLE_DEVICES=0", "python a.py | tee log", "./b &\n"])
    files = scripts(tmp_path, a=text, b=text)
    argv = [sys.executable, "-m", "neuronctl", "check", *files]
    env = {**os.environ, "PYTHONHASHSEED": str(seed)}
    told = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, env=env).stdout
    codes = re.findall(r"(?m)^warning (NC\d+) in 2 scripts", told)
    assert len(codes) > 2 and codes == sorted(codes)


def test_a_fence_of_a_page_is_one_finding(run: Run, tmp_path: Path) -> None:
    result = run("check", "-", input=f"$ cat job.sh\n{RIGHT}")
    assert result.stdout.endswith("<stdin>: 1 warning\n")


def test_a_folder_and_a_pattern(run: Run, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    (jobs / "old" / ".git").mkdir(parents=True)
    scripts(jobs, right=RIGHT, library="#!/bin/bash\nmodule load cuda\n")
    scripts(jobs / "old", wrong=WRONG)
    scripts(jobs / "old" / ".git", hidden=WRONG)
    (jobs / "README.md").write_text(f"```\n{WRONG}```\n", encoding="utf-8")
    (jobs / "make.py").write_text(f'#!/usr/bin/python3\nTEXT = """\n{WRONG}"""\n', encoding="utf-8")
    (jobs / "job.py").write_text(
        "#!/usr/bin/python3\n" + RIGHT.partition("\n")[2].replace("python train.py", "pass"),
        encoding="utf-8",
    )
    os.mkfifo(jobs / "pipe.sh")

    def checked(*names: str) -> List[str]:
        files = json.loads(run("check", "--json", *names, code=None).stdout)["files"]
        return [file["file"] for file in files]

    assert checked("jobs") == ["jobs/job.py", "jobs/right.sh", "jobs/old/wrong.sh"]
    assert checked("jobs/right.sh", "jobs/old") == ["jobs/right.sh", "jobs/old/wrong.sh"]
    assert checked("jobs", "jobs/right.sh") == checked("jobs")
    (jobs / "none").mkdir()
    assert "no batch script at 'jobs/none'" in run("check", "jobs/none", code=2).stderr
    (jobs / "none" / "lost.sh").symlink_to("/proc/self/mem")  # nobody can read its first bytes
    skipped = "neuronctl: skipped jobs/none/lost.sh: Input/output error\n"
    assert skipped in run("check", "jobs", code=4).stderr


OTHERS = [
    ("check", "job.yaml", "a job file", "neuronctl submit --dry-run -f job.yaml"),
    ("check", "train.py", "a Python program", "neuronctl init train.py"),
    ("import", "train.py", "a Python program", "neuronctl init train.py"),
]


@pytest.mark.parametrize(("command", "name", "kind", "typed"), OTHERS)
def test_other_files(
    run: Run, tmp_path: Path, command: str, name: str, kind: str, typed: str
) -> None:
    (tmp_path / name).write_text("# remark\n", encoding="utf-8")
    message = run(command, name, code=2).stderr
    assert f"'{name}' is {kind}, not a batch script\n" in message
    assert typed in message


def test_json(run: Run, tmp_path: Path) -> None:
    result = run("check", "--json", *scripts(tmp_path, wrong=WRONG), code=4)
    data = json.loads(result.stdout)
    assert (data["schema"], data["cluster"]) == ("neuronctl.check/1", "neuron")
    (file,) = data["files"]
    (finding,) = file["findings"]
    assert (file["file"], finding["code"], finding["severity"]) == ("wrong.sh", "NC141", "error")
    assert (finding["line"], finding["column"], finding["end_column"]) == (2, 45, 52)


@pytest.mark.parametrize("where", ["same line", "line before"])
def test_a_remark_silences_a_line(run: Run, tmp_path: Path, where: str) -> None:
    line = "#SBATCH --partition=cas_v100_4 --gres=gpu:1 -t 9-00"
    remark = "# neuronctl: ignore=NC141"
    silenced = f"{line} {remark}" if where == "same line" else f"{remark}\n{line}"
    text = f'#!/bin/bash\n{silenced}\n#SBATCH --comment="field=misc;appl=pytorch"\npython t.py\n'
    assert "nothing found" in run("check", *scripts(tmp_path, job=text)).stdout
    other = text.replace("NC141", "NC999")
    assert "NC141" in run("check", *scripts(tmp_path, job=other), code=4).stdout


def test_another_cluster_has_other_rules(run: Run, tmp_path: Path) -> None:
    text = RIGHT.replace("field=misc;appl=pytorch", "pytorch").replace("cas_v100_4", "amd_a100nv_8")
    (name,) = scripts(tmp_path, job=text)
    assert "nothing found" in run("check", "--cluster", "neuron-2022", name).stdout
    old = run("check", name, code=4).stdout
    assert "NC202" in old and '--comment="field=FIELD;appl=APPL"' in old


def test_what_cannot_be_read(run: Run) -> None:
    assert "cannot read 'none.sh'" in run("check", "none.sh", code=2).stderr
    assert "nothing to check" in run("check", code=2).stderr


def test_only_a_regular_file_or_what_the_shell_has_opened_is_read(run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.sh")
    for endless in ("pipe.sh", "/dev/zero"):
        stderr = run("check", endless, code=2).stderr
        assert f"cannot read '{endless}'" in stderr
    assert "not a regular file" in run("check", "pipe.sh", code=2).stderr
    scripts(tmp_path, right=RIGHT)
    line = f"{sys.executable} -m neuronctl check <(sleep 0.2; cat right.sh) /dev/stdin < right.sh"
    shell = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True)
    assert "2 scripts, 2 of them clean" in shell.stdout, shell


def test_nothing_in_a_script_steers_the_terminal(run: Run, tmp_path: Path) -> None:
    (name,) = scripts(tmp_path, job=RIGHT.replace("=gpu:1", "=gpu:9 -J '\x1b[2J\u202e'"))
    assert "\x1b" not in run("check", name, code=None).stdout


def test_explain(run: Run) -> None:
    page = run("explain", "nc631").stdout
    assert page.startswith("NC631 (error, warning): rank expanded by the batch shell\n")
    assert "- is wrong, + is right:\n\n #!/bin/bash" in page
    assert "More nodes than the partition has." in run("explain", "NC111").stdout
    assert "did you mean" in run("explain", "NC99", code=2).stderr


def test_slurm_is_asked_once_for_many_scripts(
    run: Run, tmp_path: Path, fake_slurm: FakeSlurm
) -> None:
    (tmp_path / "slurm.conf").write_text("ClusterName=neuron\n", encoding="utf-8")
    names = scripts(tmp_path, **{f"job{number}": RIGHT for number in range(5)})
    run("check", *names, env={"SLURM_CONF": str(tmp_path / "slurm.conf")})
    assert len(fake_slurm.calls("squeue")) == 1


SECRETS = (
    RIGHT.replace("misc", "misc;password=swordfish99")
    + """export HF_TOKEN=swordfish99
python train.py --api-key swordfish99
export WANDB_API_KEY=your_key_here; sort --key 2 a.tsv; python t.py data.key=image
"""
)


@pytest.mark.parametrize("option", ["--", "--json", "--fix"])
def test_a_secret_is_found_and_not_printed(run: Run, tmp_path: Path, option: str) -> None:
    text = SECRETS.replace("#SBATCH --comment", "#SBATCH −-qos=normal --comment")
    result = run("check", option, *scripts(tmp_path, job=text), code=4)
    assert "swordfish" not in result.stdout + result.stderr
    if option == "--":
        assert result.stdout.count("warning NC640") == 1
        assert "the same in lines 5, 6" in result.stdout
