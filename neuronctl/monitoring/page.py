"""The page, or the picture, of a job's report: one file, which needs no network."""

from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

from neuronctl.common.frozen import dataclass
from neuronctl.common.words import amount, counted, duration, moment, percent
from neuronctl.monitoring.advice import JobUse, advise
from neuronctl.monitoring.marks import Mark
from neuronctl.monitoring.samples import PARTS, Curve, GpuUse, over_runs, without_holes
from neuronctl.rendering.template_environment import for_pages

_TALL = 40
_MOST_CURVES = 32
"""Above so many GPUs, each is a row of a heat map."""


@dataclass(frozen=True)
class Line:
    """One curve of the page: of what, in words for those who do not see it, and as SVG has it.

    points: polylines, one for each stretch without a gap. cells: for a heat map, (opacity, path)
    of what is about as high; where there are no samples, there is nothing.
    """

    title: str
    words: str
    points: Tuple[str, ...]
    cells: Tuple[Tuple[float, str], ...]


def report_page(
    job: JobUse, figures: List[Tuple[str, str]], form: str = "html", marks: Sequence[Mark] = ()
) -> str:
    """The page as ``html`` or ``svg``.

    figures: what is known of the whole job, in words. marks: moments that its log tells.
    """
    nodes = over_runs(job.nodes)
    all_gpus = [gpu for node in nodes for gpu in node.gpus]
    gpus = [
        _line(
            job.place(gpu),
            _use_words(gpu),
            gpu.curve,
            100,
            gpu.samples,
        )
        for gpu in all_gpus
    ]
    gpu_memory = [
        _line(
            job.place(gpu),
            f"at most {(gpu.memory_peak or 0) / 1024:.1f} GiB",
            gpu.memory_curve,
            gpu.memory or 1,
            gpu.samples,
        )
        for gpu in all_gpus
        if gpu.memory_peak is not None
    ]
    cores = [
        _line(
            node.node,
            f"{node.cores_busy or 0:.1f} of {node.cores or '?'} cores busy",
            node.curve,
            node.cores or _most(node.curve),
            node.samples,
        )
        for node in nodes
    ]
    memory = [
        _line(
            node.node,
            f"at most {amount(node.memory_peak)}",
            node.memory_curve,
            node.memory or node.memory_peak or 1,
            node.samples,
        )
        for node in nodes
    ]
    first = min((node.first for node in nodes), default=0)
    last = max((node.last for node in nodes), default=0)
    sections = [
        ("GPU use", "100 % is the top: a kernel ran all the time", gpus),
        ("GPU memory", "the top is all of the GPU's memory", gpu_memory),
        ("Cores in use", "the top is all cores that the job held", cores),
        ("Memory", "the top is what the job may use, or its own peak", memory),
    ]
    return (
        for_pages()
        .get_template(f"report.{form}.j2")
        .render(
            job=job.status,
            figures=figures,
            advice=[f"{text[0].upper()}{text[1:]}." for text in advise(job)],
            sections=[section for section in sections if section[2]],
            heat=len(all_gpus) > _MOST_CURVES or len(nodes) > _MOST_CURVES,
            parts=PARTS,
            tall=_TALL,
            begin=moment(first),
            end=moment(last),
            took=duration(last - first),
            marks=[
                (_part(mark.at, first, last), moment(mark.at, seconds=True), mark.words)
                for mark in marks
            ],
        )
    )


def _use_words(gpu: GpuUse) -> str:
    words = "use not known"
    if gpu.use is not None:
        words = f"in use {percent(gpu.use / 100)}, idle {percent(gpu.idle or 0)}"
    return words + (f", {counted(gpu.processes, 'process')}" if gpu.processes else "")


def _part(at: float, first: float, last: float) -> float:
    """Where in a curve a moment is."""
    return round(min(PARTS - 0.5, (at - first) * PARTS / max(last - first, 1)), 1)


def _most(curve: Curve) -> float:
    return max((value for value in curve if value is not None), default=1) or 1


def _line(title: str, words: str, curve: Curve, most: float, samples: int) -> Line:
    whole = without_holes(curve, samples)
    stretches: List[List[str]] = [[]]
    cells: Dict[float, str] = {}
    wide = max(1, PARTS // 60)
    for part, value in enumerate(curve):
        if whole[part] is None:
            stretches.append([])
        if value is None:
            continue
        share = min(1.0, max(0.0, value / most))
        stretches[-1].append(f"{part},{_TALL - share * _TALL:.1f}")
    for start in range(0, len(curve), wide):
        known = [value for value in whole[start : start + wide] if value is not None]
        if known:
            share = min(1.0, max(0.0, sum(known) / len(known) / most))
            opacity = round(0.1 + 0.9 * share, 1)  # idle is not the same as without samples
            cells[opacity] = cells.get(opacity, "") + f"M{start} 0h{wide}v{_TALL}h-{wide}z"
    points = tuple(
        " ".join(stretch if len(stretch) > 1 else stretch * 2) for stretch in stretches if stretch
    )
    return Line(title, words, points, tuple(cells.items()))
