"""What a rule is, what it may look at, and what it reports."""

from __future__ import annotations

from enum import Flag, auto
from itertools import islice
from typing import (
    TYPE_CHECKING,
    Callable,
    Dict,
    FrozenSet,
    Generic,
    Iterator,
    Mapping,
    Optional,
    Tuple,
    TypeVar,
)

from neuronctl.catalog.cluster import Catalog, Citation, Path
from neuronctl.common.datatypes import dataclass, field, replace
from neuronctl.common.rule_codes import CODES, ERROR, ROW, WARNING
from neuronctl.planning import JobPlan, Launch
from neuronctl.records.bad_nodes import NodeFault
from neuronctl.scripts.header import NOWHERE, Edit, SourceSpan

if TYPE_CHECKING:
    from neuronctl.rules.quotas import Quota
    from neuronctl.scripts.bash_grammar import SyntaxProblem

UNCITED = Citation("")


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a job, or with a line of a batch script.

    A rule's function gives what only it knows; the rule adds its code, its title, and, unless the
    function names one, its severity: ``"error"`` (refuses), ``"warning"``, or ``"note"``. message
    has the figure and the limit, hint what to type instead, cited who sets the limit. about: the
    options of a batch script that it is about. instead: sbatch's option (without dashes) and the
    only value of it that is right; None if there is not one. word: the word of the request that it
    is about, of several. place, edits: where a script has it, and what fixes it if there is exactly
    one way.

    >>> [finding.code for finding in neuronctl.judge(plan).findings if finding.refuses]
    []
    """

    message: str
    hint: str = ""
    cited: Citation = UNCITED
    severity: str = ""
    about: Tuple[str, ...] = ()
    instead: Optional[Tuple[str, str]] = None
    word: str = ""
    place: SourceSpan = NOWHERE
    edits: Tuple[Edit, ...] = ()
    code: str = ""
    title: str = ""

    @property
    def source(self) -> str:
        """Return who sets the limit: ``file:line``, and the source with its date."""
        return self.cited.text

    @property
    def by_slurm(self) -> bool:
        """Return True if Slurm itself says so."""
        return self.cited.by_slurm

    @property
    def doubtful(self) -> bool:
        """Return True if it would be an error if Slurm were known to enforce it."""
        return self.rule.severity == ERROR and self.cited.doubtful

    @property
    def row(self) -> Tuple[str, ...]:
        """Return what a record has of it: the values of ROW."""
        return tuple(getattr(self, name) for name in ROW)

    @property
    def refuses(self) -> bool:
        """Return True if the finding refuses the job without --force."""
        return self.severity == ERROR

    @property
    def rule(self) -> Rule:
        """Return the rule that found it."""
        return RULES[self.code]

    @property
    def waits(self) -> bool:
        """Return True if the finding only tells what the job waits for."""
        return self.has(Trait.WAITS)

    def has(self, trait: Trait) -> bool:
        """Return True if the finding's rule has this trait."""
        return trait in self.rule.traits


ALONE, NO_SIGN = "alone", "no sign"
"""What the copies of a program do: each trains everything; or nothing shows that they share the
work."""


@dataclass(frozen=True)
class LocalFacts:
    """Where and by whom a job is to be submitted: what the rules may know of the machine.

    chdir, program, image, environment, log: why the job's directory, its program and so on cannot
    be used; None if nothing is known against it. has_directives: whether the program itself is a
    batch script with ``#SBATCH`` lines.
    """

    user: str = ""
    directory: str = ""
    """The working directory, as an absolute path without symbolic links; "": not known, and so is
    the rest."""
    config_file: str = "config.yaml"
    """The user's configuration file, which may not exist."""
    chdir: Optional[Finding] = None
    program: Optional[Finding] = None
    not_on_path: Tuple[str, ...] = ()
    """The launcher and the interpreter, if PATH, which the job inherits, does not lead to them."""
    image: Optional[Finding] = None
    environment: Optional[Finding] = None
    log: Optional[Finding] = None
    has_directives: bool = False
    copies: str = ""
    """What the copies of a Python program do that starts several times by default: ALONE, NO_SIGN,
    or "" if they may share the work."""
    imports: Tuple[str, ...] = ()
    """The names in the import lines of a Python program, in lower case, without those of Python's
    own modules."""
    stated_sizes: Tuple[Tuple[str, int], ...] = ()
    """The sizes of its training that a Python program states, such as ("devices", 4)."""
    wandb_line: int = 0
    """Where the program calls wandb.init on every rank; 0: it does not, or starts one process."""
    variables: FrozenSet[str] = frozenset()
    """The names of the variables that the job inherits, or that would choose its cluster."""
    of_steps: Tuple[LocalFacts, ...] = ()
    """What is known of each launch of a job with steps, in order."""
    broken_texts: Tuple[Tuple[str, str, SyntaxProblem], ...] = ()
    """(step, which text, why) of the user's shell text that bash cannot read."""
    bad_nodes: Mapping[str, NodeFault] = field(default_factory=dict)
    """Those that have failed in the user's jobs, with how."""
    quotas: Tuple[Quota, ...] = ()
    """What is left where the job writes, as far as it is known."""


