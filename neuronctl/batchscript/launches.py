"""What a command starts: launchers, what they start in turn, and the counts in their options."""

from __future__ import annotations

import re
from functools import partial
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from neuronctl.batchscript.command_wrappers import names_python, program_at
from neuronctl.batchscript.model import SourceSpan
from neuronctl.batchscript.shell_text import Command, ShellWord, read_shell
from neuronctl.frozen import dataclass, field, replace
from neuronctl.sbatch_options import SRUN, GetoptError, getopt_with_plugins


@dataclass(frozen=True)
class Kind:
    """What sort of program is started; of a launcher, also how it is called.

    name: as messages have it. commands: the words that call it; modules: those that do so behind
    ``python -m``. flags: its options that take no value. nodes: its option for the number of nodes.
    of_node: whether it starts the processes of its own node, and one of it is needed on each.
    """

    name: str
    commands: Tuple[str, ...] = ()
    modules: Tuple[str, ...] = ()
    flags: str = ""
    nodes: str = ""
    of_node: bool = False

    def __str__(self) -> str:
        return self.name


PYTHON, SHELL, PROGRAM = Kind("python"), Kind("shell"), Kind("program")
SRUN_KIND = Kind("srun", ("srun",), nodes="nodes")
MPIRUN = Kind("mpirun", ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "prun"))
TORCHRUN = Kind(
    "torchrun",
    ("torchrun", "torchrun_jsc"),
    ("torch.distributed.run", "torch.distributed.launch"),
    "standalone no_python m module run_path use_env h help",
    nodes="nnodes",
    of_node=True,
)
ACCELERATE = Kind(
    "accelerate launch",
    ("accelerate launch",),
    ("accelerate.commands.launch",),
    """
    multi_gpu use_deepspeed use_fsdp use_megatron_lm use_tp cpu mps tpu tpu_use_cluster
    tpu_use_sudo no_tpu_cluster use_mps_device debug m module no_python q quiet
    enable_cpu_affinity use_xpu downcast_bf16 no_local_rank
    """,
    nodes="num_machines",
    of_node=True,
)
DEEPSPEED = Kind(
    "deepspeed",
    ("deepspeed", "deepspeed.pt"),
    ("deepspeed.launcher.runner",),
    """
    no_local_rank no_python no_ssh no_ssh_check force_multi save_pid module
    enable_elastic_training bind_cores_to_rank
    """,
    of_node=True,
)
HOROVODRUN = Kind(
    "horovodrun",
    ("horovodrun",),
    ("horovod.runner",),
    """
    gloo mpi jsrun verbose disable_cache check_build tcp mpi_threads_disable autotune
    log_with_timestamp log_without_timestamp
    """,
)
LAUNCHERS = (SRUN_KIND, MPIRUN, TORCHRUN, ACCELERATE, DEEPSPEED, HOROVODRUN)
CONTAINERS = ("singularity", "apptainer")

_CALLED = {tuple(words.split()): kind for kind in LAUNCHERS for words in kind.commands}
_MODULES = {module: kind for kind in LAUNCHERS for module in kind.modules}

UNKNOWN = "\0"
"""Stands for a value that cannot be known."""


@dataclass(frozen=True)
class Launch:
    """One program that is started, and what it starts.

    options: its own, without dashes and with ``_`` for ``-``; UNKNOWN where a value cannot be
    known. certain: whether every option is known. inside: what it starts, as far as the text shows.
    """

    kind: Kind
    word: ShellWord
    command: Command
    options: Mapping[str, str] = field(default_factory=dict)
    certain: bool = True
    inside: Tuple[Launch, ...] = ()

    @property
    def place(self) -> SourceSpan:
        """Where the program is named."""
        return self.word.place

    def count(self, *names: str) -> Optional[int]:
        """The number that one of these options gives, None where none does or it is not known."""
        for name in names:
            text = self.options.get(name, "")
            if re.fullmatch(r"\s*\+?[0-9]{1,9}", text):
                return int(text)
        return None

    def has(self, *names: str) -> bool:
        """Whether one of these options is given."""
        return any(_key(name) in self.options for name in names)

    def place_of(self, name: str) -> SourceSpan:
        """Where one of its options is given; that of the program where it is not seen."""
        words = self.command.words
        for word, following in zip(words, (*words[1:], None)):
            option, equals, _ = word.raw.partition("=")
            if option.startswith("-") and _key(option) == name:
                if not equals and following is not None and following.place.line == word.place.line:
                    return SourceSpan(word.place.line, word.place.column, following.place.end)
                return word.place
        return self.place

    def below(self) -> Iterator[Launch]:
        """All that it starts, at any depth."""
        for one in self.inside:
            yield one
            yield from one.below()


