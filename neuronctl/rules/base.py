"""The types of the rules: a rule, the facts that it may use, and its findings."""

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

    A rule's function makes it; the rule adds its code, its title, and, if the function names none,
    its severity: ``"error"`` (refuses), ``"warning"``, or ``"note"``.

    message: the problem, with the figure and the limit. hint: what to type instead. cited: who sets
    the limit. about: the options of a batch script that have the problem. instead: sbatch's option
    (without dashes) and the only right value for it; None if there are several, or none. word: the
    argument of the program that has the problem, or "". place: where the problem is in a script.
    edits: the only way to fix the script; () if there are several, or none.

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
        """Return True if Slurm itself states the limit."""
        return self.cited.by_slurm

    @property
    def doubtful(self) -> bool:
        """Return True if only the doubt about its source keeps the finding from being an error."""
        return self.rule.severity == ERROR and self.cited.doubtful

    @property
    def row(self) -> Tuple[str, ...]:
        """Return the values of the fields in ROW, which a job's record keeps."""
        return tuple(getattr(self, name) for name in ROW)

    @property
    def refuses(self) -> bool:
        """Return True if the finding refuses the job without --force."""
        return self.severity == ERROR

    @property
    def rule(self) -> Rule:
        """Return the rule that made the finding."""
        return RULES[self.code]

    @property
    def waits(self) -> bool:
        """Return True if the finding only names what the job waits for."""
        return self.has(Trait.WAITS)

    def has(self, trait: Trait) -> bool:
        """Return True if the finding's rule has this trait."""
        return trait in self.rule.traits


ALONE, NO_SIGN = "alone", "no sign"
"""What a program's copies do: each trains everything, or nothing shows that they share the work."""


@dataclass(frozen=True)
class LocalFacts:
    """Facts about the machine and the user that submit a job.

    chdir, program, image, environment, log: why the job's directory, program, and so on cannot be
    used; None if they can, or if that is not known. has_directives: whether the program itself is a
    batch script with ``#SBATCH`` lines.
    """

    user: str = ""
    directory: str = ""
    """The working directory, as an absolute path without links; "" if nothing is known here."""
    config_file: str = "config.yaml"
    """The user's configuration file, which may not exist."""
    chdir: Optional[Finding] = None
    program: Optional[Finding] = None
    not_on_path: Tuple[str, ...] = ()
    """The launcher and the interpreter, if they are not on PATH, which the job inherits."""
    image: Optional[Finding] = None
    environment: Optional[Finding] = None
    log: Optional[Finding] = None
    has_directives: bool = False
    copies: str = ""
    """ALONE, NO_SIGN: what the copies of a Python program do if the launcher starts several by
    default; "" if they may share the work."""
    imports: Tuple[str, ...] = ()
    """The names in a Python program's import lines, in lower case, except Python's own modules."""
    stated_sizes: Tuple[Tuple[str, int], ...] = ()
    """The sizes that a Python program states, such as ("devices", 4)."""
    wandb_line: int = 0
    """The line that calls wandb.init on every rank; 0 without one, or if one process starts."""
    variables: FrozenSet[str] = frozenset()
    """The names of the variables that the job inherits, or that would choose its cluster."""
    of_steps: Tuple[LocalFacts, ...] = ()
    """The facts about each launch of a job with steps, in order."""
    broken_texts: Tuple[Tuple[str, str, SyntaxProblem], ...] = ()
    """The user's shell text that bash cannot read: the step's prefix, its name, the problem."""
    bad_nodes: Mapping[str, NodeFault] = field(default_factory=dict)
    """The nodes on which the user's jobs failed, and how."""
    quotas: Tuple[Quota, ...] = ()
    """The quotas of the directories that the job writes to, as far as they are known."""


@dataclass(frozen=True)
class SlurmFacts:
    """Names from Slurm's configuration, for hints.

    default_partition: "" if there is none. accounts, qos: those that the user may use for the job.
    qos_for_time: the QOS among them that allow the job's time limit.
    """

    default_partition: str = ""
    accounts: Tuple[str, ...] = ()
    qos: Tuple[str, ...] = ()
    qos_for_time: Tuple[str, ...] = ()


@dataclass(frozen=True)
class RuleContext:
    """The job that the rules judge: its plan, the catalog of the plan, and the user's machine.

    reviewed: whether the script is only shown (``generate``): rules about this machine then warn
    instead of refusing, as the script may be meant for another. slurm: None if Slurm was not asked
    or did not answer. sources: who states each figure that comes from Slurm, not from the catalog;
    the key is its path in the catalog, below the cluster. batch_script: whether the job is a user's
    batch script: rules about what neuronctl starts are left out, and hints are about ``#SBATCH``
    lines. comment_parts: what a corrected comment contains, such as ``{"field": "nlp"}``.
    launch_index: the position in the plan of the launch that a rule for steps judges.
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

    def split(self, rule: Rule) -> Iterator[Tuple[str, RuleContext]]:
        """Yield what a rule judges, the job or each step, and the prefix of its messages.

        Yield nothing if the rule is not about batch scripts, and the job is one.
        """
        if self.batch_script and rule.about is None:
            return
        if not self.plan.steps or Trait.STEP not in rule.traits:
            yield "", self
            return
        for index, launch in enumerate(self.plan.launches):
            local = self.local.of_steps[index] if self.local.of_steps else LocalFacts()
            yield launch.prefix, replace(self, launch_index=index, local=local)

    def cite(self, *path: str) -> Citation:
        """Return who states a value of the cluster: Slurm, or a line of the catalog's file."""
        if path in self.sources:
            return self.sources[path]
        return self.catalog.cite(self.plan.cluster.name, *path)

    def cite_partition(self, key: str) -> Citation:
        """Return who states a value of the job's partition, or a smaller one of its QOS."""
        of_partition = ("partitions", self.plan.partition.name, key)
        qos = self.limiting_qos(key)
        if of_partition in self.sources or not qos:
            return self.cite(*of_partition)
        return self.cite("qos", qos, key)

    def limiting_qos(self, key: str) -> str:
        """Return the QOS whose limit counts in the job's partition, or ""."""
        partition = self.plan.partition
        source = self.sources.get(("partitions", partition.name, key))
        if source is not None:  # "sacctmgr show qos NAME, DATE" if a QOS sets the limit
            _, _, name_and_date = source.text.partition("sacctmgr show qos ")
            return name_and_date.partition(",")[0]
        qos = self.plan.cluster.qos_named(self.plan.request.qos)
        limit = getattr(qos, key, None)
        in_force = getattr(partition, key)
        if limit is not None and key == "wall_time":
            limit, in_force = limit.maximum, in_force.maximum
        return qos.name if qos is not None and limit is not None and limit == in_force else ""


