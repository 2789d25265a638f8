"""What starts in the batch shell of a job before its script, which stays as it is.

bash reads the file that BASH_ENV names before a script, and sbatch passes the variable on. So what
looks at the job's environment starts within the job, and so does the sampler of somebody's own
script (--monitor). Where the file is not there, bash says nothing.
"""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING, Dict, Optional

from neuronctl.common.errors import UsageError
from neuronctl.planning.model import MONITOR_INTERVAL

if TYPE_CHECKING:
    from neuronctl.submission.existing_script import ExistingScript


def batch_shell_variables(script: Optional[ExistingScript] = None) -> Dict[str, str]:
    """Return what sbatch's environment needs; nothing where the job's shell would not read it.

    script: somebody's own; None for a script that neuronctl has written. Raises UsageError where
    it is to be sampled, and the file cannot be written.
    """
    samples = script is not None and script.monitor
    before = os.environ.get("BASH_ENV") or None
    if script is not None and not samples:
        if script.unsampled:
            return {}
    elif before is not None and not os.path.isfile(before):
        return {}
    try:
        return {"BASH_ENV": _file(MONITOR_INTERVAL if samples else None, before)}
    except (OSError, UsageError) as error:  # also where there is no home directory
        if not samples:
            return {}
        raise UsageError(f"--monitor: cannot write its file: {error}") from None


def _file(interval: Optional[int], before: Optional[str]) -> str:
    """Return the path of the file, written where it is not there yet. Raises OSError."""
    from neuronctl.common.paths import data_path
    from neuronctl.records.environment import folder

    parts = [data_path(f"templates/{name}") for name in _PARTS]
    made_of = repr((interval, before, [(part, os.stat(part).st_mtime_ns) for part in parts]))
    path = os.path.join(folder(), f"{zlib.crc32(made_of.encode('utf-8', 'replace')):08x}.sh")
    if not os.path.exists(path):
        from neuronctl.common.files import write_private
        from neuronctl.rendering.render import render_batch_shell

        # Jobs that wait still need the file that they were submitted with.
        write_private(path, render_batch_shell(interval, before, folder()))
    return path


_PARTS = ("batch_shell.sh.j2", "monitor.j2", "environment.py")
