"""From the text of a batch script to that of a job file."""

from __future__ import annotations

import re
from typing import Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

from neuronctl.batchscript.header import Header, read_header
from neuronctl.batchscript.shell_text import ShellText, read_shell
from neuronctl.batchscript.statements import NAME_BEGINS, NAME_ENDS, Simple, Unit, units
from neuronctl.catalog.model import Cluster
from neuronctl.errors import NeuronctlError, UsageError
from neuronctl.frozen import dataclass
from neuronctl.importing.directives import Directives, Remark, differences
from neuronctl.importing.starts import Size, Start, start
from neuronctl.launch import launchers
from neuronctl.masking import Masker, is_secret_name, is_secret_value
from neuronctl.planning import JobPlan, plan
from neuronctl.request.job import build_request
from neuronctl.request.job_file import parse_job_file
from neuronctl.request.options import BY_NAME, shell_text
from neuronctl.shell import BASHS_OWN
from neuronctl.yamlfile.writer import Entry, write


@dataclass(frozen=True)
class Draft:
    """A job file, and where it does not say what the script does."""

    text: str
    remarks: Tuple[Remark, ...]


def draft(text: str, name: str, cluster: Cluster) -> Draft:
    """The job file of a batch script.

    text: the script's. name: the file's, or ``<stdin>``. cluster: what generate plans for, so that
    the remarks can tell where it would ask Slurm for something else. Raises UsageError, with the
    line, for a script that no job file can stand for.
    """
    header = read_header(text)
    _refuse(header, name)
    directives = Directives(header, name, cluster)
    return _Importer(text, name, cluster, directives).draft()


def _refuse(header: Header, name: str) -> None:
    if header.refusals:
        first = header.refusals[0]
        raise UsageError(
            f"{name}:{max(1, first.place.line)}: sbatch refuses this script: {first.message}",
            first.hint or f"'neuronctl check {name}' says more",
        )
    if header.components > 1:
        raise UsageError(
            f"{name}: {header.components} components of a heterogeneous job: a job file has one",
            "submit the script itself with sbatch",
        )
    shell = _interpreter(header)
    if shell not in ("bash", "sh"):
        raise UsageError(
            f"{name}:1: a script for {shell or 'no shell'}: what a job file runs is read by bash",
            "let a job file start it as a program: script: FILE",
        )


def _interpreter(header: Header) -> str:
    words = header.shebang.split()
    if words and words[0].rpartition("/")[2] == "env":
        words = [word for word in words[1:] if not word.startswith("-")]
    return words[0].rpartition("/")[2] if words else ""


# Programs that may stand before the one that the job is about: they only look, or prepare.
_PREPARES = frozenset(
    """
    . : [ [[ basename cat cd chmod cp date df dirname echo eval export false free grep head hostname
    id ls lscpu lsmod mkdir mktemp ml module nproc nvidia-smi printenv printf pwd readlink realpath
    rocm-smi scontrol seq set shopt sleep sort source spack tail tar tee test touch tr true type
    ulimit umask uname uniq unset unzip wc which whoami conda awk sed cut env rm mv ln
    """.split()
)
# What changes nothing that an exported variable could be about.
_NEUTRAL = frozenset(("set", "ulimit", "date", "hostname", "pwd", "nvidia-smi"))
# In a step of its own, these do what they would do in the batch shell.
_ALONE = frozenset(
    """
    cat chmod cp date df echo free hostname ls mkdir mv nvidia-smi printenv printf pwd rm rocm-smi
    sleep tar touch true uname whoami
    """.split()
)
# neuronctl sets or unsets these behind the lines of setup-first.
_SET_BETWEEN = frozenset(
    "MASTER_ADDR MASTER_PORT RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE PYTHONUNBUFFERED".split()
)


@dataclass(frozen=True)
class Shell:
    """The shell part as a job file has it. environment: keys from setup-first to env."""

    environment: Tuple[Entry, ...]
    setup: Tuple[Unit, ...]
    rest: Tuple[Unit, ...]
    references: bool


