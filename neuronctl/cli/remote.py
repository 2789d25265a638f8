"""``--on NAME``: the same command lines, run on a cluster over the connection of ``login``."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from neuronctl.cli import COMMANDS, HERE, SHELLS, run_here
from neuronctl.cli.say import notify, say
from neuronctl.common.errors import (
    INTERRUPTED,
    ConnectionLostError,
    NeuronctlError,
    UsageError,
    did_you_mean,
)
from neuronctl.common.frozen import dataclass, replace
from neuronctl.common.shell import join
from neuronctl.remote.connection import Remote, check_name, find_remote, remotes_dir

_ANYWHERE = ("config", "doctor")
"""Of the commands that run here by default, those that --on NAME takes to the cluster."""

_SENDS = ("submit", "sweep", "serve", "generate", "sbatch", "salloc")
_ABOUT_JOBS = ("status", "retry", "cancel", "logs", "add", "connect", "list", "--list")
"""What follows ``sweep`` or ``serve`` and needs no project."""


@dataclass(frozen=True)
class Call:
    """A command line for a cluster. options: of a command that submits, as click reads them."""

    words: Tuple[str, ...]
    allowed: Tuple[str, ...]
    options: Mapping[str, Any]
    browse: bool = False

    @property
    def command(self) -> str:
        return self.words[0]

    @property
    def sends(self) -> bool:
        return self.command in _SENDS and not {*self.words[1:2]} & {*_ABOUT_JOBS}

    @property
    def is_dry(self) -> bool:
        return self.command == "generate" or bool(self.options.get("dry_run"))

    @property
    def serves(self) -> bool:
        """Whether a server answers in the end, to which a tunnel is opened."""
        lists = {"list", "--list"} & {*self.words[1:2]} or self.options.get("list_recipes")
        return self.command == "serve" and not (lists or self.is_dry)

    @property
    def waits(self) -> bool:
        """Whether Ctrl-C ends it there, and loses nothing."""
        follows = {"-f", "--follow", "--watch", "-w"} & set(self.words)
        named = self.options.get("follow") or self.options.get("wait")
        return bool(named or (follows and not self.options)) or self.command in (
            "wait",
            "top",
            "serve",
        )


def run_remote(words: Sequence[str], configured: str) -> int:
    """Run a command line on the cluster that it names, or ``configured`` does; the exit code."""
    named, call = _split(list(words))
    if not (named or configured):
        raise UsageError("--allow and --open need --on NAME before them")
    command, names = call.command, (named or configured).split(",")
    own = command in HERE and command not in _ANYWHERE
    if own or {"--help", "-h"} & {*call.words[1:2]} or all(map(_is_here, names)):
        return run_here(list(call.words))
    for name in names:
        check_name(name)
    call = replace(call, options=_options(call.words))
    if len(names) > 1:
        return _run_on_all(names, call)
    remote = find_remote(names[0])
    if command == "pull":
        from neuronctl.cli.pull import bring

        return bring(remote, call.words[1:])
    if command == "doctor":
        from neuronctl.cli.doctor import examine_remote

        return examine_remote(remote, _request(remote, call))
    return _run_on(remote, call)


def _split(words: List[str]) -> Tuple[str, Call]:
    """Return the names after --on, and the call that follows it."""
    named, allowed, browse = "", [], False
    while words and words[0].partition("=")[0] in ("--on", "--allow", "--open"):
        option, sign, value = words.pop(0).partition("=")
        if option == "--open":
            browse = True
            continue
        if not sign:
            value = words.pop(0) if words else ""
        if not value:
            raise UsageError(f"{option} needs a value", "such as --on neuron, or --allow .env")
        if option == "--allow":
            allowed.append(value)
        else:
            named = value
    if not words:
        raise UsageError("no command follows --on NAME", "see 'neuronctl --help'")
    if words[0] not in COMMANDS:
        raise UsageError(f"no such command '{words[0]}'", did_you_mean(words[0], COMMANDS))
    return named, Call(tuple(words), tuple(allowed), {}, browse)


def _is_here(name: str) -> bool:
    """Return True if this machine belongs to the cluster, and no login has used the name."""
    from neuronctl.slurm.process import installed

    if not installed() or os.path.exists(os.path.join(remotes_dir(), f"{name}.json")):
        return False
    from neuronctl.catalog.loader import is_cluster, load
    from neuronctl.request.job_file import configured_cluster
    from neuronctl.slurm.conf import local_cluster

    here = (local_cluster() or "", configured_cluster() or "")
    cluster = load().clusters.get(name)
    return name.lower() in here or (
        cluster is not None and any(is_cluster(cluster, one) for one in here)
    )


def _options(words: Sequence[str]) -> Mapping[str, Any]:
    """Return the options of a command that submits; raises UsageError as the command does."""
    if words[0] not in ("submit", "resubmit", "generate", "serve", "sweep"):
        return {}
    import click

    from neuronctl.cli.root import root

    try:
        with root.make_context("neuronctl", list(words)) as context:
            command = root.get_command(context, words[0])
            assert command is not None
            return command.make_context(words[0], list(words[1:]), parent=context).params
    except click.ClickException as error:
        raise UsageError(error.format_message(), f"see 'neuronctl {words[0]} --help'") from None


def _request(remote: Remote, call: Call, **more: Any) -> Dict[str, Any]:
    """Return what the other side needs for a command line, on this terminal."""
    from neuronctl.remote.place import request

    environment = {name: os.environ[name] for name in ("COLUMNS",) if name in os.environ}
    if os.isatty(1):
        environment["COLUMNS"] = str(os.get_terminal_size(1).columns or 80)
        if "NO_COLOR" not in os.environ:
            environment["FORCE_COLOR"] = "1"
    more.update(commands=list(COMMANDS), environment=environment, waits=call.waits)
    return request(remote, call.words, **more)


def _run_on(remote: Remote, call: Call) -> int:
    from neuronctl.remote.payload import run

    more: Dict[str, Any] = {}
    if call.sends:
        more = _send(remote, call)
    pending = _Pending(remote, call)
    tty = all(map(os.isatty, range(3))) and call.command != "serve"
    takes_input = not tty and ("-" in call.words[1:] or _reads_script(call))
    words = pending.words
    if call.serves:
        at = 2 if words[1:2] == ("connect",) else 1
        words = (*words[:at], "--json", *words[at:])
    request = _request(remote, replace(call, words=words), tty=tty, input=takes_input, **more)
    try:
        session, _ = run(remote, request, notify, tty=tty, takes_input=takes_input)
        if call.serves:
            from neuronctl.cli.tunnel import open_tunnel

            as_json = "--json" in call.words
            return open_tunnel(remote, session, as_json=as_json, browse=call.browse)
        code = session.show(raw=call.command in SHELLS)
    except (ConnectionLostError, KeyboardInterrupt) as error:
        if isinstance(error, KeyboardInterrupt) and not pending.path:
            raise
        raise ConnectionLostError(*_loss(remote, call, error)) from None
    pending.settle(code)
    return code


def _reads_script(call: Call) -> bool:
    """Return True if sbatch reads the script from standard input."""
    wraps = any(word.startswith("--wrap") for word in call.words)
    return call.command == "sbatch" and not wraps and not any(map(os.path.isfile, call.words[1:]))


def _send(remote: Remote, call: Call) -> Dict[str, Any]:
    """Send the project, or for a dry run its list; returns what the request says of it."""
    from neuronctl.remote.place import find_project
    from neuronctl.remote.project import send, send_draft

    project = find_project()
    if not call.is_dry:
        send(remote, project, call.allowed, notify)
        return {}
    from neuronctl.common.console import printable
    from neuronctl.common.words import amount, counted

    folder, files = send_draft(remote, project, call.words, call.allowed, notify)
    for name, size in files:
        say(f"  {amount(size):>9}  {printable(name)}")
    total = f"{counted(len(files), 'file')}, {amount(sum(size for _, size in files))}"
    notify(f"would send {total} to {remote.name}; judged there in an empty copy")
    return {"dry": folder}


class _Pending:
    """The key of a submission, kept until its answer is known: typed again, it is the same one."""

    def __init__(self, remote: Remote, call: Call) -> None:
        self.words, self.path = call.words, ""
        if call.command not in ("submit", "resubmit") or call.is_dry or call.options.get("key"):
            return
        import hashlib
        import secrets

        from neuronctl.common.files import read_private, write_private

        text = "\0".join([os.getcwd(), *call.words])
        digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:24]
        self.path = os.path.join(remotes_dir(), "pending", remote.name, digest)
        try:
            key = read_private(self.path).decode("ascii")
        except OSError:
            key = secrets.token_hex(12)
            write_private(self.path, key, sync=True)
        self.words = (call.command, "--key", key, *call.words[1:])
        self._job_code = bool(call.options.get("follow") or call.options.get("wait"))

    def settle(self, code: int) -> None:
        """Forget the key, unless the other side does not know itself what became of the job."""
        if self.path and (self._job_code or code not in (6, 9, INTERRUPTED, 137, 143)):
            with contextlib.suppress(FileNotFoundError):  # the same was typed twice
                os.unlink(self.path)


def _loss(remote: Remote, call: Call, error: BaseException) -> Tuple[str, str]:
    """Return what to say of a connection that was lost while a command ran."""
    name = remote.name
    message = getattr(error, "message", "interrupted")
    hint = getattr(error, "hint", "") or f"neuronctl login {name}"
    again = f"neuronctl --on {name} {join(call.words)}"
    if call.command in ("submit", "resubmit"):
        return (
            f"{message}: it is not known whether the job was accepted; 'neuronctl --on {name} "
            "status' shows it, and typing the same again does not submit it twice",
            hint,
        )
    if call.command == "logs" and call.waits:
        return f"{message}: following stopped; to continue: {again}", hint
    if call.sends or call.command == "cancel":
        return f"{message}: it is not known whether '{call.command}' did its work", hint
    return f"{message}", hint


def _run_on_all(names: Sequence[str], call: Call) -> int:
    """Run a command that changes nothing on several clusters; the first exit code but 0."""
    import json
    from concurrent.futures import ThreadPoolExecutor

    if call.sends or call.command in (*SHELLS, "cancel", "pull", "doctor", "wait"):
        raise UsageError(f"{call.command} takes one cluster", f"--on {names[0]}")
    with ThreadPoolExecutor(len(names)) as pool:
        answers = list(pool.map(lambda name: _captured(name, call), names))
    if "--json" in call.words:
        from neuronctl.common.console import print_json

        parts = {
            name: json.loads(said) if said else None for name, (said, _) in zip(names, answers)
        }
        print_json("neuronctl.remotes/1", {"remotes": parts})
    for name, (said, error) in zip(names, answers):
        if "--json" not in call.words:
            _print(f"{name}:\n".encode() + said)
        if isinstance(error, NeuronctlError):
            notify(error.message)
    codes = [getattr(error, "exit_code", error) for _, error in answers]
    return next((code for code in codes if code), 0)


def _captured(name: str, call: Call) -> Tuple[bytes, Any]:
    """Return what a command prints on a cluster, and its exit code or error."""
    from neuronctl.remote.payload import run

    said: List[bytes] = []
    try:
        remote = find_remote(name)
        session, _ = run(remote, _request(remote, call), notify)
        code = session.show(raw=False, write=said.append)
        return b"".join(said), code
    except NeuronctlError as error:
        return b"".join(said), error


def _print(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
