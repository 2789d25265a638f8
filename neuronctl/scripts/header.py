"""The ``#SBATCH`` lines of a script, as sbatch reads them.

sbatch reads a script's lines from the top to the first one that is neither blank nor a comment,
splits those that begin with ``#SBATCH`` into words by a grammar of its own (neither the shell's
nor getopt's), puts all words of all lines into one list and gives that to getopt_long. After it
come the variables ``SBATCH_*`` and the command line, each over what was before.

``tests/slurm/test_script_header.py`` compares this with what sbatch makes of the same files.
"""

from __future__ import annotations

import difflib
import re
from functools import partial
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from neuronctl.common.frozen import replace
from neuronctl.request.sbatch_options import SBATCHS_OWN
from neuronctl.scripts.directive_options import (
    contradictions,
    directive_options,
    from_command_line,
    from_environment,
    line_options,
    with_one_memory,
)
from neuronctl.scripts.directive_words import (
    BLANKS,
    DIRECTIVE,
    Refused,
    words_of,
)
from neuronctl.scripts.edits import edited
from neuronctl.scripts.look_alike_characters import explained, respelled
from neuronctl.scripts.model import (
    AFTER_COMMAND,
    EVERY,
    MISSPELLED,
    OVERRIDDEN,
    SCRIPT,
    Edit,
    GivenOption,
    Header,
    Ignored,
    Refusal,
    SourceSpan,
)
from neuronctl.scripts.option_values import ACCUMULATED, excluding
from neuronctl.scripts.script_file import beginning, is_too_long
from neuronctl.scripts.script_search import MAX_BYTES


def read_header(
    text: str,
    *,
    environment: Mapping[str, str] = {},
    command_line: Sequence[str] = (),
) -> Header:
    """Read a script as ``sbatch COMMAND_LINE script`` would in that environment.

    text: the file's; bytes that are not UTF-8 as surrogates. Every option that any release of Slurm
    has is taken.
    """
    refusals: List[Refusal] = _whole_file(text)
    others: List[List[GivenOption]] = []
    if refusals:
        text = "" if is_too_long(text) else text.replace("\r\n", "\n")
        # As many characters, so that each place is the file's own.
        text = re.sub("\\A\ufeff+", lambda mark: " " * len(mark[0]), text)
    lines = beginning(text).split("\n")
    first_command = _first_command(lines)
    left_out = len(lines) if len(beginning(text)) < len(text) else 0
    directives = _Directives(lines[: first_command - 1])
    given, following, ignored = directives.read(-1, refusals)
    while following is not None:
        component, following, _ = directives.read(following, refusals)
        others.append(component)
    added, unset = from_environment(environment, refusals)
    outside = from_command_line(command_line, refusals)
    given = [option for option in given if option.name not in unset] + added + outside
    for component_given in (given, *([*component, *outside] for component in others)):
        refusals += contradictions(component_given)
    given = with_one_memory(given)
    foreign = tuple(
        SourceSpan(number, 1, len(line) + 1)
        for number, line in enumerate(lines, 1)
        if line.startswith(("#PBS", "#BSUB"))
    )
    if any(option.name == "ignore-pbs" for option in given):
        foreign = ()
    ignored += _unread(lines, first_command)
    ignored += _overridden(given)
    return Header(
        tuple(given),
        tuple(refusals),
        tuple(sorted(ignored, key=lambda part: (part.place.line, part.place.column))),
        foreign,
        1 + len(others),
        first_command,
        lines[0][2:].strip() if lines[0].startswith("#!") else "",
        left_out,
    )


def _whole_file(text: str) -> List[Refusal]:
    """Why sbatch refuses the file whatever its directives say."""
    refusal = partial(Refusal, whole=True)
    if is_too_long(text):
        message = f"it has more than {MAX_BYTES:,} bytes, which is Slurm's limit (max_script_size)"
        hint = "leave the data out: let the script read them from another file"
        return [refusal(message, SourceSpan(1), hint, about=EVERY)]
    if not text.strip(BLANKS):
        what = "contains only blanks" if text else "is empty"
        return [refusal(f"the script {what}", SourceSpan(1))]
    found: List[Refusal] = []
    lines = text.split("\n")
    plain = text.lstrip("\ufeff")
    if plain != text:
        mark = SourceSpan(1, 1, len(text) - len(plain) + 1)
        found.append(
            refusal(
                "the file begins with a byte order mark (BOM), and so not with #!",
                mark,
                "save it as UTF-8 without BOM: sed -i '1s/^\\xEF\\xBB\\xBF//' FILE",
                edits=(Edit(mark, ""),),
            )
        )
    if not plain.startswith("#!"):
        found.append(
            refusal(
                "the first line is not #! and the path of an interpreter",
                SourceSpan(1, 1, len(lines[0].rstrip("\r")) + 1),
                "let the file begin with #!/bin/bash",
            )
        )
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        found.append(refusal("the file contains a NUL character", SourceSpan(line)))
    if "\r\n" in text:
        places = (
            SourceSpan(number, len(line), len(line) + 1)
            for number, line in enumerate(lines[:-1], 1)
            if line.endswith("\r")
        )
        first = next(places)
        short = beginning(text) == text
        returns = tuple(Edit(place, "") for place in (first, *places)) if short else ()
        hint = "convert the file: sed -i 's/\\r$//' FILE"
        found.append(refusal("the lines end as on Windows (CR LF)", first, hint, edits=returns))
    return found


