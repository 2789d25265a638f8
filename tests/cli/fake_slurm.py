"""Fake Slurm commands: real executables first on PATH, whose words a test sets."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List, Optional

FAKES = Path(__file__).parent / "fakes"

SQUEUE_FIELDS = (
    "id", "own", "user", "partition", "account", "qos", "state", "reason", "nodes", "tres", "gres",
    "node_list", "planned", "priority", "dependency", "used", "limit", "submit",
    "start", "end", "exit", "command", "work_dir", "name",
)  # fmt: skip
SACCT_FIELDS = (
    "id", "own", "user", "partition", "qos", "state", "exit", "submit", "start", "end",
    "elapsed", "limit", "nodes", "node_list", "alloc", "req", "work_dir", "command", "name",
)  # fmt: skip


class FakeSlurm:
    """What the fake commands say, and how they were called."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def env(self) -> Dict[str, str]:
        """To be added to the environment of the command line."""
        return {
            "PATH": f"{FAKES}:/usr/bin:/bin:{FAKES.parents[1]}/on_path",
            "FAKE_SLURM": str(self.directory),
        }

    def answer(
        self, name: str, stdout: str = "", stderr: str = "", *, code: int = 0, delay: float = 0
    ) -> None:
        """Set what a command prints, its exit code, and how many seconds it takes."""
        files = {"stdout": stdout, "stderr": stderr, "code": str(code), "delay": str(delay)}
        for suffix, text in files.items():
            (self.directory / f"{name}.{suffix}").write_text(text, encoding="utf-8")

    def queue(self, *rows: str) -> None:
        """Set squeue's rows, made by ``queue_row``."""
        self.answer("squeue", "".join(row + "@END@\n" for row in rows))

    def accounting(self, *rows: str) -> None:
        """Set sacct's rows, made by ``accounting_row``."""
        self.answer("sacct", "".join(row + "\n" for row in rows))

    def forget(self, *commands: str) -> None:
        """Let squeue, and what else is named, know of no job."""
        for name in ("squeue", *commands):
            self.answer(name, stderr="slurm_load_jobs error: Invalid job id specified\n", code=1)

    def calls(self, name: Optional[str] = None) -> List[List[str]]:
        """The argv of each call so far, of one command or of all."""
        file = self.directory / "calls"
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        argvs = [line.split("\x1e") for line in text.split("\x1e\n") if line]
        return [argv for argv in argvs if name is None or argv[0] == name]

    def seen_env(self, name: str) -> Dict[str, str]:
        """The environment of a command's last call."""
        text = (self.directory / f"{name}.env").read_text(encoding="utf-8")
        return dict(item.split("=", 1) for item in text.split("\0") if item)

    def stdin(self, name: str = "sbatch") -> str:
        """What sbatch was given on its standard input."""
        return (self.directory / f"{name}.stdin").read_text(encoding="utf-8")


def queue_row(id: str, **given: str) -> str:
    """A row of squeue as it prints it; what is not given is that of a small running job."""
    values = {
        "id": id, "own": id.partition("_")[0], "user": "kim", "partition": "cpu",
        "account": "lab", "qos": "normal", "state": "RUNNING", "reason": "None", "nodes": "1",
        "tres": "cpu=2,mem=8G,node=1,billing=2",
        "gres": "gres:gpu:2", "node_list": "gpu01", "planned": "(null)", "priority": "1",
        "dependency": "(null)", "used": "1:02", "limit": "10:00",
        "submit": "2037-01-01T10:00:00", "start": "2037-01-01T10:00:05",
        "end": "2037-01-01T10:10:05", "exit": "0", "command": "(null)",
        "work_dir": "/scratch/kim",
        "name": "train",
    }  # fmt: skip
    values.update(given)
    return "\x1f".join(values[field] for field in SQUEUE_FIELDS)


def accounting_row(id: str, **given: str) -> str:
    """A row of sacct as it prints it; what is not given is that of a job that went well."""
    values = {
        "id": id, "own": id.partition("_")[0], "user": "kim", "partition": "cpu",
        "qos": "normal", "state": "COMPLETED", "exit": "0:0", "submit": "2037-01-01T10:00:00",
        "start": "2037-01-01T10:00:05", "end": "2037-01-01T10:01:07", "elapsed": "62",
        "limit": "10", "nodes": "1", "node_list": "gpu01", "alloc": "cpu=2,gres/gpu=2,node=1",
        "req": "cpu=2,node=1", "work_dir": "/scratch/kim",
        "command": "", "name": "train",
    }  # fmt: skip
    values.update(given)
    return "\x1f".join(values[field] for field in SACCT_FIELDS)
