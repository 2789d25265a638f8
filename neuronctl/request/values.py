"""What the value of an option may be: one function for each kind of value.

Each takes a text and ``strict``. Without it, ValueError is for what sbatch itself refuses of a
script's directive, before slurmctld sees the job; with it, for what neuronctl's own command line
and files refuse as well. A function returns the value of the JobRequest field that the option
stands at, or several fields; none of them for what sbatch takes and neuronctl cannot read, and
None for what only sbatch has a word for.
"""

from __future__ import annotations

import re
import shlex
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

from neuronctl.common import units
from neuronctl.common.shell import BASHS_OWN, join
from neuronctl.common.words import other_dash

Fields = Dict[str, Any]
Reader = Callable[[str, bool], Any]

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


def any_text(text: str, strict: bool) -> Any:
    """Any text on one line; sbatch takes no notice of an empty one."""
    return one_line(text) if strict else text if text.strip() else {}


# ------------------------------------------------------------------------- numbers


_MOST = 999_999_999
"""More than any cluster has of anything."""


def whole_number(text: str, least: int = 1, *, strict: bool = False) -> int:
    """A number as C's strtol reads it, with nothing behind it; raises ValueError."""
    match = re.fullmatch(r"[ \t\n\v\f\r]*\+?0*([0-9]+)", text)
    number = None if match is None else int(match[1][:19])  # more digits are too many anyway
    if number is None or number < least:
        raise ValueError(f"'{text}' is not a whole number of at least {least}")
    if number > (_MOST if strict else 10**18):
        raise ValueError(f"'{text}' is more than {_MOST}")
    return number


def count(text: str, strict: bool) -> int:
    """A number of at least one."""
    return whole_number(text, strict=strict)


def cores(text: str, strict: bool) -> int:
    """A number of cores; neuronctl leaves them to Slurm with 0, which sbatch refuses."""
    return whole_number(text, 0 if strict else 1, strict=strict)


def count_or_none(text: str, strict: bool) -> int:
    """A number, or 0 for none."""
    return whole_number(text, 0, strict=strict)


def still_time(text: str, strict: bool) -> str:
    """A time of at least ten seconds, with its unit."""
    if units.parse_timeout(text) < 10:
        raise ValueError(f"'{text}' is less than 10 s, in which many a program writes nothing")
    return text


def command_words(text: str, strict: bool) -> str:
    """Words of a command line, as a shell reads them."""
    try:
        shlex.split(one_line(text))
    except ValueError as error:
        raise ValueError(f"'{text}' cannot be read as words: {error}") from None
    return text


_SIZES = r"[0-9]{1,9}(?:-[0-9]{1,9}(?::[0-9]{1,9})?)?"


def node_count(text: str) -> Tuple[int, int]:
    """The least and the most nodes of ``--nodes``: ``4``, ``2-4``, ``1k``; raises ValueError.

    Of a list of sizes (``1,2,4``, since Slurm 23.02), the least and the most.
    """
    if re.fullmatch(rf"{_SIZES}(?:,{_SIZES})*", text):
        numbers = [int(number) for number in re.findall(r"(?<!:)\b[0-9]+", text)]
        if "," in text or ":" in text:
            return min(numbers), max(numbers)
    low_text, dash, high_text = text.partition("-")
    low = _number_of_nodes(low_text)
    high = _number_of_nodes(high_text) if dash else low
    if low is None and dash and not low_text.strip():
        low = 1
    if low is None or high is None:
        raise ValueError(f"'{text}' is not a whole number of nodes")
    if high and high < low:
        raise ValueError(f"'{text}' runs backward")
    return low, high


def _number_of_nodes(text: str) -> Optional[int]:
    match = re.fullmatch(r"\s*\+?([0-9]{1,9})([kK]?)([mM]?)\s*", text, re.ASCII)
    if match is None:
        return None
    return int(match[1]) * (1024 if match[2] else 1) * (1024**2 if match[3] else 1)


