"""The stable codes of all rules: what each is called, how grave it is, what it is about.

The rules themselves are functions in ``rules``; a code stands here so that a catalog can name it
(``rules_off``) and so that nobody else keeps lists of them.
"""

from __future__ import annotations

from typing import Mapping

from neuronctl.frozen import dataclass

ERROR = "error"
WARNING = "warning"
NOTE = "note"


@dataclass(frozen=True)
class RuleCode:
    """One code.

    severity: ``"error"`` refuses the job, ``"warning"`` is only told; ``"note"`` is advice that may
    well have been heard.
    """

    code: str
    title: str
    severity: str = ERROR
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
    """It waits for a limit of a user or a group, which Slurm's prediction leaves out."""


CODES: Mapping[str, RuleCode] = {
    one.code: one
    for one in (
        RuleCode("NC101", "partition does not exist", of_partition=True, closes_partition=True),
        RuleCode("NC102", "partition is closed to users", of_partition=True, closes_partition=True),
        RuleCode("NC103", "partition is not in the catalog", WARNING, of_partition=True),
        RuleCode("NC111", "more nodes than the partition has", of_partition=True, resizable=True),
        RuleCode("NC112", "more nodes than a job may have", of_partition=True, resizable=True),
        RuleCode("NC121", "more GPUs a node than it has", of_partition=True, resizable=True),
        RuleCode("NC122", "GPU partition without GPUs", of_partition=True),
        RuleCode("NC123", "other GPU model", of_partition=True, of_launch=True),
        RuleCode(
            "NC124",
            "more GPUs than a user may hold",
            of_partition=True,
            resizable=True,
            closes_partition=True,
        ),
        RuleCode("NC125", "not one of the GPU models", of_partition=True),
        RuleCode("NC131", "more cores than a node has", of_partition=True, resizable=True),
        RuleCode(
            "NC132", "more cores a GPU than the site allows", of_partition=True, resizable=True
        ),
        RuleCode("NC133", "more GPUs than cores", of_partition=True, resizable=True),
        RuleCode("NC134", "more memory than a node has", of_partition=True, resizable=True),
        RuleCode("NC141", "wall time over the limit", of_partition=True, resizable=True),
        RuleCode("NC201", "comment is mandatory"),
        RuleCode("NC202", "comment is not what the site takes"),
        RuleCode("NC203", "field and appl have no meaning here", WARNING),
        RuleCode("NC211", "option is forbidden by the site"),
        RuleCode("NC221", "wrong directory to submit from"),
        RuleCode("NC231", "account is mandatory"),
        RuleCode("NC232", "QOS is mandatory"),
        RuleCode("NC301", "tasks and nodes contradict each other"),
        RuleCode("NC302", "launcher starts its own processes", of_step=True),
        RuleCode("NC303", "several nodes or tasks for one process", of_step=True),
        RuleCode("NC304", "processes and GPUs differ", WARNING, of_step=True),
        RuleCode("NC305", "launcher started by a launcher", of_launch=True, of_step=True),
        RuleCode(
            "NC306", "other processes than may be meant", WARNING, of_launch=True, of_step=True
        ),
        RuleCode(
            "NC307", "launcher's option that neuronctl sets itself", of_launch=True, of_step=True
        ),
        RuleCode("NC308", "options for a launcher that has none", of_launch=True, of_step=True),
        RuleCode("NC309", "range of nodes for a launcher that needs a number", of_step=True),
        RuleCode("NC311", "options exclude each other"),
        RuleCode("NC312", "node list contradicts the request", of_partition=True),
        RuleCode("NC313", "sbatch option that has another of neuronctl's own"),
        RuleCode("NC314", "option that sbatch does not know"),
        RuleCode("NC321", "signal that does not reach every process", WARNING, of_step=True),
        RuleCode("NC322", "command too long for horovodrun", of_step=True),
        RuleCode("NC323", "horovodrun in a directory with a blank", of_step=True),
        RuleCode("NC331", "container and environment exclude each other"),
        RuleCode("NC332", "cleanenv takes the ranks from the processes", of_step=True),
        RuleCode("NC333", "container runtime needs srun", of_step=True),
        RuleCode("NC334", "launch was never run by neuronctl's tests", WARNING),
        RuleCode("NC335", "container options without a container", WARNING),
        RuleCode("NC336", "several modules in one word", WARNING),
        RuleCode("NC337", "cleanenv has no effect with Pyxis", WARNING),
        RuleCode("NC338", "secret that others can read", WARNING),
        RuleCode(
            "NC339",
            "argument with a dash that is not ASCII's",
            WARNING,
            of_launch=True,
            of_step=True,
        ),
        RuleCode("NC341", "variable that is not replaced", WARNING, of_launch=True),
        RuleCode("NC342", "variable that cannot be replaced as meant", of_launch=True),
        RuleCode("NC401", "program cannot be run", of_launch=True, of_step=True),
        RuleCode("NC402", "program is a batch script itself", of_launch=True, of_step=True),
        RuleCode("NC403", "container image cannot be used", of_launch=True),
        RuleCode("NC404", "software of another architecture", of_partition=True, of_launch=True),
        RuleCode("NC405", "modules of another architecture", WARNING),
        RuleCode("NC406", "environment cannot be activated"),
        RuleCode("NC407", "shell text that cannot be read"),
        RuleCode("NC408", "modules older than the cluster's", WARNING),
        RuleCode("NC411", "log file cannot be written"),
        RuleCode("NC412", "directory cannot be entered"),
        RuleCode(
            "NC501", "more jobs than a user may have", of_partition=True, closes_partition=True
        ),
        RuleCode("NC502", "waits for a running job's end", WARNING, waits=True, of_limit=True),
        RuleCode("NC503", "waits for GPUs a user may hold", WARNING, waits=True, of_limit=True),
        RuleCode("NC504", "waits for free nodes", WARNING, waits=True),
        RuleCode("NC505", "waits for the partition", WARNING, waits=True),
        RuleCode("NC506", "waits as asked", WARNING, waits=True),
        RuleCode(
            "NC507",
            "waits for what others hold of a shared limit",
            WARNING,
            waits=True,
            of_limit=True,
        ),
        RuleCode("NC508", "more than a whole group may have", of_partition=True),
        RuleCode("NC509", "a size that no job may have", of_partition=True),
        RuleCode(
            "NC510",
            "waits for cores, nodes or memory a user may hold",
            WARNING,
            waits=True,
            of_limit=True,
        ),
        RuleCode("NC511", "array index over MaxArraySize"),
        RuleCode("NC512", "dependency on an unknown job", WARNING),
        RuleCode("NC513", "no moment to begin at"),
        RuleCode("NC521", "QOS cannot be used"),
        RuleCode("NC522", "account cannot be used"),
        RuleCode(
            "NC523",
            "partition does not take this account or QOS",
            of_partition=True,
            closes_partition=True,
        ),
        RuleCode("NC524", "too few nodes have the features", of_partition=True),
        RuleCode("NC525", "excluded nodes", of_partition=True),
        RuleCode("NC526", "reservation that cannot be used"),
        RuleCode("NC527", "fewer nodes than a job must have", of_partition=True),
        RuleCode("NC528", "partition takes no job from this machine", of_partition=True),
        RuleCode("NC529", "dependency that Slurm refuses"),
        RuleCode("NC530", "licenses that Slurm does not have"),
        RuleCode("NC531", "waits for licenses", WARNING, waits=True),
        RuleCode("NC601", "directive that sbatch refuses"),
        RuleCode("NC602", "file that sbatch does not take for a batch script"),
        RuleCode("NC603", "directive after the first command", WARNING),
        RuleCode("NC604", "line or remark that only looks like a directive", WARNING),
        RuleCode("NC605", "directive that is overridden", WARNING),
        RuleCode("NC606", "variable in a directive", WARNING),
        RuleCode("NC607", "directive without an effect in a script", WARNING),
        RuleCode("NC608", "directives of another scheduler", WARNING),
        RuleCode("NC609", "job of several components", WARNING),
        RuleCode("NC610", "unresolved merge"),
        RuleCode("NC611", "tasks that contradict nodes", WARNING),
        RuleCode("NC612", "time limit in minutes and seconds", WARNING),
        RuleCode("NC613", "--export that loses variables", WARNING),
        RuleCode("NC614", "GPUs hidden from the other tasks", WARNING),
        RuleCode("NC615", "character that only looks like another", WARNING),
        RuleCode("NC621", "launcher within a launcher"),
        RuleCode("NC622", "step larger than the job"),
        RuleCode("NC623", "processes and GPUs of a launch differ", WARNING),
        RuleCode("NC624", "program that starts once", WARNING),
        RuleCode("NC625", "GPUs without a process", WARNING),
        RuleCode("NC626", "srun without the cores of its tasks", NOTE),
        RuleCode("NC631", "rank expanded by the batch shell"),
        RuleCode("NC632", "fixed port", WARNING),
        RuleCode("NC633", "GPUs chosen by hand", WARNING),
        RuleCode("NC634", "log directory made too late", WARNING),
        RuleCode("NC635", "signal without a trap", WARNING),
        RuleCode("NC636", "trap that waits for the program's end", WARNING),
        RuleCode("NC637", "more threads than cores", WARNING),
        RuleCode("NC638", "conda without its hook", WARNING),
        RuleCode("NC639", "modules without a login shell", WARNING),
        RuleCode("NC640", "secret in the script", WARNING),
        RuleCode("NC641", "set -e ends a trapped wait", WARNING),
        RuleCode("NC642", "every node its own first node"),
        RuleCode("NC643", "shell text that cannot be read"),
    )
}
