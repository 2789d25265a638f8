"""Somebody's own batch script: read as sbatch reads it, judged, and the record of its job."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Optional, Sequence, Tuple

from neuronctl import units
from neuronctl.batchscript.header import read_header
from neuronctl.batchscript.model import Header
from neuronctl.batchscript.sbatch_line import WRAPPED, SbatchLine, read_line
from neuronctl.batchscript.script_file import read_file
from neuronctl.errors import NeuronctlError, UsageError
from neuronctl.frozen import dataclass, replace
from neuronctl.paths import working_directory
from neuronctl.records.job_record import RecordDraft
from neuronctl.sbatch_options import GetoptError

if TYPE_CHECKING:
    from neuronctl.catalog.model import Catalog, Cluster
    from neuronctl.gate.partition_choice import Choice
    from neuronctl.request.job import JobRequest
    from neuronctl.submission.prepare import PlannedJob, PreparedJob


@dataclass(frozen=True)
class ExistingScript:
    """A batch script and the command line that submits it.

    words: behind ``sbatch``. name: the script's in messages. text: bytes that are not UTF-8 as
    surrogates. path: absolute, "" where the text does not come from a file. seen: what the file
    was like when it was read. header: with the command line and the environment over it.
    """

    words: Tuple[str, ...]
    line: SbatchLine
    name: str
    text: str
    path: str
    seen: Tuple[int, ...]
    header: Header

    @property
    def job_name(self) -> str:
        """The job's name as sbatch settles it."""
        default = "wrap" if self.line.wrap is not None else os.path.basename(self.line.file)
        return self.header.value("job-name") or default or "sbatch"

    @property
    def cluster(self) -> Optional[str]:
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

    def has_changed(self) -> bool:
        """Whether the file is no longer the one that was read."""
        return bool(self.path) and _file_state(self.path) != self.seen

    def with_words(self, *more: str) -> ExistingScript:
        """The same script with more options, over those that it has."""
        line = self.line
        return _own((*line.options, *more, *line.script), self.text, self.path, self.seen)


def read_existing(words: Sequence[str], stdin: Optional[str] = None) -> ExistingScript:
    """Read the script that ``sbatch WORDS`` would submit from here.

    stdin: the text of standard input, which is not read. Raises UsageError where sbatch refuses
    the words, and where the script cannot be read.
    """
    try:
        line = read_line(words)
        if line.wrap is not None:
            return _own(words, WRAPPED.format(line.wrap), "", ())
        if line.reads_stdin:
            return _own(words, stdin or "", "", ())
        path = line.path(working_directory())
        if not path:
            raise FileNotFoundError(f"no file '{line.file}'")
        seen = _file_state(path)
        return _own(words, read_file(path), path, seen)
    except GetoptError as error:
        raise UsageError(f"sbatch does not take these words: {error}") from None
    except OSError as error:
        raise UsageError(f"the batch script cannot be read: {error.strerror or error}") from None


def _own(words: Sequence[str], text: str, path: str, seen: Tuple[int, ...]) -> ExistingScript:
    line = read_line(words)
    header = read_header(text, environment=os.environ, command_line=line.known)
    if line.components > 1:
        header = replace(header, components=line.components)
    name = "--wrap" if line.wrap is not None else "<stdin>" if line.reads_stdin else line.file
    return ExistingScript(tuple(words), line, name, text, path, seen, header)


def _file_state(path: str) -> Tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def judge_script(
    own: ExistingScript,
    catalog: Catalog,
    asked: Optional[str],
    *,
    ask_slurm: bool,
    fresh: bool = False,
    choice: Optional[Choice] = None,
) -> PreparedJob:
    """Judge a script by its own rules and by those of a job; its findings name their lines.

    asked: the catalog's cluster, if it was requested. ask_slurm: as it is submitted here and now.
    fresh: read Slurm's limits anew. choice: of its partition. Raises CatalogError.
    """
    from neuronctl.gate.verdict import NOT_KNOWN, REFUSED, Verdict
    from neuronctl.planning import plan
    from neuronctl.request.job import JobRequest
    from neuronctl.submission.prepare import PreparedJob
    from neuronctl.submission.script_check import check_submission

    cluster, where = cluster_of(own, catalog, asked)
    request = request_of(own, cluster)
    judged = None if where == UNKNOWN else request
    now = ask_slurm and where == HERE
    checked = check_submission(
        own.name,
        own.text,
        own.header,
        judged,
        catalog,
        cluster,
        now=now,
        fresh=fresh,
        said=None if choice is None else choice.said,
    )
    findings = []
    for one in checked.findings:
        line = f"{own.name}:{one.place.line}: " if one.place.line else ""
        findings.append(replace(one.finding, message=line + one.finding.message))
    verdict, made = checked.verdict, checked.plan
    if verdict is None and ask_slurm:
        refused = next((one for one in findings if one.refuses), None)
        verdict = Verdict(NOT_KNOWN, _not_judged(own, where))
        if refused is not None:
            verdict = Verdict(REFUSED, refused.message, refused.code)
    if made is None:
        try:
            made = plan(request, cluster)
        except NeuronctlError:
            made = plan(JobRequest(script=own.name, launcher="srun"), cluster)
    return PreparedJob(made, tuple(findings), verdict, choice)


