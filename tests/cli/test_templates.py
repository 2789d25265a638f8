"""A user's own template: in place of the shipped one or extending it; its names; its errors."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any, Callable, Set

import jinja2.defaults
import pytest

from neuronctl.planning import JobPlan, Launch

JOB = ["generate", "-p", "amd_a100nv_8", "-N2", "--gpus-per-node=2", "--field=misc"]
APPL = ["--appl=pytorch", "train.py"]
NAMES = '{{ self._TemplateReference__context.get_all() | sort | join(" ") }}\n'


@pytest.fixture(autouse=True)
def script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")


def own(name: str, text: str, home: Path) -> Path:
    path = home / ".config" / "neuronctl" / "templates" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_file_in_place_of_the_shipped_one(run: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "mine.j2").write_text("#!/bin/bash\n# {{ plan.job_name | q }}\n{{ launch }}\n")
    text = run(*JOB, "--template=./mine.j2", "-J", "two words", *APPL).stdout
    assert text.splitlines()[:2] == ["#!/bin/bash", "# 'two words'"]
    assert text.count("\n") > 3 and "#SBATCH" not in text


def test_one_that_only_lies_there_is_not_run(run: Callable[..., Any], tmp_path: Path) -> None:
    """The directory may be everybody's, and a template is a program."""
    shipped = run(*JOB, *APPL).stdout
    code = "{{ cycler.__init__.__globals__.os.popen('echo mine').read() }}"
    for name in ("job.sh.j2", "salloc.sh.j2"):
        (tmp_path / name).write_text(code)
    assert run(*JOB, *APPL).stdout == shipped
    words = [*JOB[1:], "--appl=pytorch", "--dry-run", "--force"]
    assert "mine" not in run("salloc", *words).stdout
    # Nor by its name alone: another directory's job.sh.j2 is meant.
    assert run(*JOB, "--template=job.sh.j2", *APPL).stdout == shipped
    assert run(*JOB, "--template=./job.sh.j2", *APPL).stdout.strip() == "mine"
    (tmp_path / "other.j2").write_text(code)
    (tmp_path / "shipped").mkdir()
    (tmp_path / "shipped" / "job.sh.j2").write_text(code)
    assert run(*JOB, "--template=shipped/job.sh.j2", *APPL).stdout == shipped
    said = run(*JOB, "--template=other.j2", *APPL, code=5).stderr
    assert "there is no template 'other.j2'" in said and "write ./other.j2" in said


def test_the_users_own_extends_the_shipped_one(run: Callable[..., Any], clean_home: Path) -> None:
    shipped = run(*JOB, *APPL).stdout
    block = "{% block environment %}{{ super() }}ulimit -c 0\n{% endblock %}"
    own("job.sh.j2", '{% extends "shipped/job.sh.j2" %}\n' + block, clean_home)
    text = run(*JOB, *APPL).stdout
    assert text.replace("ulimit -c 0\n", "") == shipped
    assert text.count("ulimit -c 0\n") == 1


@pytest.mark.parametrize("text", ["\n\n{{ nowhere }}\n", "\n\n{{ plan.nowhere }}\n"])
def test_an_undefined_name_is_an_error_with_its_place(
    text: str, run: Callable[..., Any], clean_home: Path
) -> None:
    path = own("job.sh.j2", text, clean_home)
    said = run(*JOB, *APPL, code=5).stderr
    assert f"{path}:3: " in said and "nowhere" in said
    assert "'neuronctl help templates'" in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "endless recursion"),
        ("{% if %}", ""),
    ],
)
def test_a_broken_template(text: str, words: str, run: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "mine.j2").write_text(f"\n{text}\n")
    said = run(*JOB, "--template=./mine.j2", *APPL, code=5).stderr
    assert f"{tmp_path}/mine.j2:2: {words}" in said


def test_a_template_that_is_not_there(run: Callable[..., Any]) -> None:
    # A path is no name: the shipped template is not what is meant.
    for name in ("none.j2", "./job.sh.j2", "none/job.sh.j2"):
        said = run(*JOB, f"--template={name}", *APPL, code=5).stderr
        assert f"no template '{name}'" in said


