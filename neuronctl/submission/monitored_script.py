"""The samples of somebody's own script, which stays as it is (--monitor): when, and when not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, Sequence, Tuple

from neuronctl.common.errors import UsageError
from neuronctl.common.frozen import replace

if TYPE_CHECKING:
    from neuronctl.submission.existing_script import ExistingScript
    from neuronctl.submission.transaction import Notify

_SWITCH, _NO = "--monitor", "--no-monitor"


def take_monitor(words: Sequence[str]) -> Tuple[Tuple[str, ...], Optional[bool]]:
    """Take --monitor and --no-monitor from the words behind ``sbatch``; return which was given."""
    if _SWITCH not in words and _NO not in words:
        return tuple(words), None
    from neuronctl.request.sbatch_options import GetoptError
    from neuronctl.scripts.sbatch_line import read_line

    try:
        line = read_line(words)
    except GetoptError:
        return tuple(words), None  # sbatch says what is wrong
    others = [word for word in line.options if word not in (_SWITCH, _NO)]
    given = [word for word in line.options if word in (_SWITCH, _NO)]
    return (*others, *line.script), given[-1] == _SWITCH if given else None


def monitored(
    script: ExistingScript, said: Optional[bool], otherwise: Optional[bool], tell: Notify
) -> ExistingScript:
    """Return the script as it is to be sampled.

    said: whether the command line asks for it; otherwise: what holds where it says nothing. If the
    script cannot be sampled, raises UsageError if the command line asks for it; otherwise tells.
    """
    if not (otherwise if said is None else said):
        return script
    why = script.unsampled
    if why and said:
        raise UsageError(
            f"{_SWITCH} cannot sample this job: {why}",
            f"leave out {_SWITCH}; 'neuronctl report' then has what accounting knows",
        )
    if why:
        tell(f"the job is not sampled: {why}")
        return script
    return replace(script, monitor=True)
