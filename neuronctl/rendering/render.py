"""From a plan to the text of a script; the only module that imports jinja2."""

from __future__ import annotations

import functools
import os
import re
from dataclasses import replace
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import jinja2
from jinja2 import compiler, nodes
from jinja2.bccache import Bucket

from neuronctl.errors import TemplateError, did_you_mean
from neuronctl.launch.launchers import Launch
from neuronctl.paths import config_dir, data_path
from neuronctl.planning import Directive, JobPlan
from neuronctl.rendering import compiled
from neuronctl.rendering.preflight import checks
from neuronctl.shell import Word, positional, quote

WIDTH = 96
"""Columns after which a command is continued on the next line."""

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./\[\]*^&|!?~()<>-]+\Z")


def quote_directive(value: str) -> str:
    """``value`` as sbatch reads it in a ``#SBATCH`` line, in quotes only where it must be.

    sbatch takes a backslash as an escape anywhere, and a blank or ``#`` outside quotes as the
    end of the value.
    """
    if _PLAIN.match(value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _with_remarks(lines: Sequence[Tuple[str, str]]) -> List[str]:
    """(text, remark) -> lines with the remarks in one column."""
    width = max((len(text) for text, remark in lines if remark and len(text) < 60), default=0)
    return [f"{text:<{width}}  # {remark}" if remark else text for text, remark in lines]


def option_text(directive: Directive) -> str:
    """``--option=value`` as it stands in a ``#SBATCH`` line."""
    if directive.value is None:
        return f"--{directive.option}"
    return f"--{directive.option}={quote_directive(directive.value)}"


def directive_lines(plan: JobPlan) -> List[str]:
    """The ``#SBATCH`` lines of a plan, with remarks on what was derived."""
    return _with_remarks([(f"#SBATCH {option_text(one)}", one.remark) for one in plan.directives])


def export_lines(plan: JobPlan) -> List[str]:
    """The lines that set the job's variables; a secret is only checked to be there."""
    lines = []
    before = "launch" if plan.hosts else "submit"
    for one in plan.exports:
        if one.value is None:
            demand = f': "${{{one.name}:?is a secret: export it before you {before}}}"'
            lines.append((demand, one.remark))
        else:
            lines.append((f"export {one.name}={quote(one.value)}", one.remark))
    return _with_remarks(lines)


def _wrap(texts: Sequence[str], indent: str) -> str:
    """Quoted words as one command line, continued with a backslash where it gets long."""
    lines: List[str] = []
    current = ""
    for text in texts:
        if current and len(current) + 1 + len(text.split("\n", 1)[0]) > WIDTH - 2:
            lines.append(current)
            current = indent + text
        else:
            current = f"{current} {text}" if current else text
    lines.append(current)
    return " \\\n".join(lines)


# srun ends with the highest exit code of its tasks, and a program that it stopped because another
# one had failed counts as 143: such a one ends with 1 instead, which hides no failure and is none
# too few where the whole job was told to stop. Other signals are the program's business.
_GUARD = (
    "  # Tasks that Slurm stops because another one failed do not hide its exit code.",
    "  trap stopped=1 TERM; trap : HUP INT USR1 USR2",
)


def launch_text(plan: JobPlan) -> str:
    """The command that starts the program.

    What has to be evaluated on each node goes into a ``bash -c`` of each task; the program's
    own words are handed to it as arguments, so that no second shell ever reads them.
    """
    launch, wrapping = plan.launch, plan.wrapping
    outer: List[Word] = [*launch.outer, *wrapping.srun]
    if wrapping.srun and not launch.outer:
        outer = ["srun", "--ntasks=1", f"--cpus-per-task={plan.cpus_per_task}", *wrapping.srun]
    inner = [quote(word) for word in (*wrapping.prefix, *launch.inner)]
    arguments, words = positional(plan.program)
    # One line each: a shell expands all words of an 'export' before it sets the first.
    groups = (launch.exports, wrapping.exports)
    exports = [[f"{name}={value}" for name, value in group] for group in groups if group]
    split = outer and words != plan.program
    if not exports and not launch.per_task and not split:
        return _wrap([*map(quote, outer), *inner, *map(quote, plan.program)], "    ")
    lines: List[str] = []
    for group in exports:
        lines.append("  " + _wrap(["export", *group], "      "))
    if plan.launch.per_task:
        lines += _GUARD
        lines.append("  " + _wrap([*inner, arguments], "      "))
        lines += ["  code=$?", '  exit "$((stopped && code > 128 ? 1 : code))"']
    else:
        lines.append("  " + _wrap(["exec", *inner, arguments], "      "))
    task = quote("\n" + "\n".join(lines))
    name = launch.inner[0] if launch.inner else "task"
    head = _wrap([*map(quote, outer), "bash", "-c"], "    ")
    return head + " " + task + " " + _wrap([quote(name), *map(quote, words)], "    ")


def contained_command(plan: JobPlan, words: Sequence[str]) -> str:
    """The command that runs ``words`` once, on this node, in the container of ``plan``."""
    outer: Tuple[Word, ...] = ()
    if plan.wrapping.srun:
        outer = ("srun", "--nodes=1", "--ntasks=1", f"--cpus-per-task={plan.cores_per_node}")
        outer += tuple(plan.cluster.policy.srun_options)
    return launch_text(replace(plan, program=tuple(words), launch=Launch(outer=outer)))


def render_job(plan: JobPlan, *, template: Optional[str] = None) -> str:
    """The batch script of ``plan``; ``template`` is a file in place of job.sh.j2.

    Raises TemplateError with file and line.
    """
    signal = plan.signal
    background = signal is not None and signal.to_batch_shell
    trap = signal.name if signal and background and not signal.trapped_by_setup else None
    return _render("job.sh.j2", plan, template, background=background, trap=trap)


def render_shell(plan: JobPlan, *, command: bool, template: Optional[str] = None) -> str:
    """What the shell on the first node of an interactive allocation reads at its start.

    command
        For a command instead of a shell: the text ends by running its arguments.
    """
    return _render("salloc.sh.j2", plan, template, command=command)


def render_run(plan: JobPlan, *, port: int) -> str:
    """The shell text that launches ``plan`` from the allocation it stands in.

    port: where its processes meet on the first node.
    """
    return _render("run.sh.j2", plan, port=str(port))


_SYNTAX: Dict[str, Any] = {
    "trim_blocks": True,
    "lstrip_blocks": True,
    "keep_trailing_newline": True,
}


class _Kept(jinja2.BytecodeCache):
    """Compiled templates in the user's cache directory."""

    def get_bucket(
        self, environment: jinja2.Environment, name: str, filename: Optional[str], source: str
    ) -> Bucket:
        key = compiled.made_from(str(compiler.__file__), str(_SYNTAX), filename or name, source)
        bucket = Bucket(environment, filename or name, key)
        self.load_bytecode(bucket)
        return bucket

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = compiled.read(bucket.checksum, bucket.key)

    def dump_bytecode(self, bucket: Bucket) -> None:
        assert bucket.code is not None
        compiled.write(bucket.checksum, bucket.key, bucket.code)


class _Files(jinja2.FileSystemLoader):
    """Template files; one that is no text is named."""

    def get_source(
        self, environment: jinja2.Environment, template: str
    ) -> Tuple[str, str, Callable[[], bool]]:
        try:
            return super().get_source(environment, template)
        except UnicodeDecodeError as error:
            paths = [os.path.join(one, template) for one in self.searchpath]
            path = next((one for one in paths if os.path.isfile(one)), template)
            raise TemplateError(
                f"{path}: a template is UTF-8 text, and byte {error.start + 1} of this file is "
                f"{error.object[error.start]:#04x}",
                "name a text file, or save it as UTF-8",
            ) from None


@functools.lru_cache(maxsize=8)
def _environment(directories: Tuple[str, ...], shipped: str) -> jinja2.Environment:
    """Templates of these directories; it looks at a file's time before it takes it for known."""
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [
                jinja2.PrefixLoader({"shipped": _Files(shipped)}),
                _Files(directories),
            ]
        ),
        bytecode_cache=_Kept(),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        **_SYNTAX,
    )
    environment.filters["q"] = quote
    return environment


