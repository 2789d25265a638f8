"""The pages of the documentation that ``neuronctl help`` shows."""

from __future__ import annotations

import os
from typing import Dict

from neuronctl.paths import data_path

_FOLDERS = ("docs/how-to", "docs/explanation")


def topics() -> Dict[str, str]:
    """Topic -> its file."""
    found = {}
    for folder in map(data_path, _FOLDERS):
        for name in sorted(os.listdir(folder)):
            if name.endswith(".md"):
                found[name[:-3]] = os.path.join(folder, name)
    return found
