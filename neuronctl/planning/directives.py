"""The ``#SBATCH`` lines of a plan."""

from __future__ import annotations

from typing import Callable, List, Mapping, Optional, Tuple

from neuronctl.catalog.model import Policy
from neuronctl.planning.model import Directive
from neuronctl.request.job import JobRequest


def directives(
    request: JobRequest,
    policy: Policy,
    settled: Mapping[str, Optional[str]],
    *,
    gpus: int,
    interactive: bool,
    remark: Callable[[str], str],
) -> Tuple[Directive, ...]:
    """The options of sbatch or salloc, in the order people write them.

    settled: the values that planning decided, by option; the rest is as asked for. remark: the
    reason for an option's value, or "".
    """
    lines: List[Directive] = []

    def add(*options: str) -> None:
        for option in options:
            asked = getattr(request, option.replace("-", "_"), None)
            value = settled.get(option, asked)
            if value is True:
                lines.append(Directive(option))
            elif value:
                lines.append(Directive(option, value, remark(option)))

    add("job-name", "partition", "account", "qos", "nodes", "ntasks-per-node", "cpus-per-task")
    lines += _gpu_directives(request, policy, gpus, remark("gpus-per-node"))
    add("mem", "exclusive", "constraint", "reservation", "nodelist", "exclude", "time", "comment")
    add("dependency")
    if not interactive:
        lines += _batch_directives(request)
    add("signal", "mail-type", "mail-user", "chdir", "output", "error")
    for option in request.sbatch:
        name, equals, value = option.partition("=")
        lines.append(Directive(name, value if equals else None))
    return tuple(lines)


def _batch_directives(request: JobRequest) -> List[Directive]:
    """What salloc does not know (options.Option.batch_only), but for the log files."""
    lines = [] if request.array is None else [Directive("array", request.array)]
    if request.requeue is not None:
        lines.append(Directive("requeue" if request.requeue else "no-requeue"))
    if request.requeue and request.sbatch_value("open-mode") is None:
        lines.append(Directive("open-mode", "append", "a requeued job keeps its log"))
    return lines


def _gpu_directives(request: JobRequest, policy: Policy, gpus: int, reason: str) -> List[Directive]:
    lines = []
    amount = f"{request.gpu_type}:{gpus}" if request.gpu_type else str(gpus)
    # One spelling a site, whichever the user typed: what its own guide and staff use.
    option = policy.gpu_option
    others = list(request.gres)
    if gpus and option == "gres":
        others.insert(0, f"gpu:{amount}")
    elif gpus:
        lines.append(Directive("gpus-per-node", amount, reason))
    if others:
        remark = reason if gpus and option == "gres" else ""
        lines.append(Directive("gres", ",".join(others), remark))
    return lines