class _Importer:
    def __init__(self, text: str, name: str, cluster: Cluster, directives: Directives) -> None:
        self.name = name
        self.cluster = cluster
        self.directives = directives
        self.remarks: List[Remark] = []
        header = directives.header
        lines = text.split("\n")
        self.above = [
            line[1:].removeprefix(" ")
            for line in lines[1 : header.first_command - 1]
            if line.startswith("#") and not line.startswith(("#SBATCH", "#SLURM"))
        ]
        first = header.first_command
        self.first = first
        body = self._without_late_directives(lines[first - 1 :])
        self.text = self._without_secrets(body)
        self.prelude = _shebang_lines(header, cluster)
        whole = read_shell(self.text)
        self.functions = frozenset(re.findall(r"(?am)^\s*(?:function\s+)?(\w+)\s*\(\s*\)", self.text))
        self.constants = _constants(whole)
        one_word = {"HOME", "USER", "PWD", "HOSTNAME", *self.constants}
        one_word |= set(re.findall(r"(?a)SLURM_\w+", self.text))
        self.units = [] if whole.broken else units(self.text, first, one_word)
        if whole.broken:
            line = first + whole.broken.line - 1
            self._say(line, "bash may not be able to read this; it is carried over as it is")
        if re.search(r"(?<!\\)\$\{?[1-9@*#]", self.text) and not self.functions and not re.search(
            r"\b(set --|awk|sed|bash -c|sh -c)\b", self.text
        ):
            self._say(0, "refers to the arguments of the script, which a job file cannot give to "
                      "shell text", "write the values themselves")

    def _say(self, line: int, message: str, hint: str = "") -> None:
        self.remarks.append(Remark(line, message, hint))

    # ------------------------------------------------------------------ the text

    def _without_late_directives(self, lines: List[str]) -> str:
        comments = read_shell("\n".join(lines)).comments
        kept = [
            line
            for number, line in enumerate(lines, 1)
            if not (number in comments and line.startswith("#SBATCH"))
        ]
        self.dropped = [
            self.first + number - 1
            for number, line in enumerate(lines, 1)
            if number in comments and line.startswith("#SBATCH")
        ]
        return "\n".join(kept)

    def _without_secrets(self, text: str) -> str:
        lines = text.split("\n")
        masker = Masker()
        for number, line in enumerate(lines):
            if masker.text(line) == line:
                continue
            match = re.fullmatch(r"(?a)(\s*)(?:export\s+)?([A-Za-z_]\w*)=(.*)", line)
            where = f"{self.name}:{self._line(number)}"
            if match is None or read_shell(line).broken or len(read_shell(line).assignments) != 1 \
                    or read_shell(line).commands:
                raise UsageError(
                    f"{where}: contains what looks like a secret, which no job file may hold",
                    "let the script read it from a variable, and export that before you submit",
                )
            variable = match[2]
            lines[number] = f': "${{{variable}:?is a secret: export it before you submit}}"'
            lines[number] = match[1] + lines[number]
            self._say(
                self._line(number),
                f"the value of {variable} looks like a secret: left out",
                f"export {variable} before you submit, or pass it on: --env {variable}",
            )
        joined = "\n".join(lines)
        if masker.text(joined) != joined:
            raise UsageError(
                f"{self.name}: contains what looks like a secret, which no job file may hold",
                "let the script read it from a variable, and export that before you submit",
            )
        return joined

    def _line(self, index: int) -> int:
        """The line in the file of a line of the text."""
        line = self.first + index
        for dropped in self.dropped:
            line += dropped <= line
        return line

    # ------------------------------------------------------------------- the whole

    def draft(self) -> Draft:
        for attempt in (self._as_program, self._as_steps, self._as_body):
            shell = self._environment()
            entries = None if shell is None else attempt(shell)
            if entries is None:
                continue
            made = self._file(entries)
            if made is not None:
                return made
        made = self._file([*self._prelude_entries(), Entry("run", self._shell_text(self.text))])
        assert made is not None
        return made

    def _file(self, entries: Sequence[Entry]) -> Optional[Draft]:
        """The file, if it is read as it is meant."""
        counts = any(
            entry.key == "launcher" and entry.value in ("srun", "mpirun", "horovodrun", "horovodrun-mpi")
            for entry in entries
        )
        every = [*self.directives.entries(counts), *entries]
        shown = "standard input" if self.name == "<stdin>" else self.name
        text = write(every, above=[f"From {shown}.", *self.above])
        try:
            made = self._planned(text)
        except NeuronctlError as error:
            if entries[-1].key == "run" and len(entries) == 1 + len(self._prelude_entries()):
                raise UsageError(
                    f"{self.name}: cannot be imported: {error.message}", error.hint
                ) from None
            return None
        told = differences(self.directives, made)
        remarks = sorted(
            [*self.directives.remarks, *self.remarks, *told], key=lambda one: one.line
        )
        return Draft(text, tuple(remarks))

    def _planned(self, text: str) -> JobPlan:
        request = build_request([parse_job_file(text, "job.yaml")])
        return plan(request, self.cluster)

    def _prelude_entries(self) -> List[Entry]:
        return []

    def _shell_text(self, text: str) -> str:
        lines = "".join(f"{line}\n" for line in self.prelude)
        whole = lines + text
        if not re.sub(r"(?m)^\s*#.*$", "", whole).strip():
            whole += "\n:"  # nothing but comments
        try:
            return shell_text(whole)
        except ValueError as error:
            number = next((n for n, one in enumerate(text.split("\n")) if _bad(one)), 0)
            raise UsageError(
                f"{self.name}:{self._line(number)}: cannot be imported: {error}",
                "remove the character",
            ) from None

    # ------------------------------------------------------- before the launch

    def _environment(self) -> Optional[Shell]:
        """What comes before the launch: the software, the variables, what prepares."""
        if not self.units or "trap" in {one for unit in self.units for one in _names(unit)}:
            return self._untouched()
        end = next(
            (n for n, unit in enumerate(self.units) if not self._prepares(unit)), len(self.units)
        )
        prefix, rest = self.units[:end], self.units[end:]
        begin, chain, after = self._software(prefix)
        entries: List[Entry] = []
        before = prefix[:begin]
        if chain:
            lines = _joined(before)
            if lines.strip() and not all(unit.is_remark for unit in before):
                entries.append(Entry("setup-first", self._shell_text(lines)))
            elif self.prelude:
                entries.append(Entry("setup-first", "".join(f"{line}\n" for line in self.prelude)))
            notes = () if entries else tuple(_remarks(before))
            for number, (key, value, units_of) in enumerate(chain):
                above = (*notes, *_remarks(units_of)) if number == 0 else _remarks(units_of)
                entries.append(Entry(key, value, tuple(above)))
            behind = prefix[after:]
        else:
            behind = prefix
        env, used, references = self._exports(behind)
        if env and not (self.prelude and not chain):
            above_env = _remarks(behind[one] for one in used if behind[one].is_remark)
            above_env += [note for one in used if not behind[one].is_remark for note in behind[one].remarks]
            entries.append(Entry("env", env, tuple(above_env)))
            behind = [unit for number, unit in enumerate(behind) if number not in used]
        else:
            references = False
        return Shell(tuple(entries), tuple(behind), tuple(rest), references)

    def _untouched(self) -> Optional[Shell]:
        return None

    def _prepares(self, unit: Unit) -> bool:
        if unit.is_remark:
            return True
        shell = unit.shell
        if shell.broken or any(one.background or one.looped for one in shell.commands):
            return False
        if any(one.name not in _PREPARES for one in shell.commands if not one.captured):
            return False
        if re.search(r"(?<![\w$])(exit|return|exec|trap)\b", unit.text) and "||" not in unit.text:
            return False
        return unit.simple is not None or bool(shell.commands or shell.assignments)

    def _software(
        self, prefix: Sequence[Unit]
    ) -> Tuple[int, List[Tuple[str, object, List[Unit]]], int]:
        """Where the units begin that activate the software, their keys, and what is behind them."""
        kinds = [_activates(unit, self.cluster) for unit in prefix]
        last = max((n for n, kind in enumerate(kinds) if kind is not None), default=-1)
        begin, seen = last + 1, ""
        loads = False
        for number in range(last, -1, -1):
            kind = kinds[number]
            if kind is None:
                if prefix[number].is_remark:
                    continue
                break
            what = {name for name, _ in kind}
            if what & {"conda", "venv"} and (seen or len(kind) != len([k for k in kind if k[0] != "module"])):
                if seen:
                    break
            if what == {"hook"} and seen != "conda":
                break
            if "module" in what and what & {"conda", "venv", "hook"}:
                break
            if what & {"conda", "venv"}:
                seen = "conda" if "conda" in what else "venv"
            elif "module" in what or "purge" in what:
                seen = seen or "module"
            begin = number
            if any(name == "purge" for name, _ in kind):
                break
        del loads
        chosen = [(number, kinds[number]) for number in range(begin, last + 1) if kinds[number]]
        modules = [one for _, kind in chosen for name, value in kind or () if name == "module" for one in value]
        purge = [name for _, kind in chosen for name, _ in kind or () if name == "purge"]
        if not chosen or (purge and not modules) or not any(
            name in ("module", "conda", "venv") for _, kind in chosen for name, _ in kind or ()
        ):
            return 0, [], 0
        set_before = {one.name for unit in prefix[:begin] for one in unit.shell.assignments}
        if set_before & {*_SET_BETWEEN, *self.cluster.environment}:
            return 0, [], 0
        while begin and prefix[begin - 1].is_remark:
            begin -= 1
        keys: List[Tuple[str, object, List[Unit]]] = []
        notes: Dict[str, List[Unit]] = {"module": [], "conda": []}
        target = "module" if modules else "conda"
        for number in range(begin, last + 1):
            kind = kinds[number] or ()
            if any(name in ("conda", "venv", "hook") for name, _ in kind):
                target = "conda"
            notes[target].append(prefix[number])
        # Comments right before conda are about conda.
        while modules and notes["module"] and notes["conda"] and notes["module"][-1].is_remark:
            notes["conda"].insert(0, notes["module"].pop())
        if modules:
            if not purge:
                keys.append(("purge", False, []))
            keys.append(("module", modules, notes["module"]))
            if not purge:
                keys[0], keys[1] = ("purge", False, notes["module"]), ("module", modules, [])
        for _, kind in chosen:
            for name, value in kind or ():
                if name in ("conda", "venv"):
                    keys.append((name, value[0], notes["conda"]))
        return begin, keys, last + 1

    def _exports(self, behind: Sequence[Unit]) -> Tuple[Dict[str, str], FrozenSet[int], bool]:
        """The variables that can be set first of all, and the units that do."""
        env: Dict[str, List[str]] = {}
        values: Dict[str, str] = {}
        used: List[int] = []
        neutral = False
        for number, unit in enumerate(behind):
            if unit.is_remark:
                continue
            if unit.simple is None:
                break
            if all(one.words and one.words[0] in _NEUTRAL for one in unit.simple):
                neutral = True
                continue
            pairs = [pair for one in unit.simple for pair in one.sets]
            if not all(one.exported for one in unit.simple) or any(
                value is None
                or name in values
                or name in BASHS_OWN
                or (neutral and NAME_BEGINS in value)
                or is_secret_name(name) or is_secret_value(value)
                or not value.replace(NAME_BEGINS, "").replace(NAME_ENDS, "").isprintable()
                for name, value in pairs
            ):
                break
            for name, value in pairs:
                values[name] = value or ""
            # The comment above a variable goes with it.
            while number and number - 1 not in used and behind[number - 1].is_remark and behind[number - 1].text.strip():
                used.append(number - 1)
                break
            used.append(number)
        del env
        references = any(NAME_BEGINS in value for value in values.values())
        return values, frozenset(used), references

    # ----------------------------------------------------------------- the launch

    def _size(self) -> Size:
        wanted = self.directives.wanted
        typed = {"cpus-per-task", "cpus-per-gpu"} & self.directives.header.options.keys()
        return Size(
            nodes=None if wanted.max_nodes else wanted.nodes or 1,
            tasks_per_node=wanted.ntasks_per_node or 1,
            cores=wanted.cpus_per_task if typed else None,
            gpus_per_node=wanted.gpus_per_node or 0,
            known=self.constants,
            srun_options=self.cluster.policy.srun_options,
        )

    def _started(self, unit: Unit) -> Optional[Start]:
        if unit.simple is None or len(unit.simple) != 1:
            return None
        return start(unit.simple[0].words, self._size(), self.functions)

    def _setup(self, shell: Shell) -> List[Entry]:
        setup = shell.setup
        if all(unit.is_remark for unit in setup):
            own = [] if any(one.key == "setup-first" for one in shell.environment) else self.prelude
            return [Entry("setup", "".join(f"{line}\n" for line in own))] if own else []
        whole = _joined(setup)
        if any(one.key == "setup-first" for one in shell.environment) or not self.prelude:
            return [Entry("setup", shell_text(whole))]
        return [Entry("setup", self._shell_text(whole))]

    def _as_program(self, shell: Shell) -> Optional[List[Entry]]:
        """One program at the end."""
        rest = [unit for unit in shell.rest if not unit.is_remark]
        started = self._started(rest[0]) if len(rest) == 1 else None
        if started is None:
            return None
        notes = _remarks([*(unit for unit in shell.setup if all(one.is_remark for one in shell.setup)), *shell.rest])
        expand = shell.references or _refers(started)
        entries = [*_expanded(shell.environment, expand), *self._setup(shell)]
        if expand:
            entries.append(Entry("expand", True))
        keys = self._keys(started, expand)
        if keys is None:
            return None
        made = [Entry(key, value) for key, value in keys.items()]
        made[0] = Entry(made[0].key, made[0].value, tuple(notes))
        return self._with_launcher([*entries, *made], started)

    def _keys(self, started: Start, expand: bool) -> Optional[Dict[str, object]]:
        keys: Dict[str, object] = {}
        for key, value in started.container:
            if key == "container-runtime" and value == self.cluster.containers.runtime:
                continue
            keys[key] = value
        if started.launcher:
            keys["launcher"] = started.launcher
        if started.options:
            keys["launcher-option"] = list(started.options)
        own = () if started.launcher is None else launchers.load(started.launcher).sets
        if {_name(one) for one in started.options} & set(own):
            return None
        keys["script"] = started.words[0]
        if len(started.words) > 1:
            keys["args"] = [_argument(one, expand) for one in started.words[1:]]
        return keys

    def _with_launcher(self, entries: List[Entry], started: Start) -> List[Entry]:
        """With a launcher where neuronctl would choose another one than the script."""
        if started.launcher is not None:
            return entries
        text = write([*self.directives.entries(False), *entries])
        try:
            default = self._planned(text).launcher
        except NeuronctlError:
            return entries
        if default.distributed:
            at = next(number for number, one in enumerate(entries) if one.key == "script")
            entries.insert(at, Entry("launcher", "none", entries[at].above))
            entries[at + 1] = Entry("script", entries[at + 1].value)
        return entries

    def _as_steps(self, shell: Shell) -> Optional[List[Entry]]:
        """Several programs one after the other, where each can stand alone."""
        if self.directives.wanted.signal or self.directives.header.value("input"):
            return None
        if self.prelude and not any(one.key == "setup-first" for one in shell.environment):
            if shell.environment:
                return None
        ends_at_once = _ends_at_once(shell.setup, self.prelude, shell.environment)
        steps: List[Tuple[str, object]] = []
        size = self._size()
        waiting: List[Unit] = []
        for unit in shell.rest:
            if unit.is_remark or self._alone(unit):
                waiting.append(unit)
                continue
            if unit.remarks:
                waiting.append(unit)
                return None
            started = self._started(unit)
            if started is None:
                return None
            if started.words[0] in _PREPARES:
                return None
            _flush(waiting, steps)
            steps.append(("start", started))
        _flush(waiting, steps)
        starts = [one for _, one in steps if isinstance(one, Start)]
        if len(starts) < 1 or len(steps) < 2:
            return None
        if not ends_at_once and not any(one.launcher for one in starts):
            return None
        del size
        expand = shell.references or any(map(_refers, starts))
        made: List[Dict[str, object]] = []
        for number, (_, what) in enumerate(steps):
            if isinstance(what, Start):
                keys = self._keys(what, expand)
                if keys is None or what.container:
                    return None
                if what.launcher is None and self._default_is_several(what):
                    keys = {"launcher": "none", **keys}
            else:
                keys = {"run": what}
            if number < len(steps) - 1 and not ends_at_once:
                keys["allow-failure"] = True
            made.append(keys)
        entries = [*_expanded(shell.environment, expand), *self._setup(shell)]
        if expand:
            entries.append(Entry("expand", True))
        return [*entries, Entry("steps", made)]

    def _default_is_several(self, started: Start) -> bool:
        text = write(
            [*self.directives.entries(False), Entry("script", started.words[0])]
            + ([Entry("args", list(started.words[1:]))] if started.words[1:] else [])
        ).replace(NAME_BEGINS, "").replace(NAME_ENDS, "")
        try:
            return self._planned(text).launcher.distributed
        except NeuronctlError:
            return True

    def _alone(self, unit: Unit) -> bool:
        if unit.simple is None or unit.remarks or "$?" in unit.text or "$!" in unit.text:
            return False
        return all(one.words and one.words[0] in _ALONE for one in unit.simple)

    def _as_body(self, shell: Shell) -> Optional[List[Entry]]:
        """Shell text behind what activates the software."""
        behind = _joined([*shell.setup, *shell.rest])
        prelude = self.prelude
        if any(one.key == "setup-first" for one in shell.environment):
            self.prelude = []
        elif prelude and shell.environment:
            return None
        try:
            body = self._shell_text(behind)
        finally:
            self.prelude = prelude
        entries = _expanded(shell.environment, shell.references)
        if shell.references:
            entries.append(Entry("expand", True))
        return [*entries, Entry("run", body)]


