"""The options of a job, declared once for the command line, job files, and the configuration file.

Each entry has its sbatch spelling, the JobRequest fields that it sets, and the grammar of its
value. The command line and the YAML files both use ``Option.parse``.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

from neuronctl import units
from neuronctl.errors import did_you_mean
from neuronctl.frozen import dataclass
from neuronctl.shell import BASHS_OWN, join
from neuronctl.words import other_dash

Fields = Dict[str, Any]


_CONTROL = r"[\x00-\x1f\x7f\u0085\u2028\u2029]"
_SURROGATE = r"[\ud800-\udfff]"


def one_line(text: str) -> str:
    """Return ``text``; raise ValueError if it would break a ``#SBATCH`` line or is empty."""
    if text.isascii() and text.isprintable() and text.strip():
        return text  # as nearly all are, and no pattern is needed
    control = re.search(_CONTROL, text)
    if control:
        raise ValueError(
            f"contains the control character {control.group()!r} at position "
            f"{control.start() + 1}, which a job script cannot hold"
        )
    if re.search(_SURROGATE, text):
        raise ValueError("is not valid UTF-8")
    if not text.strip():
        raise ValueError("is empty")
    return text


def _one(parse: Callable[[str], Any]) -> Callable[[Sequence[str]], Any]:
    return lambda texts: parse(texts[0])


_text = _one(one_line)


@dataclass(frozen=True)
class Option:
    """One option.

    metavar: its value in help, "" where it has none. read: from its texts, the value of the
    JobRequest field of the same name, or several fields. kind: ``"value"`` takes one text;
    ``"flag"`` takes none (parse gets ``"true"`` or ``"false"``); ``"switch"`` is a flag with a
    negative form (``--no-requeue``); ``"list"`` may be repeated (parse gets all texts at once).
    batch_only: salloc does not have the option, because an interactive job has no log file and is
    not requeued.
    """

    long: str
    short: str
    metavar: str
    kind: str
    help: str
    read: Callable[[Sequence[str]], Any]
    group: str
    batch_only: bool

    def parse(self, texts: Sequence[str]) -> Fields:
        """The JobRequest fields that it sets; raises ValueError."""
        try:
            value = texts[0] == "true" if self.is_flag else self.read(texts)
        except ValueError as error:
            dash = next(filter(None, map(other_dash, texts)), "")
            raise ValueError(f"{error}; it contains {dash}, not '-'" if dash else error) from None
        return value if isinstance(value, dict) else {self.long.replace("-", "_"): value}

    @property
    def is_flag(self) -> bool:
        """Whether it is given or not, and has no value."""
        return not self.metavar

    @property
    def usage(self) -> str:
        """What to type and what it means, for hints."""
        return f"--{self.long} {self.metavar}: {self.help}"


def _option(
    spelling: str,
    help: str,
    read: Callable[[Sequence[str]], Any] = _text,
    group: str = "Slurm",
    *,
    batch_only: bool = False,
) -> Option:
    """Make an option from its spelling.

    Examples: ``-c, --cpus-per-task N``, ``--[no-]purge``, ``--env X...`` (it may be repeated).
    """
    short, names = ("", spelling) if spelling[1] == "-" else (spelling[1], spelling[4:])
    long, _, metavar = names[2:].partition(" ")
    kind = "value" if metavar else "flag"
    if long.startswith("[no-]"):
        long, kind = long[5:], "switch"
    elif metavar.endswith("..."):
        metavar, kind = metavar[:-3], "list"
    return Option(long, short, metavar, kind, help, read, group, batch_only)


def _texts(field: str) -> Callable[[Sequence[str]], Fields]:
    return lambda texts: {field: tuple(one_line(text) for text in texts)}


def parse_count(text: str, least: int = 1) -> int:
    """Parse a whole number of at least ``least``, in ASCII digits."""
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10) or int(digits) < least:
        raise ValueError(f"'{text}' is not a whole number of at least {least}")
    return int(digits)


_count = _one(parse_count)
_count_from_zero = _one(partial(parse_count, least=0))


def _nodes(texts: Sequence[str]) -> Fields:
    several = "," in texts[0] or ":" in texts[0]
    if several and re.fullmatch(r"[0-9]+(-[0-9]+)?[,:][0-9,:-]+", texts[0]):
        raise ValueError(
            f"'{texts[0]}' lists several sizes, which Slurm 22.05 refuses: request one number, or "
            "a range"
        )
    least, dash, most = texts[0].partition("-")
    fields: Fields = {"nodes": parse_count(least if dash else texts[0])}
    if dash and parse_count(most) < fields["nodes"]:
        raise ValueError(f"'{texts[0]}' runs backward")
    if dash and parse_count(most) > fields["nodes"]:
        fields["max_nodes"] = parse_count(most)
    return fields


