"""Run Slurm's commands: argv in, text out, with a timeout on every query."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import threading
import time
from typing import Dict, List, Mapping, NoReturn, Optional, Sequence, Tuple, Union

from neuronctl.common.datatypes import dataclass
from neuronctl.common.errors import (
    NeuronctlError,
    SlurmError,
    SlurmRefusedError,
    SlurmUnavailableError,
    UsageError,
)

# Variables that act as options (they would override a script's directives or change what a query
# prints), and variables of an allocation, MPI, or launcher that describe *its* processes.
_SCRUBBED = (
    r"(?:SLURMD?|SBATCH|SALLOC|SRUN|SQUEUE|SINFO|SACCT|SACCTMGR|SCANCEL|SCONTROL|SPRIO|SSTAT)_.*"
    r"|(?:OMPI_(?:COMM_WORLD|UNIVERSE|FILE|APP_CTX)|ORTE|PRTE|PMI|PMIX|MV2_COMM_WORLD)_.*"
    r"|(?:MPI_LOCAL|TORCHELASTIC|HOROVOD_GLOO_RENDEZVOUS)_.*"
    r"|HOROVOD_(?:HOSTNAME|(?:LOCAL_|CROSS_)?(?:RANK|SIZE))"
    r"|MASTER_(?:ADDR|PORT)|(?:LOCAL_|ROLE_|GROUP_)?(?:WORLD_SIZE|RANK)|NODE_RANK"
    r"|(?:CUDA|ROCR|HIP)_VISIBLE_DEVICES|ZE_AFFINITY_MASK|GPU_DEVICE_ORDINAL"
)

# Exceptions: variables that locate the cluster, or that a site or user sets for all jobs.
_KEPT = r"SLURM_(?:CONF|JWT|MPI_TYPE)|PMIX_MCA_.*"

# Messages of Slurm commands about faults of the cluster, not of the request.
_UNREACHABLE = (
    r"(?i)authentication credential|munge|unable to contact slurm controller|socket timed out"
    r"|connection (?:refused|timed out|reset)|zero bytes were transmitted|broken pipe"
    r"|transport endpoint|no route to host|network is unreachable"
    r"|could not establish a configuration source|unable to (?:process configuration|resolve)"
    r"|protocol authentication error|in standby mode"
    r"|communications? (?:connection failure|shutdown failure)|address not found"
    r"|incompatible versions of client and server"
)

# "sbatch: error: …", "salloc: fatal: …"; "warning:" is kept.
_PREFIX = r"(?m)^(?:s[a-z]+): (?:(?:error|fatal|info): )?"


@dataclass(frozen=True)
class Result:
    """A finished command's arguments and output as text; raw: its standard output as it was."""

    argv: Sequence[str]
    stdout: str
    stderr: str
    returncode: int
    raw: bytes = b""

    @property
    def words(self) -> str:
        """Return the command's message, without its name at the start of each line."""
        return plain_words(self.stderr) or plain_words(self.stdout)


def plain_words(text: str) -> str:
    """Return Slurm's message without ``sbatch: error:`` at the start of each line.

    The middle of a very long message is left out. What plugins report about themselves comes last.
    """
    if len(text) > _MOST_WORDS:
        text = f"{text[: _MOST_WORDS // 2]}\n...\n{text[-_MOST_WORDS // 2 :]}"
    lines = re.sub(_PREFIX, "", text).strip().split("\n")
    return "\n".join(sorted(lines, key=lambda line: line.startswith("spank: ")))


_MOST_WORDS = 4000  # characters


def clean_environment(environ: Mapping[str, str], *, for_job: bool) -> Dict[str, str]:
    """Return the user's environment without the variables that would change a Slurm command.

    for_job: the command passes its environment to a job (sbatch, salloc), so locale and time zone
    stay the user's. Queries get LC_ALL=C and UTC, so that times are the same everywhere, and
    unabridged array expressions.
    """
    clean = {
        name: value
        for name, value in environ.items()
        if re.fullmatch(_KEPT, name) or not re.fullmatch(_SCRUBBED, name)
    }
    if not for_job:
        clean.update(LC_ALL="C", TZ="UTC", SLURM_BITSTR_LEN="0")
    return clean


