"""Right scripts have no errors: our own, and those of the tutorials."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import List, Set, Tuple

import pytest

from neuronctl.catalog.loader import load
from neuronctl.submission.judged_script import JudgedScript, judge_text

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
    assert [one.finding.message for one in found] == []


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
        assert not found.has_errors, path.name


def test_the_tutorials_script_in_its_year_and_now() -> None:
    then = checked(TRAIN_HVD, "neuron-2022")
    assert [(one.finding.code, one.finding.severity) for one in then.findings] == [
        ("NC626", "note")
    ]
    now = checked(TRAIN_HVD, "neuron")
    (old,) = (one for one in now.findings if one.finding.code == "NC408")
    assert (old.place.line, old.place.column) == (14, 13)
    assert "cuda/11.4 (known: cuda/12.4.1, cuda/12.9.1, cuda/13.0.2)" in old.finding.message
    assert "observation: users' job scripts and logs, 2026" in old.finding.source
    errors = [one for one in now.findings if one.finding.refuses]
    assert [(one.finding.code, one.place.line) for one in errors] == [("NC202", 4)]


@pytest.mark.parametrize(
    ("lines", "old"),
    [
        ("module purge\nmodule load gcc/4.8.5 cuda/10.0", "gcc/4.8.5 "),
        ("ml gcc/15.2.0 cuda/10.0", "cuda/10.0 "),
        ("module switch gcc/4.8.5 gcc/9.1", "gcc/9.1 "),
        ("if true; then module add cudampi/openmpi-3.1.0; fi", "cudampi/openmpi-3.1.0 "),
        ("V=11.0\nmodule load cuda/$V", "cuda/11.0 "),
        ("module load gcc/11.5.0 cuda/12.9.1 cuda conda mine/0.1 $OTHER", ""),
        ("module unload gcc/4.8.5\nml purge\nml -cuda/10.0\nmodule avail gcc/4", ""),
    ],
)
def test_modules_older_than_those_of_the_cluster(lines: str, old: str) -> None:
    text = (
        "#!/bin/bash\n#SBATCH -p cas_v100_4 --gres=gpu:1\n"
        f'#SBATCH --comment="field=misc;appl=pytorch"\n{lines}\npython x.py\n'
    )
    found = checked(text, "neuron").findings
    assert [one.finding.code for one in found] == ["NC408"] * bool(old)
    assert not old or found[0].finding.message.startswith(old)


@pytest.mark.parametrize("character", ["\0", "\x1b", "\udcff", "\u2028"])
def test_no_character_stops_the_check(character: str) -> None:
    for text in (TRAIN_HVD.replace("gcc", f"g{character}"), TRAIN_HVD.replace("-J", character)):
        assert ("NC602" in {one.finding.code for one in checked(text, "neuron").findings}) == (
            character == "\0"
        )


def test_a_tutorial_with_typographic_dashes() -> None:
    text = (
        "#!/bin/sh -l\n#SBATCH —-c 7\n#SBATCH -N 3\n#SBATCH -p gpu\n#SBATCH —--gpus-per-node 4\n"
        "#SBATCH —--export=ALL\nmpirun -n 12 python step_horovod.py\n"
    )
    found = [(one.finding.code, one.place.line) for one in checked(text, "iris").findings]
    assert found == [("NC601", 2), ("NC601", 5), ("NC601", 6), ("NC622", 7)]


BROKEN = """\
#!/bin/bash
#SBATCH --nodes=1 --gres=gpu:9
#SBATCH --tiem=1:00
#SBATCH --partition=amd_a100nv_8 --mail-type=NEVER
#SBATCH -J my job
#SBATCH --comment="open
#SBATCH --time=9-00:00:00 --gpus-per-task=0
srun -N2 python x.py
"""


def test_a_directive_that_sbatch_refuses_does_not_hide_what_else_is_wrong() -> None:
    def found(text: str) -> Set[Tuple[str, int]]:
        return {(one.finding.code, one.place.line) for one in checked(text, "neuron").findings}

    refused = {("NC601", 3), ("NC601", 4), ("NC601", 5), ("NC601", 6)}
    # A comment is given, though nobody knows which one.
    assert found(BROKEN) == refused | {("NC121", 2), ("NC141", 7), ("NC622", 8), ("NC625", 8)}
    # Nothing is said of a job whose size is not known.
    for unknown in ("--nodes=$N", "--node=1", "-N"):
        text = BROKEN.replace("--nodes=1", "").replace("-J my job", f"{unknown}")
        assert found(text) == refused | {("NC141", 7)}, unknown
        assert ("NC202", 6) in found(text.replace('"open', "open")), unknown
    assert {code for code, _ in found(BROKEN.replace("#!/bin/bash\n", ""))} == {
        *("NC121", "NC141", "NC601", "NC602", "NC622", "NC625")
    }
    many = BROKEN + "".join(f"#SBATCH --mpi={number}\n" for number in range(100))
    assert len(found(many.replace("srun -N2 python x.py\n", ""))) == 21


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
        assert (one.finding.code, one.finding.severity) == ("NC101", severity)


@pytest.mark.parametrize("partition", ["-p standard-g", "-J x"])
def test_a_script_of_another_cluster_breaks_no_rule_of_this_one(partition: str) -> None:
    text = f"#!/bin/bash\n#SBATCH {partition} -N 2 --gpus-per-node=8 -t 3-0\nsrun ./x\n"
    found = {one.finding.code: one.finding.severity for one in checked(text, "neuron").findings}
    assert found == {"NC101": "warning"}
    here = checked(text.replace(partition, "-p amd_a100nv_8"), "neuron")
    assert {one.finding.code for one in here.findings if one.finding.refuses} == {"NC201", "NC141"}


@pytest.mark.parametrize(
    ("line", "underlined"),
    [
        ("export MASTER_PORT=12345", "MASTER_PORT=12345"),
        ("srun torchrun --nproc_per_node=1 --master_port 29501 t.py", "--master_port 29501"),
        ("accelerate launch --main-process-port=29501 t.py", "--main-process-port=29501"),
        ("torchrun \\\n  --master-port=29501 \\\n  t.py", "--master-port=29501"),
        ("srun bash -c 'torchrun --master_port=29501 t.py'", "'torchrun --master_port=29501 t.py'"),
    ],
)
def test_a_fixed_port_is_underlined(line: str, underlined: str) -> None:
    text = (
        "#!/bin/bash\n#SBATCH -p amd_a100nv_8 --gres=gpu:1\n"
        f'#SBATCH --comment="field=misc;appl=pytorch"\necho 가\udcff; {line}\n'
    )
    script = checked(text, "neuron")
    (one,) = (one for one in script.findings if one.finding.code == "NC632")
    assert script.line(one.place.line)[one.place.column - 1 : one.place.end - 1] == underlined


@pytest.mark.parametrize(("count", "codes"), [("0", []), ("a100:0", []), ("1", ["NC614"])])
def test_tasks_without_gpus_hide_none(count: str, codes: List[str]) -> None:
    text = (
        "#!/bin/bash\n#SBATCH -p amd_a100nv_8 --gres=gpu:2 -n 2\n"
        f'#SBATCH --comment="field=misc;appl=pytorch" --gpus-per-task={count}\nsrun python x.py\n'
    )
    assert [one.finding.code for one in checked(text, "neuron").findings] == codes


def test_without_a_directive_the_options_are_on_a_command_line() -> None:
    text = "#!/bin/bash\nsrun -N2 python train.py\n"
    assert checked(text, "neuron").findings == ()
    catalog = load(None)
    submitted = judge_text(
        *("job.sh", text, catalog, catalog.clusters["neuron"]),
        command_line=[],
    )
    assert "NC101" in {one.finding.code for one in submitted.findings}


@pytest.mark.parametrize(
    ("directives", "line", "found"),
    [
        ("-o /no-such-file-system/%u/%j.out", "./x", set()),
        ("-o /tmp/no-such-directory/%j.out", "./x", {"NC411"}),
        ("--gres=gpu:0", "export CUDA_VISIBLE_DEVICES=0", set()),
        ("-J x", "export CUDA_VISIBLE_DEVICES=1", {"NC633"}),
        ("-J x", "export HF_TOKEN='<your-token-here>'", set()),
        ("-J x", "export HF_TOKEN=<your-token-here>", {"NC643"}),  # to bash, a redirection
        ("-J x", "export WANDB_API_KEY=your_api_key_here", set()),
        ("-J x", "export HF_TOKEN=hf_xxxxxxxxxxxxxxxx", set()),
        ("-J x", "export WANDB_API_KEY=yours0123456789", {"NC640"}),
        ("--export=ALL,DB_PASSWORD=swordfish99", "./x", {"NC640"}),
        ("--export=ALL,A=hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567", "./x", {"NC640"}),
        ("--export=ALL,HF_TOKEN=$HF_TOKEN", "./x", set()),
        ("--export=ALL,HF_TOKEN=hf_xxxxxxxxxxxxxxxx,KEY_FILE=/a/b", "./x", set()),
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
    codes = {one.finding.code for one in checked(text, "neuron").findings}
    assert codes - {"NC122", "NC605"} == found


_BOTH = {("NC601", "warning"), ("NC601", "error")}


@pytest.mark.parametrize(
    ("directives", "body", "found"),
    [
        # options that a site's plugin may add, and those that nobody adds
        ("--image=nersc/pytorch:24.08.01", "./x", {("NC601", "warning")}),
        ("--container-image nvcr.io#x --ear=on", "./x", {("NC601", "warning")}),
        ("--environment=ngc.toml\n#SBATCH -J x --nodes=0", "./x", _BOTH),
        ("--workdir=/x", "./x", {("NC601", "error")}),
        ("--share", "./x", {("NC601", "error")}),
        ("--cpus_per_task=4", "./x", {("NC601", "error")}),
        ("--kill-on-bad-exit=0", "./x", {("NC601", "error")}),
        # what only looks like a directive, on purpose
        ("-J x ##SBATCH --time=10", "./x", set()),
        ("-J x # hours, or '#SBATCH -t 10'", "./x", set()),
        # the script submits itself, once the directory is there
        ("-o logs/%j.out", 'if [ -z "$SLURM_JOB_ID" ]; then\n  mkdir -p logs\n  sbatch $0\nfi',
         set()),
        ("-o logs/%j.out", "mkdir -p logs\nsbatch $0",
         {("NC634", "warning")}),
        # what Slurm forgives, and what undoes a directive
        ("--array=[1-3],,5%", "./x", set()),
        ("--export=NONE", "unset SLURM_EXPORT_ENV\nsrun ./x", set()),
        ("--export=NONE", "srun --export=ALL ./x\n./y", set()),
        ("--signal=TERM@60", "trap 'touch s' USR1\nsrun ./x & wait", set()),
        ("-J x", "cat <<EOF > a\nx\n  EOF\n./x", {("NC643", "warning")}),
        ("-J x", "torchrun --standalone --rdzv-endpoint=localhost:0 t.py", set()),
        ("--gres=gpu:0", "./x", set()),
        # what most people mean by a number
        ("--time=30:00", "./x", set()),
        ("--time=24:00", "./x", {("NC612", "warning")}),
        ("--time=05:00", "./x", {("NC612", "warning")}),
        ("-J x", "export OMP_NUM_THREADS=16", {("NC637", "note")}),
        ("-c 4", "export OMP_NUM_THREADS=16", {("NC637", "warning")}),
        # without NCCL, or with a choice of one's own
        ("-n 2 --gres=gpu:2 --gpus-per-task=1", "srun ./lmp", set()),
        ("-n 2 --gres=gpu:2 --gpus-per-task=1 --gpu-bind=none", "srun python x.py", set()),
        # plain words, whatever they are called
        ("-J x", "rserver --auth-none=0 --auth-timeout-minutes=0", set()),
        ("-J x", "python x.py --model_checkpoint_key=resnet_npt", set()),
        ("-J x", 'srun python -c "log(key=constants.CACHE_CLEAR, value=True)"', set()),
        ('--comment="field=misc;appl=pytorch" --extra="Key=Monitoring,Value=ON"', "./x", set()),
        ("-J x", "export CALI_AGGREGATE_KEY=APOLLO_time_flush", set()),
        ("-J x", "export WANDB_API_KEY=YourOwnWandbAPIKey", set()),
        ("-J x", "export WANDB_API_KEY='you wandb key'", set()),
        ("-J x", "export NEPTUNE_API_TOKEN='{6. neptune API token}'", set()),
        ("-J x", 'curl -sH "Authorization: Bearer Oracle" http://169.254.169.254/', set()),
        ("-J x", "jupyter lab --NotebookApp.token=fb907dde42aafe", {("NC640", "warning")}),
        ("-J x", "x --database-password=correcthorse", {("NC640", "warning")}),
    ],
)  # fmt: skip
def test_what_people_write_elsewhere(
    directives: str,
    body: str,
    found: Set[Tuple[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        "#!/bin/bash\n#SBATCH -p amd_a100nv_8 --gres=gpu:1\n"
        f'#SBATCH --comment="field=misc;appl=pytorch"\n#SBATCH {directives}\n{body}\n'
    )
    codes = {(one.finding.code, one.finding.severity) for one in checked(text, "neuron").findings}
    assert {one for one in codes if one[0] not in ("NC605", "NC626", "NC625")} == found


def test_an_interactive_shell_knows_conda() -> None:
    lines = "#SBATCH -p amd_a100nv_8 --gres=gpu:1 --comment=field=misc;appl=pytorch"
    for shell, codes in (("bash -i", []), ("bash", ["NC638"]), ("bash -l", [])):
        text = f"#!/bin/{shell}\n{lines}\nconda activate x\npython x.py\n"
        assert [one.finding.code for one in checked(text, "neuron").findings] == codes
    for module, codes in (("cuda/12 gcc nvidia/cuda/10.0", ["NC638"]), ("conda", [])):
        text = f"#!/bin/bash\n{lines}\nmodule load {module}\nconda activate x\npython x.py\n"
        found = {one.finding.code for one in checked(text, "neuron").findings}
        assert found & {"NC638"} == {*codes}


def test_a_plugins_option_where_sbatch_can_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from neuronctl.submission import judged_script

    catalog = load(None)
    monkeypatch.setattr(judged_script, "_known_options", lambda *_: frozenset(("image", "nodes")))
    lines = "#SBATCH -p amd_a100nv_8 --gres=gpu:1 --comment=field=misc;appl=pytorch"
    for option, codes in (("image", []), ("module", [("NC601", "error")])):
        text = f"#!/bin/bash\n{lines}\n#SBATCH --{option}=x\n./x\n"
        script = judge_text("job.sh", text, catalog, catalog.clusters["neuron"])
        found = [(one.finding.code, one.finding.severity) for one in script.findings]
        assert found == codes


def test_the_cluster_that_has_a_scripts_partition_is_named() -> None:
    hints = {one.finding.code: one.finding.hint for one in checked(COURSE, "neuron").findings}
    assert hints["NC101"] == "is the job for another cluster? use --cluster jureca"


@pytest.mark.parametrize(
    "body",
    [
        'srun bash -c "torchrun --nnodes $SLURM_NNODES --nproc_per_node 4 --rdzv_endpoint '
        '$HEAD:$PORT t.py --node \\$SLURM_NODEID"',
        "for i in 0 1 2 3; do CUDA_VISIBLE_DEVICES=$i python t.py & done\nwait",
        "srun -N1 -n1 ray start --head --block &\npython t.py",
        "srun -n1 -w $HEAD hostname -i\n"
        "srun torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=$HEAD t.py",
        "RUN=${RUN:-srun -n 4}\n$RUN python t.py --rank $SLURM_PROCID",
        "cat > next.sh <<'EOF'\n#!/bin/bash\n#SBATCH -p elsewhere\nsrun -N9 x\nEOF\nsbatch next.sh",
        'if [ -n "$A" ]; then\n  mpirun -np 2 ./x\nelse\n  ./y\nfi',
        "echo $SLURM_PROCID $SLURM_NODEID\nmpirun -np 2 -x PATH ./x",
        "accelerate launch --config_file c.yaml t.py",
        "export HF_TOKEN=$(cat ~/token) WANDB_API_KEY=$KEY\nsrun ./x",
    ],
)
def test_what_may_be_meant_is_no_error(body: str) -> None:
    text = (
        "#!/bin/bash\n#SBATCH -p amd_a100nv_8 -N 2 --ntasks-per-node=1 --gres=gpu:4\n"
        '#SBATCH --comment="field=misc;appl=pytorch"\n' + body + "\n"
    )
    assert not checked(text, "neuron").has_errors


def test_what_stands_behind_the_end_is_not_read() -> None:
    def codes(text: str) -> List[str]:
        catalog = load()
        found = judge_text("job.sh", text, catalog, catalog.clusters["neuron"])
        return [one.finding.code for one in found.findings if one.finding.code == "NC643"]

    head = "#!/bin/bash\n#SBATCH -p cpu\n./a\n"
    assert codes(f"{head}exit 0\nOld notes: don't use (this\n") == []
    assert codes(f"{head}exec ./b\nfi\n") == []
    assert codes(f"{head}exec >log\nfi\n") == ["NC643"]
    assert codes(f"{head}if true; then exit; fi\nfi\n") == ["NC643"]


@pytest.mark.parametrize("end", ["", "\n", "\n ", "\n\n\n"])
def test_an_end_that_comes_too_early_is_shown_at_the_last_line(end: str) -> None:
    found = checked("#!/bin/bash\n#SBATCH -p cpu\nwhile ./a; do" + end, "neuron").findings
    (place,) = (one.place for one in found if one.finding.code == "NC643")
    assert place.line == 3


@pytest.mark.parametrize("name", ["tab\there.sh", "nl\nx.sh", "\udcff.sh"])
def test_the_name_of_the_file_changes_no_finding(name: str) -> None:
    catalog = load()
    text = "#!/bin/bash\n#SBATCH -p cpu -n 4 -c 2\n#SBATCH -t 15:00\n"
    text += "export MASTER_PORT=1234\nsrun ./a\n"

    def codes(name: str) -> List[str]:
        found = judge_text(name, text, catalog, catalog.clusters["neuron"])
        return [one.finding.code for one in found.findings]

    assert codes(name) == codes("job.sh")


@pytest.mark.parametrize("text", ["²", "9" * 5000])
def test_odd_digits_are_no_numbers(text: str) -> None:
    catalog = load()
    script = f"#!/bin/bash\n#SBATCH -p cpu\n#SBATCH --gpus-per-task={text}\n"
    script += f"export OMP_NUM_THREADS={text} MASTER_PORT={text}\n./a\n"
    assert judge_text("job.sh", script, catalog, catalog.clusters["neuron"])


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ("-J my\u200bjob", 14),
        ('--qos="high\u00a0"', 20),
        ("-o log\u3000.out", 15),
        ("-J 작업－１", 0),
    ],
)
def test_an_odd_character_of_unknown_meaning_is_only_named(line: str, column: int) -> None:
    text = f"#!/bin/bash\n#SBATCH {line}\npython x.py\n"
    found = [one for one in checked(text, "neuron").findings if one.finding.code == "NC615"]
    assert [(one.place.line, one.place.column, one.edits) for one in found] == [
        (2, column, ()) for _ in range(bool(column))
    ]


TOP = "#!/bin/bash\n#SBATCH -N 2 -n 8 -c 4 -p amd_a100nv_8 --gres=gpu:2\n"
LONG = {
    "flags": "#!/bin/bash\n#SBATCH -" + "H" * 500_000 + "\n",
    "options": "#!/bin/bash\n" + "".join(f"#SBATCH -N{n}\n" for n in range(50_000)),
    "partitions": "#!/bin/bash\n#SBATCH -p " + ",".join(f"p{n}" for n in range(9_000)) + "\n",
    "refused": "#!/bin/bash\n" + "#SBATCH –N 1\n" * 100_000,
    "components": "#!/bin/bash\n" + "#SBATCH -N1\n#SBATCH hetjob\n" * 60_000,
    "late": TOP + "date\n" + "#SBATCH -N 1\n" * 200_000,
    "launches": TOP + "srun python a.py\n" * 10_000,
    "one line": TOP + "echo " + "x " * 500_000 + "\n",
    "not for bash": TOP + ")" * 100_000 + "\n",
    "not bash": "#!/usr/bin/python3\n" + "))))))))\n" * 20_000,
    "NUL": TOP + "\0" * 100_000,
    "growing": TOP + "A0=aaaaaaaaaaaaaaaa\n" + "".join(f"A{n + 1}=$A{n}$A{n}\n" for n in range(60)),
    "remarks": TOP + "# neuronctl: ignore=NC601\n" * 140_000,
    "Windows": (TOP + "echo hi\n" * 100_000).replace("\n", "\r\n"),
    "here-documents": TOP + "cat <<E\nhello\nE\n" * 100_000,
    "text for bash": TOP + "bash -c '" + ")" * 100_000 + "'\n",
    "look-alikes": "#!/bin/bash\n#SBATCH" + " --qos=a\u200b" * 4_000 + "\n",
    "deep": TOP + "(" * 100_000 + "true" + ")" * 100_000 + "\n",
}


@pytest.mark.parametrize("name", LONG)
def test_no_script_takes_long(name: str) -> None:
    begin = time.process_time()
    script = checked(LONG[name], "neuron")
    assert time.process_time() - begin < 20  # 1 s on a machine that does nothing else
    assert len(script.findings) < 2_000


@pytest.mark.parametrize(
    ("name", "line"),
    [("flags", 2), ("options", 3_408), ("launches", 2_940), ("one line", 3), ("not bash", 1_111)],
)
def test_it_is_said_up_to_which_line_a_script_is_read(name: str, line: int) -> None:
    found = [one for one in checked(LONG[name], "neuron").findings if one.finding.code == "NC643"]
    assert [one.finding.severity for one in found] == ["warning"]
    assert found[0].place.line == line


def test_nothing_is_missed_that_may_stand_in_the_rest() -> None:
    text = TOP.replace("-N 2", "-N 2 --signal=B:USR1@60") + "python a.py\n" + "date\n" * 50_000
    codes = {one.finding.code for one in checked(text, "neuron").findings}
    assert "NC643" in codes and not codes & {"NC624", "NC625", "NC635"}


@pytest.mark.parametrize("text", ["\0\0", " \n\t\n", "", "\x7fELF\0\0", "echo\0\n"])
def test_what_is_no_text_is_an_error(text: str) -> None:
    assert {one.finding.severity for one in checked(text, "neuron").findings} == {"error"}


def test_a_long_value_is_told_in_short() -> None:
    text = f"#!/bin/bash\n#SBATCH --{'n' * 40_000}=1\n#SBATCH -J x\n"
    (one,) = (one for one in checked(text, "neuron").findings if one.finding.code == "NC601")
    assert len(one.finding.message) <= 1_000 and "nnn' of its own" in one.finding.message


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--gres=gpu:1 --gpus-per-node=v100:1", ": Slurm refuses GPUs with a type"),
        ("--gpus-per-node=1 --gpus=v100:1", ": Slurm refuses GPUs with a type"),
        ("-n2 --gpus=v100:2 --gpus-per-task=1", ": Slurm refuses GPUs with a type"),
        ("--gpus-per-node=1 --gres=gpu:2", "warning: --gres=gpu:2 wins over --gpus-per-node=1"),
        ("--gres=gpu:2 --gpus=1", "error: --gpus=1 contradicts --gres=gpu:2: Slurm"),
        ("-N2 --gres=gpu:1 --gpus=4", "error: --gpus=4 contradicts --gres=gpu:1: Slurm"),
        (
            "-N1-2 --gpus-per-node=2 --gpus=3",
            "error: --gpus=3 contradicts --gpus-per-node=2: Slurm",
        ),
        (
            "-N1-4 -n2 --gpus-per-node=1 --gpus=4",
            "error: --gpus=4 contradicts --gpus-per-node=1: Slurm",
        ),
        ("-n2 --gpus-per-node=1 --gpus=4", ""),
        ("-N1-2 --gpus-per-node=2 --gpus=2", ""),
        ("-N2 --gres=gpu:2 --gpus=4", ""),
        ("-n4 --gpus-per-node=1 --gpus=2", ""),
        ("--gpus-per-node=1 --gpus=2", ""),
        ("--gpus=0 --gpus-per-node=1", ""),
        ("--gpus-per-node=1 --gres=nvme:1", ""),
    ],
)
def test_gpus_of_several_options(options: str, told: str) -> None:
    """As Slurm 22.05 and 26.05 took or refused them."""
    text = f"#!/bin/bash\n#SBATCH -p cas_v100nv_8 {options}\ntrue\n"
    found = [one.finding for one in checked(text, "neuron").findings]
    said = [f"{one.severity}: {one.message}" for one in found if one.code == "NC616"]
    assert len(said) == bool(told)
    assert all(told in one for one in said)


@pytest.mark.parametrize(
    ("options", "nodes", "gpus"),
    [
        ("--gres=gpu:2 --gpus-per-node=1", 1, 2),
        ("--gpus-per-node=1 --gres=gpu:2", 1, 2),
        ("--gpus-per-node=1 --gpus=2", 2, 1),
    ],
)
def test_a_plan_has_the_gpus_that_slurm_gives(options: str, nodes: int, gpus: int) -> None:
    plan = checked(f"#!/bin/bash\n#SBATCH -p cas_v100nv_8 {options}\ntrue\n", "neuron").plan
    assert plan is not None
    assert (plan.nodes, plan.gpus_per_node) == (nodes, gpus)
