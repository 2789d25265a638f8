"""Build the documentation as a site: docs/ as it is, and the pages beside it that it links to.

    python tools/site/build.py OUT [URL]      with a Python that has zensical

docs/README.md is the start page, and its lists of links are the navigation: a page that is named
there needs nothing else. The pages are staged in build/site, with their links rewritten, because
zensical takes them from one directory. It runs twice, once with its interface in Korean: docs/ko
comes from that run. URL: where the site will be; the sitemap, canonical links, and the page for
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


def staged(path: str) -> str:
    """Return where a file of the repository is in the site."""
    return path[len("docs/") :] if path.startswith("docs/") else f"project/{path}"


def stage(source: str, to: Path, done: Dict[str, str]) -> None:
    """Copy a file of the repository, and whatever its links lead to, unless that is done."""
    if source in done:
        return
    done[source] = staged(source)
    target = to / done[source]
    target.parent.mkdir(parents=True, exist_ok=True)
    if not source.endswith(".md"):
        shutil.copyfile(ROOT / source, target)
        return
    here = os.path.dirname(done[source])

    def moved(match: re.Match[str]) -> str:
        linked = os.path.normpath(os.path.join(os.path.dirname(source), match[2]))
        if "://" in match[2] or not (ROOT / linked).is_file():
            return match[0]
        stage(linked, to, done)
        return f"{match[1]}{os.path.relpath(staged(linked), here or '.')}{match[3]}"

    text = LINK.sub(moved, with_language_link(source, (ROOT / source).read_text(encoding="utf-8")))
    target.write_text(FENCE.sub(r'```\1 title="\2"', text), encoding="utf-8")


def translations() -> Dict[str, str]:
    """Return each page that has a translation, with it, in both directions."""
    pairs = {}
    for page in (ROOT / "docs/ko").glob("*.md"):
        english = FOLLOWS.match(page.read_text(encoding="utf-8"))
        if english:
            pairs[english[1]] = f"docs/ko/{page.name}"
    return {**pairs, **{korean: english for english, korean in pairs.items()}}


def with_language_link(source: str, text: str) -> str:
    """Put a link to the page's translation below its heading."""
    other = translations().get(source)
    link = "English" if source.startswith("docs/ko/") else KOREAN
    if other is None or f"[{link}](" in text:
        return text
    path = os.path.relpath(other, os.path.dirname(source) or ".")
    return re.sub(r"(?m)^(# .*\n)", rf"\1\n[{link}]({path})\n", text, count=1)


