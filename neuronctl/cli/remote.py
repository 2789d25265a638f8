"""``--on NAME``: the same command lines, run on a cluster over the connection of ``login``."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from neuronctl.cli import COMMANDS, HERE, SHELLS, run_here
from neuronctl.cli.say import notify, say
from neuronctl.common import errors
from neuronctl.common.console import print_json, printable
from neuronctl.common.errors import INTERRUPTED, ConnectionLostError, UsageError, did_you_mean
from neuronctl.common.files import read_private, write_private
from neuronctl.common.shell import join
from neuronctl.common.words import amount, counted
from neuronctl.remote.connection import Remote, check_name, find_remote, remotes_dir
from neuronctl.remote.session import Filter, run

_ANYWHERE = ("config", "doctor")
"""Of the commands that run here by default, those that --on NAME takes to the cluster."""

_SENDS = ("submit", "sweep", "serve", "generate", "sbatch", "salloc")
_ABOUT_JOBS = ("status", "retry", "cancel", "logs", "add", "rm", "connect", "list", "--list")
"""What follows ``sweep`` or ``serve`` and needs no project."""

_KILLED_THERE = 255  # ssh's exit code if a signal ended the command on the cluster
_UNSURE = {error.exit_code for error in (errors.SlurmUnavailableError, errors.RecordError)}
_UNSURE |= {INTERRUPTED, 128 + 9, 128 + 15}  # 9: KILL, 15: TERM
"""Exit codes after which a job may have been accepted."""

_KEPT = ("LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "COLORTERM", "NO_COLOR", "FORCE_COLOR")
"""Variables of this machine that a command on the cluster gets."""


class Call:
    """A command line for a cluster.

    allowed: the files of --allow. browse: whether --open is given. options: as click reads them; {}
    if they were not read. sends: whether the project is sent before. serves: whether a server
    answers in the end, to which a tunnel is opened. dry_folder: where a dry run finds the list of
    the project's files; "" until they are sent. waits: whether the command only waits, so that
    Ctrl-C may end it on the cluster, too. gives_job_code: whether the exit code is the job's.
    """

    def __init__(self, words: Sequence[str], allowed: Sequence[str], browse: bool) -> None:
        self.words = tuple(words)
        self.allowed = allowed
        self.browse = browse
        self.options = _read_options(words)
        self.command = words[0]
        subcommand = words[1] if len(words) > 1 else ""
        self.sends = self.command in _SENDS and subcommand not in _ABOUT_JOBS
        self.dry_folder = ""
        self.is_dry = self.command == "generate" or bool(self.options.get("dry_run"))
        lists = subcommand in ("list", "--list") or self.options.get("list_recipes")
        self.serves = self.command == "serve" and not (lists or self.is_dry)
        self.gives_job_code = bool(self.options.get("follow") or self.options.get("wait"))
        # The options of some commands, such as logs, have not been read.
        follows = not self.options and {"-f", "--follow", "--watch", "-w"}.intersection(words)
        is_wait = self.command in ("wait", "top", "serve")
        self.waits = bool(follows or is_wait or self.gives_job_code)


def run_remote(words: Sequence[str], configured: str) -> int:
    """Run a command line on the cluster that it or ``configured`` names; return the exit code."""
    words = list(words)
    on, allowed, browse = _take_options(words)
    if not words:
        raise UsageError("no command follows --on NAME", "see 'neuronctl --help'")
    if words[0] not in COMMANDS:
        raise UsageError(f"no such command '{words[0]}'", did_you_mean(words[0], COMMANDS))
    if not (on or configured):  # then only another of these options can have led here
        raise UsageError("--allow and --open need --on NAME before them")
    names = (on or configured).split(",")
    for name in names:
        check_name(name)
    is_local = words[0] in HERE and words[0] not in _ANYWHERE
    asks_help = len(words) > 1 and words[1] in ("--help", "-h")
    if is_local or asks_help or all(map(_is_here, names)):
        return run_here(words)
    call = Call(words, allowed, browse)
    if len(names) > 1:
        return _run_on_all(names, call)
    remote = find_remote(names[0])
    if call.command == "pull":
        from neuronctl.cli.laptop import bring

        return bring(remote, call.options["paths"])
    if call.command == "doctor":
        from neuronctl.cli.doctor import examine_remote

        return examine_remote(remote, _request(remote, call, words, tty=False, input=False))
    return _run_on(remote, call)


def _take_options(words: List[str]) -> Tuple[str, List[str], bool]:
    """Remove --on, --allow, and --open from the beginning of ``words``; return their values."""
    on = ""
    allowed: List[str] = []
    browse = False
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
            on = value
    return on, allowed, browse


def _is_here(name: str) -> bool:
    """Return True if this machine belongs to the cluster and no login has used the name."""
    if os.path.exists(os.path.join(remotes_dir(), f"{name}.json")):
        return False
    from neuronctl.slurm.process import installed

    if not installed():
        return False
    from neuronctl.catalog.loader import is_cluster, load
    from neuronctl.request.job_file import configured_cluster
    from neuronctl.slurm.conf import local_cluster

    local_names = (local_cluster() or "", configured_cluster() or "")
    if name.lower() in local_names:
        return True
    cluster = load().clusters.get(name)
    return cluster is not None and any(is_cluster(cluster, local) for local in local_names)


def _read_options(words: Sequence[str]) -> Mapping[str, Any]:
    """Return a command's options; {} if none of them matters here.

    Raises UsageError as the command would.
    """
    if words[0] not in ("submit", "resubmit", "generate", "serve", "sweep", "pull"):
        return {}
    import click

    from neuronctl.cli.root import explain_error, root

    try:
        with root.make_context("neuronctl", list(words)) as context:
            command = root.get_command(context, words[0])
            assert command is not None
            return command.make_context(words[0], list(words[1:]), parent=context).params
    except click.ClickException as error:
        raise explain_error(error, root, list(words)) from None


def _request(remote: Remote, call: Call, words: Sequence[str], **streams: Any) -> Dict[str, Any]:
    """Return what neuronctl on the cluster is sent, so that it runs ``words`` for this terminal.

    streams: tty, whether the command gets a terminal; input, whether it reads standard input.
    """
    from neuronctl.remote.project import find_project

    return {
        **find_project().request(remote, "run", name=remote.name, commands=list(COMMANDS)),
        # JSON cannot hold bytes that are not UTF-8.
        "words": [word.encode("utf-8", "surrogateescape").decode("latin-1") for word in words],
        "environment": _read_environment(),
        "waits": call.waits,
        "dry": call.dry_folder,
        **streams,
    }


def _read_environment() -> Dict[str, str]:
    """Return the variables with this terminal's language, width, and colors."""
    variables = {name: os.environ[name] for name in (*_KEPT, "COLUMNS") if name in os.environ}
    if os.isatty(1):
        variables["COLUMNS"] = str(os.get_terminal_size(1).columns or 80)
        if "NO_COLOR" not in os.environ:
            variables["FORCE_COLOR"] = "1"
    return variables


