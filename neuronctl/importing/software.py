"""The lines of a script that activate its software and set its variables, as keys of a job file."""

from __future__ import annotations

import re
from typing import Collection, Dict, FrozenSet, List, Optional, Sequence, Tuple

from neuronctl.common.frozen import dataclass
from neuronctl.common.shell import BASHS_OWN
from neuronctl.common.yamlfile.writer import Entry
from neuronctl.scripts.statements import NAME_BEGINS, NAME_ENDS, Simple, Unit

# neuronctl sets or unsets these before the lines of setup.
_SET_BETWEEN = (
    *("MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    "PYTHONUNBUFFERED",
)

# Exported variables are nothing to these, as they stand before a program.
_NEUTRAL = ("set", "ulimit", "date", "hostname", "pwd", "nvidia-smi")

_HOOK = re.compile(
    r"""eval\s+"?\$\(\s*(?:\S*/)?conda\s+shell\.(?:bash|posix)\s+hook[^)]*\)"?"""
    r"""|(?:source|\.)\s+"?\$\(\s*conda\s+info\s+--base\s*\)"?/etc/profile\.d/conda\.sh"?"""
)
"""What neuronctl does itself before it activates an environment of conda's."""

MODULE, PURGE, HOOK, CONDA, VENV = "module", "purge", "hook", "conda", "venv"


@dataclass(frozen=True)
class Software:
    """What is activated. before: the units in front of it, behind: those that follow."""

    entries: Tuple[Entry, ...]
    before: Tuple[Unit, ...]
    behind: Tuple[Unit, ...]


def software(prefix: Sequence[Unit], set_by_cluster: Collection[str]) -> Software:
    """The last lines of ``prefix`` that activate software in neuronctl's order.

    set_by_cluster: the variables that the cluster's scripts set in any case.
    """
    nothing = Software((), (), tuple(prefix))
    kinds = [_activates(unit) for unit in prefix]
    last = max((n for n, kind in enumerate(kinds) if kind), default=-1)
    begin = last + 1
    later: FrozenSet[str] = frozenset()
    for number in range(last, -1, -1):
        names = frozenset(name for name, _ in kinds[number])
        if not names and prefix[number].is_remark:
            continue
        if not names or not _may_precede(names, later):
            break
        begin, later = number, later | names
        if PURGE in names:
            break
    found = [each for kind in kinds[begin : last + 1] for each in kind]
    modules = [module for name, values in found if name == MODULE for module in values]
    purges = [name for name, _ in found].count(PURGE)
    first = bool(found) and found[0][0] == PURGE
    if not {MODULE, CONDA, VENV} & later or (purges and not (modules and first and purges == 1)):
        return nothing
    while begin and prefix[begin - 1].is_remark and prefix[begin - 1].remarks:
        begin -= 1
    before = tuple(prefix[:begin])
    if {assignment.name for unit in before for assignment in unit.shell.assignments} & {
        *_SET_BETWEEN,
        *set_by_cluster,
    }:
        return nothing
    remarks = tuple(remark for unit in prefix[begin : last + 1] for remark in unit.remarks)
    entries = []
    if modules:
        entries.append(Entry("module", modules))
    entries += [Entry(name, values[0]) for name, values in found if name in (CONDA, VENV)]
    entries[0] = Entry(entries[0].key, entries[0].value, remarks)
    return Software(tuple(entries), before, tuple(prefix[last + 1 :]))


def _may_precede(names: FrozenSet[str], later: FrozenSet[str]) -> bool:
    """Whether neuronctl activates all of this before what comes later."""
    if names & {MODULE, PURGE}:
        return not names & {HOOK, CONDA, VENV}
    if later & {MODULE, PURGE, VENV}:
        return False
    return CONDA in later if names == {HOOK} else CONDA not in later and len(names - {HOOK}) == 1


Kind = Tuple[Tuple[str, Tuple[str, ...]], ...]


def _activates(unit: Unit) -> Kind:
    """What a unit activates; nothing where it does anything else."""
    if _HOOK.fullmatch(unit.text.strip()):
        return ((HOOK, ()),)
    found = [_activation(command) for command in unit.simple or ()]
    return () if None in found else tuple(step for step in found if step is not None)


def _activation(simple: Simple) -> Optional[Tuple[str, Tuple[str, ...]]]:
    words = [word for word in simple.words if word is not None]
    if len(words) < 2 or len(words) != len(simple.words):
        return None
    if words[0] == "ml":
        words = ["module", *([] if words[1] in _OF_MODULE else ["load"]), *words[1:]]
    if words == ["module", "purge"]:
        return PURGE, ()
    if words[:2] in (["module", "load"], ["module", "add"]):
        plain = all(re.fullmatch(r"(?a)\w[\w./+@:-]*", word) for word in words[2:])
        return (MODULE, tuple(words[2:])) if words[2:] and plain else None
    if words[:2] in (["conda", "activate"], ["source", "activate"]) and len(words) == 3:
        return (CONDA, (words[2],)) if re.fullmatch(r"(?a)[\w/.][\w./+@-]*", words[2]) else None
    if words[0] in ("source", ".") and len(words) == 2 and words[1].endswith("/bin/activate"):
        home = f"{NAME_BEGINS}HOME{NAME_ENDS}/"
        folder = words[1][: -len("/bin/activate")].replace(home, "~/", 1)
        if folder.isprintable() and folder:
            return VENV, (folder,)
    return None


_OF_MODULE = """
load add purge unload rm del swap switch use unuse list avail av spider save restore show whatis
reset help keyword refresh
""".split()  # noqa: SIM905


@dataclass(frozen=True)
class Variables:
    """The variables that are exported first of all: name -> value, as ``Simple`` has it.

    remarks: the comments that go with them. behind: the other units.
    """

    values: Dict[str, str]
    remarks: Tuple[str, ...]
    behind: Tuple[Unit, ...]


def variables(behind: Sequence[Unit]) -> Variables:
    """The exports at the beginning of these units."""
    values: Dict[str, str] = {}
    used: List[int] = []
    only_text = False
    for number, unit in enumerate(behind):
        if unit.is_remark:
            continue
        if unit.simple is None:
            break
        if all(command.words and command.words[0] in _NEUTRAL for command in unit.simple):
            only_text = True  # `set -u` ends the job at a variable that is not there
            continue
        pairs = [pair for command in unit.simple for pair in command.sets]
        names = [name for name, _ in pairs]
        if not all(command.exported for command in unit.simple) or len(set(names)) < len(names):
            break
        if not all(_may_be_set(*pair, only_text=only_text) for pair in pairs):
            break
        if not values.keys().isdisjoint(names):
            break
        values.update({name: value or "" for name, value in pairs})
        above = number
        while above and behind[above - 1].remarks and behind[above - 1].is_remark:
            above -= 1
        used += range(above, number + 1)
    remarks = tuple(remark for number in used for remark in behind[number].remarks)
    left = [unit for number, unit in enumerate(behind) if number not in used]
    return Variables(values, remarks, tuple(left))


def _may_be_set(name: str, value: Optional[str], *, only_text: bool) -> bool:
    if value is None or name in BASHS_OWN:
        return False
    plain = value.replace(NAME_BEGINS, "").replace(NAME_ENDS, "")
    return plain.isprintable() and not (only_text and NAME_BEGINS in value)
