"""No file of neuronctl/ is too long to read in one go, and no function either."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Iterator, Tuple

import neuronctl

ROOT = Path(neuronctl.__file__).parent
FILE, FUNCTION = 450, 50


def functions(text: str) -> Iterator[Tuple[str, int]]:
    """The functions of a file, each with its lines: its signature and code, not its docstring."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            docstring = (ast.get_docstring(node, clean=False) or "").count("\n") + 1
            yield node.name, lines - docstring


def test_files_and_functions_are_short() -> None:
    long = []
    for file in ROOT.rglob("*.py"):
        text = file.read_text()
        if text.count("\n") > FILE:
            long.append((file.name, text.count("\n")))
        long += [
            (f"{file.name}: {name}", lines) for name, lines in functions(text) if lines > FUNCTION
        ]
    assert not long
