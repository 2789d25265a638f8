"""CONTRIBUTING.md names the files in which a fact of each kind stands, and no fact has more."""

from __future__ import annotations

import re
from typing import List

import pytest
import yaml
from doc_pages import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ROWS = re.findall(r"(?m)^\| (an? [^|]+) \| `([^`]+)` \| (.+) \|$", TEXT)

CATALOG = yaml.safe_load((ROOT / "partitions.yaml").read_text(encoding="utf-8"))
TITLES = [cluster["title"] for cluster in CATALOG["clusters"].values()]


def files_with(word: str) -> List[str]:
    """The files of the program and its reference that contain the word."""
    found = [ROOT / "partitions.yaml"]
    for folder, pattern in (
        ("neuronctl", "*.py"),
        ("neuronctl", "causes.yaml"),
        ("templates", "*.j2"),
        ("templates", "*.yaml"),
        ("docs/reference", "*.md"),
    ):
        found += (ROOT / folder).rglob(pattern)
    whole = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])")
    return sorted(
        str(path.relative_to(ROOT))
        for path in found
        if whole.search(path.read_text(encoding="utf-8"))
    )


def test_each_kind_has_an_example() -> None:
    assert len(ROWS) == len(re.findall(r"(?m)^\| an? ", TEXT)) >= 7


@pytest.mark.parametrize(("kind", "example", "files"), ROWS, ids=[row[0] for row in ROWS])
def test_the_example_stands_in_these_files_alone(kind: str, example: str, files: str) -> None:
    assert files_with(example) == sorted(re.findall("`([^`]+)`", files)), kind


@pytest.mark.parametrize("page", ["README.md", "docs/ko/README.md", "docs/reference/catalog.md"])
@pytest.mark.parametrize("title", TITLES)
def test_each_cluster_is_named(page: str, title: str) -> None:
    """Without its site and the year of an older guide."""
    name = title.partition(" as of ")[0].split(" ", 1)[1]
    assert name in (ROOT / page).read_text(encoding="utf-8")
