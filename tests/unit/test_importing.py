"""``neuronctl import``: what a job file says of a script, and what stays shell text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, List, Tuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from neuronctl.catalog.cluster import Cluster
from neuronctl.catalog.loader import load
from neuronctl.common import yamlfile
from neuronctl.common.errors import JobFileError, UsageError
from neuronctl.common.yamlfile.writer import Entry, write
from neuronctl.planning import JobPlan, plan
from neuronctl.rendering.render import render_job
from neuronctl.request.job import build_request
from neuronctl.request.job_file import parse_job_file
from neuronctl.scripts.header_reader import read_header
from neuronctl.scripts.job_file_draft import JobFileDraft, draft_job_file, uses_arguments
from neuronctl.scripts.script_request import request_from_header

SCRIPTS = Path(__file__).parents[1] / "scripts"
NAMES = sorted(path.stem for path in SCRIPTS.glob("*.sh") if path.stem != "mila-unicode-dashes")


def cluster(name: str = "anywhere") -> Cluster:
    return load(str(SCRIPTS / "catalog.yaml")).cluster(name)


def imported(text: str, on: str = "anywhere", *, name: str = "job.sh") -> JobFileDraft:
    return draft_job_file(text, name, cluster(on))


def data(made: JobFileDraft) -> Dict[str, object]:
    """The content of the job file, with every value as it is typed there."""
    document = yamlfile.parse(made.text, "job.yaml", JobFileError)
    return {
        key: value if isinstance(value, bool) else document.raw.get(key, value)
        for key, value in document.data.items()
    }


def script(shell: str, *directives: str) -> str:
    lines = ["#!/bin/bash", *(f"#SBATCH {one}" for one in ("-J x", "-p all", "-t 10", *directives))]
    return "\n".join([*lines, "", shell, ""])


_ALLOCATION = "job-name partition nodes ntasks ntasks-per-node cpus-per-task gres time output"


def shell_keys(shell: str, *directives: str) -> Dict[str, object]:
    """The keys of the job file that are not about the allocation."""
    kept = data(imported(script(shell, *directives)))
    return {key: value for key, value in kept.items() if key not in _ALLOCATION.split()}


def planned(made: JobFileDraft, on: str = "anywhere") -> JobPlan:
    return plan(build_request([parse_job_file(made.text, "job.yaml")]), cluster(on))


@pytest.mark.parametrize("name", NAMES)
def test_slurm_is_asked_for_the_same(name: str) -> None:
    text = (SCRIPTS / f"{name}.sh").read_text()
    on = re.findall(r"(?m)^cluster: (\S+)", (SCRIPTS / f"{name}.yaml").read_text())[0]
    made = imported(text, on, name=f"{name}.sh")
    before, after = read_header(text), read_header(render_job(planned(made, on)))
    wanted, ours = (request_from_header(one, "x", cluster(on)) for one in (before, after))
    assert after.value("job-name") == before.value("job-name") or f"{name}.sh"
    default = "slurm-%A_%a.out" if wanted.array else "slurm-%j.out"
    assert ours.output == (wanted.output or default)
    assert ours.nodes == (wanted.nodes or 1) and ours.ntasks_per_node == wanted.ntasks_per_node
    fields = "cpus_per_task gpus_per_node gpu_type gres mem array signal requeue qos error account"
    for field in f"{fields} comment constraint dependency nodelist mail_type".split():
        assert getattr(ours, field) == getattr(wanted, field), field
    assert set(ours.sbatch) - {"open-mode=append"} == set(wanted.sbatch) - {"open-mode=append"}


def test_directives_become_keys() -> None:
    made = imported(
        "#!/bin/bash\n"
        "#SBATCH -J x -p all,other -A acct -N 2 --ntasks-per-node=3 -c 4  # a remark\n"
        "# about the memory\n"
        "#SBATCH --gres=gpu:v100:2,nvme:10 --mem 10G --exclusive -C fast -x n3 -w n[1-2]\n"
        "#SBATCH --time=1-0 --array=1-4%2 --signal=B:USR1@60 --no-requeue --nice=5 --hold\n"
        "#SBATCH --mail-type=END --mail-type=FAIL --mail-user=me@x.org -o o.%A.%a -e e -D /tmp\n"
        "./solver\n"
    )
    assert data(made) == {
        "job-name": "x",
        "partition": "all,other",
        "account": "acct",
        "nodes": "2",
        "ntasks-per-node": "3",
        "cpus-per-task": "4",
        "gres": "gpu:v100:2,nvme:10",
        "mem": "10G",
        "exclusive": True,
        "constraint": "fast",
        "nodelist": "n[1-2]",
        "exclude": "n3",
        "time": "1-0",
        "array": "1-4%2",
        "requeue": False,
        "signal": "B:USR1@60",
        "mail-type": "END,FAIL",
        "mail-user": "me@x.org",
        "chdir": "/tmp",
        "output": "o.%A.%a",
        "error": "e",
        "sbatch": ["nice=5", "hold"],
        "run": "./solver\n",
    }
    assert made.text.startswith("# From job.sh\n# about the memory\n"), made.text
    assert "# a remark" in made.text
    assert made.remarks == ()


def test_cores_that_the_script_leaves_to_slurm_stay_so() -> None:
    made = imported("#!/bin/bash\n#SBATCH -p all --gres=gpu:2\npython train.py\n")
    assert data(made)["cpus-per-task"] == "0"
    options = {one.option for one in planned(made).directives}
    assert not options & {"cpus-per-task", "time"}


@pytest.mark.parametrize(
    ("directive", "message"),
    [
        ("--gpus=2 --ntasks-per-gpu=1", "--ntasks-per-gpu=1: a job file cannot say this"),
        ("--gpus-per-task=1 -n 1", "--gpus-per-task=1: a job file cannot say this"),
        ("--uid=root --clusters=x", "--clusters=x: a job file cannot say this"),
    ],
)
def test_what_a_job_file_cannot_say(directive: str, message: str) -> None:
    made = imported(script("date", directive))
    assert [one.line for one in made.remarks if message in one.message] == [5], made.remarks


def test_directives_that_sbatch_does_not_read_are_told() -> None:
    made = imported(script("date\n#SBATCH --mem=5G\ncat <<E\n#SBATCH -p other\nE"))
    message = "'#SBATCH --mem=5G' has no effect (after the first command)"
    assert (made.remarks[0].line, made.remarks[0].message) == (7, message)
    assert "#SBATCH -p other" in made.text


def test_tasks_without_nodes_stay_without() -> None:
    for asked, options in (
        ("-n 4", {"ntasks": "4"}),
        ("-n 4 --ntasks-per-node=2", {"ntasks": "4", "ntasks-per-node": "2"}),
        ("-N 1 -n 4", {"nodes": "1", "ntasks": "4"}),
        ("--gpus=4 --gpus-per-node=2", {"nodes": "2", "gres": "gpu:2"}),
    ):
        made = imported(script("./a\n./b", asked))
        names = ("nodes", "ntasks", "ntasks-per-node", "gpus", "gpus-per-node", "gres")
        asks = {one.option: one.value for one in planned(made).directives if one.option in names}
        assert asks == options, asked


def test_options_for_gpus_keep_their_variables() -> None:
    text = script("echo $SLURM_GPUS_PER_NODE\n./a", "-N 1 --gpus-per-node=4")
    assert "export SLURM_GPUS_PER_NODE=4\n" in render_job(planned(imported(text)))
    both = imported(script("./a", "-N 1 --gres=gpu:2 --gpus-per-node=2"))
    assert data(both)["gres"] == "gpu:2" and data(both)["env"] == {"SLURM_GPUS_PER_NODE": 2}
    assert data(imported(script("./a", "-N 2 --gpus=4")))["env"] == {"SLURM_GPUS": 4}
    three = data(imported(script("./a", "-N 1 --gres=gpu:2 --gpus-per-node=2 --gpus=2")))
    assert [*three["env"]] == ["SLURM_GPUS_PER_NODE", "SLURM_GPUS"], "the same order each time"


@pytest.mark.parametrize("option", ["--exclusive=user", "--image=docker:a/b"])
def test_an_option_without_a_key_is_carried_over(option: str) -> None:
    made = imported(script("./a", option))
    assert f"#SBATCH {option}\n" in render_job(planned(made)) and made.remarks == ()


def test_what_only_looks_like_an_argument_or_a_directive() -> None:
    text = "A=(x y)\necho ${#A[0]} ${#A}\ncat <<E\n#SBATCH --mem=5G\nE"
    assert imported(script(text)).remarks == ()
    for used in ("$#", "${#}", "${#@}", "${1:-x}", '"$@"'):
        assert uses_arguments(f"echo {used}") == 1


def test_cores_per_gpu_become_cores_per_task() -> None:
    made = imported(script("date", "--gres=gpu:2 --cpus-per-gpu=8"))
    assert data(made)["cpus-per-task"] == "16"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#!/bin/csh\n#SBATCH -p all\ndate\n", "job.sh:1: a script for csh"),
        ("#!/usr/bin/env python3\n#SBATCH -p all\nprint()\n", "job.sh:1: a script for python3"),
        ("#!/bin/bash\n#SBATCH -p a\n#SBATCH hetjob\n#SBATCH -p b\n", "heterogeneous job of 2"),
        ("#!/bin/bash\r\n#SBATCH -p a\r\ndate\r\n", "job.sh:1: sbatch refuses this script"),
        ("#!/bin/bash\n#SBATCH -J y trailing\n", "job.sh:2: sbatch refuses this script"),
        ("", "job.sh:1: sbatch refuses this script"),
        ("#!/bin/bash\ndate\nprintf '\x1b[1m'\n", "job.sh:3: cannot be imported"),
        ("#!/bin/bash\ndate\necho \udcff\n", "job.sh:3: cannot be imported"),
        (f"#!/bin/bash\n{'# ' * 30_000}\n", "more than 50,000 characters"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        imported(text)
    assert message in caught.value.message
    assert caught.value.hint


def test_what_bash_cannot_read_stays_as_it_was() -> None:
    made = imported(script("echo a\nif true; then\n  ./x"))
    assert "  if true; then\n" in made.text


@pytest.mark.parametrize(
    "shell",
    [
        "./train.py",  # neuronctl would start it with python
        'python train.py "$1"',
        "python train.py $SLURM_JOB_ID",
        "python train.py > log",
        "torchrun --standalone --nproc_per_node=2 train.py",
        "torchrun --rdzv_backend=c10d train.py",
        "torchrun train.py --lr $LR",
        "torchrun -m pkg.train",
        "srun --mpi=pmix ./a",
        "mpirun -np 4 ./a",
        "mpirun ./train.py",
        "mpiexec ./a",
        "horovodrun -np 1 python train.py",
        "A=1 python train.py",
        "srun bash -c 'python t.py $SLURM_PROCID'",
        "trap 'echo x' USR1\npython t.py",
        "python a.py &\nwait",
        "./a\n./b",
        "for i in 1 2; do ./a; done",
        "cat > a.py <<END\nx = 1\nEND\npython b.py $X",
    ],
)
def test_a_script_stays_as_it_was(shell: str) -> None:
    goes_on = "set +e\n" if "\n" in shell else ""
    assert shell_keys(shell) == {"run": f"{goes_on}{shell}\n"}


@pytest.mark.parametrize(
    ("shell", "keys"),
    [
        ("set -euo pipefail\n./a\n./b", {"run": "set -euo pipefail\n./a\n./b\n"}),
        ("./a\nset -e\n./b", {"run": "set +e\n./a\nset -e\n./b\n"}),
    ],
)
def test_a_line_that_fails_ends_what_it_ended_before(shell: str, keys: Dict[str, object]) -> None:
    assert shell_keys(shell) == keys


def test_the_first_lines_options() -> None:
    keys = data(imported("#!/bin/bash -le\n#SBATCH -p all\n./solver\n"))
    goes_on, begins, personal, then, program = str(keys["run"]).splitlines()
    assert goes_on == "set +e" and begins == "source /etc/profile" and "~/.profile" in personal
    assert (then, program) == ("set -e", "./solver")


def test_arguments_of_the_script_are_told() -> None:
    made = imported(script('f() { echo "$1"; }\npython train.py --lr "$1" | tee x'))
    assert [one.line for one in made.remarks] == [7]
    assert uses_arguments('f() { echo "$1"; }') is None
    assert uses_arguments("set -- a\necho $1") is None
    assert uses_arguments("awk '{ print $1 }' x") is None


def test_a_name_cannot_break_the_file() -> None:
    made = imported("#!/bin/bash\ndate\n", name="a\nrun: rm -rf x\x1b.sh")
    assert made.text.split("\n")[0] == "# From a?run: rm -rf x?.sh"


@settings(max_examples=30, deadline=None)
@given(text=st.text(min_size=1), others=st.lists(st.text(), max_size=3))
@example(text=" a\nb\n", others=["", "- ", "-", "a: b", "# x", "\x85", "\u2028", "'", '"', "null"])
@example(text="\tx\n", others=["010", "1.10", "~", "true", "[", "a,b", "\ufeff", "\x7f", "\t"])
def test_yaml_is_read_back_as_it_was(text: str, others: List[str]) -> None:
    entries = [Entry("one", text, ("remark\n: x",), "behind"), Entry("many", others)]
    entries.append(Entry("env", {"A": text}))
    document = yamlfile.parse(write(entries, above=["top"]), "x.yaml", JobFileError)

    def typed(path: Tuple[str, ...], value: object) -> object:
        return document.raw.get(yamlfile.path_key(path), value)

    found = document.data
    assert typed(("one",), found["one"]) == text
    assert [typed(("many", str(n)), one) for n, one in enumerate(found["many"])] == others
    assert typed(("env", "A"), found["env"]["A"]) == text