def _not_judged(own: ExistingScript, where: str) -> str:
    if own.header.components > 1:
        return "the components of a heterogeneous job are not judged together"
    if own.header.foreign:
        return "the directives of another scheduler are not judged"
    if where == UNKNOWN:
        return f"the cluster {own.cluster} is not in the catalog"
    return f"the Slurm of {own.cluster} was not asked" if own.cluster else "it cannot be planned"


HERE, ELSEWHERE, UNKNOWN = "here", "elsewhere", "unknown"


def cluster_of(own: ExistingScript, catalog: Catalog, asked: Optional[str]) -> Tuple[Cluster, str]:
    """The catalog's cluster for the job, and whether it is HERE, ELSEWHERE, or UNKNOWN to it.

    asked: the one that was requested. Raises CatalogError.
    """
    from neuronctl.catalog.local_cluster import is_cluster, local_cluster, recognise

    here = own.cluster in (None, local_cluster())
    if asked is None and not here:
        for cluster in catalog.clusters.values():
            if is_cluster(cluster, own.cluster or ""):
                return cluster, ELSEWHERE
    return recognise(catalog, asked)[0], HERE if here else UNKNOWN if asked is None else ELSEWHERE


def request_of(own: ExistingScript, cluster: Cluster) -> JobRequest:
    """What the script asks for, sbatch's defaults included, each with its line or option."""
    from neuronctl.batchscript.as_request import as_request
    from neuronctl.request.job import JobRequest, Origin, Source

    request = as_request(own.header, own.name, cluster)
    asked = {name: Origin(Source.ASKED, one.where) for name, one in request.origins.items()}
    default = Origin(Source.DERIVED, "Slurm's default")
    return replace(
        request,
        job_name=own.job_name,
        output=own.output,
        chdir=own.chdir if own.header.value("chdir") else None,
        cluster=None,
        origins={name: asked.get(name, default) for name in JobRequest.__annotations__},
    )


def record_draft(
    own: ExistingScript, command_line: Sequence[str], job: Optional[PreparedJob] = None
) -> RecordDraft:
    """The record of the script's job as it is before sbatch.

    command_line: what the user called. job: the script judged; None: not yet, or not at all.
    """
    from neuronctl.records.provenance import read_provenance

    here, header = working_directory(), own.header
    error = header.value("error")
    time_limit = None
    with contextlib.suppress(ValueError):
        time_limit = units.parse_time(header.value("time") or "")
    array = header.value("array")
    try:
        units.check_array(array or "0")
    except ValueError:  # which sbatch refuses too
        array = None
    draft = RecordDraft(
        cwd=own.chdir,
        command_line=tuple(command_line),
        script=own.text,
        request={"script": own.path} if own.path else {},
        job_name=own.job_name,
        partition=header.value("partition") or "",
        output=os.path.join(own.chdir, own.output),
        error=None if error is None else os.path.join(own.chdir, error),
        array=array,
        time_limit=time_limit,
        surroundings=read_provenance(own.path or None, own.chdir),
        submit_dir="" if own.chdir == here else here,
        sbatch=("sbatch", *own.words),
    )
    return draft if job is None else with_judgement(draft, own, job)


def with_judgement(draft: RecordDraft, own: ExistingScript, job: PreparedJob) -> RecordDraft:
    """The draft of a script with what is known of it once it is judged."""
    from neuronctl.request.job import OF_SLURM
    from neuronctl.submission.transaction import of_judged

    known = of_judged(job)
    given = {key: one for key, one in known["request"].items() if key not in ("launcher", "script")}
    known["request"] = {**given, "script": own.path} if own.path else given
    known["decisions"] = tuple(one.row for one in job.plan.decisions if one.name in OF_SLURM)
    return replace(draft, **known)


def with_comment(
    own: ExistingScript,
    catalog: Catalog,
    asked: Optional[str],
    field: Optional[str],
    appl: Optional[str],
) -> ExistingScript:
    """The script with the comment that the site wants made of ``--field`` and ``--appl``."""
    from neuronctl.planning import plan

    if field is None and appl is None:
        return own
    cluster, _ = cluster_of(own, catalog, asked)
    request = request_of(own, cluster)
    made = plan(replace(request, comment=None, field=field, appl=appl), cluster)
    return own if made.comment is None else own.with_words(f"--comment={made.comment}")


def choose_partition(
    own: ExistingScript, catalog: Catalog, asked: Optional[str]
) -> Tuple[ExistingScript, PlannedJob]:
    """The script with the partition where it goes best, and the choice. Raises PolicyError."""
    from neuronctl.gate.local_facts import gather_local_facts
    from neuronctl.gate.partition_choice import choose
    from neuronctl.planning import plan
    from neuronctl.submission.prepare import PlannedJob

    cluster, _ = cluster_of(own, catalog, asked)
    request = replace(request_of(own, cluster), partition="auto")
    local = gather_local_facts(plan(request, cluster))
    choice = choose(request, catalog, cluster, local, interactive=False, ask=True, of_script=True)
    planned = PlannedJob(choice.plan, catalog, choice)
    return own.with_words(f"--partition={choice.plan.partition.name}"), planned
