"""The command line: parse, call, print.

``main`` is the one place where errors become messages and exit codes. No module is imported before
a command needs it: click alone takes longer than the start of Python itself.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import sys

from neuronctl.common.errors import (
    INTERRUPTED,
    SITE_FAULTS,
    NeuronctlError,
    PolicyError,
    UsageError,
)
from neuronctl.version import describe_version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, NoReturn, Optional

SECTIONS = {
    "Run a job": ("submit", "sbatch", "sweep", "generate", "init", "salloc", "run", "serve"),
    "Watch it": ("status", "why", "logs", "top", "attach", "wait", "cancel"),
    "Look back": ("history", "show", "report", "resubmit"),
    "Read scripts": ("check", "import", "explain"),
    "Look around": ("help", "brief", "partitions", "doctor"),
    "From your laptop": ("login", "logout", "pull"),
    "Set up": ("catalog", "config", "completion", "sandbox"),
}
"""The commands as the help lists them. ELSEWHERE names those that are not in their own module."""

ELSEWHERE = {
    "import": ("check", "import_"),
    "run": ("salloc", "run"),
    "sbatch": ("submit", "sbatch"),
    **{name: ("laptop", name) for name in ("login", "logout", "pull")},
    **{name: ("help", name) for name in ("explain", "completion")},
}
"""Module and function of the commands that are not ``command`` in the module of their name."""

HERE = (
    *("login", "logout", "help", "explain", "completion", "sandbox", "init", "check", "import"),
    *("catalog", "config", "doctor"),
)
"""Commands that run on this machine, even if the configuration sends the others to a cluster."""

SHELLS = ("attach", "salloc", "run", "config", "top")
"""Commands that hand the terminal to the program they start, or draw on the whole screen."""

COMMANDS = tuple(name for names in SECTIONS.values() for name in names)


def help_text() -> str:
    """Return what ``neuronctl --help`` prints; no command is imported for it."""
    parts = [_USAGE]
    for section, names in SECTIONS.items():
        parts += [f"\n{section}:\n", *(f"  {name:10}  {summary(name)}\n" for name in names)]
    return "".join(parts)


def summary(name: str) -> str:
    """Return the first line of a command's docstring; its own help begins with it."""
    module, function = ELSEWHERE.get(name, (name, "command"))
    file = os.path.join(os.path.dirname(__file__), f"{module}.py")
    with open(file, encoding="utf-8") as stream:
        docstring = stream.read().partition(f"\ndef {function}(")[2].split('"""')[1]
    return docstring.partition("\n")[0]


_USAGE = """\
Usage: neuronctl [OPTIONS] COMMAND [ARGS]...

  Submit, check, and track GPU training jobs on a Slurm cluster.

Options:
  --on NAME   Run the command on the cluster NAME, to which 'login' connected.
  --version   Show the version and exit.
  -h, --help  Show this message and exit.
"""


def main(argv: Optional[List[str]] = None) -> NoReturn:
    """Run a command line and end the process with one of the documented exit codes."""
    try:
        code = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()  # at exit, a failed flush would set Python's own exit code
    except NeuronctlError as error:
        code = _report(error)
    except (KeyboardInterrupt, EOFError):
        from neuronctl.cli.say import say

        say("\nneuronctl: interrupted")  # the terminal has written ^C into the line
        code = INTERRUPTED
    except Exception as error:
        code = _unexpected(error)
    for fault in SITE_FAULTS:
        sys.stderr.write(f"neuronctl: warning: {fault}; this file of your site's is not used\n")
    try:
        sys.stdout.flush()  # show what was printed before the error
    except OSError:
        from neuronctl.cli.say import drop_output

        drop_output()
    sys.exit(code)


def process() -> NoReturn:
    """Run ``program``, and end the process without freeing its objects, which takes long."""
    try:
        program()
    except SystemExit as end:
        if not isinstance(end.code, int):
            raise
        sys.stderr.flush()
        os._exit(end.code)


def program() -> NoReturn:
    """Prepare this process for ``main``, and run it."""
    # Imports make little garbage; frequent collections cost a tenth of the time.
    gc.set_threshold(100_000)
    _standard_streams()
    main()


