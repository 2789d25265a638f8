"""How a failed job ended: its exit code or signal, and the usual meaning. Pure."""

from __future__ import annotations

import functools
import os
import signal
from typing import Mapping, Optional, Tuple

from neuronctl.common import yamlfile
from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.errors import CatalogError
from neuronctl.diagnosis.evidence import JobEvidence, failed_step, says_signal
from neuronctl.diagnosis.signs import CRASHES, Sign
from neuronctl.slurm.job_states import FAILED
from neuronctl.tracking.endings import signal_name


@dataclass(frozen=True)
class Ending:
    """How a job failed: ``what`` in words, and its exit code or the number of its signal."""

    what: str
    code: int = 0
    signal: int = 0


def describe_ending(evidence: JobEvidence, match: Optional[Sign]) -> Ending:
    """Return how a job failed. match: the most relevant line of its log."""
    status = evidence.status
    exit, ending = status.exit, Ending("failed; its exit code is unknown")
    if exit is not None and exit.signal and not exit.code:
        ending = Ending(f"killed by {signal_name(exit.signal)}", 0, exit.signal)
    elif exit is not None:
        reported = 0 if match is None else match.exit
        number, form = _signal_of(evidence, exit.code, reported)
        what = f"failed with exit code {exit.code}{form}"
        if number and reported in (0, exit.code, -number):
            what += f": a program in it was killed by {signal_name(number)}"
        ending = Ending(what, exit.code, number)
    what = ending.what if status.state == FAILED else f"{status.state}: {ending.what}"
    if match is None and failed_step(evidence):
        what += f"; its {failed_step(evidence)}"
    return replace(ending, what=what)


def first_process(ending: Ending, match: Sign) -> Ending:
    """Return the ending of the process that a launcher's report names."""
    what = ending.what
    if match.exit not in (ending.code, -ending.signal):
        what += f": {match.cause}"
    return Ending(what, max(match.exit, 0), max(-match.exit, 0))


def _signal_of(evidence: JobEvidence, code: int, told: int) -> Tuple[int, str]:
    """Return the signal that an exit code stands for, or 0, and whose form of it that is.

    told: what the log says of the process that failed first, negative for a signal.
    """
    low = evidence.status.exit_low
    if 128 < code < 160:  # no shell reports a real-time signal
        return code - 128, ""
    if low and (says_signal(evidence, code) or told == -code):
        # sacct 22.05 prints 139 as 11; the shell's name for the signal decides.
        return code, f" (accounting's form of {128 + code})"
    for whole in (code, code + 128) if low else (code,):
        # Python turns -9 into 247, the exit code of DeepSpeed's launcher.
        number = 256 - whole
        if number in CRASHES | {signal.SIGABRT} and (whole == code or told == -number):
            form = f" (accounting's form of {whole})" if whole != code else ""
            return number, f"{form}, which is -{number} as an exit code"
    return 0, ""


def ending_meaning(ending: Ending) -> Mapping[str, str]:
    """Return exits.yaml's entry for a signal or an exit code: kind, means, do."""
    number = ending.signal
    name = signal_name(number).rpartition(" ")[2] if number else str(ending.code)
    return meanings().get(name, {})


@functools.cache
def meanings() -> Mapping[str, Mapping[str, str]]:
    """Return the known signals, by name, and exit codes, by number."""
    file = os.path.join(os.path.dirname(__file__), "exits.yaml")
    return yamlfile.read(file, CatalogError).data
