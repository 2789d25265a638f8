"""Mistakes in a template, as errors that name its file and line."""

from __future__ import annotations

import contextlib
import os
from typing import Iterator, Sequence

import jinja2

from neuronctl.common.errors import TemplateError

_OF_EXPRESSIONS = (
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError),
    *(RecursionError, MemoryError),
)
_WORDS = {RecursionError: "endless recursion", MemoryError: "out of memory"}


@contextlib.contextmanager
def reported(name: str, directories: Sequence[str]) -> Iterator[None]:
    """Turn whatever goes wrong with the template ``name`` into a TemplateError.

    directories: where templates are looked for, the user's own first and the shipped ones second.
    """
    hint = ""
    try:
        yield
        return
    except jinja2.TemplateSyntaxError as error:
        words = f"{error.filename or error.name}:{error.lineno}: {error.message}"
    except jinja2.TemplateNotFound as error:
        asker = _place(error, directories, "")
        words = f"{asker}{': ' if asker else ''}there is no template '{error.name}'"
        hint = f"templates lie in {' and '.join(directories)}"
        if error.name == name and os.path.isfile(name):
            hint = f"for the file in this directory, write ./{name}"
    except jinja2.UndefinedError as error:
        words = f"{_place(error, directories)}: {error}"
        hint = "'neuronctl help templates' lists what a template may use"
    except (jinja2.TemplateError, *_OF_EXPRESSIONS) as error:
        words = f"{_place(error, directories)}: {_WORDS.get(type(error), str(error))}"
    except OSError as error:
        words = f"cannot read the template '{name}': {error}"
    raise TemplateError(words, hint) from None


def _place(error: BaseException, directories: Sequence[str], place: str = "template") -> str:
    """Return file:line of the template in which an error was raised, or ``place``."""
    trace = error.__traceback__
    while trace is not None:
        filename = trace.tb_frame.f_code.co_filename
        if os.path.dirname(filename) in directories:
            place = f"{filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
