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


BEGIN = "import sys; from neuronctl.cli.later import import_later; import_later('tokenize'); "


@pytest.mark.parametrize(
    "use",
    [
        "import tokenize; print(tokenize.TokenInfo.__name__)",
        "from tokenize import TokenInfo; print(TokenInfo.__name__)",
        "import tokenize as first, importlib; second = importlib.import_module('tokenize'); "
        "print(first.TokenInfo.__name__ if first.TokenInfo is second.TokenInfo else 'two')",
        "import inspect, tokenize; print(inspect.getmodule(tokenize.TokenInfo).TokenInfo.__name__)",
    ],
)
def test_it_is_the_module_when_used(use: str) -> None:
    assert run(BEGIN + use) == "TokenInfo"


def test_it_is_not_imported_before() -> None:
    assert run(BEGIN + "import tokenize; print('re' in sys.modules)") == "False"


def test_a_name_that_the_module_lacks() -> None:
    assert run(BEGIN + "import tokenize; print(hasattr(tokenize, 'nonsense'))") == "False"


def test_what_is_imported_already_stays() -> None:
    code = (
        "import tokenize, sys; from neuronctl.cli.later import import_later; "
        "import_later('tokenize'); print(sys.modules['tokenize'] is tokenize)"
    )
    assert run(code) == "True"


@pytest.mark.parametrize("command", ["status", "cancel", "logs", "show"])
def test_short_commands_do_without_inspect(command: str) -> None:
    """A fifth of what click imports; click's own help of an option would bring it back."""
    code = (
        "import sys; from neuronctl.cli.later import SELDOM_USED, import_later; "
        "import_later(*SELDOM_USED); from neuronctl.cli.invoke import load; "
        f"command = load({command!r}); command.make_context('x', ['4711']); "
        "print(sorted({'ast', 'dis'} & set(sys.modules)))"
    )
    assert run(code) == "[]"