def _render(name: str, plan: JobPlan, asked: Optional[str] = None, **more: Any) -> str:
    """Fill in a template: a shipped one's name, which the user's own of that name replaces.

    asked: a file, or the name of one of the user's, in its place. ``shipped/NAME`` is always the
    shipped one, for the user's to extend. What lies in the working directory counts only where it
    is asked for: a template is a program.
    """
    shipped, own = data_path("templates"), os.path.join(config_dir(), "templates")
    directories = [own, shipped]
    if asked is not None:
        name = asked
        if os.sep in asked or os.path.exists(asked):
            directories.insert(0, os.path.dirname(os.path.abspath(asked)))
            name = os.path.basename(asked)
    context: Dict[str, Any] = {
        "plan": plan,
        "directives": directive_lines(plan),
        "exports": export_lines(plan),
        "launch": launch_text(plan),
        "checks": checks(plan),
        "port": "$((10000 + SLURM_JOB_ID % 20000))",
        **more,
    }
    made = _environment(tuple(directories), shipped)
    try:
        template = made.get_template(name)
        text = template.render(context)
        if os.path.dirname(str(template.filename)) != shipped:
            _refuse_what_vanishes(made, name)
        return text
    except jinja2.TemplateSyntaxError as error:
        place = f"{error.filename or error.name}:{error.lineno}"
        raise TemplateError(f"{place}: {error.message}") from None
    except jinja2.TemplateNotFound as error:
        asker = _place(error, directories, "")
        raise TemplateError(
            f"{asker}{': ' if asker else ''}there is no template '{error.name}'",
            f"templates lie in {own} and {shipped}",
        ) from None
    except jinja2.UndefinedError as error:
        raise TemplateError(
            f"{_place(error, directories)}: {error}",
            "what a template may use is listed in docs/reference/templates.md",
        ) from None
    except RecursionError as error:
        raise TemplateError(f"{_place(error, directories)}: it calls itself for ever") from None
    except MemoryError as error:
        raise TemplateError(f"{_place(error, directories)}: it wants too much memory") from None
    except (
        jinja2.TemplateError,
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        raise TemplateError(f"{_place(error, directories)}: {error}") from None
    except OSError as error:
        raise TemplateError(f"the template '{name}' cannot be read: {error}") from None


def _refuse_what_vanishes(made: jinja2.Environment, name: str) -> None:
    """Refuse blocks that the extended template does not have, and text outside of all blocks:
    jinja leaves both out without a word.
    """
    filename, tree = _parsed(made, name)
    parent = _parent(tree)
    known = None if parent is None else _blocks(made, parent)
    if known is None:
        return
    waiting: List[nodes.Node] = list(tree.body)
    while waiting:
        node = waiting.pop(0)
        if not isinstance(node, nodes.Block):
            waiting += node.iter_child_nodes()
        elif node.name not in known:
            raise TemplateError(
                f"{filename}:{node.lineno}: '{parent}' has no block '{node.name}', and the lines "
                "in it would be left out",
                did_you_mean(node.name, known),
            )
    for part in (
        part for node in tree.body if isinstance(node, nodes.Output) for part in node.nodes
    ):
        text = part.data if isinstance(part, nodes.TemplateData) else "{{"
        if text.strip():
            line = part.lineno + text[: -len(text.lstrip())].count("\n")
            raise TemplateError(
                f"{filename}:{line}: text outside of all blocks would be left out, since this "
                f"template extends '{parent}'",
                f"put it into one of its blocks: {', '.join(sorted(known)) or 'it has none'}",
            )


def _parsed(made: jinja2.Environment, name: str) -> Tuple[str, nodes.Template]:
    """The file and the syntax tree of a template."""
    assert made.loader is not None
    source, filename, _ = made.loader.get_source(made, name)
    return filename or name, made.parse(source, name, filename)


def _parent(tree: nodes.Template) -> Optional[str]:
    """The template that it extends in any case, where its name stands there."""
    for node in tree.body:
        if isinstance(node, nodes.Extends) and isinstance(node.template, nodes.Const):
            return str(node.template.value)
    return None


def _blocks(made: jinja2.Environment, name: str) -> Optional[Set[str]]:
    """The blocks of a template and of those it extends; None where that cannot be told."""
    _, tree = _parsed(made, name)
    names = {one.name for one in tree.find_all(nodes.Block)}
    parent = _parent(tree)
    if parent is None:
        return None if any(tree.find_all(nodes.Extends)) else names
    more = _blocks(made, parent)
    return None if more is None else names | more


def _place(error: BaseException, directories: Sequence[str], place: str = "template") -> str:
    """file:line of the template that an error was raised in, or ``place``."""
    trace = error.__traceback__
    while trace is not None:
        filename = trace.tb_frame.f_code.co_filename
        if os.path.dirname(filename) in directories:
            place = f"{filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
