"""Where Slurm's commands are started: argv in, text out, a time limit on each that only asks."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from neuronctl.errors import SlurmRefusedError, SlurmUnavailableError, UsageError
from neuronctl.frozen import dataclass

# Slurm's own variables that say how to reach the cluster, or what a site sets for everybody.
_KEPT = frozenset({"SLURM_CONF", "SLURM_JWT", "SLURM_MPI_TYPE"})

# Options in disguise (they would override a script's own directives or change what a query
# prints) and what an allocation, an MPI or a launcher said about *its* processes.
_SCRUBBED_BEGINNINGS = (
    *("SLURM_", "SLURMD_", "SBATCH_", "SALLOC_", "SRUN_", "SQUEUE_", "SINFO_", "SACCT_"),
    *("SACCTMGR_", "SCANCEL_", "SCONTROL_", "SPRIO_", "SSTAT_"),
    *("OMPI_COMM_WORLD_", "OMPI_UNIVERSE_", "OMPI_FILE_", "OMPI_APP_CTX_", "ORTE_", "PRTE_"),
    *("PMI_", "PMIX_", "MV2_COMM_WORLD_", "MPI_LOCAL_", "TORCHELASTIC_"),
    "HOROVOD_GLOO_RENDEZVOUS_",
)
_SCRUBBED = frozenset(
    (
        *("HOROVOD_RANK", "HOROVOD_LOCAL_RANK", "HOROVOD_CROSS_RANK", "HOROVOD_HOSTNAME"),
        *("HOROVOD_SIZE", "HOROVOD_LOCAL_SIZE", "HOROVOD_CROSS_SIZE"),
        *("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE"),
        *("GROUP_WORLD_SIZE", "RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "NODE_RANK"),
        *("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
        *("ZE_AFFINITY_MASK", "GPU_DEVICE_ORDINAL"),
    )
)

# What the Slurm commands say when the fault is with the cluster and not with the request.
_UNREACHABLE = (
    r"(?i)unable to contact slurm controller|socket timed out"
    r"|connection (?:refused|timed out|reset)|zero bytes were transmitted|broken pipe"
    r"|transport endpoint|no route to host|network is unreachable"
    r"|could not establish a configuration source|unable to (?:process configuration|resolve)"
    r"|authentication credential|munge|protocol authentication error|in standby mode"
    r"|communications? (?:connection failure|shutdown failure)|address not found"
    r"|incompatible versions of client and server"
)

# "sbatch: error: …", "salloc: fatal: …"; warnings keep that word.
_PREFIX = r"(?m)^(?:s[a-z]+): (?:(?:error|fatal|info): )?"


@dataclass(frozen=True)
class Result:
    """A command that ended: what was run and what came out, as text."""

    argv: Sequence[str]
    stdout: str
    stderr: str
    returncode: int

    @property
    def words(self) -> str:
        """What the command said about itself, without its own name in front of each line."""
        return plain_words(self.stderr) or plain_words(self.stdout)


def plain_words(text: str) -> str:
    """Slurm's own words without the ``sbatch: error:`` in front of each line."""
    return re.sub(_PREFIX, "", text).strip()


def clean_environment(environ: Mapping[str, str], *, for_job: bool) -> Dict[str, str]:
    """The environment for a Slurm command.

    SBATCH_* and the like override what a script says, SQUEUE_* and SLURM_TIME_FORMAT change what
    is printed, and the variables of an allocation, an MPI or a torchrun that neuronctl stands in
    would reach the new job through ``--export=ALL``. All of these go; SLURM_CONF stays, and
    everything else a user exported stays too. ``for_job``: the command hands its environment on
    to a job (sbatch, salloc), whose locale and time zone are the user's business; the queries
    get LC_ALL=C and UTC, so that times read the same everywhere, and full array expressions.
    """
    clean = {
        name: value for name, value in environ.items() if name in _KEPT or not _is_scrubbed(name)
    }
    if not for_job:
        clean.update(LC_ALL="C", TZ="UTC", SLURM_BITSTR_LEN="0")
    return clean