def _flush(waiting: List[Unit], steps: List[Tuple[str, object]]) -> None:
    """Make a step of the lines that wait for one; comments alone stay with what follows."""
    if any(not unit.is_remark for unit in waiting):
        steps.append(("run", shell_text(_joined(waiting))))
        waiting.clear()
    elif waiting and not any(unit.text.strip() for unit in waiting):
        waiting.clear()
    elif waiting:
        waiting.clear()


def _bad(line: str) -> bool:
    try:
        if line.strip():
            shell_text(line)
    except ValueError:
        return True
    return False


def _joined(parts: Sequence[Unit]) -> str:
    return "\n".join(unit.text for unit in parts)


def _remarks(parts: Sequence[Unit]) -> List[str]:
    return [one for unit in parts for one in unit.remarks]


def _names(unit: Unit) -> List[str]:
    return [one.name for one in unit.shell.commands]


def _constants(shell: ShellText) -> Dict[str, str]:
    """The variables that are set once, to a text without blanks."""
    found: Dict[str, str] = {}
    for one in shell.assignments:
        value = one.word.value
        if value is not None and one.sure and re.fullmatch(r"[\w./:@%+=,-]+", value):
            if len(shell.assigned(one.name)) == 1:
                found[one.name] = value
    return found


def _shebang_lines(header: Header, cluster: Cluster) -> List[str]:
    """What the options of the first line come to."""
    words = header.shebang.split()[1:]
    flags = "".join(
        word[1:] for word in words if re.fullmatch("-[a-z]+", word)
    )
    lines = []
    if ("l" in flags or "--login" in words) and not cluster.policy.login_shell:
        lines.append("[ ! -r /etc/profile ] || . /etc/profile")
        lines.append(
            'for file in ~/.bash_profile ~/.bash_login ~/.profile; do if [ -r "$file" ]; then '
            '. "$file"; break; fi; done'
        )
    others = "".join(one for one in flags if one in "eux")
    if others:
        lines.append(f"set -{others}")
    return lines