def test_blocks_of_all_templates_above_and_new_ones_within(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    extends = '{% extends "shipped/job.sh.j2" %}\n{# said #}\n{% set x = 1 %}\n'
    inner = (
        "{% block environment %}{{ super() }}{% block mine %}\none\n{% endblock %}{% endblock %}\n"
    )
    (tmp_path / "middle.j2").write_text(extends + inner)
    outer = '{% extends "middle.j2" %}\n{% block mine %}two{% endblock %}\n'
    (tmp_path / "last.j2").write_text(outer + "{% block launch %}three{% endblock %}")
    text = run(*JOB, "--template=./last.j2", *APPL).stdout
    assert "two" in text and "three" in text and "one" not in text.splitlines()
    assert "one" in run(*JOB, "--template=./middle.j2", *APPL).stdout.splitlines()


def test_a_launcher_of_the_users_own(run: Callable[..., Any], clean_home: Path) -> None:
    header = "{#\ndistributed: yes\none_task_per_node: no\n#}\n"
    path = own("launchers/mine.j2", header + "{% block once %}start{% endblock %}", clean_home)
    text = run(*JOB, "--launcher=mine", *APPL, "a b").stdout
    assert "\nstart python train.py 'a b'\n" in text
    path.write_text(header.replace(": no\n", ": nope\n"))
    said = run(*JOB, "--launcher=mine", *APPL, code=5).stderr
    assert f"{path}:3: one_task_per_node: must be yes or no" in said


def documented(root: Path, pattern: str, heading: str = "") -> Set[str]:
    text = (root / "docs/reference/templates.md").read_text(encoding="utf-8")
    section = text.partition(heading + "\n")[2].partition("\n## ")[0] if heading else text
    return set(re.findall(pattern, section, re.MULTILINE))


def test_every_variable_is_documented(
    run: Callable[..., Any], root: Path, clean_home: Path
) -> None:
    names: Set[str] = set()
    own("job.sh.j2", NAMES, clean_home)
    own("salloc.sh.j2", NAMES, clean_home)
    names.update(run(*JOB, *APPL).stdout.split())
    said = run("salloc", "--dry-run", "--force", *JOB[1:], APPL[0]).stdout
    names.update(said.splitlines()[-1].split())
    names -= set(jinja2.defaults.DEFAULT_NAMESPACE)
    assert names == documented(root, r"^\| `(\w+)` \|", "## Variables")


def test_every_value_of_the_plan_is_documented(root: Path) -> None:
    names = {field.name for kind in (JobPlan, Launch) for field in dataclasses.fields(kind)}
    for kind in (*JobPlan.__mro__, Launch):
        names |= {name for name, value in vars(kind).items() if isinstance(value, property)}
    cells = " ".join(documented(root, r"^\| (`plan\.[^|]+) \|"))
    assert names == set(re.findall(r"`plan\.(\w+)`", cells))


def test_every_block_is_documented(root: Path) -> None:
    shipped = (root / "templates/job.sh.j2").read_text()
    row = next(iter(documented(root, r"^\| `job\.sh\.j2` \| .*$")))
    assert re.findall(r"{%-? block (\w+) %}", shipped) == re.findall(r"`(\w+)`", row)


def test_compiled_templates_are_kept_where_nobody_else_can_write(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    kept, env = tmp_path / "cache/neuronctl/templates", {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    first = run(*JOB, *APPL, env=env).stdout
    files = sorted(kept.iterdir())
    assert files and kept.stat().st_mode & 0o077 == 0
    for path in files:
        path.write_bytes(b"junk")
        path.chmod(0o666)  # others could have written it: it is not read, but written anew
    assert run(*JOB, *APPL, env=env).stdout == first
    assert not any(path.stat().st_mode & 0o077 for path in files)
    for path in files:
        path.unlink()
    kept.rmdir()
    kept.write_text("no directory")
    assert run(*JOB, *APPL, env=env).stdout == first
