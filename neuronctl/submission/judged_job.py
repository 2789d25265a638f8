"""A planned and judged job: its findings, and what its record keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from neuronctl.common.datatypes import asdict, dataclass, replace
from neuronctl.common.errors import PolicyError
from neuronctl.common.words import counted
from neuronctl.planning import JobPlan
from neuronctl.request.job import OF_SLURM

if TYPE_CHECKING:
    from neuronctl.judgement.partition_choice import Choice
    from neuronctl.judgement.verdict import Verdict
    from neuronctl.records.job_record import RecordDraft
    from neuronctl.rules.base import Finding


def stored_request(plan: JobPlan) -> Dict[str, Any]:
    """Return the request of a plan as a record stores it, without secrets."""
    env = tuple(pair for pair in plan.request.env if pair[0] not in plan.secrets)
    request = asdict(replace(plan.request, origins={}, env=env, typed_dependency=None))
    return {name: value for name, value in request.items() if value not in (None, (), {})}


@dataclass(frozen=True)
class JudgedJob:
    """A planned and judged job. Nothing has been done with it yet.

    verdict: what would happen to the job now; None where Slurm is not asked (``generate``). choice:
    with ``-p auto``, how its partition was chosen. existing_script: whether the script is not one
    of neuronctl's; it then starts what it starts.
    """

    plan: JobPlan
    findings: Tuple[Finding, ...]
    verdict: Optional[Verdict] = None
    choice: Optional[Choice] = None
    warnings: Tuple[str, ...] = ()
    existing_script: bool = False

    @property
    def errors(self) -> Tuple[Finding, ...]:
        """Return the findings that refuse the job."""
        return tuple(finding for finding in self.findings if finding.refuses)

    @property
    def decisions(self) -> Tuple[Tuple[str, ...], ...]:
        """The plan's values as rows; of an existing script, those that Slurm is told."""
        decisions = self.plan.decisions
        return tuple(
            decision.row
            for decision in decisions
            if not self.existing_script or decision.name in OF_SLURM
        )

    def refusal(self, hint: str = "") -> PolicyError:
        """Return what to raise where there are errors.

        hint: how to override them, left out where Slurm itself refuses the job.
        """
        count = counted(len(self.errors), "error")
        final = any(finding.by_slurm for finding in self.errors)
        return PolicyError(f"refused: {count}; nothing was done", "" if final else hint)

    def recorded(self, draft: RecordDraft) -> RecordDraft:
        """Return the record of a job with what is known of it once it is judged."""
        plan = self.plan
        request = stored_request(plan)
        for name in ("sweep", *(("launcher", "script") if self.existing_script else ())):
            request.pop(name, None)
        return replace(
            draft,
            request={**request, **draft.request},
            exported=tuple(plan.secrets),
            partition=plan.partition_list,
            nodes=plan.nodes,
            gpus_per_node=plan.gpus_per_node,
            time_limit=plan.time_limit,
            catalog_cluster=plan.cluster.name,
            catalog_date=plan.cluster.date,
            decisions=self.decisions,
            findings=tuple(finding.row for finding in self.findings),
            forced=bool(self.errors),
            verdict="" if self.verdict is None else str(self.verdict),
        )