_HOOK = re.compile(
    r"""eval\s+"?\$\(\s*(?:\S*/)?conda\s+(?:shell\.bash\s+hook|shell\.posix\s+hook)[^)]*\)"?"""
    r"""|(?:source|\.)\s+"?\$\(\s*conda\s+info\s+--base\s*\)/etc/profile\.d/conda\.sh"?"""
)

Kind = Tuple[Tuple[str, Tuple[str, ...]], ...]


def _activates(unit: Unit, cluster: Cluster) -> Optional[Kind]:
    """What a unit activates; None where it does anything else."""
    if _HOOK.fullmatch(unit.text.strip()):
        return (("hook", ()),)
    if not unit.simple:
        return None
    found = []
    for one in unit.simple:
        kind = _activation(one)
        if kind is None:
            return None
        found.append(kind)
    return tuple(found)


def _activation(simple: Simple) -> Optional[Tuple[str, Tuple[str, ...]]]:
    words = [one for one in simple.words if one is not None]
    if not words or len(words) != len(simple.words) or any(NAME_BEGINS in one for one in words[2:]):
        return None
    if words[0] == "ml" and len(words) > 1 and words[1] not in _ML and "-" not in words[1][:1]:
        words = ["module", "load", *words[1:]]
    elif words[0] == "ml" and words[1:2] and words[1] in ("load", "purge"):
        words[0] = "module"
    if words == ["module", "purge"]:
        return "purge", ()
    if words[:2] in (["module", "load"], ["module", "add"]) and len(words) > 2:
        if all(re.fullmatch(r"[\w./+@:-]+", one) and one[0] not in "-+" for one in words[2:]):
            return "module", tuple(words[2:])
    if len(words) == 3 and words[:2] in (["conda", "activate"], ["source", "activate"]):
        return ("conda", (words[2],)) if words[2][0] not in "-~" else None
    if len(words) == 2 and words[0] in ("source", ".") and words[1].endswith("/bin/activate"):
        folder = words[1][: -len("/bin/activate")]
        folder = folder.replace(f"{NAME_BEGINS}HOME{NAME_ENDS}/", "~/", 1)
        if NAME_BEGINS not in folder and folder:
            return "venv", (folder,)
    return None


