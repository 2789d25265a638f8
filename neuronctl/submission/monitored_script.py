"""The samples of somebody's own script, which stays as it is (--monitor): when, and when not."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.errors import UsageError
from neuronctl.common.frozen import dataclass, replace
from neuronctl.planning.model import MONITOR_INTERVAL

if TYPE_CHECKING:
    from neuronctl.submission.existing_script import ExistingScript
    from neuronctl.submission.transaction import Notify

_SWITCH, _INTERVAL = "--monitor", "--monitor-interval"
_OWN = (_SWITCH, _INTERVAL, "--no-monitor")


@dataclass(frozen=True)
class Monitoring:
    """What is said of it, and not. on: whether to sample. interval: seconds between two samples."""

    on: Optional[bool] = None
    interval: Optional[int] = None

    @property
    def asked(self) -> bool:
        """Whether a command line asks for it: an interval on it is for something."""
        return self.on is True or (self.on is None and self.interval is not None)


def without_monitor(words: Sequence[str]) -> Tuple[Tuple[str, ...], Monitoring]:
    """The words behind ``sbatch`` without those that are not its own, and what these say.

    Raises UsageError for an interval that is none.
    """
    if not any(word.startswith(_OWN) for word in words):
        return tuple(words), Monitoring()
    from neuronctl.request.sbatch_options import GetoptError
    from neuronctl.scripts.sbatch_line import read_line

    attached = re.sub(rf"(?<=\0{_INTERVAL})\0", "=", "\0" + "\0".join(words)).split("\0")[1:]
    try:
        line = read_line(attached)
    except GetoptError:
        return tuple(words), Monitoring()  # sbatch says what is wrong
    said = Monitoring()
    others: List[str] = []
    for word in line.options:
        name, _, value = word.partition("=")
        if name not in _OWN:
            others.append(word)
        elif name != _INTERVAL:
            said = replace(said, on=name == _SWITCH)
        elif re.fullmatch(r"[1-9][0-9]{0,5}", value):
            said = replace(said, interval=int(value))
        else:
            raise UsageError(
                f"{_INTERVAL}: '{value}' is not a number of seconds", f"{_INTERVAL} 10"
            )
    left = (*others, *line.script)
    return (tuple(words) if len(left) == len(attached) else left), said


def in_options(values: Mapping[str, Any]) -> Monitoring:
    """What parsed options say: of a command line, a configuration, or a record."""
    on, interval = values.get("monitor"), values.get("monitor_interval")
    return Monitoring(on, interval if isinstance(interval, int) else None)


def monitored(
    script: ExistingScript, said: Monitoring, otherwise: Monitoring, tell: Notify
) -> ExistingScript:
    """The script as it is to be sampled. said: on the command line; otherwise: where it is not.

    Where it cannot be sampled, raises UsageError if the command line asks for it; otherwise tells.
    """
    if said.on is False or not (said.asked or otherwise.on):
        return script
    why = why_not(script)
    if why and said.asked:
        raise UsageError(
            f"{_SWITCH} cannot sample this job: {why}",
            f"leave out {_SWITCH}; 'neuronctl report' then has what accounting knows",
        )
    if why:
        tell(f"the job is not sampled: {why}")
        return script
    return replace(script, monitor=said.interval or otherwise.interval or MONITOR_INTERVAL)


def why_not(script: ExistingScript) -> str:
    """Why nothing can start in the batch shell before the script; "" where it can."""
    from neuronctl.scripts.command_wrappers import interpreter

    header, before = script.header, os.environ.get("BASH_ENV") or None
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
        return f"BASH_ENV is '{before}', which is not a file"
    return ""
