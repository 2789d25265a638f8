"""Builders of a job's launches: of the one launch, or of each step with its share of the job."""

from __future__ import annotations

from functools import partial
from typing import Optional, Tuple

from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.errors import UsageError
from neuronctl.common.shell import Shell
from neuronctl.common.words import counted
from neuronctl.launch import launchers
from neuronctl.launch.containers import RUNTIMES, Wrapping
from neuronctl.planning import software
from neuronctl.planning.job_plan import AllocationPart, CodeSnapshot, Export, Launch
from neuronctl.planning.sizes import SizeBuilder
from neuronctl.request.job import JobRequest, Source, StepRequest


@dataclass(frozen=True)
class Share:
    """What a step may use: nodes, and GPUs on each of them.

    job_gpus: the whole job's GPUs per node. per_node: how many steps run side by side on a node; 0:
    the step runs alone.
    """

    nodes: int
    gpus: int
    job_gpus: int
    per_node: int = 0

    @property
    def side_by_side(self) -> bool:
        """Return True if other steps run at the same time."""
        return self.per_node > 0

    def split(self, count: int) -> Share:
        """Return the share of each of ``count`` steps side by side, each on one node."""
        per_node = -(-count // self.nodes)
        gpus = max(1, self.gpus // per_node) if self.gpus else 0
        return Share(1, gpus, self.job_gpus, per_node)

    def count_cores(self, gpus: int, job_cores: int) -> int:
        """Return a step's cores per node. gpus: its GPUs per node. job_cores: the job's cores."""
        if self.job_gpus:  # cores come with the GPUs
            return max(1, job_cores * gpus // self.job_gpus)
        return max(1, job_cores // self.per_node) if self.side_by_side else job_cores


def exceeds_job(words: str, most: int) -> UsageError:
    """Return the error for a step that requests more than the job. words: its request."""
    hint = f"request at most {most} for the step, or more for the job"
    return UsageError(f"{words}; the job has {most}", hint)


_STEPS_OWN = (
    *("script", "args", "body", "launcher", "launcher_options"),
    *("ntasks_per_node", "cpus_per_task"),
)
"""Fields of a request that a step sets itself; its nodes and GPUs may come from its share."""


def _step_request(step: StepRequest, share: Share, job: JobRequest, name: str) -> JobRequest:
    """Return the job's request with a step's program and sizes; raise UsageError."""
    nodes = share.nodes if step.nodes is None else step.nodes
    gpus = share.gpus if step.gpus_per_node is None else step.gpus_per_node
    job_nodes = job.nodes or share.nodes
    if nodes > job_nodes:
        raise exceeds_job(f"{name} requests {counted(nodes, 'node')}", job_nodes)
    if gpus > share.job_gpus:
        raise exceeds_job(f"{name} requests {counted(gpus, 'GPU')} per node", share.job_gpus)
    if share.side_by_side and nodes > 1:
        raise UsageError(
            f"{name} requests {nodes} nodes, and steps side by side run on one node each",
            "let it run before or after the others",
        )
    uses_all_nodes = step.nodes is None and not share.side_by_side
    return replace(
        job,
        **{field: getattr(step, field) for field in _STEPS_OWN},
        nodes=nodes,
        max_nodes=job.max_nodes if uses_all_nodes else None,
        gpus_per_node=gpus or None,
        # A step has no totals, node names, or steps of its own.
        gpus=None,
        ntasks=None,
        nodelist=None,
        steps=(),
    )


class LaunchBuilder(SizeBuilder):
    """Settles what a launch needs besides its sizes. A job has one launch, or one for each step."""

    wandb: Optional[Export] = None
    code: Optional[CodeSnapshot] = None
    number = 0
    name = ""
    allow_failure = False

    def launch(self) -> Launch:
        """Return the launch, once the cores are settled."""
        request, launcher, place = self.request, self.launcher, self.place
        processes = self.processes
        # Some traits of a launcher apply only to several nodes or processes, or only to Python.
        applies = partial(
            launchers.holds,
            nodes=self.most_nodes,
            processes=self.most_nodes * processes,
            python=self.interactive or software.runs_python(request),
        )
        return Launch(
            request=request,
            nodes=self.nodes,
            most_nodes=self.most_nodes,
            ntasks_per_node=self.ntasks_per_node,
            cpus_per_task=self.cpus_per_task,
            gpus_per_node=self.gpus,
            processes_per_node=processes,
            launcher=launcher,
            rendezvous=applies(launcher.rendezvous),
            srun_options=self.cluster.policy.srun_options + (place.step_options if place else ()),
            wrapping=self._wrap(),
            program=software.program(request, launcher, macros=applies(launcher.macros)),
            exports=self._list_exports(),
            hosts=place.hosts if place else (),
            own_step=place is not None and place.is_share,
            number=self.number,
            step=self.name,
            allow_failure=self.allow_failure,
        )

    def _list_exports(self) -> Tuple[Export, ...]:
        processes = self.processes if self.launcher.distributed else 1
        return software.exports(
            self.request, self.cluster, cores=self.cores, processes=processes, wandb=self.wandb
        )

    def _wrap(self) -> Wrapping:
        """Return what the requested container adds to the launch; raise UsageError."""
        request = self.request
        if request.container is None:
            return Wrapping()
        runtime = self._choose_runtime(request.container)
        scratch = self.cluster.scratch
        scratch_words = None if scratch is None else Shell(scratch.replace("{user}", "$USER"))
        if self.code is not None:  # the copied code has links into the repository
            request = replace(request, binds=(*request.binds, self.code.root))
        gpu_option = "--rocm" if self.partitions[0].has_amd_gpus else "--nv"
        return RUNTIMES[runtime](request, scratch_words, gpu_option if self.gpus else "")

    def _choose_runtime(self, image: str) -> str:
        """Return the name of the container runtime; raise UsageError for an unknown one."""
        if self.request.container_runtime is not None:
            name = self.request.container_runtime
            self.keep_requested("container-runtime", name)
        elif image.endswith(".sqsh"):
            name = self.derive("container-runtime", "pyxis", "an Enroot squashfs image")
        else:
            name = self.cluster.containers.runtime
            self.decide("container-runtime", name, Source.CLUSTER)
        if name not in RUNTIMES:
            raise UsageError(
                f"--container-runtime: unknown container runtime '{name}'",
                "container runtimes are: " + ", ".join(RUNTIMES),
            )
        return name


class StepBuilder(LaunchBuilder):
    """Builds the launch of one step, or of one part of it. job: the builder of the whole job."""

    def __init__(
        self, step: StepRequest, share: Share, number: int, name: str, job: LaunchBuilder
    ) -> None:
        request = _step_request(step, share, job.request, name)
        super().__init__(request, job.cluster, interactive=False)
        self.step, self.share = step, share
        self.number, self.name = number, name
        self.code = job.code
        if software.imports_wandb(request):
            self.wandb = software.wandb_run(request, job.cluster, name)
        self.settle_tasks()
        if share.side_by_side and self.launcher.own_variables:
            raise UsageError(
                f"{name}: {self.launcher.name} starts its processes without srun, which keeps "
                "steps side by side apart",
                "use another launcher for it, or let it run before or after the others",
            )

    def step_launch(self, job_cores: int) -> Launch:
        """Return the launch. job_cores: the whole job's cores per node."""
        self.place = self._find_place(job_cores)
        self.cpus_per_task = self._count_cores_per_task()
        return self.launch()

    def _find_place(self, job_cores: int) -> AllocationPart:
        """Return the step's part of the allocation. job_cores: the whole job's cores per node."""
        step, share = self.step, self.share
        nodes = self.request.nodes or 1
        gpus = self.request.gpus_per_node or 0
        sizes = (step.nodes, step.ntasks_per_node, step.cpus_per_task, step.gpus_per_node)
        has_sizes = any(size is not None for size in sizes)
        options: Tuple[str, ...] = ()
        if gpus != share.job_gpus:
            option = "gres=gpu:" if self.cluster.policy.gpu_option == "gres" else "gpus-per-node="
            options += (f"--{option}{gpus}",)
        if share.side_by_side:
            # Without --mem=0, a step may take all of the job's memory, and the next one waits.
            options += ("--exact", "--mem=0")
        elif 1 < nodes < share.nodes:
            options += ("--relative=0",)  # the processes meet on the first node
        return AllocationPart(
            hosts=(),
            cores=share.count_cores(gpus, job_cores),
            step_options=options,
            is_share=share.side_by_side or has_sizes,
        )
