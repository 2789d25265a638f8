"""The site has every page, without anybody naming it twice. ``make site`` itself checks links."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Dict

import pytest
from doc_pages import LINK, ROOT, pages


@pytest.fixture(scope="module")
def site() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_build", ROOT / "tools/site/build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def done(site: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Dict[str, str]:
    found: Dict[str, str] = {}
    site.stage("docs/README.md", tmp_path_factory.mktemp("site"), found)
    return found


def test_every_page_is_in_the_site_and_its_navigation(
    site: ModuleType, done: Dict[str, str]
) -> None:
    ours = {str(page.relative_to(ROOT)) for page in pages() if ROOT / "docs" in page.parents}
    assert ours <= set(done)
    listed = {page for _, part in site.read_sections("docs/README.md") for _, page in part}
    assert ours - {"docs/README.md"} <= listed
    nav = str(site.make_navigation(site.read_sections("docs/README.md")))
    assert all(repr(done[page]) in nav for page in listed)


def test_links_lead_to_what_is_staged(site: ModuleType, tmp_path: Path) -> None:
    """Also from a page beside docs/, and to an example."""
    found: Dict[str, str] = {}
    site.stage("docs/README.md", tmp_path, found)
    assert "project/README.md" in found.values() and "project/examples/saves.c" in found.values()
    for name in found.values():
        if name.endswith(".md"):
            page = tmp_path / name
            for target in LINK.findall(page.read_text(encoding="utf-8")):
                path = target.split("#")[0]
                left = path.endswith("/") or "://" in path
                assert left or not path or (page.parent / path).exists(), f"{name}: {target}"


def test_llms_txt_lists_the_pages(site: ModuleType) -> None:
    text = site.make_overview("name", "what it is", site.read_sections("docs/README.md"))
    assert text.startswith("# name\n\n> what it is\n\n## Begin\n\n- [Install](project/README.md)")
    assert "](reference/commands.md)" in text and "](project/CHANGELOG.md)" in text


def test_only_what_is_typed_is_copied(site: ModuleType) -> None:
    """As zensical marks a console block: tags around words, and entities."""
    shown = "<span>$ </span>echo &quot;a&quot; \\\n&gt; b\nits output\n$ <b>exit</b>\n"
    page = f'<div class="language-console highlight"><pre><code>{shown}</code></pre></div>'
    typed = "echo &quot;a&quot; \\\n&gt; b\nexit"
    assert f'highlight" data-copy="{typed}"><pre>' in site.mark_copied_commands(page)


def test_a_page_leads_to_its_translation(site: ModuleType) -> None:
    english = site.add_language_link("docs/tutorial/a-sweep.md", "# A sweep\n\nWords.\n")
    assert english == "# A sweep\n\n[한국어](../ko/a-sweep.md)\n\nWords.\n"
    assert site.add_language_link("docs/reference/json.md", "# JSON\n") == "# JSON\n"


def test_what_is_not_for_users_is_not_searched(site: ModuleType) -> None:
    assert "exclude: true" in site.make_front_matter(
        "project/CHANGELOG.md", "# Changes\n\nWords.\n"
    )
    head = site.make_front_matter("how-to/ray.md", "# Ray\n\nRuns `ray` [here](x.md).\n\nMore.\n")
    assert head == '---\ndescription: "Runs ray here."\n---\n'


def test_the_search_also_finds_pages_without_some_of_the_words(site: ModuleType) -> None:
    """A change of zensical that the search no longer fits ends ``make site``."""
    worker = 'case 2:let l=J({type:"text",data:t.data});self.postMessage(l)'
    assert site.loosen_search(worker).endswith("let l=answer(J,t.data);self.postMessage(l)")
    with pytest.raises(SystemExit, match="adapt SEARCH"):
        site.loosen_search("case 2:let l=J(t.data)")
