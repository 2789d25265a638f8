"""Somebody's own batch script, read as sbatch reads it, and the record of its job."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Optional, Sequence, Tuple

from neuronctl.common import units
from neuronctl.common.errors import UsageError
from neuronctl.common.files import file_state
from neuronctl.common.frozen import dataclass, replace
from neuronctl.common.paths import working_directory
from neuronctl.records.job_record import RecordDraft
from neuronctl.request.sbatch_options import GetoptError
from neuronctl.scripts.header import read_header
from neuronctl.scripts.model import Header
from neuronctl.scripts.sbatch_line import WRAPPED, SbatchLine, read_line
from neuronctl.scripts.script_file import read_file
from neuronctl.scripts.script_search import ScriptFile


@dataclass(frozen=True)
class ExistingScript:
    """A batch script and the command line that submits it.

    words: behind ``sbatch``. name: the script's in messages. text: bytes that are not UTF-8 as
    surrogates. path: absolute, "" where the text does not come from a file. seen: what the file
    was like when it was read. header: with the command line and the environment over it. monitor:
    whether its job is sampled.
    """

    words: Tuple[str, ...]
    line: SbatchLine
    name: str
    text: str
    path: str
    seen: Tuple[int, ...]
    header: Header
    monitor: bool = False

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

    @property
    def stdin(self) -> Optional[str]:
        """What sbatch reads from its standard input."""
        return self.text if self.line.reads_stdin else None

    @property
    def unsampled(self) -> str:
        """Why nothing can start in the batch shell before the script; "" if it can."""
        from neuronctl.scripts.command_wrappers import interpreter

        header, before = self.header, os.environ.get("BASH_ENV")
        if interpreter(header.shebang) != "bash" or re.search(r"\s-\S*p", header.shebang):
            # --posix and -p ignore BASH_ENV.
            return f"only bash can start the sampler, and not as '{header.shebang}'"
        if header.components > 1:
            return "a heterogeneous job is not sampled"
        passed = (header.value("export") or "ALL").split(",")[0].upper() == "ALL"
        if "export-file" in header.options or not passed:
            return "the sampler needs BASH_ENV, and --export does not pass it on; --export=ALL does"
        if before and not os.path.isfile(before):
            return f"BASH_ENV is '{before}', which is not a file"
        return ""

    @property
    def has_changed(self) -> bool:
        """Whether the file is no longer the one that was read."""
        return bool(self.path) and file_state(self.path) != self.seen

    def add_words(self, *more: str) -> ExistingScript:
        """Return the same script with more options, over those that it has."""
        words = (*self.line.options, *more, *self.line.script)
        made = _script(words, read_line(words), self.text, self.path, self.seen)
        return replace(made, monitor=self.monitor)

    @property
    def draft(self) -> RecordDraft:
        """The record of its job as far as it is known before it is judged."""
        here, header = working_directory(), self.header
        error, array, time_limit = header.value("error"), header.value("array"), None
        with contextlib.suppress(ValueError):
            time_limit = units.parse_time(header.value("time") or "")
        try:
            units.check_array(array or "0")
        except ValueError:  # which sbatch refuses too
            array = None
        return RecordDraft(
            cwd=self.chdir,
            script=self.text,
            request={
                **({"script": self.path} if self.path else {}),
                **({"monitor": True} if self.monitor else {}),
            },
            job_name=self.job_name,
            partition=header.value("partition") or "",
            output=os.path.join(self.chdir, self.output),
            error=None if error is None else os.path.join(self.chdir, error),
            array=array,
            time_limit=time_limit,
            submit_dir="" if self.chdir == here else here,
            sbatch=("sbatch", *self.words),
        )


def read_existing(
    words: Sequence[str],
    stdin: Optional[str] = None,
    over: Sequence[str] = (),
    file: Optional[ScriptFile] = None,
) -> ExistingScript:
    """Read the script that ``sbatch WORDS`` would submit from here.

    stdin: the text of standard input, which is not read. over: options over those among the words.
    file: the script where it was read already. Raises UsageError where sbatch refuses the words,
    and where the script cannot be read.
    """
    try:
        line = read_line(words)
        if over:
            words = (*line.options, *over, *line.script)
            line = read_line(words)
        if line.wrap is not None:
            return _script(words, line, WRAPPED.format(line.wrap))
        if line.reads_stdin:
            return _script(words, line, stdin or "")
        path = line.path(working_directory())
        if not path:
            raise UsageError(f"the batch script cannot be read: no file '{line.file}'")
        seen = file_state(path)
        text = read_file(path) if file is None else file.text
        return _script(words, line, text, path, seen if file is None else file.state)
    except GetoptError as error:
        raise UsageError(f"sbatch does not take these words: {error}") from None


def _script(
    words: Sequence[str], line: SbatchLine, text: str, path: str = "", seen: Tuple[int, ...] = ()
) -> ExistingScript:
    header = read_header(text, environment=os.environ, command_line=line.known)
    if line.components > 1:
        header = replace(header, components=line.components)
    name = "--wrap" if line.wrap is not None else "<stdin>" if line.reads_stdin else line.file
    return ExistingScript(tuple(words), line, name, text, path, seen, header)
