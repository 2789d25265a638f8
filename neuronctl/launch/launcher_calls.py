"""Launchers that a command line calls: which one it is, and its options."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

from neuronctl.common.frozen import dataclass
from neuronctl.launch.launchers import Launcher, every


@dataclass(frozen=True)
class LauncherOption:
    """An option of a launcher: its name (see ``launchers.option_name``), value, and words."""

    name: str
    value: str
    words: Tuple[str, ...]


@dataclass(frozen=True)
class LauncherCall:
    """A launcher that is called.

    options: in the order of the line. length: how many of the words are before what it starts, or
    None where an option is not known.
    """

    launcher: Launcher
    options: Tuple[LauncherOption, ...]
    length: Optional[int]


def called(
    words: Sequence[Optional[str]],
    launchers: Optional[Sequence[Launcher]] = None,
    *,
    akin: bool = True,
) -> Optional[LauncherCall]:
    """Find the launcher that the first of these words call; None if they call none.

    words: of a command, or of what follows ``python -m``; None for one that is not known.
    launchers: those to choose from, by default every one. akin: whether to recognise
    also programs that start processes as a launcher does but are not it, such as mpiexec.hydra.
    """
    found: Optional[LauncherCall] = None
    for launcher in every() if launchers is None else launchers:
        for command in (*launcher.programs, *(launcher.akin if akin else ())):
            if not words or words[0] != command[0] or tuple(words[: len(command)]) != command:
                continue
            options, length = _options(launcher, words, len(command))
            names = {option.name for option in options}
            chosen = not names.isdisjoint(launcher.chosen_by)
            if chosen or (found is None and not launcher.chosen_by):
                found = LauncherCall(launcher, options, length)
    return found


def _options(
    launcher: Launcher, words: Sequence[Optional[str]], at: int
) -> Tuple[Tuple[LauncherOption, ...], Optional[int]]:
    flags, values, pairs = launcher.flags, launcher.values, launcher.pairs
    found: List[LauncherOption] = []
    while at < len(words):
        word = words[at]
        if word is None or not word.startswith("-") or word == "--":
            break
        typed, equals, value = word.partition("=")
        name = typed.lstrip("-").replace("-", "_")
        length = 1
        if not equals and name not in flags:
            length = 3 if name in pairs else 2
            if name not in values + pairs and (values or not flags):
                return tuple(found), None
            value = (words[at + 1] if at + 1 < len(words) else None) or ""
        own = tuple(own_word or "" for own_word in words[at : at + length])
        if length == 2 and not values:  # argparse takes both in one word
            own = (f"{typed}={value}",)
        found.append(LauncherOption(name, value, own))
        at += length
    return tuple(found), min(at, len(words))
