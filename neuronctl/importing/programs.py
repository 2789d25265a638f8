"""What a command of a script starts, as the launcher, the program and the container of a job."""

from __future__ import annotations

import re
from typing import Collection, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.frozen import dataclass, replace
from neuronctl.launch.launcher_calls import called
from neuronctl.launch.launchers import ALL, ONE, Launcher, option_name
from neuronctl.request.sbatch_options import SRUN, GetoptError, getopt
from neuronctl.scripts.as_request import sizes
from neuronctl.scripts.launches import CONTAINERS, container_options
from neuronctl.scripts.statements import MAY_SPLIT, NAME_BEGINS, NAME_ENDS, REFERENCE, units


@dataclass(frozen=True)
class Size:
    """The allocation."""

    nodes: Optional[int]
    """None where a range is requested."""
    tasks_per_node: int
    cores: Optional[int]
    """Of a task; None where they are left to Slurm."""
    gpus_per_node: int
    known: Mapping[str, str]
    """Variables that the script sets to a fixed text."""
    launchers: Tuple[Launcher, ...]
    srun_options: Tuple[str, ...] = ()
    """What every srun of this cluster gets."""

    @property
    def tasks(self) -> Optional[int]:
        """In total."""
        return None if self.nodes is None else self.nodes * self.tasks_per_node

    @property
    def processes(self) -> Optional[int]:
        """One per GPU, in total."""
        return None if self.nodes is None else self.nodes * max(self.gpus_per_node, 1)

    def number(self, word: str) -> Optional[int]:
        """What a word comes to; None where it is no number, or not known."""
        counts = (self.nodes, self.tasks, self.tasks_per_node, self.cores, self.gpus_per_node)
        values = {**self.known, **sizes(*counts)}
        text = word.replace(MAY_SPLIT, "")
        text = re.sub(REFERENCE, lambda match: str(values.get(match[1])), text)
        return int(text) if re.fullmatch("[0-9]{1,9}", text) else None


@dataclass(frozen=True)
class ImportedProgram:
    """What is started, and how: words are the program's and its arguments.

    launcher: None where the batch shell starts it, once. container: the keys of a job file that
    are about it.
    """

    launcher: Optional[str]
    words: Tuple[str, ...]
    options: Tuple[str, ...] = ()
    container: Tuple[Tuple[str, object], ...] = ()


# What only a shell knows: it is no program.
_SHELLS_OWN = frozenset(
    """
    . : [ [[ alias bg break builtin caller cd command continue declare dirs disown eval exec exit
    export fg function getopts hash history jobs let local logout mapfile popd pushd read readarray
    readonly return select set shift shopt source suspend time times trap type typeset ulimit umask
    unalias unset until wait while echo printf test true false kill
    """.split()  # noqa: SIM905
)


def imported_program(
    words: Sequence[Optional[str]], size: Size, functions: Collection[str]
) -> Optional[ImportedProgram]:
    """What a simple command starts; None where a job file cannot say it but as shell text.

    functions: names that the script defines.
    """
    if not words or words[0] is None or None in words:
        return None
    given = tuple(word for word in words if word is not None)
    if _variable(given[0]) or given[0] in _SHELLS_OWN or given[0] in functions:
        return None
    if not re.fullmatch(r"[\w.+/@:-]+", given[0]) or given[0].startswith("-"):
        return None
    found = _launched(given, size) or _contained(given, size)
    pairs = zip(given, given[1:])
    if found is None and any(flag in ("-c", "-lc") and " " in text for flag, text in pairs):
        return None  # text for a shell, which is easier to read where it stands
    found = found or _program(None, given)
    if found is None or any(MAY_SPLIT in word for word in (*found.words, *found.options)):
        return None
    return found


