"""Which nodes a ``--constraint`` accepts. Pure."""

from __future__ import annotations

import re
from typing import FrozenSet, Optional, Sequence

from neuronctl.slurm.scontrol import NodeGroup, names_of

_NAME = r"[^&,|()\[\]*!\s]+"
_TERM = rf"(?:{_NAME}|\({_NAME}(?:[&,|]{_NAME})*\))"


def matching_nodes(text: Optional[str], groups: Sequence[NodeGroup]) -> Optional[FrozenSet[str]]:
    """Return the names of the nodes that meet a constraint; None: that is not known.

    Known are names with ``&``, ``,`` and ``|``, which Slurm reads from left to right, and
    parentheses around them; brackets and counts are not.
    """
    if text is None:
        return names_of(groups)
    if re.fullmatch(rf"{_TERM}(?:[&,|]{_TERM})*", text) is None:
        return None
    return _matching(text, groups)


def _matching(text: str, groups: Sequence[NodeGroup]) -> FrozenSet[str]:
    found: FrozenSet[str] = frozenset()
    for operator, group, name in re.findall(rf"(^|[&,|])(?:\(([^()]+)\)|({_NAME}))", text):
        these = names_of(alike for alike in groups if name in alike.features)
        if group:
            these = _matching(group, groups)
        found = found & these if operator in ("&", ",") else found | these
    return found