def _time(texts: Sequence[str]) -> Fields:
    try:
        units.parse_time(texts[0])
    except ValueError:
        amount = re.fullmatch("([0-9]{1,6}) *(d|h|m|min)[a-z]*", texts[0].strip(), re.IGNORECASE)
        if amount is None:
            raise
        number, unit = amount.groups()
        slurms = {"d": f"{number}-00:00:00", "h": f"{number}:00:00"}.get(unit.lower(), number)
        raise ValueError(f"'{texts[0]}' is not a Slurm time; write {slurms}") from None
    return {"time_limit": texts[0].strip()}


def _gpus(text: str) -> Fields:
    kind, _, number = text.rpartition(":")
    if kind and not re.fullmatch(r"[A-Za-z0-9_.-]+", kind):
        raise ValueError(f"'{text}' is not [TYPE:]NUMBER")
    fields: Fields = {"gpus_per_node": parse_count(number, 0)}
    if kind:
        fields["gpu_type"] = kind
    return fields


def _gpus_per_node(texts: Sequence[str]) -> Fields:
    return _gpus(_text(texts))


def _gpus_in_all(texts: Sequence[str]) -> Fields:
    fields = _gpus_per_node(texts)
    fields["gpus"] = fields.pop("gpus_per_node")
    return fields


def _checked(check: Callable[[str], None]) -> Callable[[Sequence[str]], str]:
    """Read a text that Slurm has a grammar for, into a field that keeps it as typed."""

    def read(text: str) -> str:
        check(one_line(text))
        return text

    return _one(read)


def _models(texts: Sequence[str]) -> Fields:
    names = tuple(name for name in one_line(texts[0]).split(",") if name)
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
            raise ValueError(f"'{name}' is not a GPU model; write, for example, a100 or a100,h200")
    return {"gpu_models": names}


def _gres(texts: Sequence[str]) -> Fields:
    fields: Fields = {}
    others = []
    for item in one_line(texts[0]).split(","):
        name, _, rest = item.partition(":")
        if name != "gpu":
            if not re.fullmatch(r"[A-Za-z0-9_.:/-]+", item):
                raise ValueError(f"'{item}' is not NAME[:TYPE]:NUMBER")
            others.append(item)
        elif "gpus_per_node" in fields:
            raise ValueError("gpu is listed twice; a job gets only one type of GPU")
        else:
            # 'gpu' and 'gpu:a100' mean one GPU, as in Slurm.
            rest = rest or "1"
            fields.update(_gpus(rest if re.search(r"(^|:)[0-9]+\Z", rest) else rest + ":1"))
    if others:
        fields["gres"] = tuple(others)
    return fields


def _memory(texts: Sequence[str]) -> str:
    units.parse_memory(texts[0])
    return texts[0].strip()


def _signal(texts: Sequence[str]) -> str:
    form = r"(?:(?:BR?|RB?):)?(?:SIG)?([A-Z0-9+-]{1,10})(?:@([0-9]{1,5}))?"
    match = re.fullmatch(form, one_line(texts[0]))
    if match is None:
        raise ValueError(f"'{texts[0]}' is not [B:]SIGNAL[@SECONDS], such as B:USR1@120")
    name, seconds = match[1], match[2] or "0"
    if name not in units.SIGNALS and not (name.isdigit() and int(name)):
        raise ValueError(f"'{name}' is not a signal; use a number or {', '.join(units.SIGNALS)}")
    if int(seconds) > 65535:
        raise ValueError(f"{seconds} seconds exceed Slurm's maximum of 65535")
    return texts[0]


def _setup(texts: Sequence[str]) -> Tuple[str, ...]:
    lines = []
    for text in texts:
        # A YAML block has several lines; a tab may be indentation or part of a here-document.
        for line in text.rstrip("\n").split("\n"):
            if line.strip():
                one_line(line.replace("\t", " "))
            lines.append(line)
        if not text.strip():
            raise ValueError("is empty")
    return tuple(lines)


def shell_text(text: str) -> str:
    """Return shell text that can stand in a script; raise ValueError if it is empty or cannot."""
    if re.search(r"(?m)^\s*[^#\s]", text) is None:
        raise ValueError("is empty")
    for line in text.split("\n"):
        if line.strip():
            one_line(line.replace("\t", " ").rstrip("\r"))
    # sbatch rejects a script with CR LF anywhere in it.
    return text.replace("\r\n", "\n").rstrip("\n") + "\n"


