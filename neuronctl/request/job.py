"""What a user asked for: one flat description of a job, from three sources.

The command line overrides the job file, which overrides the user's configuration. ``None`` (or
an empty tuple) means "not requested". Nothing here is derived or checked against a cluster; the
plan and the rules do that.
"""

from __future__ import annotations

import enum
import os
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from neuronctl import frozen
from neuronctl.frozen import dataclass


class Source(enum.Enum):
    """What determined a value; the text is shown to users."""

    ASKED = "requested"
    JOB_FILE = "job file"
    CONFIG = "your configuration"
    CLUSTER = "cluster"
    DERIVED = "derived"


@dataclass(frozen=True)
class Origin:
    """Where a value came from: ``where`` is an option, a ``file:line`` or a formula."""

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
    """One step of a job: a program, shell text, or several steps side by side.

    What is None is the job's. allow_failure: whether the job goes on where the step fails.
    """

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
class JobRequest:
    """A job as requested. Names and meanings are sbatch's unless stated otherwise."""

    script: Optional[str] = None
    """The program: a Python file or anything executable; None for an interactive allocation."""
    args: Tuple[str, ...] = ()
    """The program's arguments, passed on byte for byte."""
    body: Optional[str] = None
    """Shell text in place of a program: ``--body``, or ``run:`` in a job file."""
    steps: Tuple[StepRequest, ...] = ()
    """What runs one after the other in place of one program."""
    text_file: Optional[str] = None
    """The file that ``body`` or ``steps`` were read from, which names the job."""

    job_name: Optional[str] = None
    partition: Optional[str] = None
    nodes: Optional[int] = None
    max_nodes: Optional[int] = None
    """Of a range (``-N 2-4``), the end; ``nodes`` is its start."""
    ntasks: Optional[int] = None
    ntasks_per_node: Optional[int] = None
    cpus_per_task: Optional[int] = None
    """0: left to Slurm, whose default may depend on the partition."""
    gpus_per_node: Optional[int] = None
    """GPUs per node, from ``--gpus-per-node`` or ``--gres=gpu[:TYPE]:N``."""
    gpus: Optional[int] = None
    """GPUs on all nodes together (``--gpus``)."""
    gpu_type: Optional[str] = None
    gpu_models: Tuple[str, ...] = ()
    """Acceptable GPU models (``--gpu``); the partition's GPU must be one of them."""
    gres: Tuple[str, ...] = ()
    """Generic resources other than GPUs, as typed."""
    time_limit: Optional[str] = None
    """As typed, in a form that units.parse_time accepts."""
    account: Optional[str] = None
    qos: Optional[str] = None
    comment: Optional[str] = None
    mem: Optional[str] = None
    exclusive: Optional[bool] = None
    constraint: Optional[str] = None
    reservation: Optional[str] = None
    nodelist: Optional[str] = None
    exclude: Optional[str] = None
    dependency: Optional[str] = None
    array: Optional[str] = None
    signal: Optional[str] = None
    requeue: Optional[bool] = None
    mail_type: Optional[str] = None
    mail_user: Optional[str] = None
    output: Optional[str] = None
    error: Optional[str] = None
    chdir: Optional[str] = None
    """The job's directory, an absolute path once it is planned; None: where it is submitted."""
    sbatch: Tuple[str, ...] = ()
    """Other sbatch options, without dashes: ``"nice=100"``, ``"hold"``."""

    cluster: Optional[str] = None
    launcher: Optional[str] = None
    launcher_options: Tuple[str, ...] = ()
    """Words for the launcher, behind those that neuronctl gives it, passed on byte for byte."""
    env: Tuple[Tuple[str, str], ...] = ()
    expand: Optional[bool] = None
    """Whether ``$NAME`` in ``env`` and ``args`` is that variable's value when the job starts."""
    modules: Tuple[str, ...] = ()
    container: Optional[str] = None
    """The image to run in."""
    container_runtime: Optional[str] = None
    binds: Tuple[str, ...] = ()
    """Directories to bind into the container, besides scratch and the working directory."""
    cleanenv: Optional[bool] = None
    container_run: Optional[bool] = None
    """Whether the image's runscript starts the program."""
    container_options: Tuple[str, ...] = ()
    """Words for the container runtime, passed on byte for byte."""
    preflight: Optional[bool] = None
    """Whether to check every node before the launch; None: only with several nodes."""
    purge: Optional[bool] = None
    """Whether the modules of the submitting shell are unloaded first; None: yes."""
    conda: Optional[str] = None
    venv: Optional[str] = None
    setup_first: Tuple[str, ...] = ()
    """The user's own shell lines, run before modules and conda; never quoted."""
    setup: Tuple[str, ...] = ()
    """The user's own shell lines, run before the launch; never quoted."""
    field: Optional[str] = None
    """``field=`` of a structured comment (Neuron since 2026-08-12)."""
    appl: Optional[str] = None
    """``appl=`` of a structured comment."""

    origins: Mapping[str, Origin] = frozen.field(default_factory=dict, compare=False)
    """Field name -> where its value came from, for every requested field."""

    def origin(self, name: str) -> Origin:
        """Where the field ``name`` came from; only for requested fields."""
        return self.origins.get(name, Origin(Source.ASKED))

    def sbatch_value(self, name: str) -> Optional[str]:
        """The value of an option in ``sbatch``; "" for a flag, None where it is not given."""
        options = (text.partition("=") for text in self.sbatch)
        return next((value for option, _, value in options if option == name), None)

    def from_here(self, path: str) -> str:
        """A path of the job's, which begins in its directory, as this process reaches it."""
        return os.path.join(self.chdir or "", path)


@dataclass(frozen=True)
class Layer:
    """The fields that one source sets: JobRequest field name -> value, and where each was set."""

    values: Mapping[str, Any]
    origins: Mapping[str, Origin]


# Fields that express one request in several ways: a layer that sets one field of a group overrides
# the whole group, so that --gres=gpu:2 on the command line is not mixed with gpus-per-node from the
# job file.
_GROUPS = (
    ("gpus_per_node", "gpus", "gpu_type"),
    ("comment", "field", "appl"),
    ("nodes", "max_nodes"),
    ("conda", "venv"),
    ("ntasks", "ntasks_per_node"),
)
_PROGRAM = ("script", "body", "steps")


def build_request(layers: Sequence[Layer]) -> JobRequest:
    """Merge ``layers``, lowest first, into one request.

    Environment variables are merged by name; every other field is replaced as a whole.
    """
    values: Dict[str, Any] = {}
    origins: Dict[str, Origin] = {}
    for layer in layers:
        if any(name in layer.values for name in _PROGRAM):
            for name in (*_PROGRAM, "args", "text_file"):
                values.pop(name, None)
                origins.pop(name, None)
        for group in _GROUPS:
            if any(name in layer.values for name in group):
                # `field` in the configuration and `appl` in the job file complement each other.
                drop = group if group[0] in layer.values else group[:1]
                for name in drop:
                    values.pop(name, None)
                    origins.pop(name, None)
        for name, value in layer.values.items():
            if name == "env":
                value = tuple({**dict(values.get("env", ())), **dict(value)}.items())
            values[name] = value
            origins[name] = layer.origins[name]
    return JobRequest(**values, origins=origins)
