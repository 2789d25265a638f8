"""A cluster as a program sees it: ``neuronctl.Remote("neuron")``."""

from __future__ import annotations

import json
import secrets
from typing import Any, Dict, List, Optional, Sequence, Tuple, Type

from neuronctl.common import errors
from neuronctl.common.errors import NeuronctlError


class Remote:
    """A cluster to which ``neuronctl login NAME`` has connected.

    Its methods do there what the functions of the package do here; answers are data as in the JSON
    of the command line. They raise NotConnectedError if there is no connection, ConnectionLostError
    if it was lost meanwhile, and what the command raises there.

    >>> neuronctl.Remote("neuron").submit("train.py", time="8:00:00").wait()  # doctest: +SKIP
    0
    """

    def __init__(self, name: str) -> None:
        from neuronctl.remote.connection import find_remote

        self._remote = find_remote(name)

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
        private or large. key: the same key returns the same job; give one to try again after a
        ConnectionLostError.
        """
        from neuronctl.remote.place import find_project
        from neuronctl.remote.project import send
        from neuronctl.request.typed_options import words_of

        send(self._remote, find_project(), allow, lambda message: None)
        words = ["submit", "--json", "--key", key or secrets.token_hex(12)]
        words += words_of(options)
        words += [*(["--force"] if force else []), "--", script, *args]
        return RemoteJob(self, str(self.json(*words)["job_id"]))

    def status(self, *jobs: object, since: Optional[str] = None) -> List[Dict[str, Any]]:
        """Return the states of jobs; without any, those of your own jobs."""
        more = [] if since is None else ["--since", since]
        found: List[Dict[str, Any]] = self.json("status", "--json", *more, *map(str, jobs))["jobs"]
        return found

    def history(self, *, limit: Optional[int] = None) -> List[Dict[str, Any]]:
        """Return the recorded submissions, newest first."""
        more = [] if limit is None else ["-n", str(limit)]
        found: List[Dict[str, Any]] = self.json("history", "--json", *more)["submissions"]
        return found

    def pull(self, path: str) -> Tuple[str, ...]:
        """Bring a file or directory of the project back; returns the names of what came."""
        from neuronctl.remote.place import find_project
        from neuronctl.remote.project import pull

        return pull(self._remote, find_project(), path, lambda message: None).came

    def json(self, *words: str) -> Dict[str, Any]:
        """Run a command line with ``--json`` there, and return its answer."""
        code, said, error = self.run(*words)
        try:
            data = json.loads(said)
        except ValueError:
            data = {}
        if code and (not data or words[0] == "submit"):
            raise error
        return dict(data)

    def run(self, *words: str) -> Tuple[int, str, NeuronctlError]:
        """Run a command line there; its exit code, what it prints, and the error it would be."""
        from neuronctl.remote.payload import run
        from neuronctl.remote.place import request

        said: List[bytes] = []
        wrong: List[bytes] = []
        session, _ = run(
            self._remote, request(self._remote, words), lambda message: None, errors=wrong.append
        )
        code = session.show(raw=True, write=said.append)
        lines = b"".join(wrong).decode("utf-8", "replace").strip().removeprefix("neuronctl: ")
        message, _, hint = lines.partition("\n  hint: ")
        error = _KINDS.get(code, NeuronctlError)(message or f"exit code {code}", hint)
        return code, b"".join(said).decode("utf-8", "replace"), error


class RemoteJob:
    """A job on a cluster. id: as Slurm has it."""

    def __init__(self, remote: Remote, id: str) -> None:
        self._remote, self.id = remote, id

    def __repr__(self) -> str:
        return f"RemoteJob({self.id!r})"

    @property
    def state(self) -> str:
        """Its state as Slurm names it."""
        return str(self._remote.status(self.id)[0]["state"])

    def wait(self) -> int:
        """Wait until it ends; its exit code."""
        return self._remote.run("wait", self.id)[0]

    def cancel(self) -> None:
        """Cancel it."""
        code, _, error = self._remote.run("cancel", "--yes", self.id)
        if code:
            raise error

    def log(self) -> str:
        """Return what it has written so far."""
        code, said, error = self._remote.run("logs", self.id)
        if code:
            raise error
        return said

    def why(self) -> Dict[str, Any]:
        """Return why it is waiting, or how it ended."""
        return self._remote.json("why", self.id, "--json")


_KINDS: Dict[int, Type[NeuronctlError]] = {
    kind.exit_code: kind
    for kind in (
        *(errors.UsageError, errors.JobFileError, errors.PolicyError, errors.TemplateError),
        *(errors.SlurmUnavailableError, errors.SlurmRefusedError, errors.NoSuchJobError),
        errors.RecordError,
    )
}
