"""Masking secrets in what is stored or shown: tokens, keys and passwords become ``***``. Pure.

A value is a secret if the name of its variable or option says so, or if it has the form of a
well-known token. Once known, it is masked wherever else it occurs.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping, Pattern, Set

MASK = "***"

# TOKEN but not TOKENIZERS_PARALLELISM or MAX_TOKENS, KEY but not MONKEY or KEYBOARD.
_NAME = r"""
    (?: [A-Za-z0-9_-]* (?: TOKEN | PASSWORD | PASSWD | PASSPHRASE | SECRET | CREDENTIALS?
                         | API[_-]?KEY | (?<![A-Za-z0-9]) (?: PASS | PWD | AUTH | KEY ) )
        (?: [_-][A-Za-z0-9_-]* )?
    )
"""
_SECRET_NAME = "(?xi)" + _NAME

# Every text that one of the patterns matches contains one of these. They are quick to look for;
# compiling the patterns takes longer than the rest of writing a record.
_IN_NAMES = ("token", "pass", "pwd", "secret", "credent", "auth", "key")
_IN_TOKENS = (
    *("hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "sk-", "xox"),
    *("AKIA", "ASIA", "AIza", "wandb_v", "eyJ"),
)

# A word as bash reads it: quoted parts may hold anything, newlines too.
_WORD = r"""(?: \$'(?:\\.|[^'\\])*' | '[^']*' | "(?:\\.|[^"\\])*" | \\. | [^\s;&|<>()'"\\] )"""

_ASSIGNMENT = rf"(?xis) (?<![A-Za-z0-9_$-]) (?P<head> (?:--)? {_NAME} = ) (?P<value> {_WORD}+ )"
_OPTION = (
    rf"(?xis) (?<!\S) (?P<head> --{_NAME} [ \t]+ (?: \\\n \s* )? ) (?P<value> (?!-) {_WORD}+ )"
)
_TOKEN = r"""(?x) (?<![A-Za-z0-9])
    (?: hf_[A-Za-z0-9]{20,} | gh[pousr]_[A-Za-z0-9]{20,} | github_pat_\w{20,}
      | glpat-[\w-]{16,} | sk-[\w-]{16,} | xox[abprs]-[\w-]{10,} | (?:AKIA|ASIA)[A-Z0-9]{16}
      | AIza[\w-]{30,} | wandb_v\d_\w{20,} | eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{4,} )"""
# In messages: "password: x", {'api_key': 'x'}, "Bearer x". KEY or PASS alone is too common there.
_SAID = r"""(?xi) (?P<head> (?<![A-Za-z0-9]) [A-Za-z0-9_-]*
          (?: TOKEN | PASSWORD | PASSWD | PASSPHRASE | SECRET | API[_-]?KEY | ACCESS[_-]KEY )
          ['"]? \s* : \s* (?: Bearer \s+ )?
        | \b Bearer \s+ )
        (?P<value> '[^']+' | "[^"]+" | [^\s'",;)\]}]{4,} )"""
# No scheme has 30 letters; without a limit, a long word is searched again from each letter.
_URL_PASSWORD = r"(?P<head>[a-z][a-z0-9+.-]{0,30}://[^/\s:@'\"]*:)[^/\s@'\"]+(?=@)"

# Shorter values, such as "x" or "1", are masked only where they are known to be secrets.
_SHORTEST = 6


def is_secret_name(name: str) -> bool:
    """Whether the value of a variable or option is secret: HF_TOKEN, --api-key."""
    return _may_name(name) and re.fullmatch(_SECRET_NAME, name.lstrip("-")) is not None


def secret_values(command_line: Iterable[str], env: Mapping[str, str]) -> Set[str]:
    """The secrets in an argv (``--env HF_TOKEN=x``, ``--password x``) and in variables."""
    found = {value for name, value in env.items() if is_secret_name(name)}
    before = ""
    for word in command_line:
        name, equals, value = word.partition("=")
        if equals and not is_secret_name(name) and name.startswith("--"):
            name, equals, value = value.partition("=")  # --env=HF_TOKEN=x
        if equals and is_secret_name(name):
            found.add(value)
        elif _takes_secret(before) and not word.startswith("-"):
            found.add(word)
        before = word
    return {value for value in found if value}


def _takes_secret(word: str) -> bool:
    return word.startswith("--") and "=" not in word and is_secret_name(word)


class Masker:
    """Masks known secrets and everything that looks like one, in text and in JSON data."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._exact = frozenset(known)
        long = sorted((v for v in self._exact if len(v) >= _SHORTEST), key=len, reverse=True)
        # A script may have the value in quotes, with each ' in it as '"'"'.
        long += [v.replace("'", "'\"'\"'") for v in long if "'" in v]
        self._known: Pattern[str] = re.compile("|".join(map(re.escape, long)) or r"(?!)")

    def text(self, text: str) -> str:
        """Mask a script, or any text with assignments and command lines in it."""
        if _may_name(text):
            text = re.sub(_ASSIGNMENT, _masked, text)
            text = re.sub(_OPTION, _masked, text)
        return self._plain(text)

    def line(self, text: str) -> str:
        """Mask a line of a log, or a message that quotes one."""
        return re.sub(_SAID, lambda match: match["head"] + MASK, self.text(text))

    def words(self, words: Iterable[str]) -> tuple[str, ...]:
        """Mask the words of an argv."""
        return tuple(self._word(word) for word in words)

    def _word(self, word: str) -> str:
        if word in self._exact:
            return MASK
        name, equals, value = word.partition("=")
        if equals and is_secret_name(name):
            return f"{name}={MASK}"
        head, again, _ = value.partition("=")
        if again and is_secret_name(head):
            return f"{name}={head}={MASK}"
        # A word with blanks may be a line of shell: --setup "export API_KEY=x".
        return self.text(word) if re.search(r"\s", word) else self._plain(word)

    def data(self, data: Any, name: str = "") -> Any:
        """Mask JSON data: strings, and pairs of a name and a value at any depth."""
        if isinstance(data, str):
            return MASK if data and name and is_secret_name(name) else self._word(data)
        if isinstance(data, Mapping):
            return {key: self.data(value, str(key)) for key, value in data.items()}
        if isinstance(data, (list, tuple)):
            if len(data) == 2 and all(isinstance(item, str) for item in data):
                return [data[0], self.data(data[1], data[0])]
            return [self.data(item) for item in data]
        return data

    def _plain(self, text: str) -> str:
        text = self._known.sub(MASK, text)
        if any(word in text for word in _IN_TOKENS):
            text = re.sub(_TOKEN, MASK, text)
        if "://" in text and "@" in text:
            text = re.sub(_URL_PASSWORD, lambda match: match["head"] + MASK, text)
        return text


def _may_name(text: str) -> bool:
    # IGNORECASE takes a Kelvin sign for a k, and so does this; no word above has an i to confuse.
    folded = text.casefold()
    return any(word in folded for word in _IN_NAMES)


def _masked(match: re.Match[str]) -> str:
    value = match["value"]
    # $HF_TOKEN and "${HF_TOKEN}" name a secret but do not contain it.
    if re.fullmatch(r'"?\$(?:\w+|\{\w+(?::?[-?+]?)?\})"?', value):
        return match[0]
    return str(match["head"]) + MASK
