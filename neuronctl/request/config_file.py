"""What the user's configuration sets."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from neuronctl.common import yamlfile
from neuronctl.common.datatypes import dataclass
from neuronctl.common.errors import JobFileError
from neuronctl.common.paths import config_files
from neuronctl.common.yamlfile import Document
from neuronctl.request.job import find
from neuronctl.request.job_file import ON, configuration, has_keys
from neuronctl.request.options import Option

_ON = Option(ON, "", "NAME", "value", "The cluster on which commands run", str, "", False, ON)


@dataclass(frozen=True)
class Setting:
    """A key that a file sets. value, texts: without secrets. where: the file and line."""

    option: Option
    value: Any
    texts: Tuple[str, ...]
    where: str

    @property
    def key(self) -> str:
        """Return the key in the configuration file."""
        return self.option.long


def settings() -> List[Setting]:
    """Return the configuration's settings, each from the file that counts; raise JobFileError."""
    configuration()  # raises the errors of the files
    by_key: Dict[str, Setting] = {}
    for file in config_files():
        text = yamlfile.text_of(file, JobFileError, found=True)
        if has_keys(text):
            document = yamlfile.parse(text, file, JobFileError)
            by_key.update((each.key, each) for each in _settings(document))
    return list(by_key.values())


def _settings(document: Document) -> List[Setting]:
    from neuronctl.common.secrets import hide_in_words, hide_value

    settings = []
    for key, value in document.data.items():
        option = _ON if key == ON else find(key)
        assert option is not None  # configuration() refuses any other
        shown = document.raw.get(key, value)
        if isinstance(shown, Mapping):
            shown = {name: hide_value(name, str(what)) for name, what in shown.items()}
            texts = [f"{name}={what}" for name, what in shown.items()]
        elif isinstance(shown, list):
            texts = shown = list(hide_in_words(map(str, shown)))
        else:
            shown = hide_value(key, shown) if isinstance(shown, str) else shown
            texts = [str(shown)]
        settings.append(Setting(option, shown, tuple(texts), document.where((key,))))
    return settings
