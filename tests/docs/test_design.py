"""docs/explanation/design.md names every module, and what it says of imports holds."""

from __future__ import annotations

import ast
import functools
import graphlib
import re
from pathlib import Path
from typing import Dict, Iterator, List, Set, Tuple

import pytest
from doc_pages import ROOT

pytestmark = pytest.mark.xdist_group("design")
PACKAGE = ROOT / "neuronctl"
ONLY = {
    "yaml": ("common/yamlfile/",),
    "jinja2": ("rendering/",),
    "rich": ("common/console.py",),
    "subprocess": ("slurm/", "sandbox/", "remote/", "sweeping/worker/"),
    "tree_sitter": ("scripts/",),
}


@functools.cache
def imports(file: Path) -> Set[str]:
    """Top-level names of all modules that a file imports, at its top or later."""
    found: Set[str] = set()
    for node in ast.walk(parsed(file)):
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


def test_only_commands_print() -> None:
    """What stands below them returns values; processes in the sandbox and in jobs have logs."""
    names = re.compile(r"\bsys\.std(out|err)\b|\bprint(_\w+)?\(")
    found = [
        file.relative_to(PACKAGE).as_posix()
        for file in PACKAGE.rglob("*.py")
        if names.search(file.read_text(encoding="utf-8"))
    ]
    assert [
        name
        for name in found
        if not name.startswith(("cli/", "common/console.py", "sandbox/", "sweeping/worker/"))
    ] == []


def rooms() -> List[Set[str]]:
    """The rows of the page's table of rooms, from the ground up."""
    text = (ROOT / "docs/explanation/design.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`[^|]*`) \|", text, re.MULTILINE)
    return [{name.rstrip("/") for name in re.findall(r"`([^`]*)`", cell)} for cell in cells]


def room_of(module: str) -> str:
    """``neuronctl.slurm.limits`` is in ``slurm``, ``neuronctl.common.units`` in ``units.py``."""
    name = module.split(".")[1]
    return name if (PACKAGE / name).is_dir() else f"{name}.py"


@functools.cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def arrows() -> Iterator[Tuple[str, str]]:
    """(file, module) of each import of neuronctl's own, those inside functions included."""
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(parsed(file)):
            names = []
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("neuronctl"):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names if alias.name.startswith("neuronctl.")]
            for name in names:
                if name != "neuronctl.__version__":
                    yield file.relative_to(PACKAGE).as_posix(), name


def test_a_package_imports_only_what_stands_above_it() -> None:
    place = {name: row for row, names in enumerate(rooms()) for name in names}
    wrong = []
    for file, module in arrows():
        own = file.partition("/")[0]
        if own.startswith("__"):  # the face of the whole package
            continue
        other = room_of(module)
        if own != other and place[own] <= place[other]:
            wrong.append(f"{file} imports {module}")
    assert wrong == []


def test_no_module_needs_itself() -> None:
    modules = {
        ".".join(file.relative_to(ROOT).with_suffix("").parts): file
        for file in PACKAGE.rglob("*.py")
        if file.name != "__init__.py"
    }
    needs: Dict[str, Set[str]] = {name: set() for name in modules}
    for file, module in arrows():
        importer = "neuronctl." + file[: -len(".py")].replace("/", ".")
        target = module if module in modules else module.rpartition(".")[0]
        if importer in modules and target in modules:
            needs[importer].add(target)
    graphlib.TopologicalSorter(needs).prepare()  # CycleError names the circle
