"""Each rule at its boundary: what just passes, what just does not, in which figures."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Tuple

import pytest
from plan_builders import NOWHERE, STRICT, cluster, findings, plan_of, policy

from neuronctl.catalog import cluster as model
from neuronctl.catalog.loader import load
from neuronctl.common.rule_codes import CODES
from neuronctl.judgement.rule_pages import every_rule
from neuronctl.rules import LocalFacts, RuleContext, apply_rules
from neuronctl.rules.base import ALONE, NO_SIGN, Finding
from neuronctl.rules.quotas import Quota
from neuronctl.scripts.bash_grammar import SyntaxProblem
from neuronctl.scripts.header import SourceSpan

HERE = LocalFacts(user="kim", directory="/scratch/kim/run")
STATES = dataclasses.replace(HERE, stated_sizes=(("devices", 4), ("num_nodes", 2)))
BROKEN = SyntaxProblem(SourceSpan(1, 2, 3), "syntax error", False)
FORBIDDEN = policy(forbidden_options={"mem": "it is unusable", "exclusive": "nodes are shared"})
WORD = policy(comment=model.CommentPolicy(required=True, form="word", values=("pytorch", "python")))
PROJECT = policy(comment=model.CommentPolicy(required=True, pattern="proj-[0-9]+"))
SRUN: Dict[str, Any] = {"nodes": 2, "launcher": "srun"}
PYXIS: Dict[str, Any] = {"container": "x.sif", "container_runtime": "pyxis", "launcher": "srun"}
ARM = cluster(partitions={"arm": model.Partition("arm", arch="aarch64", module_prefix="ARM_")})

Case = Tuple[str, Dict[str, Any], List[str], Dict[str, Any]]


def on(site: Any, **fields: Any) -> Dict[str, Any]:
    """Keywords of findings() for a request on a cluster of this policy."""
    return {"where": cluster(site), **fields}


def with_qos(**fields: Any) -> Dict[str, Any]:
    """A request on a cluster whose catalog describes QOS."""
    every = (
        model.Qos("debug", 2, 1, 2, 2, model.WallTime(maximum=1800), partitions=("gpu",)),
        model.Qos("long", max_gpus=99, max_nodes=99, wall_time=model.WallTime(maximum=7 * 86400)),
    )
    return {"where": cluster(qos={qos.name: qos for qos in every}), **fields}


def here(**fields: Any) -> Dict[str, Any]:
    return {"here": dataclasses.replace(HERE, **fields)}


# code, what violates it, the words that must be said, what just does not violate it
CASES: List[Case] = [
    ("NC101", {"partition": "gpus"}, ["'gpus'", "toy", "did you mean gpu"], {"partition": "gpu"}),
    ("NC101", {"partition": "A100"}, ["a100 is a GPU", "-p gpu"], {}),
    ("NC102", {"partition": "closed"}, ["'closed'", "gpu"], {"partition": "cpu"}),
    ("NC111", {"nodes": 5}, ["5 nodes", "gpu has 4", "-N 3"], {"nodes": 4}),
    ("NC112", {"nodes": 4}, ["4 nodes", "may have 3", "-N 3"], {"nodes": 3}),
    ("NC121", {"gpus_per_node": 9}, ["9 GPUs", "gpu have 8"], {"gpus_per_node": 8}),
    ("NC121", {"partition": "old", "gpus_per_node": 8},
     ["old have 4", "-N 2 --gpus-per-node 4", "gpu"], {"partition": "old", "gpus_per_node": 4}),
    ("NC121", {"partition": "cpu", "gpus_per_node": 1}, ["cpu have 0", "request no GPUs"],
     {"partition": "cpu"}),
    ("NC122", on(STRICT), ["gpu is a GPU partition", "1 to 8"], on(STRICT, gpus_per_node=1)),
    ("NC122", {}, ["requested no GPU"], {"partition": "cpu"}),
    ("NC123", {"gpus_per_node": 1, "gpu_type": "v100"}, ["'v100'", "'a100'", "-p old"],
     {"gpus_per_node": 1, "gpu_type": "a100"}),
    ("NC123", {"gpus_per_node": 1, "gpu_type": "A100"}, ["'A100'", "did you mean a100?"],
     {"gpus_per_node": 1, "gpu_type": "a100"}),
    ("NC124", {"nodes": 4, "gpus_per_node": 8}, ["32 GPUs", "4 nodes x 8", "allows at most 24"],
     {"nodes": 3, "gpus_per_node": 8}),
    ("NC131", {"ntasks_per_node": 5, "cpus_per_task": 13},
     ["65 cores", "5 tasks x 13 cores", "has 64", "-c 12"],
     {"ntasks_per_node": 4, "cpus_per_task": 16}),
    ("NC132", on(STRICT, gpus_per_node=2, cpus_per_task=17),
     ["17 cores", "2 GPUs in gpu come with 16 (8 per GPU)", "-c 16"],
     on(STRICT, gpus_per_node=2, cpus_per_task=16)),
    ("NC132", on(policy(cores=model.CorePolicy("cap", 7)), gpus_per_node=2, cpus_per_task=15),
     ["come with 14 (7 per GPU)"],
     on(policy(cores=model.CorePolicy("default", 7)), gpus_per_node=2, cpus_per_task=15)),
    ("NC141", {"time_limit": "2-00:00:01"},
     ["2-00:00:01", "batch jobs in gpu", "may run at most 2-00:00:00", "-t 2-00:00:00"],
     {"time_limit": "2-00:00:00"}),
    ("NC141", {"time_limit": "0"}, ["no time limit (-t 0)"], {"time_limit": "48:00:00"}),
    ("NC141", {"interactive": True, "time_limit": "8:00:01"},
     ["interactive jobs in gpu may run at most 08:00:00"],
     {"interactive": True, "time_limit": "8:00:00"}),
    ("NC201", on(STRICT), ["toy", "--field FIELD --appl APPL"], on(STRICT, comment="x")),
    ("NC201", on(WORD), ["--comment WORD"], on(WORD, comment="python")),
    ("NC202", on(STRICT, comment="pytorch"),
     ["'pytorch'", "field=FIELD;appl=APPL", "--field FIELD"],
     on(STRICT, comment="field=nlp;appl=pytorch")),
    ("NC202", on(STRICT, appl="jax"), ["the form field=FIELD;appl=APPL", "FIELD is one of nlp"],
     on(STRICT)),
    ("NC202", on(STRICT, comment="appl=jax;field=nlp"),
     ["the form field=FIELD;appl=APPL", "write field=nlp;appl=jax"],
     on(STRICT, comment="field=nlp;appl=jax")),
    ("NC202", on(STRICT, comment="field=nlp"),
     ["does not have the form", "use --field FIELD --appl APPL instead", "APPL is one of"],
     on(STRICT, comment="field=nlp;appl=jax")),
    ("NC202", on(WORD, comment="torch"), ["'torch'", "pytorch"], on(WORD, comment="python")),
    ("NC202", on(PROJECT, comment="proj-12x"), ["'proj-12x' does not match proj-[0-9]+"],
     on(PROJECT, comment="proj-12")),
    ("NC201", on(PROJECT), ["--comment TEXT that matches proj-"], on(PROJECT, comment="proj-1")),
    ("NC307", {"launcher": "torchrun", "launcher_options": ("--nproc_per_node=8",)},
     ["--nproc_per_node=8", "torchrun"],
     {"launcher": "torchrun", "launcher_options": ("--max-restarts=1",)}),
    ("NC308", {"launcher": "python", "launcher_options": ("-l",)}, ["python has no options"],
     {"launcher": "srun", "launcher_options": ("-l",)}),
    ("NC309", {"nodes": 2, "max_nodes": 3, "launcher": "deepspeed"},
     ["2 to 3 nodes", "deepspeed", "-N 2"], {"nodes": 2, "max_nodes": 3, "launcher": "torchrun"}),
    ("NC301", {"nodes": 2, "max_nodes": 3, "ntasks": 4}, ["on 2 to 3 nodes", "--ntasks-per-node"],
     {"nodes": 2, "max_nodes": 3, "ntasks_per_node": 2}),
    ("NC211", on(FORBIDDEN, mem="80G"), ["--mem=80G", "it is unusable"], on(FORBIDDEN)),
    ("NC221", {**on(STRICT), **here(directory="/scratch/kimchi")},
     ["only from /scratch/kim", "/scratch/kimchi", "cd /scratch/kim"],
     {**on(STRICT), **here(directory="/scratch/kim")}),
    ("NC221", {**on(STRICT), **here(directory="/home/kim")}, ["/home/kim"],
     {**on(STRICT), **here(directory="/home/kim"), "reviewed": True}),
    ("NC231", {**on(STRICT), **here(config_file="/cfg/config.yaml")},
     ["account", "add -A ACCOUNT; or set 'account: ACCOUNT' once in /cfg/config.yaml"],
     on(STRICT, account="x")),
    ("NC232", on(STRICT), ["QOS", "add -q QOS; or set 'qos: QOS' once in"], on(STRICT, qos="x")),
    ("NC112", with_qos(qos="debug", nodes=3), ["a job in gpu of QOS debug may have 2"],
     with_qos(qos="debug", nodes=2)),
    ("NC112", with_qos(qos="big", nodes=4), ["a job in gpu may have 3"],
     with_qos(qos="long", nodes=4)),
    ("NC124", with_qos(qos="debug", gpus_per_node=3),
     ["QOS debug allows at most 2", "request at most 2 GPUs in all"],
     with_qos(qos="debug", gpus_per_node=2)),
    ("NC141", with_qos(qos="debug", time_limit="31:00"),
     ["batch jobs in gpu of QOS debug may run at most 00:30:00"],
     with_qos(qos="debug", time_limit="30:00")),
    ("NC301", {"nodes": 2, "ntasks": 5}, ["5 tasks on 2 nodes", "use --ntasks=6 or --ntasks=4"],
     {"nodes": 2, "ntasks": 4}),
    ("NC301", {"ntasks": 1, "ntasks_per_node": 6}, ["--ntasks=1", "6 tasks"],
     {"ntasks": 6, "ntasks_per_node": 6}),
    ("NC302", {"launcher": "torchrun", "ntasks_per_node": 2, "gpus_per_node": 2},
     ["2 tasks per node", "torchrun", "2 processes"],
     {"launcher": "torchrun", "ntasks_per_node": 1, "gpus_per_node": 2}),
    ("NC303", {"launcher": "python", "nodes": 2}, ["python", "2 nodes x 1 task", "torchrun"],
     {"launcher": "python", "nodes": 1}),
    ("NC304", {"launcher": "srun", "ntasks_per_node": 3, "gpus_per_node": 2},
     ["3 processes share 2 GPUs", "--ntasks-per-node 2"],
     {"launcher": "none", "ntasks_per_node": 40, "gpus_per_node": 2}),
    ("NC304", {"launcher": "srun", "ntasks_per_node": 1, "gpus_per_node": 2},
     ["1 process for 2 GPUs", "idle"], {"launcher": "python", "gpus_per_node": 2}),
    ("NC306", {"launcher": "srun", "gpus_per_node": 2, "here": STATES},
     ["devices=4", "has 2 GPUs per node", "request 4 GPUs per node", 'devices="auto"'],
     {"launcher": "srun", "gpus_per_node": 4, "nodes": 2, "here": STATES}),
    ("NC306", {"launcher": "srun", "gpus_per_node": 4, "nodes": 3, "here": STATES},
     ["num_nodes=2", "has 3 nodes", "request 2 nodes", "SLURM_JOB_NUM_NODES"],
     {"launcher": "srun", "nodes": 2, "here": STATES}),
    ("NC323", {"signal": "USR2@600", "time_limit": "5"},
     ["600 s before the end", "as soon as it runs", "@75"],
     {"signal": "USR2@600", "time_limit": "11"}),
    ("NC323", {"idle": "30m", "time_limit": "20", "gpus_per_node": 1},
     ["--idle 30m never ends a job of 00:20:00", "--idle 10m"],
     {"idle": "30m", "time_limit": "40", "gpus_per_node": 1}),
    ("NC322", {"nodes": 2, "gpus_per_node": 2, "launcher": "horovodrun"},
     ["another job's", "--gpus-per-node 8", "horovodrun-mpi"],
     {"nodes": 2, "gpus_per_node": 2, "launcher": "horovodrun-mpi"}),
    ("NC311", {"conda": "x", "venv": "y"}, ["--conda and --venv"], {"conda": "x"}),
    ("NC124", {"gpus_per_node": 1, "nodes": 4, "exclusive": True},
     ["32 GPUs", "4 nodes x 8, whole nodes with --exclusive", "allows at most 24"],
     {"gpus_per_node": 1, "nodes": 3, "exclusive": True}),
    ("NC134", {"mem": "501G"}, ["513024 MB", "gpu has 512000 MB"], {"mem": "500G"}),
    ("NC313", {"sbatch": ("gpus-per-task=1",)}, ["--gpus-per-node"], {"sbatch": ("nice=1",)}),
    ("NC338", {"args": ("--api-key", "S3cr3t")}, ["arguments contain a secret", "--env NAME"],
     {"args": ("--pad-token", "x", "--tokens=3")}),
    ("NC338", {"setup": ("export HF_TOKEN=S3cr3t",)}, ["--setup contains a secret"],
     {"setup": ("export HF_TOKEN=$MINE",)}),
    ("NC338", {"script": None, "body": "curl -H 'Authorization: Bearer abcdef0123456789abcd'"},
     ["the shell text contains a secret"],
     {"script": None, "body": "export PASSWORD=$TOKEN HASHED_PASSWORD=  # not those of yours"}),
    ("NC341", {"env": (("PATH", "/opt/x/bin:$PATH"),)},
     ["--env PATH refers to itself, and $PATH is passed on as typed", "--setup"],
     {"setup": ("export PATH=/opt/x/bin:$PATH",)}),
    ("NC341", {"env": (("HF_HOME", "/scratch/${USER}/hf:$X"),)},
     ["--env HF_HOME: $USER, $X are passed on as typed"],
     {"env": (("LD_LIBRARY_PATH", "$ORIGIN/lib"), ("PRICE", "5$ or $5"), ("MY_TOKEN", "a$b"))}),
    ("NC341", {"args": ("--id", "$SLURM_JOB_ID:$HOME:$x"), **here(variables=frozenset({"HOME"}))},
     ["$SLURM_JOB_ID, $HOME in the program's arguments are passed on"],
     {"args": ("^a$", "$x", "$HOME"), **here()}),
    ("NC344", {"max_runs": 3}, ["--max-runs is for a job with several runs", "add --until-done"],
     {"max_runs": 3, "until_done": True}),
    ("NC344", {"until_done": True, "requeue": False, "array": "0-3"}, ["--no-requeue", "an array"],
     {"until_done": True, "requeue": False}),
    ("NC344", {"until_done": True, "setup": ("trap save TERM",)}, ["a --setup line sets a trap"],
     {"until_done": True, "setup": ("trap save USR1",)}),
    ("NC344", {"until_done": True, "script": None, "body": "true", "resume_with": "-r"},
     ["--resume-with has no program"], {"until_done": True, "resume_with": "-r"}),
    ("NC344", {"until_done": True, "signal": "TERM@0", "time_limit": "10"},
     ["to save 0 s before the end, which leaves no time to save", "--signal TERM@150"],
     {"until_done": True, "signal": "TERM@60", "time_limit": "10"}),
    ("NC344", {"until_done": True, "signal": "TERM@600", "time_limit": "10"},
     ["to save 600 s before the end, and a run has 600 s", "--signal TERM@150"],
     {"until_done": True, "signal": "TERM@60", "time_limit": "10"}),
    ("NC344", {"until_done": True, "signal": "KILL@30"},
     ["at KILL, which no program can handle", "--signal TERM@300"],
     {"until_done": True, "signal": "INT@30"}),
    ("NC412", {"chdir": "~/x", **here(chdir=Finding("no directory '~/x'", "write it out"))},
     ["no directory '~/x'", "write it out"], {"chdir": "~/x", **here()}),
    ("NC413", here(quotas=(Quota("/home01", 99, 100, 0, 0, holds=("log",)),)),
     ["1 B of 100 B left in the quota on /home01", "the job writes there: log"],
     here(quotas=(Quota("/home01", 97, 100, 0, 0),))),
    ("NC406", here(environment=Finding("--conda needs 'conda'", "--module NAME")),
     ["--conda needs 'conda'", "--module NAME"], here()),
    ("NC407", here(broken_texts=(("", "--setup", BROKEN),)),
     ["bash cannot read --setup, line 1: syntax error", "open quote"], here()),
    ("NC321", {"launcher": "mpirun", "signal": "TERM@60"},
     ["--signal=TERM@60", "mpirun does not pass TERM on", "use USR1 or USR2"],
     {"launcher": "mpirun", "signal": "10@60"}),
    ("NC321", {"launcher": "horovodrun-mpi", "nodes": 2, "signal": "B:INT@60"},
     ["horovodrun-mpi does not pass INT on"],
     {"launcher": "horovodrun-mpi", "nodes": 2, "signal": "B:INT", "setup": ("trap x INT",)}),
    ("NC321", {"launcher": "horovodrun", "nodes": 2, "signal": "USR2"},
     ["over ssh", "only the processes on the first node receive it", "--launcher srun"],
     {"launcher": "horovodrun", "nodes": 1, "signal": "USR2"}),
    (
        "NC305",
        {**SRUN, "script": "torchrun", "args": ("train.py", "--a b")},
        ["torchrun starts processes itself", "srun starts torchrun 2 times", "--launcher torchrun"]
        + ["train.py …"],
        {**SRUN, "script": "bin/torchrun", "args": ("--nnodes=2", "t.py")},
    ),
    ("NC305", {**SRUN, "script": "python3", "args": ("-u", "-m", "torch.distributed.run", "t.py")},
     ["--launcher torchrun t.py"],
     {**SRUN, "script": "python3", "args": ("t.py", "-m", "torch.distributed.run")}),
    ("NC305", {**SRUN, "script": "accelerate", "args": ("launch", "-m", "pkg")},
     ["--launcher accelerate PROGRAM"], {**SRUN, "script": "accelerate", "args": ("env",)}),
    ("NC305", {"nodes": 2, "launcher": "torchrun", "script": "mpirun", "args": ("t.py", "x" * 99)},
     ["--launcher mpirun t.py …"],
     {"nodes": 2, "launcher": "torchrun", "script": "t.py", "args": ("mpirun",)}),
    ("NC331", {"container": "x.sif", "venv": "y"}, ["--container and --venv"], {"venv": "y"}),
    ("NC333", {**PYXIS, "launcher": "mpirun"}, ["Pyxis", "mpirun", "--launcher srun"],
     {**PYXIS, "launcher": "srun"}),
    ("NC403", here(image=Finding("no image 'x.sif'")), ["no image 'x.sif'"], here()),
    ("NC405", {"partition": "arm", "modules": ("ARM_gcc", "cuda/12"), "where": ARM},
     ["begin with ARM_", "cuda/12"], {"partition": "arm", "modules": ("ARM_gcc",), "where": ARM}),
    (
        "NC310",
        {"nodes": 2, "gpus_per_node": 2, **here(copies=ALONE)},
        ["2 processes of train.py on each of 2 nodes, and train.py trains alone: 4 copies"]
        + ["from one GPU to several", "-N 1 --gpus-per-node 1", "--launcher torchrun"],
        {"nodes": 2, "gpus_per_node": 2, **here(copies="")},
    ),
    ("NC310", {"gpus_per_node": 2, **here(copies=NO_SIGN)},
     ["nothing in train.py shares the work: 2 copies", "or request --gpus-per-node 1;"],
     {"gpus_per_node": 2, **here(copies="")}),
    ("NC310", {"nodes": 1, "max_nodes": 3, "gpus_per_node": 1, **here(copies=ALONE)},
     ["3 copies would do the same", "request -N 1;"], here()),
    ("NC314", {"gpus_per_node": 2, **here(wandb_line=5)},
     ["train.py:5 calls wandb.init in each of the 2 processes", "let rank 0 alone"], here()),
    ("NC315", {"gpus_per_node": 2, "script": "uv", "args": ("run", "train.py")},
     ["'uv run' in each of 2 processes", "uv run --no-sync"],
     {"gpus_per_node": 2, "script": "uv", "args": ("run", "--no-sync", "train.py")}),
    ("NC315", {"array": "0-3", "setup": ("uv sync -q",)},
     ["'uv sync' in each task of the array"], {"setup": ("uv sync -q",)}),
    ("NC315", {"array": "0-3", "script": "uv", "args": ("run", "t.py"), **here()},
     ["'uv run' in each task"],
     {"array": "0-3", "script": "uv", "args": ("run", "t.py"),
      **here(variables=frozenset({"UV_NO_SYNC"}))}),
    ("NC401", here(program=Finding("'train.py' is no file")), ["'train.py' is no file"], here()),
    ("NC311",
     {"sbatch": ("export=NONE",), "env": (("HF_TOKEN", "hf_0123456789abcdefghijABCDEFGHIJ"),)},
     ["export=NONE keeps HF_TOKEN out"],
     {"sbatch": ("export=ALL",), "env": (("HF_TOKEN", "hf_0123456789abcdefghijABCDEFGHIJ"),)}),
    ("NC402", here(has_directives=True), ["train.py is a batch script"], here()),
    ("NC411", here(log=Finding("there is no 'logs'", "mkdir -p logs")),
     ["there is no 'logs'; the job would fail at start", "mkdir -p logs"], here()),
]  # fmt: skip


def said(code: str, case: Dict[str, Any]) -> str:
    found = [one for one in findings(**case) if one.code == code]
    return "\n".join(f"{one.message}\n{one.hint}" for one in found)


@pytest.mark.parametrize(("code", "bad", "words", "good"), CASES)
def test_boundary(code: str, bad: Dict[str, Any], words: List[str], good: Dict[str, Any]) -> None:
    text = said(code, bad)
    assert text
    for word in words:
        assert word in text
    if code == "NC202" and good == on(STRICT):
        good = on(STRICT, comment="field=misc;appl=pytorch")
    assert said(code, good) == ""


def test_every_rule_has_cases() -> None:
    # NC103, NC113, and NC5xx look at what Slurm says: test_live_rules.py has their cases.
    assert {code for code in CODES if code < "NC5"} - {"NC103", "NC113"} <= {
        code for code, *_ in CASES
    }


def test_a_setup_line_may_provide_the_program() -> None:
    missing = here(program=Finding("no file 'train.py'"))["here"]
    found = {one.code: one for one in findings(here=missing, setup=("cd ../other",))}["NC401"]
    assert found.severity == "warning"
    assert found.message == "no file 'train.py', unless a setup line provides it"


@pytest.mark.parametrize("code", sorted({code for code, *_ in CASES}))
def test_a_rule_can_be_switched_off(code: str) -> None:
    bad = next(dict(case) for name, case, *_ in CASES if name == code)
    where: model.Cluster = bad.pop("where", None) or cluster()
    site = dataclasses.replace(where.policy, rules_off=(code,))
    assert said(code, {**bad, "where": dataclasses.replace(where, policy=site)}) == ""


GREEDY: Dict[str, Any] = {
    "partition": "dim",
    "nodes": 999,
    "gpus_per_node": 8,
    "ntasks_per_node": 8,
    "cpus_per_task": 999,
    "gpu_type": "h200",
    "time_limit": "0",
    "launcher": "srun",
    "nodelist": "n[1-999]",
}


def test_figures_that_are_not_known_give_no_finding() -> None:
    """A catalog that only names its partitions refuses nothing by figures."""
    assert findings(**GREEDY) == ()
    cap = cluster(policy(cores=model.CorePolicy("cap")))
    assert findings(cap, **GREEDY) == ()
    alone = {"partition": "dim", "gpus_per_node": 8}
    assert findings(**alone) == (), "derived cores are not held against the user"


@pytest.mark.parametrize(
    ("imports", "words"),
    [
        (("torch",), "APPL can be pytorch, pytorch-ddp, pytorch-fsdp (the program imports torch)"),
        (("torch", "ddp"), "APPL can be pytorch-ddp, pytorch, pytorch-fsdp ("),
        (("numpy", "jax"), "APPL can be jax (the program imports jax)"),
        (("numpy",), "APPL can be jax, pytorch, pytorch-ddp, pytorch-fsdp, vasp, namd; 'neuronctl"),
        ((), "FIELD is one of nlp (natural language processing), misc; "),
    ],
)
def test_values_nearest_to_the_program_come_first(imports: Tuple[str, ...], words: str) -> None:
    names = ("jax", "pytorch", "pytorch-ddp", "pytorch-fsdp", "vasp", "namd", "misc")
    fields = {"field": ("nlp", "misc"), "appl": names}
    meanings = {"nlp": "natural language processing"}
    site = policy(comment=model.CommentPolicy(True, "fields", fields=fields, meanings=meanings))
    facts = dataclasses.replace(HERE, imports=imports)
    assert words in said("NC201", {**on(site), "here": facts})
    assert "; 'neuronctl partitions --comment' lists all" in said("NC201", on(site))
    wrong = said("NC202", on(site, field="nlp", appl="torch"))
    assert "did you mean pytorch or pytorch-ddp or pytorch-fsdp? 'neuronctl" in wrong


def test_another_cluster_in_the_environment() -> None:
    facts = dataclasses.replace(HERE, variables=frozenset({"SLURM_CLUSTERS"}))
    assert "unset SLURM_CLUSTERS" in said("NC313", {"here": facts})


def test_a_value_is_found_by_its_meaning() -> None:
    values = ("a1", "mse", "b2", "c3", "d4", "e5", "f6")
    meanings = {"mse": "materials science and engineering"}
    fields = {"field": values, "appl": ("vasp",)}
    site = policy(comment=model.CommentPolicy(True, "fields", fields=fields, meanings=meanings))
    told = said("NC202", on(site, field="Materials science", appl="vasp"))
    assert "did you mean mse (materials science and engineering)?" in told


def test_parts_of_a_comment_without_options_of_their_own() -> None:
    fields = {"project": ("a1",), "kind": ("x", "y")}
    site = policy(comment=model.CommentPolicy(True, "fields", fields=fields))
    assert 'add --comment="project=PROJECT;kind=KIND";' in said("NC201", on(site))


def test_severities() -> None:
    """Mistakes that Slurm would refuse or never start are errors; usual exceptions only warn."""
    warnings = {code for code, one in every_rule().items() if one.severity == "warning"}
    assert {"NC304", "NC321"} <= warnings
    assert not {"NC101", "NC111", "NC121", "NC141", "NC201", "NC211"} & warnings
    gone = Finding("no file 'gone'")
    missing = {"here": LocalFacts("kim", "/", program=gone, log=gone)}
    strict = findings(partition="old", gpus_per_node=1, **missing)
    assert [one.severity for one in strict] == ["error", "error"]
    reviewed = findings(partition="old", gpus_per_node=1, reviewed=True, **missing)
    assert {one.severity for one in reviewed} == {"warning"}


def test_advice_and_observations_warn() -> None:
    """An error only where somebody says that Slurm enforces it, or Slurm itself does."""
    evidence = {"policy.forbidden_options": "advice", "policy.cores": "observation (gpu, 2026)"}
    site = dataclasses.replace(cluster(STRICT), evidence=evidence)
    places = {
        model.path_key(("toy", *path)): [0, 1]
        for path in (
            ("policy", "cores", "rule"),
            ("policy", "forbidden_options", "mem"),
            ("evidence", "policy.cores"),
            ("evidence", "policy.forbidden_options"),
        )
    }
    plan = plan_of(site, gpus_per_node=1, cpus_per_task=9, mem="8G", time_limit="1")
    catalog = model.Catalog({"toy": site}, "toy", ("toy.yaml",), places)
    found = {one.code: one for one in apply_rules(RuleContext(plan, catalog, HERE))}
    expected = [("NC132", "note", "observation (gpu, 2026)"), ("NC211", "warning", "advice")]
    for code, severity, source in expected:
        assert (found[code].severity, found[code].doubtful) == (severity, True)
        assert found[code].source == f"toy.yaml:1: {source}"
    assert "should not be used" in found["NC211"].message
    assert found["NC201"].severity == "error"
    # Slurm's own figure.
    slurm = model.Citation("Slurm itself", by_slurm=True)
    sources = {("policy", "cores", "rule"): slurm}
    context = RuleContext(plan, catalog, HERE, sources=sources)
    found = {one.code: one for one in apply_rules(context)}
    assert found["NC132"].severity == "error"


@pytest.mark.parametrize("batch_script", [False, True])
@pytest.mark.parametrize(
    "name", ["a_partition_of_nobody", "amd_a100", "v100", "A100", "h200", None]
)
def test_an_unknown_partition_gets_one_line_of_suggestions(
    name: Optional[str], batch_script: bool
) -> None:
    catalog = load()
    made = plan_of(catalog.cluster("neuron"), partition=name, gpus_per_node=1)
    context = RuleContext(made, catalog, NOWHERE, batch_script=batch_script)
    (found,) = (finding for finding in apply_rules(context) if finding.code == "NC101")
    assert found.hint and len(f"  hint: {found.hint}") <= 80
