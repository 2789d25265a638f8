"""A sandbox as tests use it: the command line outside, and commands inside it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
)

import pytest
from forks import Command, Forks

from neuronctl.sandbox import client, enter
from neuronctl.sandbox.layout import Running
from neuronctl.slurm.sandbox_address import NAME_VARIABLE

COMMENT = "--comment=field=misc;appl=pytorch-ddp"
"""A comment the cluster of the session's sandbox accepts."""

SBATCH = ["sbatch", "--parsable", "-p", "amd_a100nv_8", COMMENT]
SBATCH += ["-n1", "-c1", "--gres=gpu:1", "-t5"]
"""Submits a small job of the words that follow."""

SYSTEM: List[str] = []
"""Options of every ``sandbox up``: ``--root DIR`` where the tests run on another Debian's Slurm."""

RUN = os.environ.setdefault("PYTEST_RUN", str(os.getpid()))
"""Part of the name of each sandbox: this test run's own, the same in all workers."""

_NAMING = threading.Lock()
"""Held while a sandbox's name is in the environment, which the threads of a test share."""

PATIENT = (
    *(sys.executable, "-c"),
    "from neuronctl.judgement import ask; ask.TIMEOUT = 60; "
    "from neuronctl.cli import program; program()",
)
"""``neuronctl`` with a minute instead of 1.5 s for Slurm to answer: tests of what it makes of the
answers are not about how busy the machine is."""

_SERVERS: Dict[str, Tuple[int, Forks]] = {}
"""Of a sandbox, by its name: its first process, and the server of its command line."""
_STARTING = threading.Lock()
"""Held while a server is looked for and started."""

Result = subprocess.CompletedProcess
S = TypeVar("S")
T = TypeVar("T")


def wait_until(check: Callable[[], T], seconds: float = 180) -> T:
    """The first true answer of ``check``, asked again and again; TimeoutError: there is none.

    The longer it waits, the more seldom it asks: questions of several tests at once keep the cores
    busy.
    """
    begun = time.monotonic()
    while True:
        answer = check()
        if answer:
            return answer
        waited = time.monotonic() - begun
        if waited >= seconds:
            raise TimeoutError(f"not true within {seconds:g} s")
        time.sleep(min(0.3 + waited / 20, 1.5))


def at_once(do: Callable[[S], T], items: Iterable[S]) -> List[T]:
    """What ``do`` returns for each item, all side by side: most of a test's time is waiting."""
    each = list(items)
    with ThreadPoolExecutor(len(each)) as pool:
        return list(pool.map(do, each))


def _checked(result: Result[str], argv: Sequence[str], check: bool) -> Result[str]:
    if check:
        assert result.returncode == 0, (
            f"exit code {result.returncode}: {argv}\n"
            f"--- stdout\n{result.stdout}--- stderr\n{result.stderr}"
        )
    return result