@dataclass(frozen=True)
class SlurmFacts:
    """What Slurm says that hints name.

    default_partition: "" if there is none. accounts, qos: those that the user may use for the job.
    qos_for_time: those of them that allow its time limit.
    """

    default_partition: str = ""
    accounts: Tuple[str, ...] = ()
    qos: Tuple[str, ...] = ()
    qos_for_time: Tuple[str, ...] = ()


@dataclass(frozen=True)
class RuleContext:
    """What is judged: a plan, the catalog it was made from, and the machine it is submitted from.

    reviewed: True if the script is only shown (``generate``): what depends on this machine
    then warns instead of refusing, as the script may be meant for another. slurm: None if Slurm was
    not asked or did not answer; sources: who says a figure that is Slurm's and not the catalog's,
    by its place below the cluster. batch_script: whether the job is a user's batch script: rules
    on what neuronctl starts do not hold, and hints are about its ``#SBATCH`` lines. comment_parts:
    what its comment is to say if it is wrong, such as ``{"field": "nlp"}``. launch_index: which of
    the plan's launches a rule for steps judges.
    """

    plan: JobPlan
    catalog: Catalog
    local: LocalFacts = LocalFacts()
    reviewed: bool = False
    slurm: Optional[SlurmFacts] = None
    sources: Mapping[Path, Citation] = field(default_factory=dict)
    batch_script: bool = False
    comment_parts: Mapping[str, str] = field(default_factory=dict)
    launch_index: int = 0

    @property
    def launch(self) -> Launch:
        """Return the judged launch."""
        return self.plan.launches[self.launch_index]

    @property
    def rules_off(self) -> Tuple[str, ...]:
        """Return the codes of the rules that the site switched off."""
        return self.plan.cluster.policy.rules_off

    def parts(self, rule: Rule) -> Iterator[Tuple[str, RuleContext]]:
        """Yield the judged job or its steps, each with the beginning of messages about it."""
        if self.batch_script and rule.about is None:
            return
        if not (self.plan.steps and Trait.STEP in rule.traits):
            yield "", self
            return
        facts = iter(self.local.of_steps)
        for index, launch in enumerate(self.plan.launches):
            local = next(facts, LocalFacts())
            yield launch.prefix, replace(self, launch_index=index, local=local)

    def cite(self, *path: str) -> Citation:
        """Return who states a cluster's value: Slurm, or file and line, and its dated source."""
        if path in self.sources:
            return self.sources[path]
        return self.catalog.cite(self.plan.cluster.name, *path)

    def cite_partition(self, key: str) -> Citation:
        """Return who states a value of the job's partition, or a smaller one of its QOS."""
        qos = self.limiting_qos(key)
        if ("partitions", self.plan.partition.name, key) in self.sources:
            qos = ""
        return self.cite(*(("qos", qos) if qos else ("partitions", self.plan.partition.name)), key)

    def limiting_qos(self, key: str) -> str:
        """Return the QOS whose limit counts in the job's partition, or ""."""
        partition = self.plan.partition
        qos = self.plan.cluster.qos_named(self.plan.request.qos)
        source = self.sources.get(("partitions", partition.name, key))
        if source is not None:
            return source.text.partition("sacctmgr show qos ")[2].partition(",")[0]
        if qos is None:
            return ""
        own, in_force = getattr(qos, key, None), getattr(partition, key)
        if own is not None and key == "wall_time":
            own, in_force = own.maximum, in_force.maximum
        return qos.name if own is not None and own == in_force else ""


