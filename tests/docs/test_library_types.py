"""What mypy knows of the library's options is made of their table, and catches what is misspelt."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from neuronctl.request.job import OPTIONS

PROGRAM = """\
import neuronctl

plan = neuronctl.plan("train.py", ["--lr", "0.1"], {options})
job = neuronctl.submit(plan)
print(job.wait(timeout=3) + 1, neuronctl.wait_any([job]).state, neuronctl.status(job)[0].node_list)
"""
RIGHT = 'nodes=2, gpus_per_node=1, time="1:00:00", env={"A": 1}, requeue=True, module=["gcc/11"]'


def keywords() -> str:
    lines = [
        '"""The options of ``plan()`` for type checkers; ``make docs`` writes this file."""\n',
        "from __future__ import annotations\n",
        "from typing import TYPE_CHECKING, Mapping, Optional, Sequence, TypedDict, Union\n",
        "if TYPE_CHECKING:",
        "    from os import PathLike\n",
        '    Text = Union[str, int, "PathLike[str]", None]',
        "    Texts = Union[str, Sequence[object], Mapping[str, object], None]\n\n",
        "class JobKeywords(TypedDict, total=False):",
        '    """Each option of ``neuronctl submit`` by its long name, with ``_`` for ``-``."""\n',
    ]
    kinds = {"value": "Text", "list": "Texts"}
    for option in sorted(OPTIONS, key=lambda one: one.long):
        kind = kinds.get(option.kind, "Optional[bool]")
        lines.append(f"    {option.long.replace('-', '_')}: {kind}")
    return "\n".join(lines) + "\n"


def test_the_keywords_are_those_of_the_options(root: Path, update_docs: bool) -> None:
    file = root / "neuronctl" / "request" / "keywords.py"
    if update_docs:
        file.write_text(keywords(), encoding="utf-8")
    assert file.read_text(encoding="utf-8") == keywords(), "make docs writes it anew"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (RIGHT, ""),
        ("gpu_per_node=1", 'Unexpected keyword argument "gpu_per_node"'),
        ('requeue="yes"', "incompatible type"),
        ("module=1", "incompatible type"),
    ],
)
def test_mypy_reads_a_call(root: Path, tmp_path: Path, options: str, said: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(PROGRAM.format(options=options), encoding="utf-8")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(file)],
        cwd=root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said in checked.stdout and (checked.returncode != 0) == bool(said), checked.stdout
