"""Right scripts have no errors: our own, and those of the tutorials."""

from __future__ import annotations

import re
from pathlib import Path
from typing import List, Set

import pytest

from neuronctl.catalog.loader import load
from neuronctl.submission.existing_script import JudgedScript, judge_text

SCRIPTS = Path(__file__).resolve().parents[1] / "golden" / "scripts"
OURS = sorted(
    path.name for path in SCRIPTS.glob("*.sh") if path.read_text(encoding="utf-8").startswith("#!")
)
CLUSTERS = sorted(load(None).clusters, key=len, reverse=True)

TRAIN_HVD = """\
#!/bin/sh
#SBATCH -J pytorch_horovod # job name
#SBATCH --time=24:00:00 # walltime
#SBATCH --comment=pytorch # application name
#SBATCH -p amd_a100nv_8 # partition name (queue or class)
#SBATCH --nodes=4 # the number of nodes
#SBATCH --ntasks-per-node=8 # number of tasks per node
#SBATCH --cpus-per-task=4 # number of cpus per task
#SBATCH -o %x_%j.out
#SBATCH -e %x_%j.err
#SBATCH --gres=gpu:8 # number of GPUs per node

module purge
module load gcc/10.2.0 cuda/11.4 cudampi/openmpi-4.1.1

srun python ./train_hvd.py
"""
COURSE = """\
#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gres=gpu:4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --time=06:00:00
#SBATCH --partition=dc-gpu
#SBATCH --account=course
export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"
source $HOME/course/$USER/sc_venv_template/activate.sh
export CUDA_VISIBLE_DEVICES=0,1,2,3
time srun python3 gpu_training.py
"""


def checked(text: str, cluster: str) -> JudgedScript:
    catalog = load(None)
    return judge_text("job.sh", text, catalog, catalog.clusters[cluster])


