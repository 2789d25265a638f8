"""The shell part of a script as keys of a job file: software, variables, and one program."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence

from neuronctl.common.shell import BASHS_OWN, sets_errexit
from neuronctl.common.yamlfile.writer import Entry
from neuronctl.launch.launchers import ALL, ONE, LauncherCall, called
from neuronctl.request.job import JobRequest
from neuronctl.scripts.bash_grammar import parsed, text_of
from neuronctl.scripts.shell_text import Assignment, ShellText, ShellWord
from neuronctl.scripts.usual_commands import LOOKS_OR_PREPARES
from neuronctl.slurm.sbatch_options import SRUN, GetoptError, getopt

_MODULE = re.compile(r"(?a)\w[\w./+@:-]*")
_CONDA_HOOK = re.compile(
    r"""eval\s+"?\$\(\s*(?:\S*/)?conda\s+shell\.(?:bash|posix)\s+hook[^)]*\)"?"""
    r"""|(?:source|\.)\s+"?\$\(\s*conda\s+info\s+--base\s*\)"?/etc/profile\.d/conda\.sh"?"""
)
"""What neuronctl itself does before it activates a conda environment."""


def program_entries(body: str, shell: ShellText, asked: JobRequest) -> Optional[List[Entry]]:
    """Return the keys of a script that prepares and then starts one program; None for others.

    shell: the body as read_shell reads it. asked: cpus_per_task is 0 if Slurm chooses the cores.
    """
    *before, last = shell.uncaptured or (None,)
    if last is None or shell.calls("trap", "wait", "exec"):
        return None
    prepares = all(
        each.name in LOOKS_OR_PREPARES - {"sbatch", "exit"} and not (each.background or each.looped)
        for each in before
    )
    lines = body.split("\n")
    first = last.place.line - 1
    behind = [line for line in lines[first:] if not line.startswith("#")]
    plain = last.sure and _is_written("\n".join(behind), last.words)
    launch = _launch(last.words, shell, asked) if prepares and plain else None
    if launch is None:
        return None
    software = _Software([], {}, {}, [])
    taken = 0
    while taken < first and software.take(lines[taken], taken + 1, shell):
        taken += 1
    entries = software.entries()
    setup = "\n".join(lines[taken:first]).strip("\n")
    if setup:
        setup = setup if sets_errexit(setup) else f"set +e\n{setup}"  # as in a script
        entries.append(Entry("setup", f"{setup}\n"))
    head, *others = launch.items()
    first_entry = Entry(*head, above=tuple(software.comments))
    return [*entries, first_entry, *(Entry(*each) for each in others)]


def _is_written(text: str, words: Sequence[ShellWord]) -> bool:
    """Return True if a text has these words, and nothing else."""
    written = " ".join(word.raw for word in words)
    return written.split() == text.replace("\\\n", " ").split() != []


@dataclass(frozen=True)
class _Software:
    """What the lines at the beginning activate and export, in the order of a job file."""

    modules: List[str]
    environment: Dict[str, str]
    variables: Dict[str, object]
    comments: List[str]

    def take(self, line: str, number: int, shell: ShellText) -> bool:
        """Take what a line activates or exports; return False if it does more, or too late."""
        if not line.strip():
            return True
        if line.startswith("#"):
            if not line.startswith("#SBATCH"):
                self.comments.append(line[1:].strip())
            return True
        if _CONDA_HOOK.fullmatch(line.strip()):
            return not self.environment and not self.variables
        exported = [each for each in shell.assignments if each.place.line == number]
        if exported:
            return self._take_export(line, exported[0])
        called = [each for each in shell.commands if each.place.line == number]
        words = [word.value or "" for word in called[0].words] if called else []
        plain = len(called) == 1 and called[0].sure and _is_written(line, called[0].words)
        return plain and all(words) and not self.variables and self._take_activation(words)

    def _take_activation(self, words: List[str]) -> bool:
        if words[0] == "ml" and len(words) > 1:
            words = ["module", *([] if words[1] in ("purge", "load") else ["load"]), *words[1:]]
        if words == ["module", "purge"] and not (self.modules or self.environment):
            return True  # neuronctl does so, too
        if self.environment:
            return False
        if words[:2] in (["module", "load"], ["module", "add"]):
            named = bool(words[2:]) and all(map(_MODULE.fullmatch, words[2:]))
            self.modules.extend(words[2:] if named else ())
            return named
        folder = re.fullmatch("(.+)/bin/activate", words[-1])
        if words[:2] in (["conda", "activate"], ["source", "activate"]) and len(words) == 3:
            self.environment["conda"] = words[2]
        elif words[0] in ("source", ".") and len(words) == 2 and folder:
            self.environment["venv"] = folder[1]
        return bool(self.environment)

    def _take_export(self, line: str, variable: Assignment) -> bool:
        """Take ``export NAME=VALUE`` whose value is plain text."""
        name, word = variable.name, variable.word
        plain = word.known and variable.sure and not re.search(r"[$`~\0]", word.raw)
        own = name in BASHS_OWN or name in self.variables
        if own or not plain or line.split() != f"export {name}={word.raw}".split():
            return False
        self.variables[name] = word.text
        return True

    def entries(self) -> List[Entry]:
        """Return the keys."""
        made = [Entry("module", self.modules)] if self.modules else []
        made += [Entry(name, value) for name, value in self.environment.items()]
        return [*made, Entry("env", self.variables)] if self.variables else made


