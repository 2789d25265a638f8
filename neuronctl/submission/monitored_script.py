"""``neuronctl sbatch --monitor``: the samples of somebody's own script, which stays as it is.

bash reads the file that BASH_ENV names before a script, and sbatch passes the variable on: so the
sampler starts in the batch shell, within the job. Where the file is not there, bash says nothing.
"""

from __future__ import annotations

import os
import re
import zlib
from typing import List, Optional, Sequence, Tuple

from neuronctl.errors import UsageError

_SWITCH, _INTERVAL = "--monitor", "--monitor-interval"


def monitored(words: Sequence[str]) -> Tuple[str, ...]:
    """The words behind ``sbatch`` without --monitor; where that was given, BASH_ENV is set.

    Raises UsageError where the script cannot be sampled.
    """
    if not any(word.startswith(_SWITCH) for word in words):
        return tuple(words)
    from neuronctl.batchscript.sbatch_line import read_line
    from neuronctl.sbatch_options import GetoptError

    attached = re.sub(rf"(?<=\0{_INTERVAL})\0", "=", "\0" + "\0".join(words)).split("\0")[1:]
    try:
        line = read_line(attached)
    except GetoptError:
        return tuple(words)  # sbatch says what is wrong
    seconds, own = "", False
    others: List[str] = []
    for word in line.options:
        name, _, value = word.partition("=")
        if name not in (_SWITCH, _INTERVAL):
            others.append(word)
        else:
            own = True
            seconds = value or seconds
    if own:
        rest = (*others, *line.script)
        _start_sampler(rest, seconds)
        return rest
    return tuple(words)


def _start_sampler(words: Sequence[str], seconds: str) -> None:
    from neuronctl.files import write_private
    from neuronctl.paths import state_dir
    from neuronctl.planning.model import MONITOR_INTERVAL
    from neuronctl.rendering.render import render_sampler

    if seconds and not re.fullmatch(r"[1-9][0-9]{0,5}", seconds):
        raise UsageError(f"{_INTERVAL}: '{seconds}' is not a number of seconds", "such as 10")
    before = os.environ.get("BASH_ENV") or None
    why = _why_not(words, before)
    if why:
        raise UsageError(
            f"{_SWITCH} cannot sample this job: {why}",
            f"leave out {_SWITCH}; 'neuronctl report' then has what accounting knows",
        )
    text = render_sampler(int(seconds or MONITOR_INTERVAL), before)
    # Jobs that wait still need the file that they were submitted with.
    path = os.path.join(state_dir(), "samplers", f"{zlib.crc32(text.encode()):08x}.sh")
    try:
        write_private(path, text)
    except OSError as error:
        raise UsageError(f"{_SWITCH}: cannot write {path}: {error.strerror}") from None
    os.environ["BASH_ENV"] = path


def _why_not(words: Sequence[str], before: Optional[str]) -> str:
    from neuronctl.batchscript.command_wrappers import interpreter
    from neuronctl.batchscript.sbatch_line import read_line
    from neuronctl.submission.existing_script import read_existing

    if read_line(words).reads_stdin:
        return "its script is on standard input; name a file"
    header = read_existing(words).header
    if interpreter(header.shebang) != "bash":
        return "only bash can start the sampler, and the script's first line names another program"
    if re.search(r"\s(--posix|-\w*p\w*)\b", header.shebang):
        return f"the script's first line is '{header.shebang}', and bash then ignores BASH_ENV"
    if header.components > 1:
        return "a heterogeneous job is not sampled"
    export = header.value("export")
    if "export-file" in header.options or (export or "ALL").split(",")[0].upper() != "ALL":
        return "the sampler needs BASH_ENV, and --export does not pass it on; --export=ALL does"
    if before is not None and not os.path.isfile(before):
        return f"BASH_ENV is '{before}', which is no file"
    return ""
