"""The shell part of a script as keys of a job file: software, variables, and one program."""

from __future__ import annotations

import re
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.frozen import dataclass
from neuronctl.common.shell import BASHS_OWN
from neuronctl.common.yamlfile.writer import Entry
from neuronctl.launch.launcher_calls import called
from neuronctl.launch.launchers import ALL, ONE, Launcher, every, option_name
from neuronctl.request.job import JobRequest
from neuronctl.request.sbatch_options import SRUN, GetoptError, getopt
from neuronctl.scripts.shell_text import UNKNOWN, ShellText
from neuronctl.scripts.statements import Unit
from neuronctl.scripts.usual_commands import LOOKS_OR_PREPARES

_NEUTRAL = ("set", "ulimit", "date", "hostname", "echo", "pwd", "nvidia-smi")
"""Commands that may run behind the activation of the software as well as before it."""

_MODULE = re.compile(r"(?a)\w[\w./+@:-]*")
_CONDA_HOOK = re.compile(
    r"""eval\s+"?\$\(\s*(?:\S*/)?conda\s+shell\.(?:bash|posix)\s+hook[^)]*\)"?"""
    r"""|(?:source|\.)\s+"?\$\(\s*conda\s+info\s+--base\s*\)"?/etc/profile\.d/conda\.sh"?"""
)
"""What neuronctl itself does before it activates a conda environment."""


def program_entries(
    parts: Sequence[Unit], shell: ShellText, asked: JobRequest
) -> Optional[List[Entry]]:
    """Return the keys of a script that prepares and then starts one program; None for others."""
    working = [unit for unit in parts if not unit.does_nothing]
    if not working or shell.calls("trap", "wait", "exec"):
        return None
    *before, last = working
    launch = _launch(last, shell, asked)
    if launch is None or not all(map(_prepares, before)):
        return None
    behind = parts[parts.index(last) + 1 :]
    comments = [comment for unit in (last, *behind) for comment in unit.comments]
    software = _Software()
    setup: List[str] = []
    neutral = True
    for unit in parts[: parts.index(last)]:
        if not (neutral and software.take(unit)) and (setup or not unit.does_nothing):
            setup.append(unit.text.strip("\n"))
            neutral = neutral and _is_neutral(unit.text)
        elif unit.does_nothing:
            comments += unit.comments
    entries = software.entries()
    if setup:
        entries.append(Entry("setup", "\n".join(setup) + "\n"))
    keys = launch.keys(asked)
    head, *others = keys.items()
    return [*entries, Entry(*head, above=tuple(comments)), *(Entry(*each) for each in others)]


def _is_neutral(line: str) -> bool:
    return line.lstrip().startswith(("#", *_NEUTRAL))


def _prepares(unit: Unit) -> bool:
    """Return True if a unit does none of the job's work."""
    names = {command.name for command in unit.commands if not command.captured}
    background = any(command.background or command.looped for command in unit.commands)
    return names <= LOOKS_OR_PREPARES - {"sbatch", "exit"} and not background


