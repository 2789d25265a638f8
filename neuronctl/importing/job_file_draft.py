"""From the text of a batch script to that of a job file."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from shlex import quote
from typing import Dict, List, Mapping, Optional, Sequence, Set, Tuple

from neuronctl.catalog.model import Cluster
from neuronctl.common.errors import NeuronctlError, UsageError
from neuronctl.common.frozen import dataclass
from neuronctl.common.yamlfile.writer import Entry, write
from neuronctl.importing.directives import Directives, Remark, differences
from neuronctl.importing.programs import ImportedProgram, Size, imported_program
from neuronctl.importing.software import software, variables
from neuronctl.launch import launchers
from neuronctl.launch.launchers import option_name
from neuronctl.planning import JobPlan, plan
from neuronctl.request.job import build_request
from neuronctl.request.job_file import parse_job_file
from neuronctl.request.values import shell_text
from neuronctl.scripts.bash_syntax import syntax_problem
from neuronctl.scripts.command_wrappers import interpreter
from neuronctl.scripts.directive_words import DIRECTIVE
from neuronctl.scripts.header import read_header
from neuronctl.scripts.model import Header
from neuronctl.scripts.script_file import MOST_CHARACTERS
from neuronctl.scripts.shell_text import ShellText, read_shell
from neuronctl.scripts.statements import (
    NAME_BEGINS,
    REFERENCE,
    Unit,
    functions,
    units,
    uses_arguments,
)


@dataclass(frozen=True)
class JobFileDraft:
    """A job file, and where it does not say what the script does."""

    text: str
    remarks: Tuple[Remark, ...]


def draft_job_file(
    text: str, name: str, cluster: Cluster, *, name_cluster: bool = False
) -> JobFileDraft:
    """The job file of a batch script.

    text: the script's. name: the file's, or ``<stdin>``. cluster: what ``generate`` would plan for,
    so that the remarks can tell where it asks Slurm for something else. name_cluster: whether the
    job file says so. Raises UsageError, with the line, for a script that no job file can stand for.
    """
    header = read_header(text)
    _refuse(header, name, text)
    key = [Entry("cluster", cluster.name)] if name_cluster else []
    return _Importer(text, name, cluster, header, key).draft()


_LONG = 5000
"""Characters of shell text of which bash itself is asked first."""


def _readable(lines: Sequence[str]) -> int:
    """How many lines the grammar reads: its time grows fast over text that is not bash."""
    text = "\n".join(lines)
    problem = syntax_problem(text) if len(text) > _LONG else None
    return len(lines) if problem is None or problem.warning else problem.place.line - 1


def _refuse(header: Header, name: str, text: str) -> None:
    if len(text) > MOST_CHARACTERS:
        raise UsageError(
            f"{name}: has more than {MOST_CHARACTERS:,} characters, of which a job file cannot be "
            "made",
            "submit the script itself: neuronctl submit FILE",
        )
    if header.refusals:
        first = header.refusals[0]
        raise UsageError(
            f"{name}:{max(1, first.place.line)}: sbatch refuses this script: {first.message}",
            first.hint or f"'neuronctl check {name}' says more",
        )
    if header.components > 1:
        lines = text.lower().split("\n")
        line = next((n for n, one in enumerate(lines, 1) if re.search("(het|pack)job", one)), 1)
        raise UsageError(
            f"{name}:{line}: a heterogeneous job of {header.components} components: a job file has "
            "one",
            "submit the script itself with sbatch",
        )
    if not header.for_bash:
        shell = interpreter(header.shebang)
        raise UsageError(
            f"{name}:1: a script for {shell or 'no interpreter'}: bash reads what a job file runs",
            "write a job file that starts it as a program: script: FILE",
        )


# In a step of its own, these do what they do in the batch shell.
_ALONE = frozenset(
    """
    cat chmod cp date df echo free hostname ls mkdir mv nvidia-smi printenv printf pwd rm
    rocm-smi sleep tar touch true uname whoami
    """.split()  # noqa: SIM905
)
# What may stand before the program that a job is about: it only looks, or prepares.
_PREPARES = _ALONE.union(
    """
    . : [ [[ awk basename cd conda cut dirname eval exit export false grep head id ln lscpu
    mktemp ml module nproc readlink realpath scontrol sed seq set shopt sort source spack tail
    tee test tr type ulimit umask uniq unset unzip wc which
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True)
class _Shell:
    """The shell part, in the order of a job file.

    environment: keys from module to env. setup, rest: the units that prepare, and those from
    the first program on.
    """

    environment: Tuple[Entry, ...]
    setup: Tuple[Unit, ...]
    rest: Tuple[Unit, ...]

    @property
    def idle(self) -> Tuple[Unit, ...]:
        """What prepares, where it is nothing but comments."""
        return self.setup if all(unit.is_remark for unit in self.setup) else ()


class _Importer:
    def __init__(
        self, text: str, name: str, cluster: Cluster, header: Header, first: Sequence[Entry]
    ) -> None:
        """first: keys before all others."""
        self.name = name
        self.cluster = cluster
        self.launchers = launchers.every()
        self.first_keys = first
        self.remarks: List[Remark] = []
        lines = text.split("\n")
        # The comments behind the last directive are about the shell part.
        last = [
            n
            for n, line in enumerate(lines[: header.first_command - 1], 1)
            if line.startswith(DIRECTIVE)
        ]
        self.first = max([1, *last]) + 1
        shell_lines = lines[self.first - 1 :]
        readable = _readable(shell_lines)
        as_written = "\n".join(shell_lines[:readable])
        read = read_shell(as_written)
        if read.left_out:
            readable = read.left_out - 1
            as_written = "\n".join(shell_lines[:readable])
        comments = read.comments
        late = [number for number in comments if shell_lines[number - 1].startswith("#SBATCH")]
        self.directives = Directives(header, name, cluster, [self._line(number) for number in late])
        for number in late:
            shell_lines[number - 1] = ""
        self.above = [
            line[1:].lstrip(" ")
            for line in lines[1 : self.first - 1]
            if line.startswith("#") and not line.startswith(DIRECTIVE)
        ]
        self.text = "\n".join(shell_lines)
        self.prelude = _of_shebang(header, cluster)
        cut = readable < len(shell_lines)
        text = "\n".join(self.text.split("\n")[:readable]) if cut else self.text
        shell = self.shell = read if text == as_written else read_shell(text)
        self.functions = functions(text)
        self.constants = _constants(shell)
        self.has_trap = any(command.name == "trap" for command in shell.commands)
        one_word = _one_word(text, shell)
        self.units = [] if cut or shell.broken else units(text, one_word)
        problem = syntax_problem(self.text) if cut or shell.broken else None
        if read.left_out:
            message = "from here on it takes too long to read, and is carried over as it is"
            self._say(min(read.left_out, len(shell_lines)), message)
        elif problem is not None:
            message = f"bash says: {problem.message}; this is carried over as it is"
            self._say(min(problem.place.line, len(shell_lines)), message)
        if interpreter(header.shebang) == "sh":
            self.remarks.append(Remark(1, "a script for sh: bash runs the job"))
        line = uses_arguments(text)
        if line is not None:
            self._say(
                line,
                "refers to the arguments of the script, and shell text in a job file has none",
                "write the values themselves",
            )

    def _slurms_variables(self, *, by_srun: bool) -> List[str]:
        """What makes Slurm's variables those of the script, where the job has other options.

        Programs read them, too, so that the script's text does not tell whether anything does.
        by_srun: whether an srun of neuronctl's starts all of it, which sets those of the tasks.
        """
        header, wanted = self.directives.header, self.directives.wanted
        by_gres = self.cluster.policy.gpu_option == "gres"
        per_node, total = header.value("gpus-per-node"), header.value("gpus")
        lines = []
        if total and "$" not in total:
            lines.append(f"export SLURM_GPUS={quote(total)}")
        if by_gres and per_node and "$" not in per_node:
            lines.append(f"export SLURM_GPUS_PER_NODE={quote(per_node)}")
        unset = [] if by_gres or per_node or not wanted.gpus_per_node else ["SLURM_GPUS_PER_NODE"]
        asked = "ntasks" in header.options
        one_task = not asked and (wanted.nodes or 1) == 1
        if not (by_srun or "ntasks-per-node" in header.options or one_task):
            unset += [*(() if asked else ("SLURM_NTASKS", "SLURM_NPROCS")), "SLURM_NTASKS_PER_NODE"]
        return lines + ([f"unset {' '.join(unset)}"] if unset else [])

    def _added(self, made: JobPlan) -> List[Remark]:
        """The variables that neuronctl gives the program, and the script did not.

        Few programs mind: what srun starts reads Slurm's variables, or none.
        """
        launches = [each for each in made.launches if each.rendezvous]
        names = ["MASTER_ADDR", "MASTER_PORT"] if launches else []
        asked = self.directives.header.options
        if any(each.launcher.by_srun and not each.launcher.one_task_per_node for each in launches):
            names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", *names]
            names += [] if "ntasks-per-node" in asked else ["SLURM_NTASKS_PER_NODE"]
        elif any(each.launcher.by_srun for each in made.launches) and "srun" not in self.text:
            tasks = {"ntasks", "ntasks-per-node"} & asked.keys()
            names = [] if tasks else ["SLURM_NTASKS"]  # torchrun itself sets the others
        added = [name for name in names if name not in self.text]
        if not added:
            return []
        what = f"the job also sets {', '.join(added)}, for programs that read them"
        return [Remark(0, what, differs=False)]

    def _unused(self, made: str) -> List[Remark]:
        """What the script sets for a launcher's options that neuronctl writes itself now."""
        if not self.units:
            return []  # it is all there
        lines = self.text.split("\n")
        sets = {
            assignment.name: assignment.place.line
            for assignment in self.shell.assignments
            if assignment.sure
            and not assignment.exported
            and lines[assignment.place.line - 1].strip() in made
        }
        before, left = Counter(_used(self.text)), Counter(_used(made))
        within = {name: Counter(_used(lines[number - 1])) for name, number in sets.items()}
        needless: Dict[str, int] = {}
        asked = [name for name in sets if before[name]]
        while asked:
            found = [name for name in asked if left[name] <= within[name][name]]
            for name in found:
                left.subtract(within[name])
            needless.update((name, sets[name]) for name in found)
            # What only these used may be needless in turn.
            touched = {used for name in found for used in within[name]}
            asked = sorted(touched & sets.keys() - needless.keys(), key=sets.__getitem__)
        hint = "remove it from the job file"
        return [
            Remark(self._line(number), f"nothing uses {name} any more", hint)
            for name, number in needless.items()
        ]

    def _say(self, number: int, message: str, hint: str = "") -> None:
        """Remark on a line of the shell part, counted from 1."""
        self.remarks.append(Remark(self._line(number), message, hint))

    def _line(self, number: int) -> int:
        """The line in the file of a line of the shell part, counted from 1."""
        return self.first - 1 + number

    # ------------------------------------------------------------------ the text

    def _refusal(self, line: int, message: str, hint: str) -> UsageError:
        return UsageError(f"{self.name}:{line}: cannot be imported: {message}", hint)

    def _body(self, text: str, *, prelude: bool) -> str:
        """Shell text as ``run`` takes it. prelude: what the first line comes to stands in it."""
        before = [*self.prelude, *self._slurms_variables(by_srun=False)] if prelude else []
        whole = "\n".join([*before, text])
        if all(not line.strip() or line.lstrip().startswith("#") for line in whole.split("\n")):
            whole += "\n:"
        try:
            return shell_text(whole.strip("\n"))
        except ValueError as error:
            number = next((n for n, one in enumerate(text.split("\n"), 1) if _is_bad(one)), 1)
            raise self._refusal(self._line(number), str(error), "remove the character") from None

    # ------------------------------------------------------------------ the file

    def draft(self) -> JobFileDraft:
        """The most that a job file can say truthfully: a program, steps, or shell text."""
        whole = [Entry("run", self._body(self.text, prelude=True))]
        shell = self._shell()
        for attempt in (self._as_program, self._as_steps, self._as_text) if self.units else ():
            entries = attempt(shell)
            if entries is not None:
                with suppress(NeuronctlError):
                    return self._made(entries)
        try:
            return self._made(whole)
        except NeuronctlError as error:
            raise self._refusal(1, error.message, error.hint) from None

    def _made(self, entries: Sequence[Entry]) -> JobFileDraft:
        text = self._written(entries)
        made = self._planned(text)
        differ = [*self._added(made), *differences(self.directives, made)]
        remarks = [*self.directives.remarks, *self.remarks, *self._unused(text), *differ]
        return JobFileDraft(text, tuple(sorted(remarks, key=lambda one: one.line)))

    def _written(self, entries: Sequence[Entry]) -> str:
        started = [entry.value for entry in entries if entry.key == "launcher"]
        steps = [
            entry.value
            for entry in entries
            if entry.key == "steps" and isinstance(entry.value, list)
        ]
        started += [step["launcher"] for group in steps for step in group if "launcher" in step]
        known = [launchers.load(str(each)) for each in started]
        size = self.directives.entries(
            by_task=any(each.distributed and not each.one_task_per_node for each in known),
            by_srun=any(each.by_srun for each in known),
        )
        shown = "standard input" if self.name == "<stdin>" else self.name
        every = [*self.first_keys, *size, *entries]
        return write(every, above=[f"From {shown}", *self.above])

    def _planned(self, text: str) -> JobPlan:
        return plan(build_request([parse_job_file(text, "job.yaml")]), self.cluster)

    # ------------------------------------------------------- before the launch

    def _shell(self) -> _Shell:
        end = next(
            (n for n, unit in enumerate(self.units) if not self._prepares(unit)), len(self.units)
        )
        found = software(self.units[:end], self.cluster.environment)
        if not all(unit.is_remark for unit in found.before):
            # These lines come before modules and conda, which only shell text can say.
            return _Shell((), tuple(self.units[:end]), tuple(self.units[end:]))
        entries = list(found.entries)
        set_first = variables(found.behind)
        if set_first.values:
            entries.append(Entry("env", set_first.values, set_first.remarks))
        if entries:
            above = (*_remarks(found.before), *entries[0].above)
            entries[0] = Entry(entries[0].key, entries[0].value, above)
        behind = set_first.behind if entries else (*found.before, *found.behind)
        return _Shell(tuple(entries), tuple(behind), tuple(self.units[end:]))

    def _prepares(self, unit: Unit) -> bool:
        if unit.is_remark:
            return True
        shell = unit.shell
        names = [command.name for command in shell.commands if not command.captured]
        if shell.broken or any(command.background or command.looped for command in shell.commands):
            return False
        if not _PREPARES.issuperset(names) or (unit.simple is not None and "exit" in names):
            return False
        return bool(names or shell.assignments)

    def _first(self, *, by_srun: bool) -> List[str]:
        """Return what the job begins with: options of the first line, and Slurm's variables."""
        return [*self.prelude, *self._slurms_variables(by_srun=by_srun)]

    def _before(
        self, shell: _Shell, starts: Sequence[ImportedProgram], expand: bool
    ) -> List[Entry]:
        """The keys before the launch."""
        known = [launchers.load(each.launcher) if each.launcher else None for each in starts]
        by_srun = all(launcher and launcher.by_srun for launcher in known)
        entries = list(_expanded(shell.environment, expand))
        setup = self._first(by_srun=by_srun)
        if len(shell.idle) < len(shell.setup):
            setup.append(_joined(shell.setup))
        if setup:
            entries.append(Entry("setup", _lines("\n".join(setup))))
        if expand:
            entries.append(Entry("expand", True))
        return entries

    # ----------------------------------------------------------------- the launch

    def _size(self) -> Size:
        wanted = self.directives.wanted
        return Size(
            nodes=None if wanted.max_nodes else wanted.nodes or 1,
            tasks_per_node=wanted.ntasks_per_node or 1,
            cores=wanted.cpus_per_task or (None if wanted.gpus_per_node else 1),
            gpus_per_node=wanted.gpus_per_node or 0,
            known=self.constants,
            launchers=self.launchers,
            srun_options=self.cluster.policy.srun_options,
        )

    def _started(self, unit: Unit) -> Optional[ImportedProgram]:
        if self.has_trap or unit.simple is None or len(unit.simple) != 1:
            return None
        return imported_program(unit.simple[0].words, self._size(), self.functions)

    def _as_program(self, shell: _Shell) -> Optional[List[Entry]]:
        """One program at the end."""
        programs = [unit for unit in shell.rest if not unit.is_remark]
        started = self._started(programs[0]) if len(programs) == 1 else None
        if started is None:
            return None
        expand = _refers(shell.environment, [started])
        keys = self._keys(started, expand)
        if keys is None:
            return None
        (key, value), *others = keys.items()
        head = Entry(key, value, tuple(_remarks([*shell.idle, *shell.rest])))
        return [*self._before(shell, [started], expand), head, *(Entry(*other) for other in others)]

    def _keys(self, started: ImportedProgram, expand: bool) -> Optional[Dict[str, object]]:
        """The keys of a program; None where neuronctl sets one of the launcher's options itself."""
        keys: Dict[str, object] = dict(started.container)
        if keys.get("container-runtime") == self.cluster.containers.runtime:
            del keys["container-runtime"]
        if started.launcher is not None:
            keys["launcher"] = started.launcher
            own = {*launchers.load(started.launcher).own_options}
            if own & {option_name(option) for option in started.options}:
                return None
        elif self._starts_several(started):
            keys["launcher"] = "none"
        if started.options:
            keys["launcher-option"] = list(started.options)
        keys["script"] = started.words[0]
        if started.words[1:]:
            keys["args"] = [_argument(word, expand) for word in started.words[1:]]
        return keys

    def _starts_several(self, started: ImportedProgram) -> bool:
        """Whether neuronctl by itself would choose a launcher that starts several processes."""
        program = [Entry("script", started.words[0])]
        if started.words[1:]:
            program.append(Entry("args", [_argument(word, True) for word in started.words[1:]]))
        try:
            return self._planned(self._written(program)).launcher.distributed
        except NeuronctlError:
            return True

    def _as_steps(self, shell: _Shell) -> Optional[List[Entry]]:
        """Several programs one after the other, where each can stand alone."""
        header = self.directives.header
        if {"signal", "input"} & header.options.keys():
            return None
        ends_at_once = self._ends_at_once(shell)
        made: List[Tuple[List[str], object]] = []
        waiting: List[Unit] = []
        for unit in [*shell.rest, None]:
            if unit is not None and (unit.is_remark or self._stands_alone(unit)):
                waiting.append(unit)
                continue
            notes = _remarks(waiting)
            if not all(unit.is_remark for unit in waiting):
                made.append(([], shell_text(_joined(waiting))))
                notes = []
            waiting = []
            if unit is None:
                break
            started = self._started(unit)
            if started is None or started.container or started.words[0] in _PREPARES:
                return None
            made.append(([*notes, *unit.remarks], started))
        starts = [one for _, one in made if isinstance(one, ImportedProgram)]
        launched = any(each.launcher for each in starts)
        if not starts or len(made) < 2 or not (ends_at_once or launched):
            return None
        expand = _refers(shell.environment, starts)
        steps: List[Mapping[str, object]] = []
        for number, (remarks, what) in enumerate(made, 1):
            keys = self._keys(what, expand) if isinstance(what, ImportedProgram) else {"run": what}
            if keys is None:
                return None
            if number < len(made) and not ends_at_once:
                keys["allow-failure"] = True
            steps.append({"": remarks, **keys})
        notes = _remarks([*shell.idle, *waiting])
        return [*self._before(shell, starts, expand), Entry("steps", steps, tuple(notes))]

    def _stands_alone(self, unit: Unit) -> bool:
        if unit.simple is None or re.search(r"\$[?!]", unit.text):
            return False
        return all(command.words and command.words[0] in _ALONE for command in unit.simple)

    def _ends_at_once(self, shell: _Shell) -> bool:
        """Whether ``set -e`` holds when the programs start."""
        text = "\n".join([*self.prelude, _joined(shell.setup)])
        calls = [command.arguments for command in read_shell(text).calls("set")]
        signs = [
            word[0]
            for words in calls
            for word, after in zip(words, [*words[1:], None])
            if word
            and (re.fullmatch("[-+][a-z]*e[a-z]*", word) or (word[1:], after) == ("o", "errexit"))
        ]
        return signs[-1:] == ["-"]

    def _as_text(self, shell: _Shell) -> Optional[List[Entry]]:
        """Shell text behind what activates the software."""
        if not shell.environment:
            return None
        behind = _joined([*shell.setup, *shell.rest])
        expand = _refers(shell.environment, [])
        entries = list(_expanded(shell.environment, expand))
        setup = self._first(by_srun=False)
        if setup:
            entries.append(Entry("setup", _lines("\n".join(setup))))
        if expand:
            entries.append(Entry("expand", True))
        return [*entries, Entry("run", self._body(behind, prelude=False))]


def _used(text: str) -> List[str]:
    """The variables that are used, each as often as it is; in arithmetic, it needs no dollar."""
    found = re.findall(r"\$\{?[#!]?(\w+)", text)
    inside = re.findall(r"\(\(([^)]*)|(?=\[([^\]=]{0,200})[^\]]{0,200}\])", text)
    # One with a dollar is there already.
    return found + re.findall(r"(?<![\w$])\w+", " ".join(" ".join(pair) for pair in inside))


def _is_bad(line: str) -> bool:
    try:
        shell_text(f"x\n{line}")
    except ValueError:
        return True
    return False


def _joined(parts: Sequence[Unit]) -> str:
    return "\n".join(unit.text for unit in parts).strip("\n")


def _lines(text: str) -> str:
    """Lines for setup; one that YAML can read as it stands needs no block."""
    plain = re.fullmatch(r"[\w./$~][\w./$~ =-]*", text.strip())
    return text.strip() if plain else text.strip("\n") + "\n"


def _remarks(parts: Sequence[Unit]) -> List[str]:
    return [remark for unit in parts for remark in unit.remarks]


def _constants(shell: ShellText) -> Dict[str, str]:
    """The variables that are set once, to a text without blanks."""
    return {
        assignment.name: assignment.word.value
        for assignment in shell.assignments
        if assignment.word.value is not None
        and assignment.sure
        and re.fullmatch(r"[\w./:@%+=,-]+", assignment.word.value)
        and len(shell.assigned(assignment.name)) == 1
    }


def _one_word(text: str, shell: ShellText) -> Set[str]:
    """The variables whose values have no blanks, so that they need no quotes."""
    found = {"HOME", "USER", "PWD", "HOSTNAME", *re.findall(r"(?a)\bSLURM_\w+", text)}
    for assignment in shell.assignments:
        plain = re.fullmatch(r"(\"?)[\w./:@%+=,${}-]*\1", assignment.word.raw) and assignment.sure
        if (
            plain
            and found.issuperset(assignment.word.names)
            and len(shell.assigned(assignment.name)) == 1
        ):
            found.add(assignment.name)
    return found


def _of_shebang(header: Header, cluster: Cluster) -> List[str]:
    """The lines that do what the options of the first line do."""
    words = header.shebang.split()[1:]
    flags = "".join(word[1:] for word in words if re.fullmatch("-[a-z]+", word))
    lines = []
    if ("l" in flags or "--login" in words) and not cluster.policy.login_shell:
        lines += [
            "# The script began with a login shell.",
            "[ ! -r /etc/profile ] || . /etc/profile",
            "for file in ~/.bash_profile ~/.bash_login ~/.profile; do",
            '    if [ -r "$file" ]; then . "$file"; break; fi',
            "done",
        ]
    others = "".join(letter for letter in "eux" if letter in flags)
    return [*lines, f"set -{others}"] if others else lines


def _refers(environment: Sequence[Entry], starts: Sequence[ImportedProgram]) -> bool:
    """Whether a value or an argument refers to a variable."""
    env = next((entry.value for entry in environment if entry.key == "env"), {})
    values = list(env.values()) if isinstance(env, Mapping) else []
    return any(
        NAME_BEGINS in text for text in [*values, *(w for each in starts for w in each.words)]
    )


_REFERENCE = re.compile(f"{REFERENCE}(?=(?a:(\\w))?)")


def _argument(word: str, expand: bool) -> str:
    """A word as a job file has it: with ``expand``, ``$NAME`` is a variable and ``$$`` a dollar."""
    if not expand:
        return word
    return _REFERENCE.sub(
        lambda match: f"${{{match[1]}}}" if match[2] else f"${match[1]}", word.replace("$", "$$")
    )


def _expanded(environment: Sequence[Entry], expand: bool) -> List[Entry]:
    made = []
    for entry in environment:
        value = entry.value
        if entry.key == "env" and isinstance(value, Mapping):
            value = {name: _argument(text, expand) for name, text in value.items()}
        made.append(Entry(entry.key, value, entry.above, entry.remark))
    return made
