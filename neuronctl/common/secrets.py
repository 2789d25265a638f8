"""Find and hide secrets in what is shown: passwords, tokens, and passwords in URLs. Pure.

A value is a secret if its name says so (``HF_TOKEN=…``, ``--password …``), if it begins as a
well-known token does, or if it is the password of a URL or of an Authorization header. References
(``$HF_TOKEN``), paths, placeholders, flags, and code are no secrets.

Records, plans, and scripts are private files and hold everything as it was submitted. What is
printed goes through ``hide_secrets`` and ``hide_in_words``; rule NC640 (a secret written into a
script) uses ``find_secrets`` and ``is_secret`` from the same table.
"""

from __future__ import annotations

import functools
import re
from typing import Iterable, Iterator, List, Tuple

MASK = "***"

Span = Tuple[int, int]
"""Where a secret begins in a text, and where it ends."""

# How the names of secrets end; digits may follow. TOKEN_FILE, MAX_TOKENS, and
# TOKENIZERS_PARALLELISM contain such a word, and are no secrets.
_NAME = r"""(?xi) (?: password | passwd | passphrase | passwort | (?:^|[_.-]|db|pg|ssh) pass
    | [_.-] pwd | (?:^|[_.-]) pw | secret | credentials? | bearer | jwt
    | (?: api | access | secret | private | account | auth | signing | encryption ) [_.-]? key
    | token ) s? (?<!tokens) \d* $"""
# Names about the tokens of a text: eos_token, --pad-token, num_token.
_NO_SECRET = r"""(?xi) (?:^|[_.-]) (?: pad | eos | bos | unk | sep | cls | mask | stop | start | end
    | begin | special | image | img | audio | video | vision | next | prompt | num | n | max | min
    | per | first | last | new | text | query | class ) [_.-]? token \d* $"""
_OTHER_KEY = r"(?i)(?:^|[_.-])key$"  # WANDB_KEY: a secret if its value is random
_RANDOM = r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[\w+/=-]{20,}"

# Beginnings of well-known tokens; a digit or a capital letter follows.
_TOKEN = r"""(?x) (?<![A-Za-z0-9_-]) (?P<value>
    (?: hf_ | gh[pousr]_ | github_pat_ | nvapi- | gsk_ | r8_ | npm_ | dckr_pat_ | wandb_v1_
      | [sr]k_(?:live|test)_ | pypi- | glpat- | hvs\. | ya29\. | AIza | xox[abeprs]- | sk- )
    (?= [\w-]* [0-9A-Z] ) [\w.-]{20,} | (?:AKIA|ASIA) [A-Z0-9]{16} (?!\w)
    | eyJ [\w-]{15,} \. eyJ [\w-]{10,} (?: \.[\w-]+ )? )"""
_SHORTEST = 16  # characters of a token, and of the value of a header
_URL = r"://[^\s/:@'\"]{0,200}:(?P<value>[^\s/@'\"]{1,200})@"
_HEADER = r"(?i)\b(?:bearer|basic|authorization: *token|wandb login)\s+(?P<value>[\w.+/=-]{16,})"
_PRIVATE_KEY = r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----(?P<value>[^-]{20,}|\s*\Z)(?:-----END|\Z)"
_NAMED = r"""(?x) (?<![\w$/.-]) (?<!\$\{) (?P<dashes> --? )? (?P<name> [A-Za-z_][\w.-]* ) ['"]?
    (?P<sign> [ ]{0,3} (?:=|:(?![-=?+])) [ ]{0,3} | [ ]+ )
    (?P<value> "(?:[^"\\\n]|\\.)*" | '[^'\n]*' | [^\s'"`;|&<>,-][^\s'"`;|&<>,]* )"""
_HINTS = ("pass", "pw", "secret", "credential", "bearer", "jwt", "token", "key")

# Values that reveal nothing: references, paths, flags, code, types, and placeholders.
_NOTHING = r"""(?xi) \W* | \$\{?\w+ (?: [:}\[%\#/] .* )? | (?: \$\( | ` ) .* | \d{1,5}
    | true | false | yes | no | on | off | none | null | auto | required | optional | default
    | str | string | bytes | int | bool | float | object | any | tensor
    | (?: [~.] | file: )? / .* | \w+://[^@]* | [\w./-]+ \. [a-z]{2,5} | (?: [\w.-]+ / )+ [\w.-]+
    | [<{\[%(] .* | [a-z_][\w.]* [(\[] .* | (?: args | self | cfg | config | os | opt s? ) \. .*
    | (?: your? | my | the | insert | paste | put | replace | change | enter ) (?: [-_ ] .* )?
    | .* (?: x{3} | \*{3} | \.{3} | … | [-_ ]here$ ) .*
    | (?: sk- | hf_ | token- )?
    (?: abc(?:123)? | dummy | empty | fake | example | test | local | none | not-needed )"""


