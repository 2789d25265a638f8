"""People's scripts and the same jobs as job files: both run and do the same.

tests/scripts/README.md says which are not run, and why.
"""

from __future__ import annotations

import base64
import io
import re
import shlex
import shutil
import tarfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterator, List, Set, Tuple

import pytest
from harness import Sandbox, sandbox_up, wait_until

SCRIPTS = Path(__file__).parents[1] / "scripts"
NAMES = sorted(path.stem for path in SCRIPTS.glob("*.yaml") if path.stem != "catalog")
TABLES = (SCRIPTS / "README.md").read_text().split("\n## ")
"""What the scripts contain, which are not run, and what differs, below the introduction."""
NOT_RUN = set(re.findall(r"^\| `([\w-]+)` \|", TABLES[2], re.M))

pytestmark = pytest.mark.long

STUBS = {
    "program": (
        *("python", "python3", "mytool", "ollama", "vllm", "jupyter", "flask", "ray", "runscript"),
        "solver",
    ),
    "launcher": ("torchrun", "torchrun_jsc", "accelerate", "horovodrun"),
    "singularity": ("singularity",),
    "nothing": ("module",),
    "curl": ("curl",),
    "nslookup": ("nslookup",),
}
"""What stands for the programs that the scripts start. Slurm and mpirun are the real ones."""

SHARED = {
    "train.py": "name=${LAUNCHED-}.${SLURM_PROCID-0}.$1$2\n"
    'mkdir -p out\necho "$*" >"out/trained${name//\\//_}"\n',
    "main.py": "echo main >main.txt\n",
    "prepare.py": "mkdir -p data\necho prepared >data/prepared.txt\n",
    "evaluate.py": 'mkdir -p out\necho "$*" >"out/shard_${SLURM_PROCID-0}"\n',
    "align.py": 'mkdir -p out\necho "$*" >"out/$1.aligned"\n',
    "fail.py": 'echo "failing"\nexit "$2"\n',
    "lib.sh": 'run_fold() { python train.py --fold "$1"; }\n',
    "samples.txt": "alpha\nbeta\n",
    "logs/here": "",
    "out/here": "",
    "project/main.py": "echo project >project.txt\n",
    "project/deep/none": "",
    "data/x.csv": "1,2\n",
    "llama.sif": "",
    "torch.sif": "",
    "zero3.yaml": "",
    "sc_venv_template/activate.sh": "export SC_VENV=active\n",
    "venv/bin/activate": 'export VIRTUAL_ENV="$PWD/venv" PATH="$PWD/venv/bin:$PATH"\n',
    "miniconda/etc/profile.d/conda.sh": """\
conda() {
    case $1 in
        activate) export CONDA_DEFAULT_ENV="$2" CONDA_PREFIX="$HOME/envs/$2" ;;
        info) echo "$PWD/miniconda" ;;
    esac
}
""",
    **{name: ":\n" for name in ("ask.py", "app.py", "assemble.py")},
    # The servers have started before it ends, and with it they.
    "client.py": 'until ls "$RECORD"/serving.*; do sleep 0.1; done\n',
    "tune.py": 'until [ "$(ls "$RECORD"/serving.* | wc -l)" = 2 ]; do sleep 0.1; done\n',
    "test_horovod.py": ":\n",
}
"""What lies in the directory that a job is submitted from; a Python file here is shell text."""

PROGRAMS_THERE = {"solver": "solver", "app/bin/mytool": "mytool", "venv/bin/python": "python"}

OPTIONS = {"neuron-requeue-usr1": "-t 10"}
"""A time limit before which no --signal falls due: with -t 2 it is due at once, and a job that
Slurm's look every 30 s meets is signaled, requeued, and held back for two minutes."""