class _Software:
    """What the lines at the beginning activate and export, in the order of a job file."""

    def __init__(self) -> None:
        self.modules: List[str] = []
        self.environment: List[Tuple[str, str]] = []
        self.variables: Dict[str, object] = {}

    def take(self, unit: Unit) -> bool:
        """Take what a unit activates or exports; False if it does anything else, or too late."""
        if _CONDA_HOOK.fullmatch(unit.text.strip()):
            return not self.environment and not self.variables
        if not unit.simple or unit.comments:
            return False
        if unit.assignments:
            return self._take_exports(unit)
        words = [word.value for word in unit.commands[0].words] if unit.commands else []
        plain = [word for word in words if word is not None]
        if len(plain) < 2 or len(plain) < len(words) or self.variables:
            return False
        return self._take_activation(plain)

    def _take_activation(self, words: List[str]) -> bool:
        if words[0] == "ml":
            load = [] if words[1] in ("purge", "load") else ["load"]
            words = ["module", *load, *words[1:]]
        if words == ["module", "purge"] and not (self.modules or self.environment):
            return True  # neuronctl does so, too
        if words[:2] in (["module", "load"], ["module", "add"]) and not self.environment:
            self.modules += words[2:]
            return bool(words[2:]) and all(map(_MODULE.fullmatch, words[2:]))
        if self.environment:
            return False
        if words[:2] in (["conda", "activate"], ["source", "activate"]) and len(words) == 3:
            self.environment.append(("conda", words[2]))
            return True
        folder = words[1][: -len("/bin/activate")]
        if words[0] in ("source", ".") and words[1] == f"{folder}/bin/activate" and folder:
            self.environment.append(("venv", folder))
            return True
        return False

    def _take_exports(self, unit: Unit) -> bool:
        """Take ``export NAME=VALUE`` whose value is plain text."""
        names = [variable.name for variable in unit.assignments]
        plain = all(
            variable.exported
            and variable.word.value is not None
            and not re.search(r"[$`~\0]", variable.word.raw)
            and variable.name not in BASHS_OWN
            for variable in unit.assignments
        )
        if not plain or len(set(names)) < len(names) or {*names} & {*self.variables}:
            return False
        self.variables.update({each.name: each.word.value for each in unit.assignments})
        return True

    def entries(self) -> List[Entry]:
        """Return the keys."""
        made = []
        if self.modules:
            made.append(Entry("module", self.modules))
        made += [Entry(name, value) for name, value in self.environment]
        return [*made, Entry("env", self.variables)] if self.variables else made


@dataclass(frozen=True)
class _Launch:
    """What is started, and how; launcher: "" if the batch shell starts it, once."""

    launcher: str
    words: Tuple[str, ...]
    options: Tuple[str, ...] = ()

    def keys(self, asked: JobRequest) -> Dict[str, object]:
        """Return the keys of a job file."""
        several = max(asked.nodes or 1, asked.ntasks_per_node or 1, asked.gpus_per_node or 0) > 1
        launcher = self.launcher or ("none" if several else "")
        keys: Dict[str, object] = {"launcher": launcher} if launcher else {}
        if self.options:
            keys["launcher-option"] = list(self.options)
        keys["script"] = self.words[0]
        if self.words[1:]:
            keys["args"] = list(self.words[1:])
        return keys


def _launch(unit: Unit, shell: ShellText, asked: JobRequest) -> Optional[_Launch]:
    """Return the program that a unit starts; None if a job file cannot say it as keys."""
    if not unit.simple or len(unit.commands) != 1 or unit.commands[0].assigned:
        return None
    command = unit.commands[0]
    words = tuple(word.outline for word in command.words)
    own = words[:1] and (words[0] in LOOKS_OR_PREPARES or words[0] in shell.functions)
    text = any(word.value in ("-c", "-lc") for word in command.words)
    if not words or own or text or asked.max_nodes is not None:
        return None  # the text of bash -c is easier to read where it stands
    found = _by_launcher(words, asked) or _by_srun(words, asked) or _program("", words)
    if found is None or any(UNKNOWN in word for word in (*found.words, *found.options)):
        return None
    # Only counts and addresses, which neuronctl works out itself, may be written with variables.
    kept = {*found.words, *found.options, *(each.rpartition("=")[2] for each in found.options)}
    expanded = any(
        re.search(r"^~|[$`]", word.raw) and not word.raw.startswith("'") and word.outline in kept
        for word in command.words
    )
    return None if expanded else found


def _program(launcher: str, words: Sequence[str], options: Sequence[str] = ()) -> Optional[_Launch]:
    if not words or words[0].startswith("-") or not re.fullmatch(r"[\w.+/@:-]+", words[0]):
        return None
    if words[0] == "python" and words[1:] and words[1].endswith(".py"):
        words = words[1:]
    elif words[0].endswith(".py"):
        return None  # neuronctl would start it with python, whatever its first line says
    return _Launch(launcher, tuple(words), tuple(options))