def front_matter(page: str, text: str) -> str:
    """Return what zensical is to know of a staged page: its description, and whether to search it.

    The description is the page's first paragraph.
    """
    words = re.sub(r"<!--.*?-->|```.*?```", "", text, flags=re.S)
    paragraphs = re.findall(r"(?m)^(?![#\[!|<-]).+(?:\n.+)*", words) or [""]
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)|[`*]", r"\1", " ".join(paragraphs[0].split()))
    lines = ["---", f"description: {json.dumps(plain[:160], ensure_ascii=False)}"]
    if page.startswith("project/") and page != "project/README.md":
        lines += ["search:", "  exclude: true"]
    return "\n".join([*lines, "---", ""])


def with_copied_commands(page: str) -> str:
    """Let a page's copy buttons copy what is typed: no prompt, and no output."""

    def marked(match: re.Match[str]) -> str:
        text = html.unescape(re.sub(r"<[^>]+>", "", match[3]))
        typed = html.escape("\n".join(TYPED.findall(text)))
        return f'{match[1]} data-copy="{typed}"{match[2]}' if typed else match[0]

    return CONSOLE.sub(marked, page)


def with_loose_search(worker: str) -> str:
    """Let the search's worker answer a question with words that no page has (search.js)."""
    worker, count = SEARCH.subn(r"let \1=answer(\2,\3.data)", worker)
    if count != 1:
        raise SystemExit("zensical's search has changed: adapt SEARCH in tools/site/build.py")
    return (ROOT / "tools/site/search.js").read_text(encoding="utf-8") + worker


def sections(page: str) -> List[Section]:
    """Return the headings of a start page that have lists of links, and the links: title, page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    folder = os.path.dirname(page)
    found = []
    for part in re.split(r"(?m)^## ", text)[1:]:
        pages = [
            (name, os.path.normpath(os.path.join(folder, link)))
            for name, link in re.findall(r"\[([^]]+)\]\(([^)#]+\.md)\)", part)
        ]
        if pages:
            found.append((part.split("\n")[0], pages))
    return found


def navigation(own: List[Section]) -> List[Any]:
    """Return the navigation as zensical takes it."""
    lists = [{title: [{name: staged(page)} for name, page in pages]} for title, pages in own]
    return [{"Start": "README.md"}, *lists]


def overview(name: str, summary: str, own: List[Section]) -> str:
    """Return llms.txt (llmstxt.org): the pages as Markdown, which the site has beside its own."""
    lines = [f"# {name}\n\n> {summary}\n"]
    for title, pages in own:
        links = "\n".join(f"- [{name}]({staged(page)})" for name, page in pages)
        lines.append(f"## {title}\n\n{links}\n")
    return "\n".join(lines)


def build(work: Path, project: Dict[str, Any], language: str) -> Path:
    """Have zensical build the staged pages; return the directory of the site."""
    form = (ROOT / "tools/site/zensical.toml").read_text(encoding="utf-8")
    project = {**project, "site_dir": f"html-{language}"}
    values = "".join(f"{key} = {toml(value)}\n" for key, value in project.items())
    form = form.replace("[project]\n", f"[project]\n{values}")
    form = form.replace("[project.theme]\n", f'[project.theme]\nlanguage = "{language}"\n')
    (work / "zensical.toml").write_text(form, encoding="utf-8")
    argv = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    subprocess.run(argv, cwd=work, check=True)
    return work / f"html-{language}"


def main(out: str, url: str = "") -> None:
    """Stage the pages, have zensical build them, and put the Markdown beside them."""
    work = ROOT / "build" / "site"
    shutil.rmtree(work, ignore_errors=True)
    done: Dict[str, str] = {}
    stage("docs/README.md", work / "docs", done)
    pages = {page: work / "docs" / page for page in done.values() if page.endswith(".md")}
    texts = {page: file.read_text(encoding="utf-8") for page, file in pages.items()}
    for page, file in pages.items():
        file.write_text(front_matter(page, texts[page]) + texts[page], encoding="utf-8")
    own = sections("docs/README.md")
    summary = re.search(r'(?m)^description = "(.*)"$', (ROOT / "pyproject.toml").read_text())
    assert summary is not None
    project = {"site_name": "neuronctl", "site_description": summary[1], "extra_css": ["site.css"]}
    if url:
        project["site_url"] = url
    shutil.copyfile(ROOT / "tools/site/site.css", work / "docs" / "site.css")
    in_english = [section for section in own if section[0] != KOREAN]
    in_korean = [
        {name: staged(page)} for title, list_ in own if title == KOREAN for name, page in list_
    ]
    site = build(work, {**project, "nav": navigation(in_english)}, "en")
    korean = build(work, {**project, "nav": [*in_korean, {"English": "README.md"}]}, "ko")
    shutil.rmtree(site / "ko")
    shutil.move(str(korean / "ko"), site / "ko")
    lost = (site / "404.html").read_text(encoding="utf-8")
    (site / "404.html").write_text(lost.replace("</h1>", f"</h1>\n{LOST}", 1), encoding="utf-8")
    for file in site.rglob("*.html"):
        file.write_text(with_copied_commands(file.read_text(encoding="utf-8")), encoding="utf-8")
    for file in site.glob("assets/javascripts/workers/search.*.js"):
        file.write_text(with_loose_search(file.read_text(encoding="utf-8")), encoding="utf-8")
    for page, text in texts.items():
        (site / page).write_text(text, encoding="utf-8")
    overview_text = overview("neuronctl", summary[1], own)
    (site / "llms.txt").write_text(overview_text, encoding="utf-8")
    shutil.rmtree(out, ignore_errors=True)
    shutil.move(str(site), out)


def toml(value: Any) -> str:
    """Return a text, a list, or a table in TOML."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml(one) for one in value) + "]"
    return json.dumps(value)


if __name__ == "__main__":
    main(*sys.argv[1:])
