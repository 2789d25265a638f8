"""A cluster as a program sees it: ``neuronctl.Remote("neuron")``."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from typing import Any, Dict, List, Optional, Sequence

from neuronctl.common import errors
from neuronctl.common.errors import ConnectionLostError, NeuronctlError, NotConnectedError
from neuronctl.slurm.job_states import find_worst

_START = (
    "import sys; del sys.path[0]; sys.path.append(sys.argv.pop(1)); "
    "from neuronctl.cli import program; program()"
)
_PARENT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

Result = subprocess.CompletedProcess


def run_command(*words: str) -> Result[str]:
    """Run a command line of this neuronctl and return its output."""
    argv = [sys.executable, "-c", _START, _PARENT, *words]
    return subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace"
    )


def read_answer(result: Result[str]) -> Dict[str, Any]:
    """Return the JSON that a command printed; {} for other output."""
    with contextlib.suppress(ValueError):
        data = json.loads(result.stdout)
        return data if isinstance(data, dict) else {}
    return {}


class Remote:
    """A cluster to which ``neuronctl login NAME`` has connected.

    Its methods do there what the functions of the package do here; answers are data as in the JSON
    of the command line. They raise NotConnectedError if there is no connection, ConnectionLostError
    if it was lost meanwhile, and what the command raises there.

    >>> neuronctl.Remote("neuron").submit("train.py", time="8:00:00").wait()  # doctest: +SKIP
    0
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def submit(
        self,
        script: str,
        args: Sequence[str] = (),
        *,
        force: bool = False,
        allow: Sequence[str] = (),
        key: str = "",
        **options: Any,
    ) -> RemoteJob:
        """Send the project, and submit a job there.

        options: as for ``neuronctl.plan``. allow: names of files that are sent although they are
        private or large. key: the same key returns the same job. Without one, the same call after a
        ConnectionLostError does not submit twice.
        """
        from neuronctl.request.typed_options import words_of

        words = ["--key", key] if key else []
        words += [*words_of(options), *(["--force"] if force else []), "--", script, *args]
        return RemoteJob(self, str(self.json("submit", "--json", *words, allow=allow)["job_id"]))

    def status(self, *jobs: object, since: Optional[str] = None) -> List[Dict[str, Any]]:
        """Return the states of jobs; without any, those of your own jobs."""
        words = ["--since", since] if since else []
        return list(self.json("status", "--json", *words, *map(str, jobs))["jobs"])

    def history(self, *, limit: Optional[int] = None) -> List[Dict[str, Any]]:
        """Return the recorded submissions, newest first."""
        words = ["-n", str(limit)] if limit else []
        return list(self.json("history", "--json", *words)["submissions"])

    def pull(self, path: str) -> List[str]:
        """Bring a file or directory of the project back; returns the names of what came."""
        return self.run("pull", "--", path).stdout.splitlines()

    def json(self, *words: str, allow: Sequence[str] = ()) -> Dict[str, Any]:
        """Run a command line with ``--json`` there, and return its answer.

        An exit code other than 0 is no error if there is an answer, as with ``why``.
        """
        result = self.run(*words, allow=allow, check=False)
        data = read_answer(result)
        if data.get("schema", "neuronctl.error/1") == "neuronctl.error/1":
            raise _error_of(result)
        return data

    def run(self, *words: str, allow: Sequence[str] = (), check: bool = True) -> Result[str]:
        """Run a command line there, and return what it prints.

        check: whether an exit code other than 0 raises what the command raises there.
        """
        allowed = [word for name in allow for word in ("--allow", name)]
        result = run_command("--on", self.name, *allowed, *words)
        if check and result.returncode:
            raise _error_of(result)
        return result


class RemoteJob:
    """A job on a cluster. id: its id in Slurm."""

    def __init__(self, remote: Remote, id: str) -> None:
        self._remote = remote
        self.id = id

    def __repr__(self) -> str:
        return f"RemoteJob({self.id!r})"

    @property
    def state(self) -> str:
        """Return the job's state in Slurm's word; for an array, its worst task's."""
        states = [str(task["state"]) for task in self._remote.status(self.id)]
        return states[find_worst(states)]

    def wait(self) -> int:
        """Wait until the job ends, and return its exit code."""
        result = self._remote.run("wait", self.id, check=False)
        if result.returncode in (NotConnectedError.exit_code, ConnectionLostError.exit_code):
            raise _error_of(result)
        return result.returncode

    def cancel(self) -> None:
        """Cancel the job."""
        self._remote.run("cancel", "--yes", self.id)

    def log(self) -> str:
        """Return what the job has written so far."""
        return self._remote.run("logs", self.id).stdout

    def why(self) -> Dict[str, Any]:
        """Return why the job is waiting, or how it ended."""
        return self._remote.json("why", self.id, "--json")


def _error_of(result: Result[str]) -> NeuronctlError:
    """Return the error that a command printed, without its earlier messages."""
    message, _, hint = result.stderr.strip().partition("\n  hint: ")
    message = message.rpartition("neuronctl: ")[2] or f"exit code {result.returncode}"
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    for kind in kinds:
        if issubclass(kind, NeuronctlError) and kind.exit_code == result.returncode:
            return kind(message, hint)
    return NeuronctlError(message, hint)
