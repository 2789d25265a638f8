"""Show the most frequent rules and causes in Korean if the locale is Korean.

korean.yaml and korean_why.yaml have the translations (``says`` below), such as ``"no file
'{path}'": "'{path}' 파일이 없습니다"``. A text without one, JSON, records, and the library stay
English.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, TextIO, Tuple

from neuronctl.common import yamlfile
from neuronctl.common.datatypes import replace
from neuronctl.common.errors import CatalogError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from neuronctl.rules.base import Finding

FILE = os.path.join(os.path.dirname(__file__), "korean.yaml")
WHY_FILE = os.path.join(os.path.dirname(__file__), "korean_why.yaml")


def is_korean(file: TextIO) -> bool:
    """Return True if the locale is Korean and ``file`` can print it."""
    locales = (os.environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    locale = next(filter(None, locales), "")  # the first that is set counts
    is_chosen = re.match("ko([_.@]|$)", locale) is not None
    return is_chosen and "한국어".encode(file.encoding or "ascii", "ignore") != b""


@functools.cache
def texts() -> Mapping[str, Any]:
    """Return the content of korean.yaml: the title, explanation, and messages of each rule."""
    return yamlfile.read(FILE, CatalogError).data


def in_language(finding: Finding, file: TextIO) -> Finding:
    """Return a finding in the language of the locale, for ``file``."""
    if not is_korean(file) or finding.code not in texts():
        return finding
    rule = texts()[finding.code]
    says = {**rule["says"], **texts()["every"]["says"]}
    match = re.match(r"(?:\S+:\d+|step [^:]*): ", finding.message)
    place = match[0] if match else ""  # such as "job.sh:3: "
    english = finding.message[len(place) :]
    message, hint = korean(english, says), korean(finding.hint, says)
    if message == english or (finding.hint and hint == finding.hint):
        return finding  # without one translation, both texts stay English
    return replace(finding, title=rule["title"], message=place + message, hint=hint)


def in_korean(message: str, hint: str) -> Tuple[str, str]:
    """Return a refusal's message and hint in the language of the locale, both in the same."""
    if not is_korean(sys.stderr):
        return message, hint
    says = texts()["refused"]
    korean_message, korean_hint = korean(message, says), korean(hint, says)
    if korean_message == message or (hint and korean_hint == hint):
        return message, hint
    return korean_message, korean_hint


def explained(code: str, english: str) -> str:
    """Return the explanation of a rule in Korean, with its example unchanged."""
    if code not in texts():
        return english
    _, _, example = english.partition("\n- is wrong, + is right:\n")
    head, _, _ = english.partition(": ")  # "NC310 (error, warning)"
    severities = texts()["severities"]
    korean_head = re.sub("error|warning|note", lambda match: severities[match[0]], head)
    text = f"{korean_head}: {texts()[code]['title']}\n\n{texts()[code]['explain']}"
    return f"{text}\n\n-: 틀린 것, +: 맞는 것\n{example}" if example else text


@functools.cache
def why_texts() -> Mapping[str, str]:
    """Return the translations of what ``why`` says, and of the shipped causes.

    A translation whose cause is gone, or no longer has one of its ``{names}``, is left out.
    """
    from neuronctl.diagnosis import evidence, knowledge

    document = yamlfile.read(knowledge.SHIPPED, CatalogError)
    entries = knowledge.read_entries(document, shipped=True)
    english = {entry.name: {"means": entry.means, "do": entry.remedy} for entry in entries}
    english.update({name: dict(ending) for name, ending in evidence.meanings().items()})
    data = yamlfile.read(WHY_FILE, CatalogError).data
    says: Dict[str, str] = dict(data["says"])
    for name, translation in data["causes"].items():
        for key, sentence in english.get(name, {}).items():
            # korean_why.yaml has its own names for these two.
            template = sentence.replace("{0}", "{quoted}").replace("{memory}", "{more}")
            fields = re.findall(r"\{\w+\}", translation.get(key, ""))
            if key in translation and all(field in template for field in fields):
                says[template] = translation[key]
    return says


