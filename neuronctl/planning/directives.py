"""The ``#SBATCH`` lines of a plan."""

from __future__ import annotations

from typing import Callable, List, Mapping, Optional, Tuple, Union

from neuronctl.catalog.model import Policy
from neuronctl.planning.model import Directive
from neuronctl.request.job import OF_SLURM, JobRequest


def directives(
    request: JobRequest,
    policy: Policy,
    settled: Mapping[str, Union[str, bool, None]],
    *,
    gpus: int,
    interactive: bool,
    remark: Callable[[str], str],
) -> Tuple[Directive, ...]:
    """Return the options of sbatch or salloc, in the order of the table in request/job.py.

    settled: the values that planning decided, by option; the rest is as asked for. remark: the
    reason for an option's value, or "".
    """
    # Each site has one way to request tasks and one for GPUs, whatever the user typed.
    settled = {"ntasks": None, "gpus": None, **_gpus(request, policy, gpus), **settled}
    lines: List[Directive] = []
    for name, option in OF_SLURM.items():
        if interactive and option.batch_only:
            continue
        value = settled[name] if name in settled else getattr(request, option.field)
        if isinstance(value, bool):
            if value or option.kind == "switch":
                lines.append(Directive(name if value else f"no-{name}"))
        elif value:
            held = "gpus-per-node" if name == "gres" and gpus else name
            lines.append(Directive(name, value, remark(held)))
        if name == "requeue" and value and request.sbatch_value("open-mode") is None:
            lines.append(Directive("open-mode", "append", "a requeued job keeps its log"))
    for text in request.sbatch:
        name, equals, value = text.partition("=")
        lines.append(Directive(name, value if equals else None))
    return tuple(lines)


def _gpus(request: JobRequest, policy: Policy, gpus: int) -> Mapping[str, Optional[str]]:
    """Return the values of the GPU options, spelled as the site's guide spells them."""
    amount = f"{request.gpu_type}:{gpus}" if request.gpu_type else str(gpus)
    by_gres = gpus and policy.gpu_option == "gres"
    others = [f"gpu:{amount}", *request.gres] if by_gres else request.gres
    return {"gpus-per-node": amount if gpus and not by_gres else None, "gres": ",".join(others)}
