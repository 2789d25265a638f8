"""Build the documentation as a site: docs/ as it is, and the pages beside it that it links to.

    python tools/site/build.py OUT      with a Python that has zensical

docs/README.md is the start page, and its lists of links are the navigation: a page that is named
there needs nothing else. The pages are staged in build/site, with their links rewritten, because
zensical takes them from one directory.
"""

from __future__ import annotations

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

    text = LINK.sub(moved, (ROOT / source).read_text(encoding="utf-8"))
    target.write_text(FENCE.sub(r'```\1 title="\2"', text), encoding="utf-8")


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


def main(out: str) -> None:
    """Stage the pages, have zensical build them, and put the Markdown beside them."""
    work = ROOT / "build" / "site"
    shutil.rmtree(work, ignore_errors=True)
    done: Dict[str, str] = {}
    stage("docs/README.md", work / "docs", done)
    own = sections("docs/README.md")
    summary = re.search(r'(?m)^description = "(.*)"$', (ROOT / "pyproject.toml").read_text())
    assert summary is not None
    project = {
        "site_name": "neuronctl",
        "site_description": summary[1],
        "site_dir": "html",
        "nav": navigation(own),
        "extra_css": ["site.css"],
    }
    shutil.copyfile(ROOT / "tools/site/site.css", work / "docs" / "site.css")
    form = (ROOT / "tools/site/zensical.toml").read_text(encoding="utf-8")
    values = "".join(f"{key} = {toml(value)}\n" for key, value in project.items())
    (work / "zensical.toml").write_text(
        form.replace("[project]\n", f"[project]\n{values}"), "utf-8"
    )
    argv = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    subprocess.run(argv, cwd=work, check=True)
    for page in done.values():
        if page.endswith(".md"):
            shutil.copyfile(work / "docs" / page, work / "html" / page)
    text = overview("neuronctl", summary[1], own)
    (work / "html" / "llms.txt").write_text(text, encoding="utf-8")
    shutil.rmtree(out, ignore_errors=True)
    shutil.move(str(work / "html"), out)


def toml(value: Any) -> str:
    """Return a text, a list, or a table in TOML."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml(one) for one in value) + "]"
    return json.dumps(value)


if __name__ == "__main__":
    main(*sys.argv[1:])
