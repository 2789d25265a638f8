"""The ``#SBATCH`` lines of a script, as sbatch reads them.

sbatch reads a script's lines from the top to the first one that is neither blank nor a comment, and
takes the options of those that begin with ``#SBATCH``. After them come the variables ``SBATCH_*``
and the command line, each over what was before.

``tests/slurm/test_script_header.py`` compares this with what sbatch makes of the same files.
"""

from __future__ import annotations

import difflib
import re
from typing import Dict, List, Mapping, Sequence

from neuronctl.scripts.directives import (
    BLANKS,
    DIRECTIVE,
    command_line_options,
    contradictions,
    environment_options,
    line_options,
    separates_components,
)
from neuronctl.scripts.model import (
    ACCUMULATED,
    AFTER_COMMAND,
    MISSPELLED,
    OVERRIDDEN,
    SCRIPT,
    Edit,
    GivenOption,
    Header,
    Ignored,
    Refusal,
    SourceSpan,
    excluding,
)
from neuronctl.scripts.script_file import MAX_BYTES, beginning, is_too_long


def read_header(
    text: str, *, environment: Mapping[str, str] = {}, command_line: Sequence[str] = ()
) -> Header:
    """Read a script as ``sbatch COMMAND_LINE script`` would in that environment.

    text: the file's; bytes that are not UTF-8 as surrogates. Every option that any release of Slurm
    has is taken. Of a heterogeneous job, the options of the first component are kept.
    """
    refusals: List[Refusal] = _whole_file(text)
    if refusals:
        text = "" if is_too_long(text) else text.replace("\r\n", "\n")
        # Keep the number of characters, so that places match the file.
        text = re.sub("\\A\ufeff+", lambda mark: " " * len(mark[0]), text)
    lines = beginning(text).split("\n")
    first_command = _first_command(lines)
    ignored: List[Ignored] = []
    components: List[List[GivenOption]] = [[]]
    for number, line in enumerate(lines[: first_command - 1], 1):
        if separates_components(line):
            components.append([])
        elif line.startswith(DIRECTIVE):
            options, rest, refusal = line_options(line, number)
            components[-1] += options
            ignored += rest
            refusals += [] if refusal is None else [refusal]
    outside = environment_options(environment) + command_line_options(command_line, refusals)
    for component in components:
        component += outside
        refusals += contradictions(component)
    given = components[0]
    foreign = any(line.startswith(("#PBS", "#BSUB")) for line in lines)
    ignored += [*_unread(lines, first_command), *_overridden(given)]
    return Header(
        tuple(given),
        tuple(refusals),
        tuple(sorted(ignored, key=lambda part: (part.place.line, part.place.column))),
        foreign and not any(option.name == "ignore-pbs" for option in given),
        len(components),
        first_command,
        lines[0][2:].strip() if lines[0].startswith("#!") else "",
        len(lines) if len(beginning(text)) < len(text) else 0,
    )


def _whole_file(text: str) -> List[Refusal]:
    """Return why sbatch refuses the file, whatever its directives say."""
    found: List[Refusal] = []

    def refuse(message: str, place: SourceSpan, hint: str = "", edits: Sequence[Edit] = ()) -> None:
        found.append(Refusal(message, place, hint, whole=True, edits=tuple(edits)))

    lines, plain = text.split("\n"), text.lstrip("\ufeff")
    first = SourceSpan(1, 1, len(lines[0].rstrip("\r")) + 1)
    if is_too_long(text):
        message = f"it has more than {MAX_BYTES:,} bytes, which is Slurm's limit (max_script_size)"
        refuse(message, first, "leave the data out: let the script read them from another file")
        return found
    if not text.strip(BLANKS):
        refuse(f"the script {'contains only blanks' if text else 'is empty'}", first)
        return found
    if plain != text:
        mark = SourceSpan(1, 1, len(text) - len(plain) + 1)
        message = "the file begins with a byte order mark (BOM), and so not with #!"
        hint = "save it as UTF-8 without BOM: sed -i '1s/^\\xEF\\xBB\\xBF//' FILE"
        refuse(message, mark, hint, [Edit(mark, "")])
    if not plain.startswith("#!"):
        message = "the first line is not #! and the path of an interpreter"
        refuse(message, first, "let the file begin with #!/bin/bash")
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        refuse("the file contains a NUL character", SourceSpan(line))
    ends = [
        SourceSpan(number, len(line), len(line) + 1)
        for number, line in enumerate(lines[:-1], 1)
        if line.endswith("\r")
    ]
    if ends:
        returns = [Edit(place, "") for place in ends if beginning(text) == text]
        hint = "convert the file: sed -i 's/\\r$//' FILE"
        refuse("the lines end as on Windows (CR LF)", ends[0], hint, returns)
    return found


def _first_command(lines: Sequence[str]) -> int:
    """Return the number of the line at which sbatch stops reading directives."""
    for number, line in enumerate(lines, 1):
        if not line.startswith(DIRECTIVE) and line.strip(BLANKS)[:1] not in ("", "#"):
            return number
    return len(lines) + 1


_MEANT = r"[ \t]+#SBATCH\b|#[ \t]*(?i:sbatch)[ \t]+-"
"""What is meant for a directive, and is none."""


def _is_meant(line: str) -> bool:
    """Return True if a comment seems meant as a directive."""
    name = re.match(r"#([A-Z]{5,7})[ \t]+-", line)
    near = name is not None and difflib.get_close_matches(name[1], ["SBATCH"], cutoff=0.8)
    return bool(near) or re.match(_MEANT, line) is not None


def _unread(lines: Sequence[str], first_command: int) -> List[Ignored]:
    """Return the lines that look like directives but that sbatch does not read."""
    found = []
    for number, line in enumerate(lines, 1):
        text, reason = line.rstrip(BLANKS), ""
        if line.startswith("#SBATCH"):
            reason = AFTER_COMMAND if number > first_command else ""
        elif number == first_command and re.match("SBATCH[ \t]+-", line):
            reason = MISSPELLED
        elif number < first_command and _is_meant(line):
            reason = MISSPELLED  # the writer of `##SBATCH` knows it
        if reason:
            found.append(Ignored(reason, text.lstrip(BLANKS), SourceSpan(number, 1, len(text) + 1)))
    return found


def _overridden(given: Sequence[GivenOption]) -> List[Ignored]:
    """Return the options overridden by a later one, the environment, or the command line."""
    found = []
    following: Dict[str, GivenOption] = {}
    for option in reversed(given):
        later = following.get(option.name)
        if later is not None and option.source == SCRIPT and option.name not in ACCUMULATED:
            found.append(Ignored(OVERRIDDEN, option.text, option.place, later))
        following.update(dict.fromkeys((option.name, *excluding(option.name)), option))
    return found
