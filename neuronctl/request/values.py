"""One function for each kind of option value; it returns field values or raises ValueError.

None: the value may be right for Slurm, but JobRequest has no fields for it.
"""

from __future__ import annotations

import re
import shlex
from functools import partial
from typing import Any, Dict, Optional, Sequence, Tuple

from neuronctl.common import units
from neuronctl.common.shell import BASHS_OWN
from neuronctl.common.words import other_dash

Fields = Dict[str, Any]

_CONTROL = r"[\x00-\x1f\x7f\u0085\u2028\u2029]"
_SURROGATE = r"[\ud800-\udfff]"


def one_line(text: str) -> str:
    """Return ``text``; raise ValueError if it would break a ``#SBATCH`` line or is empty."""
    if text.isascii() and text.isprintable() and text.strip():
        return text  # nearly all texts need no pattern
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


def any_text(text: str) -> Any:
    """Accept any text; like sbatch, set nothing for an empty one."""
    return text if text.strip() else {}


_MOST = 999_999_999
"""More than any cluster has of anything."""


def whole_number(text: str, least: int = 1) -> int:
    """Return a number as C's strtol reads it, with nothing after it; raise ValueError."""
    match = re.fullmatch(r"[ \t\n\v\f\r]*\+?0*([0-9]+)", text)
    number = None if match is None else int(match[1][:19])  # more digits are too many anyway
    if number is None or number < least:
        raise ValueError(f"'{text}' is not a whole number of at least {least}")
    if number > _MOST:
        raise ValueError(f"'{text}' is more than {_MOST}")
    return number


cores = partial(whole_number, least=0)
"""Reads a number of cores; 0 leaves them to Slurm."""


def still_time(text: str) -> str:
    """Read a time of at least ten seconds, with its unit."""
    if units.parse_timeout(text) < 10:
        raise ValueError(f"'{text}' is less than 10 s, in which many a program rests")
    return text


def command_words(text: str) -> str:
    """Split words of a command line as a shell does."""
    try:
        shlex.split(text)
    except ValueError as error:
        raise ValueError(f"'{text}' cannot be read as words: {error}") from None
    return text


def nodes(text: str) -> Optional[Fields]:
    """Read a number of nodes or a range; None for a list (``1,2,4``) and thousands (``1k``).

    ``2-0`` in a script sets no maximum: ``max_nodes`` is 0.
    """
    count = r"\s*\+?([0-9]{1,9})\s*"
    match = re.fullmatch(f"{count}(?:-{count})?", text)
    if match is None:
        if re.fullmatch(r"[\s0-9kKmM+:,-]*[0-9][\s0-9kKmM+:,-]*", text):
            return None
        raise ValueError(f"'{text}' is not a whole number of nodes")
    least, most = int(match[1]), int(match[2] or match[1])
    if most == 0:  # "2-0", or a mere "0"
        return {"nodes": least, "max_nodes": 0} if least else None
    if most < least:
        raise ValueError(f"'{text}' runs backward")
    fields = {"nodes": max(1, least)}  # "0-4" means 1-4
    return {**fields, "max_nodes": most} if most > fields["nodes"] else fields


def gpus_per_node(text: str) -> Optional[Fields]:
    """Read ``2`` or ``a100:2``; None for several types."""
    match = re.fullmatch(r"(?:(?P<type>[A-Za-z0-9_.-]+)[:=])?\s*\+?(?P<count>[0-9]{1,9})", text)
    if match is None:
        return None
    fields: Fields = {"gpus_per_node": int(match["count"])}
    return {**fields, "gpu_type": match["type"]} if match["type"] else fields


def gpus_in_all(text: str) -> Optional[Fields]:
    """Read the GPUs on all nodes together; None for several types."""
    fields = gpus_per_node(text)
    return None if fields is None else {"gpus": fields.pop("gpus_per_node"), **fields}


def gpu_type_of_task(text: Optional[str]) -> Optional[str]:
    """Return the one type in ``--gpus-per-task``; None: no type, or several."""
    match = re.fullmatch(r"(?:gpu:)?([\w.-]+):[0-9]{1,9}", text or "")
    return None if match is None or match[1] == "gpu" else match[1]