def _run_on(remote: Remote, call: Call) -> int:
    """Run a command line on a cluster, a submission with a key; return the exit code."""
    if call.sends:
        try:
            _send(remote, call)
        except (ConnectionLostError, KeyboardInterrupt):
            notify(f"'{call.command}' had not begun on {remote.name}: nothing was submitted")
            raise
    words, key_file = _add_key(remote, call)
    if call.serves:
        words = _with_json(words)
    tty = all(map(os.isatty, (0, 1, 2))) and call.command != "serve"
    takes_input = not tty and ("-" in call.words[1:] or _reads_script(call))
    request = _request(remote, call, words, tty=tty, input=takes_input)
    try:
        code = _run_request(remote, call, request, has_key=bool(key_file))
    except (ConnectionLostError, KeyboardInterrupt) as error:
        if isinstance(error, KeyboardInterrupt) and not key_file:
            raise
        raise _describe_loss(remote, call, error) from None
    # With the key file, the same command typed again submits no second job. Keep the file while it
    # is unknown whether the job was accepted; afterwards, the command means another job. With
    # --follow or --wait, the code counts as that of a job, which was then accepted.
    is_known = call.gives_job_code or code not in _UNSURE
    if key_file and is_known:
        with contextlib.suppress(FileNotFoundError):  # the same command ran at the same time
            os.unlink(key_file)
    return code