def _run(words: List[str]) -> int:
    """Run the command line ``words``; return the exit code."""
    if "_NEURONCTL_COMPLETE" in os.environ:
        from neuronctl.cli.live_values import answer
        from neuronctl.cli.root import root

        return answer(root, os.environ["_NEURONCTL_COMPLETE"])
    if words[:1] in (["-h"], ["--help"]):
        sys.stdout.write(help_text())
        return 0
    if words[:1] == ["--version"]:
        sys.stdout.write(f"neuronctl, version {describe_version()}\n")
        return 0
    if not words:
        sys.stderr.write(help_text())
        return UsageError.exit_code
    has_remote_option = words[0].partition("=")[0] in ("--on", "--allow", "--open")
    default_cluster = "" if words[0] in HERE else _configured_remote()
    if default_cluster or has_remote_option:
        from neuronctl.cli.remote import run_remote

        return run_remote(words, default_cluster)
    return run_here(words)


def _configured_remote() -> str:
    """Return the cluster of $NEURONCTL_ON or the configuration's ``on:``; "" for this machine."""
    if "NEURONCTL_ON" in os.environ:
        return os.environ["NEURONCTL_ON"]
    from neuronctl.common.files import head
    from neuronctl.common.paths import config_files

    # Parsing takes long, and most files do not have this key.
    if not any(b"\non:" in b"\n" + head(file, 1 << 20) for file in config_files()):
        return ""
    from neuronctl.request.job_file import configured_remote

    return configured_remote()


def run_here(words: List[str]) -> int:
    """Run a command line on this machine; return the exit code."""
    if words[0] == "sbatch":  # click does not parse sbatch's command line
        from neuronctl.cli.sbatch import call

        return call(words[1:])
    from neuronctl.cli.root import invoke

    return invoke(words)


def _report(error: NeuronctlError) -> int:
    """Print an error, and the others that it carries, to standard error; return its exit code."""
    from neuronctl.cli.say import say

    for problem in (error, *error.others):
        message, hint = problem.message, problem.hint
        if isinstance(problem, PolicyError):
            from neuronctl.cli.korean import in_korean

            message, hint = in_korean(message, hint)
        say(f"neuronctl: {message}")
        if hint:
            say(f"  hint: {hint}")
    from neuronctl.common.console import asked_json, print_json

    if asked_json:
        data = {"code": error.exit_code, "message": error.message, "hint": error.hint}
        print_json("neuronctl.error/1", data)
    return error.exit_code


def _unexpected(error: Exception) -> int:
    """Report an error other than NeuronctlError, or a closed standard output; return the code."""
    from neuronctl.cli.say import drop_output

    if isinstance(error, BrokenPipeError):
        drop_output()
        return 0  # `neuronctl status | head`: the reader has seen enough
    if isinstance(error, OSError) and error.errno == errno.ENOSPC and not error.filename:
        drop_output()
        return _report(UsageError("cannot write standard output: no space left"))
    return _report_internal_error(error)


def _report_internal_error(error: Exception) -> int:
    """Write the traceback into a file, and print the error and that file; return the exit code."""
    import traceback

    from neuronctl.cli.say import say
    from neuronctl.common.error_details import write_error_details
    from neuronctl.common.secrets import hide_secrets

    say(f"neuronctl: internal error: {hide_secrets(f'{type(error).__name__}: {error}')}")
    details = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        path = write_error_details(details)
    except (OSError, NeuronctlError) as problem:
        say(f"  details: cannot be written: {problem}")
    else:
        home = os.path.expanduser("~") + "/"
        say(f"  details: {'~/' + path[len(home) :] if path.startswith(home) else path}")
        say("  please report this error to the maintainers of neuronctl, with that file")
    return NeuronctlError.exit_code


class _LossyStderr(io.FileIO):
    """Standard error that drops what cannot be written: its reader is gone, or the disk is full."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def _standard_streams() -> None:
    """Open missing standard streams, let stdout take any character, and stderr never fail."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    if isinstance(sys.stdout, io.TextIOWrapper):  # escape what the locale cannot print
        sys.stdout.reconfigure(errors="backslashreplace")
    raw = io.BufferedWriter(_LossyStderr(2, "w", closefd=False))
    sys.stderr = io.TextIOWrapper(
        raw,
        encoding="utf-8" if sys.stderr is None else sys.stderr.encoding,
        errors="backslashreplace",
        line_buffering=True,
    )
