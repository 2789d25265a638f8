"""NC671: programs that are told to use more memory than the job has."""

from __future__ import annotations

import re
from typing import Iterator, Optional, Tuple

from neuronctl import units
from neuronctl.batchscript.launches import Launch
from neuronctl.batchscript.model import SourceSpan
from neuronctl.batchscript.values import digits
from neuronctl.rule_codes import WARNING
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts, script_rule

_HEAP = re.compile(r"(?:^|[\s\"'=])-Xmx(\d{1,6})([kKmMgGtT]?)")
_MB = {"": 1 / 1048576, "k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1048576.0}
_OF_PROGRAMS = {
    "Trinity": ("--max_memory", "g"),
    "spades.py": ("-m|--memory", "g"),
    "canu": ("maxMemory", "g"),
}
"""The option that says how much memory a program may use, and its unit where none is written."""


@script_rule(WARNING, "NC671", "more memory than the job has")
def too_much(facts: ScriptFacts) -> Iterator[Violation]:
    has = _memory(facts)
    if has is None:
        return
    found = [(_heap(line), SourceSpan(n, 1, len(line) + 1)) for n, line in facts.plain_lines]
    found += [told for start in facts.starts for told in _told(start.launch)]
    for asked, place in found:
        if asked is not None and asked > has:
            yield Violation(
                f"a program may use {_shown(asked)} here, and the job has {_shown(has)} of memory: "
                "Slurm ends it where it does",
                f"request #SBATCH --mem={round(asked * 1.1 / 1024) or 1}G, or write less here",
                place=place,
            )
            return


def _heap(line: str) -> Optional[float]:
    match = _HEAP.search(line) if "-Xmx" in line else None
    return None if match is None else int(match[1]) * _MB[match[2].lower()]


def _told(launch: Launch) -> Iterator[Tuple[Optional[float], SourceSpan]]:
    """What a program's own options say, in MB."""
    option = _OF_PROGRAMS.get(launch.name)
    for pair in launch.pairs if option is not None else ():
        size = re.fullmatch(r"(\d{1,6})([kKmMgGtT]?)[bB]?", pair.value.value or "")
        if option is not None and size is not None and re.fullmatch(option[0], pair.name):
            yield int(size[1]) * _MB[size[2].lower() or option[1]], pair.word.place
    words = launch.texts
    if launch.name == "samtools" and words[1:2] == ("sort",):
        pairs = {pair.name: (pair.value.value or "", pair.word.place) for pair in launch.pairs}
        size = re.fullmatch(r"(\d{1,6})([kKmMgG]?)", pairs.get("-m", ("", None))[0])
        count = pairs.get("-@", pairs.get("--threads", ("1", None)))[0]
        threads = digits(count)
        if size is not None and threads is not None:
            yield int(size[1]) * _MB[size[2].lower()] * threads, pairs["-m"][1]


def _memory(facts: ScriptFacts) -> Optional[float]:
    """The job's memory on a node, in MB; None where it is not given, or all of the node's."""
    cores = facts.plan.cores_per_node if facts.plan is not None else 0
    for name, times in (("mem", 1), ("mem-per-cpu", cores)):
        try:
            size = units.parse_memory(facts.header.value(name) or "0") * times
        except ValueError:
            return None
        if size:
            return size
    return None


def _shown(megabytes: float) -> str:
    return f"{megabytes / 1024:.3g} GB" if megabytes >= 1024 else f"{megabytes:.0f} MB"
