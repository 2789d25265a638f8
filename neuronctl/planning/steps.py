"""The steps of a job: the share of its allocation that each may use, and what each requests."""

from __future__ import annotations

from typing import Tuple

from neuronctl.catalog.model import Policy
from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.errors import UsageError
from neuronctl.common.words import counted
from neuronctl.planning.model import AllocationPart
from neuronctl.request.job import JobRequest, StepRequest


@dataclass(frozen=True)
class Share:
    """What a step may use: nodes, and GPUs on each of them.

    job_gpus: those per node of the whole job. per_node: how many steps run side by side on a node;
    0: it runs alone.
    """

    nodes: int
    gpus: int
    job_gpus: int
    per_node: int = 0

    @property
    def beside(self) -> bool:
        """Return True if other steps run at the same time."""
        return self.per_node > 0

    def among(self, count: int) -> Share:
        """Return the share of each of ``count`` steps side by side, each on one node."""
        per_node = -(-count // self.nodes)
        gpus = max(1, self.gpus // per_node) if self.gpus else 0
        return Share(1, gpus, self.job_gpus, per_node)

    def cores_with(self, gpus: int, job_cores: int) -> int:
        """Return a step's cores on each node with so many GPUs; job_cores: the whole job's."""
        if self.beside and gpus:
            return max(1, job_cores * gpus // self.job_gpus)
        cores = max(1, job_cores // self.per_node) if self.beside else job_cores
        return max(1, cores * gpus // self.gpus) if self.gpus and gpus != self.gpus else cores


def step_request(step: StepRequest, share: Share, job: JobRequest, name: str) -> JobRequest:
    """Return what a step requests; raises UsageError. name: the step's, for messages."""
    nodes = share.nodes if step.nodes is None else step.nodes
    gpus = share.gpus if step.gpus_per_node is None else step.gpus_per_node
    for asked, most, unit in (
        (nodes, job.nodes or share.nodes, "node"),
        (gpus, share.job_gpus, "GPU"),
    ):
        if asked > most:
            per_node = " per node" if unit == "GPU" else ""
            raise UsageError(
                f"{name} requests {counted(asked, unit)}{per_node}; the job has {most}",
                f"request at most {most} for the step, or more for the job",
            )
    if share.beside and nodes > 1:
        raise UsageError(
            f"{name} requests {counted(nodes, 'node')}, and steps side by side run on one node "
            "each",
            "let it run before or after the others",
        )
    return replace(
        job,
        script=step.script,
        args=step.args,
        body=step.body,
        steps=(),
        launcher=step.launcher,
        nodes=nodes,
        max_nodes=None if share.beside or step.nodes is not None else job.max_nodes,
        launcher_options=step.launcher_options,
        ntasks=None,
        ntasks_per_node=step.ntasks_per_node,
        cpus_per_task=step.cpus_per_task,
        gpus=None,
        gpus_per_node=gpus or None,
        nodelist=None,
    )


def step_place(
    step: StepRequest, request: JobRequest, share: Share, policy: Policy, job_cores: int
) -> AllocationPart:
    """Return the place in the allocation of a step; job_cores: those per node of the whole job."""
    nodes, gpus = request.nodes or 1, request.gpus_per_node or 0
    sizes = (step.nodes, step.ntasks_per_node, step.cpus_per_task, step.gpus_per_node)
    own = share.beside or any(size is not None for size in sizes)
    options: Tuple[str, ...] = ()
    if gpus != share.job_gpus:
        option = "gres=gpu:" if policy.gpu_option == "gres" else "gpus-per-node="
        options += (f"--{option}{gpus}",)
    if share.beside:
        # Without --mem=0, a step may take all of the job's memory, and the next one waits.
        options += ("--exact", "--mem=0")
    elif 1 < nodes < share.nodes:
        options += ("--relative=0",)  # from the first node on, where the processes meet
    cores = share.cores_with(gpus, job_cores)
    return AllocationPart(hosts=(), cores=cores, step_options=options, is_share=own)
