"""Find templates, and report errors in them with file and line.

The templates of launchers quote each ``{{ value }}`` for the shell.
"""

from __future__ import annotations

import contextlib
import functools
import os
from typing import Any, Callable, Iterator, Sequence, Tuple

import jinja2

from neuronctl.common.errors import TemplateError
from neuronctl.common.files import read_private, write_private
from neuronctl.common.paths import cache_dir, config_dir, data_path
from neuronctl.common.shell import quote
from neuronctl.common.words import duration
from neuronctl.launch.launchers import template_text
from neuronctl.slurm.nvidia_smi import SAMPLED, query
from neuronctl.version import __version__

_SYNTAX: Any = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}


def directories() -> Tuple[str, str]:
    """Return the directories of templates: the user's, which may not exist, and the shipped one."""
    return os.path.join(config_dir(), "templates"), data_path("templates")


def script_templates(*first: str) -> jinja2.Environment:
    """Return the environment of the scripts' templates. first: directories before the others."""
    return _environment("scripts", (*first, *directories()))


def launcher_templates() -> jinja2.Environment:
    """Return the environment of the launchers' templates."""
    return _environment("launchers", directories())


def gpu_reader() -> str:
    """Return the shell function that prints the figures of a node's GPUs."""
    template = script_templates().get_template("shipped/use.j2")
    return str(template.module.read_gpus())  # type: ignore[attr-defined]


def render_page(name: str, **values: Any) -> str:
    """Render a shipped page; escape ``{{ value }}`` for HTML."""
    loader = jinja2.FileSystemLoader(data_path("templates"))
    pages = jinja2.Environment(
        loader=loader, undefined=jinja2.StrictUndefined, autoescape=True, **_SYNTAX
    )
    return pages.get_template(name).render(**values)


@functools.lru_cache(maxsize=8)
def _environment(kind: str, directories: Tuple[str, ...]) -> jinja2.Environment:
    """Return an environment, which reads a template's file each time it is used."""
    named = {"shipped": _Files(data_path("templates")), "file": _Files("/")}
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PrefixLoader(named), _Files(directories)]),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        finalize=_quoted if kind == "launchers" else None,
        bytecode_cache=_Compiled(kind),
        **_SYNTAX,
    )
    environment.filters.update(q=quote, duration=duration)
    environment.globals["sampled_gpu_fields"] = query(*SAMPLED)
    return environment


def name_of(file: str) -> str:
    """Return the environment's name for the template in ``file``."""
    return "file" + os.path.abspath(file)


def _quoted(value: object) -> str:
    return quote(value if isinstance(value, str) else str(value))


class _Compiled(jinja2.BytecodeCache):
    def __init__(self, kind: str) -> None:
        self.place = os.path.join(cache_dir(), "templates", f"{kind}-{__version__}")

    def load_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        with contextlib.suppress(OSError):
            bucket.bytecode_from_string(read_private(f"{self.place}-{bucket.key}"))

    def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        with contextlib.suppress(OSError):
            write_private(f"{self.place}-{bucket.key}", bucket.bytecode_to_string())


class _Files(jinja2.FileSystemLoader):
    """Loads template files.

    A file of the user's directory is refused if others may have written it. All other files are
    shipped, or the user has named them or their directory.
    """

    def get_source(
        self, environment: jinja2.Environment, template: str
    ) -> Tuple[str, str, Callable[[], bool]]:
        parts = jinja2.loaders.split_template_path(template)
        users_directory, _ = directories()
        for directory in self.searchpath:
            file = os.path.join(directory, *parts)
            if os.path.exists(file):
                return template_text(file, own=directory == users_directory), file, lambda: False
        raise jinja2.TemplateNotFound(template)


_EXPRESSION_ERRORS = (
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError),
    *(RecursionError, MemoryError),
)
_WORDS = {RecursionError: "endless recursion", MemoryError: "out of memory"}


@contextlib.contextmanager
def report_errors(name: str, directories: Sequence[str]) -> Iterator[None]:
    """Turn an error of a template into a TemplateError.

    directories: where templates are searched; the user's own comes first.
    """
    hint = ""
    try:
        yield
        return
    except jinja2.TemplateSyntaxError as error:
        words = f"{error.filename or error.name}:{error.lineno}: {error.message}"
    except jinja2.TemplateNotFound as error:
        place = _place(error, directories, "")  # the line that includes or extends it
        words = f"{place}{': ' if place else ''}there is no template '{error.name}'"
        hint = f"templates lie in {' and '.join(directories)}"
        if error.name == name and os.path.isfile(name):
            hint = f"for the file in this directory, write ./{name}"
    except jinja2.UndefinedError as error:
        words = f"{_place(error, directories)}: {error}"
        hint = "'neuronctl help templates' lists what a template may use"
    except (jinja2.TemplateError, *_EXPRESSION_ERRORS) as error:
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
