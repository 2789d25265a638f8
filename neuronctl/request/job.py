"""A requested job, merged from command line, job file, and configuration; None: not requested."""

from __future__ import annotations

import enum
import os
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Sequence, Tuple

from neuronctl.common import datatypes
from neuronctl.common.datatypes import dataclass
from neuronctl.request import values
from neuronctl.request.options import Option, option
from neuronctl.request.values import one_line

if TYPE_CHECKING:
    from neuronctl.request.axes import Axis


class Source(enum.Enum):
    """What determined a value; the text is shown to users."""

    ASKED = "requested"
    JOB_FILE = "job file"
    CONFIG = "your configuration"
    CLUSTER = "cluster"
    DERIVED = "derived"


@dataclass(frozen=True)
class Origin:
    """Where a value came from. where: an option, a ``file:line``, or a formula."""

    source: Source
    where: str = ""

    def __str__(self) -> str:
        return f"{self.source.value}: {self.where}" if self.where else self.source.value


@dataclass(frozen=True)
class Body:
    """Shell text in place of a program. file: where it was read from, None for no file."""

    text: str
    file: Optional[str] = None


@dataclass(frozen=True)
class StepRequest:
    """One step of a job: a program, shell text, or steps side by side; None: as the job has it."""

    script: Optional[str] = None
    args: Tuple[str, ...] = ()
    body: Optional[str] = None
    launcher: Optional[str] = None
    nodes: Optional[int] = None
    ntasks_per_node: Optional[int] = None
    cpus_per_task: Optional[int] = None
    gpus_per_node: Optional[int] = None
    launcher_options: Tuple[str, ...] = ()
    allow_failure: bool = False
    together: Tuple[StepRequest, ...] = ()


