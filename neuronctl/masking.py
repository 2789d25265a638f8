"""Masking secrets in what is stored or shown: tokens, keys and passwords become ``***``. Pure.

A value is a secret if the name of its variable, option, or key says so, or if it has the form of a
well-known token. Once known, it is masked wherever else it occurs. A secret without such a name
or form cannot be recognized.

Every pattern takes time in proportion to the text, whatever is in it.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, List, Mapping, Set, Tuple

MASK = "***"

# TOKEN but not TOKENIZERS_PARALLELISM, MAX_TOKENS or a tokenizer's pad_token, KEY but not MONKEY.
_SECRET_NAME = r"""(?xi)
    (?: (?<!pad[_-]) (?<!eos[_-]) (?<!bos[_-]) (?<!unk[_-]) (?<!sep[_-]) (?<!cls[_-])
        (?<!mask[_-]) (?<!stop[_-]) (?<!image[_-]) TOKEN
      | PASSWORD | PASSWD | PASSPHRASE | SECRET | CREDENTIALS?
      | (?: API | ACCESS | ACCOUNT ) [_-]? KEY
      | (?<![A-Za-z0-9]) (?: PASS | PWD | AUTH | KEY ) ) (?= [_.-] | \Z )"""
# In messages and code KEY, PASS and AUTH alone are too common.
_SAID_NAME = r"(?i)(?:TOKEN|PASSWORD|PASSWD|PASSPHRASE|SECRET|(?:API|ACCESS)[_-]?KEY)\Z"

# What these are called is a secret, however plain it is.
_SURE_NAME = r"""(?i)(?:TOKEN|PASSWORD|PASSWD|PASSPHRASE|SECRET|CREDENTIALS?|PASS|PWD
    |(?:API|ACCESS|ACCOUNT|SECRET|PRIVATE)[_-]?KEY)\Z""".replace("\n    ", "")
_PLAIN = r"""(?x) (?<![\w$.+-]) (?P<name> [\w.+-]{1,100} ) =
    (?P<quote> ["']? ) (?P<value> [\w.:/+-]{0,200} ) (?P=quote) (?= [\s,;&|)'"\\] | \Z )"""
_PLAIN_OPTION = r"""(?x) (?<!\S) (?P<name> --? [A-Za-z][\w.-]{0,100} ) [ \t]{1,9} (?P<quote>)
    (?P<value> [\w.:/+] [\w.:/+-]{0,200} ) (?= [\s,;&|)'"\\] | \Z )"""
_PLAIN_BEARER = r"(?i)\bBearer\s{1,9}[a-z]{1,20}(?![\w.~+/=-])"

# Well-known tokens: how they begin, and what follows.
_FORMS = (
    (("hf_", "hf_oauth_", "api_org_"), r"\w{20,}"),  # Hugging Face
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"), r"\w{20,}"),
    (("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-"), r"[\w.-]{16,}"),  # GitLab
    (("sk-", "pk-lf-"), r"[\w-]{16,}"),  # OpenAI, Anthropic, and others
    (("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"), r"\w{16,}"),  # Stripe
    (("xoxa-", "xoxb-", "xoxe-", "xoxp-", "xoxr-", "xoxs-", "xapp-"), r"[\w-]{10,}"),  # Slack
    (("hooks.slack.com/services/", "discord.com/api/webhooks/"), r"[\w/-]{16,}"),
    (("AKIA", "ASIA"), r"[A-Z0-9]{16}"),  # AWS
    (("AIza",), r"[\w-]{30,}"),  # Google
    (("ya29.", "GOCSPX-"), r"[\w-]{16,}"),
    (("wandb_v",), r"\d_\w{20,}"),
    (("nvapi-", "gsk_", "xai-", "r8_", "pplx-", "fw_", "tvly-"), r"[\w-]{20,}"),
    (("npm_", "dckr_pat_", "dop_v1_", "shpat_", "ntn_", "lin_api_"), r"[\w-]{20,}"),
    (("pypi-", "AgEIcHlwaS5vcmc"), r"[\w-]{16,}"),
    (("hvs.", "hvb.", "hvr."), r"[\w-]{16,}"),  # HashiCorp Vault
    (("SG.",), r"[\w-]{16,}\.[\w-]{16,}"),  # SendGrid
    (("glsa_", "dapi", "PMAK-", "sntrys_", "tskey-"), r"[\w-]{24,}"),
    (("AGE-SECRET-KEY-1",), r"\w{20,}"),
    (("eyJ",), r"[\w-]{17,}(?:\.[\w-]+){0,4}={0,2}"),  # JSON in base64: JWT, Neptune
)
_PEM = "-----BEGIN "

# Every text that one of the patterns matches contains one of these. They are quick to look for;
# compiling the patterns takes longer than the rest of writing a record.
_IN_NAMES = ("token", "pass", "pwd", "secret", "credent", "auth", "key")
_IN_FORMS = tuple(prefix for prefixes, _ in _FORMS for prefix in prefixes)

_TOKEN = "(?<![A-Za-z0-9])(?:{})".format(
    "|".join(
        "(?:{}){}".format("|".join(map(re.escape, prefixes)), rest) for prefixes, rest in _FORMS
    )
)
_PRIVATE_KEY = (
    r"(?s)(?P<head>-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)"
    r"(?:(?!-----BEGIN ).){0,20000}?(?P<tail>-----END |\Z)"
)

# A word as bash reads it: quoted parts may hold anything, newlines too.
_WORD = r"""(?: \$\( (?: [^()] | \( [^()]{0,500} \) ){0,500} \) | \$'(?:\\.|[^'\\]){0,5000}'
              | '[^']{0,5000}' | "(?:\\.|[^"\\]){0,5000}" | \\.
              | [^\s;&|<>()'"\\] )"""
# {1,100}: of a name. Each begins where no other name can be going on.
_ASSIGNMENT = rf"""(?xs) (?<![\w$.-])
    [\w.+-]{{1,100}} = {_WORD}{{1,5000}}"""
_OPTION = rf"""(?xs) (?<!\S)
    (?P<head> (?P<name> --? [A-Za-z][\w.-]{{0,100}} ) [ \t]{{1,100}} (?: \\\n [ \t]{{0,100}} )? )
    (?P<value> (?! - | \\\n ) {_WORD}{{1,5000}} )"""
# {"api_key": "x"}, openai.api_key = "x"
_QUOTED = r"""(?x) (?<![\w.-]) (?P<head> (?P<name> [\w.-]{1,100} ) ['"]? \s{0,20} [:=] \s{0,20} )
    (?P<value> '[^'\n<>]{6,5000}' | "[^"\n<>]{6,5000}" )"""
_HEADER = r"""(?xi) (?P<head> \b (?:
      (?: Bearer | Authorization: \s{1,20} (?!Bearer) [a-z]{1,20} ) \s{1,20}
      | (?: Api-Key | (?: Private | Auth ) -Token ) : \s{0,20} ) )
    (?P<value> [\w.~+/=-]{4,5000} )"""
_IN_HEADERS = ("bearer", "authorization", "api-key:", "-token:")
_LOGIN = r"""(?x) (?P<head> \b wandb \s{1,20} login \s{1,20} (?: --? \S{1,200} \s{1,20} ){0,5} )
    (?P<value> ['"]? [A-Za-z0-9] [\w-]{19,200} )"""
_USER = r"""(?x) (?P<head> \b (?: curl | wget ) \b [^\n|;&]{0,500}? \s
    (?: -u \s{0,20} | --user[ =] ) ['"]? [^\s:'"]{1,200} : ) (?P<value> [^\s'"]{1,500} )"""
_SAID = r"""(?x) (?<![\w.-]) (?P<head> (?P<name> [\w-]{1,100} ) ['"]? \s{0,20} : \s{0,20} )
    (?P<value> '[^']{1,5000}' | "[^"]{1,5000}" | [^\s'",;)\]}]{4,5000} )"""
# To the last @: the password may contain one, and a slash.
_URL_PASSWORD = r"""(?<=://)(?P<head>[^\s/:@'"]{0,200}:)[^\s'"]{1,1000}(?=@)"""
_URL_SIGNATURE = r"(?i)(?P<head>[?&](?:sig|(?:x-(?:amz|goog)-)?signature)=)[\w%+/=-]{16,}"

# sbatch --export=ALL,DB_PASSWORD=x, also as neuronctl and the variables of Slurm have it.
_EXPORT = r"""(?x) (?: --? [A-Za-z][\w-]{0,100} = (?P<quote> ['"]? ) )?
    (?: (?:--)? export | (?: SBATCH_EXPORT | (?: SLURM | SRUN ) _EXPORT_ENV ) ) ="""
# To Slurm, a comma in quotes belongs to the value.
_LIST_ITEM = r"""(?xs) (?: (?<=,) | \A ) (?P<head> (?P<name> [\w.+-]{1,100} ) = )
    (?P<value> (?: '[^']*' | "[^"]*" | [^,] )+ )"""

# Shorter values, such as "x" or "1", are masked only where they are known to be secrets.
_SHORTEST = 6


def is_secret_name(name: str) -> bool:
    """Whether the value of a variable or option is secret: HF_TOKEN, --api-key, wandb.api_key."""
    return (
        _may_name(name)
        and re.fullmatch(r"[\w.+-]+", name) is not None
        and re.search(_SECRET_NAME, name) is not None
    )


def is_secret_value(value: str) -> bool:
    """Whether a value contains what looks like a secret: a token, a URL with a password."""
    return Masker().text(value) != value


def tells_secret(text: str) -> bool:
    """Whether a reader of a text surely learns a secret.

    What is stored is masked with less: ``--bucket-key=group`` is called a key, and tells nothing.
    """
    shown = text
    for plain in (_PLAIN, _PLAIN_OPTION) if _may_name(text) else ():
        shown = re.sub(plain, _without_plain, shown)
    shown = re.sub(_PLAIN_BEARER, "", shown) if "earer" in shown else shown
    return is_secret_value(shown)


def _without_plain(match: re.Match[str]) -> str:
    name, value = match["name"], match["value"]
    telling = len(value) >= 8 and re.search("[0-9]", value) and re.search("[A-Za-z]", value)
    sure = re.search(_SURE_NAME, name) and not re.match(r"(?i)-{0,2}(?:max|min|num)[_-]", name)
    if telling or sure or not is_secret_name(name):
        return match[0]
    return f"plain={match['quote']}{value}{match['quote']}"


def secret_values(command_line: Iterable[str], env: Mapping[str, str]) -> Set[str]:
    """The secrets in an argv (``--env HF_TOKEN=x``, ``--password x``) and in variables.

    Those in lists of variables for sbatch are found too: ``--export=ALL,HF_TOKEN=x``.
    """
    found = {value for name, value in env.items() if is_secret_name(name)}
    lists = [value for name, value in env.items() if _export_list(f"{name}=")[0]]
    before = ""
    for word in command_line:
        head, items, _ = _export_list(word, before)
        secret, value, _ = _secret(word)
        if head or items:
            lists.append(items)
        elif secret:
            found.add(value)
        elif before.startswith("-") and is_secret_name(before) and not word.startswith("-"):
            found.add(word)
        before = word
    for items in lists:
        found.update(value for name, value in listed_variables(items) if is_secret_name(name))
    return {value for value in found if value}


def listed_variables(items: str) -> List[Tuple[str, str]]:
    """The variables in what ``sbatch --export`` takes: ``ALL,HF_TOKEN=x,A=1``.

    The value is "" where it only names a secret variable; no shell reads it.
    """
    found = []
    for one in re.finditer(_LIST_ITEM, items):
        value = "" if _names_secret(one["value"]) else one["value"]
        found.append((one["name"], value[1:-1] if _is_quoted(value) else value))
    return found


def _export_list(word: str, before: str = "") -> Tuple[str, str, str]:
    """A word with a list of variables for sbatch: what precedes it, the list, a closing quote.

    before: the word before it, "" where that is not known. Empty without such a list.
    """
    match = re.match(_EXPORT, word) if "export" in word.lower() else None
    if match is None and before != "--export":
        return "", "", ""
    head = "" if match is None else match[0]
    items = word[len(head) :]
    quote = "" if match is None else match["quote"] or ""
    if not quote and _is_quoted(items):
        quote, head, items = items[0], head + items[0], items[1:]
    end = quote if quote and items.endswith(quote) else ""
    return head, items[: len(items) - len(end)], end


def _secret(word: str) -> Tuple[str, str, str]:
    """A word that assigns a secret: ``--env=HF_TOKEN=``, the value, and a closing quote.

    The quote may stand before any name but the first. Empty for any other word.
    """
    parts = word.split("=", 3)[:-1]
    quote = ""
    for count, part in enumerate(parts, 1):
        if count > 1 and not quote and part[:1] in ("'", '"'):
            quote, part = part[0], part[1:]
        if not re.fullmatch(r"[\w.+-]+", part):
            break
        if is_secret_name(part):
            head = "=".join(parts[:count]) + "="
            value = word[len(head) :]
            end = quote if quote and value.endswith(quote) else ""
            return head, value[: len(value) - len(end)], end
    return "", "", ""


def _is_quoted(text: str) -> bool:
    return len(text) > 1 and text[0] in "'\"" and text[0] == text[-1]


class Masker:
    """Masks known secrets and everything that looks like one, in text and in JSON data."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._exact = frozenset(known)
        long = sorted((v for v in self._exact if len(v) >= _SHORTEST), key=len, reverse=True)
        # A script may have the value in quotes, with each ' in it as '"'"'.
        long += [v.replace("'", "'\"'\"'") for v in long if "'" in v]
        self._known = long

    def text(self, text: str) -> str:
        """Mask a script, or any text with assignments, command lines, and JSON in it."""
        if _may_name(text):
            text = re.sub(_ASSIGNMENT, _assignment, text)
            text = re.sub(_OPTION, _option, text)
            text = re.sub(_QUOTED, _said, text)
        for value in self._known:  # a pattern of them would take time in proportion to both
            text = text.replace(value, MASK)
        if any(map(text.__contains__, _IN_FORMS)):
            text = re.sub(_TOKEN, MASK, text)
        if _PEM in text:
            text = re.sub(_PRIVATE_KEY, rf"\g<head>{MASK}\g<tail>", text)
        if "://" in text and "@" in text:
            text = re.sub(_URL_PASSWORD, rf"\g<head>{MASK}", text)
        folded = text.casefold()
        if "://" in text and "sig" in folded:
            text = re.sub(_URL_SIGNATURE, rf"\g<head>{MASK}", text)
        if any(map(folded.__contains__, _IN_HEADERS)):
            text = re.sub(_HEADER, rf"\g<head>{MASK}", text)
        if "wandb" in text:
            text = re.sub(_LOGIN, rf"\g<head>{MASK}", text)
        if "curl" in text or "wget" in text:
            text = re.sub(_USER, rf"\g<head>{MASK}", text)
        return text

    def line(self, text: str) -> str:
        """Mask a line of a log, or a message that quotes one."""
        return re.sub(_SAID, _said, self.text(text))

    def words(self, words: Iterable[str]) -> tuple[str, ...]:
        """Mask the words of an argv."""
        shown = []
        before = ""
        for word in words:
            secret = before.startswith("-") and is_secret_name(before) and not word.startswith("-")
            shown.append(MASK if secret else self._word(word, before))
            before = word
        return tuple(shown)

    def _word(self, word: str, before: str = "") -> str:
        if word in self._exact:
            return MASK
        head, items, end = _export_list(word, before)
        if head or items:
            return self.text(head + re.sub(_LIST_ITEM, _item_of_argv, items) + end)
        head, _, end = _secret(word)
        return head + MASK + end if head else self.text(word)

    def data(self, data: Any, name: str = "") -> Any:
        """Mask JSON data: strings, and pairs of a name and a value at any depth."""
        if isinstance(data, str):
            if data and name and is_secret_name(name):
                return MASK
            return self.text(data) if "\n" in data else self._word(data)
        if isinstance(data, Mapping):
            return {key: self.data(value, str(key)) for key, value in data.items()}
        if isinstance(data, (list, tuple)):
            if len(data) == 2 and all(isinstance(item, str) for item in data):
                return [self.data(data[0]), self.data(data[1], data[0])]
            return [self.data(item) for item in data]
        return data


def _may_name(text: str) -> bool:
    # IGNORECASE takes a Kelvin sign for a k, and so does this; no word above has an i to confuse.
    folded = text.casefold()
    return any(map(folded.__contains__, _IN_NAMES))


def _assignment(match: re.Match[str]) -> str:
    head, items, end = _export_list(match[0])
    if head:
        return head + _listed(items) + end
    head, value, end = _secret(match[0])
    behind_comma = match.string[match.start() - 1 : match.start()] == ","
    if head and behind_comma and re.match(rf"(?:{_REFERENCE}|\*{{3}}),", value):
        return _listed(match[0])
    if end and (not value or re.match(_NOTHING_QUOTED, value)):
        return match[0]
    return _shown(head, value) + end if head else match[0]


def _listed(items: str) -> str:
    """A list of variables for sbatch with its secrets masked."""
    return re.sub(_LIST_ITEM, _item, items)


def _item(match: re.Match[str]) -> str:
    secret = is_secret_name(match["name"])
    return _shown(match["head"], match["value"]) if secret else match[0]


def _item_of_argv(match: re.Match[str]) -> str:
    secret = is_secret_name(match["name"]) and not _names_secret(match["value"])
    return match["head"] + MASK if secret else match[0]


def _names_secret(value: str) -> bool:
    # Without a shell, a password may begin with $.
    return re.fullmatch(_REFERENCE, value) is not None and is_secret_name(value.strip("${}"))


def _option(match: re.Match[str]) -> str:
    if match["name"] == "--export":
        head, items, end = _export_list(match["value"], "--export")
        return match["head"] + head + _listed(items) + end
    directory = match["name"] == "--pwd" and match["value"].startswith(
        ("/", "$", "~")
    )  # of a container
    secret = is_secret_name(match["name"]) and not directory
    return _shown(match["head"], match["value"]) if secret else match[0]


def _said(match: re.Match[str]) -> str:
    # Neither a tokenizer's mask_token nor KEY, which says something in a shell only.
    secret = is_secret_name(match["name"]) and re.search(_SAID_NAME, match["name"]) is not None
    return _shown(match["head"], match["value"]) if secret else match[0]


_COMMAND = ("$(", '"$(', "`", '"`')
_REFERENCE = r"\$(?:\w+|\{\w+(?::?[-?+]?)?\})"
# ARGS="--token=$HF_TOKEN --lr=1", ARGS="--token='' --lr=1"
_NOTHING_QUOTED = rf"(?:{_REFERENCE}|''|\\\"\\\")(?:[\s,;:]|\Z)"


def _refers(value: str) -> bool:
    # $HF_TOKEN, "${HF_TOKEN}" and $(cat FILE) name a secret but do not contain it.
    return re.fullmatch(rf'"?{_REFERENCE}"?', value) is not None or value.startswith(_COMMAND)


def _shown(head: str, value: str) -> str:
    return head + (value if _refers(value) else MASK)