TIMEOUT = 10.0
"""Seconds for Slurm to answer a query."""

_LONGEST_ANSWER = 64 * 1024 * 1024
"""Bytes; an answer about 100,000 jobs is smaller."""


def run(
    argv: Sequence[str],
    *,
    timeout: float = TIMEOUT,
    input: Optional[str] = None,
    cwd: Optional[str] = None,
    env: Optional[Mapping[str, str]] = None,
    silence: str = "",
) -> Result:
    """Run a Slurm command and return its output, whatever its exit code.

    timeout: seconds; after that, the command and its children are killed. env: all of its
    variables; by default, those of a query. silence: the hint for the user if the command does not
    respond in time.

    Raises SlurmUnavailableError if the command does not exist or does not respond.
    """
    if env is None:
        env = clean_environment(os.environ, for_job=False)
    process = _start(argv, input, cwd, env)
    try:
        stdout, stderr = _read_outputs(process, argv[0], time.monotonic() + timeout)
    except subprocess.TimeoutExpired:
        raise SlurmUnavailableError(
            f"{argv[0]} did not respond within {timeout:g} s",
            silence or "slurmctld may be busy or restarting: try again later",
        ) from None
    finally:
        _end(process)
    output_text, errors = (output.decode("utf-8", "replace") for output in (stdout, stderr))
    return Result(argv, output_text, errors, process.returncode, stdout)


class Queries:
    """Queries, each (argv, standard input), that run in parallel until their answers are read.

    timeout: seconds for each. A command that does not exist or does not respond yields its error
    and does not affect the others.
    """

    def __init__(
        self, commands: Sequence[Tuple[Sequence[str], Optional[str]]], *, timeout: float
    ) -> None:
        self._answers: Dict[int, Union[Result, SlurmUnavailableError]] = {}
        # Daemons, because after Ctrl-C nobody waits for their answers.
        self._threads = [
            threading.Thread(target=self._ask, args=(place, *command, timeout), daemon=True)
            for place, command in enumerate(commands)
        ]
        for thread in self._threads:
            thread.start()

    def _ask(self, place: int, argv: Sequence[str], input: Optional[str], timeout: float) -> None:
        try:
            self._answers[place] = run(argv, timeout=timeout, input=input)
        except SlurmUnavailableError as error:
            self._answers[place] = error

    def answers(self) -> List[Union[Result, SlurmUnavailableError]]:
        """Wait for the answers and return them in the order of the queries."""
        for thread in self._threads:
            thread.join()
        return [self._answers[place] for place in range(len(self._threads))]


_LOOK = 0.25
"""Seconds between looks at a command that prints nothing."""


def _read_outputs(process: subprocess.Popen[bytes], name: str, deadline: float) -> List[bytes]:
    """Return what a command prints on standard output and standard error.

    After the command has ended, silence counts as the end of both: a process that it left behind
    may hold them open. Raises TimeoutExpired at the deadline, a time of time.monotonic().
    """
    assert process.stdout and process.stderr
    outputs = {pipe.fileno(): bytearray() for pipe in (process.stdout, process.stderr)}
    with selectors.DefaultSelector() as selector:
        for descriptor in outputs:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():  # until both are closed
            ready = selector.select(max(0, min(_LOOK, deadline - time.monotonic())))
            if not ready and process.poll() is not None:
                break
            if not ready and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired(name, 0)  # run() says after how long
            for key, _ in ready:
                new_bytes = os.read(key.fd, 65536)
                outputs[key.fd] += new_bytes
                if not new_bytes:
                    selector.unregister(key.fd)
            if sum(map(len, outputs.values())) > _LONGEST_ANSWER:
                raise SlurmUnavailableError(
                    f"{name} printed more than {_LONGEST_ANSWER >> 20} MiB",
                    f"check which program that is: which {name}",
                )
    process.wait(max(0.01, deadline - time.monotonic()))
    return [bytes(output) for output in outputs.values()]