SUBMIT = """\
cd scripts
export HOME="$PWD/home" PATH="$PWD/stubs:$PATH" LOCAL_SCRATCH=/tmp
# The cores that the nodes claim are not there for mpirun to bind processes to.
export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
mkdir -p "$HOME/envs/llm" runs records
tar -C project -cf project/data.tar data
account=$(sacctmgr -nP show user "$USER" format=DefaultAccount)
while read -r kind name options; do
    mkdir -p "runs/$kind" "records/$kind/$name"
    cp -r project "runs/$kind/$name"
    export RECORD="$PWD/records/$kind/$name"
    cd "runs/$kind/$name"
    sed -i "s|/the/directory|$PWD|" "../../../$kind/$name.sh"
    job=$(sbatch --parsable -p all -A "$account" -t 2 $options "../../../$kind/$name.sh" 2>&1)
    echo "$kind $name $job"
    cd ../../..
done
"""
COLLECT = "cd scripts && tar -cz records runs --exclude '*.sif' | base64 -w0"


@dataclass(frozen=True)
class Ran:
    """What one job did."""

    starts: Tuple[str, ...]
    """The processes: node, directory, words and variables of each, sorted."""
    ends: Tuple[str, ...]
    """State and exit code, of each task of an array."""
    files: Dict[str, str]


