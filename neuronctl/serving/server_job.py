"""The job of a server: its recipe and the user's words become shell text for plan_job()."""

from __future__ import annotations

import os
from typing import Any, Callable, List, Mapping, Optional, Sequence

from neuronctl.common.errors import UsageError
from neuronctl.common.files import open_own_directory
from neuronctl.common.frozen import replace
from neuronctl.common.paths import data_path
from neuronctl.common.shell import Shell, join, quote
from neuronctl.launch.launchers import template_text
from neuronctl.request.job import Body
from neuronctl.request.typed_options import check_utf8
from neuronctl.serving.connection import folders
from neuronctl.serving.recipes import OWN, Recipe
from neuronctl.submission.planned_job import PlannedJob


def plan_server(
    recipe: Recipe,
    words: Sequence[str],
    plan: Callable[[Mapping[str, Any]], PlannedJob],
    *,
    idle: Optional[int] = None,
) -> PlannedJob:
    """Plan the job of a server. words: the user's, for it. plan: plans one with these options."""
    check_utf8(words)
    words = words[1:] if words[:1] == ("--",) else words
    has_port = any("{port}" in word for word in words)
    named = bool(words) and not (recipe.model and words[0].startswith("-"))
    if recipe.words and not (named and has_port >= ("{port}" in recipe.words)):
        lacks = "{port}" if named else "what it serves"
        hint = f"neuronctl serve [OPTIONS] {recipe.name} {recipe.words}"
        raise UsageError(f"{recipe.name}: {lacks} is not named", hint)
    launcher = {"launcher": recipe.launcher} if recipe.launcher else {}
    job = plan({"body": Body(_body(recipe, words), recipe.file), **launcher})
    request = job.plan.request
    for name in ("array", "until_done"):
        if getattr(request, name):
            option = name.replace("_", "-")
            raise UsageError(f"--{option} does not fit a server: it is one job", "leave it out")
    on_loopback = job.plan.cluster.login.ssh_to_nodes
    setup = (*request.setup, "", *_setup(recipe, idle, "127.0.0.1" if on_loopback else ""))
    model = (recipe.model, *words) if recipe.model and words else ()
    planned = replace(job.plan, request=replace(request, setup=setup), model=model)
    return replace(job, plan=planned)


def make_place() -> None:
    """Make the directory in which jobs note how their servers are reached."""
    try:
        os.close(open_own_directory(folders()))
    except OSError as error:
        raise UsageError(
            f"cannot write {folders()}: {error.strerror}",
            "set XDG_STATE_HOME to a directory that you own",
        ) from None


def _body(recipe: Recipe, words: Sequence[str]) -> str:
    """Return the shell text that starts the server, in the container if there is one."""
    lines = [f"set -- {join([_with_port(word) for word in words])}".rstrip()]
    if recipe.needs:
        program = quote(recipe.needs)
        lines += [
            "PATH=$PATH:/usr/sbin",
            f"command -v {program} >/dev/null || "
            f'{{ echo "preflight: $NODE: no program on PATH: "{program} >&2; exit 127; }}',
        ]
    if recipe.guard == OWN:
        return "\n".join([*lines, recipe.command])
    gate = template_text(data_path("templates/gate.py"), own=False)
    return "\n".join(
        [
            *lines,
            f"cat >\"$FOLDER/gate.py\" <<'END OF GATE'\n{gate}END OF GATE",
            f"server() {{\n{recipe.command.rstrip()}\n}}",
            "export -f server",
            """python3 "$FOLDER/gate.py" bash -c 'server "$@"' server "$@\"""",
        ]
    )


def _with_port(word: str) -> Shell:
    """Return a word of the user's as a script spells it, the port in place of ``{port}``."""
    return Shell(
        '"$PORT"'.join(quote(part) if part else "" for part in word.split("{port}")) or "''"
    )


def _setup(recipe: Recipe, idle: Optional[int], address: str) -> List[str]:
    """Return the lines that the batch shell runs before the launch."""
    file = data_path("templates/serve.sh")
    values = {
        "SERVE": folders(),
        "RECIPE": recipe.name,
        "ADDRESS": address,
        "IDLE": "" if idle is None else idle,
    }
    assignments = " ".join(f"{name}={quote(str(value))}" for name, value in values.items())
    ready = "\n".join(f"    {line}" for line in recipe.ready.strip("\n").split("\n"))
    text = f"{assignments}\nready() {{\n{ready}\n}}\n{template_text(file, own=False)}{recipe.setup}"
    return text.rstrip("\n").split("\n")