def _is_scrubbed(name: str) -> bool:
    if name.startswith("PMIX_MCA_"):  # the user's settings of PMIx
        return False
    return name in _SCRUBBED or name.startswith(_SCRUBBED_BEGINNINGS)


def run(
    argv: Sequence[str],
    *,
    timeout: float,
    input: Optional[str] = None,
    cwd: Optional[str] = None,
    for_job: bool = False,
    environment: Optional[Mapping[str, str]] = None,
    silence: str = "",
) -> Result:
    """Run a Slurm command and return what it said, whatever its exit code.

    environment: variables to set for the command beside the user's own.
    timeout: seconds of wall time; afterwards the command and its children are killed.
    silence: what to tell the user when the command did not answer in time.

    Raises SlurmUnavailableError where the command does not exist or does not answer.
    """
    started = _start(argv, cwd, for_job, environment, input)
    try:
        return _finish(started, timeout, silence)
    except BaseException:
        _kill(started.process)
        raise


def run_together(
    commands: Sequence[Tuple[Sequence[str], Optional[str]]],
    *,
    timeout: float,
    meanwhile: Optional[Callable[[], None]] = None,
) -> List[Union[Result, SlurmUnavailableError]]:
    """Run several queries, (argv, standard input) each, at the same time; their answers in order.

    timeout: seconds of wall time for all of them together. meanwhile: called while they run. A
    command that does not exist or does not answer is an answer too, and leaves those of the others.
    """
    deadline = time.monotonic() + timeout
    started: List[Union[_Started, SlurmUnavailableError]] = []
    answers: List[Union[Result, SlurmUnavailableError]] = []
    try:
        for argv, input in commands:
            try:
                started.append(_start(argv, None, False, None, input))
            except SlurmUnavailableError as error:
                started.append(error)
        if meanwhile is not None:
            meanwhile()
        for one in started:
            if isinstance(one, SlurmUnavailableError):
                answers.append(one)
                continue
            left = max(0.01, deadline - time.monotonic())
            try:
                answers.append(_finish(one, left, "", said=timeout))
            except SlurmUnavailableError as error:
                answers.append(error)
        return answers
    finally:
        for one in started:
            if isinstance(one, _Started) and one.process.returncode is None:
                _kill(one.process)


class Asked:
    """A query that runs while its caller does something else; to be closed in the end."""

    def __init__(self, argv: Sequence[str], *, timeout: float) -> None:
        """Start it. timeout: seconds from now."""
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._started: Union[_Started, SlurmUnavailableError]
        try:
            self._started = _start(argv, None, False, None, None)
        except SlurmUnavailableError as error:
            self._started = error

    def result(self) -> Result:
        """Wait for the answer; raises SlurmUnavailableError as ``run`` does."""
        if isinstance(self._started, SlurmUnavailableError):
            raise self._started
        left = max(0.01, self._deadline - time.monotonic())
        return _finish(self._started, left, "", said=self._timeout)

    def close(self) -> None:
        """End the command where it still runs."""
        if isinstance(self._started, _Started) and self._started.process.returncode is None:
            _kill(self._started.process)


@dataclass(frozen=True)
class _Started:
    argv: Sequence[str]
    process: subprocess.Popen[bytes]


def _start(
    argv: Sequence[str],
    cwd: Optional[str],
    for_job: bool,
    environment: Optional[Mapping[str, str]],
    input: Optional[str],
) -> _Started:
    for word in argv:
        if "\0" in word:
            raise UsageError(f"{argv[0]}: an argument holds a NUL character: {word!r}")
    stdin = None if input is None else _whole(input)
    process = None
    try:
        # A session of its own: Ctrl-C reaches neuronctl, which then ends the command and
        # whatever a site's wrapper around it has started.
        with _ctrl_c_held_back():
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**clean_environment(os.environ, for_job=for_job), **(environment or {})},
                cwd=cwd,
                start_new_session=True,
            )
    except KeyboardInterrupt:
        if process is not None:
            _kill(process)
        raise
    except OSError as error:
        raise _cannot_start(argv[0], error, cwd) from None
    finally:
        if stdin is not None:
            os.close(stdin)
    return _Started(tuple(argv), process)


