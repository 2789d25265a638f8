"""The stable codes of all rules: what each is called, how grave it is, what it is about.

The rules themselves are functions in ``rules``; a code stands here so that a catalog can name it
(``rules_off``) and so that nobody else keeps lists of them.
"""

from __future__ import annotations

from functools import partial
from typing import Mapping

from neuronctl.frozen import dataclass

ERROR = "error"
WARNING = "warning"
NOTE = "note"

ROW = ("code", "severity", "title", "message", "source", "hint")
"""What records and JSON have of a finding."""


@dataclass(frozen=True)
class RuleCode:
    """One code.

    severity: ``"error"`` refuses the job, ``"warning"`` is only told; ``"note"`` is advice that
    the user may have ignored on purpose.
    """

    code: str
    title: str
    severity: str
    of_partition: bool = False
    """Another partition, or another QOS with it, may not have this against the job."""
    resizable: bool = False
    """Another size of the job mends it."""
    closes_partition: bool = False
    """It stands against a job of any size in that partition."""
    of_launch: bool = False
    """It holds for a launch inside an allocation too."""
    of_step: bool = False
    """Each step of a job is judged by it."""
    waits: bool = False
    """Nothing stands against the job: this says what it waits for."""
    of_limit: bool = False
    """It is about a limit of a user or a group, which Slurm's prediction leaves out."""
    of_nodes: bool = False
    """It stands against the nodes of a partition: Slurm passes over that one if it has others."""
    first: bool = False
    """It is said before all else, which matters less then."""
    by_absence: bool = False
    """It reports what the script lacks; not where a part of the script was not read."""


def _code(severity: str, code: str, title: str, *traits: str) -> RuleCode:
    return RuleCode(code, title, severity, **dict.fromkeys(traits, True))


_error, _warning, _note = (partial(_code, severity) for severity in (ERROR, WARNING, NOTE))