def launch(command: Command) -> Optional[Launch]:
    """What a command starts; None for what is no program, such as ``cd``."""
    return _launch(command.words, command, 0)


_MPIRUN_FLAGS = """
oversubscribe allow-run-as-root report-bindings v verbose quiet q tag-output display-map
display-allocation nooversubscribe no-oversubscribe mpich prtemca bycore bynode byslot bind-to-core
bind-to-socket bind-to-none enable-recovery disable-recovery l prepend-rank
""".split()  # noqa: SIM905
_MPIRUN_VALUES = """
np n c N npernode npersocket ppn H host hosts hostfile machinefile f map-by bind-to rank-by x prefix
wdir wd path genvlist envlist launcher iface timeout output-filename mca pmca gmca genv env cpu-set
cpus-per-proc rankfile tune personality
""".split()  # noqa: SIM905
_MPIRUN_PAIRS = ("mca", "pmca", "gmca", "genv", "env")
_CONTAINER_FLAGS = """
nv rocm c contain cleanenv e writable_tmpfs no_home fakeroot f containall C userns u pid p ipc i
writable w no_init no_privs keep_privs nvccli compat net no_eval no_umask vm
""".split()  # noqa: SIM905


def _launch(words: Sequence[ShellWord], command: Command, depth: int) -> Optional[Launch]:
    words = words[program_at([one.raw if one.value is None else one.value for one in words]) :]
    if not words or words[0].value is None or depth > 8:
        return None
    word, rest = words[0], words[1:]
    name = (word.value or "").rpartition("/")[2]
    for called in ((name,), (name, *(one.value or "" for one in rest[:1]))):
        kind = _CALLED.get(called)
        if kind is not None:
            read = {SRUN_KIND: _srun, MPIRUN: _mpirun}.get(kind, partial(_options, kind))
            return read(word, rest[len(called) - 1 :], command, depth)
    if name in CONTAINERS:
        return _container(word, rest, command, depth)
    if names_python(name):
        return _python(word, rest, command, depth)
    if name in ("bash", "sh", "zsh", "dash"):
        return _shell(word, rest, command, depth)
    return Launch(PROGRAM, word, command)


def _texts(words: Sequence[ShellWord]) -> List[str]:
    """The values, UNKNOWN within those that are not known: ``--np=$N`` as ``--np=`` UNKNOWN."""
    found = []
    for word in words:
        if word.value is not None:
            found.append(word.value)
            continue
        head = re.match(r"--?[A-Za-z][\w-]*=|-[A-Za-z](?=[$\"])", word.raw)
        found.append((head[0] if head else "") + UNKNOWN)
    return found