@contextlib.contextmanager
def _ctrl_c_held_back() -> Iterator[None]:
    """Ctrl-C in here is raised behind it: the command may run long before Popen has returned.

    A second one is raised at once, for an exec that hangs.
    """
    pressed: List[int] = []

    def note(number: int, frame: Any) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    before = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    if before is not signal.default_int_handler or not main:
        yield
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pressed:
            raise KeyboardInterrupt


def _whole(text: str) -> int:
    """A file in memory with the text: a pipe from a neuronctl that is killed would be half of it.

    sbatch submits what it has read, also where that is the first half of a script.
    """
    file = os.memfd_create("stdin")
    rest = text.encode("utf-8", "surrogateescape")
    while rest:
        rest = rest[os.write(file, rest) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _finish(
    started: _Started,
    timeout: float,
    silence: str,
    *,
    said: Optional[float] = None,
) -> Result:
    try:
        stdout, stderr = started.process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise SlurmUnavailableError(
            f"{started.argv[0]} did not answer within {timeout if said is None else said:g} s",
            silence or "the controller may be busy or restarting: try again in a while",
        ) from None
    return Result(started.argv, _text(stdout), _text(stderr), started.process.returncode)


def failure(result: Result, *, hint: str = "") -> Exception:
    """The error for a command that ended with a non-zero exit code, in Slurm's own words."""
    command = result.argv[0]
    if result.returncode < 0 and not result.stderr.strip():
        return SlurmUnavailableError(
            f"{command} was killed by signal {-result.returncode}", "try again"
        )
    words = result.words or f"no words, exit code {result.returncode}"
    if "could not establish a configuration source" in words.lower():
        return SlurmUnavailableError(
            f"{command} finds no slurm.conf: this machine belongs to no cluster",
            "log in to the cluster's login node; 'neuronctl generate' works without it",
        )
    if unreachable(words):
        return SlurmUnavailableError(
            f"{command} cannot reach Slurm: {words}",
            "the controller may be down or restarting: try again in a while; "
            "'neuronctl generate' works without it",
        )
    return SlurmRefusedError(f"{command} refused: {words}", hint)


def installed() -> bool:
    """Whether there are Slurm commands here at all; where not, trying again is of no use."""
    import shutil

    return shutil.which("squeue") is not None


def unreachable(words: str) -> bool:
    """Whether Slurm's words speak of a cluster that is not there, not of a wrong request."""
    return re.search(_UNREACHABLE, words) is not None


def run_interactive(argv: Sequence[str], *, environment: Optional[Mapping[str, str]] = None) -> int:
    """Run a command (salloc) on the user's own terminal; return its exit code (128 + signal).

    environment: variables to set for the command beside the user's own.

    Ctrl-C is the command's to handle, SIGTERM is passed on to it.
    """
    try:
        process = subprocess.Popen(
            list(argv),
            env={**clean_environment(os.environ, for_job=True), **(environment or {})},
        )
    except OSError as error:
        raise _cannot_start(argv[0], error, None) from None

    def ignore(number: int, frame: Any) -> None:
        # A handler and not SIG_IGN, which the command would have inherited on exec.
        pass

    def hand_on(number: int, frame: Any) -> None:
        process.send_signal(number)

    before_int = signal.signal(signal.SIGINT, ignore)
    before_term = signal.signal(signal.SIGTERM, hand_on)
    try:
        code = process.wait()
    finally:
        signal.signal(signal.SIGINT, before_int)
        signal.signal(signal.SIGTERM, before_term)
    return code if code >= 0 else 128 - code


def _cannot_start(command: str, error: OSError, cwd: Optional[str]) -> Exception:
    if cwd is not None and not os.path.isdir(cwd):
        return UsageError(f"no such directory: {cwd}")
    if isinstance(error, FileNotFoundError):
        return SlurmUnavailableError(
            f"{command} not found: there is no Slurm on this machine's PATH",
            "log in to the cluster's login node, or put Slurm's bin directory on PATH; "
            "'neuronctl generate' works without Slurm",
        )
    return SlurmUnavailableError(f"{command} cannot be started: {error.strerror}")


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