_TABLE = (
    _error("NC101", "partition does not exist", "of_partition", "closes_partition"),
    _error("NC102", "partition is closed to users", "of_partition", "closes_partition"),
    _warning("NC103", "partition is not in the catalog", "of_partition"),
    _error("NC111", "more nodes than the partition has", "of_partition", "resizable"),
    _error("NC112", "more nodes than a job may have", "of_partition", "resizable"),
    _error("NC121", "more GPUs per node than it has", "of_partition", "resizable", "of_nodes"),
    _error("NC122", "GPU partition without GPUs", "of_partition"),
    _error("NC123", "other GPU model", "of_partition", "of_launch", "of_nodes"),
    _error(
        *(
            "NC124",
            "more GPUs than a user or a job may hold",
            "of_partition",
            "resizable",
            "of_limit",
        ),
        "closes_partition",
    ),
    _error("NC125", "not one of the GPU models", "of_partition", "of_nodes"),
    _error("NC131", "more cores than a node has", "of_partition", "resizable", "of_nodes"),
    _error("NC132", "more cores per GPU than the site allows", "of_partition", "resizable"),
    _error("NC133", "more GPUs than cores", "of_partition", "resizable"),
    _error("NC134", "more memory than a node has", "of_partition", "resizable", "of_nodes"),
    _error("NC141", "wall time over the limit", "of_partition", "resizable"),
    _error("NC201", "comment is mandatory"),
    _error("NC202", "comment is not what the site takes"),
    _warning("NC203", "field and appl have no meaning here"),
    _error("NC211", "option is forbidden by the site"),
    _error("NC221", "wrong directory to submit from"),
    _error("NC231", "account is mandatory"),
    _error("NC232", "QOS is mandatory"),
    _error("NC301", "tasks and nodes contradict each other"),
    _error("NC302", "launcher starts its own processes", "of_step"),
    _error("NC303", "several nodes or tasks for one process", "of_step"),
    _warning("NC304", "processes and GPUs differ", "of_step"),
    _error("NC305", "launcher started by a launcher", "of_launch", "of_step"),
    _warning("NC306", "other processes than may be meant", "of_launch", "of_step"),
    _error("NC307", "launcher's option that neuronctl sets itself", "of_launch", "of_step"),
    _error("NC308", "options for a launcher that has none", "of_launch", "of_step"),
    _error("NC309", "range of nodes for a launcher that needs a number", "of_step"),
    _error("NC311", "options exclude each other"),
    _error("NC312", "node list contradicts the request", "of_partition"),
    _error("NC313", "sbatch option that has another of neuronctl's own"),
    _error("NC314", "option that sbatch does not know"),
    _warning("NC321", "signal that does not reach every process", "of_step"),
    _error("NC322", "command too long for horovodrun", "of_step"),
    _error("NC323", "horovodrun in a directory with a blank", "of_step"),
    _error("NC331", "container and environment exclude each other"),
    _error("NC332", "cleanenv takes the ranks from the processes", "of_step"),
    _error("NC333", "container runtime needs srun", "of_step"),
    _warning("NC334", "launch was never run by neuronctl's tests"),
    _warning("NC335", "container options without a container"),
    _warning("NC336", "several modules in one word"),
    _warning("NC337", "cleanenv has no effect with Pyxis"),
    _warning("NC338", "secret that others can read"),
    _warning("NC339", "argument with a dash that is not ASCII's", "of_launch", "of_step"),
    _warning("NC341", "variable that is not replaced", "of_launch"),
    _error("NC342", "variable that cannot be replaced as meant", "of_launch"),
    _error("NC401", "program cannot be run", "of_launch", "of_step", "first"),
    _error("NC402", "program is a batch script itself", "of_launch", "of_step"),
    _error("NC403", "container image cannot be used", "of_launch"),
    _error("NC404", "software of another architecture", "of_partition", "of_launch", "of_nodes"),
    _warning("NC405", "modules of another architecture"),
    _error("NC406", "environment cannot be activated"),
    _error("NC407", "shell text that cannot be read"),
    _warning("NC408", "modules older than the cluster's"),
    _error("NC411", "log file cannot be written"),
    _error("NC412", "directory cannot be entered"),
    _error("NC501", "more jobs than a user may have", "of_partition", "closes_partition"),
    _warning("NC502", "waits for a running job's end", "waits", "of_limit"),
    _warning("NC503", "waits for GPUs a user may hold", "waits", "of_limit"),
    _warning("NC504", "waits for free nodes", "waits"),
    _warning("NC505", "waits for the partition", "waits"),
    _warning("NC506", "waits as asked", "waits"),
    _warning("NC507", "waits for what others hold of a shared limit", "waits", "of_limit"),
    _error("NC508", "more than a whole group may have", "of_partition", "of_limit"),
    _error("NC509", "a size that no job may have", "of_partition", "of_limit"),
    _warning("NC510", "waits for cores, nodes or memory a user may hold", "waits", "of_limit"),
    _error("NC511", "array index over MaxArraySize"),
    _warning("NC512", "dependency on an unknown job"),
    _error("NC513", "no moment to begin at"),
    _error("NC521", "QOS cannot be used"),
    _error("NC522", "account cannot be used"),
    _error(
        "NC523", "partition does not take this account or QOS", "of_partition", "closes_partition"
    ),
    _error("NC524", "too few nodes have the features", "of_partition", "of_nodes"),
    _error("NC525", "excluded nodes", "of_partition", "of_nodes"),
    _error("NC526", "reservation that cannot be used"),
    _error("NC527", "fewer nodes than a job must have", "of_partition"),
    _error("NC528", "partition takes no job from this machine", "of_partition"),
    _error("NC529", "dependency that Slurm refuses"),
    _error("NC530", "licenses that Slurm does not have"),
    _warning("NC531", "waits for licenses", "waits"),
    _error("NC601", "directive that sbatch refuses"),
    _error("NC602", "file that sbatch does not take for a batch script"),
    _warning("NC603", "directive after the first command"),
    _warning("NC604", "line or remark that only looks like a directive"),
    _warning("NC605", "directive that is overridden"),
    _warning("NC606", "variable in a directive"),
    _warning("NC607", "directive without an effect in a script"),
    _warning("NC608", "directives of another scheduler"),
    _warning("NC609", "job of several components"),
    _error("NC610", "unresolved merge"),
    _warning("NC611", "tasks that contradict nodes"),
    _warning("NC612", "time limit in minutes and seconds"),
    _warning("NC613", "--export that loses variables"),
    _warning("NC614", "GPUs hidden from the other tasks"),
    _warning("NC615", "character that only looks like another"),
    _warning("NC616", "GPUs said twice"),
    _error("NC621", "launcher within a launcher"),
    _error("NC622", "step larger than the job"),
    _warning("NC623", "processes and GPUs of a launch differ", "by_absence"),
    _warning("NC624", "program that starts once", "by_absence"),
    _warning("NC625", "GPUs without a process", "by_absence"),
    _note("NC626", "srun without the cores of its tasks"),
    _error("NC631", "rank expanded by the batch shell"),
    _warning("NC632", "fixed port"),
    _warning("NC633", "GPUs chosen by hand"),
    _warning("NC634", "log directory made too late"),
    _warning("NC635", "signal without a trap", "by_absence"),
    _warning("NC636", "trap that waits for the program's end", "by_absence"),
    _warning("NC637", "more threads than cores"),
    _warning("NC638", "conda without its hook"),
    _warning("NC639", "modules without a login shell"),
    _warning("NC640", "secret in the script"),
    _warning("NC641", "set -e ends a trapped wait"),
    _error("NC642", "every node its own first node"),
    _error("NC643", "shell text that cannot be read"),
)

CODES: Mapping[str, RuleCode] = {option.code: option for option in _TABLE}
