"""The command line as a process of its own, by a fork of one that has imported it.

The start of Python and its imports are most of what a short command takes, and the tests run
some two thousand outside a sandbox and a thousand inside. ``python forks.py FD`` answers on that
listening socket.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pkgutil
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import neuronctl
from neuronctl.cli import program
from neuronctl.judgement import ask


@dataclass(frozen=True)
class Command:
    """``neuronctl ARGV``. patience: the seconds that the gate waits for Slurm, if not the usual."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    input: Optional[str] = None
    timeout: float = 600
    patience: Optional[float] = None


class Forks:
    """A server, and the commands that it becomes.

    before, env: the words that run it elsewhere, and its environment there.
    """

    def __init__(
        self, address: str, before: Sequence[str] = (), env: Optional[Mapping[str, str]] = None
    ) -> None:
        self._address = address
        program = Path(__file__).read_text(encoding="utf-8")  # which may not be to be seen there
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(self._address)
            listening.listen(64)
            number = listening.fileno()
            self._server = subprocess.Popen(
                [*before, sys.executable, "-c", program, str(number)], pass_fds=[number], env=env
            )

    def close(self) -> None:
        """End the server; a command that still runs goes on."""
        self._server.terminate()
        self._server.wait()

    def run(self, command: Command) -> subprocess.CompletedProcess[str]:
        """Run it as :func:`subprocess.run` would, with its output as text."""
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as errors,
            socket.socket(socket.AF_UNIX) as call,
        ):
            given.write((command.input or "").encode())
            given.seek(0)
            words = json.dumps(
                [list(command.argv), dict(command.env), str(command.cwd), command.patience]
            ).encode()
            call.settimeout(command.timeout)
            call.connect(self._address)
            socket.send_fds(
                call,
                [len(words).to_bytes(8, "big")],
                [given.fileno(), out.fileno(), errors.fileno()],
            )
            call.sendall(words)
            try:
                code = _number(call)
            except socket.timeout:  # the end of the call ends the command
                raise subprocess.TimeoutExpired(list(command.argv), command.timeout) from None
            texts: List[str] = []
            for stream in (out, errors):
                stream.seek(0)
                texts.append(stream.read().decode())
            return subprocess.CompletedProcess(["neuronctl", *command.argv], code, *texts)


def start(command: Command) -> subprocess.CompletedProcess[str]:
    """The same, by a start of Python, whose own variables count."""
    assert command.patience is None
    return subprocess.run(
        [sys.executable, "-m", "neuronctl", *command.argv],
        stdin=subprocess.DEVNULL if command.input is None else None,
        input=command.input,
        capture_output=True,
        text=True,
        cwd=command.cwd,
        env=command.env,
        timeout=command.timeout,
    )


def _number(call: socket.socket) -> int:
    data = _exactly(call, 8)
    return int.from_bytes(data, "big", signed=True)


def _exactly(call: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = call.recv(size - len(data))
        if not more:
            raise EOFError("the server of neuronctl has ended")
        data += more
    return data


Commands = Dict[int, Tuple[int, socket.socket]]
"""Process and call of each command that runs, by a descriptor that is ready once it has ended."""


def _serve(listening: socket.socket) -> None:
    """Fork for each call, for as long as the tests run."""
    for module in pkgutil.walk_packages(neuronctl.__path__, "neuronctl."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    commands: Commands = {}
    while True:
        calls = [call for _, call in commands.values()]
        ready = select.select([listening, *calls, *commands], [], [])[0]
        _settle(commands, ready)
        if listening in ready:
            process, call = _begin(listening, calls)
            commands[os.pidfd_open(process)] = process, call


def _settle(commands: Commands, ready: Sequence[object]) -> None:
    """Tell the exit codes of the commands that ended; kill those for which nobody waits."""
    for descriptor, (process, call) in list(commands.items()):
        if call in ready:  # the other side has closed it
            os.kill(process, signal.SIGKILL)
        if call in ready or descriptor in ready:
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            with contextlib.suppress(OSError):
                call.sendall(code.to_bytes(8, "big", signed=True))
            call.close()
            os.close(descriptor)
            del commands[descriptor]


def _begin(listening: socket.socket, calls: Sequence[socket.socket]) -> Tuple[int, socket.socket]:
    """Take a call, and fork its command; return the process and the call. calls: the others."""
    call, _ = listening.accept()
    size, standard, _, _ = socket.recv_fds(call, 8, 3)
    words = json.loads(_exactly(call, int.from_bytes(size, "big")))
    process = os.fork()
    if process == 0:
        for other in (listening, call, *calls):
            other.close()
        _become(*words, standard)
    for descriptor in standard:
        os.close(descriptor)
    return process, call


def _become(
    argv: List[str],
    env: Mapping[str, str],
    cwd: str,
    patience: Optional[float],
    standard: Sequence[int],
) -> Any:
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
        os.close(descriptor)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    random.seed()
    if patience is not None:
        ask.TIMEOUT = patience
    sys.argv = ["neuronctl", *argv]
    code: Any = 1
    try:
        program()
    except SystemExit as end:
        code = end.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    _serve(socket.socket(fileno=int(sys.argv[1])))