@dataclass(frozen=True)
class Amounts:
    """The sizes in a user's own script, which Slurm divides over nodes. None: not requested."""

    nodes: Optional[int] = None
    max_nodes: Optional[int] = None
    ntasks: Optional[int] = None
    ntasks_per_node: Optional[int] = None
    cpus_per_task: Optional[int] = None
    gpus: Optional[int] = None
    gpus_per_node: Optional[int] = None

    def least_nodes(self, cores: int, gpus: int) -> int:
        """Return how many nodes the job needs. cores, gpus: those of each node; 0: unknown."""
        tasks = self.ntasks or 1
        tasks_per_node = self.ntasks_per_node or tasks
        if cores:
            tasks_per_node = min(tasks_per_node, max(1, cores // (self.cpus_per_task or 1)))
        gpus_per_node = self.gpus_per_node or gpus
        nodes_for_gpus = -(-(self.gpus or 0) // gpus_per_node) if gpus_per_node else 0
        return max(-(-tasks // tasks_per_node), nodes_for_gpus)


_NOT_IN_A_SCRIPT = ("wait", "test-only", "wrap", "parsable", "help", "usage", "version")
"""sbatch reads these from a script too, and then does not simply submit it."""


def _others_of_sbatch(texts: Sequence[str]) -> Tuple[str, ...]:
    """Read options of sbatch that neuronctl does not have; raise ValueError."""
    options = []
    for text in texts:
        option = one_line(text).lstrip("-")
        name = option.partition("=")[0]
        if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
            raise ValueError(f"'{text}' is not a long sbatch option, such as nice=100")
        # neuronctl has the flag --exclusive; only Slurm has --exclusive=user.
        has_slurms_value = name in OF_SLURM and OF_SLURM[name].is_flag and option != name
        if name in OF_SLURM and not has_slurms_value:
            raise ValueError(f"neuronctl has this option itself: write --{option}")
        if name in _NOT_IN_A_SCRIPT:
            raise ValueError(f"--{name} cannot be used in a job script: see 'neuronctl submit -h'")
        options.append(option)
    return tuple(options)


_job = partial(option, group="Job")
_environment = partial(option, group="Environment")


@dataclass(frozen=True)
class JobRequest:
    """A job as requested, and the table of all options. Names are sbatch's unless stated otherwise.

    ``option(SPELLING, HELP, GRAMMAR)`` declares a field and the option that sets it. From that
    follow the command line, the keys of a job file, and the directives that are read and written,
    in the order of the fields.
    """

    script: Optional[str] = None
    """The program: a Python file or anything executable; None for an interactive allocation."""
    args: Tuple[str, ...] = ()
    """The program's arguments, passed on byte for byte."""
    body: Optional[str] = None
    """Shell text in place of a program: ``--body``, or ``run:`` in a job file."""
    steps: Tuple[StepRequest, ...] = ()
    """Programs that run one after the other, in place of a single one."""
    text_file: Optional[str] = None
    """The file that ``body`` or ``steps`` were read from, which names the job."""
    sweep: Tuple[Axis, ...] = ()
    """What ``neuronctl sweep`` varies; no job has it."""

    job_name: Optional[str] = option("-J, --job-name NAME", "Job name (default: the program's).")
    partition: Optional[str] = option(
        "-p, --partition NAME", "Partition, several (A,B), or auto to choose one."
    )
    account: Optional[str] = option("-A, --account NAME", "Account to charge.")
    qos: Optional[str] = option("-q, --qos NAME", "Quality of service.")
    nodes: Optional[int] = option(
        "-N, --nodes N[-MAX]", "Number of nodes, or a range: 2-4.", values.nodes
    )
    max_nodes: Optional[int] = None
    """The end of a range (``-N 2-4``); ``nodes`` is its start. 0: no maximum."""
    ntasks: Optional[int] = option("-n, --ntasks N", "Total number of tasks.", values.whole_number)
    ntasks_per_node: Optional[int] = option(
        "--ntasks-per-node N",
        "Tasks per node (default: what the launcher needs).",
        values.whole_number,
    )
    cpus_per_task: Optional[int] = option(
        "-c, --cpus-per-task N",
        "Cores per task (default: the cores that come with the GPUs; 0: left to Slurm).",
        values.cores,
    )
    gpus_per_node: Optional[int] = option(
        "--gpus-per-node [TYPE:]N", "GPUs per node, such as 2 or a100:2.", values.gpus_per_node
    )
    gpus: Optional[int] = option("-G, --gpus [TYPE:]N", "Total number of GPUs.", values.gpus_in_all)
    gpu_type: Optional[str] = None
    gres: Tuple[str, ...] = option(
        "--gres LIST", "Generic resources per node, such as gpu:2.", values.gres, default=()
    )
    """Resources other than GPUs of one type, as typed."""
    mem: Optional[str] = option("--mem SIZE", "Memory per node, such as 80G.", values.memory)
    exclusive: Optional[bool] = option(
        "--exclusive", "Do not share nodes with other jobs.", values.exclusive
    )
    constraint: Optional[str] = option(
        "-C, --constraint LIST", "Features that the nodes must have."
    )
    reservation: Optional[str] = option("--reservation NAME", "Reservation to use.")
    nodelist: Optional[str] = option(
        "-w, --nodelist LIST", "Nodes to use, such as gpu[35-36].", values.ranges
    )
    exclude: Optional[str] = option("-x, --exclude LIST", "Nodes to avoid.", values.ranges)
    time_limit: Optional[str] = option(
        "-t, --time TIME", "Time limit: 90 (minutes), 8:00:00, or 1-12:00:00.", values.time
    )
    """As typed, in a form that units.parse_time accepts."""
    comment: Optional[str] = option(
        "--comment TEXT", "Comment, if the site requires one: see 'neuronctl partitions --comment'."
    )
    dependency: Optional[str] = option(
        "-d, --dependency LIST", "Jobs to wait for: afterok:4711, singleton."
    )
    array: Optional[str] = option(
        "-a, --array INDEXES",
        "Job array: 0-9, or 0-9%2 to run at most two tasks at a time.",
        values.array,
        batch_only=True,
    )
    requeue: Optional[bool] = option(
        "--[no-]requeue", "Allow or forbid requeuing after a node failure.", batch_only=True
    )
    signal: Optional[str] = option(
        "--signal [B:]SIG[@SECONDS]",
        "Signal to send before the time limit, such as B:USR1@120.",
        values.signal,
    )
    mail_type: Optional[str] = option(
        "--mail-type TYPE", "When to send mail, such as END,FAIL.", values.mail_type
    )
    mail_user: Optional[str] = option("--mail-user ADDRESS", "Where to send mail.")
    chdir: Optional[str] = option(
        "-D, --chdir DIR", "Directory to run in, where relative paths begin (default: this one)."
    )
    """An absolute path once the job is planned; None: the directory in which it is submitted."""
    output: Optional[str] = option(
        "-o, --output FILE",
        "Log file (default: %x_%j.out, the job's name and id).",
        batch_only=True,
    )
    error: Optional[str] = option(
        "-e, --error FILE",
        "Standard error log (default: %x_%j.err; with -o, the same file).",
        batch_only=True,
    )
    sbatch: Tuple[str, ...] = option(
        "--sbatch OPTION...", "Any other sbatch option, such as nice=100.", _others_of_sbatch
    )
    """Without dashes: ``"nice=100"``, ``"hold"``."""

    cluster: Optional[str] = _job("--cluster NAME", "Catalog cluster to plan for.")
    field: Optional[str] = _job("--field NAME", "Field of work, for the site's comment.")
    """``field=`` of a structured comment (Neuron since 2026-08-12)."""
    appl: Optional[str] = _job("--appl NAME", "Application, for the site's comment.")
    """``appl=`` of a structured comment."""
    after: Tuple[str, ...] = _job(
        "--after JOB...", "Start after this job (name or id) has ended; repeatable.", values.words
    )
    after_ok: Tuple[str, ...] = _job(
        "--after-ok JOB...",
        "Start after this job has completed; refused if it failed; repeatable.",
        values.words,
    )
    avoid_bad_nodes: Optional[bool] = _job(
        "--[no-]avoid-bad-nodes", "Also exclude nodes that failed in your recent jobs."
    )
    launcher: Optional[str] = _job(
        "--launcher NAME",
        "How to start the program (default: depends on the program, nodes, tasks, and GPUs; none "
        "starts it once).",
    )
    launcher_options: Tuple[str, ...] = _job(
        "--launcher-option WORD...",
        "Extra argument for the launcher, such as --tee=3; repeatable.",
        values.words,
    )
    """They follow the arguments that neuronctl gives it."""
    preflight: Optional[bool] = _job(
        "--[no-]preflight", "Check the nodes before the launch (the default).", batch_only=True
    )
    until_done: Optional[bool] = _job(
        "--until-done",
        "Continue in another run after the time limit, until the program exits with 0.",
        batch_only=True,
    )
    max_runs: Optional[int] = _job(
        "--max-runs N",
        "With --until-done: at most N runs (default: 10).",
        values.whole_number,
        batch_only=True,
    )
    resume_with: Optional[str] = _job(
        "--resume-with WORDS",
        "With --until-done: extra program arguments from the second run on.",
        values.command_words,
        batch_only=True,
    )
    checkpoint: Optional[str] = _job(
        "--checkpoint PATH",
        "With --stall: file or directory that changes while the program makes progress.",
        batch_only=True,
    )
    stall: Optional[str] = _job(
        "--stall TIME",
        "End the job if neither the log nor --checkpoint changes for TIME, such as 30m.",
        values.still_time,
        batch_only=True,
    )
    idle: Optional[str] = _job(
        "--idle TIME",
        "End the job if its GPUs and cores are idle for TIME, such as 30m.",
        values.still_time,
    )
    snapshot: Optional[bool] = _job(
        "--snapshot",
        "Run from a copy of the current code: all files that git does not ignore.",
        batch_only=True,
    )
    monitor: Optional[bool] = _job(
        "--[no-]monitor",
        "Sample the use of GPUs, cores, and memory for 'neuronctl report'.",
        batch_only=True,
    )
    env: Tuple[Tuple[str, str], ...] = _environment(
        "--env NAME=VALUE...", "Export a variable; NAME alone uses its current value.", values.env
    )
    modules: Tuple[str, ...] = _environment(
        "--module NAME...", "Load a module, after 'module purge'; repeatable.", values.words
    )
    conda: Optional[str] = _environment("--conda ENV", "Activate a conda environment.")
    venv: Optional[str] = _environment("--venv DIR", "Activate a virtual environment.")
    container: Optional[str] = _environment("--container IMAGE", "Run inside this container image.")
    container_runtime: Optional[str] = _environment(
        "--container-runtime NAME", "singularity, apptainer, or pyxis (default: the cluster's)."
    )
    binds: Tuple[str, ...] = _environment(
        "--bind SRC[:DST]...", "Bind a directory into the container; repeatable.", values.words
    )
    """Besides scratch and the working directory."""
    container_options: Tuple[str, ...] = _environment(
        "--container-option WORD...",
        "Extra argument for the container runtime, such as --rocm; repeatable.",
        values.words,
    )
    setup: Tuple[str, ...] = _environment(
        "--setup LINE...", "Shell line to run before the launch; repeatable.", values.setup
    )
    """They stand in the script as typed, unquoted."""

    amounts: Optional[Amounts] = None
    """The sizes that a user's own script requests; None: neuronctl plans them."""
    typed_dependency: Optional[str] = None
    """--dependency as typed, if ``dependency`` also has the jobs of --after and --after-ok."""
    origins: Mapping[str, Origin] = datatypes.field(default_factory=dict)
    """Field name -> where its value came from, for every requested field."""

    def origin(self, name: str) -> Origin:
        """Return where the field ``name`` came from; only for requested fields."""
        return self.origins.get(name, Origin(Source.ASKED))

    def sbatch_value(self, name: str) -> Optional[str]:
        """Return the value of an option in ``sbatch``: "" for a flag, None if it is not given."""
        options = (text.partition("=") for text in self.sbatch)
        return next((value for option, _, value in options if option == name), None)

    def sbatch_number(self, name: str) -> int:
        """Return the number in an option's value, without a GPU type; 0 if it is not given."""
        match = re.search(r"(?:^|[:=])([0-9]{1,9})[KMGTkmgt]?$", self.sbatch_value(name) or "")
        return 0 if match is None else int(match[1])

    @property
    def shares_gpus(self) -> bool:
        """Return True if it requests parts of GPUs (shards, MPS)."""
        return any(item.startswith(("shard", "mps")) for item in self.gres)

    def resolve_path(self, path: str) -> str:
        """Return a path relative to the job's directory as this process reaches it."""
        return os.path.join(self.chdir or "", path)


OPTIONS: Tuple[Option, ...] = tuple(
    declared.metadata["option"](declared.name)
    for declared in datatypes.fields(JobRequest)
    if declared.metadata
)
BY_NAME: Mapping[str, Option] = {option.long: option for option in OPTIONS}
OF_SLURM: Mapping[str, Option] = {
    name: entry for name, entry in BY_NAME.items() if entry.group == "Slurm" and name != "sbatch"
}
"""Options that sbatch also has, under the same names, in the order of a script's directives."""

UNTIL_DONE = ("max-runs", "resume-with")
"""Options that have a meaning only with --until-done."""


def find(name: str) -> Optional[Option]:
    """Return the option of a YAML key: sbatch's long name, with ``-`` or ``_``."""
    return BY_NAME.get(name.replace("_", "-"))


@dataclass(frozen=True)
class Layer:
    """The values of the JobRequest fields that one source sets, and where it sets each."""

    values: Mapping[str, Any]
    origins: Mapping[str, Origin]


# Fields that express one request in several ways. If a layer sets the first field of a group, it
# replaces the group of the layers below; if it sets another, it replaces only the first. So
# --gres=gpu:2 on the command line is not mixed with gpus-per-node from the job file.
_GROUPS = (
    ("gpus_per_node", "gpus", "gpu_type"),
    ("comment", "field", "appl"),
    ("nodes", "max_nodes"),
    ("conda", "venv"),
    ("ntasks", "ntasks_per_node"),
)
_PROGRAM = ("script", "body", "steps")


def build_request(layers: Sequence[Layer]) -> JobRequest:
    """Merge ``layers``, lowest first, into one request."""
    merged = merge(layers)
    return JobRequest(**merged.values, origins=merged.origins)


def merge(layers: Sequence[Layer]) -> Layer:
    """Merge layers into one, lowest first; only environment variables are merged by name."""
    values: Dict[str, Any] = {}
    origins: Dict[str, Origin] = {}
    for layer in layers:
        replaced: Tuple[str, ...] = ()
        if any(name in layer.values for name in _PROGRAM):
            replaced += (*_PROGRAM, "args", "text_file")
        for group in _GROUPS:
            if any(name in layer.values for name in group):
                # `field` in the configuration and `appl` in the job file complement each other.
                replaced += group if group[0] in layer.values else group[:1]
        for name in replaced:
            values.pop(name, None)
        variables = {**dict(values.get("env", ())), **dict(layer.values.get("env", ()))}
        values.update(layer.values)
        origins.update(layer.origins)
        if "env" in layer.values:
            values["env"] = tuple(variables.items())
    return Layer(values, {name: origins[name] for name in values})
