"""The pages of the documentation that ``neuronctl help`` shows."""

from __future__ import annotations

import os
from typing import Dict

from neuronctl.cli import COMMANDS
from neuronctl.common.paths import data_path

_FOLDERS = ("tutorial", "how-to", "explanation", "reference")


def topics() -> Dict[str, str]:
    """Topic -> its file. A page that is called as a command is ``reference/config``."""
    found = {}
    for folder in _FOLDERS:
        directory = data_path(f"docs/{folder}")
        for name in sorted(os.listdir(directory)):
            topic, end = os.path.splitext(name)
            if end == ".md":
                topic = f"{folder}/{topic}" if topic in COMMANDS else topic
                found[topic] = os.path.join(directory, name)
    return found