def _env(texts: Sequence[str]) -> Tuple[Tuple[str, str], ...]:
    pairs: Dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
            # Do not repeat the value: it may be a secret.
            shown = f"{name}=…" if equals else text
            raise ValueError(f"'{shown}' is not NAME=VALUE with a valid variable name")
        if name in BASHS_OWN:
            raise ValueError(f"bash does not let scripts set {name}")
        if "\0" in value:
            raise ValueError(f"the value of {name} contains a NUL byte")
        if re.search(_SURROGATE, value):
            raise ValueError(f"the value of {name} is not valid UTF-8")
        pairs[name] = value
    return tuple(pairs.items())


def _option_words(option: str, field: str) -> Callable[[Sequence[str]], Fields]:
    """Read words that are passed on byte for byte, each an option or its value."""

    def read(texts: Sequence[str]) -> Fields:
        for text in texts:
            first, *others = one_line(text).split(" ")
            if first.startswith("-") and "=" not in first and others:
                words = (part for one in text.split() for part in (option, one))
                raise ValueError(f"'{text}' is several words; write {join(tuple(words))}")
        return {field: tuple(texts)}

    return read


def _sbatch(texts: Sequence[str]) -> Tuple[str, ...]:
    from neuronctl.sbatch_options import SBATCHS_OWN, SRUN  # few jobs have such an option

    only_of_srun = {one.long for one in SRUN} - SBATCHS_OWN
    known = {one.long: one for one in OPTIONS if one.group == "Slurm" and one.long != "sbatch"}
    options = []
    for text in texts:
        option = one_line(text).lstrip("-")
        short, equals, value = option.partition("=")
        name = _whole(short, known)
        option = name + equals + value
        if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
            raise ValueError(f"'{text}' is not a long sbatch option, such as nice=100")
        # neuronctl has the flag --exclusive; only Slurm has --exclusive=user.
        if name in known and not (known[name].is_flag and option != name):
            raise ValueError(f"neuronctl has this option itself: write --{option}")
        if name in _NOT_IN_A_SCRIPT:
            raise ValueError(f"--{name} cannot be used in a job script: {_NOT_IN_A_SCRIPT[name]}")
        if name in only_of_srun:
            raise ValueError(
                f"--{name} is an option of srun, which sbatch does not know: with --launcher srun, "
                f"write --launcher-option=--{option}"
            )
        options.append(option)
    return tuple(options)


def _whole(name: str, known: Mapping[str, Option]) -> str:
    """The option that sbatch takes ``name`` for: it may be abbreviated, if only one begins so."""
    from neuronctl.sbatch_options import SBATCHS_OWN

    every = {*SBATCHS_OWN, *known}
    longer = [one for one in every if one.startswith(name)]
    return longer[0] if name not in every and len(longer) == 1 else name


def unknown_to_sbatch(name: str) -> Optional[str]:
    """What may have been meant by an option that no sbatch from 22.05 to 26.05 has; None: one has.

    A site's own plugins may add others.
    """
    from neuronctl.sbatch_options import SBATCHS_OWN

    return None if name in SBATCHS_OWN else did_you_mean(name, sorted(SBATCHS_OWN))


# sbatch reads these from a script too, and then does not simply submit it.
_NOT_IN_A_SCRIPT = {
    "wait": "use 'neuronctl submit --wait'",
    "test-only": "use 'neuronctl submit --dry-run'",
    "wrap": "name the program as SCRIPT, followed by its arguments",
    "parsable": "use 'neuronctl submit --json'",
    "help": "see 'man sbatch'",
    "usage": "see 'man sbatch'",
    "version": "see 'sbatch --version'",
}

_job = partial(_option, group="Job")
_environment = partial(_option, group="Environment")

