"""Recipes of servers: which file counts, what is wrong with one, and the job that it makes."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, Optional, Tuple

import pytest

from neuronctl.catalog.loader import load as load_catalog
from neuronctl.cli.serve import _Progress
from neuronctl.common.errors import TemplateError, UsageError
from neuronctl.launch import launchers
from neuronctl.serving import recipes, server_state
from neuronctl.serving.server_job import make_place, plan_server
from neuronctl.serving.server_state import BY_SLURM, ENDED, Note, connect, parse_note
from neuronctl.slurm.job_id import JobId
from neuronctl.submission.planned_job import plan_job
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.lookup import Found

GOOD = "title: mine\ncommand: run it\nready: ask /\n"
SSHD = """#!/bin/bash
if [ "$1" = -t ]; then ! grep -q PerSourcePenalties "$3"; exit; fi
cat "${@: -1}"
"""
OPTIONS = {"partition": "amd_a100nv_8", "gpus_per_node": "1", "time": "10"}


def script_of(recipe: str, words: Any, options: Dict[str, Any], catalog: str = "") -> str:
    return plan_server(recipes.load(recipe), words, plan_with(options, catalog or None))[0].script


def plan_with(options: Dict[str, Any], catalog: Optional[str] = None) -> Any:
    return lambda more: plan_job(
        {**options, "launcher": more.get("launcher")},
        body=more["body"],
        ask_slurm=False,
        catalog_file=catalog,
    )


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's directory of recipes; the site's is beside it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(launchers, "SITE_DIRECTORY", str(tmp_path / "etc"))
    directory = tmp_path / "config" / "neuronctl" / "templates" / "recipes"
    directory.mkdir(parents=True)
    (tmp_path / "etc" / "recipes").mkdir(parents=True)
    return directory


def test_the_users_recipe_comes_before_the_sites_and_the_shipped_one(
    own: Path, tmp_path: Path
) -> None:
    shipped = recipes.load("jupyter")
    site = tmp_path / "etc" / "recipes" / "jupyter.yaml"
    site.write_text(GOOD.replace("mine", "the site's"))
    assert recipes.load("jupyter").title == "the site's" != shipped.title
    (own / "jupyter.yaml").write_text(GOOD)
    assert recipes.load("jupyter").title == "mine"
    assert {"jupyter", "code", "ssh"} <= {*recipes.names()}


@pytest.mark.parametrize(
    "text, message",
    [
        (GOOD + "comand: x\n", ":4: unknown key 'comand'"),
        ("title: x\nready: x\n", ":1: key 'command' is missing"),
        ("title: x\ncommand: [a, b]\nready: x\n", ":2: 'command' is not text"),
        (GOOD + "needs: 7\n", ":4: 'needs' is not text"),
        (GOOD + "open: yes\n", ":4: open: must be true or false"),
        (GOOD + "ready-within: soon\n", ":4: ready-within: "),
        (GOOD + "guard: none\n", ":4: guard: must be own or gate, not 'none'"),
        ("- a\n", ":1: "),
    ],
)
def test_what_is_wrong_is_named_with_its_line(own: Path, text: str, message: str) -> None:
    (own / "bad.yaml").write_text(text)
    with pytest.raises(TemplateError, match=f"bad.yaml{message}".replace(".", r"\.")):
        recipes.load("bad")


def test_a_file_that_others_can_write_is_not_read(own: Path) -> None:
    (own / "open.yaml").write_text(GOOD)
    (own / "open.yaml").chmod(0o666)
    with pytest.raises(TemplateError, match="other users can write it"):
        recipes.load("open")


@pytest.mark.parametrize("name", ["nosuch", "../recipes/mine", "", "."])
def test_an_unknown_name_is_told_those_that_there_are(own: Path, name: str) -> None:
    (own / "mine.yaml").write_text(GOOD)
    with pytest.raises(UsageError) as caught:
        recipes.load(name)
    assert "mine" in caught.value.hint


def test_the_users_words_reach_the_server_as_typed(own: Path) -> None:
    (own / "mine.yaml").write_text(GOOD)
    words = ["it's", "--port={port}", "$HOME", "", "a b"]
    script = script_of("mine", words, OPTIONS)
    assert "#SBATCH --job-name=mine\n" in script
    assert """set -- "it's" --port="$PORT" '$HOME' '' 'a b'\n""" in script
    assert script.index("/main.py") < script.index("set -- ")


def test_a_recipe_may_name_its_launcher_and_lines_before(own: Path) -> None:
    (own / "mine.yaml").write_text(GOOD + "launcher: srun\nsetup: export A=$PORT\n")
    script = script_of("mine", [], OPTIONS)
    assert script.index("/main.py") < script.index("\nexport A=$PORT\n")
    assert script.index("\nexport A=$PORT\n") < script.index("\nsrun ")


def test_the_program_is_checked_before_it_runs(own: Path, tmp_path: Path) -> None:
    (own / "mine.yaml").write_text(GOOD)
    job, settings = plan_server(recipes.load("mine"), [], plan_with(OPTIONS))
    make_place(settings)
    script = job.script
    lines = script[script.index("program=") : script.index("\numask ")]
    begin = lines.replace("exec python3", "exec echo python3")
    program = next(tmp_path.glob("state/neuronctl/serve/*/server-*"))
    assert stat.S_IMODE(program.stat().st_mode) == 0o700
    env = {"SLURM_JOB_ID": "7", "PATH": os.environ["PATH"]}
    started = subprocess.run(["bash", "-c", begin], env=env, capture_output=True, text=True)
    assert re.search(r"/main\.py run bash\n", started.stdout), started.stderr
    (program / "gate.py").write_text("changed")
    refused = subprocess.run(["bash", "-c", begin], env=env, capture_output=True, text=True)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "as it was" in refused.stderr


@pytest.mark.parametrize(
    ("recipe", "options", "most"),
    [
        *((name, OPTIONS, 35) for name in ("code", "http", "jupyter", "tensorboard")),
        ("ollama", OPTIONS, 35),
        ("vllm", OPTIONS, 37),  # with the check of an empty list of GPUs
        ("ssh", OPTIONS, 60),
        ("ray", OPTIONS, 60),
    ],
)
def test_scripts_are_short(
    own: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    recipe: str,
    options: Dict[str, str],
    most: int,
) -> None:
    key = tmp_path / "id.pub"
    key.write_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFs kim\n")
    words = {"http": ["serve", "{port}"], "ollama": ["m"], "vllm": ["m"], "ssh": [str(key)]}
    monkeypatch.setattr(shutil, "which", lambda name, path: name)
    script = script_of(recipe, words.get(recipe, []), options)
    assert len(script.splitlines()) <= most
    assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0


def test_a_program_that_the_environment_lacks_is_named_before_sbatch(
    own: Path, tmp_path: Path
) -> None:
    (own / "mine.yaml").write_text(GOOD + "needs: label-studio-42\n")
    recipe = recipes.load("mine")
    for options in (OPTIONS, {**OPTIONS, "venv": str(tmp_path)}):
        with pytest.raises(UsageError, match="there is no 'label-studio-42' in "):
            plan_server(recipe, [], plan_with(options))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "label-studio-42").touch(0o755)
    script = script_of("mine", [], {**OPTIONS, "venv": str(tmp_path)})
    assert "\nrun it\n" in script


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("", ["no.pub"], "there is no file 'no.pub'"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\n", ["key"], "no public key in key"),
        ("", [], "no public key in ~/.ssh/authorized_keys"),
    ],
)
def test_a_key_is_there_before_sbatch(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: Any, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    Path("key").write_text(text)
    with pytest.raises(UsageError, match=message):
        plan_server(recipes.load("ssh"), words, plan_with(OPTIONS))


def test_a_recipe_says_when_it_must_be_ready_and_that_it_is_open(own: Path) -> None:
    (own / "mine.yaml").write_text(GOOD + "ready-within: 2m\nopen: true\n")
    recipe = recipes.load("mine")
    assert (recipe.ready_within, recipe.open) == (120, True)


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ("http", ()),
        ("http", ("python", "-m", "http.server")),
        ("vllm", ()),
        ("vllm", ("--max-model-len", "4096", "a/b")),
    ],
)
def test_a_server_without_its_word_is_refused_before_it_waits(
    own: Path, recipe: str, words: Tuple[str, ...]
) -> None:
    with pytest.raises(UsageError, match="is not named") as caught:
        plan_server(recipes.load(recipe), words, plan_with(OPTIONS))
    assert recipe in caught.value.hint


@pytest.mark.parametrize("option", [{"array": "0-1"}, {"until_done": True}])
def test_a_server_is_one_job(own: Path, option: Dict[str, Any]) -> None:
    (own / "mine.yaml").write_text(GOOD)
    with pytest.raises(UsageError, match="does not fit a server"):
        plan_server(recipes.load("mine"), [], plan_with({**OPTIONS, **option}))


def test_it_listens_on_loopback_where_one_may_log_in_to_the_nodes(
    own: Path, tmp_path: Path
) -> None:
    (own / "mine.yaml").write_text(GOOD)
    catalog = tmp_path / "catalog.yaml"
    catalog.write_text("clusters:\n  neuron:\n    login: {ssh_to_nodes: true}\n")
    options = {**OPTIONS, "cluster": "neuron"}
    settings = [
        plan_server(recipes.load("mine"), [], plan_with(options, file))[1]
        for file in (None, str(catalog))
    ]
    assert [one["address"] for one in settings] == ["", "127.0.0.1"]


def test_kernels_of_jupyter_have_sockets_that_only_their_user_can_open() -> None:
    command = recipes.load("jupyter").command
    assert "JUPYTER_RUNTIME_DIR=$TMPDIR " in command
    assert "--KernelManager.transport=ipc " in command


NOTE: Dict[str, Any] = {
    **{"job": 7, "run": 0, "name": "mine", "recipe": "ssh", "node": "gpu35"},
    **{"address": "127.0.0.1", "port": 31000, "localhost": "j7.localhost", "state": "answers"},
    **{"words": "", "user": "kim", "asked": 1, "since": 1, "token": "t0ken"},
    **{"pid": 7, "python": "", "program": ""},
    "values": {"host_key": "ssh-ed25519 AAAA"},
}


@pytest.mark.parametrize("name", ["x *", "*", "a\nHost *", "!x ?", "x\tUser root", "\u2028*"])
def test_a_jobs_name_makes_no_other_block_of_ssh(own: Path, name: str) -> None:
    note = parse_note(json.dumps({**NOTE, "name": name}).encode())
    assert note is not None
    text = connect(note, load_catalog().clusters["neuron"]).text
    hosts = [line for line in text.splitlines() if line.strip().startswith("Host ")]
    assert len(hosts) == 1 and re.fullmatch(r" *Host [\w.-]+", hosts[0], re.ASCII)


def test_sshd_limits_who_waits_as_far_as_it_can(own: Path, tmp_path: Path) -> None:
    """With a stand-in for an sshd that knows one of the two options of newer ones."""
    (tmp_path / "sshd").write_text(SSHD)
    (tmp_path / "sshd").chmod(0o755)
    (tmp_path / "key.pub").write_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFs kim\n")
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PORT": "31000"}
    env.update(FOLDER=str(tmp_path), SERVE=str(tmp_path), ADDRESS="127.0.0.1")
    command = f"set -- {tmp_path}/key.pub\n{recipes.load('ssh').command}"
    done = subprocess.run(["bash", "-c", command], env=env, capture_output=True, text=True)
    limits = ["LoginGraceTime 20", "MaxStartups 300:30:600", "PerSourceMaxStartups 200"]
    lines = done.stdout.splitlines()
    assert [line for line in lines if re.match("Login|MaxSt|PerS", line)] == limits, done.stderr


def test_rays_metrics_which_ask_for_no_token_are_off(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path: name)
    script = script_of("ray", [], {**OPTIONS, "nodes": "2"})
    exports = [line for line in script.splitlines() if line.startswith("export RAY_")]
    done = subprocess.run(
        ["bash", "-c", "\n".join([*exports, "env"])], capture_output=True, text=True
    )
    seen = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    names = ("RAY_enable_metrics_collection", "AUTOSCALER_METRIC_PORT", "DASHBOARD_METRIC_PORT")
    assert [seen.get(name) for name in names] == ["0", "99999", "99999"]


def test_a_server_that_has_ended_says_so_once() -> None:
    words = "http ended with exit code 137"
    note = Note(7, 0, "a", "http", "n1", "::1", 80, "j7.localhost", "ended", words, "kim", 9, 0)
    assert note.summary == words


@pytest.mark.parametrize("noted", [None, BY_SLURM, "it was idle"])
@pytest.mark.parametrize(
    ("state", "reason", "words"),
    [
        ("PENDING", "Resources", "http starts: waiting for free nodes or GPUs"),
        ("CANCELLED", "", "http ended: cancelled by you"),
        ("COMPLETING", "", "http ended: it was killed with its job"),
    ],
)
def test_the_list_says_what_slurm_says_of_a_server(
    noted: Optional[str], state: str, reason: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    record: Any = SimpleNamespace(draft=SimpleNamespace(script=server_state.MARK), rest={})
    record.array, record.log_path = None, lambda *_, **__: ""
    job = JobStatus(
        *(JobId(7), 7, "http", "kim", "p", state, reason, "squeue"),
        record=record,
        cancelled_by=os.getuid(),
    )
    monkeypatch.setattr(server_state, "mine", lambda **_: Found((job,)))
    note = (
        None if noted is None else Note(7, 0, "http", "http", "", "", 0, "", ENDED, noted, "", 0, 0)
    )
    monkeypatch.setattr(server_state, "read_note", lambda job: note)
    if noted is not None:
        words = "http starts: it waits for its next run" if state == "PENDING" else words
        words = f"http ended: {noted}" if noted != BY_SLURM and state != "PENDING" else words
    elif state == "COMPLETING":
        words = "http starts"
    assert [server.summary for server in server_state.find_all_servers()] == [words]


def test_connect_shows_only_the_end_of_a_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log").write_text("".join(f"line {number}\n" for number in range(1000)))
    watch: Any = SimpleNamespace(log_path=lambda err: str(tmp_path / "log"))
    _Progress(watch, only_end=True).show_log(last=True)
    shown = [f"  | line {number}" for number in range(990, 1000)]
    assert capsys.readouterr().err.splitlines() == shown
