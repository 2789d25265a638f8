"""From the text of somebody's batch script to all that is known against it."""

from __future__ import annotations

import os
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Callable, FrozenSet, Iterable, Mapping, Optional, Sequence, Tuple

from neuronctl.batchscript.as_request import as_request, job_variables, modules
from neuronctl.batchscript.edits import edited
from neuronctl.batchscript.header import read_command, read_header
from neuronctl.batchscript.model import Header
from neuronctl.batchscript.script_file import beginning, is_too_long, read_file
from neuronctl.batchscript.shell_text import ShellText, read_shell
from neuronctl.catalog.local_cluster import local_cluster
from neuronctl.catalog.model import Catalog, Cluster
from neuronctl.errors import NeuronctlError, UsageError
from neuronctl.frozen import dataclass, field, replace
from neuronctl.gate.local_facts import gather_local_facts
from neuronctl.planning import JobPlan, plan
from neuronctl.request.job import JobRequest
from neuronctl.rules import Finding, RuleContext, apply_rules
from neuronctl.rules.script import SIZE, ScriptFinding, check_script
from neuronctl.rules.script_base import ScriptFacts
from neuronctl.sbatch_options import SALLOC, SBATCH, SRUN, is_of_a_plugin

if TYPE_CHECKING:
    from neuronctl.batchscript.bash_syntax import SyntaxProblem
    from neuronctl.forecast.snapshot import Snapshot
    from neuronctl.gate.ask import AskedOnce
    from neuronctl.gate.judgement import Judgement
    from neuronctl.gate.verdict import Verdict


@dataclass(frozen=True)
class JudgedScript:
    """One script and what was found. name: the file's, ``<stdin>`` for standard input.

    plan: what its directives ask for, None where it is not judged as a job. verdict: what would
    happen to it now, None where Slurm was not asked. facts: as it was read; None for a command
    line.
    """

    name: str
    text: str
    findings: Tuple[ScriptFinding, ...]
    plan: Optional[JobPlan] = None
    verdict: Optional[Verdict] = None
    facts: Optional[ScriptFacts] = None

    @property
    def has_errors(self) -> bool:
        """Whether something in it cannot work."""
        return any(one.finding.refuses for one in self.findings)

    @property
    def mends(self) -> Tuple[ScriptFinding, ...]:
        """The findings that have exactly one right answer."""
        return tuple(one for one in self.findings if one.edits)

    def line(self, number: int) -> str:
        """The text of a line."""
        known = 0 < number <= len(self._lines)
        return self._lines[number - 1].rstrip("\r") if known else ""

    @cached_property
    def _lines(self) -> Sequence[str]:
        return self.text.split("\n")


def judge_text(
    name: str,
    text: str,
    catalog: Catalog,
    cluster: Cluster,
    *,
    asked: Optional[AskedOnce] = None,
    command_line: Optional[Sequence[str]] = None,
    comment_parts: Mapping[str, str] = {},
) -> JudgedScript:
    """Check a script for a cluster, by what the Slurm of this machine says where there is one.

    asked: what it has said of the scripts before this one. command_line: options of sbatch's; None
    where it is not known. A script without any option is then not judged as a job: its options are
    on that command line. comment_parts: what its comment is to say where it is wrong, such as
    {"field": "nlp"}.
    """
    header = read_header(text, environment=os.environ, command_line=command_line or ())
    known = bool(header.given) or command_line is not None
    asking = _Asking(catalog, cluster, True, asked, comment_parts=comment_parts)
    return _checked(name, text, header, asking, known=known)


def check_submission(
    name: str,
    text: str,
    header: Header,
    request: Optional[JobRequest],
    catalog: Catalog,
    cluster: Cluster,
    *,
    now: bool,
    fresh: bool = False,
    said: Optional[Snapshot] = None,
) -> JudgedScript:
    """Check a script that is about to be submitted.

    header, request: of the script with the command line that submits it; without a request it is
    not judged as a job. now: judge it with Slurm's current answers and every rule, those about this
    user and machine included; otherwise by the catalog alone. fresh: read Slurm's limits anew.
    said: what Slurm has said a moment ago.
    """
    asking = _Asking(catalog, cluster, now, None, now=now, fresh=fresh, said=said)
    return _checked(name, text, header, asking, known=request is not None, request=request)


