"""The options of sbatch and srun, as getopt_long reads them (Slurm 22.05 to 26.05)."""

from __future__ import annotations

import re
from typing import Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from neuronctl.common.datatypes import dataclass, replace

NO_VALUE, VALUE, OPTIONAL_VALUE = "", "=", "?"


class OptionSpec(NamedTuple):  # there are hundreds, and a dataclass is slower to make
    """One option of a program.

    takes: NO_VALUE, VALUE, or OPTIONAL_VALUE (only attached: ``--nice=5``, ``-koff``). name: of the
    option that it sets; two spellings may set the same one.
    """

    long: str
    short: str
    takes: str
    name: str


_ALIASES = {"cluster": "clusters", "tasks-per-node": "ntasks-per-node", "cpu_bind": "cpu-bind"}

_BOTH = """
account:A= acctg-freq= bb= bbf= begin:b= chdir:D= cluster= cluster-constraint= clusters:M= comment=
constraint:C= container= context= contiguous core-spec:S= cores-per-socket= cpu-freq= cpus-per-gpu=
cpus-per-task:c= deadline= delay-boot= dependency:d= distribution:m= error:e= exclude:x= exclusive?
export= extra-node-info:B= gpu-bind= gpu-freq= gpus:G= gpus-per-node= gpus-per-socket=
gpus-per-task= gres= gres-flags= help:h hint= hold:H input:i= job-name:J= licenses:L= mail-type=
mail-user= mcs-label= mem= mem-bind= mem-per-cpu= mem-per-gpu= mincpus= network= nice? no-kill:k?
nodefile:F= nodelist:w= nodes:N= ntasks:n= ntasks-per-core= ntasks-per-gpu= ntasks-per-node=
ntasks-per-socket= ntasks-per-tres= open-mode= output:o= overcommit:O oversubscribe:s partition:p=
power= prefer= priority= profile= propagate? qos:q= quiet:Q reboot reservation= signal=
sockets-per-node= spread-job switches= tasks-per-node= test-only thread-spec= threads-per-core=
time:t= time-min= tmp= usage use-min-nodes verbose:v version:V wckey=
autocomplete= container-id= extra= tres-per-task= tres-bind= segment= stepmgr oom-kill-step?
consolidate-segments resources= spread-segments runtime= mem-update=
"""

_SBATCH = """
array:a= batch= export-file= get-user-env? gid= ignore-pbs kill-on-invalid-dep= no-requeue parsable
requeue uid= wait:W wait-all-nodes= wrap= resv-ports? external
"""

_SRUN = """
accel-bind= bcast? bcast-exclude= compress? cpu-bind= cpu_bind= debugger-test disable-status:X
epilog= exact het-group= immediate:I? interactive jobid= kill-on-bad-exit:K? label:l mpi=
msg-timeout= multi-prog no-allocate:Z overlap? pack-group= preserve-env:E prolog= pty?
quit-on-interrupt relative:r= resv-ports? send-libs? slurmd-debug= task-epilog= task-prolog=
threads:T= unbuffered:u wait:W= whole x11? external-launcher? treewidth= wait-for-children async
ignore-signals=
"""


def _table(text: str) -> Tuple[OptionSpec, ...]:
    """Read words such as ``account:A=``: long name, letter, and what the option takes."""
    options = []
    for word in text.split():
        takes = word[-1] if word[-1] in "=?" else NO_VALUE
        long, _, short = word.rstrip("=?").partition(":")
        options.append(OptionSpec(long, short, takes, _ALIASES.get(long, long)))
    return tuple(options)


_IN_BOTH = _table(_BOTH)
SBATCH = (*_IN_BOTH, *_table(_SBATCH))
SRUN = (*_IN_BOTH, *_table(_SRUN))

EARLY = frozenset(("help", "quiet", "usage", "verbose", "version", "wrap"))
"""Options that sbatch reads only on its command line; in a script, it accepts and ignores them."""

# Variables that set an option under another name than the option's own.
_VARIABLES = {
    "SBATCH_ARRAY_INX": "array",
    "SBATCH_BURST_BUFFER": "bb",
    "SLURM_CLUSTERS": "clusters",
    "SBATCH_CPU_FREQ_REQ": "cpu-freq",
    "SLURM_HINT": "hint",
    "SBATCH_MEM_PER_NODE": "mem",
    "SBATCH_TIMELIMIT": "time",
}
_SAME_NAMES = """
account acctg-freq batch cluster-constraint clusters container constraint core-spec cpus-per-gpu
delay-boot distribution exclusive export get-user-env gres gres-flags gpus gpu-bind gpu-freq
gpus-per-node gpus-per-socket gpus-per-task hint job-name mem-bind mem-per-cpu mem-per-gpu network
no-kill no-requeue open-mode overcommit partition power profile qos requeue reservation signal
spread-job thread-spec threads-per-core use-min-nodes wait wait-all-nodes wckey error input output
"""


def variables() -> Mapping[str, str]:
    """Return the option that each of sbatch's variables sets; it overrides the script's."""
    equal = {f"SBATCH_{name.replace('-', '_').upper()}": name for name in _SAME_NAMES.split()}
    return {**equal, **_VARIABLES}


class GetoptError(ValueError):
    """The word at ``index``, which getopt_long refuses. unknown: no option has such a name."""

    def __init__(self, message: str, index: int, unknown: bool = False) -> None:
        super().__init__(message)
        self.index = index
        self.unknown = unknown


@dataclass(frozen=True)
class Parsed:
    """An option among words, at ``index``; its value, if it has one, is at ``value_index``."""

    spec: OptionSpec
    value: Optional[str]
    index: int
    value_index: int