def why_in_korean(lines: Sequence[str], file: TextIO) -> Tuple[List[str], Callable[[str], str]]:
    """Return the lines of ``why``'s answer for ``file``, and a function that translates its facts.

    Both keep English if the locale is not Korean, or if one of the lines has no translation.
    """
    if is_korean(file):
        translated = [_translated(line, why_texts()) for line in lines]
        if None not in translated:
            return [*filter(None, translated)], lambda text: korean(text, why_texts())
    return [*lines], str  # str() leaves a fact as it is


_LONGEST = 1_000
"""The most characters of a text that is translated: with longer ones, patterns are slow."""


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
    # A question is followed by a space, not by a semicolon.
    return "; ".join(filter(None, translated)).replace("?; ", "? ")


_SENTENCES = ("what", "cause", "more", "starts")
"""The names whose values are sentences, which are translated in turn."""

_PATTERNS = {
    **dict.fromkeys((*_SENTENCES, "where", "quoted"), ".*?"),  # these may contain semicolons
    **dict.fromkeys(("code", "line", "rank"), r"\d+"),
    "jobs": r"\d+ [a-z ]+",
}
_ONE_PART = "(?:(?!; ).)*?"  # any text without a semicolon that separates parts
_PROSE = r"(?:^|\s)(?:the|an?|it|is|are|has|not|of|to|for|in|on|and|or|that|which|than)(?=\s|,|$)"
"""Words that only a sentence has; it then needs its own translation."""
_UNITS = {"s": "초", "min": "분", "h": "시간", "d": "일"}


def _translated(text: str, says: Mapping[str, str]) -> Optional[str]:
    """Return a whole text in Korean; None if no translation fits it."""
    for english, translation in says.items():
        if not text.startswith(english.partition("{")[0]):
            continue
        match = re.fullmatch(_pattern(english), text)
        if match is None:
            continue
        values = {name: _value(name, value, says) for name, value in match.groupdict().items()}
        if None not in values.values():
            return translation.format(**values)
    return None


def _pattern(english: str) -> str:
    """Return a pattern with a group for each name: ``no file '{path}'`` fits ``no file 'a.py'``."""
    first, *others = re.split(r"\{(\w+)\}", english)  # others: a name, the text after it, …
    pattern = re.escape(first)
    for name, following in zip(others[::2], others[1::2]):
        pattern += f"(?P<{name}>{_PATTERNS.get(name, _ONE_PART)})" + re.escape(following)
    return pattern


def _sentence(text: str, says: Mapping[str, str]) -> Optional[str]:
    """Return a sentence in Korean; None if no translation fits it.

    ``says`` may have it in lower case, as a part of a longer sentence.
    """
    forms = (text, text[:1].lower() + text[1:])
    translations = (korean(form, says) for form in forms)
    return next((translation for translation in translations if translation not in forms), None)


def _value(name: str, text: str, says: Mapping[str, str]) -> Optional[str]:
    """Return the Korean text for the value of a name; None if a translation is missing.

    A value is a sentence, a duration, a list of names, an amount (``2 tasks``), or a text such as
    a path, which stays as it is.
    """
    if name in _SENTENCES:
        return _sentence(text, says)
    if re.fullmatch(r"(?:\d+ (?:s|min|h|d) ?)+", text):  # a duration: 1 h 30 min
        return re.sub(r" (s|min|h|d)\b", lambda match: _UNITS[match[1]], text)
    if name == "names":
        return text.replace(" or ", ", ")
    # Text outside quotes and parentheses must not stay English.
    if name not in _PATTERNS and re.search(_PROSE, re.sub(r"'[^']*'|\([^)]*\)", "", text)):
        return None
    # "2 tasks" becomes "2": the translation has the Korean counting word.
    return re.sub(r"^(\d+) [A-Za-z ]+$", r"\1", text)
