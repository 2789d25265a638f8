"""The options that words, variables, or a command line give, and what sbatch refuses in them."""

from __future__ import annotations

import re
from typing import Dict, List, Mapping, Optional, Sequence, Set, Tuple

from neuronctl.request.job import OF_SLURM
from neuronctl.request.sbatch_options import (
    EARLY,
    NO_VALUE,
    OPTIONAL_VALUE,
    SBATCH,
    GetoptError,
    Parsed,
    getopt_with_plugins,
    variables,
)
from neuronctl.scripts import misspelled_options
from neuronctl.scripts.directive_words import DirectiveWord, Refused, words_of
from neuronctl.scripts.model import (
    COMMAND_LINE,
    EARLY_ONLY,
    EVERY,
    NOWHERE,
    SCRIPT,
    GivenOption,
    Ignored,
    Refusal,
    SourceSpan,
    in_force,
)
from neuronctl.scripts.option_values import check_value, excluding


def directive_options(words: Sequence[DirectiveWord]) -> Tuple[List[GivenOption], List[Ignored]]:
    """The options of a component's words, and those without effect there; raises Refused."""
    given, early = _given(_only_options(words), words)
    check_values(given)
    return given, early


def line_options(line: str, number: int, *, check: bool = True) -> List[GivenOption]:
    """The options of a directive that stands alone; raises Refused. check: their values, too."""
    words, _, _ = words_of([line], -1, frozenset(), number)
    given, _ = _given(_only_options(words), words)
    check_values(given if check else ())
    return given


def _getopt(words: Sequence[DirectiveWord]) -> Tuple[Tuple[Parsed, ...], int]:
    """The options, and the index of the word behind them; raises Refused."""
    try:
        lines = [word.place.line for word in words]
        return getopt_with_plugins([word.text for word in words], SBATCH, lines)
    except GetoptError as error:
        word = words[error.index]
        hint = misspelled_options.hint(word.text) if error.unknown else ""
        refusal = Refusal(
            str(error), word.place, hint, about=misspelled_options.meant_options(word.text)
        )
        raise Refused(refusal) from None


def _only_options(words: Sequence[DirectiveWord]) -> Tuple[Parsed, ...]:
    """Parse the words of a component, which are all options; raises Refused."""
    parsed, end = _getopt(words)
    if end < len(words):
        word, hint = words[end], ""
        if end and words[end - 1].place.line == word.place.line:
            hint = _joined(parsed[-1], words, end) if parsed else ""
            name, equals, value = words[end - 1].text.partition("=")
            quoted = f'{name}="{value} {word.text}"' if equals else f'"{name} {word.text}"'
            hint = hint or f"a value with a blank needs quotes, and a remark a #: {quoted}"
        raise Refused(Refusal(f"'{word.text}' is not an option", word.place, hint))
    return parsed


def _joined(last: Parsed, words: Sequence[DirectiveWord], end: int) -> str:
    """What to write for ``--nodes = 2``, ``--nodes= 2`` or ``--mem 64 GB``; "": it is no such."""
    value, more = last.value or "", words[end].text
    if value in ("", "="):
        return f"write --{last.known.long}={more}" if last.known.takes != NO_VALUE else ""
    if more[:1].isdigit():
        return ""  # two numbers, which are hardly one
    right = _takes(last.known.name, value + more) and not _takes(last.known.name, f"{value} {more}")
    return f"write --{last.known.long}={value}{more}" if right else ""


def _takes(name: str, value: str) -> bool:
    try:
        check_value(name, value)
    except ValueError:
        return False
    return True


def _given(
    options: Sequence[Parsed], words: Sequence[DirectiveWord]
) -> Tuple[List[GivenOption], List[Ignored]]:
    given: List[GivenOption] = []
    early: List[Ignored] = []
    for option in options:
        first, last = words[option.index].place, words[option.value_index].place
        end = last.end if last.line == first.line else first.end
        place = SourceSpan(first.line, first.column, end)
        if option.known.name in EARLY:
            early.append(Ignored(EARLY_ONLY, f"--{option.known.name}", place))
        else:
            given.append(GivenOption(option.known.name, option.value, SCRIPT, place, last))
    return given, early


def check_values(given: Sequence[GivenOption]) -> None:
    """Raise Refused for the first value that sbatch itself refuses at once."""
    for option in given:
        if option.name == "hint":
            continue  # in the end, sbatch judges the last one: see contradictions()
        _check_value(option)


