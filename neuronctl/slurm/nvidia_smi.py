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
"""Figure -> nvidia-smi's field, and the unit that its column must have; None: it has no unit."""

SURVEYED = tuple(FIGURES)
"""What top asks for."""

SAMPLED = tuple(figure for figure in FIGURES if figure not in ("name", "heat"))
"""What --monitor samples."""


def query(*figures: str) -> str:
    """Return the figures as --query-gpu takes them."""
    return ",".join(FIGURES[figure][0] for figure in figures)


def gpu_columns(header: str) -> Dict[str, int]:
    """Return the column of each figure that has its usual unit, such as ``{"power": 3}``."""
    figure_by_field = {field: (figure, unit) for figure, (field, unit) in FIGURES.items()}
    columns: Dict[str, int] = {}
    for place, title in enumerate(header.split(",")):
        match = re.fullmatch(r" *(?P<field>[\w.]+)(?: \[(?P<unit>.*)\])? *", title)
        if match is not None and match["field"] in figure_by_field:
            figure, unit = figure_by_field[match["field"]]
            if match["unit"] in (None, unit):
                columns.setdefault(figure, place)
    return columns
