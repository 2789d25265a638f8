"""A sandbox as tests use it: a thin cover over the command line, run as a process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence

from neuronctl.sandbox.client import NAME_VARIABLE

COMMENT = "--comment=field=misc;appl=pytorch-ddp"
"""A comment the cluster of the session's sandbox accepts."""

Result = subprocess.CompletedProcess


@dataclass(frozen=True)
class Sandbox:
    """A sandbox of the tests' own: ``name`` keeps it apart from the user's and from others'."""

    name: str

    def neuronctl(
        self, *argv: str, input: Optional[str] = None, check: bool = True, timeout: float = 120
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
        if check:
            assert result.returncode == 0, (
                f"exit code {result.returncode}: {argv}\n"
                f"--- stdout\n{result.stdout}--- stderr\n{result.stderr}"
            )
        return result

    def environment(self) -> Dict[str, str]:
        """The environment in which ``neuronctl sandbox`` means this sandbox."""
        return {**os.environ, NAME_VARIABLE: self.name}

    def exec(
        self,
        cmd: Sequence[str],
        input: Optional[str] = None,
        check: bool = True,
        timeout: float = 120,
        copy: Sequence[str] = (),
    ) -> Result[str]:
        """Run a command inside, in the user's scratch directory; ``copy`` files there first."""
        options = [word for path in copy for word in ("--copy", path)]
        return self.neuronctl(
            "sandbox", "exec", *options, "--", *cmd, input=input, check=check, timeout=timeout
        )

    def status(self) -> Mapping[str, Any]:
        """What ``sandbox status --json`` says."""
        return json.loads(self.neuronctl("sandbox", "status", "--json", check=False).stdout)

    @property
    def scratch(self) -> str:
        """The user's scratch directory, as seen from inside."""
        return str(self.status()["scratch"])

    def write(self, path: str, text: str) -> None:
        """Write a file inside, as the user; ``path`` is relative to the scratch directory."""
        self.exec(["sh", "-c", 'mkdir -p "$(dirname "$1")" && cat > "$1"', "sh", path], input=text)

    def cancel_all(self) -> None:
        """Cancel every job and wait until none is left, so that tests do not meet."""
        self.exec(["sh", "-c", "scancel -u $USER; while squeue -h | grep -q .; do sleep 0.1; done"])


@contextlib.contextmanager
def sandbox_up(name: str, *options: str) -> Iterator[Sandbox]:
    """A sandbox for the time of the block."""
    made = Sandbox(name)
    try:
        made.neuronctl("sandbox", "up", *options)
        yield made
    finally:
        made.neuronctl("sandbox", "down")
