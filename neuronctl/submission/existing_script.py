"""A user's own batch script, read as sbatch reads it; its job; and the findings about both."""

from __future__ import annotations

import contextlib
import os
import re
import zlib
from functools import partial
from typing import TYPE_CHECKING, Callable, Dict, Mapping, Optional, Sequence, Tuple

from neuronctl.catalog.cluster import Catalog, Cluster
from neuronctl.common import units
from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.errors import NeuronctlError, UsageError
from neuronctl.common.files import write_private
from neuronctl.common.paths import state_dir, working_directory
from neuronctl.judgement.judgement import JudgeBy, Judgement, judge_plan
from neuronctl.judgement.verdict import NOT_KNOWN, REFUSED, Verdict
from neuronctl.planning import JobPlan, plan
from neuronctl.records.job_record import RecordDraft
from neuronctl.request.job import JobRequest, Origin, Source
from neuronctl.rules import Finding
from neuronctl.rules.local_facts import program_text
from neuronctl.rules.scripts import check_script
from neuronctl.rules.scripts.script_facts import ScriptFacts
from neuronctl.scripts.bash_grammar import SyntaxProblem, syntax_problem
from neuronctl.scripts.header import Header, Ignored
from neuronctl.scripts.header_reader import read_header
from neuronctl.scripts.sbatch_line import WRAPPED, SbatchLine, read_line
from neuronctl.scripts.script_file import beginning, edited, is_too_long, read_file
from neuronctl.scripts.script_request import job_variables, modules, request_from_header
from neuronctl.scripts.shell_reader import read_shell
from neuronctl.slurm.conf import local_cluster
from neuronctl.slurm.sbatch_options import GetoptError
from neuronctl.submission.pipeline import JudgedJob

if TYPE_CHECKING:
    from neuronctl.judgement.ask import SharedQuestion
    from neuronctl.judgement.partitions import Choice

_READS = r"""(?x)
    \$\{?[#!]?[@*\#1-9] | \b(?:shift|getopts?|source|eval|BASH_ARG[CV]|select)\b
    | (?:^|[;&|\s])\.\s | \bfor\s+\w+\s*(?:;|do\b|\n)
"""
"""Matches text that may read a script's arguments, or run a file that may."""


