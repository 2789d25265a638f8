"""The job of a server: its recipe and the user's words as shell text, and the files it needs."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import shutil
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from neuronctl.common.datatypes import asdict, replace
from neuronctl.common.errors import UsageError
from neuronctl.common.files import head, open_own_directory, write_private
from neuronctl.common.paths import data_path
from neuronctl.common.shell import Shell, join, quote
from neuronctl.rendering.template_environment import gpu_reader
from neuronctl.request.job import Body, JobRequest
from neuronctl.request.typed_options import check_utf8
from neuronctl.serving.recipes import OWN, Recipe
from neuronctl.serving.server_state import MARK, servers_dir
from neuronctl.submission.planned_job import PlannedJob

_PROGRAM_KEYS = ("name", "guard", "ready", "alive", "used", "open", "ready_within")
"""The fields of a recipe that the program beside the server gets."""


def plan_server(
    recipe: Recipe,
    words: Sequence[str],
    plan: Callable[[Mapping[str, Any]], PlannedJob],
    *,
    idle: int = 0,
) -> Tuple[PlannedJob, Settings]:
    """Plan the job of a server; return it, and the settings for make_place().

    words: what the user typed after the recipe. plan: plans a job with the options that it gets.
    idle: seconds without use after which the server ends; 0: not given. Raises UsageError.
    """
    check_utf8(words)
    _check_words(recipe, words)
    server_words = _find_files(recipe, words) if recipe.files else words
    launcher = {"launcher": recipe.launcher} if recipe.launcher else {}
    job = plan({"body": Body(_make_body(recipe, server_words), recipe.file), **launcher})
    request = job.plan.request
    for name in ("array", "until_done"):
        if getattr(request, name):
            option = name.replace("_", "-")
            raise UsageError(f"--{option} does not fit a server: it is one job", "leave it out")
    _check_program(recipe, request)

    values = asdict(recipe)
    settings = {name: values[name] for name in _PROGRAM_KEYS}
    settings["address"] = "127.0.0.1" if job.plan.cluster.login.ssh_to_nodes else ""
    settings["idle"] = idle or job.plan.idle or 0

    # The job ends if one of the user's lines fails, but not for those of _make_setup().
    setup = [*request.setup, "set +e"] if request.setup else []
    setup += _make_setup(recipe, settings)
    if job.plan.launches[0].wrapping.srun:
        setup.append("unset TMPDIR  # a container of Pyxis has a /tmp of its own")
    planned = replace(job.plan, request=replace(request, setup=tuple(setup), idle=None))
    return replace(job, plan=planned), settings


def _check_words(recipe: Recipe, words: Sequence[str]) -> None:
    """Raise UsageError if the user has not named what the recipe needs, such as a model."""
    if not recipe.words:
        return
    hint = f"neuronctl serve [OPTIONS] {recipe.name} {recipe.words}"
    if not words or (recipe.model and words[0].startswith("-")):
        raise UsageError(f"{recipe.name}: what it serves is not named", hint)
    if "{port}" in recipe.words and not any("{port}" in word for word in words):
        raise UsageError(f"{recipe.name}: {{port}} is not named", hint)


def _find_files(recipe: Recipe, words: Sequence[str]) -> Sequence[str]:
    """Return the paths of the files to serve: those named, or those of the recipe's patterns.

    Raises UsageError if one is missing, or none contains what the recipe needs.
    """
    files = list(words)
    if not files:
        for pattern in recipe.files.split():
            files += sorted(glob.glob(os.path.expanduser(pattern)))
    for file in files:
        if not os.path.isfile(file):
            raise UsageError(f"{recipe.name}: there is no file '{file}'", "name one that exists")
    texts = [head(file, 1 << 20).decode("utf-8", "replace") for file in files]
    if not any(re.search(recipe.holds, text) for text in texts):
        shown = " ".join(files) or recipe.files
        raise UsageError(
            f"{recipe.name}: no public key in {shown}",
            "copy ~/.ssh/id_ed25519.pub of your machine here, and name it after the recipe",
        )
    return [os.path.abspath(file) for file in files]


def _check_program(recipe: Recipe, request: JobRequest) -> None:
    """Raise UsageError if the job's environment is known and lacks the server's program."""
    sets_up_environment = request.container or request.conda or request.modules or request.setup
    if not recipe.needs or sets_up_environment:
        return
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    shown_place = "PATH"
    if request.venv is not None:
        shown_place = os.path.join(os.path.expanduser(request.resolve_path(request.venv)), "bin")
        path = shown_place + os.pathsep + path
    if shutil.which(recipe.needs, path=path) is None:
        raise UsageError(
            f"{recipe.name}: there is no '{recipe.needs}' in {shown_place}",
            "name the environment that has it with --venv, --conda, --module, or --container",
        )


def make_place(settings: Settings) -> None:
    """Write the program of a server's job into the private directory of servers."""
    place = servers_dir()
    files = _read_program(settings)
    try:
        os.close(open_own_directory(place))
        for name, text in files.items():
            write_private(os.path.join(place, _name_program(files), name), text)
    except OSError as error:
        raise UsageError(
            f"cannot write {place}: {error.strerror}",
            "set XDG_STATE_HOME to a directory that you own",
        ) from None