def _start(
    argv: Sequence[str], input: Optional[str], cwd: Optional[str], env: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a command that reads ``input``; raise UsageError, or SlurmUnavailableError."""
    for word in argv:
        if "\0" in word:
            raise UsageError(f"{argv[0]}: argument contains a NUL byte: {word!r}")
    stdin = None if input is None else in_memory(input.encode("utf-8", "surrogateescape"))
    try:
        # A new session: Ctrl-C reaches only neuronctl, which then kills the command and everything
        # that a site's wrapper around it has started.
        return subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
    except OSError as error:
        raise _cannot_start(argv[0], error, cwd) from None
    finally:
        if stdin is not None:
            os.close(stdin)


def in_memory(content: bytes) -> int:
    """Return a file in memory with this content; from a pipe, sbatch could read half a script."""
    file = os.memfd_create("stdin")
    while content:
        content = content[os.write(file, content) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file


def whole_output(result: Result) -> str:
    """Return a command's output; raise SlurmUnavailableError if its last line is cut off."""
    text = result.stdout
    if text and not text.endswith("\n"):
        raise SlurmUnavailableError(
            f"{result.argv[0]}'s answer ends in the middle of a line: {text[-80:].strip()!r}",
            "try again",
        )
    return text


def failure(result: Result) -> SlurmError:
    """Return the error for a command that failed, with Slurm's message."""
    command = result.argv[0]
    if result.returncode < 0:
        message = f"{command} was killed by signal {-result.returncode}"
        return SlurmUnavailableError(message, "try again", plain_words(result.stderr))
    words = result.words or f"no message, exit code {result.returncode}"
    if "could not establish a configuration source" in words.lower():
        return SlurmUnavailableError(
            f"{command} cannot find slurm.conf: this machine is not part of a cluster",
            where_slurm_is(),
        )
    if unreachable(words):
        return SlurmUnavailableError(
            f"{command} cannot reach slurmctld",
            "slurmctld may be down or restarting: try again later; "
            "'neuronctl generate' works without Slurm",
            words,
        )
    return SlurmRefusedError(f"{command} refused the request", said=words)


def not_found(command: str) -> SlurmUnavailableError:
    """Return the error for a command that is not on PATH."""
    return SlurmUnavailableError(f"{command} not found: Slurm is not on PATH", where_slurm_is())


def where_slurm_is() -> str:
    """Return the hint for a machine without Slurm."""
    from neuronctl.slurm.sandbox_address import is_up

    if is_up():
        return "your sandbox is up: open a shell in it with 'neuronctl sandbox shell'"
    return (
        "log in to the cluster's login node, or add Slurm's bin directory to PATH; "
        "'neuronctl generate' works without Slurm"
    )


def installed() -> bool:
    """Return True if Slurm commands exist on this machine; if not, retrying is pointless."""
    import shutil

    return shutil.which("squeue") is not None


def unreachable(words: str) -> bool:
    """Return True if Slurm's message means that the cluster is unreachable."""
    return re.search(_UNREACHABLE, words) is not None


def become(argv: Sequence[str], environment: Mapping[str, str] = {}) -> NoReturn:
    """Replace this process with a command, with more variables in its environment."""
    env = {**clean_environment(os.environ, for_job=True), **environment}
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it for itself
    try:
        os.execvpe(argv[0], list(argv), env)
    except OSError as error:
        raise _cannot_start(argv[0], error, None) from None


def _cannot_start(command: str, error: OSError, cwd: Optional[str]) -> NeuronctlError:
    """Return the error for a command that cannot be started. cwd: where, if not here."""
    if cwd is not None and not os.path.isdir(cwd):
        return UsageError(f"no such directory: {cwd}")
    if isinstance(error, FileNotFoundError):
        return not_found(command)
    return SlurmUnavailableError(f"cannot start {command}: {error.strerror}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a running command and its children, and close its outputs."""
    if process.returncode is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            process.kill()
        process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
