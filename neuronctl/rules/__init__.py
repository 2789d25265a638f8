"""What the cluster will say: small pure functions, each with a stable code.

``check(context)`` runs them all and returns every finding. A rule looks at a plan and at the
machine it is to be submitted from; it never asks Slurm or the file system itself.
"""

from __future__ import annotations

from neuronctl.rules.base import Finding, LocalFacts, RuleContext
from neuronctl.rules.check import check

__all__ = ["Finding", "LocalFacts", "RuleContext", "check"]