class Trait(Flag):
    """Properties of a rule."""

    NONE = 0
    STEP = auto()
    """It judges each step of a job."""
    LAUNCH = auto()
    """It holds for a launch inside an allocation, too."""
    MACHINE = auto()
    """It is about this machine: it warns if the script may be meant for another."""
    ONLY_NOW = auto()
    """It judges a script only while it is submitted: it is about this user and this hour."""
    FIRST = auto()
    """It is reported before all others, which matter less then."""
    WAITS = auto()
    """It refuses nothing: it says what the job waits for."""
    PARTITION = auto()
    """Another partition, or another QOS with it, may not have this problem."""
    CLOSES_PARTITION = 1 << 7 | PARTITION
    """No job of any size may run in that partition."""
    NO_PARTITION = 1 << 8 | CLOSES_PARTITION
    """The partition does not exist; if that is doubtful, the script may be for another cluster."""
    ABSENCE = 1 << 9
    """It reports what a script lacks; not if a part of the script was not read."""
    UNREACHED = 1 << 10
    """It also holds for lines that bash never reaches, which sbatch or other people read."""
    SECRET = 1 << 11
    """Its place in the script is a secret, which nothing may show."""
    REWRITES = 1 << 12
    """``neuronctl init`` can change the program so that the rule holds."""
    SPELLING = 1 << 13
    """An option's value is not the one that is meant, so other rules do not judge it."""


@dataclass(frozen=True)
class Rule:
    """What a rule is called, and when it holds; docs/reference explains the rest.

    severity: ``"error"`` refuses the job, ``"warning"`` is only reported; ``"note"`` is advice that
    the user may have ignored on purpose. about: the options of a batch script that it is about,
    which are underlined; None if it does not hold for scripts, being about what neuronctl starts.
    """

    code: str
    severity: str
    title: str
    traits: Trait = Trait.NONE
    about: Optional[Tuple[str, ...]] = None

    def complete(self, finding: Finding, step: str = "", *, reviewed: bool = False) -> Finding:
        """Return a finding of its function with what is the rule's own.

        step: what the messages of the launch begin with.
        """
        severity = finding.severity or self.severity
        doubtful = self.severity == ERROR and finding.cited.doubtful
        softer = severity == ERROR and doubtful
        return replace(
            finding,
            code=self.code,
            severity=WARNING if softer or (reviewed and Trait.MACHINE in self.traits) else severity,
            title=self.title,
            message=step + finding.message,
            about=finding.about or self.about or (),
        )


RULES: Dict[str, Rule] = {}
"""The rules of all modules that are imported, by code."""

_MOST_OF_ONE = 1_000
"""Findings of one rule that are listed."""

Subject = TypeVar("Subject")
Judge = Callable[[Subject], Iterator[Finding]]
"""Yields a finding for each thing that is wrong with what it is given."""


class Registry(Generic[Subject]):
    """The rules that judge one kind of subject, each with its function."""

    def __init__(self) -> None:
        self.judges: Dict[str, Judge[Subject]] = {}

    def rule(
        self,
        severity: str,
        code: str,
        title: str,
        traits: Trait = Trait.NONE,
        *,
        about: Optional[str] = None,
    ) -> Callable[[Judge[Subject]], Judge[Subject]]:
        """Register the rule that the function below is; its findings may come from elsewhere.

        The arguments are those of Rule; about: separated by blanks.
        """
        if code in RULES or code not in CODES:
            raise ValueError(f"{code} is declared twice, or is not in rule_codes")
        options = None if about is None else tuple(about.split())
        RULES[code] = Rule(code, severity, title, traits, options)
        return lambda judge: self.judges.setdefault(code, judge)

    def judge(
        self, code: str, subject: Subject, step: str = "", *, reviewed: bool = False
    ) -> Iterator[Finding]:
        """Yield what one rule finds. step, reviewed: as of Rule.complete()."""
        for finding in islice(self.judges[code](subject), _MOST_OF_ONE):
            yield RULES[code].complete(finding, step, reviewed=reviewed)


JOB_RULES: Registry[RuleContext] = Registry()
job_rule = JOB_RULES.rule


def nearest(word: str, known: Tuple[str, ...]) -> Tuple[str, ...]:
    """Return the up to three known words closest to ``word``, best first."""
    import difflib

    return tuple(difflib.get_close_matches(word.lower(), known, cutoff=0.5))
