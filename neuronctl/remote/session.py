"""Run neuronctl on a cluster over the open connection, and know whether it came to its end.

What start-up files print comes before a random mark on each stream. ssh's exit code is that of the
command there; only 255 may also mean a lost connection.
"""

from __future__ import annotations

import binascii
import codecs
import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import threading
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

from neuronctl.common.errors import ConnectionLostError, NeuronctlError, NotConnectedError
from neuronctl.common.files import read_private
from neuronctl.common.words import amount
from neuronctl.remote.connection import Remote, Tell, check_owner, is_alive, not_connected
from neuronctl.remote.host import write_all
from neuronctl.remote.payload import payload
from neuronctl.version import __version__

_BEGINNING, _SILENCE = 60, 120
"""Seconds for the first mark, and for an answer or for taking what is sent."""

_SHELL = (
    "case $SHELL in */bash|*/zsh) s=$SHELL;; *) s=sh;; esac; "
    # As after a login: jobs inherit PATH and modules from it.
    'exec "$s" -lc \'exec "$@"\' x "$@"'
)


class Session:
    """One command on the cluster. state: what follows the mark in its first line: ``begin``.

    program, arguments: its command line, with the mark between them. meanwhile: is called while the
    command starts. Raises NotConnectedError if the command has surely not begun.
    """

    def __init__(
        self,
        remote: Remote,
        program: Sequence[str],
        arguments: Sequence[str] = (),
        *,
        tty: bool = False,
        takes_input: bool = False,
        meanwhile: Optional[Callable[[], object]] = None,
    ) -> None:
        check_owner(remote.socket)
        if not os.path.exists(remote.socket):
            raise not_connected(remote.name)
        self.remote = remote
        self._noise = b""  # of start-up files, on standard error
        self._is_silent = False
        mark = os.urandom(8).hex()
        self._mark = f"\036{mark} ".encode()
        words = ["sh", "-c", _SHELL, "x", *program, mark, *arguments]
        # Without a connection, ssh prints the mark, and the command cannot begin.
        options = ("ControlMaster=no", "BatchMode=yes", f"ProxyCommand=sh -c 'echo {mark} >&2'")
        option_words = [f"-o{option}" for option in (*options, "LogLevel=ERROR")]
        ssh = ["ssh", "-F", "none", "-S", remote.socket, *option_words, "-tt" if tty else "-T"]
        # Without a terminal, Ctrl-C must not reach ssh; closing its input ends the command there.
        self.process = subprocess.Popen(
            [*ssh, "--", "cluster", f"exec {shlex.join(words)}"],
            stdin=None if tty or takes_input else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=not tty,
            bufsize=1 << 18,
        )
        signal.signal(signal.SIGALRM, self._give_up)
        assert self.process.stdout is not None
        self.output: Any = self.process.stdout
        self._errors = threading.Thread(target=self._pass_errors, daemon=True)
        self._errors.start()
        try:
            if meanwhile is not None:
                meanwhile()
            self.state = self._begin(mark)
        except BaseException:
            self.loss()
            raise

    def write(self, data: bytes) -> None:
        """Send bytes to the other side; raise ConnectionLostError."""
        assert self.process.stdin is not None
        self._end_after(_SILENCE)
        try:
            self.process.stdin.write(data)
        except OSError:
            raise self.loss() from None

    def read(self, size: int) -> bytes:
        """Read up to ``size`` bytes from the other side; none at the end of its output."""
        self._end_after(_SILENCE)
        return bytes(self.output.read1(size))

    def read_json(self) -> Dict[str, Any]:
        """Return the next answer; raise the error that it names, or ConnectionLostError."""
        self._end_after(_SILENCE)
        try:
            if self.process.stdin is not None:
                self.process.stdin.flush()
            data = dict(json.loads(self.output.readline()))
        except (OSError, TypeError, ValueError):
            raise self.loss() from None
        if "error" in data:
            self.finish()
            error = NeuronctlError(str(data["error"]), str(data.get("hint", "")))
            code: Any = data.get("code")
            is_error_code = isinstance(code, int) and 0 < code < 126  # 126 and above are a shell's
            error.exit_code = code if is_error_code else 1
            raise error
        return data

    def finish(self) -> int:
        """Drop the output until its end, and return the exit code; raise ConnectionLostError."""
        self._end_after(_SILENCE)
        return self.show(raw=True, write=lambda data: None)

    def show(self, *, raw: bool, write: Optional[Callable[[bytes], object]] = None) -> int:
        """Pass the command's output to standard output until its end; return its exit code.

        raw: whether text that could steer the terminal passes unchanged. write: gets the output
        instead; None: standard output. Raises ConnectionLostError.
        """
        write = write or write_all
        out = Filter(raw or not os.isatty(1))
        data = b" "  # anything but the empty read at the end of the output
        while data:
            try:
                data = self.output.read1(1 << 16)
                write(out.shown(data, final=not data))
            except KeyboardInterrupt:
                # The first Ctrl-C closes the input, which interrupts the command there. The next,
                # or the first if no input can be closed, ends ssh.
                if self.process.stdin is None or self.process.stdin.closed:
                    self.process.kill()
                    raise
                self.close_input()  # what the command then prints still comes back
        code = self.end()  # below 0 if ssh was killed
        if code < 0 or (code == 255 and not is_alive(self.remote.socket)):
            raise self.loss()
        return code

    def close_input(self) -> None:
        """Close the input; a command that only waits is then interrupted."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()

    def end(self) -> int:
        """Wait for the end of ssh, and return its exit code."""
        self.close_input()
        code = self.process.wait()
        signal.alarm(0)
        self._errors.join(2)
        self.output.close()
        return code

    def loss(self) -> ConnectionLostError:
        """End ssh, and return the error for a lost connection."""
        self.process.kill()
        self.end()
        name = self.remote.name
        if self._is_silent:
            return ConnectionLostError(
                f"no answer from {name} for {_SILENCE} s",
                "try again later (its file system may hang), or connect anew: "
                f"neuronctl logout {name}, then neuronctl login {name}",
            )
        hint = f"neuronctl login {name}"
        return ConnectionLostError(f"the connection to {name} was lost", hint)

    def _end_after(self, seconds: int) -> None:
        """Let _give_up end ssh after these seconds, unless the next call or end() comes first."""
        signal.alarm(seconds)

    def _give_up(self, *_: object) -> None:
        """End ssh after a silence; readers and writers then see an end."""
        self._is_silent = True
        self.process.kill()

    def _begin(self, mark: str) -> str:
        """Return what follows the mark on standard output; raise an error if it does not come.

        If ssh cannot open a session, its ProxyCommand prints the mark on standard error.
        """
        name = self.remote.name
        self._end_after(_BEGINNING)
        while line := self.output.readline():
            _, sign, state = line.partition(self._mark)
            if sign:
                signal.alarm(0)
                return str(state.strip().decode("ascii", "replace"))
        code = self.end()
        if self._is_silent:
            raise ConnectionLostError(
                f"{name} did not begin the command within {_BEGINNING} s",
                f"if 'ssh {name}' works, look for 'exec' in your ~/.bash_profile or ~/.profile "
                f"there; otherwise: neuronctl logout {name}, then neuronctl login {name}",
            )
        has_no_session = mark.encode() in self._noise
        if has_no_session and not is_alive(self.remote.socket):
            raise not_connected(name)
        if has_no_session:
            raise NotConnectedError(
                f"nothing was done: {name} refuses one more session over the connection",
                "wait until your other commands end; a site may allow only one (MaxSessions 1)",
            )
        if code < 0 or code == 255:
            raise self.loss()  # the command may have begun
        lines = self._noise.decode("utf-8", "replace").strip().split("\n")
        raise NotConnectedError(
            f"the shell of {name} ended before neuronctl began: {lines[-1] or 'no message'}",
            "look at your start-up files there (~/.bashrc, ~/.bash_profile)",
        )

    def _pass_errors(self) -> None:
        """Keep standard error up to the mark in ``_noise``; show the rest."""
        pipe: Any = self.process.stderr
        out = Filter(not os.isatty(2))
        with pipe:
            while line := pipe.readline(1 << 16):
                if self._mark in line:
                    break
                self._noise = (self._noise + line)[-65536:]
            while data := pipe.read1(1 << 16):
                with contextlib.suppress(OSError):
                    os.write(2, out.shown(data))


class Filter:
    """Makes text harmless for a terminal.

    Colors, and moving the cursor, stay; commands to the terminal (titles, the clipboard, questions
    that it answers by typing) become visible text.
    """

    # Matches an escape, unless it colors, moves the cursor, erases, or switches the cursor, the
    # screen, or bracketed paste; other control characters; and those that change the direction.
    _STEERS = re.compile(
        "\x1b(?!\\[[0-9;:]*[A-HJKSTXdfm]|\\[\\?(?:25|1049|2004)[hl])"
        "|[\0-\6\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
    )

    def __init__(self, raw: bool) -> None:
        self._raw = raw
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._held = ""

    def shown(self, data: bytes, *, final: bool = False) -> bytes:
        """Return the data that can be shown now; keep the start of an escape for the next call."""
        if self._raw:
            return data
        text = self._held + self._decoder.decode(data, final)
        escape_at = text.rfind("\x1b", max(0, len(text) - 20))  # escapes are shorter
        # The escape has no last letter yet.
        is_cut = escape_at >= 0 and re.fullmatch("\x1b(?:\\[\\??[0-9;:]*)?", text[escape_at:])
        end = escape_at if is_cut and not final else len(text)
        self._held = text[end:]
        shown = self._STEERS.sub(lambda match: ascii(match[0])[1:-1], text[:end])  # without quotes
        return shown.encode("utf-8", "surrogateescape")


# Shell text: the first Python in PATH that is new enough prints what _PYTHON says of it.
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


def find_python(remote: Remote) -> Tuple[str, str, str]:
    """Return version, machine, and path of a Python there that runs neuronctl.

    Raises NotConnectedError if there is none.
    """
    session = Session(remote, ["sh", "-c", _FIND, _PYTHON])
    session.finish()
    match = re.fullmatch(r"python (3\.[0-9]+) ([\w-]+) (/[^\0-\x1f]*)", session.state)
    if match is None:
        _, _, shown_version = session.state.partition(" ")  # "none Python 3.6.8"
        answer = shown_version.strip() or "no answer"
        raise NotConnectedError(
            f"{remote.name} has no Python 3.9 or newer in PATH; python3 is: {answer}",
            "load a module that has one in your ~/.bash_profile there (module avail python)",
        )
    version, machine, path = match.groups()
    return version, machine, path


_PLACE = """\
import os, sys
mark, digest, request = sys.argv[1:]
cache = os.environ.get("XDG_CACHE_HOME", "")
cache = cache if os.path.isabs(cache) else os.path.expanduser("~/.cache")
base = os.path.join(cache, "neuronctl", "remote")
place = os.path.join(base, digest)
"""

_INSTALL = (
    _PLACE
    + """\
