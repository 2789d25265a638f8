"""Every line of the tutorial on old scripts, typed one after the other on a cluster of its own."""

from __future__ import annotations

import re
from typing import Iterator, List

import pytest
from doc_pages import ROOT, Example, examples
from harness import Sandbox, sandbox_up

PAGE = ROOT / "docs" / "tutorial" / "bring-your-own-scripts.md"
MARK = "@@@"


@pytest.fixture
def cluster(slurm_there: None) -> Iterator[Sandbox]:
    """As ``neuronctl sandbox up`` makes it, so that the first job is job 1."""
    with sandbox_up("tutorial") as made:
        yield made


def typed() -> List[Example]:
    """What is typed on the login node."""
    return [one for one in examples(PAGE) if "sandbox" not in one.command and one.command != "exit"]


def plain(text: str) -> str:
    """What differs from one run to the next, made alike."""
    text = re.sub(r"(\d{4}-)?\d\d-\d\d \d\d:\d\d", "DATE", text)
    text = re.sub(r"\b\d+:\d\d(?=/)|\b\d+ s\b", "TIME", text)
    return re.sub(r" +", " ", text)


@pytest.mark.long
def test_every_line_does_what_the_page_shows(cluster: Sandbox, update_docs: bool) -> None:
    lines = typed()
    script = "".join(f"{one.command} 2>&1\necho {MARK} $?\n" for one in lines)
    cluster.exec(["true"], copy=[str(ROOT / "examples" / "old-scripts")])
    result = cluster.exec(["bash", "-s"], input=script, check=False)
    printed = re.split(rf"^{MARK} (\d+)\n", result.stdout, flags=re.MULTILINE)[:-1]
    outputs, codes = printed[::2], printed[1::2]
    assert len(outputs) == len(lines), result.stdout + result.stderr
    outputs = [text.replace(str(ROOT), "~/neuronctl") for text in outputs]
    for one, text, code in zip(lines, outputs, codes):
        assert code in ("0", "4"), f"{one}: {one.command}: exit code {code}\n{text}"
    if update_docs:
        page = PAGE.read_text("utf-8").splitlines(keepends=True)
        for one, text in reversed(list(zip(lines, outputs))):
            if "...\n" not in one.output:
                page[one.start : one.start + one.output.count("\n")] = [text]
        PAGE.write_text("".join(page), "utf-8")
        return
    for one, text in zip(lines, outputs):
        parts = re.split(r"^\.\.\.\n", plain(one.output), flags=re.MULTILINE)
        pattern = r"(?:.*\n)*".join(re.escape(part) for part in parts)
        assert re.fullmatch(pattern, plain(text)), f"{one}: {one.command}\n{text}"