def _key(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def _inside(words: Sequence[ShellWord], command: Command, depth: int) -> Tuple[Launch, ...]:
    found = _launch(words, command, depth + 1)
    return () if found is None else (found,)


def _srun(word: ShellWord, rest: Sequence[ShellWord], command: Command, depth: int) -> Launch:
    texts = _texts(rest)
    try:
        parsed, end = getopt_with_plugins(texts, SRUN)
    except GetoptError:
        return Launch(SRUN_KIND, word, command, certain=False)
    options = {_key(one.known.name): one.value or "" for one in parsed}
    # An unquoted variable in front of the program may hold options.
    certain = end >= len(rest) or not rest[end].may_be_several
    inside = _inside(rest[end:], command, depth) if certain else ()
    return Launch(SRUN_KIND, word, command, options, certain, inside)


def mpirun_options(
    words: Sequence[str],
) -> Tuple[Dict[str, str], List[str], Optional[Sequence[str]]]:
    """The options of mpirun by name, the words of those that are not counts, and what follows.

    None where an option is not known.
    """
    options: Dict[str, str] = {}
    kept: List[str] = []
    at = 0
    while at < len(words) and words[at].startswith("-"):
        begin = at
        name, equals, value = words[at].lstrip("-").partition("=")
        if equals or name in _MPIRUN_FLAGS:
            options[_key(name)] = value
            at += 1
        elif name in _MPIRUN_VALUES and at + 1 < len(words):
            options[_key(name)] = words[at + 1]
            at += 3 if name in _MPIRUN_PAIRS else 2
        else:
            return options, kept, None
        if _key(name) not in ("np", "n", "c"):
            kept += words[begin:at]
    return options, kept, words[at:]


def _mpirun(word: ShellWord, rest: Sequence[ShellWord], command: Command, depth: int) -> Launch:
    options, _, behind = mpirun_options(_texts(rest))
    words = rest[len(rest) - len(behind or ()) :]
    if behind is None or (words and words[0].may_be_several):
        return Launch(MPIRUN, word, command, options, certain=False)
    return Launch(MPIRUN, word, command, options, True, _inside(words, command, depth))


def argparse_options(
    kind: Kind, words: Sequence[str]
) -> Tuple[Dict[str, str], Dict[str, str], Tuple[str, ...]]:
    """A Python launcher's options, name -> value and name -> both in one word, and what follows."""
    flags = kind.flags.split()
    options: Dict[str, str] = {}
    typed: Dict[str, str] = {}
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        name, equals, value = words[at].partition("=")
        key = _key(name)
        if not equals and key not in flags:
            at += 1
            value = words[at] if at < len(words) else UNKNOWN
        options[key] = value
        typed[key] = name if key in flags else f"{name}={value}"
        at += 1
    return options, typed, tuple(words[at:])


def _options(
    kind: Kind, word: ShellWord, rest: Sequence[ShellWord], command: Command, depth: int
) -> Launch:
    """A launcher of Python's."""
    options, _, behind = argparse_options(kind, _texts(rest))
    rest = rest[len(rest) - len(behind) :]
    if rest and rest[0].may_be_several:
        return Launch(kind, word, command, options, certain=False)
    inside = _inside(rest, command, depth)
    if rest and ((rest[0].value or "").endswith(".py") or options.keys() & {"m", "module"}):
        inside = (Launch(PYTHON, rest[0], command),)
    return Launch(kind, word, command, options, True, inside)


def _container(
    word: ShellWord, rest: Sequence[ShellWord], command: Command, depth: int
) -> Optional[Launch]:
    """What runs in a container is started as it would be outside of it."""
    if not rest or rest[0].value != "exec":
        return Launch(PROGRAM, word, command)
    _, behind = container_options(_texts(rest[1:]))
    words = rest[len(rest) - len(behind) :]
    # The image's name in a variable is one word, as a rule; two in a row may be anything.
    if all(one.may_be_several for one in words[:2]):
        return Launch(PROGRAM, word, command, certain=False)
    return _launch(words[1:], command, depth + 1)


def container_options(words: Sequence[str]) -> Tuple[List[Tuple[str, str]], Sequence[str]]:
    """The options of ``singularity exec``, each with its value or "", and what follows."""
    options: List[Tuple[str, str]] = []
    at = 0
    while at < len(words) and words[at].startswith("-"):
        name, equals, value = words[at].partition("=")
        alone = equals or _key(name) in _CONTAINER_FLAGS
        options.append((name.lstrip("-"), value if alone else "".join(words[at + 1 : at + 2])))
        at += 1 if alone else 2
    return options, words[at:]


_FOUND_ON_PATH = re.compile(
    r"""["']?(?:\$\(|`)\s*(?:which|command -v)\s+(torchrun|deepspeed)\s*[)`]["']?"""
)
"""``python $(which torchrun)``."""


def _python(word: ShellWord, rest: Sequence[ShellWord], command: Command, depth: int) -> Launch:
    texts = _texts(rest)
    at = 0
    while at < len(texts) and texts[at].startswith("-"):
        if texts[at] == "-m" and at + 1 < len(texts):
            known = _MODULES.get(texts[at + 1])
            if known is not None:
                return _options(known, word, rest[at + 2 :], command, depth)
            return Launch(PYTHON, word, command, {"m": texts[at + 1]})
        if texts[at] == "-c":
            return Launch(PYTHON, word, command, {"c": ""})
        at += 2 if texts[at] in ("-W", "-X") else 1
    found = _FOUND_ON_PATH.fullmatch(rest[at].raw) if at < len(rest) else None
    if found is not None:
        return _options(_CALLED[found[1],], word, rest[at + 1 :], command, depth)
    script = texts[at] if at < len(texts) else ""
    return Launch(PYTHON, word, command, {"script": script})


_LONGEST_TEXT = 10_000
"""Characters of ``bash -c TEXT`` that are read: for more that is not bash, the grammar takes
minutes."""


def _shell(word: ShellWord, rest: Sequence[ShellWord], command: Command, depth: int) -> Launch:
    """``bash -c TEXT``: what the text starts."""
    for number, one in enumerate(rest):
        value = one.value
        if value is None or not value.startswith("-"):
            break
        if re.fullmatch(r"-[a-z]*c", value) and number + 1 < len(rest):
            text = rest[number + 1]
            if len(text.text) > _LONGEST_TEXT:
                return Launch(SHELL, word, command, {"c": ""}, certain=False)
            found: List[Launch] = []
            for inner in read_shell(text.text).commands:
                # Positions within the text mean nothing to a reader of the script.
                words = tuple(replace(word, place=text.place) for word in inner.words)
                placed = replace(inner, words=words, place=text.place)
                found += _inside(words, placed, depth)
            return Launch(SHELL, word, command, {"c": ""}, True, tuple(found))
    return Launch(SHELL, word, command)
