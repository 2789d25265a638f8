"""Run neuronctl on a cluster over the open connection, and know whether it came to its end.

What start-up files print comes before a random mark on each stream; a last mark carries the exit
code. Without that one, the connection was lost. ssh's own 255 is never taken for a job's.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import re
import secrets
import select
import shlex
import subprocess
import threading
import time
from typing import Any, Callable, List, Optional, Tuple

from neuronctl.common.errors import ConnectionLostError, NotConnectedError
from neuronctl.remote.connection import Remote, Tell, lost, require, session

_SIGN = b"\036"
"""Begins a mark; no start-up file prints it."""

_PATIENCE = 10.0
"""Seconds of silence before the first mark, after which the user hears of it."""

_TOO_LONG = 60.0
"""Seconds of silence before the first mark, after which nobody waits any longer."""

_SHELL = (
    "case $SHELL in */bash|*/zsh) s=$SHELL;; *) s=sh;; esac; "
    # As a login does: jobs inherit PATH and modules from it. The trap is not the program's.
    'exec "$s" -lc "$0" x "$@"'
)
_BODY = 'trap : INT; "$@"; printf "\\036%s end %d\\n" "$MARK" $?'


class Session:
    """One command on the cluster; ``state`` is the first word that it said of itself.

    Raises NotConnectedError if it has surely not begun.
    """

    def __init__(
        self,
        remote: Remote,
        argv: List[str],
        mark: str,
        tell: Tell,
        *,
        tty: bool = False,
        takes_input: bool = False,
        errors: Optional[Callable[[bytes], object]] = None,
    ) -> None:
        require(remote)
        self.remote, self._tell, self._held = remote, tell, b""
        self._mark = _SIGN + mark.encode() + b" "
        self.code: Optional[int] = None
        self._noise = b""
        self._write_error = errors or (lambda data: os.write(2, data))
        script = f"MARK={mark}; export MARK; {_SHELL}"
        words = ["exec", "sh", "-c", shlex.quote(script), shlex.quote(_BODY)]
        command = " ".join([*words, *map(shlex.quote, argv)])
        self._refusal = f"{remote.socket}.{mark}"
        # Without a terminal, Ctrl-C must not reach ssh: closing its input asks for the end there.
        self.process = subprocess.Popen(
            session(remote, command, self._refusal, tty=tty),
            stdin=None if tty or takes_input else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if tty else subprocess.PIPE,
            start_new_session=not tty,
        )
        self._errors = threading.Thread(target=self._read_errors, daemon=True)
        if not tty:
            self._errors.start()
        try:
            self.state = self._begin()
        except BaseException:
            self.loss()
            raise

    # -------------------------------------------------------------- the protocol

    def read_line(self) -> bytes:
        """Return a line of the other side; raises ConnectionLostError at its end."""
        while b"\n" not in self._held:
            self._fill()
        line, _, self._held = self._held.partition(b"\n")
        if line.startswith(self._mark):
            raise self.loss()
        return line

    def read(self, size: int) -> bytes:
        """Return at most so many bytes, and at least one."""
        if not self._held:
            self._fill()
        data, self._held = self._held[:size], self._held[size:]
        return data

    def write(self, data: bytes) -> None:
        """Send bytes to the other side; raises ConnectionLostError."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except OSError:
            raise self.loss() from None

    def read_json(self) -> Any:
        """Return the next line as data; what is no JSON object raises ConnectionLostError."""
        try:
            data = json.loads(self.read_line())
        except ValueError:
            raise self.loss() from None
        if not isinstance(data, dict):
            raise self.loss()
        return data

    def finish(self) -> int:
        """Return the exit code once all is said; raises ConnectionLostError."""
        self.close_input()
        while self.code is None:
            self._pass_on()
        self._end()
        return self.code

    def show(self, *, raw: bool, write: Optional[Callable[[bytes], object]] = None) -> int:
        """Pass what it prints to standard output until its end; returns the exit code.

        raw: without a look at what could steer the terminal. write: takes it in place of standard
        output. Raises ConnectionLostError.
        """
        write = write or self._write_out
        out = Filter(raw or not os.isatty(1))
        while self.code is None:
            try:
                write(out.shown(self._pass_on()))
            except KeyboardInterrupt:
                if self.process.stdin is None or self.process.stdin.closed:
                    self.process.kill()
                    raise
                self.close_input()  # what it says about that still comes back
        write(out.shown(b"", final=True))
        self._end()
        return self.code

    def close_input(self) -> None:
        """Say that nothing more will come: a command that only waits is then interrupted."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()

    def loss(self) -> ConnectionLostError:
        """Return the error for an end without the last mark."""
        self.process.kill()
        self._end()
        return ConnectionLostError(f"the connection to {self.remote.name} was lost")

    # -------------------------------------------------------------- below it

    def _begin(self) -> str:
        begun, told = time.monotonic(), False
        assert self.process.stdout is not None
        while True:
            at = self._held.find(self._mark)
            if at >= 0 and b"\n" in self._held[at:]:
                line, _, self._held = self._held[at + len(self._mark) :].partition(b"\n")
                return line.strip().decode("ascii", "replace")
            waited = time.monotonic() - begun
            if not select.select([self.process.stdout], [], [], 0.5)[0]:
                if waited > _TOO_LONG:
                    raise self._silence()
                if waited > _PATIENCE and not told:
                    told = True
                    self._tell(f"{self.remote.name} has not answered for {waited:.0f} s")
                continue
            try:
                self._fill()
            except ConnectionLostError:
                if os.path.exists(self._refusal):
                    os.unlink(self._refusal)
                    raise lost(self.remote) from None
                if self.process.returncode == 255:
                    raise  # it may have begun
                raise self._no_python() from None

    def _silence(self) -> ConnectionLostError:
        name = self.remote.name
        return ConnectionLostError(
            f"{name} did not begin the command within {_TOO_LONG:.0f} s",
            f"if 'ssh {name}' works, look for 'exec' in your ~/.bash_profile or ~/.profile there; "
            f"otherwise: neuronctl logout {name}, then neuronctl login {name}",
        )

    def _no_python(self) -> NotConnectedError:
        said = self._noise.decode("utf-8", "replace").strip().split("\n")[-1]
        return NotConnectedError(
            f"the shell of {self.remote.name} ended before neuronctl began: {said or 'no message'}",
            "look at your start-up files there (~/.bashrc, ~/.bash_profile)",
        )

    def _fill(self) -> None:
        assert self.process.stdout is not None
        data = os.read(self.process.stdout.fileno(), 1 << 18)
        if not data:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5)
            raise self.loss()
        self._held += data

    def _pass_on(self) -> bytes:
        """Return what may be shown of what has come, if anything; notes the exit code."""
        at = self._held.find(self._mark)
        if at >= 0 and b"\n" in self._held[at:]:
            line, _, rest = self._held[at + len(self._mark) :].partition(b"\n")
            match = re.fullmatch(rb"end ([0-9]{1,3})\r?", line)
            if match is None:
                raise self.loss()
            data, self._held, self.code = self._held[:at], rest, int(match[1])
            return data
        at = self._held.find(_SIGN, max(0, len(self._held) - len(self._mark) - 32))
        cut = len(self._held) if at < 0 else at
        data, self._held = self._held[:cut], self._held[cut:]
        if not data:
            self._fill()
        return data

    def _write_out(self, data: bytes) -> None:
        while data:
            data = data[os.write(1, data) :]

    def _end(self) -> None:
        self.close_input()
        self.process.wait()
        if self._errors.is_alive():
            self._errors.join(2)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        begun, out = False, Filter(not os.isatty(2))
        while data := os.read(self.process.stderr.fileno(), 65536):
            if not begun:
                self._noise = (self._noise + data)[-65536:]
                at = self._noise.find(self._mark)
                if at < 0 or b"\n" not in self._noise[at:]:
                    continue
                begun, data = True, self._noise[at:].partition(b"\n")[2]
            with contextlib.suppress(OSError):
                self._write_error(out.shown(data))


class Filter:
    """Takes from a terminal's text what could do more than to show it.

    Colors, and moving the cursor, stay; commands to the terminal (titles, the clipboard, questions
    that it answers by typing) become visible text.
    """

    _STEERS = re.compile(
        "\x1b(?!\\[[0-9;:]*[A-HJKSTXdfm]|\\[\\?(?:25|1049|2004)[hl])"
        "|[\0-\6\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
    )

    def __init__(self, raw: bool) -> None:
        self._raw = raw
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._held = ""

    def shown(self, data: bytes, *, final: bool = False) -> bytes:
        """Return what of it can be shown now; the start of an escape is kept for the next call."""
        if self._raw:
            return data
        text = self._held + self._decoder.decode(data, final)
        at = text.rfind("\x1b", max(0, len(text) - 20))
        open_end = at >= 0 and re.fullmatch("\x1b(?:\\[\\??[0-9;:]*)?", text[at:]) and not final
        cut = at if open_end else len(text)
        text, self._held = text[:cut], text[cut:]
        text = self._STEERS.sub(lambda match: ascii(match[0])[1:-1], text)
        return text.encode("utf-8", "surrogateescape")


_FIND = (
    "for p in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9; do "
    'w=$(command -v "$p") && "$w" -IS -c "$0" "$1" "$w" && exit 0; done; '
    'printf "\\036%s none %s\\n" "$1" "$(python3 -V 2>&1 | tail -n 1)"'
)
_PYTHON = (
    "import os, sys; sys.exit(1) if sys.version_info < (3, 9) else os.write(1, "
    "('\\036%s python %d.%d %s %s\\n' % (sys.argv[1], sys.version_info[0], sys.version_info[1], "
    "os.uname()[4], sys.argv[2])).encode())"
)


def find_python(remote: Remote, tell: Tell) -> Tuple[str, str, str]:
    """Return version, machine, and path of a Python there that runs neuronctl.

    Raises NotConnectedError if there is none.
    """
    mark = secrets.token_hex(8)
    found = Session(remote, ["sh", "-c", _FIND, _PYTHON, mark], mark, tell)
    found.finish()
    match = re.fullmatch(r"python (3\.[0-9]+) ([\w-]+) (/[^\0-\x1f]*)", found.state)
    if match is None:
        said = found.state.partition(" ")[2].strip() or "no answer"
        raise NotConnectedError(
            f"{remote.name} has no Python 3.9 or newer in PATH; python3 is: {said}",
            "load a module that has one in your ~/.bash_profile there (module avail python)",
        )
    return match[1], match[2], match[3]
