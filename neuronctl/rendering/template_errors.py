"""Mistakes in a template, as errors that name its file and line."""

from __future__ import annotations

import contextlib
import os
from typing import Collection, Iterator, List, Optional, Sequence, Set, Tuple

import jinja2
from jinja2 import nodes

from neuronctl.common.errors import TemplateError, did_you_mean

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


def refuse_what_vanishes(
    environment: jinja2.Environment, name: str, known: Optional[Collection[str]] = None
) -> None:
    """Refuse blocks that nothing renders, and text outside of all blocks.

    Jinja leaves both out without a word. known: the names of the blocks that are rendered; None
    for those of the template that it extends.
    """
    filename, tree = _parsed(environment, name)
    parent = _parent(tree)
    whose = "a launcher"
    if known is None:
        known = None if parent is None else _blocks(environment, parent)
        whose = f"'{parent}'"
    elif any(tree.find_all(nodes.Extends)):
        words = f"{filename}:1: a launcher cannot extend another template"
        raise TemplateError(words, "copy it, or include what both share")
    if known is None:
        return
    waiting: List[nodes.Node] = list(tree.body)
    while waiting:
        node = waiting.pop(0)
        if not isinstance(node, nodes.Block):
            waiting += node.iter_child_nodes()
        elif node.name not in known:
            words = f"{filename}:{node.lineno}: {whose} has no block '{node.name}', and its lines "
            raise TemplateError(f"{words}would be left out", did_you_mean(node.name, known))
    for part in (
        part for node in tree.body if isinstance(node, nodes.Output) for part in node.nodes
    ):
        text = part.data if isinstance(part, nodes.TemplateData) else "{{"
        if text.strip():
            line = part.lineno + text[: -len(text.lstrip())].count("\n")
            raise TemplateError(
                f"{filename}:{line}: text outside of all blocks would be left out",
                f"put it into one of the blocks: {', '.join(sorted(known)) or 'there is none'}",
            )


def _parsed(environment: jinja2.Environment, name: str) -> Tuple[str, nodes.Template]:
    """Return the file and the syntax tree of a template."""
    assert environment.loader is not None
    source, filename, _ = environment.loader.get_source(environment, name)
    return filename or name, environment.parse(source, name, filename)


def _parent(tree: nodes.Template) -> Optional[str]:
    """Return the template that it extends in any case, if its name stands there."""
    found: List[nodes.Extends] = [one for one in tree.body if isinstance(one, nodes.Extends)]
    template = found[0].template if found else None
    return str(template.value) if isinstance(template, nodes.Const) else None


def _blocks(environment: jinja2.Environment, name: str) -> Optional[Set[str]]:
    """Return the blocks of a template and of those it extends; None if that cannot be told."""
    _, tree = _parsed(environment, name)
    names = {block.name for block in tree.find_all(nodes.Block)}
    parent = _parent(tree)
    if parent is None:
        return None if any(tree.find_all(nodes.Extends)) else names
    more = _blocks(environment, parent)
    return None if more is None else names | more


def _place(error: BaseException, directories: Sequence[str], place: str = "template") -> str:
    """Return file:line of the template that an error was raised in, or ``place``."""
    trace = error.__traceback__
    while trace is not None:
        filename = trace.tb_frame.f_code.co_filename
        if os.path.dirname(filename) in directories:
            place = f"{filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
