"""neuronctl: plan, check, submit and track GPU training jobs on Slurm.

Its functions are those of neuronctl.library, which is imported when one of them is used:
``neuronctl.plan``, ``neuronctl.submit``, ``neuronctl.status``.
"""

from __future__ import annotations

from neuronctl.version import __version__ as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from neuronctl.library import *  # noqa: F403

# neuronctl.library.__all__, also here: Python asks a package for each of its modules before it
# imports it, and that must not import the library.
_LIBRARY = (
    *("history", "judge", "plan", "render", "status", "submit", "wait", "why"),
    *("Diagnosis", "Finding", "JobPlan", "JobRecord", "JobStatus", "Judgement", "Submission"),
    *("CatalogError", "JobFileError", "NeuronctlError", "NoSuchJobError", "PolicyError"),
    *("RecordError", "SlurmRefusedError", "SlurmUnavailableError", "TemplateError", "UsageError"),
)


def __getattr__(name: str) -> Any:
    if name not in _LIBRARY:
        raise AttributeError(f"module 'neuronctl' has no attribute '{name}'")
    import neuronctl.library as library

    return getattr(library, name)