def _first_command(lines: Sequence[str]) -> int:
    """The number of the line where sbatch stops reading directives."""
    for number, line in enumerate(lines, 1):
        if not line.startswith(DIRECTIVE) and line.strip(BLANKS)[:1] not in ("", "#"):
            return number
    return len(lines) + 1


_MOST_REFUSALS = 20
"""This many are listed: for each, all lines are read again."""


class _Directives:
    """The lines with the directives; what sbatch refuses in them is mended or emptied meanwhile."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = list(lines)
        self.spelled = False
        self.told: Set[int] = set()
        """The lines of the refusals."""
        self.mended: Set[int] = set()
        """The numbers of the lines whose columns are no longer the file's."""
        self.left = 1 + _MOST_REFUSALS

    def read(
        self, begin: int, refusals: List[Refusal]
    ) -> Tuple[List[GivenOption], Optional[int], List[Ignored]]:
        """Return the options of one component, where another one follows, and what has no effect.

        begin: as of words_of(). Appends what sbatch refuses to ``refusals``.
        """
        while self.left:
            try:
                words, following, cut = words_of(self.lines, begin, self.mended)
                given, early = directive_options(words)
                return given, following, [*early, *cut]
            except Refused as error:
                refusal = error.refusal
            self.left -= 1
            spelled = [] if self.spelled else list(self.spell())
            self.spelled = True
            if not spelled:
                self.empty(refusal.place)
            for each in spelled or [refusal]:
                refusals += [] if each.place.line in self.told else [each]
                self.told.add(each.place.line)
        refusals.append(
            Refusal("more lines are wrong than are listed here", refusal.place, about=EVERY)
        )
        return [], None, []

    def spell(self) -> Iterator[Refusal]:
        """Mend the lines that are refused for characters which only look like the right ones."""
        for number, line in enumerate(self.lines, 1):
            if line.isascii() or not line.startswith(DIRECTIVE):
                continue
            refusal = _refused(line, number)
            edits = [] if refusal is None else respelled(line, number)
            if refusal is not None and edits:
                plain = edited(line, [replace(edit, place=_on_line_1(edit)) for edit in edits])
                self.lines[number - 1] = plain
                self.mended.add(number)
                message = explained(refusal.message, line, edits)
                hint = f"write {plain.strip(BLANKS)}"
                yield Refusal(message, refusal.place, hint, edits=tuple(edits))

    def empty(self, place: SourceSpan) -> None:
        """Take out what sbatch refuses, and leave everything else in its column."""
        line = self.lines[place.line - 1]
        blanks = " " * (place.end - place.column)
        emptied = line[: place.column - 1] + blanks + line[place.end - 1 :]
        self.lines[place.line - 1] = "#SBATCH" if place.line in self.mended else emptied


def _on_line_1(edit: Edit) -> SourceSpan:
    return replace(edit.place, line=1)


def _refused(line: str, number: int) -> Optional[Refusal]:
    """What sbatch has against a directive that stands alone."""
    try:
        line_options(line, number)
    except Refused as error:
        return error.refusal
    return None


_MEANT = re.compile(r"[ \t]+#SBATCH\b|#[ \t]*(?i:sbatch)[ \t]+-")
"""What is meant for a directive, and is none."""


_EXAMPLE = re.compile(r"#[ \t]*sbatch[ \t].*\.(sh|bash|sbatch|slurm|slrm|job|sub|batch)[ \t]*$")
"""How to submit a script: ``# sbatch -p gpu train.sh``."""


_BARE = re.compile(r"#--([a-z][a-z-]+)[= ]\S+\s*(#.*)?")
"""An option of sbatch's behind a comment sign: ``#--gres=gpu:1``."""


def _is_meant(line: str) -> bool:
    bare = _BARE.fullmatch(line)
    if bare is not None:
        return bare[1] in SBATCHS_OWN
    name = re.match(r"#([A-Z]{5,7})[ \t]+-", line)
    near = name is not None and difflib.get_close_matches(name[1], ["SBATCH"], cutoff=0.8)
    return bool(near) or (_MEANT.match(line) is not None and not _EXAMPLE.match(line))


def _unread(lines: Sequence[str], first_command: int) -> List[Ignored]:
    """Lines that look like directives, and that sbatch does not read."""
    found = []
    for number, line in enumerate(lines, 1):
        text, reason = line.rstrip(BLANKS), ""
        if line.startswith("#SBATCH"):
            reason = AFTER_COMMAND if number > first_command else ""
        elif number == first_command and re.match("SBATCH[ \t]+-", line):
            reason = MISSPELLED
        elif number < first_command and _is_meant(line):
            reason = MISSPELLED  # of `##SBATCH` the writer knows it
        if reason:
            found.append(Ignored(reason, text.lstrip(BLANKS), SourceSpan(number, 1, len(text) + 1)))
    return found


def _overridden(given: Sequence[GivenOption]) -> List[Ignored]:
    """What a later option, or one of the environment or the command line, takes the place of."""
    found = []
    following: Dict[str, GivenOption] = {}
    for option in reversed(given):
        later = following.get(option.name)
        if later is not None and option.source == SCRIPT and option.name not in ACCUMULATED:
            found.append(Ignored(OVERRIDDEN, option.text, option.place, later))
        following.update(dict.fromkeys((option.name, *excluding(option.name)), option))
    return found
