"""Somebody's own batch script, read as sbatch reads it, its job, and what is found in both."""

from __future__ import annotations

import contextlib
import os
import re
import zlib
from functools import partial
from typing import TYPE_CHECKING, Callable, Mapping, Optional, Sequence, Tuple

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
from neuronctl.scripts.header import AFTER_COMMAND, Header
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
"""What may read a script's arguments, or another file that may."""


@dataclass(frozen=True)
class ExistingJob:
    """The job of a batch script, which sbatch gets by its own command line, without a key.

    script: its text; bytes that are not UTF-8 as surrogates. path: absolute, "" if the text does
    not come from a file. header: with the command line and the environment over it. monitor:
    whether the job is sampled. idle: how long it may rest before it is ended; "": for ever.
    catalog, cluster: by which it is judged. choice: of its partition. ask_slurm: as of PlannedJob.
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
        """Return the one Slurm cluster that ``--clusters`` names, in lower case, or None."""
        named = self.header.value("clusters")
        return None if named is None or "," in named or named == "all" else named.lower()

    @property
    def chdir(self) -> str:
        """Return the job's directory; sbatch resolves neither ``..`` nor ``~``."""
        here = working_directory()
        directory = self.header.value("chdir")
        return os.path.join(here, directory) if directory else here

    @property
    def output(self) -> str:
        """Return the pattern of its log, by default sbatch's."""
        array = self.header.value("array") is not None
        return self.header.value("output") or ("slurm-%A_%a.out" if array else "slurm-%j.out")

    def with_options(self, *options: str) -> ExistingJob:
        """Return the job with more sbatch options, which override its own."""
        words = (*self.line.options, *options, *self.line.script)
        again = read_existing(words, self.script, self.script)
        return replace(self, line=again.line, script=again.script, header=again.header)

    @property
    def draft(self) -> RecordDraft:
        """Return the job's record as far as it is known before the judgement."""
        here = working_directory()
        header = self.header
        error = header.value("error")
        time_limit = None
        with contextlib.suppress(ValueError):  # sbatch refuses it, too
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
        """Return the script's request, with sbatch's defaults, each with its line or option."""
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
        """Judge it as it is submitted here and now; findings name their lines.

        Of a job for another Slurm cluster than this machine's, the script alone is judged.
        """
        assert self.catalog is not None and self.cluster is not None
        here = self.slurm_cluster in (None, local_cluster())
        by = JudgeBy(
            self.catalog,
            ask_slurm=self.ask_slurm and here,
            snapshot=None if self.choice is None else self.choice.snapshot,
            batch_script=True,
        )
        request = self.request if here else None
        judged = judge_script(
            self.name, self.script, self.header, request, self.cluster, by, now=by.ask_slurm
        )
        findings = tuple(
            replace(one, message=f"{self.name}:{one.place.line}: {one.message}")
            if one.place.line
            else one
            for one in judged.findings
        )

        verdict = judged.verdict
        if verdict is None and self.ask_slurm:
            refusal = next((finding for finding in findings if finding.refuses), None)
            why = "no plan could be made of its directives"
            if not here:
                why = f"the Slurm of {self.slurm_cluster} was not asked"
            verdict = Verdict(NOT_KNOWN, why)
            if refusal is not None:
                verdict = Verdict(REFUSED, refusal.message, refusal.code)

        job_plan = judged.plan
        if job_plan is None:
            first = self.header.value("partition")  # of a heterogeneous job's first component
            request = JobRequest(script=self.name, launcher="srun", partition=first)
            job_plan = plan(request, self.cluster)
        return JudgedJob(job_plan, findings, verdict, self.choice, existing_script=True)

    @property
    def variables(self) -> Mapping[str, str]:
        """Return BASH_ENV, which names the file that starts the sampler; {} without a sampler.

        Raises UsageError if the file that bash reads cannot be written.
        """
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
    return ExistingJob(line, text, path, header)