@dataclass(frozen=True)
class ExistingJob:
    """The job of a user's batch script, submitted by a command line of the user's.

    line: that command line. script: the text; bytes that are not UTF-8 are surrogates. path: the
    absolute path of the file; "" without a file. header: the options of script, environment, and
    command line. monitor: whether the job is sampled. idle: the time of --idle; "": without it.
    catalog, cluster: what it is judged by. choice: that of -p auto. ask_slurm: ask Slurm, too.
    """

    line: SbatchLine
    script: str
    path: str
    header: Header
    monitor: bool = False
    idle: str = ""
    catalog: Optional[Catalog] = None
    cluster: Optional[Cluster] = None
    choice: Optional[Choice] = None
    ask_slurm: bool = True

    @property
    def name(self) -> str:
        """Return the script's name in messages."""
        if self.line.wrap is not None:
            return "--wrap"
        return "<stdin>" if self.line.reads_stdin else self.line.file

    @property
    def reads_arguments(self) -> bool:
        """Return True if the script may read its arguments; False if its text cannot name them."""
        lines = re.sub(r"(?m)^[ \t]*#.*", "", self.script)
        return not self.header.for_bash or re.search(_READS, lines) is not None

    @property
    def job_name(self) -> str:
        """Return the job's name as sbatch determines it."""
        default = "wrap" if self.line.wrap is not None else os.path.basename(self.line.file)
        return self.header.value("job-name") or default or "sbatch"

    @property
    def slurm_cluster(self) -> Optional[str]:
        """Return the one Slurm cluster of ``--clusters``, in lower case; None: none, or several."""
        clusters = self.header.value("clusters") or "all"
        return None if "," in clusters or clusters == "all" else clusters.lower()

    @property
    def chdir(self) -> str:
        """Return the job's directory; sbatch resolves neither ``..`` nor ``~``."""
        here = working_directory()
        directory = self.header.value("chdir")
        return os.path.join(here, directory) if directory else here

    @property
    def output(self) -> str:
        """Return the pattern of the job's log, by default sbatch's."""
        default = "slurm-%j.out" if self.header.value("array") is None else "slurm-%A_%a.out"
        return self.header.value("output") or default

    def with_options(self, *options: str) -> ExistingJob:
        """Return the job with more sbatch options, which override its own."""
        words = (*self.line.options, *options, *self.line.script)
        again = read_existing(words, self.script, self.script)
        return replace(self, line=again.line, script=again.script, header=again.header)

    @property
    def draft(self) -> RecordDraft:
        """Return the job's record, without what the judgement adds."""
        here = working_directory()
        header = self.header
        error = header.value("error")
        time_limit = None
        with contextlib.suppress(ValueError):  # sbatch refuses such a time
            time_limit = units.parse_time(header.value("time") or "")
        request = {"script": self.path, "monitor": self.monitor, "idle": self.idle}
        return RecordDraft(
            cwd=self.chdir,
            script=self.script,
            request={name: value for name, value in request.items() if value},
            job_name=self.job_name,
            partition=header.value("partition") or "",
            output=os.path.join(self.chdir, self.output),
            error=None if error is None else os.path.join(self.chdir, error),
            array=header.value("array"),
            time_limit=time_limit,
            submit_dir="" if self.chdir == here else here,
            sbatch=("sbatch", *self.line.options, *self.line.script),
        )

    @property
    def request(self) -> JobRequest:
        """Return what the script requests, with sbatch's defaults, and the origin of each value."""
        assert self.cluster is not None
        default = Origin(Source.DERIVED, "Slurm's default")
        request = request_from_header(self.header, self.name, self.cluster)
        return replace(
            request,
            job_name=self.job_name,
            output=self.output,
            chdir=self.chdir if self.header.value("chdir") else None,
            cluster=None,
            origins={**dict.fromkeys(JobRequest.__annotations__, default), **request.origins},
        )

    def judge(self) -> JudgedJob:
        """Judge the job as it is submitted now; the findings name the script's lines.

        If it is for another Slurm cluster than this machine's, only the script is judged.
        """
        assert self.catalog is not None and self.cluster is not None
        is_local = self.slurm_cluster in (None, local_cluster())
        by = JudgeBy(
            self.catalog,
            ask_slurm=self.ask_slurm and is_local,
            snapshot=None if self.choice is None else self.choice.snapshot,
            batch_script=True,
        )
        request = self.request if is_local else None
        judged = judge_script(
            self.name, self.script, self.header, request, self.cluster, by, now=by.ask_slurm
        )
        findings = tuple(map(self._name_line, judged.findings))
        verdict = judged.verdict
        if verdict is None and self.ask_slurm:
            verdict = self._judge_unplanned(findings, is_local=is_local)
        job_plan = judged.plan
        if job_plan is None:  # a plan with the little that is known stands in for it
            partition = self.header.value("partition")  # a heterogeneous job's first one
            unknown = JobRequest(script=self.name, launcher="srun", partition=partition)
            job_plan = plan(unknown, self.cluster)
        return JudgedJob(job_plan, findings, verdict, self.choice, existing_script=True)

    def _name_line(self, finding: Finding) -> Finding:
        """Return the finding with the script's name and its line before the message."""
        if not finding.place.line:
            return finding
        return replace(finding, message=f"{self.name}:{finding.place.line}: {finding.message}")

    def _judge_unplanned(self, findings: Sequence[Finding], *, is_local: bool) -> Verdict:
        """Return the verdict on a script that was not judged as a job."""
        for finding in findings:
            if finding.refuses:
                return Verdict(REFUSED, finding.message, finding.code)
        if not is_local:
            return Verdict(NOT_KNOWN, f"the Slurm of {self.slurm_cluster} was not asked")
        return Verdict(NOT_KNOWN, "no plan could be made of its directives")

    @property
    def variables(self) -> Mapping[str, str]:
        """Return BASH_ENV, whose file starts the sampler; {}: no sampler. Raise UsageError."""
        if not self.monitor and not self.idle:
            return {}
        from neuronctl.rendering.render import render_batch_shell

        before = os.environ.get("BASH_ENV") or None
        idle = units.parse_timeout(self.idle or "0s")
        text = render_batch_shell(before, monitor=self.monitor, idle=idle)
        # Waiting jobs still need the file with which they were submitted.
        name = f"{zlib.crc32(text.encode('utf-8', 'surrogateescape')):08x}.sh"
        path = os.path.join(state_dir(), "samplers", name)
        if not os.path.exists(path):
            try:
                write_private(path, text)
            except OSError as error:
                raise UsageError(f"cannot write {path}: {error}") from None
        return {"BASH_ENV": path}