def getopt(words: List[str], table: Tuple[OptionSpec, ...]) -> Tuple[Tuple[Parsed, ...], int]:
    """Return the first options of ``words`` and the index after them; raise GetoptError."""
    shorts = {option.short: option for option in table if option.short}
    longs = {option.long: option for option in table}
    parsed: List[Parsed] = []
    index = 0
    while index < len(words) and len(words[index]) > 1 and words[index].startswith("-"):
        word = words[index]
        if word == "--":
            return tuple(parsed), index + 1
        is_long = word.startswith("--")
        options = _read_long(word, index, longs) if is_long else _read_shorts(word, index, shorts)
        last = options[-1]
        if last.spec.takes == VALUE and last.value is None:
            if index + 1 == len(words):
                spelling = f"--{last.spec.long}" if is_long else f"-{last.spec.short}"
                raise GetoptError(f"option '{spelling}' requires a value", index)
            options[-1] = replace(last, value=words[index + 1], value_index=index + 1)
        parsed += options
        index = options[-1].value_index + 1
    return tuple(parsed), index


def _read_long(word: str, index: int, longs: Mapping[str, OptionSpec]) -> List[Parsed]:
    """Read ``--name`` or ``--name=value``; the name may be abbreviated."""
    name, equals, value = word[2:].partition("=")
    option = longs.get(name) or _find_abbreviated(name, longs.values(), index)
    if option.takes == NO_VALUE and equals:
        raise GetoptError(f"option '--{option.long}' takes no value", index)
    return [Parsed(option, value if equals else None, index, index)]


def _read_shorts(word: str, index: int, shorts: Mapping[str, OptionSpec]) -> List[Parsed]:
    """Read ``-abc``: the letters behind an option that takes a value are its value."""
    options: List[Parsed] = []
    for end, letter in enumerate(word[1:], 2):  # word[end:] follows the letter
        option = shorts.get(letter)
        if option is None:
            raise GetoptError(f"there is no option '-{letter}'", index, True)
        if option.takes != NO_VALUE:
            return [*options, Parsed(option, word[end:] or None, index, index)]
        options.append(Parsed(option, None, index, index))
    return options


def _find_abbreviated(name: str, options: Iterable[OptionSpec], index: int) -> OptionSpec:
    """Return the option that an abbreviated long name means."""
    candidates = [option for option in options if option.long.startswith(name)]
    if not candidates:
        raise GetoptError(f"there is no option '--{name}'", index, True)
    if len({option.name for option in candidates}) > 1:
        every = ", ".join(f"--{option.long}" for option in candidates)
        raise GetoptError(f"option '--{name}' is ambiguous: {every}", index)
    return candidates[0]


RENAMED = {"workdir": "chdir", "share": "oversubscribe"}
"""Option that sbatch no longer has -> the one that does the same now."""

SBATCHS_OWN = frozenset(option.long for option in SBATCH)
_NOT_PLUGINS = frozenset((*RENAMED, *(option.long for option in SRUN)))
_WITH_VALUES = (
    *(f"container-{name}" for name in ("image", "mounts", "name", "workdir", "env", "save")),
    *("environment", "uenv", "view", "repo", "image", "module", "volume"),
)
"""Options with a value, of Pyxis, CSCS's container engine and uenv, and Shifter."""

_MOST_OF_PLUGINS = 20


def is_of_a_plugin(name: str) -> bool:
    """Return True if an option is not one of sbatch's own and may be a plugin's."""
    return name not in SBATCHS_OWN


def getopt_with_plugins(
    words: Sequence[str], table: Tuple[OptionSpec, ...], lines: Sequence[int] = ()
) -> Tuple[Tuple[Parsed, ...], int]:
    """Parse as getopt() does, but take unknown long options for a plugin's (Pyxis, Shifter, EAR).

    An option that may be a misspelling of sbatch's own is refused. lines: each word's line; a value
    is on its option's line. Without lines, only a few options are known to take a value.
    """
    most = len(table) + _MOST_OF_PLUGINS
    while True:
        try:
            return getopt(list(words), table)
        except GetoptError as error:
            option = _plugin_option(words, error, lines)
            if option is None or len(table) > most:
                raise
            table = (*table, option)


def _plugin_option(
    words: Sequence[str], error: GetoptError, lines: Sequence[int]
) -> Optional[OptionSpec]:
    """Return a plugin's option for the word that getopt() refused; None: it may be a mistake."""
    import difflib

    index = error.index
    match = re.fullmatch(r"--(?P<name>[a-z][\w-]*)(?P<value>=.*)?", words[index], re.DOTALL)
    if not error.unknown or match is None or match["name"] in _NOT_PLUGINS:
        return None
    name = match["name"].replace("_", "-")
    is_container = re.match(r"(no-)?container-", name) is not None
    if not is_container and difflib.get_close_matches(name, SBATCHS_OWN, n=1, cutoff=0.8):
        return None
    if match["value"] is not None or _stands_alone(words, index, lines):
        takes = OPTIONAL_VALUE
    elif lines or name in _WITH_VALUES:
        takes = VALUE  # the next word
    elif is_container:
        takes = OPTIONAL_VALUE  # Pyxis's other options are flags
    else:
        return None  # the next word may be its value, or the script
    return OptionSpec(match["name"], "", takes, match["name"])


def _stands_alone(words: Sequence[str], index: int, lines: Sequence[int]) -> bool:
    """Return True if no value follows a word: an option does, or nothing on its line."""
    if index + 1 == len(words) or words[index + 1].startswith("-"):
        return True
    return bool(lines) and lines[index] != lines[index + 1]