@dataclass(frozen=True)
class JudgedScript:
    """One script and what was found. name: the file's, ``<stdin>`` for standard input.

    plan: what its directives ask for, None where it is not judged as a job. verdict: what would
    happen to it now, None where Slurm was not asked.
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
        """Return the text of a line."""
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
    """Judge a script for a cluster, by what the Slurm of this machine says where there is one.

    A script without any option is not judged as a job: its options are on a command line. question:
    what Slurm has said of the scripts before this one. comment_parts: as of JudgeBy.
    """
    header = read_header(text, environment=os.environ)
    options_after_commands = header.shebang and any(
        line.reason == AFTER_COMMAND for line in header.ignored
    )
    request = None
    if header.given or options_after_commands:
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
    """Judge a script by a script's own rules and by those of a job.

    header, request: of the script with the command line that submits it; without a request it is
    not judged as a job. now: as it is about to be submitted, by all rules, those about this user
    and this hour included.
    """
    text = "" if is_too_long(text) else text
    checked = beginning(text.replace("\r\n", "\n"))
    broken = _unreadable(checked, header)
    parsed = checked  # by our own grammar
    if len(checked) > _LONG and (broken is not None or not header.for_bash):
        parsed = checked[: checked.rfind("\n", 0, _LONG) + 1]
    shell = read_shell(parsed, job_variables(header))
    ends = [header.left_out, shell.left_out]
    if parsed != checked:
        ends.append(parsed.count("\n") + 1)
    exits = [one.place.line for one in shell.commands if one.name == "exit" and one.sure]
    if broken is not None and min(exits, default=broken.place.line) < broken.place.line:
        broken = None  # bash does not read beyond the end

    job_plan: Optional[JobPlan] = None
    judgement: Optional[Judgement] = None
    one_job = not header.foreign and header.components == 1 and "\0" not in text
    if request is not None and one_job and not header.unread:
        with contextlib.suppress(NeuronctlError):  # such as a name with a control character
            job_plan = plan(replace(request, modules=modules(shell)), cluster)
            judgement = judge_plan(job_plan, by)
    nodes = None if judgement is None else judgement.nodes
    version = "" if nodes is None else nodes.on_cluster.snapshot.figures.config.version

    facts = ScriptFacts(
        checked,
        header,
        shell,
        job_plan,
        broken,
        left_out=min(filter(None, ends), default=0),
        name=name,
        release=tuple(int(number) for number in re.findall(r"\d+", version)[:2]),
        read_program=partial(program_text, header.value("chdir") or ""),
    )
    findings = check_script(facts, () if judgement is None else judgement.findings, now=now)
    # Only findings about the script count.
    verdict = judgement.with_rules(findings).verdict if judgement is not None and now else None
    return JudgedScript(name, text, findings, job_plan, verdict)


def judge_shell_text(job_plan: JobPlan, script: str) -> Tuple[Finding, ...]:
    """Return what the script rules find in the shell text of a job's script."""
    places = {
        line.strip(): f"{launch.prefix}the shell text, line {number}: "
        for launch in job_plan.launches
        for number, line in enumerate((launch.request.body or "").split("\n"), 1)
    }
    header = read_header(script)
    facts = ScriptFacts(script, header, read_shell(script, job_variables(header)), job_plan)
    findings = []
    for finding in check_script(facts, ()):
        where = places.get(facts.lines[finding.place.line - 1].strip())
        if where is not None:
            hint = finding.hint.replace("#SBATCH --", "--")
            findings.append(replace(finding, message=where + finding.message, hint=hint))
    return tuple(findings)


_LONG = 10_000
"""Characters of a script that the grammar reads where bash cannot: more might take it minutes."""


def _unreadable(text: str, header: Header) -> Optional[SyntaxProblem]:
    """Return what bash cannot read in a script; a script with omitted lines is not checked."""
    if not header.for_bash or header.left_out or "\0" in text:
        return None
    return syntax_problem(text)


_MOST_ROUNDS = 20
"""More than there are kinds of mends, one of which may show another."""


def mended(script: JudgedScript, check: Callable[[str], JudgedScript]) -> JudgedScript:
    """Return the script with all its fixes. check: judges another text of the file."""
    for _ in range(_MOST_ROUNDS):
        text = edited(script.text, [edit for mend in script.mends for edit in mend.edits])
        if text == script.text:
            break
        script = check(text)
    return script
