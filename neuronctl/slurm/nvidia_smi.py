"""The figures that nvidia-smi is asked for, and the columns of its answer. Pure."""

from __future__ import annotations

import re
from typing import Dict, Mapping, Optional, Tuple

FIGURES: Mapping[str, Tuple[str, Optional[str]]] = {
    "index": ("index", None),
    "name": ("name", None),
    "use": ("utilization.gpu", "%"),
    "memory": ("memory.used", "MiB"),
    "whole": ("memory.total", "MiB"),
    "power": ("power.draw", "W"),
    "heat": ("temperature.gpu", None),
}
"""Each figure by the name of its field, and the unit in which it is read."""

SURVEYED = tuple(FIGURES)
"""What top asks for."""

SAMPLED = tuple(figure for figure in FIGURES if figure not in ("name", "heat"))
"""What --monitor samples."""


def query(*figures: str) -> str:
    """Return the figures as --query-gpu takes them."""
    return ",".join(FIGURES[figure][0] for figure in figures)


def gpu_columns(header: str) -> Dict[str, int]:
    """Return the columns of figures in their usual units, such as ``{"power": 3}``."""
    figures = {field: (figure, unit) for figure, (field, unit) in FIGURES.items()}
    columns: Dict[str, int] = {}
    for place, title in enumerate(header.split(",")):
        match = re.fullmatch(r" *([\w.]+)(?: \[(.*)\])? *", title)
        if match is not None and match[1] in figures:
            figure, unit = figures[match[1]]
            if match[2] in (None, unit):
                columns.setdefault(figure, place)
    return columns
