"""The shell part of a script as keys of a job file: software, variables, and one program."""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Tuple

from neuronctl.common.frozen import dataclass
from neuronctl.common.shell import BASHS_OWN
from neuronctl.common.yamlfile.writer import Entry
from neuronctl.launch.launcher_calls import called
from neuronctl.launch.launchers import every
from neuronctl.request.job import JobRequest
from neuronctl.request.sbatch_options import SRUN, GetoptError, getopt
from neuronctl.scripts.bash_grammar import syntax_tree, text_of
from neuronctl.scripts.shell_text import Assignment, Command, ShellText
from neuronctl.scripts.usual_commands import LOOKS_OR_PREPARES

_MODULE = re.compile(r"(?a)\w[\w./+@:-]*")
_CONDA_HOOK = re.compile(
    r"""eval\s+"?\$\(\s*(?:\S*/)?conda\s+shell\.(?:bash|posix)\s+hook[^)]*\)"?"""
    r"""|(?:source|\.)\s+"?\$\(\s*conda\s+info\s+--base\s*\)"?/etc/profile\.d/conda\.sh"?"""
)
"""What neuronctl itself does before it activates a conda environment."""

_CORES_OF_THE_JOB = ["srun", '--cpus-per-task="$SLURM_CPUS_PER_TASK"']
"""What check makes of srun, and neuronctl itself writes."""

_SIMPLE = ("command", "declaration_command", "variable_assignment", "variable_assignments")


@dataclass(frozen=True)
class _Statement:
    """Whole lines with statements; simple: only one command, or variables that are set."""

    text: str
    commands: Tuple[Command, ...]
    assignments: Tuple[Assignment, ...]
    simple: bool


def program_entries(body: str, shell: ShellText, asked: JobRequest) -> Optional[List[Entry]]:
    """Return the keys of a script that prepares and then starts one program; None for others.

    shell: the body as read_shell reads it.
    """
    statements, comments = _statements(body, shell)
    if not statements or shell.calls("trap", "wait", "exec"):
        return None
    *before, last = statements
    launch = _launch(last, shell, asked)
    if launch is None or not all(map(_prepares, before)):
        return None
    software = _Software()
    setup: List[str] = []
    for statement in before:
        if setup or not software.take(statement):
            setup.append(statement.text)
    entries = software.entries()
    if setup:
        entries.append(Entry("setup", "\n".join(setup) + "\n"))
    head, *others = launch.items()
    return [*entries, Entry(*head, above=comments), *(Entry(*each) for each in others)]


def _statements(body: str, shell: ShellText) -> Tuple[List[_Statement], Tuple[str, ...]]:
    """Return the statements of shell text in whole lines, and the comments between them."""
    lines = body.split("\n")
    spans: List[Tuple[int, int, bool]] = []
    comments: List[str] = []
    for node in syntax_tree(body).children:
        first, last = node.start_point[0], node.end_point[0] - (node.end_point[1] == 0)
        if node.type == "comment" and not text_of(node).startswith("#SBATCH"):
            comments.append(text_of(node)[1:].strip())
        if node.type in ("comment", "\n"):
            continue
        plain = not any("redirect" in child.type for child in node.children)
        if spans and first <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(last, spans[-1][1]), False)
        else:
            spans.append((first, last, node.type in _SIMPLE and plain))
    statements = [
        _Statement(
            "\n".join(lines[first : last + 1]),
            tuple(each for each in shell.commands if first < each.place.line <= last + 1),
            tuple(each for each in shell.assignments if first < each.place.line <= last + 1),
            simple,
        )
        for first, last, simple in spans
    ]
    return statements, tuple(comments)


def _prepares(statement: _Statement) -> bool:
    """Return True if a statement does none of the job's work."""
    names = {command.name for command in statement.commands if not command.captured}
    apart = any(command.background or command.looped for command in statement.commands)
    return names <= LOOKS_OR_PREPARES - {"sbatch", "exit"} and not apart


