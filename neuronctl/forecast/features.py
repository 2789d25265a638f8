"""Which nodes a ``--constraint`` accepts. Pure."""

from __future__ import annotations

import re
from typing import AbstractSet, FrozenSet, List, Optional, Sequence, Tuple

from neuronctl.common.frozen import dataclass
from neuronctl.slurm.scontrol import NodeGroup, names_of

_NAME = r"[^&,|()\[\]*!\s]+"
_TERM = rf"(?:{_NAME}|\({_NAME}(?:[&,|]{_NAME})*\))"


@dataclass(frozen=True)
class NodeChoice:
    """One way to meet a constraint: so many of each of these sets of node names, at least."""

    parts: Tuple[Tuple[FrozenSet[str], int], ...]

    def met_by(self, names: AbstractSet[str]) -> bool:
        return all(len(wanted & names) >= count for wanted, count in self.parts)


def feature_names(text: str) -> List[str]:
    return re.findall(r"[^&,|()\[\]*\s]+", re.sub(r"\*\d+", "", text))


def choices(
    text: Optional[str], groups: Sequence[NodeGroup], count: int
) -> Optional[Tuple[NodeChoice, ...]]:
    """The ways in which ``count`` of these nodes meet a constraint; None: that is not known.

    Known are names with ``&``, ``,`` and ``|``, of which Slurm takes one after the other, and
    parentheses; ``[a|b]``: all nodes have the one or the other; ``a*2``: at least two have it.
    """
    everywhere = names_of(groups)
    if text is None:
        return (NodeChoice(((everywhere, count),)),)
    if re.fullmatch(rf"{_TERM}(?:[&,|]{_TERM})*", text):
        return (NodeChoice(((_matching(text, groups), count),)),)
    if re.fullmatch(rf"\[{_NAME}(?:\|{_NAME})+\]", text):
        names = feature_names(text)
        return tuple(NodeChoice(((_matching(name, groups), count),)) for name in names)
    of_some = re.fullmatch(rf"({_NAME})\*([1-9]\d{{0,5}})", text)
    if of_some is None:
        return None
    some = int(of_some[2])
    if some > count:
        return ()
    return (NodeChoice(((_matching(of_some[1], groups), some), (everywhere, count))),)


def _matching(text: str, groups: Sequence[NodeGroup]) -> FrozenSet[str]:
    found: FrozenSet[str] = frozenset()
    for operator, group, name in re.findall(rf"(^|[&,|])(?:\(([^()]+)\)|({_NAME}))", text):
        these = names_of(alike for alike in groups if name in alike.features)
        if group:
            these = _matching(group, groups)
        found = found & these if operator in ("&", ",") else found | these
    return found
