"""docs/explanation/design.md names every module, and what it says of imports holds."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Set

import pytest
from doc_pages import ROOT

PACKAGE = ROOT / "neuronctl"
ONLY = {
    "yaml": ("yamlfile/",),
    "jinja2": ("rendering/",),
    "rich": ("console.py",),
    "subprocess": ("slurm/", "sandbox/"),
}


def imports(file: Path) -> Set[str]:
    """Top-level names of all modules that a file imports, at its top or later."""
    found: Set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(str(node.module).split(".")[0])
    return found


def test_every_module_has_its_place() -> None:
    text = (ROOT / "docs/explanation/design.md").read_text(encoding="utf-8")
    modules = [file.name for file in PACKAGE.glob("*.py") if not file.name.startswith("__")]
    rooms = [f"{init.parent.name}/" for init in PACKAGE.glob("*/__init__.py")]
    assert [name for name in modules + rooms if f"`{name}`" not in text] == []


@pytest.mark.parametrize("module", sorted(ONLY))
def test_only_its_owner_imports(module: str) -> None:
    importers = {
        file.relative_to(PACKAGE).as_posix()
        for file in PACKAGE.rglob("*.py")
        if module in imports(file)
    }
    assert importers, f"nothing imports {module}"
    assert {name for name in importers if not name.startswith(ONLY[module])} == set()
