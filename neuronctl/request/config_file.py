"""Change keys of the user's configuration, and leave the rest of the file as it was written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, List, Mapping, Optional, Sequence, Tuple

from neuronctl.errors import JobFileError, UsageError, did_you_mean
from neuronctl.files import rewrite, write_private
from neuronctl.frozen import dataclass
from neuronctl.paths import defaults_file, present
from neuronctl.request.job import BY_NAME, find
from neuronctl.request.job_file import has_keys, parse_config
from neuronctl.request.options import Option

if TYPE_CHECKING:
    from neuronctl.yamlfile import Document


def known_key(key: str) -> Option:
    """The option that a key stands for; raises UsageError."""
    option = find(key)
    if option is None:
        raise UsageError(f"unknown key '{key}'", did_you_mean(key.replace("_", "-"), BY_NAME))
    return option


def value_of(option: Option, texts: Sequence[str]) -> Any:
    """The value of a key as the file has it, from what is typed; raises UsageError."""
    if option.kind != "list" and len(texts) != 1:
        raise UsageError(f"{option.long} takes one value, not {len(texts)}", option.usage)
    if option.is_flag and texts[0] not in ("true", "false"):
        raise UsageError(f"{option.long}: '{texts[0]}' is neither true nor false", option.usage)
    try:
        option.parse(texts)
    except ValueError as error:
        raise UsageError(f"{option.long}: {error}", option.usage) from None
    if option.is_flag:
        return texts[0] == "true"
    return list(texts) if option.kind == "list" else texts[0]


@dataclass(frozen=True)
class Setting:
    """A key that the file sets. value, texts: without secrets. where: the file and line."""

    option: Option
    value: Any
    texts: Tuple[str, ...]
    where: str


def settings(text: str) -> List[Setting]:
    """What the user's configuration sets, in its order; ``text`` has to be one that is read."""
    from neuronctl import yamlfile
    from neuronctl.masking import Masker

    if not has_keys(text):
        return []
    document = yamlfile.parse(text, defaults_file(), JobFileError)
    found = []
    for key, value in document.data.items():
        shown = Masker().data(_as_typed(document, (key,), value), key)
        if isinstance(shown, Mapping):
            texts = [f"{name}={what}" for name, what in shown.items()]
        else:
            texts = [str(item) for item in shown] if isinstance(shown, list) else [str(shown)]
        found.append(Setting(known_key(key), shown, tuple(texts), document.where((key,))))
    return found


def _as_typed(document: Document, path: Tuple[str, ...], value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _as_typed(document, (*path, name), what) for name, what in value.items()}
    if isinstance(value, list):
        return [_as_typed(document, (*path, str(n)), item) for n, item in enumerate(value)]
    return document.raw.get(path, value)


def content() -> str:
    """The text of the user's configuration, "" where there is none; raises JobFileError."""
    from neuronctl import yamlfile

    file = defaults_file()
    return yamlfile.text_of(file, JobFileError, found=True) if present(file) else ""


def _data(text: str) -> Mapping[str, Any]:
    """What the file sets: its keys, as they are written, and their values."""
    from neuronctl import yamlfile

    return yamlfile.parse(text, defaults_file(), JobFileError).data if has_keys(text) else {}


def change(changes: Mapping[str, Any]) -> None:
    """Set keys of the user's configuration to values, or remove those whose value is None.

    Raises JobFileError where the file, or what it would become, is not what neuronctl reads.
    """
    file, before = defaults_file(), content()
    after = before
    for key, value in changes.items():
        after = _changed(after, file, key, value)
    if has_keys(after):
        parse_config(after, file)
    if after == before:
        return
    try:
        if present(file):
            rewrite(file, before.encode(), after.encode())
        else:
            write_private(file, after)
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from None


def _changed(text: str, file: str, key: str, value: Optional[object]) -> str:
    """The text with one key changed, and all its other lines as they were."""
    from neuronctl import yamlfile
    from neuronctl.yamlfile.writer import Entry, write

    before = _data(text)
    lines = text.split("\n") if text else []
    if lines[-1:] == [""]:
        lines.pop()
    made = [] if value is None else write([Entry(key, value)]).split("\n")[:-1]
    old = next((name for name in before if find(name) is find(key)), None)
    if old is None:
        lines += made
    else:
        starts = yamlfile.parse(text, file, JobFileError).lines
        begin = starts[(old,)] - 1
        later = (line - 1 for path, line in starts.items() if len(path) == 1 and line > begin + 1)
        end = min(later, default=len(lines))
        # Comments and blank lines before the next key are its own.
        while end > begin + 1 and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
            end -= 1
        lines[begin:end] = _with_remark(made, lines[begin:end])
    after = "".join(f"{line}\n" for line in lines)
    wanted = {name: what for name, what in before.items() if name != old}
    if value is not None:
        wanted.update(_data("\n".join(made)))
    try:
        right = _data(after) == wanted
    except JobFileError:
        right = False
    if not right:
        problem = f"{file} is written in a way that '{key}' cannot be changed in by itself"
        raise JobFileError(problem, "change it with 'neuronctl config edit'")
    return after


def _with_remark(made: List[str], old: Sequence[str]) -> List[str]:
    """The new line with the comment at the end of the old one."""
    remark = re.match(r"[^'\"\[{|>#]*?(\s+#.*)$", old[0]) if len(old) == len(made) == 1 else None
    return [made[0] + remark[1]] if remark else made