@dataclass(frozen=True)
class Sandbox:
    """A sandbox of the tests' own: ``name`` keeps it apart from the user's and from others'."""

    name: str

    def neuronctl(
        self, *argv: str, input: Optional[str] = None, check: bool = True, timeout: float = 300
    ) -> Result[str]:
        """The command line outside, for this sandbox; ``check`` wants exit code 0."""
        result = subprocess.run(
            [sys.executable, "-m", "neuronctl", *argv],
            env=self.environment(),
            stdin=subprocess.DEVNULL if input is None else None,
            input=input,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        return _checked(result, argv, check)

    def environment(self) -> Dict[str, str]:
        """The environment in which ``neuronctl sandbox`` means this sandbox."""
        return {**os.environ, NAME_VARIABLE: self.name}

    @property
    def running(self) -> Running:
        """What the sandbox, which is up, tells of itself."""
        with _NAMING, pytest.MonkeyPatch.context() as patch:
            patch.setenv(NAME_VARIABLE, self.name)
            return client.require()

    def inside(self, *argv: str, pid: int = 0) -> List[str]:
        """``argv`` in the namespaces of the sandbox, or of its process ``pid``, as its root."""
        enter_user = ["-U"] if os.getuid() != 0 else []
        target = str(pid or self.running.pid)
        spaces = ["-m", "-u", "-i", "-n", "-p"]
        return ["nsenter", *enter_user, "-t", target, *spaces, "--", *argv]

    @property
    def version(self) -> Tuple[int, ...]:
        """Slurm's, such as (22, 5)."""
        return tuple(int(number) for number in self.running.slurm.split(".")[:2])

    def daemon(self, name: str, word: str = "") -> int:
        """The process of a daemon, by its number out here; ``word`` stands in its command line."""
        for pid, words in processes(self.running.pid).items():
            if program(words) == name and (not word or word in words):
                return pid
        raise AssertionError(f"no {name} {word} in the sandbox")

    def root(self, *argv: str, check: bool = True) -> Result[str]:
        """Run a command inside as Slurm's administrator."""
        result = subprocess.run(
            self.inside(*argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        return _checked(result, argv, check)

    def exec(
        self,
        cmd: Sequence[str],
        input: Optional[str] = None,
        check: bool = True,
        timeout: float = 300,
        copy: Sequence[str] = (),
    ) -> Result[str]:
        """Run a command inside, in the user's scratch directory; ``copy`` files there first.

        Where and as whom ``neuronctl sandbox exec`` would, without the start of one more Python
        each time: the tests call this some thousand times. ``neuronctl`` itself is a fork of a
        process inside that has imported it, where the sandbox has the machine's own programs.
        """
        if copy:
            options = [word for path in copy for word in ("--copy", path)]
            self.neuronctl("sandbox", "exec", *options, "--", "true")
        running = self.running
        env = enter.environment(running)
        patient = tuple(cmd[: len(PATIENT)]) == PATIENT
        if running.root == "/" and (patient or cmd[0] == "neuronctl"):
            argv = cmd[len(PATIENT) :] if patient else cmd[1:]
            command = Command(
                argv, env, Path(running.scratch), input, timeout, 60 if patient else None
            )
            return _checked(self._forks(running).run(command), cmd, check)
        result = subprocess.run(
            [*self._as_user(running), *cmd],
            env=env,
            stdin=subprocess.DEVNULL if input is None else None,
            input=input,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        return _checked(result, cmd, check)

    def _as_user(self, running: Running) -> List[str]:
        """What stands before a command of the user, in the scratch directory."""
        user = f"-S {running.uid} -G {running.gid}".split()
        place = f"--wd=/proc/{running.pid}/root{running.scratch}"
        nsenter, *rest = self.inside(pid=running.pid)
        return [nsenter, *user, place, *rest]

    def _forks(self, running: Running) -> Forks:
        with _STARTING:
            pid, server = _SERVERS.get(self.name, (0, None))
            if server is None or pid != running.pid:
                if server is not None:
                    server.close()
                address = f"\0neuronctl-tests/{self.name}-{running.pid}"
                server = Forks(address, self._as_user(running), enter.environment(running))
                _SERVERS[self.name] = running.pid, server
            return server

    def status(self) -> Mapping[str, Any]:
        """What ``sandbox status --json`` says."""
        return json.loads(self.neuronctl("sandbox", "status", "--json", check=False).stdout)

    @property
    def scratch(self) -> str:
        """The user's scratch directory, as seen from inside."""
        return self.running.scratch

    def sbatch(self, *words: str) -> str:
        """Submit a small job and return its id."""
        return self.exec([*SBATCH, *words]).stdout.strip()

    def write(self, path: str, text: str) -> None:
        """Write a file inside, as the user; ``path`` is relative to the scratch directory."""
        self.exec(["sh", "-c", 'mkdir -p "$(dirname "$1")" && cat > "$1"', "sh", path], input=text)

    def wait_for_jobs(self) -> None:
        """Wait until no job is left, each ended by itself."""
        queue = ["squeue", "-h", "-o", "%i %T %r %M"]
        try:
            wait_until(lambda: not self.exec(queue).stdout.strip())
        except TimeoutError as error:
            running = processes(self.running.pid)
            tree = [f"{pid} {parent(pid)} {' '.join(running[pid])[:200]}" for pid in running]
            left = "\n".join([str(error), self.exec(queue).stdout, *tree])
            raise AssertionError(left) from None

    def cancel_all(self) -> None:
        """Cancel every job and wait until none is left, so that tests do not meet."""
        self.exec(["sh", "-c", "scancel -u $USER; while squeue -h | grep -q .; do sleep 0.3; done"])


def processes(first: int) -> Dict[int, List[str]]:
    """The command lines of all processes in the pid namespace of ``first``."""
    space = os.readlink(f"/proc/{first}/ns/pid")
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(path / "ns/pid") == space:
                found[int(path.name)] = (path / "cmdline").read_text().split("\0")[:-1]
    return found


def parent(pid: int) -> int:
    """The parent of a process; 0 where it has ended."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def program(words: Sequence[str]) -> str:
    """The name by which a process was called; the kernel's may be that of its file, slurmd-wlm."""
    return Path(words[0].partition(":")[0]).name if words else ""


def own_name(name: str) -> str:
    """A sandbox's name that no other test process gives to one."""
    return f"{name}-{RUN}-{os.getpid()}"


RESTARTED: List[Any] = []
"""Daemons that were started again; they run until their sandbox is down."""


def restart(sandbox: Sandbox) -> None:
    """End slurmctld and every slurmd, and start them again with the configuration as it is now.

    They run until the sandbox is down. Returns once the controller has heard from every node.
    """
    daemons = {}
    for pid, words in sorted(processes(sandbox.running.pid).items()):
        if program(words) in ("slurmctld", "slurmd"):
            daemons[pid] = sandbox.inside(*words, pid=_first_beside(sandbox, pid))
    for pid in daemons:
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in daemons))
    running: Dict[int, Any] = {}

    def all_answer() -> bool:
        for pid, command in daemons.items():
            if pid not in running or running[pid].poll() is not None:
                running[pid] = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
        states = sandbox.root("sinfo", "-hN", "-o", "%t", check=False)
        return states.returncode == 0 and "*" not in states.stdout

    wait_until(all_answer)
    RESTARTED.extend(running.values())


def _first_beside(sandbox: Sandbox, pid: int) -> int:
    """The first process with the network of this one, which holds the node's namespaces."""
    space = os.readlink(f"/proc/{pid}/ns/net")
    beside = (
        other
        for other in sorted(processes(sandbox.running.pid))
        if os.readlink(f"/proc/{other}/ns/net") == space
    )
    return next(beside)


def take_all_down() -> None:
    """End what sandboxes of this run are up: those of a worker that was killed."""
    before, between = f"@neuronctl-sandbox/{os.getuid()}/", f"-{RUN}-"
    for word in Path("/proc/net/unix").read_text().split():
        if word.startswith(before) and between in word:
            Sandbox(word[len(before) :]).neuronctl("sandbox", "down")


@contextlib.contextmanager
def sandbox_up(name: str, *options: str) -> Iterator[Sandbox]:
    """A sandbox for the time of the block."""
    made = Sandbox(own_name(name))
    try:
        made.neuronctl("sandbox", "up", *SYSTEM, *options)
        yield made
    finally:
        made.neuronctl("sandbox", "down")
        while RESTARTED:
            RESTARTED.pop().wait()
        if made.name in _SERVERS:
            _SERVERS.pop(made.name)[1].close()
