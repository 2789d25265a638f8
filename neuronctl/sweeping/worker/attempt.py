"""One attempt of a task, and the start of its process."""

import errno
import subprocess
import time
from typing import Any, Dict, List, Optional

from .files import Key


class Attempt:
    """An attempt whose end is not recorded yet. Times are monotonic, except ``start``."""

    def __init__(self, key: Key, slot: int, code_version: str) -> None:
        self.key = key
        self.slot = slot
        self.code_version = code_version
        self.start = time.time()
        self.start_monotonic = time.monotonic()
        self.ended_at = 0.0  # 0: it runs
        self.process: Optional[subprocess.Popen[bytes]] = None
        self.code = 0  # its exit code, once it has ended
        self.was_asked = False  # whether it was asked to end; then it counts as interrupted
        self.holds_slot = True
        self.is_clear = False  # whether none of its processes is left
        self.cleared_at = 0.0  # when its remaining processes were asked to end; 0: not yet

    def environment(self, variables: Dict[str, str], sweep: str) -> Dict[str, str]:
        """Return a task's environment. variables: the job's. sweep: for the task's own W&B run."""
        task, number = self.key
        variables = dict(variables, NEURONCTL_TASK=str(task), NEURONCTL_ATTEMPT=str(number))
        variables["NEURONCTL_SLOT"] = str(self.slot)
        job_run = variables.get("WANDB_RUN_ID", "")
        if job_run.startswith("nc-"):  # exported by the job's script, not by the user
            variables["WANDB_RUN_ID"] = f"{job_run.rpartition('-')[0]}-{sweep}-{task}"
        return variables


def start_process(
    words: List[bytes], variables: Dict[str, str], log: int
) -> "subprocess.Popen[bytes]":
    """Start a program in a session of its own, its output in a log; raises OSError."""
    options: Dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
    options.update(env=variables, start_new_session=True)
    try:
        return subprocess.Popen(words, **options)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        # A script without "#!".
        return subprocess.Popen([b"/bin/bash", *words], **options)