def read_existing(
    words: Sequence[str], stdin: Optional[str] = None, text: Optional[str] = None
) -> ExistingJob:
    """Read the script that ``sbatch WORDS`` would submit from this directory.

    stdin: the text of standard input, which is not read here. text: the script's, if it was read
    before. Raises UsageError if sbatch would refuse the words, or the script cannot be read.
    """
    try:
        line = read_line(words)
    except GetoptError as error:
        raise UsageError(f"sbatch does not take these words: {error}") from None
    path = ""
    if line.wrap is not None:
        script = WRAPPED.format(line.wrap)
    elif line.reads_stdin:
        script = stdin or ""
    else:
        path = line.path(working_directory())
        if not path:
            raise UsageError(f"the batch script cannot be read: no file '{line.file}'")
        script = read_file(path) if text is None else text
    header = read_header(script, environment=os.environ, command_line=line.known)
    if line.components > 1:
        header = replace(header, components=line.components)
    return ExistingJob(line, script, path, header)


@dataclass(frozen=True)
class JudgedScript:
    """A script and the findings about it. name: the file's; ``<stdin>`` for standard input.

    plan: of the job that its directives request; None if it is not judged as a job. verdict: what
    would happen to the job now; None if Slurm was not asked.
    """

    name: str
    text: str
    findings: Tuple[Finding, ...]
    plan: Optional[JobPlan] = None
    verdict: Optional[Verdict] = None

    @property
    def mends(self) -> Tuple[Finding, ...]:
        """Return the findings that have one correct fix."""
        return tuple(finding for finding in self.findings if finding.edits)

    def line(self, number: int) -> str:
        """Return a line's text; "" if there is no such line."""
        lines = self.text.split("\n")
        return lines[number - 1].rstrip("\r") if 0 < number <= len(lines) else ""


def judge_text(
    name: str,
    text: str,
    catalog: Catalog,
    cluster: Cluster,
    *,
    question: Optional[SharedQuestion] = None,
    comment_parts: Mapping[str, str] = {},
) -> JudgedScript:
    """Judge a script for a cluster, with what this machine's Slurm says if there is one.

    A script without any option is not judged as a job: its options are on a command line. question:
    Slurm's answers for the scripts before this one. comment_parts: as in JudgeBy.
    """
    header = read_header(text, environment=os.environ)
    has_late_options = any(line.reason == Ignored.AFTER_COMMAND for line in header.ignored)
    request = None
    if header.given or (header.shebang and has_late_options):
        request = request_from_header(header, name, cluster)
    here = local_cluster() is not None
    by = JudgeBy(
        catalog, ask_slurm=here, question=question, batch_script=True, comment_parts=comment_parts
    )
    return judge_script(name, text, header, request, cluster, by)


