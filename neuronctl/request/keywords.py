"""The options of ``plan()`` for type checkers; ``make docs`` writes this file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Mapping, Optional, Sequence, TypedDict, Union

if TYPE_CHECKING:
    from os import PathLike

    Text = Union[str, int, "PathLike[str]", None]
    Texts = Union[str, Sequence[object], Mapping[str, object], None]


class JobKeywords(TypedDict, total=False):
    """Each option of ``neuronctl submit`` by its long name, with ``_`` for ``-``."""

    account: Text
    appl: Text
    array: Text
    avoid_bad_nodes: Optional[bool]
    bind: Texts
    chdir: Text
    checkpoint: Text
    cluster: Text
    comment: Text
    conda: Text
    constraint: Text
    container: Text
    container_option: Texts
    container_runtime: Text
    cpus_per_task: Text
    dependency: Text
    env: Texts
    error: Text
    exclude: Text
    exclusive: Optional[bool]
    field: Text
    gpus: Text
    gpus_per_node: Text
    gres: Text
    job_name: Text
    launcher: Text
    launcher_option: Texts
    mail_type: Text
    mail_user: Text
    max_runs: Text
    mem: Text
    module: Texts
    monitor: Optional[bool]
    nodelist: Text
    nodes: Text
    ntasks: Text
    ntasks_per_node: Text
    output: Text
    partition: Text
    preflight: Optional[bool]
    qos: Text
    requeue: Optional[bool]
    reservation: Text
    resume_with: Text
    sbatch: Texts
    setup: Texts
    signal: Text
    snapshot: Optional[bool]
    stall: Text
    time: Text
    until_done: Optional[bool]
    venv: Text