_ML = (
    *("load", "purge", "add", "unload", "swap", "use", "unuse", "list", "avail", "spider", "save"),
    *("restore", "show", "whatis", "reset", "del", "help", "keyword", "av"),
)


def _ends_at_once(
    setup: Sequence[Unit], prelude: Sequence[str], environment: Sequence[Entry]
) -> bool:
    """Whether ``set -e`` holds when the programs start."""
    texts = [unit.text for unit in setup if not unit.is_remark] + list(prelude)
    texts += [str(one.value) for one in environment if one.key == "setup-first"]
    on = [one for text in texts for one in re.findall(r"(?m)^\s*set ([-+])(?:[a-z]*e|o errexit)", text)]
    return bool(on) and on[-1] == "-"


def _refers(started: Start) -> bool:
    return any(NAME_BEGINS in word for word in started.words)


_REFERENCE = re.compile(f"{NAME_BEGINS}([^{NAME_ENDS}]*){NAME_ENDS}(?=(?a:(\\w))?)")


def _argument(word: str, expand: bool) -> str:
    """A word as a job file has it: with ``expand``, ``$NAME`` is a variable and ``$$`` a dollar."""
    if not expand:
        return word
    return _REFERENCE.sub(
        lambda match: f"${{{match[1]}}}" if match[2] else f"${match[1]}", word.replace("$", "$$")
    )


def _expanded(environment: Sequence[Entry], expand: bool) -> List[Entry]:
    made = []
    for one in environment:
        value = one.value
        if one.key == "env" and isinstance(value, Mapping):
            value = {name: _argument(text, expand) for name, text in value.items()}
        made.append(Entry(one.key, value, one.above, one.remark))
    return made


def _name(word: str) -> str:
    return word.partition("=")[0]