import hashlib, io, shutil, tempfile, time, zipfile
os.write(1, b"\\036%s begin\\n" % mark.encode())
os.write(2, b"\\036%s begin\\n" % mark.encode())
data = sys.stdin.buffer.read(int(request))
if hashlib.sha256(data).hexdigest() != digest:
    sys.exit("neuronctl: what arrived is damaged: it is not used")
os.umask(0o077)
os.makedirs(base, exist_ok=True)
if os.stat(base).st_uid != os.getuid() or os.stat(base).st_mode & 0o022:
    sys.exit("neuronctl: others can write to %s: nothing is put there" % base)
aside = tempfile.mkdtemp(dir=base)
try:
    zipfile.ZipFile(io.BytesIO(data)).extractall(aside)
    if not os.path.isdir(place):
        os.rename(aside, place)
    for name in os.listdir(base):
        if os.stat(os.path.join(base, name)).st_mtime < time.time() - 30 * 86400:
            shutil.rmtree(os.path.join(base, name), ignore_errors=True)
finally:
    shutil.rmtree(aside, ignore_errors=True)
"""
)

_BEGIN = (
    _PLACE
    + """\
if not os.path.isdir(place) or os.stat(place).st_uid != os.getuid():
    os.write(1, b"\\036%s missing\\n" % mark.encode())
    sys.exit()
