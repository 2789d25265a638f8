"""The sampler of somebody's own script (--monitor), which stays as it is.

bash reads the file that BASH_ENV names before a script, and sbatch passes the variable on. So the
sampler starts within the job. Where the file is not there, bash says nothing.
"""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING, Dict

from neuronctl.common.errors import UsageError
from neuronctl.common.files import write_private
from neuronctl.common.paths import data_path, state_dir
from neuronctl.planning.model import MONITOR_INTERVAL

if TYPE_CHECKING:
    from neuronctl.submission.existing_script import ExistingScript


def batch_shell_variables(script: ExistingScript) -> Dict[str, str]:
    """Return what sbatch's environment needs for the sampler; nothing for a job without it.

    Raises UsageError if the sampler's file cannot be written.
    """
    if not script.monitor:
        return {}
    before = os.environ.get("BASH_ENV") or None
    parts = [data_path(f"templates/{name}") for name in ("batch_shell.sh.j2", "monitor.j2")]
    made_of = repr((before, [(part, os.stat(part).st_mtime_ns) for part in parts]))
    name = f"{zlib.crc32(made_of.encode('utf-8', 'replace')):08x}.sh"
    path = os.path.join(state_dir(), "samplers", name)
    if not os.path.exists(path):
        from neuronctl.rendering.render import render_batch_shell

        try:
            # Jobs that wait still need the file that they were submitted with.
            write_private(path, render_batch_shell(MONITOR_INTERVAL, before))
        except OSError as error:
            raise UsageError(f"--monitor: cannot write its file: {error}") from None
    return {"BASH_ENV": path}
