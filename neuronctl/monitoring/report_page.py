"""The page of a job's report: one file, which needs no network."""

from __future__ import annotations

from typing import List, Sequence, Tuple

from neuronctl.common.frozen import dataclass
from neuronctl.common.words import amount, duration, moment, percent
from neuronctl.monitoring.advice import JobUse, advise
from neuronctl.monitoring.samples import PARTS, Curve, GpuUse, NodeUse, fill_holes
from neuronctl.rendering.template_environment import page_templates

_TALL = 40
_MOST = 64
"""Curves of one kind that a page has room for: those that were used least."""


@dataclass(frozen=True)
class Line:
    """One curve: of what, in words for those who do not see it, and as polylines without gaps."""

    title: str
    words: str
    points: Tuple[str, ...]


def report_page(job: JobUse, figures: List[Tuple[str, str]]) -> str:
    """Return the page of a job's last run; ``figures`` is what is known of the job, in words."""
    nodes = sorted(job.last_nodes, key=lambda node: node.cores_busy or 0.0)[:_MOST]
    gpus = sorted(job.last_gpus, key=lambda gpu: gpu.use or 0.0)[:_MOST]
    first = min((node.first for node in nodes), default=0)
    last = max((node.last for node in nodes), default=0)
    sections = [
        ("GPU use", "100 % is the top: a kernel ran all the time", _use_lines(job, gpus)),
        ("GPU memory", "the top is all of the GPU's memory", _gpu_memory_lines(job, gpus)),
        ("Cores in use", "the top is all cores that the job held", _cores_lines(nodes)),
        ("Memory", "the top is what the job may use, or its own peak", _memory_lines(nodes)),
    ]
    return (
        page_templates()
        .get_template("report.html.j2")
        .render(
            job=job.status,
            figures=figures,
            advice=[f"{text[0].upper()}{text[1:]}." for text in advise(job)],
            sections=[section for section in sections if section[2]],
            parts=PARTS,
            tall=_TALL,
            begin=moment(first),
            end=moment(last),
            took=duration(last - first),
        )
    )


def _use_lines(job: JobUse, gpus: Sequence[GpuUse]) -> List[Line]:
    lines = []
    for gpu in gpus:
        words = "use not known"
        if gpu.use is not None:
            words = f"in use {percent(gpu.use / 100)}, idle {percent(gpu.idle or 0)}"
        lines.append(_line(job.place(gpu), words, gpu.curve, 100, gpu.samples))
    return lines


def _gpu_memory_lines(job: JobUse, gpus: Sequence[GpuUse]) -> List[Line]:
    return [
        _line(
            job.place(gpu),
            f"at most {gpu.memory_peak / 1024:.1f} GiB",
            gpu.memory_curve,
            gpu.memory or 1,
            gpu.samples,
        )
        for gpu in gpus
        if gpu.memory_peak is not None
    ]


def _cores_lines(nodes: Sequence[NodeUse]) -> List[Line]:
    lines = []
    for node in nodes:
        most = max((value for value in node.curve if value is not None), default=1) or 1
        words = f"{node.cores_busy or 0:.1f} of {node.cores or '?'} cores busy"
        lines.append(_line(node.node, words, node.curve, node.cores or most, node.samples))
    return lines


def _memory_lines(nodes: Sequence[NodeUse]) -> List[Line]:
    return [
        _line(
            node.node,
            f"at most {amount(node.memory_peak)}",
            node.memory_curve,
            node.memory or node.memory_peak or 1,
            node.samples,
        )
        for node in nodes
    ]


def _line(title: str, words: str, curve: Curve, most: float, samples: int) -> Line:
    whole = fill_holes(curve, samples)
    stretches: List[List[str]] = [[]]
    for part, value in enumerate(curve):
        if whole[part] is None:
            stretches.append([])
        if value is not None:
            share = min(1.0, max(0.0, value / most))
            stretches[-1].append(f"{part},{_TALL - share * _TALL:.1f}")
    points = tuple(
        " ".join(stretch if len(stretch) > 1 else stretch * 2) for stretch in stretches if stretch
    )
    return Line(title, words, points)