def gres(text: str) -> Optional[Fields]:
    """Read generic resources; ``gpu`` and ``gpu:a100`` mean one GPU. None: no field fits.

    >>> gres("gpu:a100:2,nvme:1")
    {'gpus_per_node': 2, 'gpu_type': 'a100', 'gres': ('nvme:1',)}
    """
    if text.lower() in ("help", "list"):
        raise ValueError(f"'{text}' lists the resources instead of submitting the job")
    if not text:
        raise ValueError("it names no resource")
    gpus: Dict[str, int] = {}  # by type; "" for any
    others = []
    for item in text.replace("gres:", "").replace("=", ":").split(","):
        match = re.fullmatch(
            r"gpu(?::(?P<type>(?![0-9]+$)[\w.-]+))?(?::(?P<count>[0-9]{1,9}))?", item
        )
        if match is not None:
            gpus[match["type"] or ""] = int(match["count"] or 1)  # the last count of a type is used
        elif re.fullmatch(r"(?!gpu\b)[A-Za-z0-9_.:/-]+", item):
            others.append(item)
        else:
            return None
    has_several_types = len(gpus) > 1
    if has_several_types and "" in gpus:  # GPUs of a type, and others of any
        return None
    fields: Fields = {}
    if gpus:
        fields["gpus_per_node"] = sum(gpus.values())
    if has_several_types:
        others = [*(f"gpu:{kind}:{number}" for kind, number in gpus.items()), *others]
    elif gpus and "" not in gpus:
        fields["gpu_type"] = next(iter(gpus))  # the only type
    if others:
        fields["gres"] = tuple(others)
    return fields


def time(text: str) -> str:
    """Read a time limit; raise ValueError, with Slurm's way to write ``8h`` or ``30m``."""
    try:
        units.parse_time(text)
    except ValueError:
        typed = re.fullmatch("([0-9]{1,6}) *([dhm])[a-z]*", text.strip(), re.IGNORECASE)
        if typed is None:
            raise
        number, unit = typed.groups()
        in_slurm = {"d": f"{number}-00:00:00", "h": f"{number}:00:00", "m": number}[unit.lower()]
        raise ValueError(f"'{text}' is not a Slurm time; write {in_slurm}") from None
    return text


def memory(text: str) -> str:
    """Read an amount of memory, without the blanks and the plus sign that C's strtol skips."""
    size = text.lstrip(" \t").removeprefix("+")
    units.parse_memory(size)
    return size


def signal(text: str) -> str:
    """Read a signal, when it is sent, and to whom."""
    _, name, seconds = units.split_signal(text)
    number = int(name) if re.fullmatch("[0-9]{1,5}", name) else 0
    if name.upper() not in units.SIGNALS and not 0 < number <= 0xFFFF:
        what = f"'{name}' is not a signal" if name else "it names no signal"
        raise ValueError(f"{what}; use a number or {', '.join(units.SIGNALS)}")
    if not re.fullmatch(r"([ \t]*\+?[0-9]{1,9})?", seconds) or int(seconds or 0) > 0xFFFF:
        raise ValueError(f"'{seconds}' after @ is not a number of seconds up to 65535")
    return text


_MAIL_TYPES = (
    *("NONE", "BEGIN", "END", "FAIL", "REQUEUE", "ALL", "INVALID_DEPEND", "STAGE_OUT"),
    *("TIME_LIMIT", "TIME_LIMIT_90", "TIME_LIMIT_80", "TIME_LIMIT_50", "ARRAY_TASKS"),
)


def mail_type(text: str) -> str:
    """Read the events that send mail; like sbatch, ignore unknown ones beside known ones."""
    events = [name for name in text.split(",") if name.strip().upper() in _MAIL_TYPES]
    if not events:
        raise ValueError(f"'{text}' is not a mail type; use {', '.join(_MAIL_TYPES)}")
    return ",".join(events)


def array(text: str) -> Any:
    """Read the indexes of an array, which may be in brackets."""
    if re.search("%[^%]*,", text):
        raise ValueError(f"'{text}': %N must end the list; Slurm drops what follows it")
    return ranges(re.sub(r"\A\[([^][]*)\](%.*)?\Z", r"\1\2", text))


def ranges(text: str) -> Any:
    """Read indexes or node names; refuse any dash but ASCII's."""
    dash = other_dash(text)
    if dash:
        raise ValueError(f"'{text}' contains {dash}, not '-'")
    return any_text(text)


def exclusive(text: str) -> Optional[bool]:
    """Return True for ``exclusive``, None for the other kinds; raise ValueError."""
    kinds = ("exclusive", "oversubscribe", "user", "mcs", "topo")
    if text.lower() not in kinds:
        raise ValueError(f"'{text}' is not one of {', '.join(kinds[2:])}")
    return True if text.lower() == "exclusive" else None


def setup(texts: Sequence[str]) -> Tuple[str, ...]:
    """Read the user's own shell lines."""
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
    """Return shell text for a script; raise ValueError if it is empty or cannot be in one."""
    if re.search(r"(?m)^[^\S\n]*[^#\s]", text) is None:
        raise ValueError("is empty")
    for line in text.split("\n"):
        if line.strip():
            one_line(line.replace("\t", " ").rstrip("\r"))
    # sbatch rejects a script that contains CR LF.
    return text.replace("\r\n", "\n").rstrip("\n") + "\n"


def env(texts: Sequence[str]) -> Tuple[Tuple[str, str], ...]:
    """Read variables with their values."""
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


def words(texts: Sequence[str]) -> Tuple[str, ...]:
    """Read names, or other texts of one line each."""
    return tuple(one_line(text) for text in texts)