@dataclass(frozen=True)
class _Asking:
    """By what scripts are judged. now: as they are submitted, by all that Slurm says."""

    catalog: Catalog
    cluster: Cluster
    ask_slurm: bool
    asked: Optional[AskedOnce]
    now: bool = False
    fresh: bool = False
    said: Optional[Snapshot] = None
    comment_parts: Mapping[str, str] = field(default_factory=dict)


def _checked(
    name: str,
    text: str,
    header: Header,
    asking: _Asking,
    *,
    known: bool = True,
    request: Optional[JobRequest] = None,
) -> JudgedScript:
    text = "" if is_too_long(text) else text
    text_read = beginning(text.replace("\r\n", "\n"))
    for_grammar = _for_grammar(text_read, header)
    shell = read_shell(for_grammar, job_variables(header))
    ends = [header.left_out] if header.left_out else []
    if for_grammar != text_read and not header.for_bash:
        ends.append(for_grammar.count("\n") + 1)
    left_out = min(ends, default=0)
    known = known and not (left_out and left_out < header.first_command)
    judged: Sequence[Finding] = ()
    made: Optional[JobPlan] = None
    assessed: Optional[Judgement] = None
    if known and not header.foreign and header.components == 1 and "\0" not in text:
        if request is None:
            request = as_request(header, name, asking.cluster, shell)
        else:
            request = replace(request, modules=modules(shell))
        made, judged, assessed = _judged(request, asking)
    if header.unread & SIZE:
        made = None
    broken = _unreadable(text_read, header, shell)
    options = _known_options(header) if asking.ask_slurm else frozenset()
    facts = ScriptFacts(text_read, header, shell, made, broken, options, left_out)
    found = check_script(facts, judged, now=asking.now)
    verdict = None
    if assessed is not None and asking.now:
        # Only what holds for the script stands against it.
        held = [one.finding for one in found]
        refusals = tuple(one for one in held if one.refuses)
        warnings = tuple(one for one in held if not one.refuses and not one.rule.waits)
        verdict = replace(assessed, refusals=refusals, warnings=warnings).verdict
    return JudgedScript(name, text, found, made, verdict, facts)


def _known_options(header: Header) -> FrozenSet[str]:
    """The options of this machine's sbatch; it is asked only where one may be a plugin's."""
    if local_cluster() is None or not any(is_of_a_plugin(one.name) for one in header.given):
        return frozenset()
    from neuronctl.slurm.sbatch import known_options

    return known_options()


_LONG = 10_000
"""Characters of a script of which bash is asked first."""


def _for_grammar(text: str, header: Header) -> str:
    """What the grammar reads: a long text that bash cannot read would take it minutes."""
    if len(text) <= _LONG:
        return text
    if not header.for_bash:
        return text[: text.rfind("\n", 0, _LONG) + 1]
    found = _bash_says(text, header.left_out)
    lines = text.split("\n")
    return text if found is None or found.warning else "\n".join(lines[: found.place.line - 1])


def _bash_says(text: str, left_out: int = 0) -> Optional[SyntaxProblem]:
    """What bash cannot read of a text, but for the end of one from which lines are left out."""
    from neuronctl.batchscript.bash_syntax import syntax_problem  # here: few scripts need it

    found = syntax_problem(text)
    return None if found is not None and left_out and found.at_end else found


def _unreadable(text: str, header: Header, shell: ShellText) -> Optional[SyntaxProblem]:
    """What bash cannot read of a script.

    bash is asked only where the grammar has its doubts, or may have missed that nothing ends a
    here-document.
    """
    doubtful = shell.broken is not None or "<<" in text or len(text) > _LONG
    if not doubtful or not header.for_bash or "\0" in text:
        return None
    found = _bash_says(text, header.left_out)
    if found is None:
        return None
    for one in shell.commands:  # bash does not read what stands behind the end
        ends = one.name == "exit" or (one.name == "exec" and len(one.words) > 1)
        if ends and one.sure and one.place.line < found.place.line:
            read = text.split("\n")[: one.place.line]
            return None if _bash_says("\n".join(read)) is None else found
    return found