class _Software:
    """What the lines at the beginning activate and export, in the order of a job file."""

    def __init__(self) -> None:
        self.modules: List[str] = []
        self.environment: List[Tuple[str, str]] = []
        self.variables: Dict[str, object] = {}

    def take(self, statement: _Statement) -> bool:
        """Take what a statement activates or exports; False if it does more, or too late."""
        if _CONDA_HOOK.fullmatch(statement.text.strip()):
            return not self.environment and not self.variables
        if not statement.simple:
            return False
        if statement.assignments:
            return self._take_exports(statement)
        words = [word.value for word in statement.commands[0].words] if statement.commands else []
        plain = [word for word in words if word is not None]
        if len(plain) < 2 or len(plain) < len(words) or self.variables:
            return False
        return self._take_activation(plain)

    def _take_activation(self, words: List[str]) -> bool:
        if words[0] == "ml":
            load = [] if words[1] in ("purge", "load") else ["load"]
            words = ["module", *load, *words[1:]]
        if words == ["module", "purge"] and not (self.modules or self.environment):
            return True  # neuronctl does so, too
        if words[:2] in (["module", "load"], ["module", "add"]) and not self.environment:
            self.modules += words[2:]
            return bool(words[2:]) and all(map(_MODULE.fullmatch, words[2:]))
        if self.environment:
            return False
        if words[:2] in (["conda", "activate"], ["source", "activate"]) and len(words) == 3:
            self.environment.append(("conda", words[2]))
            return True
        folder = words[1][: -len("/bin/activate")]
        if words[0] in ("source", ".") and words[1] == f"{folder}/bin/activate" and folder:
            self.environment.append(("venv", folder))
            return True
        return False

    def _take_exports(self, statement: _Statement) -> bool:
        """Take ``export NAME=VALUE`` whose value is plain text."""
        names = [variable.name for variable in statement.assignments]
        plain = all(
            variable.exported
            and variable.word.value is not None
            and not re.search(r"[$`~\0]", variable.word.raw)
            and variable.name not in BASHS_OWN
            for variable in statement.assignments
        )
        if not plain or len(set(names)) < len(names) or {*names} & {*self.variables}:
            return False
        self.variables.update({each.name: each.word.value for each in statement.assignments})
        return True

    def entries(self) -> List[Entry]:
        """Return the keys."""
        made = []
        if self.modules:
            made.append(Entry("module", self.modules))
        made += [Entry(name, value) for name, value in self.environment]
        return [*made, Entry("env", self.variables)] if self.variables else made


def _launch(
    statement: _Statement, shell: ShellText, asked: JobRequest
) -> Optional[Dict[str, object]]:
    """Return the keys of the program that a statement starts; None if it stays shell text.

    srun must take the whole allocation; other launchers stay as they are written.
    """
    if not statement.simple or len(statement.commands) != 1 or statement.commands[0].assigned:
        return None
    command = statement.commands[0]
    given = list(command.words)
    if [word.raw for word in given[:2]] == _CORES_OF_THE_JOB:
        del given[1]
    words = [word.value or "" for word in given]
    own = words[:1] and (words[0] in LOOKS_OR_PREPARES or words[0] in shell.functions)
    expanded = any(
        word.value is None or re.search(r"^~|[$`]", word.raw.partition("'")[0]) for word in given
    )
    if not words or own or expanded or "-c" in words or asked.max_nodes is not None:
        return None
    several = max(asked.nodes or 1, asked.ntasks_per_node or 1, asked.gpus_per_node or 0) > 1
    keys: Dict[str, object] = {"launcher": "none"} if several else {}
    if words[0] == "srun":
        if not _takes_all(words, asked):
            return None
        words, keys = words[1 + getopt(words[1:], SRUN)[1] :], {"launcher": "srun"}
    module = words[2:] if words[:2] == ["python", "-m"] else words
    if not words or called(module, every(), akin=False) is not None:
        return None
    if words[0] == "python" and words[1:] and words[1].endswith(".py"):
        words = words[1:]
    elif words[0].endswith(".py") or not re.fullmatch(r"[\w.+/@:-]+", words[0]):
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
        "cpus-per-task": str(asked.cpus_per_task or 1),
        "export": "ALL",
        "kill-on-bad-exit": "1",
    }
    known = bool(asked.cpus_per_task) or not asked.gpus_per_node  # else Slurm chooses the cores
    return known and all(same.get(option.known.name) == option.value for option in parsed)


def uses_arguments(text: str) -> Optional[int]:
    """Return the first line, from 1, that refers to the script's arguments; None if none does."""
    if re.search(r"(?m)^[ \t]*set[ \t]+--", text):
        return None  # it has arguments of its own making
    waiting = [syntax_tree(text)]
    while waiting:
        node = waiting.pop()
        if node.type in ("simple_expansion", "expansion"):
            names = [text_of(child) for child in node.children if child.is_named]
            if names and re.fullmatch("[1-9@*#]", names[0]):
                return node.start_point[0] + 1
        if node.type != "function_definition":
            waiting += reversed(node.children)
    return None