sys.path.insert(0, place)
from neuronctl.remote.host import answer
if answer(mark, request):
    from neuronctl.cli import program
    program()
"""
)
"""Python code that runs there. _INSTALL unpacks the archive that it reads; _BEGIN answers a request
with the neuronctl from the archive whose SHA-256 is ``digest``, or says that it is missing."""


def run(remote: Remote, request: Mapping[str, Any], tell: Tell, **options: Any) -> Session:
    """Begin a request to neuronctl there; neuronctl is sent first if it is missing.

    tell: gets messages. options: of the session. Raises NotConnectedError.
    """
    path, digest = payload(remote, tell)
    packed = binascii.b2a_base64(json.dumps(request).encode(), newline=False).decode()
    python = [remote.python, "-IS", "-X", "utf8", "-c"]
    for _ in range(2):  # again after an installation
        session = Session(remote, [*python, _BEGIN], [digest, packed], **options)
        if session.state == "begin":
            return session
        session.finish()
        if session.state != "missing":
            break
        data = read_private(path)
        install = Session(remote, [*python, _INSTALL], [digest, str(len(data))])
        install.write(data)
        has_failed = install.finish() != 0
        if has_failed:
            break
        tell(f"sent neuronctl {__version__} to {remote.name}, once: {amount(len(data))}")
    raise NotConnectedError(
        f"{remote.name} does not run what was sent ({session.state})", "is your home there full?"
    )
