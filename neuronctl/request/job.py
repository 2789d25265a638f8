"""What a user asked for: one flat description of a job, from three places.

The command line overrides the job file, which overrides the user's configuration. ``None`` (or
an empty tuple) means "not asked"; nothing here is derived and nothing here is checked against a
cluster: that is the plan's and the rules' work.
"""

from __future__ import annotations

import enum
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from neuronctl import frozen
from neuronctl.frozen import dataclass


class Source(enum.Enum):
    """Who decided a value; the words are shown to users."""

    ASKED = "asked for"
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
class JobRequest:
    """A job as asked for. Names and meanings are sbatch's own unless said otherwise."""

    script: Optional[str] = None
    """The program: a Python file, or anything executable; None for an interactive allocation."""
    args: Tuple[str, ...] = ()
    """Its arguments, to arrive byte for byte."""

    job_name: Optional[str] = None
    partition: Optional[str] = None
    nodes: Optional[int] = None
    ntasks: Optional[int] = None
    ntasks_per_node: Optional[int] = None
    cpus_per_task: Optional[int] = None
    gpus_per_node: Optional[int] = None
    """GPUs a node, from ``--gpus-per-node`` or ``--gres=gpu[:TYPE]:N``."""
    gpus: Optional[int] = None
    """GPUs on all nodes together (``--gpus``)."""
    gpu_type: Optional[str] = None
    gpu_models: Tuple[str, ...] = ()
    """GPU models that will do (``--gpu``); the partition's has to be one of them."""
    gres: Tuple[str, ...] = ()
    """Generic resources other than GPUs, as typed."""
    time_limit: Optional[str] = None
    """As typed, in a form that units.parse_time takes."""
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
    sbatch: Tuple[str, ...] = ()
    """Any other sbatch option, without dashes: ``"nice=100"``, ``"hold"``."""

    cluster: Optional[str] = None
    launcher: Optional[str] = None
    env: Tuple[Tuple[str, str], ...] = ()
    modules: Tuple[str, ...] = ()
    container: Optional[str] = None
    """Image to run in."""
    container_runtime: Optional[str] = None
    binds: Tuple[str, ...] = ()
    """Directories to bind into the container beside scratch and the working directory."""
    cleanenv: Optional[bool] = None
    preflight: Optional[bool] = None
    """Whether every node is looked at before the launch; None: where there are several."""
    conda: Optional[str] = None
    venv: Optional[str] = None
    setup: Tuple[str, ...] = ()
    """Shell lines of the user's own, run before the launch; the user's words, never quoted."""
    field: Optional[str] = None
    """``field=`` of a structured comment (Neuron since 2026-08-12)."""
    appl: Optional[str] = None
    """``appl=`` of a structured comment."""

    origins: Mapping[str, Origin] = frozen.field(default_factory=dict, compare=False)
    """Field name -> where its value came from, for every field that was asked for."""

    def origin(self, name: str) -> Origin:
        """Where the field ``name`` came from; only for fields that were asked for."""
        return self.origins.get(name, Origin(Source.ASKED))


@dataclass(frozen=True)
class Layer:
    """The fields one place sets: JobRequest field name -> value, and where each stands."""

    values: Mapping[str, Any]
    origins: Mapping[str, Origin]


# Fields that are one wish in two spellings: a layer that sets any of a group speaks for all of
# it, so that --gres=gpu:2 on the command line is not mixed with gpus-per-node from the job file.
_GROUPS = (
    ("gpus_per_node", "gpus", "gpu_type"),
    ("comment", "field", "appl"),
    ("conda", "venv"),
    ("ntasks", "ntasks_per_node"),
    ("script", "args"),
)


def build_request(layers: Sequence[Layer]) -> JobRequest:
    """Lay ``layers`` over one another, lowest first, into one request.

    Environment variables are merged by name; every other field is replaced as a whole.
    """
    values: Dict[str, Any] = {}
    origins: Dict[str, Origin] = {}
    for layer in layers:
        for group in _GROUPS:
            if any(name in layer.values for name in group):
                # `field` set once in the configuration and `appl` in the job file add up.
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