def _launched(words: Tuple[str, ...], size: Size, within: str = "") -> Optional[ImportedProgram]:
    """What one of the launchers starts as neuronctl would; None for any other.

    within: what starts the launcher, "srun" or "container"; "" for the batch shell.
    """
    if words[0] == "srun":
        return None if within else _srun(words[1:], size)
    words = words[2:] if words[:2] == ("python", "-m") else words
    call = called(words, size.launchers, akin=False)
    if call is None or call.length is None:
        return None
    launcher = call.launcher
    if launcher.starts_processes():
        on_each = size.nodes == 1 or (within == "srun" and size.nodes is not None)
        if size.tasks_per_node != 1 or size.cores is None or not on_each:
            return None
    elif within or (launcher.ssh and size.nodes != 1):
        return None
    values = {option.name: option.value for option in call.options}
    if not _has_the_size(launcher, values, size):
        return None
    implied = launcher.implied if (size.processes or 1) > 1 else ()
    kept: List[str] = []
    for option in call.options:
        if option.name in launcher.places:
            count = next((values[name] for name in _given(launcher.counts, values)), None)
            if size.nodes != 1 or option.value != f"localhost:{count}":
                return None
        elif option.name not in launcher.own_options + implied:
            if launcher.carried and option.name not in launcher.carried:
                return None
            kept += option.words
    rest = words[call.length :]
    short = any(word.startswith("-") and not word.startswith("--") for word in kept)
    if not rest or any(map(_variable, kept)) or (short and not launcher.values):
        return None
    if launcher.python or _given([*map(option_name, launcher.executable)], values):
        return _program(launcher.name, rest, kept)
    if _given(launcher.module, values):
        rest = ("python", "-m", *rest)
    elif not rest[0].endswith(".py"):
        return None
    return None if _variable(rest[0]) else ImportedProgram(launcher.name, rest, tuple(kept))


def _given(names: Sequence[str], values: Mapping[str, str]) -> List[str]:
    """Which of these options are given."""
    return [name for name in names if name in values]


def _has_the_size(launcher: Launcher, values: Mapping[str, str], size: Size) -> bool:
    """Whether a launcher starts as many processes as neuronctl would, on all nodes of the job."""
    each = max(size.gpus_per_node, 1)
    total = size.processes if launcher.starts_processes() else size.tasks
    others = _given(launcher.nodes, values) and _given(launcher.endpoint + launcher.address, values)
    if launcher.starts_processes() and size.nodes != 1 and not others:
        return False  # one training per node
    counts = {
        **dict.fromkeys(launcher.nodes, size.nodes),
        **dict.fromkeys(launcher.processes, total),
        **dict.fromkeys(launcher.processes_per_node, each),
    }
    for name in _given([*counts], values):
        every_gpu = values[name] in ("gpu", "auto") and size.gpus_per_node
        if (every_gpu or size.number(values[name])) != counts[name]:
            return False
    counted = _given(launcher.counts, values) or launcher.uncounted == ALL
    known = counted or (launcher.uncounted == ONE and each == 1)
    return bool(known) and len(_given(launcher.needed, values)) == len(launcher.needed)


def _program(
    launcher: Optional[str], words: Tuple[str, ...], options: Sequence[str] = ()
) -> Optional[ImportedProgram]:
    """A program that is started in one of the usual ways."""
    if not words or _variable(words[0]) or words[0].startswith("-"):
        return None
    if words[0] == "python" and words[1:] and words[1].endswith(".py"):
        if not _variable(words[1]) and not words[1].startswith("-"):
            words = words[1:]
    elif words[0].endswith(".py"):
        return None  # neuronctl would start it with python, whatever its first line says
    return ImportedProgram(launcher, words, tuple(options))


def _variable(word: str) -> bool:
    return NAME_BEGINS in word


# These are so without being said.
_SAY_NOTHING = (
    ("export", "ALL"),
    *(("kill-on-bad-exit", value) for value in ("", "1")),
    *(
        ("jobid", f"{NAME_BEGINS}{variable}{NAME_ENDS}")
        for variable in ("SLURM_JOB_ID", "SLURM_JOBID")
    ),
)