@pytest.mark.parametrize("name", OURS)
def test_our_own_scripts_are_clean(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    cluster = next((one for one in CLUSTERS if name.startswith(f"{one}-")), "neuron")
    text = (SCRIPTS / name).read_text(encoding="utf-8").replace("@example.org", "@uni.edu")
    found = checked(text, cluster).findings
    assert [one.message for one in found] == []


def test_what_is_made_of_job_files_has_no_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = SCRIPTS.parents[1] / "scripts"
    catalog = load(str(folder / "catalog.yaml"))
    monkeypatch.chdir(tmp_path)
    made = sorted((folder / "made").glob("*.sh"))
    assert made
    for path in made:
        job = (folder / f"{path.stem}.yaml").read_text(encoding="utf-8")
        named = re.search(r"(?m)^cluster: *(\S+)", job)
        cluster = catalog.clusters[named[1] if named else "neuron"]
        text = path.read_text(encoding="utf-8")
        found = judge_text(path.name, text, catalog, cluster)
        assert not any(one.refuses for one in found.findings), path.name


@pytest.mark.parametrize("character", ["\0", "\x1b", "\udcff", "\u2028"])
def test_no_character_stops_the_check(character: str) -> None:
    for text in (TRAIN_HVD.replace("gcc", f"g{character}"), TRAIN_HVD.replace("-J", character)):
        assert ("NC602" in {one.code for one in checked(text, "neuron").findings}) == (
            character == "\0"
        )


@pytest.mark.parametrize(
    ("evidence", "severity"), [("slurm", "error"), ("guide", "warning"), ("", "warning")]
)
def test_a_partition_is_missing_for_sure_only_where_the_list_is_slurms(
    evidence: str, severity: str, tmp_path: Path
) -> None:
    path = tmp_path / "site.yaml"
    told = f"evidence: {{partitions: {evidence}}}" if evidence else ""
    path.write_text(
        f"clusters: {{mine: {{title: M, source: s, date: 2026, {told or 'arch: x86_64'},\n"
        "  partitions: {gpu: {gpus_per_node: 1}, cpu: {}}}}\n"
    )
    catalog = load(str(path))
    for partition in ("#SBATCH -p koni", "#SBATCH -J x"):
        text = f"#!/bin/bash\n{partition}\npython x.py\n"
        (one,) = judge_text(*("job.sh", text, catalog, catalog.clusters["mine"])).findings
        assert (one.code, one.severity) == ("NC101", severity)


@pytest.mark.parametrize("partition", ["-p standard-g", "-J x"])
def test_a_script_of_another_cluster_breaks_no_rule_of_this_one(partition: str) -> None:
    text = f"#!/bin/bash\n#SBATCH {partition} -N 2 --gpus-per-node=8 -t 3-0\nsrun ./x\n"
    found = {one.code: one.severity for one in checked(text, "neuron").findings}
    assert found == {"NC101": "warning"}
    here = checked(text.replace(partition, "-p amd_a100nv_8"), "neuron")
    assert {one.code for one in here.findings if one.refuses} == {"NC201", "NC141"}


def test_without_a_directive_the_options_are_on_a_command_line() -> None:
    text = "#!/bin/bash\nsrun -N2 python train.py\n"
    assert checked(text, "neuron").findings == ()


@pytest.mark.parametrize(
    ("directives", "line", "found"),
    [
        ("-o /no-such-file-system/%u/%j.out", "./x", set()),
        ("-o /tmp/no-such-directory/%j.out", "./x", {"NC411"}),
        ("--gres=gpu:0", "export CUDA_VISIBLE_DEVICES=0", set()),
        ("-J x", "export HF_TOKEN='<your-token-here>'", set()),
        ("-J x", "export HF_TOKEN=<your-token-here>", {"NC643"}),  # to bash, a redirection
        ("--export=ALL,DB_PASSWORD=swordfish99", "./x", {"NC640"}),
        ("--export=ALL,A=hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567", "./x", {"NC640"}),
        ("--export=ALL,HF_TOKEN=$HF_TOKEN", "./x", set()),
        ('--wckey="password=swordfish99"', "./x", {"NC640"}),
        ("-J x", "export HF_TOKEN=hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567", {"NC640"}),
    ],
)
def test_what_is_not_known_or_not_meant_is_not_reported(
    directives: str, line: str, found: Set[str]
) -> None:
    text = (
        "#!/bin/bash\n#SBATCH -p amd_a100nv_8 --gres=gpu:1\n"
        f'#SBATCH --comment="field=misc;appl=pytorch"\n#SBATCH {directives}\n{line}\n'
    )
    codes = {one.code for one in checked(text, "neuron").findings}
    assert codes - {"NC122", "NC605"} == found


def test_a_misspelled_option_hides_no_other_of_its_line() -> None:
    text = "#!/bin/bash\n#SBATCH -J run_$USER -t 900:00:00 -p cas_v100_4 --gres=gpu:1\n./x\n"
    severities = {one.code: one.severity for one in checked(text, "neuron").findings}
    assert severities == {"NC606": "warning", "NC141": "error", "NC201": "error"}


def test_a_blank_line_and_a_comment_end_a_command() -> None:
    for line, words in (("", "has a blank line below"), ("# --seed 1", "is a comment, which")):
        text = f"#!/bin/bash\n#SBATCH -J x\npython t.py --lr 1 \\\n{line}\n  --epochs 3\n"
        messages = {one.code: one.message for one in checked(text, "neuron").findings}
        assert words in messages["NC649"]


def test_the_cluster_that_has_a_scripts_partition_is_named() -> None:
    hints = {one.code: one.hint for one in checked(COURSE, "neuron").findings}
    assert hints["NC101"] == "is the job for another cluster? use --cluster jureca"


def test_what_stands_behind_the_end_is_not_read() -> None:
    def codes(text: str) -> List[str]:
        catalog = load()
        found = judge_text("job.sh", text, catalog, catalog.clusters["neuron"])
        return [one.code for one in found.findings if one.code == "NC643"]

    head = "#!/bin/bash\n#SBATCH -p cpu\n./a\n"
    assert codes(f"{head}exit 0\nOld notes: don't use (this\n") == []
    assert codes(f"{head}exec >log\nfi\n") == ["NC643"]
    assert codes(f"{head}if true; then exit; fi\nfi\n") == ["NC643"]


TOP = "#!/bin/bash\n#SBATCH -N 2 -n 8 -c 4 -p amd_a100nv_8 --gres=gpu:2\n"
LONG = {
    "options": "#!/bin/bash\n" + "".join(f"#SBATCH -N{n}\n" for n in range(5_000)),
    "components": "#!/bin/bash\n" + "#SBATCH -N1\n#SBATCH hetjob\n" * 5_000,
    "one line": TOP + "echo " + "x " * 50_000 + "\n",
    "NUL": TOP + "\0" * 100_000,
    "growing": TOP + "A0=aaaaaaaaaaaaaaaa\n" + "".join(f"A{n + 1}=$A{n}$A{n}\n" for n in range(60)),
    "deep": TOP + "(" * 10_000 + "true" + ")" * 10_000 + "\n",
}


def test_a_script_of_any_length_is_read_or_left_with_a_word() -> None:
    for name, text in LONG.items():
        assert len(checked(text, "neuron").findings) < 2_000, name


@pytest.mark.parametrize(("name", "line"), [("options", 3_408), ("one line", 3)])
def test_it_is_said_up_to_which_line_a_script_is_read(name: str, line: int) -> None:
    found = [one for one in checked(LONG[name], "neuron").findings if one.code == "NC643"]
    assert [one.severity for one in found] == ["warning"]
    assert found[0].place.line == line


@pytest.mark.parametrize("text", ["\0\0", " \n\t\n", "", "\x7fELF\0\0", "echo\0\n"])
def test_what_is_no_text_is_an_error(text: str) -> None:
    assert {one.severity for one in checked(text, "neuron").findings} == {"error"}
