"""neuronctl: plan, check, submit, and track GPU training jobs on Slurm.

The package offers the names of neuronctl.library, such as ``neuronctl.submit``; it imports the
library at the first use of one.
"""

from __future__ import annotations

import os

from neuronctl.version import __version__ as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from neuronctl.library import *  # noqa: F403


def __getattr__(name: str) -> Any:
    # `from neuronctl import cli` looks for this attribute first; it must not import the library.
    module = os.path.join(os.path.dirname(__file__), name)
    if not (name.startswith("__") or os.path.exists(f"{module}.py") or os.path.isdir(module)):
        import neuronctl.library as library

        if name in library.__all__:
            return getattr(library, name)
    raise AttributeError(f"module 'neuronctl' has no attribute '{name}'")
