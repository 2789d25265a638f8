"""Build the documentation as a site: docs/ as it is, and the pages beside it that it links to.

    python tools/site/build.py OUT [URL]      with a Python that has zensical

docs/README.md is the start page, and its lists of links are the navigation: a page that it names
needs no other entry. zensical takes pages from one directory, so this program copies them to
build/site and rewrites their links. zensical runs twice, the second time with its interface in
Korean, for docs/ko. URL: the address of the site; the sitemap, canonical links, and the page for
wrong addresses need it.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Tuple

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
FENCE = re.compile(r"(?m)^```(\w+) (\S+\.\w+)$")
FOLLOWS = re.compile(r"<!-- follows (\S+)")
CONSOLE = re.compile(r'(<div class="language-console highlight")(>.*?<code>(.*?)</code>)', re.S)
SEARCH = re.compile(r'let (\w+)=(\w+)\(\{type:"text",data:(\w+)\.data\}\)')
TYPED = re.compile(r"(?m)^\$ ((?:.*\\\n)*.*)$")
KOREAN = "한국어"
LOST = "<p>The page may have moved. Search for it above, or choose one from the list.</p>"
Section = Tuple[str, List[Tuple[str, str]]]


def name_in_site(path: str) -> str:
    """Return the path in the site of a file of the repository."""
    return path[len("docs/") :] if path.startswith("docs/") else f"project/{path}"


def stage(source: str, to: Path, done: Dict[str, str]) -> None:
    """Copy a file of the repository, and the files that it links to, unless that is done.

    done: each copied file, with its path in the site.
    """
    if source in done:
        return
    done[source] = name_in_site(source)
    target = to / done[source]
    target.parent.mkdir(parents=True, exist_ok=True)
    if not source.endswith(".md"):
        shutil.copyfile(ROOT / source, target)
        return
    text = add_language_link(source, (ROOT / source).read_text(encoding="utf-8"))
    for link in sorted({match[2] for match in LINK.finditer(text)}):
        linked = find_linked_file(source, link)
        if linked:
            stage(linked, to, done)
    moved = LINK.sub(lambda match: move_link(source, match), text)
    target.write_text(FENCE.sub(r'```\1 title="\2"', moved), encoding="utf-8")


def find_linked_file(source: str, link: str) -> str:
    """Return the file of the repository that a page links to; "" if it links to none."""
    path = os.path.normpath(os.path.join(os.path.dirname(source), link))
    return path if "://" not in link and (ROOT / path).is_file() else ""


def move_link(source: str, match: re.Match[str]) -> str:
    """Return a link of a page as the site needs it."""
    linked = find_linked_file(source, match[2])
    if not linked:
        return match[0]
    folder = os.path.dirname(name_in_site(source)) or "."
    return f"{match[1]}{os.path.relpath(name_in_site(linked), folder)}{match[3]}"


def find_translations() -> Dict[str, str]:
    """Return the other language's page of each English and each Korean page that has one."""
    pages = {}
    for file in (ROOT / "docs/ko").glob("*.md"):
        korean, english = f"docs/ko/{file.name}", FOLLOWS.match(file.read_text(encoding="utf-8"))
        if english:
            pages.update({english[1]: korean, korean: english[1]})
    return pages


def add_language_link(source: str, text: str) -> str:
    """Add a link to the page's translation below its heading, unless the page has one."""
    translation = find_translations().get(source)
    language = "English" if source.startswith("docs/ko/") else KOREAN
    if translation is None or f"[{language}](" in text:
        return text
    path = os.path.relpath(translation, os.path.dirname(source) or ".")
    return re.sub(r"(?m)^(# .*\n)", rf"\1\n[{language}]({path})\n", text, count=1)


def make_front_matter(page: str, text: str) -> str:
    """Return the lines that tell zensical a page's description, and whether to search the page.

    The description is the page's first paragraph.
    """
    prose = re.sub(r"<!--.*?-->|```.*?```", "", text, flags=re.S)
    paragraph = re.search(r"(?m)^(?![#\[!|<-]).+(?:\n.+)*", prose)
    words = " ".join(paragraph[0].split()) if paragraph else ""
    description = re.sub(r"\[([^]]*)\]\([^)]*\)|[`*]", r"\1", words)[:160]
    lines = ["---", f"description: {json.dumps(description, ensure_ascii=False)}"]
    if page.startswith("project/") and page != "project/README.md":
        lines += ["search:", "  exclude: true"]
    return "\n".join([*lines, "---", ""])


def mark_copied_commands(page: str) -> str:
    """Mark what the copy buttons of a page copy: the typed commands, without prompt and output."""
    return CONSOLE.sub(_mark_typed_commands, page)


def _mark_typed_commands(console: re.Match[str]) -> str:
    text = html.unescape(re.sub(r"<[^>]+>", "", console[3]))
    typed = html.escape("\n".join(TYPED.findall(text)))
    return f'{console[1]} data-copy="{typed}"{console[2]}' if typed else console[0]


def loosen_search(worker: str) -> str:
    """Make the search's worker use search.js, which also answers questions with unknown words."""
    changed, count = SEARCH.subn(r"let \1=answer(\2,\3.data)", worker)
    if count != 1:
        raise SystemExit("zensical's search has changed: adapt SEARCH in tools/site/build.py")
    return (ROOT / "tools/site/search.js").read_text(encoding="utf-8") + changed