Settings = Mapping[str, Any]
"""For the program beside a server: _PROGRAM_KEYS, its address ("": the node's), and idle."""


def _read_program(settings: Settings) -> Dict[str, str]:
    """Return the files of the program beside a server, in the order in which bash lists them."""
    place = data_path("programs/server")
    names = sorted(name for name in os.listdir(place) if name.endswith(".py"))
    texts = {name: head(os.path.join(place, name), 1 << 20).decode("utf-8") for name in names}
    recipe = json.dumps(settings, indent=1) + "\n"
    return {**texts, "recipe.json": recipe, "gpus.sh": gpu_reader()}


def _name_program(files: Mapping[str, str]) -> str:
    """Return the name of the program's directory, ``server-DIGEST``, by its content."""
    return "server-" + hashlib.sha256("".join(files.values()).encode()).hexdigest()[:32]


def _make_body(recipe: Recipe, words: Sequence[str]) -> str:
    """Return the shell text that starts the server, in the container if there is one."""
    # "$PORT" must not be quoted as text: quote what is around each {port}.
    quoted_words = []
    for word in words:
        parts = [quote(part) if part else "" for part in word.split("{port}")]
        quoted_words.append(Shell('"$PORT"'.join(parts) or "''"))
    beginning = "set +e  # the recipe looks at exit codes itself"
    if quoted_words:
        beginning += f"\nset -- {join(quoted_words)}"
    if recipe.guard == OWN:
        return f"{beginning}\n{recipe.command}"
    gate = """python3 -EsB "$PROGRAM/main.py" gate bash -c 'server "$@"' server "$@\""""
    return f"{beginning}\nserver() {{\n{recipe.command.rstrip()}\n}}\nexport -f server; {gate}"


def _make_setup(recipe: Recipe, settings: Settings) -> List[str]:
    """Return the lines that the batch shell runs before the launch."""
    umask = os.umask(0o077)  # which returns the old one
    os.umask(umask)
    program = _name_program(_read_program(settings))
    _, _, digest = program.partition("-")
    return [
        "# serve: its program runs this script again with PORT and TOKEN, and watches the server.",
        f"program={quote(os.path.join(servers_dir(), program))}",
        f'[[ $(cat "$program"/*.{{py,json,sh}} | sha256sum) == {digest}* ]] ||',
        '    { echo "serve: $(hostname -s) cannot read $program as it was" >&2; exit 1; }',
        f'[ "${MARK}" = "$SLURM_JOB_ID" ] || exec python3 -EsB "$program/main.py" run "$0"',
        f"umask {umask:04o}  # yours; the log was made with 0077, so that nobody else reads it",
        *recipe.setup.rstrip("\n").split("\n"),
    ]
