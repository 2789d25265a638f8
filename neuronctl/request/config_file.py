"""Change keys of the user's configuration, and leave the rest of the file as it was written."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.errors import JobFileError, UsageError, did_you_mean
from neuronctl.common.files import alone, rewrite, write_private, write_whole
from neuronctl.common.frozen import dataclass
from neuronctl.common.paths import PROJECT_CONFIG, present, state_dir
from neuronctl.request.job import BY_NAME, find
from neuronctl.request.job_file import PRESETS, configuration, has_keys, parse_config, used_files
from neuronctl.request.options import Option

if TYPE_CHECKING:
    from neuronctl.common.yamlfile import Document


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
    if option.is_flag and texts[0] not in filter(None, ("true", "false", option.word)):
        words = f"true nor false nor {option.word}" if option.word else "true nor false"
        raise UsageError(f"{option.long}: '{texts[0]}' is neither {words}", option.usage)
    try:
        option.parse(texts)
    except ValueError as error:
        raise UsageError(f"{option.long}: {error}", option.usage) from None
    if option.is_flag:
        return texts[0] if texts[0] == option.word else texts[0] == "true"
    return list(texts) if option.kind == "list" else texts[0]


@dataclass(frozen=True)
class Setting:
    """A key that a file sets. value, texts: without secrets. where: the file and line.

    preset: the one that it belongs to, "" for none.
    """

    option: Option
    value: Any
    texts: Tuple[str, ...]
    where: str
    preset: str = ""

    @property
    def key(self) -> str:
        """``time``, or ``big.time`` of a preset."""
        return f"{self.preset}.{self.option.long}" if self.preset else self.option.long


def settings() -> List[Setting]:
    """What the configuration sets, each key by the file that counts; raises JobFileError."""
    from neuronctl.common import yamlfile

    configuration()  # raises what is wrong with the files
    found: Dict[str, Setting] = {}
    for file in used_files():
        text = yamlfile.text_of(file, JobFileError, found=True)
        if has_keys(text):
            document = yamlfile.parse(text, file, JobFileError)
            whole = _settings(document, (), document.data)
            presets = document.data.get(PRESETS, {})
            for name in presets:  # which replace those of the same name as a whole
                found = {key: old for key, old in found.items() if old.preset != name}
            parts = (_settings(document, (PRESETS, name), presets[name]) for name in presets)
            found.update((setting.key, setting) for part in (whole, *parts) for setting in part)
    return list(found.values())


def _settings(
    document: Document, path: Tuple[str, ...], data: Mapping[str, Any]
) -> Iterator[Setting]:
    from neuronctl.common.secrets import hide_in_words, hide_value

    for key, value in data.items():
        if (*path, key) == (PRESETS,):
            continue
        shown = _as_typed(document, (*path, key), value)
        if isinstance(shown, Mapping):
            shown = {name: hide_value(name, str(what)) for name, what in shown.items()}
            texts = [f"{name}={what}" for name, what in shown.items()]
        elif isinstance(shown, list):
            texts = shown = list(hide_in_words(map(str, shown)))
        else:
            shown = hide_value(key, shown) if isinstance(shown, str) else shown
            texts = [str(shown)]
        where = document.where((*path, key))
        yield Setting(known_key(key), shown, tuple(texts), where, *path[1:])


def _as_typed(document: Document, path: Tuple[str, ...], value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _as_typed(document, (*path, name), what) for name, what in value.items()}
    if isinstance(value, list):
        return [_as_typed(document, (*path, str(n)), item) for n, item in enumerate(value)]
    return document.raw.get(path, value)


def content(file: str) -> str:
    """The text of a configuration, "" where there is none; raises JobFileError."""
    from neuronctl.common import yamlfile

    return yamlfile.text_of(file, JobFileError, found=True) if present(file) else ""


def _data(text: str, file: str) -> Mapping[str, Any]:
    """What a file sets: its keys, as they are written, and their values."""
    from neuronctl.common import yamlfile

    return yamlfile.parse(text, file, JobFileError).data if has_keys(text) else {}


def change(changes: Mapping[str, Any], file: str) -> List[str]:
    """Set keys of a configuration to values, or remove those whose value is None.

    ``big.time`` is a key of the preset ``big``, which is made, and removed with its last key.
    Returns the keys that were not so before. Raises JobFileError where the file, or what it would
    become, is not what neuronctl reads.
    """
    try:
        with alone(os.path.join(state_dir(), "config.lock")):
            return _change(changes, file)
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from None


def _change(changes: Mapping[str, Any], file: str) -> List[str]:
    before = content(file)
    after, changed = before, []
    for key, value in changes.items():
        old = after
        if "." in key:
            after = _changed(after, file, PRESETS, _with_key(after, file, key, value))
        else:
            after = _changed(after, file, key, value)
        changed += [key] if after != old else []
    if has_keys(after):
        parse_config(after, file)
    if after == before:
        return changed
    if present(file):
        rewrite(file, before.encode(), after.encode())
    elif file == PROJECT_CONFIG:  # in a directory that need not be private
        write_whole(file, after)
    else:
        write_private(file, after)
    return changed


def _with_key(text: str, file: str, key: str, value: Optional[object]) -> Optional[object]:
    """The presets of a file with one key of one preset changed; None where none is left."""
    from neuronctl.common import yamlfile

    preset, _, name = key.rpartition(".")
    if not re.fullmatch(r"[\w-]+", preset):
        raise UsageError(f"'{preset}' is not a name for a preset", "use letters: big.nodes")
    presets: Dict[str, Dict[str, Any]] = {}
    if has_keys(text):
        parse_config(text, file)  # raises where there are none
        document = yamlfile.parse(text, file, JobFileError)
        if any(re.search(r"(^|\s)#", line) for line in _block(text, file, PRESETS)):
            problem = f"the presets in {file} have comments, which '{key}' cannot be changed around"
            raise JobFileError(problem, "change it with 'neuronctl config edit'")
        plain = document.data.get(PRESETS, {})
        for each, keys in plain.items():
            typed = _as_typed(document, (PRESETS, each), keys)
            presets[each] = {k: v if isinstance(v, bool) else typed[k] for k, v in keys.items()}
    own = presets.setdefault(preset, {})
    old = next((old for old in own if find(old) is find(name)), name)
    own[old] = value
    if value is None:
        del own[old]
    return {each: keys for each, keys in presets.items() if keys} or None


def _block(text: str, file: str, key: str) -> Sequence[str]:
    """The lines of a key of the top level, as far as they are its own."""
    from neuronctl.common import yamlfile

    lines, starts = text.split("\n"), yamlfile.parse(text, file, JobFileError).lines
    if (key,) not in starts:
        return ()
    begin = starts[(key,)] - 1
    later = (line - 1 for path, line in starts.items() if len(path) == 1 and line > begin + 1)
    end = min(later, default=len(lines))
    # Comments and blank lines before the next key are its own.
    while end > begin + 1 and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
        end -= 1
    return lines[begin:end]


def _changed(text: str, file: str, key: str, value: Optional[object]) -> str:
    """The text with one key changed, and all its other lines as they were."""
    from neuronctl.common import yamlfile
    from neuronctl.common.yamlfile.writer import Entry, write

    before = _data(text, file)
    lines = text.split("\n") if text else []
    if lines[-1:] == [""]:
        lines.pop()
    made = [] if value is None else write([Entry(key, value)]).split("\n")[:-1]
    old = next((name for name in before if find(name) is find(key)), None)
    if old is None:
        lines += made
    else:
        own = _block(text, file, old)
        begin = yamlfile.parse(text, file, JobFileError).lines[(old,)] - 1
        lines[begin : begin + len(own)] = _with_remark(made, own)
    after = "".join(f"{line}\n" for line in lines)
    wanted = {name: what for name, what in before.items() if name != old}
    if value is not None:
        wanted.update(_data("\n".join(made), file))
    try:
        right = _data(after, file) == wanted
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