@functools.lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Return True if the name says that its value is a secret."""
    return re.search(_NAME, name) is not None and re.search(_NO_SECRET, name) is None


def is_secret(name: str, value: str) -> bool:
    """Return True if the name or the form of the value says that it is a secret."""
    return _is_named_secret(name, value) or bool(find_secrets(value))


_SWITCH = r"(?i)|true|false|yes|no|on|off|none|null|auto|[01]|\$\w+|\$\{\w+\}"


def is_private(name: str, value: str) -> bool:
    """Return True if a variable must not be written into a script, however short its value is.

    A switch (``HF_HUB_DISABLE_IMPLICIT_TOKEN=1``) and a reference are not private.
    """
    by_name = is_secret_name(name) and not re.fullmatch(_SWITCH, value)
    return by_name or is_secret(name, value)


def _is_named_secret(name: str, value: str) -> bool:
    plain = value.strip("'\" ")
    if is_secret_name(name):
        return not (re.fullmatch(_NOTHING, plain) or is_secret_name(plain))
    return re.search(_OTHER_KEY, name) is not None and re.fullmatch(_RANDOM, plain) is not None


def find_secrets(text: str) -> List[Span]:
    """Return the positions of a text's secrets, in order, without quotes around them."""
    spans = list(_find_named(text))
    for pattern in _likely_patterns(text):
        matches = re.finditer(pattern, text)
        spans += [m.span("value") for m in matches if not re.fullmatch(_NOTHING, m["value"])]
    return _joined(spans)


def _find_named(text: str) -> Iterator[Span]:
    """Yield the values whose name says that they are secrets: ``TOKEN=x``, ``--password x``."""
    folded = text.casefold()
    if not any(hint in folded for hint in _HINTS):
        return
    pattern = re.compile(_NAMED)
    place = 0
    while (match := pattern.search(text, place)) is not None:
        start, end = match.span("value")
        place = start  # the value may begin with another name: --env TOKEN=x
        if _gives_secret(match):
            place = end
            quote_length = 1 if text[start] in "'\"" else 0
            yield start + quote_length, end - quote_length


def _likely_patterns(text: str) -> Iterator[str]:
    """Yield the patterns that the text may match: most texts need none of them compiled."""
    if any(len(word) >= _SHORTEST for word in text.split()):
        yield from (_TOKEN, _HEADER)
    if "://" in text:
        yield _URL
    if "-----BEGIN" in text:
        yield _PRIVATE_KEY


def _gives_secret(match: re.Match[str]) -> bool:
    """Return True if a match is an assignment or an option with a secret."""
    sign, value = match["sign"].strip(), match["value"]
    if not sign and not match["dashes"]:
        return False  # words of a sentence
    if sign == ":" and re.fullmatch("[A-Za-z]+[.,:]?", value):
        return False  # a word after a colon is prose or a type
    return _is_named_secret(match["name"], value)


def _joined(spans: List[Span]) -> List[Span]:
    """Return the spans in order, as one if they overlap or touch."""
    joined: List[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            earlier_start, earlier_end = joined.pop()
            joined.append((earlier_start, max(earlier_end, end)))
        else:
            joined.append((start, end))
    return joined


def hide_secrets(text: str) -> str:
    """Return the text with ``***`` in place of each secret."""
    parts, done = [], 0
    for first, last in find_secrets(text):
        parts += [text[done:first], MASK]
        done = last
    return "".join([*parts, text[done:]])


def hide_value(name: str, value: str) -> str:
    """Return the value of a variable or key, hidden if it is a secret."""
    return MASK if _is_named_secret(name, value) else hide_secrets(value)


def hide_in_words(words: Iterable[str]) -> Tuple[str, ...]:
    """Return the words of a command line with secrets hidden: ``--env HF_TOKEN=***``."""
    shown: List[str] = []
    before = ""
    for word in words:
        head, sign, value = word.rpartition("=")
        if before.startswith("-") and is_secret_name(before) and not word.startswith("-"):
            shown.append(hide_value(before, word))
        else:
            name = re.split("[=,]", head)[-1]  # TOKEN in --export=ALL,TOKEN=x
            shown.append(hide_secrets(head + sign) + hide_value(name, value))
        before = word
    return tuple(shown)