def read_sections(page: str) -> List[Section]:
    """Return each section of a start page with the titles and paths of the pages that it lists."""
    text = (ROOT / page).read_text(encoding="utf-8")
    folder = os.path.dirname(page)
    sections = []
    _, *parts = re.split(r"(?m)^## ", text)
    for part in parts:
        heading, _, body = part.partition("\n")
        pages = [
            (title, os.path.normpath(os.path.join(folder, link)))
            for title, link in re.findall(r"\[([^]]+)\]\(([^)#]+\.md)\)", body)
        ]
        if pages:
            sections.append((heading, pages))
    return sections


def make_navigation(sections: List[Section]) -> List[Any]:
    """Return the navigation in zensical's form."""
    lists = [{heading: list_pages(pages)} for heading, pages in sections]
    return [{"Start": "README.md"}, *lists]


def list_pages(pages: List[Tuple[str, str]]) -> List[Dict[str, str]]:
    """Return the entries of the navigation for pages: title and path in the site."""
    return [{title: name_in_site(page)} for title, page in pages]


def make_overview(name: str, summary: str, sections: List[Section]) -> str:
    """Return llms.txt (llmstxt.org), which lists the pages in Markdown."""
    parts = [f"# {name}\n\n> {summary}\n"]
    for heading, pages in sections:
        links = "\n".join(f"- [{title}]({name_in_site(page)})" for title, page in pages)
        parts.append(f"## {heading}\n\n{links}\n")
    return "\n".join(parts)


def build(work: Path, project: Dict[str, Any], language: str) -> Path:
    """Have zensical build the staged pages; return the directory of the site."""
    settings = {**project, "site_dir": f"html-{language}"}
    values = "".join(f"{key} = {format_toml(value)}\n" for key, value in settings.items())
    template = (ROOT / "tools/site/zensical.toml").read_text(encoding="utf-8")
    configuration = template.replace("[project]\n", f"[project]\n{values}").replace(
        "[project.theme]\n", f'[project.theme]\nlanguage = "{language}"\n'
    )
    (work / "zensical.toml").write_text(configuration, encoding="utf-8")
    argv = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    subprocess.run(argv, cwd=work, check=True)
    return work / f"html-{language}"


def main(out: str, url: str = "") -> None:
    """Copy the pages, build the site, and put the Markdown and llms.txt beside its pages."""
    work = ROOT / "build" / "site"
    shutil.rmtree(work, ignore_errors=True)
    done: Dict[str, str] = {}
    stage("docs/README.md", work / "docs", done)
    pages = {page: work / "docs" / page for page in done.values() if page.endswith(".md")}
    texts = {page: file.read_text(encoding="utf-8") for page, file in pages.items()}
    for page, file in pages.items():
        file.write_text(make_front_matter(page, texts[page]) + texts[page], encoding="utf-8")
    sections = read_sections("docs/README.md")
    summary = re.search(r'(?m)^description = "(.*)"$', (ROOT / "pyproject.toml").read_text())
    assert summary is not None
    project = {"site_name": "neuronctl", "site_description": summary[1], "extra_css": ["site.css"]}
    if url:
        project["site_url"] = url
    shutil.copyfile(ROOT / "tools/site/site.css", work / "docs" / "site.css")
    site = build_both_languages(work, project, sections)
    improve_pages(site)
    for page, text in texts.items():
        (site / page).write_text(text, encoding="utf-8")
    overview = make_overview("neuronctl", summary[1], sections)
    (site / "llms.txt").write_text(overview, encoding="utf-8")
    shutil.rmtree(out, ignore_errors=True)
    shutil.move(str(site), out)


def build_both_languages(work: Path, project: Dict[str, Any], sections: List[Section]) -> Path:
    """Build the site in English, and take its Korean pages from one in Korean."""
    english_sections = [(heading, pages) for heading, pages in sections if heading != KOREAN]
    site = build(work, {**project, "nav": make_navigation(english_sections)}, "en")
    korean_pages = list_pages(dict(sections)[KOREAN])
    korean = build(work, {**project, "nav": [*korean_pages, {"English": "README.md"}]}, "ko")
    shutil.rmtree(site / "ko")
    shutil.move(str(korean / "ko"), site / "ko")
    return site


def improve_pages(site: Path) -> None:
    """Change what zensical wrote: the page for wrong addresses, copy buttons, and the search."""
    lost = (site / "404.html").read_text(encoding="utf-8")
    (site / "404.html").write_text(lost.replace("</h1>", f"</h1>\n{LOST}", 1), encoding="utf-8")
    for file in site.rglob("*.html"):
        file.write_text(mark_copied_commands(file.read_text(encoding="utf-8")), encoding="utf-8")
    for file in site.glob("assets/javascripts/workers/search.*.js"):
        file.write_text(loosen_search(file.read_text(encoding="utf-8")), encoding="utf-8")


def format_toml(value: Any) -> str:
    """Return a text, a list, or a table in TOML."""
    if isinstance(value, dict):
        return (
            "{ "
            + ", ".join(f"{json.dumps(key)} = {format_toml(item)}" for key, item in value.items())
            + " }"
        )
    if isinstance(value, list):
        return "[" + ", ".join(format_toml(item) for item in value) + "]"
    return json.dumps(value)


if __name__ == "__main__":
    main(*sys.argv[1:])