def judge_script(
    name: str,
    text: str,
    header: Header,
    request: Optional[JobRequest],
    cluster: Cluster,
    by: JudgeBy,
    *,
    now: bool = False,
) -> JudgedScript:
    """Judge a script by the rules for scripts and, with a request, by those for jobs.

    header: the options of the script and of the command line that submits it. now: whether it is
    about to be submitted; rules about this user and this hour then apply as well.
    """
    text = "" if is_too_long(text) else text  # sbatch refuses it, and no rule reads it
    facts = _parse_script(text, header)
    judgement: Optional[Judgement] = None
    is_one_job = not header.foreign and header.components == 1 and "\0" not in text
    if request is not None and is_one_job and not header.unread:
        with contextlib.suppress(NeuronctlError):  # such as a name with a control character
            job_plan = plan(replace(request, modules=modules(facts.shell)), cluster)
            facts = replace(facts, plan=job_plan)
            judgement = judge_plan(job_plan, by)
    if judgement is None:
        return JudgedScript(name, text, check_script(facts, (), now=now), facts.plan)
    nodes = judgement.nodes
    if nodes is not None:
        version = nodes.on_cluster.snapshot.figures.config.version
        numbers = re.findall(r"\d+", version)[:2]  # 24 and 05 of 24.05.3
        facts = replace(facts, release=tuple(map(int, numbers)))
    findings = check_script(facts, judgement.findings, now=now)
    # The verdict counts only the findings about the script.
    verdict = judgement.with_rules(findings).verdict if now else None
    return JudgedScript(name, text, findings, facts.plan, verdict)


def _parse_script(text: str, header: Header) -> ScriptFacts:
    """Return a script as bash and our grammar parse it, without a plan."""
    checked = beginning(text.replace("\r\n", "\n"))
    broken = _unreadable(checked, header)
    parsed = checked
    if len(checked) > _LONG and (broken is not None or not header.for_bash):
        parsed = checked[: checked.rfind("\n", 0, _LONG) + 1]
    shell = read_shell(parsed, job_variables(header))
    exits = [call.place.line for call in shell.commands if call.name == "exit" and call.sure]
    # bash does not read beyond an exit.
    is_behind_exit = broken is not None and any(line < broken.place.line for line in exits)
    ends = [header.left_out, shell.left_out]
    if parsed != checked:
        ends.append(parsed.count("\n") + 1)
    return ScriptFacts(
        checked,
        header,
        shell,
        plan=None,
        unreadable=None if is_behind_exit else broken,
        left_out=min(filter(None, ends), default=0),  # the first line that is not read; 0: all are
        read_program=partial(program_text, header.value("chdir") or ""),
    )


def judge_shell_text(job_plan: JobPlan, script: str) -> Tuple[Finding, ...]:
    """Return the findings about the user's shell text in a script that neuronctl has written."""
    places: Dict[str, str] = {}  # by the text of a line
    for launch in job_plan.launches:
        for number, line in enumerate((launch.request.body or "").split("\n"), 1):
            places[line.strip()] = f"{launch.prefix}the shell text, line {number}: "
    header = read_header(script)
    facts = ScriptFacts(script, header, read_shell(script, job_variables(header)), job_plan)
    findings = []
    for finding in check_script(facts, ()):
        place = places.get(facts.lines[finding.place.line - 1].strip())
        if place is not None:
            hint = finding.hint.replace("#SBATCH --", "--")
            findings.append(replace(finding, message=place + finding.message, hint=hint))
    return tuple(findings)


_LONG = 10_000
"""Characters that our grammar reads of a script that bash cannot: more might take minutes."""


def _unreadable(text: str, header: Header) -> Optional[SyntaxProblem]:
    """Return what bash cannot parse in a script; None also if the script is not checked."""
    if not header.for_bash or header.left_out or "\0" in text:
        return None
    return syntax_problem(text)


_MOST_ROUNDS = 20
"""One fix may reveal another: more rounds than there are kinds of fixes."""


def apply_fixes(script: JudgedScript, check: Callable[[str], JudgedScript]) -> JudgedScript:
    """Return the script with all its fixes. check: judges the changed text."""
    for _ in range(_MOST_ROUNDS):
        text = edited(script.text, [edit for mend in script.mends for edit in mend.edits])
        if text == script.text:
            break
        script = check(text)
    return script
