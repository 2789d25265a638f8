"""What a user asked for: one flat description of a job, from three places.

The command line overrides the job file, which overrides the user's configuration. ``None`` (or
an empty tuple) means "not asked"; nothing here is derived and nothing here is checked against a
cluster: that is plan.py's and the rules' work.
"""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from typing import Mapping, Optional, Tuple


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


@dataclass(frozen=True)
class JobRequest:
    """A job as asked for. Names and meanings are sbatch's own unless said otherwise."""

    script: str
    """The program: a Python file, or anything executable."""
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
    gpu_type: Optional[str] = None
    gres: Tuple[str, ...] = ()
    """Generic resources other than GPUs, as typed."""
    gpu_option: Optional[str] = None
    """``"gres"`` or ``"gpus-per-node"``: how the user asked; None leaves it to the cluster."""
    time_limit: Optional[int] = None
    """Seconds; units.UNLIMITED for ``--time=0`` / ``UNLIMITED``."""
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
    conda: Optional[str] = None
    venv: Optional[str] = None
    setup: Tuple[str, ...] = ()
    """Shell lines of the user's own, run before the launch; the user's words, never quoted."""
    field: Optional[str] = None
    """``field=`` of a structured comment (Neuron since 2026-08-12)."""
    appl: Optional[str] = None
    """``appl=`` of a structured comment."""

    origins: Mapping[str, Origin] = dataclasses.field(default_factory=dict, compare=False)
    """Field name -> where its value came from, for every field that was asked for."""