def _check_value(option: GivenOption) -> None:
    try:
        check_value(option.name, option.value)
    except ValueError as error:
        hint = ""
        if option.value is not None and re.search(r"\$\w|\$\{", option.value):
            hint = "#SBATCH lines do not expand variables: write the value itself"
        message = f"--{option.name}: {error}"
        raise Refused(Refusal(message, option.place, hint, about=(option.name,))) from None


def from_command_line(words: Sequence[str], refusals: List[Refusal]) -> List[GivenOption]:
    """The options of sbatch's command line. Appends what sbatch refuses to ``refusals``."""
    given: List[GivenOption] = []
    try:
        given += [
            GivenOption(parsed.known.name, parsed.value, COMMAND_LINE)
            for parsed in getopt_with_plugins(words, SBATCH)[0]
            if parsed.known.name not in EARLY
        ]
        check_values(given)
    except GetoptError as error:
        refusals.append(Refusal(str(error), NOWHERE, about=EVERY))
    except Refused as error:
        refusals.append(error.refusal)
    return given


_KNOWN = {option.name: option for option in SBATCH}
_VARIABLES = variables()


def from_environment(
    environment: Mapping[str, str], refusals: List[Refusal]
) -> Tuple[List[GivenOption], Set[str]]:
    """The options that variables set, and those that they take back.

    Appends what sbatch refuses to ``refusals``.
    """
    given = []
    unset: Set[str] = set()
    for variable, name in _VARIABLES.items():
        value: Optional[str] = environment.get(variable)
        if value is None:
            continue
        if _KNOWN[name].takes == NO_VALUE:
            number = re.fullmatch(r"[ \t]*[+-]?0*[1-9][0-9]*", value)
            if value and value.lower() != "yes" and not number:
                unset |= {name, *excluding(name)}
                continue
            value = None
        elif _KNOWN[name].takes == OPTIONAL_VALUE:
            value = value or None
        try:
            check_value(name, value)
        except ValueError as error:
            hint = f"unset {variable}"
            refusals.append(Refusal(f"{variable}: {error}", NOWHERE, hint, about=(name,)))
        given.append(GivenOption(name, value, variable))
    return given, unset


_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
_SHARING = ("exclusive", "oversubscribe")


def _typed(given: Sequence[GivenOption], names: Sequence[str]) -> Dict[str, GivenOption]:
    """Those of the options that sbatch counts as typed: not what the environment sets, too."""
    last = {option.name: option for option in given if option.name in names}
    return {
        name: option for name, option in last.items() if option.source in (SCRIPT, COMMAND_LINE)
    }


def with_one_memory(given: List[GivenOption]) -> List[GivenOption]:
    """Without the environment's memory where the script or the command line says it another way."""
    typed = _typed(given, _MEMORY)
    return [
        option
        for option in given
        if not typed or option.name not in _MEMORY or option.name in typed
    ]


def _is_zero(nodes: Optional[GivenOption]) -> bool:
    """Whether ``--nodes`` says 0, in one of the ways that sbatch takes."""
    return nodes is not None and OF_SLURM["nodes"].parse_directive(nodes.value) is None


def contradictions(given: Sequence[GivenOption]) -> List[Refusal]:
    """What sbatch refuses in the end: options that it takes alone, but not together, and a hint."""
    found = []
    for group in (_MEMORY, _SHARING):  # the latter since 23.02
        typed = _typed(given, group)
        if len(typed) > 1:
            names = " and ".join(f"--{name}" for name in typed)
            last = list(typed.values())[-1]
            message, hint = f"{names} exclude each other", "keep one of them"
            found.append(Refusal(message, last.place, hint, about=tuple(typed)))
    memory = {option.name: option.source for option in given if option.name in _MEMORY}
    if len(memory) > 1 and not _typed(given, _MEMORY):
        message = f"{' and '.join(memory.values())} exclude each other"
        found.append(Refusal(message, NOWHERE, "unset all but one of them", about=tuple(memory)))
    held = in_force(given)
    # The nodes follow from all GPUs and those of each node, in 22.05 also from names of nodes.
    counted = "gpus" in held and held.keys() & {"gpus-per-node", "gres"}
    if _is_zero(held.get("nodes")) and not (counted or "nodelist" in held):
        message, hint = "--nodes: '0' is not a whole number of nodes of at least 1", "write 1"
        found.append(Refusal(message, held["nodes"].place, hint, about=("nodes",)))
    if "hint" in held and not held.keys() & {"ntasks-per-core", "threads-per-core"}:
        try:
            _check_value(held["hint"])
        except Refused as error:
            found.append(error.refusal)
    return found
