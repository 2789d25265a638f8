"""One option of a job, as the table of them in ``request/job.py`` declares it."""

from __future__ import annotations

from functools import partial
from typing import Any, Optional, Sequence

from neuronctl.common.datatypes import dataclass, field
from neuronctl.common.words import other_dash
from neuronctl.request import values
from neuronctl.request.values import Fields


@dataclass(frozen=True)
class Option:
    """One option.

    metavar: its value in help, "" if it has none. kind: ``"value"`` takes one text; ``"flag"``
    takes none (parse gets ``"true"`` or ``"false"``); ``"switch"`` is a flag with a negative form
    (``--no-requeue``); ``"list"`` may be repeated (parse gets all texts at once). read: the
    function of request/values.py that reads its text, or the texts of a list. batch_only: salloc
    does not have the option, because an interactive job has no log file and is not requeued. field:
    the field of JobRequest that it sets.
    """

    long: str
    short: str
    metavar: str
    kind: str
    help: str
    read: Any
    group: str
    batch_only: bool
    field: str

    def parse(self, texts: Sequence[str]) -> Fields:
        """Return the JobRequest fields that it sets; raises ValueError."""
        if self.is_flag:
            return {self.field: texts[0] == "true"}
        try:
            if self.kind == "list":
                return self._fields(self.read(texts)) or {}
            fields = self._fields(self.read(values.one_line(texts[0])))
            if fields is None:
                raise ValueError(f"'{texts[0]}' is not {self.metavar}")
            return fields
        except ValueError as error:
            # A dash that was copied from a document may be the cause.
            dash = next(filter(None, map(other_dash, texts)), "")
            if not dash or dash in str(error):
                raise
            raise ValueError(f"{error}; it contains {dash}, not '-'") from None

    def parse_directive(self, value: Optional[str]) -> Optional[Fields]:
        """Return the fields that a directive sets; None: no field fits it. Raise ValueError."""
        return self._fields(True if value is None else self.read(value))

    def _fields(self, value: Any) -> Optional[Fields]:
        return value if value is None or isinstance(value, dict) else {self.field: value}

    @property
    def is_flag(self) -> bool:
        """Return True for an option without a value: a flag, or a switch."""
        return not self.metavar

    @property
    def usage(self) -> str:
        """Return what to type and its meaning, for hints."""
        return f"--{self.long} {self.metavar}: {self.help}"


def option(
    spelling: str,
    help: str,
    read: Any = values.any_text,
    group: str = "Slurm",
    *,
    default: Any = None,
    batch_only: bool = False,
) -> Any:
    """Declare a field of JobRequest, and the option that sets it.

    spelling: ``-c, --cpus-per-task N``, ``--exclusive``, ``--[no-]requeue``, or ``--env X...``
    (it may be repeated).
    """
    before, _, text = spelling.rpartition("--")
    name, _, metavar = text.partition(" ")
    long = name.removeprefix("[no-]")
    if metavar.endswith("..."):
        kind = "list"
    elif metavar:
        kind = "value"
    else:
        kind = "flag" if name == long else "switch"
    label = metavar.removesuffix("...")
    letter = before[1:2]  # the c of "-c, "
    make = partial(Option, long, letter, label, kind, help, read, group, batch_only)
    return field(default=() if kind == "list" else default, metadata={"option": make})
