"""docs/ko follows the English pages: their sections, their code, and what was read of them.

A page begins with a comment: the English page, and a digest of each of its sections as it was when
somebody carried it over. ``pytest tests/docs --confirm-korean docs/ko/PAGE`` notes it anew.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import List, Tuple

import pytest
from doc_pages import LINK, ROOT

PAGES = sorted((ROOT / "docs/ko").glob("*.md"))
HEAD = re.compile(r"<!-- follows (\S+)((?: [0-9a-f]{6})*) -->\n")
BLOCK = re.compile(r"^```.*?^```\n", re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def read(page: Path) -> Tuple[str, str, List[str]]:
    """Return a Korean page's text, the English one's, and the noted digests."""
    text = page.read_text(encoding="utf-8")
    head = HEAD.match(text)
    assert head is not None, f"{name_of(page)} does not begin with <!-- follows docs/… -->"
    return text, (ROOT / head[1]).read_text(encoding="utf-8"), head[2].split()


def sections(text: str) -> List[Tuple[str, str]]:
    """Return each heading with the text below it, without code, however its lines are broken."""
    words = re.sub(r"<!--.*?-->", "", BLOCK.sub("", text))
    parts = re.split(r"^(#+ .*)$", words, flags=re.MULTILINE)
    return [(head, " ".join(body.split())) for head, body in zip(parts[1::2], parts[2::2])]


def digests(english: str) -> List[str]:
    return [hashlib.sha256("".join(each).encode()).hexdigest()[:6] for each in sections(english)]


def commands(block: str) -> List[str]:
    """Return a console block's command lines; of any other block all, without shell remarks."""
    if not block.startswith("```console"):
        return [re.sub(r"  +# .*", "", line) for line in block.splitlines()]
    return re.findall(r"^\$ (?:.*\\\n)*.*$", block, re.MULTILINE)


def is_same(korean: str, english: str) -> bool:
    """Whether two blocks are alike; in the Korean one ``...`` stands for output left out."""
    if commands(korean) != commands(english):
        return False
    parts = map(re.escape, re.split(r"^\.\.\.\n", korean, flags=re.MULTILINE))
    shown = re.fullmatch(r"(?:.*\n)*".join(parts), english)
    return not korean.startswith("```console") or shown is not None


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_nothing_has_changed_since_it_was_carried_over(
    page: Path, pytestconfig: pytest.Config
) -> None:
    text, english, noted = read(page)
    if name_of(page) in pytestconfig.getoption("--confirm-korean"):
        head = f"<!-- follows {HEAD.match(text)[1]} {' '.join(digests(english))} -->\n"  # type: ignore[index]
        page.write_text(HEAD.sub(head, text, count=1), encoding="utf-8")
        return
    now = zip(sections(english), digests(english))
    changed = [head for (head, _), digest in now if digest not in noted]
    assert not changed and len(noted) == len(digests(english)), (
        f"carry over to {name_of(page)} what changed in English below {changed}, "
        f"then: pytest tests/docs --confirm-korean {name_of(page)}"
    )


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_code_is_the_same(page: Path, update_docs: bool) -> None:
    text, english, _ = read(page)
    mine, theirs = BLOCK.findall(text), BLOCK.findall(english)
    assert len(mine) == len(theirs), f"{name_of(page)}: a block of code is missing, or one too many"
    for korean, block in zip(mine, theirs):
        if update_docs and commands(korean) == commands(block) and not is_same(korean, block):
            text = text.replace(korean, block)  # the program's output has changed, no text
            page.write_text(text, encoding="utf-8")
        else:
            assert is_same(korean, block), f"{name_of(page)}: 'make docs' brings output up to date"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_headings_have_the_same_levels(page: Path) -> None:
    text, english, _ = read(page)
    levels = [[head.split()[0] for head, _ in sections(each)] for each in (text, english)]
    assert levels[0] == levels[1]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_headings(page: Path) -> None:
    """As GitHub makes anchors: small letters, no punctuation, a hyphen for a blank."""
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        file, _, anchor = target.partition("#")
        if anchor and "://" not in target:
            to = (page.parent / file if file else page).read_text(encoding="utf-8")
            heads = [re.sub(r"^#+ ", "", head).lower() for head, _ in sections(to)]
            anchors = [re.sub(r"[^\w -]", "", head).replace(" ", "-") for head in heads]
            assert anchor in anchors, f"{name_of(page)}: {target}"
