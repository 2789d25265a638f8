"""A stand-in for a module takes no time, and is the module as soon as it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(code: str) -> str:
    """What a Python of its own prints; here everything is imported already."""
    return subprocess.run(
        [sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


BEGIN = "import sys; from neuronctl.cli.later import import_later; import_later('colorsys'); "


@pytest.mark.parametrize(
    "use",
    [
        "import colorsys; print(colorsys.rgb_to_hls.__name__)",
        "from colorsys import rgb_to_hls; print(rgb_to_hls.__name__)",
        "import colorsys as first, importlib; second = importlib.import_module('colorsys'); "
        "print(first.rgb_to_hls.__name__ if first.rgb_to_hls is second.rgb_to_hls else 'two')",
        "import inspect, colorsys; module = inspect.getmodule(colorsys.rgb_to_hls); "
        "print(module.rgb_to_hls.__name__)",
    ],
)
def test_it_is_the_module_when_used(use: str) -> None:
    assert run(BEGIN + use) == "rgb_to_hls"


def test_it_is_not_imported_before() -> None:
    code = "import colorsys; print(type(sys.modules['colorsys']).__name__)"
    assert run(BEGIN + code) == "_StandIn"


def test_a_name_that_the_module_lacks() -> None:
    assert run(BEGIN + "import colorsys; print(hasattr(colorsys, 'nonsense'))") == "False"


def test_what_is_imported_already_stays() -> None:
    code = (
        "import colorsys, sys; from neuronctl.cli.later import import_later; "
        "import_later('colorsys'); print(sys.modules['colorsys'] is colorsys)"
    )
    assert run(code) == "True"


@pytest.mark.parametrize("command", ["status", "cancel", "logs", "show"])
def test_short_commands_do_without_inspect(command: str) -> None:
    """An eighth of what click imports; click's own help of an option would bring it back."""
    code = (
        "import sys; before = set(sys.modules); "
        "from neuronctl.cli.later import SELDOM_USED, import_later; "
        "import_later(*SELDOM_USED); from neuronctl.cli.invoke import load; "
        f"command = load({command!r}); command.make_context('x', ['4711']); "
        "print(sorted({'ast', 'dis'} & (set(sys.modules) - before)))"
    )
    assert run(code) == "[]"