def _by_srun(words: Tuple[str, ...], asked: JobRequest) -> Optional[_Launch]:
    """Return what an srun starts that takes the whole allocation."""
    try:
        parsed, end = getopt(list(words[1:]), SRUN)
    except GetoptError:
        return None
    if words[0] != "srun" or (not asked.cpus_per_task and asked.gpus_per_node):
        return None  # without a number of cores, Slurm chooses it
    nodes, each = asked.nodes or 1, asked.ntasks_per_node or 1
    counts = {
        "nodes": nodes,
        "ntasks": nodes * each,
        "ntasks-per-node": each,
        "cpus-per-task": asked.cpus_per_task or 1,
    }
    carried = next((launcher.carried for launcher in every() if launcher.name == "srun"), ())
    kept: List[str] = []
    for option in parsed:
        name, value = option.known.name, option.value or ""
        if name in counts:
            if value != str(counts[name]):
                return None
        elif name.replace("-", "_") in carried:
            kept.append(f"--{name}={value}" if value else f"--{name}")
        elif (name, value) not in (("export", "ALL"), ("kill-on-bad-exit", "1")):
            return None
    rest = words[1 + end :]
    inner = None if kept else _by_launcher(rest, asked, by_srun=True)
    return inner or _program("srun", rest, kept)


def _by_launcher(
    words: Tuple[str, ...], asked: JobRequest, *, by_srun: bool = False
) -> Optional[_Launch]:
    """Return what a launcher starts as neuronctl would call it; None for any other command."""
    words = words[2:] if words[:2] == ("python", "-m") else words
    call = called(words, every(), akin=False) if words else None
    if call is None or call.length is None or call.launcher.name == "srun":
        return None
    launcher, one_node = call.launcher, (asked.nodes or 1) == 1
    values = {option.name: option.value for option in call.options}
    right_place = by_srun or one_node
    if launcher.starts_processes():
        right_place = (
            right_place and (asked.ntasks_per_node or 1) == 1 and bool(asked.cpus_per_task)
        )
    elif by_srun or (launcher.ssh and not one_node):
        right_place = False
    if (
        not right_place
        or not _has_the_size(launcher, values, asked)
        or {*values} & {*launcher.places}
    ):
        return None
    known = launcher.own_options + launcher.implied
    kept = [word for each in call.options if each.name not in known for word in each.words]
    if launcher.carried and not {*values} <= {*known, *launcher.carried}:
        return None
    rest = words[call.length :]
    if any(name in values for name in launcher.module):
        rest = ("python", "-m", *rest)
    elif rest and rest[0].endswith(".py"):
        return _Launch(launcher.name, rest, tuple(kept))
    elif not launcher.python and not any(
        option_name(each) in values for each in launcher.executable
    ):
        return None
    return _program(launcher.name, rest, kept)


def _has_the_size(launcher: Launcher, values: Mapping[str, str], asked: JobRequest) -> bool:
    """Return True if a launcher starts as many processes as neuronctl would, on all nodes."""
    nodes, gpus = asked.nodes or 1, max(asked.gpus_per_node or 0, 1)
    total = nodes * (gpus if launcher.starts_processes() else asked.ntasks_per_node or 1)
    meets = any(name in values for name in launcher.endpoint + launcher.address)
    if launcher.starts_processes() and nodes != 1 and not meets:
        return False  # one training per node
    counts = {
        **dict.fromkeys(launcher.nodes, nodes),
        **dict.fromkeys(launcher.processes, total),
        **dict.fromkeys(launcher.processes_per_node, gpus),
    }
    for name, count in counts.items():
        every_gpu = values.get(name) in ("gpu", "auto") and asked.gpus_per_node
        if name in values and not every_gpu and values[name] != str(count):
            return False
    counted = any(name in values for name in launcher.counts) or launcher.uncounted == ALL
    counted = counted or (launcher.uncounted == ONE and gpus == 1)
    return counted and all(name in values for name in launcher.needed)