def lay_out(directory: Path) -> None:
    """What is copied into the sandbox."""
    for name in NAMES:
        for kind, script in (("plain", SCRIPTS), ("ours", SCRIPTS / "made")):
            (directory / kind).mkdir(parents=True, exist_ok=True)
            shutil.copy(script / f"{name}.sh", directory / kind)
    for stub, names in STUBS.items():
        for name in names:
            (directory / "stubs").mkdir(exist_ok=True)
            shutil.copy(SCRIPTS / "stubs" / stub, directory / "stubs" / name)
    for path, text in SHARED.items():
        (directory / "project" / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / "project" / path).write_text(text)
    for path, name in PROGRAMS_THERE.items():
        (directory / "project" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(directory / "stubs" / name, directory / "project" / path)
    (directory / "home").mkdir()
    (directory / "home" / ".bashrc").write_text(SHARED["miniconda/etc/profile.d/conda.sh"])
    # A login shell has read /etc/profile before, which sets PATH anew; Debian unstable's sets
    # PYTHONPATH, too.
    (directory / "home" / ".profile").write_text(
        'unset -f module\nunset PYTHONPATH\nexport PATH="${HOME%/*}/stubs:$PATH"\n'
    )


@pytest.fixture(scope="module")
def ran(
    slurm_there: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Dict[Tuple[str, str], Ran]]:
    """All jobs, of both kinds: submitted at once, and looked at when the last has ended."""
    directory = tmp_path_factory.mktemp("run") / "scripts"
    names = [name for name in NAMES if name not in NOT_RUN]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEURONCTL_CATALOG", str(SCRIPTS / "catalog.yaml"))
        lay_out(directory)
        with sandbox_up("scripts", "--cluster", "anywhere", "--nodes", "all=4") as sandbox:
            yield dict(run_all(sandbox, directory, names))


def run_all(
    sandbox: Sandbox, directory: Path, names: List[str]
) -> Iterator[Tuple[Tuple[str, str], Ran]]:
    jobs = [(kind, name) for name in names for kind in ("plain", "ours")]
    lines = "".join(f"{kind} {name} {OPTIONS.get(name, '')}\n" for kind, name in jobs)
    said = sandbox.exec(["bash", "-c", SUBMIT], input=lines, copy=[str(directory)]).stdout
    refused = [line for line in said.splitlines() if not re.fullmatch(r"\w+ [\w-]+ \d+", line)]
    assert not refused
    ids = {(kind, name): job_id for kind, name, job_id in map(str.split, said.splitlines())}
    queue = ["squeue", "-h", "-o", "%i %j %T %r %M %S"]
    try:
        wait_until(lambda: not sandbox.exec(queue).stdout, 300)
    except TimeoutError as error:
        raise AssertionError(sandbox.exec(queue).stdout) from error
    ends: Dict[str, List[str]] = {}
    for line in sandbox.exec(["scontrol", "-o", "show", "jobs"]).stdout.splitlines():
        job = dict(word.partition("=")[::2] for word in shlex.split(line.replace("'", "")))
        task = job.get("ArrayTaskId", "")
        known = ends.setdefault(job.get("ArrayJobId", job["JobId"]), [])
        known.append(f"{task} {job['JobState']} {job['ExitCode']}".strip())
    packed = base64.b64decode(sandbox.exec(["sh", "-c", COLLECT]).stdout)
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        files = {
            one.name: (tar.extractfile(one) or io.BytesIO()).read().decode()
            for one in tar
            if one.isfile()
        }
    for kind, name in jobs:
        mine = {
            path[len(f"runs/{kind}/{name}/") :]: text
            for path, text in files.items()
            if path.startswith(f"runs/{kind}/{name}/")
        }
        records = {
            path: text for path, text in files.items() if path.startswith(f"records/{kind}/{name}/")
        }
        yield (
            (kind, name),
            Ran(
                starts=starts(name, records),
                ends=tuple(sorted(ends[ids[kind, name]])),
                files={
                    re.sub(rf"(?<=-){ids[kind, name]}\b", "JOB", masked(path)): masked(text, r"\d+")
                    for path, text in mine.items()
                    if not re.search(r"\.(out|err|[oe]\d+)$", path)
                },
            ),
        )


ALWAYS = ("LAUNCHED", "LAUNCHER_OPTIONS", "CONTAINER", "CONDA_DEFAULT_ENV", "VIRTUAL_ENV")


def exported(name: str) -> Set[str]:
    """The variables that the plain script exports, but for what Slurm and the launcher decide."""
    text = (SCRIPTS / f"{name}.sh").read_text()
    names = set(re.findall(r"(?:^\s*export|\sexport) (\w+)=", text, re.M))
    decided = ("MASTER_", "SRUN_", "CUDA_VISIBLE_DEVICES")
    return {one for one in names if not one.startswith(decided)}


def starts(name: str, records: Dict[str, str]) -> Tuple[str, ...]:
    """The processes of a job as text that does not depend on when and where it ran."""
    names = exported(name) | set(ALWAYS)
    variables = {
        path[:-4]: dict(one.partition("=")[::2] for one in text.split("\0")[:-1])
        for path, text in records.items()
        if path.endswith(".env")
    }
    # One that was ended right at its start has noted nothing.
    noted = {path: records[path].split("\0")[:-1] for path in variables if records.get(path)}
    hosts: Dict[str, Set[str]] = {}
    for path, (host, *_) in noted.items():
        hosts.setdefault(variables[path]["SLURM_JOB_ID"], set()).add(host)
    found = []
    for path, (host, place, *words) in noted.items():
        env = variables[path]
        job = env["SLURM_JOB_ID"]
        gpus = len([one for one in env.get("CUDA_VISIBLE_DEVICES", "").split(",") if one])
        rank = f"{env.pop('LAUNCHED', '')} of {gpus} GPUs"  # never the job's number
        kept = [f"{one}={env[one]}" for one in sorted(names) if one in env]
        line = masked(f"in {place}: {shlex.join(words)} [{' '.join(kept)}]")
        if "SLURM_JOB_ID" in (SCRIPTS / f"{name}.sh").read_text():
            line = re.sub(rf"\b{job}\b", "JOB", line)
        for number, one in enumerate(sorted(hosts[job])):
            line = re.sub(rf"\b{one}\b", f"host{number}", line)
        found.append(f"host{sorted(hosts[job]).index(host)} {line} {rank}")
    return tuple(sorted(found))


def masked(text: str, numbers: str = r"\b\d{4,5}\b") -> str:
    """``text`` without what differs from run to run: ports, temporary names, the directory."""
    text = re.sub(r"work\.\w{6}", "work.TMP", re.sub(r"/(plain|ours)/", "/", text))
    text = re.sub(r"(?<= )\./(?=\w+\.sif)", "", text)  # an image here, by name or by path
    return re.sub(numbers, "N", text)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NOT_RUN])
def test_both_do_the_same(name: str, ran: Dict[Tuple[str, str], Ran]) -> None:
    plain, ours = ran["plain", name], ran["ours", name]
    assert Counter(ours.starts) == Counter(plain.starts)
    assert plain.starts, "a script that starts nothing shows nothing"
    assert ours.ends == plain.ends
    assert ours.files == plain.files


def test_the_tables_name_every_script() -> None:
    assert set(re.findall(r"`(\w+(?:-\w+)+)`", TABLES[1])) == set(NAMES)
    assert set(NAMES) > NOT_RUN
