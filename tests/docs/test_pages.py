"""The pages hang together: links lead somewhere, every page can be found, the codes are right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, Set, Type

import pytest
from doc_pages import LINK, ROOT, pages

from neuronctl.common import errors


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in target:
            name, _, heading = target.partition("#")
            file = page.parent / name if name else page
            assert file.exists(), f"{page}: {target}"
            assert not heading or heading in headings(file), f"{page}: {target}"


def headings(page: Path) -> Set[str]:
    """The names that GitHub, and the site, give the headings of a page."""
    text = re.sub(r"(?ms)^```.*?^```$", "", page.read_text(encoding="utf-8"))
    found = re.findall(r"(?m)^#+ (.+)$", text)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_every_page_can_be_found() -> None:
    """docs/README.md leads to every page below docs/."""
    docs = ROOT / "docs"
    index = LINK.findall((docs / "README.md").read_text(encoding="utf-8"))
    linked = {(docs / target).resolve() for target in index}
    assert {page for page in pages() if docs in page.parents} - {docs / "README.md"} <= linked


def error_classes(cls: Type[errors.NeuronctlError]) -> Set[Type[errors.NeuronctlError]]:
    return {cls}.union(*(error_classes(sub) for sub in cls.__subclasses__()))


def test_exit_codes_page_is_true() -> None:
    """Each row names the exceptions that end with its code: all of them and no others."""
    text = (ROOT / "docs/reference/exit-codes.md").read_text(encoding="utf-8")
    documented: Dict[str, Set[str]] = {}
    for code, row in re.findall(r"^\| (\d+) \|(.*)$", text, re.MULTILINE):
        documented[code] = set(re.findall(r"`(\w+Error)`", row))
    without = (0, errors.TIMED_OUT, errors.INTERRUPTED)
    expected: Dict[str, Set[str]] = {str(code): set() for code in without}
    for cls in error_classes(errors.NeuronctlError):
        if cls.__module__ == errors.__name__ and "exit_code" in vars(cls):
            expected.setdefault(str(cls.exit_code), set()).add(cls.__name__)
    assert documented == expected


def test_json_page_has_every_schema() -> None:
    """With the number that the command prints. The page's introduction describes errors."""
    name = r"neuronctl\.[a-z-]+/\d+"
    page = (ROOT / "docs/reference/json.md").read_text(encoding="utf-8")
    described = re.findall(rf"(?m)^(?:## |- \*\*`)({name})", page)
    code = "".join(file.read_text("utf-8") for file in (ROOT / "neuronctl").rglob("*.py"))
    printed = set(re.findall(rf"\b{name}", code))
    assert sorted(described) == sorted(printed - {"neuronctl.error/1"})