def _launch(
    given: Sequence[ShellWord], shell: ShellText, asked: JobRequest
) -> Optional[Dict[str, object]]:
    """Return the keys of the program that words start as neuronctl would; None for others."""
    words = [word.value or "" for word in given]
    if words[0] in LOOKS_OR_PREPARES or words[0] in shell.functions or "" in words:
        return None
    several = max(asked.nodes or 1, asked.ntasks_per_node or 1, asked.gpus_per_node or 0) > 1
    in_all = asked.amounts and (asked.amounts.ntasks, asked.amounts.gpus) != (None, None)
    keys: Dict[str, object] = {"launcher": "none"} if several or in_all else {}
    start, python = 0, True
    call = called(words, akin=False)
    if words[0] == "srun":
        if not _takes_all(words, asked):
            return None
        start, keys = 1 + getopt(words[1:], SRUN)[1], {"launcher": "srun"}
    elif call is not None:
        options = _launcher_options(call, words, asked)
        if options is None or call.length is None:
            return None
        start, python = call.length, bool(call.launcher.python)
        keys = {"launcher": call.launcher.name}
        keys.update({"launcher-option": options} if options else {})
    words = words[start:]
    expanded = any(re.search("[$`]", each.raw.partition("'")[0]) for each in given[start:])
    expanded = expanded or any(each.raw.startswith("~") for each in given)
    module = words[2:] if words[:2] == ["python", "-m"] else words
    if not words or expanded or "-c" in words or called(module, akin=False) is not None:
        return None
    if python and words[0] == "python" and words[1:] and words[1].endswith(".py"):
        words = words[1:]
    elif words[0].endswith(".py") is python or not re.fullmatch(r"[\w.+/@:-]+", words[0]):
        return None  # neuronctl would start it with python, whatever its first line says
    keys["script"] = words[0]
    return {**keys, "args": words[1:]} if words[1:] else keys


def _takes_all(words: List[str], asked: JobRequest) -> bool:
    """Return True if an srun starts the tasks of the job, with no option that says otherwise."""
    try:
        parsed, _ = getopt(words[1:], SRUN)
    except GetoptError:
        return False
    nodes, each = asked.nodes or 1, asked.ntasks_per_node or 1
    same = {
        "nodes": str(nodes),
        "ntasks": str(nodes * each),
        "ntasks-per-node": str(each),
        "cpus-per-task": str(asked.cpus_per_task),
        "export": "ALL",
        "kill-on-bad-exit": "1",
    }
    return asked.cpus_per_task != 0 and all(
        same.get(option.known.name) == option.value for option in parsed
    )


def _launcher_options(
    call: LauncherCall, words: Sequence[str], asked: JobRequest
) -> Optional[List[str]]:
    """Return the options that the template leaves to the user; None: it starts other processes."""
    launcher = call.launcher
    own: List[str] = []
    tasks = (asked.nodes or 1) * (asked.ntasks_per_node or 1)
    many = (asked.gpus_per_node or 1) if launcher.starts_processes() else tasks
    count = {ONE: "1", ALL: str(many)}.get(launcher.uncounted, "")
    for option in call.options:
        if option.name in launcher.counts:
            count = option.value
        elif option.name in launcher.nodes and option.value == "1":
            continue
        elif option.name in (*launcher.own_options, *launcher.places, *launcher.chosen_by):
            if option.name != "standalone":
                return None
        else:
            own += option.words
    usual = tuple(words[: len(launcher.programs[0])]) == launcher.programs[0]
    elsewhere = launcher.ssh or (launcher.starts_processes() and tasks > 1)
    left_to_slurm = launcher.by_srun and asked.cpus_per_task == 0
    return own if usual and count == str(many) and not (elsewhere or left_to_slurm) else None


def uses_arguments(text: str) -> Optional[int]:
    """Return the first line, from 1, that refers to the script's arguments; None if none does."""
    if re.search(r"(?m)^[ \t]*set[ \t]+--", text):
        return None  # it has arguments of its own making
    waiting = [parsed(text)[0]]
    while waiting:
        node = waiting.pop()
        if re.match(r"\$(\{?[1-9@*]|#|\{#[}@*1-9])", text_of(node)) and "expansion" in node.type:
            return node.start_point[0] + 1
        if node.type != "function_definition":
            waiting += reversed(node.children)
    return None
