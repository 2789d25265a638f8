"""docs/reference/rules.md, job-file.md and config.md say what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Callable, Dict

import pytest

from neuronctl.common.rule_codes import CODES
from neuronctl.judgement.rule_pages import every_rule
from neuronctl.request.job import BY_NAME, OPTIONS, Layer
from neuronctl.request.job_file import read_config, read_job_file

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


def page(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


def test_every_rule_is_documented_with_its_severity() -> None:
    rows: Dict[str, str] = dict(
        re.findall(r"^\| (NC\d+) \| ([a-z, ]+) \|", page("rules.md"), re.MULTILINE)
    )
    sections = re.findall(r"(?m)^## (NC\d+)\n\n\*([A-Za-z, ]+)\.\* ", page("script-rules.md"))
    rows.update((code, words.lower()) for code, words in sections)
    assert list(rows) == CODES == list(every_rule())
    for code, words in rows.items():
        assert every_rule()[code].severity in words.split(", "), code


@pytest.mark.parametrize(
    ("name", "reader"), [("job-file.md", read_job_file), ("config.md", read_config)]
)
def test_example_file_is_read(name: str, reader: Callable[[str], Layer], tmp_path: Path) -> None:
    texts = re.findall(r"^```yaml\n(.*?)^```$", page(name), re.MULTILINE | re.DOTALL)
    path = tmp_path / "x.yaml"
    read = []
    for text in texts:
        path.write_text(text, encoding="utf-8")
        read.append(reader(str(path)))
    assert len(read[0].values) >= 5


def test_kinds_of_values_are_complete() -> None:
    rows = dict(re.findall(r"^\| ([a-z ]+) \| (`.*?`|all others) \|", page("job-file.md"), re.M))
    documented = {
        key: set(re.findall(r"`([a-z-]+)`", rows[key])) for key in ("yes or no", "several")
    }
    flags = {option.long for option in OPTIONS if option.kind not in ("value", "list")}
    lists = {option.long for option in OPTIONS if option.kind == "list"} - {"env"}
    assert documented == {"yes or no": flags, "several": lists}


def test_batch_only_options_are_named() -> None:
    named = re.findall(r"\((`array`.*?)\)", page("config.md"), re.DOTALL)[0]
    names = set(re.findall(r"`([a-z-]+)`", named))
    assert names == {option.long for option in OPTIONS if option.batch_only}


def test_every_key_of_the_text_exists() -> None:
    for name in re.findall(r"`([a-z-]+)`", page("job-file.md")):
        others = (
            "script args run steps sweep jobs submit --body true false yes generate salloc deep"
        )
        assert name in {*BY_NAME, *others.split()}, name