def nodes(text: str, strict: bool) -> Optional[Fields]:
    """A number of nodes, or a range; None: none, which Slurm takes beside some other options.

    A script may also leave it open how many it gets at most (``2-0``): ``max_nodes`` is 0.
    """
    least, most = node_count(text)
    if not strict and (least, most) == (0, 0):
        return None
    if strict and re.search("[,:]", text):
        raise ValueError(
            f"'{text}' lists several sizes, which Slurm 22.05 refuses: request one number, or "
            "a range"
        )
    if strict and (min(least, most) < 1 or text.lstrip().startswith("-")):
        raise ValueError(f"'{text}' is not a whole number of nodes of at least 1")
    if strict and most > _MOST:
        raise ValueError(f"'{text}' is more than {_MOST} nodes")
    if not strict and most == 0:
        return {"nodes": least, "max_nodes": 0}
    least = max(1, least)
    return {"nodes": least, **({"max_nodes": most} if most > least else {})}


# ---------------------------------------------------------------------------- GPUs


def _typed_gpus(text: str) -> Fields:
    kind, _, number = one_line(text).replace("=", ":").rpartition(":")
    if kind and not re.fullmatch(r"[A-Za-z0-9_.-]+", kind):
        raise ValueError(f"'{text}' is not [TYPE:]NUMBER")
    fields: Fields = {"gpus_per_node": whole_number(number, 0)}
    if kind:
        fields["gpu_type"] = kind
    return fields


def _if_read(read: Callable[[str], Fields]) -> Reader:
    """Of what sbatch takes and ``read`` does not, such as two types, only sbatch has a word."""

    def reader(text: str, strict: bool) -> Optional[Fields]:
        try:
            return read(text)
        except ValueError:
            if strict:
                raise
            return None

    return reader


gpus_per_node = _if_read(_typed_gpus)


@_if_read
def gpus_in_all(text: str) -> Fields:
    """GPUs on all nodes together."""
    fields = _typed_gpus(text)
    fields["gpus"] = fields.pop("gpus_per_node")
    return fields


def gpu_type_of_task(text: Optional[str]) -> Optional[str]:
    """The one type that ``--gpus-per-task`` asks for; None: no type, or several."""
    match = re.fullmatch(r"(?:gpu:)?([A-Za-z][\w.-]*):[0-9]{1,9}", text or "")
    return None if match is None or match[1] == "gpu" else match[1]


@_if_read
def _generic_resources(text: str) -> Fields:
    fields: Fields = {}
    others = []
    for item in one_line(text).replace("gres:", "").replace("=", ":").split(","):
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
            fields.update(_typed_gpus(rest if re.search(r"(^|:)[0-9]+\Z", rest) else rest + ":1"))
    if others:
        fields["gres"] = tuple(others)
    return fields


def gres(text: str, strict: bool) -> Optional[Fields]:
    """Generic resources, GPUs among them."""
    if text.lower() in ("help", "list"):
        raise ValueError(f"'{text}' lists the resources instead of submitting the job")
    fields: Optional[Fields] = _generic_resources(text, strict)
    items = text.replace("gres:", "").replace("=", ":").split(",")
    found = [re.fullmatch(r"gpu(?::([A-Za-z][\w.-]*))?(?::([0-9]{1,9}))?", item) for item in items]
    if fields is None and None not in found:
        counts = {
            match[1]: int(match[2] or 1) for match in found if match
        }  # of a type, the last one holds
        if len(counts) == 1:
            kind, count = counts.popitem()
            fields = {"gpus_per_node": count, **({"gpu_type": kind} if kind else {})}
        elif None not in counts:
            several = tuple(f"gpu:{kind}:{count}" for kind, count in counts.items())
            fields = {"gpus_per_node": sum(counts.values()), "gres": several}
    return fields


# ------------------------------------------------------- what Slurm has a grammar for


def time(text: str, strict: bool) -> str:
    """A time limit."""
    try:
        units.parse_time(text)
    except ValueError:
        amount = re.fullmatch("([0-9]{1,6}) *(d|h|m|min)[a-z]*", text.strip(), re.IGNORECASE)
        if amount is None:
            raise
        number, unit = amount.groups()
        slurms = {"d": f"{number}-00:00:00", "h": f"{number}:00:00"}.get(unit.lower(), number)
        raise ValueError(f"'{text}' is not a Slurm time; write {slurms}") from None
    return text