class Trait(Flag):
    """A property of a rule, which its docstring calls "it"."""

    NONE = 0
    STEP = auto()
    """It judges each step of a job."""
    LAUNCH = auto()
    """It also judges a launch inside an allocation."""
    MACHINE = auto()
    """It is about this machine: it only warns if the script may be meant for another."""
    ONLY_NOW = auto()
    """It is about this user and this hour: it judges a script only while that is submitted."""
    FIRST = auto()
    """Its findings come first: if there is one, the others matter less."""
    WAITS = auto()
    """It refuses nothing: it names what the job waits for."""
    PARTITION = auto()
    """Its problem may not exist in another partition, or with another QOS."""
    CLOSES_PARTITION = 1 << 7 | PARTITION
    """It finds that no job of any size may run in the partition."""
    NO_PARTITION = 1 << 8 | CLOSES_PARTITION
    """It finds that the partition does not exist. If that is doubtful, the script may be for
    another cluster."""
    ABSENCE = 1 << 9
    """It reports what a script lacks, and is left out if a part of the script was not read."""
    UNREACHED = 1 << 10
    """It also judges lines that bash never reaches, which sbatch or other people read."""
    SECRET = 1 << 11
    """It finds secrets: nothing may show the place of a finding."""
    REWRITES = 1 << 12
    """Its problem is one that ``neuronctl init`` can solve by changing the program."""
    SPELLING = 1 << 13
    """It finds misspelled values of options, which other rules then do not judge."""


@dataclass(frozen=True)
class Rule:
    """The name and the properties of a rule; docs/reference explains what it finds.

    severity: ``"error"`` refuses the job, ``"warning"`` is only reported, ``"note"`` is advice that
    the user may have ignored on purpose. about: the options that a finding underlines in a batch
    script; None if the rule is about what neuronctl starts, and so not about scripts.
    """

    code: str
    severity: str
    title: str
    traits: Trait = Trait.NONE
    about: Optional[Tuple[str, ...]] = None

    def complete(self, finding: Finding, prefix: str = "", *, reviewed: bool = False) -> Finding:
        """Return a finding of the rule's function with its code, title, and severity.

        prefix: of messages about a step. reviewed: as of RuleContext.
        """
        severity = finding.severity or self.severity
        would_refuse = severity == self.severity == ERROR
        may_be_elsewhere = reviewed and Trait.MACHINE in self.traits
        if (would_refuse and finding.cited.doubtful) or may_be_elsewhere:
            severity = WARNING
        return replace(
            finding,
            code=self.code,
            severity=severity,
            title=self.title,
            message=prefix + finding.message,
            about=finding.about or self.about or (),
        )


RULES: Dict[str, Rule] = {}
"""The rules of all modules that are imported, by code."""

_MOST_FINDINGS = 1_000
"""The most findings of one rule that are reported."""

Subject = TypeVar("Subject")
Judge = Callable[[Subject], Iterator[Finding]]
"""A rule's function: yields a finding for each problem of its subject."""


class Registry(Generic[Subject]):
    """The functions of all rules that judge one type of subject, by code."""

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
        """Return a decorator that registers a function as the rule with this code.

        The arguments are the fields of Rule. about: separated by blanks.
        """
        if code in RULES or code not in CODES:
            raise ValueError(f"{code} is declared twice, or is not in rule_codes")
        options = None if about is None else tuple(about.split())
        RULES[code] = Rule(code, severity, title, traits, options)
        # setdefault() stores the function and returns it.
        return lambda judge: self.judges.setdefault(code, judge)

    def judge(
        self, code: str, subject: Subject, prefix: str = "", *, reviewed: bool = False
    ) -> Iterator[Finding]:
        """Yield the findings of one rule. prefix, reviewed: as for Rule.complete()."""
        for finding in islice(self.judges[code](subject), _MOST_FINDINGS):
            yield RULES[code].complete(finding, prefix, reviewed=reviewed)


JOB_RULES: Registry[RuleContext] = Registry()
job_rule = JOB_RULES.rule


def nearest(word: str, known: Tuple[str, ...]) -> Tuple[str, ...]:
    """Return up to three of the known words, those closest to ``word``, best first."""
    import difflib

    return tuple(difflib.get_close_matches(word.lower(), known, cutoff=0.5))
