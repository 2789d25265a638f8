"""The values of a plan that are settled, each with its reason."""

from __future__ import annotations

from typing import Dict, TypeVar

from neuronctl.planning.model import Decision
from neuronctl.request.job import JobRequest, Source

T = TypeVar("T")

# Directives that get a remark with their derivation.
_REMARKED = (
    *("partition", "nodes", "ntasks-per-node", "cpus-per-task", "gpus-per-node", "time", "signal"),
)


class Decisions:
    """Collects the decisions of one plan."""

    def __init__(self, request: JobRequest) -> None:
        self.request = request
        self.decisions: Dict[str, Decision] = {}

    def decide(self, name: str, value: T, source: Source, reason: str) -> T:
        """Record a value, and return it."""
        self.decisions[name] = Decision(name, str(value), source, reason)
        return value

    def derived(self, name: str, value: T, reason: str = "") -> T:
        """Record a value that follows from others, and return it."""
        return self.decide(name, value, Source.DERIVED, reason)

    def asked(self, name: str, field: str, value: T) -> T:
        """Record a value that the request itself carries, and return it."""
        origin = self.request.origin(field)
        return self.decide(name, value, origin.source, origin.where)

    def remark(self, name: str) -> str:
        """Return the remark on a directive: how its value comes about; "" for most."""
        decision = self.decisions.get(name)
        if decision is None or name not in _REMARKED:
            return ""
        reason = decision.reason if decision.source in (Source.DERIVED, Source.CLUSTER) else ""
        memory = self.decisions.get("memory per node")
        if name == "cpus-per-task" and memory is not None:
            reason += f"{'; ' if reason else ''}{memory.value} of memory per node"
        return reason
