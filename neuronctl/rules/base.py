"""What a rule is, what it may look at, and what it reports."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, FrozenSet, Iterator, Mapping, Optional, Tuple

from neuronctl.catalog.model import Catalog, Citation, Path
from neuronctl.frozen import dataclass, field
from neuronctl.planning import JobPlan
from neuronctl.rule_codes import CODES, ERROR, ROW

if TYPE_CHECKING:
    from neuronctl.forecast.forecast import Forecast
    from neuronctl.forecast.plan_on_cluster import PlanOnCluster

UNCITED = Citation("")
EVERY_SLURM = Citation("Slurm itself, whatever the site allows", by_slurm=True)
"""Of what sbatch refuses on every cluster."""


@dataclass(frozen=True)
class Finding:
    """One rule's verdict on a plan.

    code is stable (``NC111``) and documented; severity is ``"error"`` (refuses), ``"warning"`` or
    ``"note"``; message carries the figure and the limit, source who sets the limit (``file:line``,
    the source and its date), hint what to type instead. by_slurm: whether the source is Slurm
    itself. resize: the part of the hint that names a size for the same partition, if only a part
    does. doubtful: it would be an error if Slurm were known to enforce it (catalog.Evidence).
    instead: sbatch's option (without dashes) and the only value of it that mends this; None where
    there is not one. word: the word of the request that it is about, of several.
    """

    code: str
    severity: str
    title: str
    message: str
    source: str = ""
    hint: str = ""
    by_slurm: bool = False
    resize: str = ""
    doubtful: bool = False
    instead: Optional[Tuple[str, str]] = None
    word: str = ""

    @property
    def row(self) -> Tuple[str, ...]:
        """What a record has of it: the values of ROW."""
        return tuple(getattr(self, name) for name in ROW)

    @property
    def refuses(self) -> bool:
        return self.severity == ERROR


@dataclass(frozen=True)
class LocalFacts:
    """Where and by whom a job is to be submitted: what the rules may know of the machine.

    problems: a rule's code -> why the program, image, environment or log file cannot be used, and
    what to do.
    has_directives: whether the program itself is a batch script with ``#SBATCH`` lines.
    """

    user: str = ""
    directory: str = ""
    """The working directory, as an absolute path without symbolic links; "": not known, and so is
    the rest."""
    config_file: str = "config.yaml"
    """The user's configuration file, which may not exist."""
    problems: Mapping[str, Tuple[str, str]] = field(default_factory=dict)
    has_directives: bool = False
    of_script: bool = False
    """Whether the job is somebody's batch script: hints are about its ``#SBATCH`` lines."""
    comment_parts: Mapping[str, str] = field(default_factory=dict)
    """What is to stand in the script's comment where it is wrong: ``{"field": "nlp"}``."""
    needs_ranks: str = ""
    """What in the program's text needs a launcher's variables, which nothing there supplies."""
    uses_several_gpus: bool = False
    """Whether the program's text shows that one process uses several GPUs."""
    imports: Tuple[str, ...] = ()
    """The names in the import lines of a Python program, in lower case, without those of Python's
    own modules."""
    variables: FrozenSet[str] = frozenset()
    """The names of the variables that the job inherits."""
    environment_bytes: int = 0
    """How long the variables are that the job inherits, as ``NAME=VALUE`` words."""
    built_for: Tuple[Tuple[str, str], ...] = ()
    """(what, architecture) of the software whose files can be seen: image, environment."""
    of_steps: Tuple[LocalFacts, ...] = ()
    """What is known of each launch of a job with steps, in order."""
    plugin_options: Tuple[str, ...] = ()
    """Of the request's ``--sbatch`` options unknown to neuronctl, those that sbatch has here."""
    broken_texts: Tuple[str, ...] = ()
    """Which shell text of the user's bash cannot read, where and why."""
    typed_secrets: Tuple[str, ...] = ()
    """The secret variables whose values the command line has, and not the user's shell."""


@dataclass(frozen=True)
class RuleContext:
    """What is judged: a plan, the catalog it was made from, and the machine it is submitted from.

    reviewed is set where the script is only shown (``generate``): what depends on this machine
    then warns instead of refusing, as the script may be meant for another. forecast: what Slurm
    would do with the job, None where it was not asked or did not answer; sources: who says a figure
    that is Slurm's and not the catalog's, by its place below the cluster.
    """

    plan: JobPlan
    catalog: Catalog
    local: LocalFacts = LocalFacts()
    reviewed: bool = False
    forecast: Optional[Forecast] = None
    sources: Mapping[Path, Citation] = field(default_factory=dict)

    @property
    def on_cluster(self) -> Optional[PlanOnCluster]:
        """The plan held against what Slurm said; None where it said nothing."""
        return None if self.forecast is None else self.forecast.on_cluster

    def cite(self, *path: str) -> Citation:
        """Who says a cluster's value: Slurm, or its file and line and its source with the date."""
        if path in self.sources:
            return self.sources[path]
        return self.catalog.cite(self.plan.cluster.name, *path)

    def cite_partition(self, key: str) -> Citation:
        """Who says a value of the job's partition."""
        return self.cite("partitions", self.plan.partition.name, key)


@dataclass(frozen=True)
class Violation:
    """What a rule function yields: the rest of a Finding is the rule's own.

    hint: what to type instead; elsewhere: where else the job fits, which follows the hint.
    severity: only where it differs from the rule's. instead, word: as of Finding.
    """

    message: str
    hint: str = ""
    source: Citation = UNCITED
    severity: Optional[str] = None
    elsewhere: str = ""
    instead: Optional[Tuple[str, str]] = None
    word: str = ""


Judge = Callable[[RuleContext], Iterator[Violation]]

JUDGES: Dict[str, Judge] = {}
"""Code -> the function that yields one Violation for each thing that is wrong."""


def rule(code: str) -> Callable[[Judge], Judge]:
    """Register the function that judges by ``code``."""
    return partial(registered, JUDGES, code)


def registered(judges: Dict[str, Any], code: str, judge: Any) -> Any:
    """Put what judges by ``code`` into a table of such functions."""
    if code in judges or code not in CODES:
        raise ValueError(f"{code} is judged twice, or has no entry in rule_codes")
    judges[code] = judge
    return judge


def nearest(word: str, known: Tuple[str, ...]) -> Tuple[str, ...]:
    """The up to three known words that ``word`` may have been meant for, best first."""
    import difflib

    return tuple(difflib.get_close_matches(word.lower(), known, cutoff=0.5))