OPTIONS: Tuple[Option, ...] = (
    _option("-J, --job-name NAME", "Job name (default: the script's name)."),
    _option("-p, --partition NAME", "Partition, several (A,B), or auto to choose one."),
    _option("-N, --nodes N[-MAX]", "Number of nodes, or a range: 2-4.", _nodes),
    _option("-n, --ntasks N", "Total number of tasks.", _count),
    _option("--ntasks-per-node N", "Tasks per node (default: what the launcher needs).", _count),
    _option(
        "-c, --cpus-per-task N",
        "Cores per task (default: the cores that come with the GPUs; 0: as Slurm decides).",
        _count_from_zero,
    ),
    _option("--gpus-per-node [TYPE:]N", "GPUs per node, such as 2 or a100:2.", _gpus_per_node),
    _option("-G, --gpus [TYPE:]N", "Total number of GPUs.", _gpus_in_all),
    _option("--gres LIST", "Generic resources per node, such as gpu:2.", _gres),
    _option("-t, --time TIME", "Time limit: 90 (minutes), 8:00:00, or 1-12:00:00.", _time),
    _option("-A, --account NAME", "Account to charge."),
    _option("-q, --qos NAME", "Quality of service."),
    _option(
        "--comment TEXT", "Comment, if the site requires one: see 'neuronctl partitions --comment'."
    ),
    _option("--mem SIZE", "Memory per node, such as 80G.", _memory),
    _option("--exclusive", "Do not share nodes with other jobs."),
    _option("-C, --constraint LIST", "Features that the nodes must have."),
    _option("--reservation NAME", "Reservation to use."),
    _option("-w, --nodelist LIST", "Nodes to use, such as gpu[35-36]."),
    _option("-x, --exclude LIST", "Nodes to avoid."),
    _option(
        "-d, --dependency LIST",
        "Jobs to wait for, such as afterok:4711.",
        _checked(units.check_dependency),
    ),
    _option(
        "-a, --array INDEXES",
        "Job array: 0-9, or 0-9%2 to run at most two tasks at a time.",
        _checked(units.check_array),
        batch_only=True,
    ),
    _option(
        "--signal [B:]SIG[@SECONDS]",
        "Signal to send before the time limit, such as B:USR1@120.",
        _signal,
    ),
    _option("--[no-]requeue", "Allow or forbid requeuing after a node failure.", batch_only=True),
    _option(
        "--mail-type TYPE", "When to send mail, such as END,FAIL.", _checked(units.check_mail_type)
    ),
    _option("--mail-user ADDRESS", "Where to send mail."),
    _option(
        "-o, --output FILE",
        "Log file (default: %x_%j.out, the job's name and id).",
        batch_only=True,
    ),
    _option(
        "-e, --error FILE",
        "Standard error log (default: %x_%j.err; with -o, the same file).",
        batch_only=True,
    ),
    _option(
        "-D, --chdir DIR", "Directory to run in, where relative paths begin (default: this one)."
    ),
    _option("--sbatch OPTION...", "Any other sbatch option, such as nice=100.", _sbatch),
    _job("--gpu LIST", "Acceptable GPU models, such as a100,h200.", _models),
    _job("--cluster NAME", "Catalog cluster to plan for."),
    _job("--field NAME", "Field of work, for the site's comment."),
    _job("--appl NAME", "Application, for the site's comment."),
    _job(
        "--launcher NAME",
        "How to start the program (default: depends on the program, nodes, tasks, and GPUs; none "
        "starts it once).",
    ),
    _job(
        "--launcher-option WORD...",
        "A word for the launcher itself, such as --tee=3; repeatable.",
        _option_words("--launcher-option", "launcher_options"),
    ),
    _job("--[no-]preflight", "Check the nodes before the launch (the default).", batch_only=True),
    _environment(
        "--env NAME=VALUE...", "Export a variable; NAME alone uses its current value.", _env
    ),
    _environment(
        "--expand", "Replace $NAME in --env and ARGS when the job starts ($$ is a dollar sign)."
    ),
    _environment(
        "--setup-first LINE...", "Shell line to run before modules and conda; repeatable.", _setup
    ),
    _environment(
        "--module NAME...", "Load a module, after 'module purge'; repeatable.", _texts("modules")
    ),
    _environment("--[no-]purge", "Unload the modules of your shell first (default with --module)."),
    _environment("--conda ENV", "Activate a conda environment."),
    _environment("--venv DIR", "Activate a virtual environment."),
    _environment("--container IMAGE", "Run inside this container image."),
    _environment(
        "--container-runtime NAME", "singularity, apptainer, or pyxis (default: the cluster's)."
    ),
    _environment(
        "--bind SRC[:DST]...", "Bind a directory into the container; repeatable.", _texts("binds")
    ),
    _environment("--cleanenv", "Keep your shell's variables out of the container."),
    _environment(
        "--container-run", "Start the image's runscript with the program, instead of the program."
    ),
    _environment(
        "--container-option WORD...",
        "A word for the container runtime, such as --rocm; repeatable.",
        _option_words("--container-option", "container_options"),
    ),
    _environment("--setup LINE...", "Shell line to run before the launch; repeatable.", _setup),
)

BY_NAME: Mapping[str, Option] = {option.long: option for option in OPTIONS}


def find(name: str) -> Optional[Option]:
    """The option that a YAML key names: sbatch's long name, with ``-`` or ``_``."""
    return BY_NAME.get(name.replace("_", "-"))
