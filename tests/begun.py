"""Commands that run while a test looks at them, and no longer."""

from __future__ import annotations

import contextlib
import subprocess
from typing import Any, Iterator, List, Sequence


@contextlib.contextmanager
def begun(*commands: Sequence[str], **options: Any) -> Iterator[List[subprocess.Popen[str]]]:
    """Their processes, side by side. What still runs at the end of the block is killed.

    A process that outlives a test that fails is a warning, and so an error, of a later one.
    """
    with contextlib.ExitStack() as stack:
        processes = []
        for command in commands:
            process = stack.enter_context(subprocess.Popen(command, text=True, **options))
            stack.callback(process.kill)
            processes.append(process)
        yield processes