def memory(text: str, strict: bool) -> str:
    """An amount of memory, without the blanks and the plus sign that C's strtol passes over."""
    size = text.lstrip(" \t")
    size = size.removeprefix("+")
    units.parse_memory(size)
    return size


def signal(text: str, strict: bool) -> str:
    """A signal, and when and to whom it is sent."""
    if strict:
        one_line(text)
    _, name, seconds = units.split_signal(text)
    number = int(name) if re.fullmatch("[0-9]{1,5}", name) else 0
    if name.upper() not in units.SIGNALS and not 0 < number <= 0xFFFF:
        what = f"'{name}' is not a signal" if name else "it names no signal"
        raise ValueError(f"{what}; use a number or {', '.join(units.SIGNALS)}")
    if not re.fullmatch(r"([ \t]*\+?[0-9]{1,9})?", seconds) or int(seconds or 0) > 0xFFFF:
        raise ValueError(f"'{seconds}' after @ is not a number of seconds up to 65535")
    return text


def mail_type(text: str, strict: bool) -> str:
    """What to send mail of; sbatch takes no notice of what it does not know beside what it does."""
    if strict:
        units.check_mail_type(one_line(text))
        return text
    known = [name for name in text.split(",") if name.strip().upper() in units.MAIL_TYPES]
    if not known:
        raise ValueError(f"'{text}' has no mail type; use {', '.join(units.MAIL_TYPES)}")
    return ",".join(known)


def array(text: str, strict: bool) -> Any:
    """Indexes, which sbatch leaves to slurmctld, and that takes them in brackets, too."""
    bare = re.fullmatch(r"\[([^][]*)\](%.*)?", text)
    if bare:
        text = f"{bare[1]}{bare[2] or ''}"
    if strict:
        units.check_array(one_line(text))
    return ranges(text, strict)


def ranges(text: str, strict: bool) -> Any:
    """Indexes or names of nodes, in which another dash is never meant."""
    dash = other_dash(text)
    if dash:
        raise ValueError(f"'{text}' contains {dash}, not '-'")
    return any_text(text, strict)


def dependency(text: str, strict: bool) -> Any:
    """Jobs to wait for, which sbatch leaves to slurmctld."""
    if strict:
        units.check_dependency(one_line(text))
    return any_text(text, strict)


def exclusive(text: str, strict: bool) -> Optional[bool]:
    """With whom nodes are shared; only Slurm has ``user`` and ``mcs``."""
    kinds = ("exclusive", "oversubscribe", "user", "mcs", "topo")
    if text.lower() not in kinds:
        raise ValueError(f"'{text}' is not one of {', '.join(kinds[2:])}")
    return True if text.lower() == "exclusive" else None


# --------------------------------------------------- of what only neuronctl has; lists


def setup(texts: Sequence[str], strict: bool) -> Tuple[str, ...]:
    """The user's own shell lines."""
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
    if re.search(r"(?m)^[^\S\n]*[^#\s]", text) is None:
        raise ValueError("is empty")
    for line in text.split("\n"):
        if line.strip():
            one_line(line.replace("\t", " ").rstrip("\r"))
    # sbatch rejects a script with CR LF anywhere in it.
    return text.replace("\r\n", "\n").rstrip("\n") + "\n"


def env(texts: Sequence[str], strict: bool) -> Tuple[Tuple[str, str], ...]:
    """Variables with their values."""
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


def words(texts: Sequence[str], strict: bool) -> Tuple[str, ...]:
    """Names, or other texts on one line each."""
    return tuple(one_line(text) for text in texts)


def option_words(option: str) -> Callable[[Sequence[str], bool], Tuple[str, ...]]:
    """Words that are passed on byte for byte, each an option or its value."""

    def read(texts: Sequence[str], strict: bool) -> Tuple[str, ...]:
        for text in texts:
            first, *others = one_line(text).split(" ")
            if first.startswith("-") and "=" not in first and others:
                several = (part for word in text.split() for part in (option, word))
                raise ValueError(f"'{text}' is several words; write {join(tuple(several))}")
        return tuple(texts)

    return read