def _run_request(remote: Remote, call: Call, request: Mapping[str, Any], *, has_key: bool) -> int:
    """Run a request on a cluster, and show its output or open its server; return the exit code.

    has_key: whether it is a submission whose key is kept here. Raises ConnectionLostError, also if
    a signal ended such a submission there: Slurm may have accepted the job.
    """
    tty, takes_input = request["tty"], request["input"]
    session = run(remote, request, notify, tty=tty, takes_input=takes_input)
    if call.serves:
        from neuronctl.cli.tunnel import open_tunnel

        as_json = "--json" in call.words
        return open_tunnel(remote, session, as_json=as_json, browse=call.browse)
    code = session.show(raw=call.command in SHELLS)
    # With --follow or --wait, the code may be the job's own.
    if code == _KILLED_THERE and has_key and not call.gives_job_code:
        raise session.loss()
    return code


def _with_json(words: Sequence[str]) -> Tuple[str, ...]:
    """Return ``serve`` or ``serve connect`` with --json, so that its answer can be read here."""
    is_connect = len(words) > 1 and words[1] == "connect"
    name_length = 2 if is_connect else 1
    return (*words[:name_length], "--json", *words[name_length:])


def _reads_script(call: Call) -> bool:
    """Return True if sbatch reads the script from standard input."""
    if call.command != "sbatch":
        return False
    return not any(word.startswith("--wrap") or os.path.isfile(word) for word in call.words[1:])


def _send(remote: Remote, call: Call) -> None:
    """Send the project; for a dry run, send and print the list of its files."""
    from neuronctl.remote.project import find_project, send

    if not call.is_dry:
        send(remote, find_project(), call.allowed, notify)
        return
    # The cluster gets the text of the scripts, and only the names of the other files.
    scripts = (*call.words, "job.yaml")
    call.dry_folder, files = send(remote, find_project(), call.allowed, notify, scripts=scripts)
    for name, size in files:
        say(f"  {amount(size):>9}  {printable(name)}")
    total = f"{counted(len(files), 'file')}, {amount(sum(size for _, size in files))}"
    notify(f"would send {total} to {remote.name}; the script is made there without them")


def _add_key(remote: Remote, call: Call) -> Tuple[Tuple[str, ...], str]:
    """Return the words of a submission with --key, and the file that keeps the key.

    The file is kept until it is known whether the job was accepted, so that the same command typed
    again is the same submission. It is "" for other commands, and if the user gave a key.
    """
    if call.command not in ("submit", "resubmit") or call.is_dry or call.options.get("key"):
        return call.words, ""
    text = "\0".join([os.getcwd(), *call.words])
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:24]
    path = os.path.join(remotes_dir(), "pending", remote.name, digest)
    try:
        key = read_private(path).decode("ascii")
    except OSError:
        key = secrets.token_hex(12)
        write_private(path, key, sync=True)
    return (call.command, "--key", key, *call.words[1:]), path


def _describe_loss(remote: Remote, call: Call, error: BaseException) -> ConnectionLostError:
    """Return the error for a connection that was lost while a command ran."""
    name = remote.name
    message = getattr(error, "message", "interrupted")
    hint = getattr(error, "hint", "")
    if call.command in ("submit", "resubmit"):
        message += (
            f": it is not known whether the job was accepted; 'neuronctl --on {name} "
            "status' shows it, and typing the same again does not submit it twice"
        )
    elif call.command == "logs" and call.waits:
        message += f": following stopped; to continue: neuronctl --on {name} {join(call.words)}"
    elif call.sends or call.command == "cancel":
        message += f": it is not known whether '{call.command}' did its work"
    return ConnectionLostError(message, hint)


def _run_on_all(names: Sequence[str], call: Call) -> int:
    """Run a read-only command on several clusters; return the first exit code that is not 0."""
    from neuronctl.remote.host import write_all
    from neuronctl.remote.python_remote import read_answer, run_command

    if call.sends or call.command in (*SHELLS, "cancel", "pull", "doctor", "wait"):
        raise UsageError(f"{call.command} takes one cluster", f"--on {names[0]}")
    os.environ.update(_read_environment())
    with ThreadPoolExecutor(len(names)) as pool:
        results = list(pool.map(lambda name: run_command("--on", name, *call.words), names))
    if "--json" in call.words:
        answers = {name: read_answer(result) or None for name, result in zip(names, results)}
        print_json("neuronctl.remotes/1", {"remotes": answers})
    for name, result in zip(names, results):
        if result.stdout and "--json" not in call.words:
            shown = Filter(not os.isatty(1)).shown(result.stdout.encode(), final=True)
            write_all(f"{name}:\n".encode() + shown)
        for line in result.stderr.splitlines():
            say(line)
    return next((result.returncode for result in results if result.returncode), 0)
