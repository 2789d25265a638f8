"""What is shown of the rules that students meet most where the locale is Korean: korean.yaml.

JSON, records, and the library stay English, and so does every text that the file does not have.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from dataclasses import replace
from typing import Any, Mapping, Optional, TextIO

from neuronctl.common import yamlfile
from neuronctl.common.errors import CatalogError
from neuronctl.rules.base import Finding

FILE = os.path.join(os.path.dirname(__file__), "korean.yaml")


def is_korean(file: TextIO) -> bool:
    """Return True if the locale is Korean and ``file`` can print it."""
    locales = (os.environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    is_chosen = re.match("ko([_.@]|$)", next(filter(None, locales), "")) is not None
    return is_chosen and "한국어".encode(file.encoding or "ascii", "ignore") != b""


@functools.cache
def texts() -> Mapping[str, Any]:
    """Return the content of the file: title, explain, and says of each rule, by code."""
    return yamlfile.read(FILE, CatalogError).data


def in_language(finding: Finding, file: TextIO) -> Finding:
    """Return a finding with its words as they are to be shown on ``file``."""
    if not is_korean(file) or finding.code not in texts():
        return finding
    rule = texts()[finding.code]
    says = {**rule["says"], **texts()["every"]["says"]}
    place = "".join(re.findall(r"^(?:\S+:\d+|step [^:]*): ", finding.message))
    english = finding.message[len(place) :]
    message, hint = korean(english, says), korean(finding.hint, says)
    if message == english or (finding.hint and hint == finding.hint):
        return finding  # one finding is in one language
    return replace(finding, title=rule["title"], message=place + message, hint=hint)


def in_korean(text: str) -> str:
    """Return the message or the hint of a refusal as it is to be shown on standard error."""
    return korean(text, texts()["refused"]) if is_korean(sys.stderr) else text


def explained(code: str, english: str) -> str:
    """Return what ``explain`` says of a rule, with its example as it is."""
    if code not in texts():
        return english
    example = english.partition("\n- is wrong, + is right:\n")[2]
    text = english.partition(": ")[0] + f": {texts()[code]['title']}\n\n{texts()[code]['explain']}"
    return text + (f"\n\n-: 틀린 것, +: 맞는 것\n{example}" if example else "")


_LONGEST = 1_000
"""The characters of a text that is looked up: patterns are slow with much longer ones."""


def korean(text: str, says: Mapping[str, str]) -> str:
    """Return a text in Korean, as a whole or part by part; unchanged if ``says`` lacks a part."""
    if len(text) > _LONGEST:
        return text
    whole = _translated(text, says)
    if whole is not None:
        return whole
    parts = re.split(r"; |(?<=\?) ", text)
    translated = [_translated(part, says) for part in parts]
    if None in translated:
        return text
    return "; ".join(filter(None, translated)).replace("?; ", "? ")


def _translated(text: str, says: Mapping[str, str]) -> Optional[str]:
    for english, translation in says.items():
        words = re.split(r"\{(\w+)\}", english)  # every second one is a name
        words[::2] = map(re.escape, words[::2])
        words[1::2] = (rf"(?P<{name}>(?:(?!; ).)*?)" for name in words[1::2])
        match = re.fullmatch("".join(words), text)
        if match is not None:
            # "2" of "2 tasks": Korean counts with a word of its own.
            given = match.groupdict().items()
            figures = {name: re.sub(r"^(\d+) [A-Za-z ]+$", r"\1", value) for name, value in given}
            return translation.format(**figures)
    return None
