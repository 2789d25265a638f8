"""The YAML reader: values as a person means them, their lines, one clear error for the rest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, List

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuronctl.common import yamlfile
from neuronctl.common.errors import CatalogError, JobFileError, NeuronctlError
from neuronctl.common.paths import cache_dir
from neuronctl.request.job_file import read_config


def parse(text: str) -> yamlfile.Document:
    return yamlfile.parse(text, "job.yaml", JobFileError)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("24:00:00", "24:00:00"),
        ("05:00", "05:00"),
        ("2026-08-12", "2026-08-12"),
        ("on", "on"),
        ("True", "True"),
        ("1_000", "1_000"),
        ("010", "010"),
        ("0x10", "0x10"),
        (".5", ".5"),
        (".inf", ".inf"),
        ("'true'", "true"),
        ('"8"', "8"),
        ("=", "="),
        ("true", True),
        ("null", None),
        ("~", None),
        ("", None),
        ("8", 8),
        ("-3", -3),
        ("0.95", 0.95),
        ("1.5e3", 1500.0),
        ("[1, a, 24:00:00]", [1, "a", "24:00:00"]),
        ("{a: 1}", {"a": 1}),
        ("9" * 40, "9" * 40),
    ],
)
def test_values(text: str, value: object) -> None:
    found = parse(f"key: {text}\n").data["key"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "the file is empty"),
        ("# only a remark\n", 1, "the file is empty"),
        ("- a\n", 1, "not a mapping"),
        ("a: 1\nb: 2\na: 3\n", 3, "duplicate key a, first set on line 1"),
        ("x:\n  y: 1\n  y: 1\n", 3, "duplicate key x.y, first set on line 2"),
        ("a:\n\tb: 1\n", 2, "invalid YAML"),
        ("a: [1\nb: 2\n", 2, "invalid YAML"),
        ("a: b: c\n", 1, "invalid YAML"),
        ("a: 1\n\nb: \x00\n", 3, "contains the character U+0000"),
        ("a: \x1b[31m\n", 1, "contains the character U+001B"),
        ("a: 1\n---\nb: 2\n", 2, "a second document starts here"),
        ("a: &x 1\nb: *x\n", 1, "YAML anchor 'x'"),
        ("a: !!python/object/apply:os.system [id]\n", 1, "YAML tag"),
        ("a: !!int 5\n", 1, "YAML tag"),
        ("? [a]\n: 1\n", 1, "a key must be a plain word"),
        ("'': 1\n", 1, "a key must be a plain word"),
        ("a: " + "[" * 40 + "]" * 40, 1, "nested more than 32 levels deep"),
    ],
)
def test_what_is_refused_is_refused_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(JobFileError) as caught:
        parse(text)
    assert caught.value.message.startswith(f"job.yaml:{line}: ")
    assert words in caught.value.message
    assert caught.value.exit_code == 3


# libyaml's own composer recurses in C and ended the process on these.
@pytest.mark.parametrize(
    "text",
    ["a: " + "[" * 400_000, "a: " + "{a: " * 100_000, "a:\n  " + "- " * 100_000 + "x"],
    ids=["lists", "mappings", "blocks"],
)
def test_endless_nesting_is_an_error_and_no_crash(text: str) -> None:
    with pytest.raises(JobFileError, match=r"nested more than 32 levels deep|invalid YAML"):
        parse(text)


def test_a_bomb_of_aliases_is_refused_at_its_first_anchor() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{k}: &{k} [{', '.join([f'*{j}'] * 9)}]" for j, k in zip("abcdefgh", "bcdefghi")]
    with pytest.raises(JobFileError, match=r"^job.yaml:1: YAML anchor 'a' is not allowed$"):
        parse("\n".join(lines))


def test_a_file_is_read_with_its_byte_order_mark_and_dos_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: \xec\x9d\xb4\xeb\xa6\x84\r\n")
    assert yamlfile.read(file, CatalogError).data == {"a": 1, "b": "이름"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a: 1\nb: \xb0\xa1\n", ":2: not UTF-8 text"),  # EUC-KR
        (b"\x7fELF\x02\x01\x01\x00", ":1: contains the character U+007F"),
        (b"\x89PNG\r\n\x1a\n", ":1: not UTF-8 text"),
        (b"a: 1\n" * 300_000, "larger than 1000000 bytes"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_files_that_are_no_text(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(content)
    with pytest.raises(CatalogError) as caught:
        yamlfile.read(file, CatalogError)
    assert str(file) in caught.value.message
    assert words in caught.value.message
    assert caught.value.hint


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for file, problem in (
        (tmp_path, "Is a directory"),
        (tmp_path / "gone.yaml", "No such file or directory"),
        (tmp_path / "loop", "Too many levels of symbolic links"),
        (Path("/proc/self/mem"), "Input/output error"),
        (Path("a\0b"), "embedded null byte"),
    ):
        with pytest.raises(CatalogError) as caught:
            yamlfile.read(file, CatalogError)
        assert caught.value.message == f"cannot read {file}: {problem}"


def test_it_is_the_same_without_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml

    text = "a: 24:00:00\nb: [1, 2.5]\nc:\n  d: true\n"
    expected = parse(text)
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert parse(text) == expected
    with pytest.raises(JobFileError, match=r"^job.yaml:1: contains the character U"):
        parse("a: \x00")
    with pytest.raises(JobFileError, match=r"^job.yaml:2: invalid YAML"):
        parse("a:\n\tb: 1\n")
    with pytest.raises(JobFileError, match=r"^job.yaml:1: nested"):
        parse("a: " + "[" * 5000)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_with_file_and_line(text: str) -> None:
    try:
        document = parse(text)
    except NeuronctlError as error:
        assert isinstance(error, JobFileError)
        assert error.message.startswith("job.yaml:")
        assert int(error.message.split(":")[1]) >= 1
        return
    assert isinstance(document.data, dict)


keys = st.from_regex(r"[a-z_]{1,8}", fullmatch=True).filter(
    lambda key: key not in ("null", "true", "false")
)
words = st.from_regex(r"[A-Za-z0-9:./_-]{1,12}", fullmatch=True)


@given(st.dictionaries(keys, st.lists(words, max_size=4), min_size=1, max_size=6))
def test_every_value_has_the_line_it_was_written_on(content: Dict[str, List[str]]) -> None:
    lines: List[str] = []
    expected = {"": 1}
    for key, entries in content.items():
        lines.append(f"{key}:")
        expected[key] = len(lines)
        for number, entry in enumerate(entries):
            lines.append(f"  - '{entry}'")
            expected[yamlfile.path_key((key, str(number)))] = len(lines)
    document = parse("\n".join(lines))
    assert document.lines == expected
    assert document.data == {key: entries or None for key, entries in content.items()}


def kept_files() -> List[Path]:
    return sorted(Path(cache_dir()).glob("yaml-*.json"))


def test_kept_document_equals_the_parsed_one(tmp_path: Path, monkeypatch: Any) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("a: 1.10\nb: {c: [x, 24:00:00, true, null], '한글': 1}\n")
    first = yamlfile.read(file, CatalogError, found=True)
    assert len(kept_files()) == 1
    monkeypatch.setattr(yamlfile, "parse", None)  # it must not be needed any more
    again = yamlfile.read(file, CatalogError, found=True)
    assert again == first
    assert again.where(("b", "c", "1")) == f"{file}:2"


def test_kept_document_is_never_stale(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("a: 1\n")
    os.utime(file, (1, 1))
    assert yamlfile.read(file, CatalogError, found=True).data == {"a": 1}
    file.write_text("a: 2\n")  # of the same size and time
    os.utime(file, (1, 1))
    assert yamlfile.read(file, CatalogError, found=True).data == {"a": 2}


def test_a_configuration_is_kept_unless_a_secret_may_stand_in_it(
    tmp_path: Path, monkeypatch: Any
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("env: {HF_TOKEN: hf_x}\n")
    read_config(file)
    assert kept_files() == []
    file.write_text("partition: gpu\n")
    first = read_config(file)
    assert len(kept_files()) == 1
    monkeypatch.setattr(yamlfile, "parse", None)  # it must not be needed any more
    assert read_config(file) == first