def mended(script: JudgedScript, check: Callable[[str], JudgedScript]) -> JudgedScript:
    """The script with all its mends. check: what judge_text() finds in another text of the file."""
    for _ in range(_MOST_ROUNDS):
        text = edited(script.text, [edit for one in script.mends for edit in one.edits])
        if text == script.text:
            break
        script = check(text)
    return script


_MOST_ROUNDS = 20
"""More than there are kinds of mends, one of which may show another."""

_COMMANDS = {"salloc": SALLOC, "srun": SRUN}


def judge_line(line: str, catalog: Catalog, cluster: Cluster) -> JudgedScript:
    """Check a command line of salloc, srun or sbatch; of sbatch's, the script with these options.

    Raises UsageError for any other line, and where the script cannot be read.
    """
    commands = [command for command in read_shell(line).commands if not command.captured]
    name = commands[0].name if commands else ""
    if name not in ("sbatch", *_COMMANDS):
        raise UsageError(
            f"--line: '{name or line}' is not salloc, srun or sbatch",
            "quote the whole command: --line 'salloc -p gpu -N 1'",
        )
    words = [
        (word.raw if word.value is None else word.value, word.place)
        for word in commands[0].words[1:]
    ]
    header, end = read_command(words, _COMMANDS.get(name, SBATCH))
    if name == "sbatch" and end < len(words) and not header.refusals:
        file = words[end][0]
        try:
            text = read_file(file)
        except OSError as error:
            raise UsageError(f"cannot read '{file}': {error.strerror}") from None
        options = [text for text, _ in words[:end]]
        return judge_text(file, text, catalog, cluster, command_line=options)
    judged: Sequence[Finding] = ()
    made: Optional[JobPlan] = None
    if not header.refusals:
        asking = _Asking(catalog, cluster, True, None)
        request = as_request(header, name, cluster)
        made, judged, _ = _judged(request, asking, interactive=name != "sbatch")
    facts = ScriptFacts(line, header, ShellText((), (), None, frozenset()), made)
    return JudgedScript("command line", line, check_script(facts, judged))


_MOST_PARTITIONS = 100
"""Of those that a script names, so many are looked at."""

_Judged = Tuple[Optional[JobPlan], Sequence[Finding], "Optional[Judgement]"]


def _judged(request: JobRequest, asking: _Asking, *, interactive: bool = False) -> _Judged:
    """The plan, and what the rules have against it: of several partitions, in the best one."""
    named = dict.fromkeys((request.partition or "").split(","))
    partitions: Iterable[str] = islice(named, _MOST_PARTITIONS)
    if asking.now:
        partitions = (request.partition or "",)
    best: _Judged = (None, (), None)
    least = None
    for partition in partitions:
        one = replace(request, partition=partition or None)
        try:
            judged = _judge_one(one, asking, interactive)
        except NeuronctlError:
            continue  # what cannot be planned, such as a name with a control character
        count = sum(1 for finding in judged[1] if finding.refuses)
        if least is None or count < least:
            best, least = judged, count
    return best


def _judge_one(request: JobRequest, asking: _Asking, interactive: bool) -> _Judged:
    made = plan(request, asking.cluster, interactive=interactive)
    context = RuleContext(
        *(made, asking.catalog, gather_local_facts(made)),
        of_script=True,
        comment_parts=asking.comment_parts,
    )
    here = local_cluster() if asking.ask_slurm else None
    if here is None and not asking.now:
        if _logs_elsewhere(made):
            context = replace(context, local=replace(context.local, log=None))
        return made, apply_rules(replace(context, reviewed=True)), None
    from neuronctl.gate.judgement import judge_now

    judgement = judge_now(context, fresh=asking.fresh, asked=asking.asked, said=asking.said)
    return made, judgement.findings, judgement


def _logs_elsewhere(made: JobPlan) -> bool:
    """Whether its logs are on a file system that this machine, without a Slurm, does not have."""
    paths = [path for path in (made.output, made.error) if path and path.startswith("/")]
    return any(not os.path.isdir(os.path.join("/", path.split("/")[1])) for path in paths)