def _srun(words: Tuple[str, ...], size: Size) -> Optional[ImportedProgram]:
    if size.cores is None:
        return None  # neuronctl's srun says how many
    try:
        parsed, end = getopt(list(words), SRUN)
    except GetoptError:
        return None
    counts = {
        "nodes": size.nodes,
        "ntasks": size.tasks,
        "ntasks-per-node": size.tasks_per_node,
        "cpus-per-task": size.cores,
    }
    carried = {
        name for launcher in size.launchers if launcher.name == "srun" for name in launcher.carried
    }
    kept: List[str] = []
    for option in parsed:
        name, value = option.known.name, option.value or ""
        if name in counts:
            if counts[name] is None or size.number(value) != counts[name]:
                return None
        elif (name, value) in _SAY_NOTHING:
            pass
        elif name.replace("-", "_") not in carried or _variable(value):
            return None
        elif option.known.short and len(words[option.index]) == 2:
            kept += [words[option.index]] if not value else [f"--{name}={value}"]
        else:
            kept.append(f"--{name}={value}" if value else f"--{name}")
    rest = words[end:]
    if not rest:
        return None
    # Words for srun itself: those that the cluster's every srun has need not be said.
    kept = [word for word in kept if word not in size.srun_options]
    inner = _inner(rest)
    found = None
    if not kept:
        found = _launched(inner or rest, size, "srun")
        if found is None:
            found = _contained(inner or rest, size, by_srun=True)
    if inner is not None:
        # What each task would expand differs from what the batch shell does.
        return None if found is None or any(map(_variable, found.words)) else found
    return found or _program("srun", rest, kept)


def _inner(words: Tuple[str, ...]) -> Optional[Tuple[str, ...]]:
    """The words of the one command in ``bash -c TEXT``; None where it is something else."""
    if len(words) != 3 or words[0] not in ("bash", "sh") or words[1] not in ("-c", "-lc"):
        return None
    text = re.sub(REFERENCE, r"${\1}", words[2]).strip()
    text = text.replace(MAY_SPLIT, "")
    names = re.findall(r"(?a)\w+", text)
    # `$((SLURM_NODEID == 0))` says who the host is, which neuronctl says itself.
    of_host = r"--rdzv[-_]conf[= ]is_host=\$\(\([^()]*\)\)"
    for form in (text, re.sub(of_host, "", text)):
        found = [simple for unit in units(form, names) for simple in unit.simple or (None,)]
        if len(found) == 1 and found[0] is not None and None not in found[0].words:
            return tuple(word for word in found[0].words if word is not None)
    return None


def _contained(
    words: Tuple[str, ...], size: Size, *, by_srun: bool = False
) -> Optional[ImportedProgram]:
    """``singularity exec``, where a job file can say all that it is told."""
    if len(words) < 4 or words[0] not in CONTAINERS or words[1] != "exec":
        return None
    options, rest = container_options(words[2:])
    if len(rest) < 2 or _variable(rest[0]) or "/" in words[0]:
        return None
    binds = [value for name, value in options if name in ("B", "bind")]
    plain = [name for name, _ in options if name not in ("B", "bind")]
    told = any(value and name not in ("B", "bind") for name, value in options)
    if told or any(map(_variable, binds)):
        return None
    gpu = {"nv", "rocm"} & set(plain)
    if size.gpus_per_node and not gpu:
        return None  # neuronctl hands the GPUs in
    if size.gpus_per_node and "rocm" not in gpu:
        plain.remove("nv")
    image = rest[0] if "/" in rest[0] or ":" in rest[0] else f"./{rest[0]}"
    keys: List[Tuple[str, object]] = [("container", image), ("container-runtime", words[0])]
    if binds:
        keys.append(("bind", binds))
    others = [f"--{option}" if len(option) > 1 else f"-{option}" for option in plain]
    if others:
        keys.append(("container-option", others))
    inside = tuple(rest[1:])
    found = _launched(inside, size, "srun" if by_srun else "container")
    found = found or _program("srun" if by_srun else None, inside)
    return None if found is None else replace(found, container=tuple(keys))
