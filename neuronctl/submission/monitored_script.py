"""The samples of somebody's own script, which stays as it is (--monitor).

bash reads the file that BASH_ENV names before a script, and sbatch passes the variable on. So the
sampler starts within the job. Where the file is not there, bash says nothing.
"""

from __future__ import annotations

import os
import re
import zlib
from typing import TYPE_CHECKING, Dict, Optional

from neuronctl.common.errors import UsageError
from neuronctl.common.files import write_private
from neuronctl.common.frozen import replace
from neuronctl.common.paths import state_dir
from neuronctl.planning.model import MONITOR_INTERVAL
from neuronctl.scripts.model import interpreter

if TYPE_CHECKING:
    from neuronctl.submission.existing_script import ExistingScript
    from neuronctl.submission.transaction import Notify


def monitored(
    script: ExistingScript, said: Optional[bool], otherwise: Optional[bool], tell: Notify
) -> ExistingScript:
    """Return the script as it is to be sampled.

    said: whether the command line asks for it; otherwise: what holds where it says nothing. If the
    script cannot be sampled, raises UsageError if the command line asks for it; otherwise tells.
    """
    if not (otherwise if said is None else said):
        return script
    why = _why_unsampled(script)
    if why and said:
        raise UsageError(
            f"--monitor cannot sample this job: {why}",
            "leave out --monitor; 'neuronctl report' then has what accounting knows",
        )
    if why:
        tell(f"the job is not sampled: {why}")
    return replace(script, monitor=not why)


def _why_unsampled(script: ExistingScript) -> str:
    """Return why nothing can start in the batch shell before the script; "" if it can."""
    header = script.header
    if interpreter(header.shebang) != "bash" or re.search(r"\s-\S*p", header.shebang):
        # --posix and -p ignore BASH_ENV.
        return f"only bash can start the sampler, and not as '{header.shebang}'"
    if header.components > 1:
        return "a heterogeneous job is not sampled"
    passed = (header.value("export") or "ALL").split(",")[0].upper() == "ALL"
    if "export-file" in header.options or not passed:
        return "the sampler needs BASH_ENV, and --export does not pass it on; --export=ALL does"
    return ""


def batch_shell_variables(script: ExistingScript) -> Dict[str, str]:
    """Return what sbatch's environment needs for the sampler; nothing for a job without it.

    Raises UsageError if the sampler's file cannot be written.
    """
    if not script.monitor:
        return {}
    from neuronctl.rendering.render import render_batch_shell

    text = render_batch_shell(MONITOR_INTERVAL, os.environ.get("BASH_ENV") or None)
    # Jobs that wait still need the file that they were submitted with.
    name = f"{zlib.crc32(text.encode('utf-8', 'surrogateescape')):08x}.sh"
    path = os.path.join(state_dir(), "samplers", name)
    if not os.path.exists(path):
        try:
            write_private(path, text)
        except OSError as error:
            raise UsageError(f"--monitor: cannot write its file: {error}") from None
    return {"BASH_ENV": path}
