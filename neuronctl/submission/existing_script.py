"""Somebody's own batch script, read as sbatch reads it, and the record of its job."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Optional, Sequence, Tuple

from neuronctl.common import units
from neuronctl.common.errors import UsageError
from neuronctl.common.frozen import dataclass, replace
from neuronctl.common.paths import working_directory
from neuronctl.records.job_record import RecordDraft
from neuronctl.request.sbatch_options import GetoptError
from neuronctl.scripts.header import read_header
from neuronctl.scripts.model import Header
from neuronctl.scripts.sbatch_line import WRAPPED, SbatchLine, read_line
from neuronctl.scripts.script_file import read_file

_READS = r"""(?x)
    \$\{?[#!]?[@*\#1-9] | \b(?:shift|getopts?|source|eval|BASH_ARG[CV]|select)\b
    | (?:^|[;&|\s])\.\s | \bfor\s+\w+\s*(?:;|do\b|\n)
"""
"""What may read a script's arguments, or another file that may."""


@dataclass(frozen=True)
class ExistingScript:
    """A batch script and the command line that submits it.

    text: bytes that are not UTF-8 as surrogates. path: absolute, "" where the text does not come
    from a file. header: with the command line and the environment over it. monitor: whether its job
    is sampled.
    """

    line: SbatchLine
    text: str
    path: str
    header: Header
    monitor: bool = False

    @property
    def name(self) -> str:
        """The script's name in messages."""
        if self.line.wrap is not None:
            return "--wrap"
        return "<stdin>" if self.line.reads_stdin else self.line.file

    @property
    def words(self) -> Tuple[str, ...]:
        """The words behind ``sbatch``."""
        return (*self.line.options, *self.line.script)

    @property
    def reads_arguments(self) -> bool:
        """Whether the script may read its arguments; not where nothing in it can name them."""
        lines = re.sub(r"(?m)^[ \t]*#.*", "", self.text)
        return not self.header.for_bash or re.search(_READS, lines) is not None

    @property
    def job_name(self) -> str:
        """The job's name as sbatch settles it."""
        default = "wrap" if self.line.wrap is not None else os.path.basename(self.line.file)
        return self.header.value("job-name") or default or "sbatch"

    @property
    def slurm_cluster(self) -> Optional[str]:
        """The Slurm cluster that ``--clusters`` names, in lower case; None: none, or several."""
        named = self.header.value("clusters")
        return None if named is None or "," in named or named == "all" else named.lower()

    @property
    def chdir(self) -> str:
        """The job's directory; sbatch resolves neither ``..`` nor ``~``."""
        here, given = working_directory(), self.header.value("chdir")
        return os.path.join(here, given) if given else here

    @property
    def output(self) -> str:
        """The pattern of its log, sbatch's default included."""
        array = self.header.value("array") is not None
        return self.header.value("output") or ("slurm-%A_%a.out" if array else "slurm-%j.out")

    def add_options(self, *options: str) -> ExistingScript:
        """Return the same script with more options, over those that it has."""
        words = (*self.line.options, *options, *self.line.script)
        return replace(read_existing(words, self.text, self.text), monitor=self.monitor)

    @property
    def draft(self) -> RecordDraft:
        """The record of its job as far as it is known before it is judged."""
        here, header = working_directory(), self.header
        error, time_limit = header.value("error"), None
        with contextlib.suppress(ValueError):  # which sbatch refuses too
            time_limit = units.parse_time(header.value("time") or "")
        request = {"script": self.path, "monitor": self.monitor}
        return RecordDraft(
            cwd=self.chdir,
            script=self.text,
            request={name: value for name, value in request.items() if value},
            job_name=self.job_name,
            partition=header.value("partition") or "",
            output=os.path.join(self.chdir, self.output),
            error=None if error is None else os.path.join(self.chdir, error),
            array=header.value("array"),
            time_limit=time_limit,
            submit_dir="" if self.chdir == here else here,
            sbatch=("sbatch", *self.words),
        )


def read_existing(
    words: Sequence[str], stdin: Optional[str] = None, text: Optional[str] = None
) -> ExistingScript:
    """Read the script that ``sbatch WORDS`` would submit from here.

    stdin: the text of standard input, which is not read. text: the file's where it was read
    already. Raises UsageError where sbatch refuses the words, and where the script cannot be read.
    """
    try:
        line = read_line(words)
    except GetoptError as error:
        raise UsageError(f"sbatch does not take these words: {error}") from None
    path = ""
    if line.wrap is not None:
        text = WRAPPED.format(line.wrap)
    elif line.reads_stdin:
        text = stdin or ""
    else:
        path = line.path(working_directory())
        if not path:
            raise UsageError(f"the batch script cannot be read: no file '{line.file}'")
        text = read_file(path) if text is None else text
    header = read_header(text, environment=os.environ, command_line=line.known)
    if line.components > 1:
        header = replace(header, components=line.components)
    return ExistingScript(line, text, path, header)
