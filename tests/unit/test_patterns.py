"""Every lazy pattern of the program can be compiled, and does what a compiled one does."""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Dict

import neuronctl
from neuronctl.patterns import _Lazy, lazy


def all_lazy() -> Dict[str, _Lazy]:
    found = {}
    for module in pkgutil.walk_packages(neuronctl.__path__, "neuronctl."):
        if not module.name.endswith("__main__"):
            for name, value in vars(importlib.import_module(module.name)).items():
                if isinstance(value, _Lazy):
                    found[f"{module.name}.{name}"] = value
    return found


def test_all_compile() -> None:
    patterns = all_lazy()
    assert len(patterns) > 10
    for name, pattern in patterns.items():
        assert isinstance(pattern.pattern, str), name


def test_as_a_compiled_one() -> None:
    pattern = lazy(r"(a+)B", re.IGNORECASE)
    for _ in range(2):
        assert pattern.sub(r"<\1>", "xaab") == "x<aa>"
        assert pattern.fullmatch("aab") and not pattern.fullmatch("aabb")
    assert (pattern.pattern, pattern.flags & re.IGNORECASE) == (r"(a+)B", re.IGNORECASE)
