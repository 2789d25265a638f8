"""Masking secrets in what is stored or shown: tokens, keys and passwords become ``***``. Pure.

One judge decides, by a name and a value. The words of a name say what its value may be: a password,
which people choose and which may look like anything; a token, which a machine makes; or something
for which "key" has other meanings too, where only a random value is a secret. References, flags,
paths, and small numbers are never secrets. Without a name, only the form of a well-known token, a
place in a URL or header, or an option of a well-known program gives a secret away.

Once known, a secret is masked wherever else it occurs. All takes time in proportion to the text.
"""

from __future__ import annotations

import base64
import functools
import itertools
import re
from typing import Any, Iterable, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

MASK = "***"

# ------------------------------------------------------------------------------- names

_NONE, _PERHAPS, _LOGIN, _SHORT_NAME, _TOKEN, _PASSWORD = range(6)
"""What a name says of its value: nothing; a secret if it is random, or also if it is a user with a
password or has letters and digits, or fewer of these; a token; a password."""

# Each name of a secret contains one of these. They are quick to look for; compiling the patterns
# takes longer than the rest of writing a record.
_HINTS = (
    *("pass", "pw", "secret", "cred", "auth", "key", "bearer", "_pat", "psk"),
    *("tok", "tkn", "psw", "_pin", "-pin", "kennwort", "senha", "contrasen", "wachtwoord"),
    *("비밀", "비번", "암호", "패스워드", "토큰", "키", "密码", "密碼", "パスワード"),
)
_HINT = rf"(?i){'|'.join(_HINTS)}"
_WORDS = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[가-힣]+|[\u3040-\u30ff\u4e00-\u9fff]+"

_PARTICLE = "(?<=[가-힣]{2})[은는이가]$"

_PASSWORDS = r"""\w*(?:password|passwd|passphrase|passcode|passwort|kennwort|wachtwoord)s?|pwd
    |contrasena|senha|pa?swd|pword|passw|psw|\w*requirepass|\w*masterauth
    |\w*(?:비밀번호|비번|암호|패스워드|密码|密碼|パスワード)""".replace("\n    ", "")
_QUERIED = "(?i)pass|pw|pwd"  # of a URL or a database, or beside a user
_AFTER_USER = (
    r"(?i)\b(?:uid|user|username|login|account)['\"]?\s?[=:]\s?['\"]?[\w.@-]+['\"]?[\s,;&]+['\"]?\Z"
)
_SHORT_PASSWORDS = (
    r"pass|(?:\w\w+)?pw|(?:ssh|db|pg|my|key|\w{0,5}store|user|root|admin|ldap|smtp|ftp|sudo)pass"
)
_TOKENS = r"""\w*token|\w*secrets?|credentials?|creds?|jwt
    |(?:api|access|secret|private|auth|account|master|signing|ssh)key
    |\w*(?:토큰|인증키|비밀키)""".replace("\n    ", "")
_KINDS_OF_KEYS = (
    *("api", "access", "secret", "private", "account", "auth"),
    *("encryption", "decryption", "signing", "master"),
)
_OWNERS = frozenset(
    """
    db database user admin root login ssh proxy http smtp mail ldap ftp nas vpn wifi
    """.split()  # noqa: SIM905
)
# What a name is about where these are its last words, or stand before "token", "key", "pass".
_ABOUT = frozenset(
    """
    id ids name names file files filename path paths dir directory folder url uri host port
    type kind format size sizes dim dims length len width depth count counts num number budget
    limit limits rate ratio mask bias index idx error errors sock socket timeout ttl expiry
    hash digest fingerprint env
    """.split()  # noqa: SIM905
)
_COUNTED = frozenset(
    """
    max min num n per total avg first last k batch public pub recv
    """.split()  # noqa: SIM905
)
_OF_TEXT = frozenset(
    """
    pad padding eos bos unk sep cls mask stop image img audio video vision special start end
    begin next prev prompt register class patch query text user think sentinel extra
    additional word drop lang language source target prefix suffix task
    """.split()  # noqa: SIM905
)
_SUFFIXES = frozenset(
    """
    prod production dev test staging live read write ro rw new old
    """.split()  # noqa: SIM905
)


@functools.lru_cache(maxsize=4096)
def _kind(name: str) -> int:
    """What the name of a variable, option, or key says of its value."""
    if name in ("PWD", "OLDPWD") or not any(map(name.casefold().__contains__, _HINTS)):
        return _NONE
    words = [re.sub(_PARTICLE, "", word.lower()) for word in re.findall(_WORDS, name)]
    while words and (words[-1].isdigit() or words[-1] in _SUFFIXES):
        words.pop()
    found = _NONE
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        kind = _kind_of_word(word, before, name)
        several = kind != _PASSWORD or word.endswith("s")
        if kind and several and not _COUNTED.isdisjoint(words[:place]):
            continue
        found = min(kind, _PERHAPS) if kind and place < len(words) - 1 else kind or found
    return _NONE if found == _PERHAPS and words[-1] in _ABOUT else found


def _kind_of_word(word: str, before: str, name: str) -> int:
    if re.fullmatch(_PASSWORDS, word):
        return _PASSWORD
    if re.fullmatch(_SHORT_PASSWORDS, word):
        sure = name.isupper() or len(word) > 4 or before in _OWNERS
        return _PASSWORD if sure else _SHORT_NAME
    if re.fullmatch(_TOKENS, word):
        return _PERHAPS if word == "token" and before in _OF_TEXT else _TOKEN
    if word == "key" and (before in _KINDS_OF_KEYS or name[:2] in ("X-", "x-")):
        return _TOKEN
    if word in ("auth", "psk"):
        return _LOGIN
    if word == "passe" and before == "de":
        return _PASSWORD
    known = re.fullmatch(r"\w*keys?|tokens|tok|tkn|pat|bearer|\w*키", word)
    return _PERHAPS if known else _NONE


# ------------------------------------------------------------------------------- values

# $17a1… is no parameter of a script, but a key behind a "$" that is too much.
_REFERENCE = r"\$(?:(?!\d[0-9a-fA-F]{31})\w+|\{\w+(?::?[-?+]?|:?\?[^}]*)?\})"
_COMMAND = ("$(", '"$(', "`", '"`')
_FLAGS = frozenset(
    """
    true false yes no on off none null nil auto default required optional undefined n/a
    """.split()  # noqa: SIM905
)
# A place: /data/x, ~/x, $HOME/x, ./x, x/y.txt, https://h.org/x. A template: <token>, {token}.
_PLACE = (
    r"(?:[~.@]|\$\w+|\$\{\w+\}|file:)?(?:[~.]{0,2}/).*|\w+://.*|[\w./-]+\.[a-z]{2,5}"
    r"|(?:id=)?[\w.-]+(?:,(?:id|type|target|dst|src|source|env|uid|gid|mode)=[\w./-]+)+"
)
_TEMPLATE = (
    r"<[^>]*>|\{+[^}]*\}+|\$\{\{.*|\$\{[\w.]+(?::[\w.,]*)?\}"
    r"|%\(?\w+\)?s?%?|\[[A-Za-z_, -]*\]|[*.…]+|(?:\.[*+]|\[\^|\\[SwW]).*"
)
# your-token-here, changeme, XXXX, hf_xxxx, hf_...
_PLACEHOLDER = r"""(?xi) empty | dummy | fake
    | (?: sk- )? not? [-_ ] (?: api [-_] )? (?: key )? [-_ ]? (?: needed | used | required )?
    | your [-_ ] (?: [a-z]+ [-_ ] )*
    (?: token | key | password | passwd | passphrase | secret | pat ) (?: [-_ ] here )?
    | (?: replace | change | fill ) [-_ ]? (?: me | this | in )
    | (?: insert | put | paste | enter | replace | add ) [-_ ] (?: [a-z]+ [-_ ] )* here
    | .* (?: 여기에 | 입력하 | 넣으 ) .* | \w{0,4} [-_]? (?: x{3,} | [.]{3} | … )"""
# ${x%% *}, ${x:0:4}, ${1:?usage}
_ELEMENT = r"\[[^\]\n]{1,60}\]"
_EXPANSION = (
    rf"\$\{{!?\w+(?:{_ELEMENT}\}}|(?:{_ELEMENT})?(?:[%#/^,@]|:[ \d]|:?\?)[^}}\n]{{0,300}}\}})"
)
# os.environ["X"], getpass(), tokens[i]
_CODE = r"[A-Za-z_][\w.]*\s?(?:\(|\[(?![^]]*$)).*|not\s.*|await\s.*|f['\"].*"
_TYPE = r"[A-Z]\w*(?:<|\.[A-Z_]{3,}\b)"  # Option<String>, Networks.TESTNET
_IDENTIFIER = r"[A-Za-z_][\w.]*"
_PROSE = r"[a-z]+(?:[ _-][a-z]+)*"
_TYPES = (
    "str",
    "bytes",
    "int",
    "float",
    "bool",
    "object",
    "Any",
    "Optional",
    "Final",
    "Tensor",
    "string",
    "boolean",
    "number",
    "String",
)
_METHODS = "(?:sha|md|aes|rsa|argon|base|utf|kerberos|krb|oauth|ldap|ntlm|x)-?\\d"
_LOGINS = (
    rf"[\w.@-]+:[^\s:/]{{4,}}|(?!{_METHODS})(?=.*[0-9])(?=.*[^\W\d_])(?:[^\W_]|[!@#$%^&*?]){{8,}}"
)
# Those of Gmail, and what is shorter, but no run of several.
_APP_PASSWORD = "(?:[a-z]{4} ){3}[a-z]{4}"
_SHORT_LOGINS = (
    rf"(?!{_METHODS}|(?:first|second|third|last|pass|run|step|phase|iter|round|stage)[_-]?\d)"
    rf"(?=.*[0-9])(?=.*[^\W\d_])(?:[^\W_]|[!@#$%^&*?_-]){{6,100}}|{_APP_PASSWORD}"
)
# As an INI file has it, and no code.
_WORDS_ALONE = r"(?!.* (?:or|and|if|in|is|not|for|else) )[^\W\d_]+(?: [^\W_]+){1,5}"
# DNA, RNA, a protein, and a molecule (SMILES).
_SEQUENCE = (
    r"[ACDEFGHIKLMNPQRSTVWY]{21,}|[acgtun]{21,}"
    r"|(?=.*[(=])(?:Cl|Br|[BCNOPSFIHcnops]|[()\[\]=#@+/\\0-9%.-])+"
)
_LICENSE = (
    r"(?<![\w-])(?=[A-Z-]*[0-9])(?=[0-9-]*[A-Z])(?:[A-Z0-9]{4,6}-){3,9}[A-Z0-9]{4,6}(?![\w-])"
)
# Pairs of letters that hardly any of the 52,000 words of some programs have.
_UNHEARD = r"""(?xi) (?= b[kqxz] | c[jqxz] | [dloqsxz]z | f[jkqwxz] | g[jkqvwxyz] | h[gjqvwxz]
    | i[wy] | j[^aeious_\W\d] | k[jqvxz] | [almpr]q | [bcmprstyw]j | nz | [mpr][xz]
    | q[^ulrs_\W\d] | u[hjkquvwyz] | v[hjkquvxz] | w[gkquvwxyz] | x[gjknquvwz] | y[hkquxyz]
    | z[bcdfghjklmnpqrstuvwx] )"""
_ESCAPES = r"['\"]?(?:\\{1,2}[abcefnrtv])+['\"]?"  # of echo -e: "pwd=\c"
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


_JUDGED = 256  # characters of a value that tell what it is


def is_secret(name: str, value: str) -> bool:
    """Whether a variable, option, or key of this name has a secret for its value."""
    return _is_told(name, value) or is_secret_value(value)


def _judge(kind: int, value: str) -> bool:
    """Whether a value is a secret, according to what its name says."""
    plain = value[:_JUDGED].strip(_AROUND)
    if not kind or _says_nothing(plain):
        return False
    if kind in (_LOGIN, _SHORT_NAME) and (
        re.fullmatch(_LOGINS, plain) or _is_login_in_base64(plain)
    ):
        return True
    if kind == _SHORT_NAME and re.fullmatch(_SHORT_LOGINS, plain):
        return True
    if re.fullmatch(_PLACE, plain):
        if re.fullmatch(r"[/~$].*/[\w.-]+\.[a-z]{2,5}", plain):
            return False  # the file of one may have a random name: lab-4f2a91c0d3e8.json
        return _random(plain, 30)  # a directory may have several words for a name
    if kind <= _SHORT_NAME:
        return _random(plain)
    if kind == _TOKEN and re.fullmatch(r"[a-z][\w.-]*(?:/[\w.-]+)+", plain):
        return _random(plain)  # the place of one: lab/token2
    number = re.fullmatch(r"[\d.,eE+-]+", plain)
    return number is None or len(plain) >= (4 if kind == _PASSWORD else 6)


def _is_login_in_base64(plain: str) -> bool:
    """As in the "auth" of ~/.docker/config.json."""
    try:
        login = base64.b64decode(plain, validate=True).decode()
    except ValueError:
        return False
    return re.fullmatch(r"[\w.@-]+:\S{4,}", login) is not None


def _says_nothing(plain: str) -> bool:
    return (
        not plain
        or plain.lower() in _FLAGS
        or _refers(plain)
        or (
            re.fullmatch("[A-Z_]+(=[A-Z_]+)?", plain) is not None and _kind(plain) > _PERHAPS
        )  # --token TOKEN
        or re.fullmatch(_TEMPLATE, plain) is not None
        or re.fullmatch(_PLACEHOLDER, plain) is not None
    )


def _refers(value: str) -> bool:
    # $HF_TOKEN, "${HF_TOKEN}", "$A $B" and $(cat FILE) name a secret but do not contain it.
    return re.fullmatch(rf"\W*?(?:{_REFERENCE}[^\w$`]*)+", value) is not None or value.startswith(
        _COMMAND
    )


def _random(value: str, longest: int = 20) -> bool:
    """Whether a machine made this: letters, cases, and digits take turns as in no word.

    longest: of letters that may be a word.
    """
    value = value[:1000]
    if re.fullmatch(rf"{_UUID}|0x[0-9a-fA-F]{{1,16}}|{_SEQUENCE}", value):
        return False
    pieces = re.findall(r"[^\W_]{8,}", value)
    whole = re.sub("[_-]", "", value)  # base64 for URLs
    if whole != value and len(whole) >= 28 and whole.isalnum() and len(whole) < 2.3 * _turns(whole):
        return True
    if any(_odd(piece, longest) for piece in pieces):
        return True
    return "-" in value and re.search(_LICENSE, value) is not None


def _odd(piece: str, longest: int) -> bool:
    if len(piece) < 16:
        return len(re.findall(r"[0-9](?=[^0-9])|[^0-9](?=[0-9])", piece)) >= 4
    if re.fullmatch(r"[0-9a-f]{32,}", piece):
        return not piece.isdigit()
    if len(re.findall(_WORDS, piece)) == 1:
        return not piece.isdigit() and len(piece) > longest
    return len(piece) < 3.5 * _turns(piece)


def _turns(piece: str) -> int:
    return len(re.findall(_WORDS, piece)) + len(re.findall(_UNHEARD, piece))


# ------------------------------------------------------------------------------- forms

# Well-known tokens: how they begin, and what follows. Where that may be words, it has to be random.
_FORMS = (
    (("hf_", "hf_oauth_", "api_org_"), r"[A-Za-z0-9]{20,}"),  # Hugging Face
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"[A-Za-z0-9]{20,}"),
    (("github_pat_",), r"\w{20,}"),
    (("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-"), r"[\w.-]{16,}"),  # GitLab
    (("sk-", "pk-lf-", "csk-"), r"[\w-]{16,}"),  # OpenAI, Anthropic, and others
    (("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"), r"\w{16,}"),  # Stripe
    (("xoxa-", "xoxb-", "xoxe-", "xoxp-", "xoxr-", "xoxs-", "xapp-"), r"[\w-]{10,}"),  # Slack
    (("AKIA", "ASIA"), r"[A-Z0-9]{16}"),  # AWS
    (("AIza",), r"[\w-]{30,}"),  # Google
    (("ya29.", "1//0", "GOCSPX-"), r"[\w-]{16,}"),
    (("wandb_v",), r"\d_\w{20,}"),
    (("nvapi-", "gsk_", "xai-", "r8_", "pplx-", "fw_", "tvly-", "jina_"), r"[\w-]{20,}"),
    (("npm_", "dckr_pat_", "dop_v1_", "ntn_", "lin_api_", "rpa_"), r"[\w-]{20,}"),
    (("shpat_", "shpca_", "shppa_", "shpss_"), r"[0-9a-f]{32}"),  # Shopify
    (("pypi-", "AgEIcHlwaS5vcmc"), r"[\w-]{16,}"),
    (("hvs.", "hvb.", "hvr."), r"[\w-]{16,}"),  # HashiCorp Vault
    (("SG.",), r"[\w-]{16,}\.[\w-]{16,}"),  # SendGrid
    (("glsa_", "dapi", "PMAK-", "sntrys_", "tskey-", "lsv2_", "pcsk_", "tgp_v1_"), r"[\w-]{24,}"),
    (("NRAK-", "NRAA-", "NRII-", "NRIQ-", "NRRA-"), r"[\w-]{24,}"),  # New Relic
    (("pat",), r"[A-Za-z0-9]{14}\.[0-9a-f]{64}"),  # Airtable
    (("ATATT3", "ATCTT3", "figd_", "sbp_", "xkeysib-", "pul-"), r"[\w=-]{24,}"),
    (("AGE-SECRET-KEY-1",), r"\w{20,}"),
    (("b3BlbnNzaC1rZXktdjE",), r"[\w+/=]{20,}"),  # OpenSSH's private keys
    (("eyJ",), r"[\w-]{17,}(?:\.[\w-]+){0,4}={0,2}"),  # JSON in base64: JWT, Neptune
)
# Others begin alike: rnd_8sK…, two or three short words and then a random one of both cases.
_BARE_FORMS = (  # of Telegram and Discord
    r"(?<![\w:])[0-9]{8,10}:AA[\w-]{30,36}(?!\w)|(?<![\w.])[\w-]{24,26}\.[\w-]{6}\.[\w-]{27,38}(?!\w)"
)
_LONG = r"[._-][A-Za-z0-9]{20}"
_PREFIXED = (
    r"(?<![\w/.+-])[a-z][a-z0-9]{1,7}[._-](?:[a-z0-9]{1,12}[._-]){0,2}(?=[A-Za-z]*[0-9])"
    r"(?=[A-Z0-9]*[a-z])(?P<value>[A-Za-z0-9]{20,200})(?![\w./-])"
)
_IN_FORMS = tuple(prefix for prefixes, _ in _FORMS for prefix in prefixes)
_NEVER_WORDS = (
    *("AKIA", "ASIA", "AGE-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    *("github_pat_", "glpat-", "xoxb-", "xoxp-", "AIza", "dckr_pat_", "hvs."),
)
_WELL_KNOWN = "(?<![A-Za-z0-9])(?:{})".format(
    "|".join(
        "(?:{}){}".format("|".join(map(re.escape, prefixes)), rest) for prefixes, rest in _FORMS
    )
)
# Telegram's, and that of a conda channel.
_IN_PATH = r"(?<=/bot)[0-9]{6,12}:[\w-]{30,}|(?<=/t/)[\w-]{16,}(?=/)"
_PEM = "-----BEGIN "
_PRIVATE_KEY = (
    r"(?s)(?P<head>-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)"
    r"(?:(?!-----BEGIN ).){0,20000}?(?P<tail>-----END |\Z)"
)
# To the last @: the password may contain one, and a slash.
_URL = r"""(?x) (?<=://) (?P<user> [^\s/:@'"]{0,200} ) (?P<value> : [^\s'"]{0,1000} )? @"""
# user:password@tcp(host:3306)/x, as Go's drivers take it.
_DSN = r"""(?x) (?<![\w/:.-]) (?P<user> [\w.-]{1,60} : ) (?P<value> [^\s'"`]{1,200} )
    (?P<host> @ (?: tcp6? | unix | cloudsql ) \( )"""
_WEBHOOK = r"(?<=://)(?P<head>[\w.-]{1,80}/)(?P<value>[\w./@-]{8,500})"
_URL_SIGNATURE = (
    r"(?i)(?P<head>[?&](?:sig|(?:x-(?:amz|goog)-)?signature)=)(?P<value>[\w%+/=-]{16,})"
)
_HEADER = r"""(?xi) (?P<head> \b (?:
      Bearer \s{1,20}
      | Authorization ['"]? : \s{0,20} ['"]?
        (?: [a-z]{1,20} \s{1,20} (?: ['"] \s? \+ \s? ['"] | \$\( \s? echo \s ['"]? )? )?
      | (?: Set- )? Cookie : \s{0,20} [\w.-]{1,100} =
      | curl \s [^\n|;&]{0,300}? (?: -b \s? | --cookie [ =] ) ['"]? [\w.-]{1,100} = ) )
    (?P<value> [\w.~+/=%-]{4,5000} )"""
_IN_HEADERS = ("bearer", "authorization", "cookie:", "curl")

# What prints a word, and a here-document up to its text, which may be for a filter after it.
_ECHO = r"""(?: echo | printf | yes ) \s{1,9}
    (?: (?: -\w{1,3} | ['"]?%s(?:\\n)?['"]? ) \s{1,9} ){0,3}"""
_HERE = r"""<< -? \s? ['"]? [A-Za-z]\w{0,40} \b [^\n]{0,300} \n \s{0,40}"""

# An option that is a password, of programs by their names.
_ON = r"\b [^\n|;&]{0,300}? \s"
_Q = r"""(?P<q> \\? ['"] )?"""
# Up to the quote that is open, in quotes of its own, or a word; not what is masked already.
_V = r"""(?! \*{3} ) (?P<value> (?(q) (?: (?! (?P=q) ) (?: \\[^\n] | [^\n\x1f] ) ){1,500}
    | (?: '[^'\n]{1,500}' | "[^"\n]{1,500}" | (?: \\[^\n] | [^\s'"\\] ){1,500} ) ) )"""
_ANY = f"{_Q} {_V}"
# Into a file that has a secret's name.
_INTO = r"""(?: >{1,2} | \| \s? tee ) \s{0,9} [^\s;|&]{0,200}? (?i: passw(?:or)?d | ask-?pass
    | (?<![a-z]) (?: pass (?: phrase )? | pw ) | token | secret | (?: api | wandb ) _?key )
    (?: \.(?! log | out | err )[\w$]{1,5} )? ['"]?"""
_SMB_USER = rf"""(?: -U \s{{0,9}} | --user[ =\x1f] ) {_Q} [^\s%'"]{{1,200}} %"""
# Commands to which -u and -p are no user with a password.
_USED_OTHERWISE = (
    r"(?:\A|\s)(?:s(?:queue|acct|run|alloc|batch|cancel|info|prio|share|report|stat|sh)"
    r"|python\S*(?! -m)|ps|perl|find|torchrun|neuronctl|nv\w+|(?:docker|podman)\s+run)(?:\s|\Z)"
)
_GAP = r"\s{1,9}"
_ONE = rf"{_GAP} \S{{1,300}}"
# What reads a password from its standard input.
_READERS = r"""(?: sudo \s [^\n|;&]{0,80} -\w{0,3}S | ssh-add | secret-tool
    | sudo \s chpasswd | su \s (?: - \s )? \w+
    | \w{1,9}-?proxy-\w{1,9} \s [^\n|;&]{0,80} -(?: S | pwstdin )
    | [ki]init | \w{0,9}passwd | cryptsetup
    | (?: docker | podman ) \s secret \s create
    | (?: wandb | huggingface-cli | hf \s auth | vault ) \s login
    | openssl [^\n|;&]{1,200} -pass(?:in)? \s stdin
    | [^\n|;&]{1,200} (?: password_stdin | --(?: pass(?:word)?-stdin | with-token | passphrase-fd
    | stdin ) ) ) \b"""
# Options that are passwords, and of which programs, as their names begin: "-p" may stand apart,
# "-p " does, and "-p+" does not.
_OPTIONS = {
    "-p": "ipmi mongo sshpass",
    "-p ": """beeline cqlsh cypher-shell ncftp rabbitmqadmin rdesktop synapse tabcmd useradd usermod
        veracrypt""",
    "-h?p+": "7z mariadb mysql rar unrar",
    "-P": "bcp ipmi sqlcmd tsql unzip zip",
    "-P ": "mosquitto_",
    "-pw ": "kadmin plink pscp psftp",
    "-w": "kadmin ldap add-generic-password",
    "-s ": "ldappasswd",
    "-[xa]p ": "sendemail sendEmail swaks",
    "-K ": "ccrypt swift",
    "-k ": "mcrypt",
    "-t ": "anaconda",
    "-W ": "ascp",
    "-a ": "redis-cli",
    "-[AX]": "snmp",
    "-[NP] ": "ssh-keygen",
    "-[uo]pw ": "pdf",
    "(?:input|user|owner)_pw ": "pdf",
    "-passwd ": "x11vnc",
    "/p:+": "xfreerdp",
}


def _option(option: str) -> str:
    between = {" ": r"[\s=]\s{0,9}", "+": ""}.get(option[-1], r"\s{0,9}")
    return option.rstrip(" +") + between


_OF_USER = _V.replace("<value>", "<of_user>")
_IN_PARENTHESES = _V.replace(r"[^\s", r"[^\s)")
# htpasswd -b FILE USER V
_FILED = (
    rf"(?: htpasswd | mosquitto_passwd ) {_ON} -\w{{0,9}}b\w{{0,9}} {_ONE} {_ONE} {_GAP} {_ANY}"
)
# connect(x, "kim", "V"), SMTP("kim@lab.org", "V")
_CALLED = r"""(?: [\w.>:-]{0,40} [cC]onnect \w{0,9} \( [^\n]{0,120}? , \s{0,9}
    | [\w.]{0,40} add_password \( [^\n]{0,99}? , \s{0,9}
    | [\w.]{0,40} (?i: smtp | imap | login | auth | account | credentials ) \w{0,9} \( \s{0,9}
    (?= ['"] [\w.+-]{1,60} @ ) ) ['"] [a-zA-Z.@+-]{1,80} ['"] \s{0,9} , \s{0,9}
    ['"] (?= [^'"\n]{0,99} [0-9] ) (?P<value> [^'"\n/:]{4,200} ) (?= ['"] \s{0,9} [,)] )"""


def _beside_a_user(user: str, password: str) -> str:
    """-u kim -p V: of any program, if V is no word."""
    return rf"""{user} [ =\x1f] [\w.@]\S{{0,99}} \s [^\n|;&]{{0,99}}? {password} \s{{1,9}}
        ['"]? (?= [^\s'"]{{0,99}} [0-9] ) (?= [^\s'"]{{0,99}} [A-Za-z] )
        (?P<of_user> [^\s'":=/]{{6,99}} ) (?= ['"\s] | \Z )"""


_PROGRAMS = {
    **{
        name: rf"""{name} [\w.-]{{0,20}} (?=\s) {_ON}
        (?: {"|".join(_option(each) for each, them in _OPTIONS.items() if name in them.split())} )
        (?!-) {_ANY}"""
        for name in " ".join(_OPTIONS.values()).split()
    },
    "ogin": r"""(?: login | authenticate ) [^\n|;&]{0,150}? \s
        ['"]? (?P<random> [A-Za-z0-9] [\w.-]{19,200} ) (?! [\w./:@-] )""",
    " -u": rf"curl {_ON} -u \s? ['\"]? (?P<random> [\w.-]{{16,200}} ) (?= : ['\"\s] )",
    "curl": rf"""curl {_ON} (?: -[a-zA-Z]{{0,9}}[uU] \s{{0,20}} | --(?: proxy- )? user[ =\x1f] )
        {_Q} [^\s:'"]{{0,200}} : (?!//) {_V}""",
    **dict.fromkeys(
        ("--cert", " -E "),
        rf"curl {_ON} (?: -E \s? | --cert [\s=] ) {_Q} [^\s:'\"]{{1,200}} : (?![/\\]) {_V}",
    ),
    "http": rf"https? {_ON} -a \s{{0,20}} {_Q} [^\s:'\"]{{1,200}} : {_V}",
    "ntfy": rf"ntfy {_ON} (?: -u | --user ) [\s=] {_Q} [^\s:'\"]{{1,200}} : {_V}",
    "login": rf"""(?: (?: docker | podman ) \s login {_ON} -p \s{{0,9}}
        | login {_ON} -p \s{{1,9}} ) (?! [0-9]{{1,5}} \b ) {_Q} {_OF_USER}""",
    "-p": _beside_a_user("(?: -u | --user(?:name)? )", "-p"),
    "-P": _beside_a_user("-U", "-P"),
    "-D": _beside_a_user("-D", "-w"),
    "http-basic": rf"config {_GAP} http-basic\.\S{{1,60}} {_ONE} {_GAP} {_ANY}",
    "mc": rf"""mc {_ON} (?: alias \s{{1,9}} set | host \s{{1,9}} add ) [^\n|;&]{{1,200}}?
        \w:// \S{{1,300}} {_ONE} {_GAP} {_ANY}""",
    "rclone": rf"rclone {_ON}? (?: obscure | config {_GAP} password {_ONE} {_ONE} ) {_GAP} {_ANY}",
    "influx": rf"influx {_ON} -t {_GAP} ['\"]? (?P<value> [\w=-]{{20,200}} )",
    "ftp": rf"""[clns]{{0,2}}ftp \b [^\n|;&]{{0,200}}? (?: {_HERE}
        (?: [^\n]{{0,200}} \n \s{{0,40}} ){{0,5}}? (?: quote \s )? | -[ce] {_GAP} ['"]
        [^\n'"]{{0,200}}? ; \s{{0,9}} ) user {_GAP}
        (?! anonymous | ftp ) \S{{1,300}} {_GAP} (?P<value> [^\s'";]{{1,300}} )""",
    "PASS ": rf"""(?: USER | user ) {_GAP} (?! anonymous | ftp ) [^\s'"]{{1,100}} [^|&]{{1,40}}?
        \b PASS {_GAP} (?P<value> [^\s'";\\]{{1,300}} )""",
    "htpasswd": _FILED,
    "mosquitto_passwd": _FILED,
    "IDENTIFIED": rf"IDENTIFIED \s (?: WITH \s \S{{1,40}} \s )? BY \s {_ANY}",
    "gcloud": rf"gcloud {_ON} activate-refresh-token {_ONE} {_GAP} {_ANY}",
    "rabbitmqctl": rf"""rabbitmqctl {_ON} (?: add_user | \w{{4,15}}_password | authenticate_user )
        {_ONE} {_GAP} {_ANY}""",
    "b2": rf"b2 {_GAP} (?: authorize-account | account {_GAP} authorize ) {_ONE} {_GAP} {_ANY}",
    "isql": rf"isql {_ONE} {_GAP} (?!-) \S{{1,99}} {_GAP} (?![-<>]) {_ANY}",
    "db2": rf"db2 {_ON} user {_ONE} {_GAP} using {_GAP} {_ANY}",
    "wpa_passphrase": rf"wpa_passphrase {_ONE} {_GAP} {_ANY}",
    "smbclient": rf"smbclient {_GAP} ['\"]? // \S{{1,200}} {_GAP} (?!-) {_ANY}",
    "net use": rf"net \s use {_ON} /user: \S{{1,100}} {_GAP} {_ANY}",
    "qpdf": rf"qpdf {_ON} --encrypt {_GAP} {_ANY}",
    "--encrypt": rf"--encrypt {_ONE} {_GAP} {_ANY} (?= ['\"]? \s (?: 40 | 128 | 256 ) \b )",
    "oathtool": rf"oathtool {_ON} ['\"]? (?P<value> [A-Z2-7]{{16,200}} ) (?! [\w.] )",
    **dict.fromkeys(
        ("_PIN=", "-pin"),
        r"""(?: \w{0,30} (?: KEY | CARD | USER | TOKEN | HSM ) _PIN=
        | (?: pkcs1[15] | opensc | yk ) [\w-]{1,20} \s [^\n|;&]{0,300}? --pin [\s=] )
        ['"]? (?P<value> \d{4,12} ) \b""",
    ),
    "expect": r"""expect \b [^\n]{0,80} (?i: assw | assphrase | word: ) [^\n;]{0,60} [\n;\s})]{1,60}
        [\w.]{0,30} send (?: line )? \s? \(? (?: -- \s )? ['"]
        (?P<value> [^'"\\\s]{1,200} ) (?= \\ [rn] | ['"] )""",
    "|": rf"""{_ECHO}
        ['"]? (?P<value> [^\s'"|;()]{{1,500}} | (?<=['"]) [^'"\n|]{{1,500}} )
        (?= ['"]? \s{{0,9}} (?: ; \s{{0,9}} (?: {_ECHO} [^\n|;]{{1,80}} ;? )? )?
        (?: \s{{0,9}} [)}}] \s{{0,9}} )?
        \| \s{{0,9}} {_READERS} )""",
    "<<": rf"""(?: {_READERS} [^\n]{{0,200}}?
        | cat \s (?= <<[^\n|]{{1,80}} \| \s{{0,9}} {_READERS} )
        | cat \s{{0,9}} (?: {_INTO} \s{{0,9}} | (?= << [^\n>]{{1,40}} {_INTO} \s ) )
        (?= [^\n]{{1,99}} \n \s{{0,9}} \S{{1,500}} \n \s{{0,9}} \w{{1,20}} \s{{0,9}}
        (?: \n | \Z ) ) )
        {_HERE} {_ANY}""",
    "<(": rf"""(?: (?: sshpass \s -f
        | -[\w-]{{0,20}} (?: pass | token | secret | key ) [\w-]{{0,20}} )
        [ =\x1f]? | {_READERS} [^\n|;&<]{{0,100}} < \s{{0,9}} )
        <\( \s{{0,9}} {_ECHO} (?! ['"]? \{{ ) {_Q} {_IN_PARENTHESES}""",
    "pgpass": r"""[\w.*-]{1,60} : (?: [0-9]{2,5} | \* ) : [\w*.-]{1,60} : [\w*.-]{1,60} :
        (?P<value> [^\s'"\\]{1,200} )""",
    "base64": r"""(?: echo | printf ) \s (?: (?: -\w{1,3} | ['"]?%s:%s['"]? ) \s{1,9} ){0,2} ['"]?
        [\w.@-]{1,60} [: ] (?P<value> [^\s'"|;]{1,200} ) (?= ['"]? \s{0,9} \| \s{0,9} base64 )""",
    "echo": rf"""[\w-]{{0,30}} (?i: pass\w{{0,9}}[_-]?(?: command | cmd | eval ) ) [\s=]
        ['"]? echo {_GAP} (?P<value> [^\s'"|;]{{1,200}} )""",
    ">": rf"""{_ECHO} ['"]? (?: echo {_GAP} )? (?P<value> [^\s'"|;<>]{{1,500}} )
        (?= ['"]? \s{{0,9}} {_INTO} (?: [\s;&)] | \Z ) )""",
    "askpass": rf"""(?: cat | tee ) \s [^\n]{{0,100}}? ask-?pass [^\n]{{0,100}}? {_HERE}
        (?: \#! [^\n]{{0,60}} \n )?
        \s{{0,9}} echo {_GAP} (?!\$) {_ANY}""",
    "<<<": rf"""(?: {_READERS} [^\n|;&]{{0,200}} | cat \s{{0,9}} {_INTO} \s{{0,9}} )
        <<< \s{{0,9}} {_ANY}""",
    **dict.fromkeys(
        ("ogin(", "uthenticate(", "asicAuth(", "auth", "onnect(", "atabase("),
        r"""(?: (?: (?: [\w.]{1,60} \. )? (?: login | authenticate | \w{0,9}BasicAuth )
        | ['"]? (?: \w{0,20}_ )? auth ['"]? \s? [=:] \s? ) \(
        | [\w.]{0,40} [cC]onnect(?:ion)? \( \s{0,9} [\w.'":/-]{1,200} \s{0,9} ,
        (?= [^,\n]{1,200} , \s{0,9} ['"] [^\d'"\n]{0,99} [0-9] )
        | [\w.]{0,20} [oO]racle\w{0,3} \.connect \( (?= [^,()]{1,60} , [^,()]{1,60} , )
        | (?: database | (?i: \w{0,20} (?: sql | db | psycopg | oracle ) \w{0,9} ) \.connect )
        \( \s{0,9} [\w.'":-]{1,100} \s{0,9} , )
        \s{0,9} [\w.'"@=]{1,100} \s{0,9} , \s{0,9} ['"] (?P<value> [^'"\n]{4,200} ) (?=['"])""",
    ),
    **dict.fromkeys(
        ("onnect", "dd_password(", "SMTP", "smtp", "IMAP", "uth(", "ccount(", "redentials("),
        _CALLED,
    ),
    **dict.fromkeys(
        (
            "Rester(",
            "lient(",
            "AI(",
            "Instance(",
            "Fernet(",
            "Minio(",
            "Bot(",
            "Api(",
            "API(",
            "jwt.",
        ),
        r"""(?: \w{0,30} (?: Rester | [cC]lient | AI | Instance | Fernet | Minio | Bot | Api | API )
        | jwt\.(?: en | de )code ) \( [^()\n]{0,100}?
        b? ['"] (?P<random> [A-Za-z0-9+=.]{16,200} ) (?= ['"] )""",
    ),
    "PRAGMA": rf"PRAGMA {_GAP} (?: re | hex )? key \s? = \s? {_ANY}",  # of SQLCipher
    "lftp": rf"(?: lftp {_ON} | \b open \s{{1,9}} ) -u \s{{0,9}} {_Q} [^\s,'\"]{{1,200}} , {_V}",
    "smb": rf"smb\w{{1,9}} {_ON} {_SMB_USER} {_V}",
    "rpcclient": rf"rpcclient {_ON} {_SMB_USER} {_V}",
    **dict.fromkeys(
        ("sqlplus", "jdbc:oracle:thin:", "expdp", "impdp", "sqlldr", "rman"),
        rf"""(?: (?: sqlplus | expdp | impdp | sqlldr | rman ) {_ON}? | jdbc:oracle:thin: )
        [^\s/'\"]{{1,60}} / (?P<value> [^\s'\"@]{{1,200}} ) (?=@)""",
    ),
    "openssl": rf"""openssl (?: \s (?: enc | (?: aes | aria | bf | camellia | cast | des | rc | sm4
        | chacha )[\w-]{{0,20}} ) {_ON} -[kK] | {_ON} -hmac
        | {_ON} -pass (?: in | out )? (?= \s{{1,9}} ['\"]? pass: )
        | \s passwd (?: \s -[\w-]{{1,20}} ){{0,3}} (?! \s{{1,9}} - ) )
        {_GAP} {_Q} (?: pass: )? {_V}""",
    **dict.fromkeys(
        ("ogin with ", "ogin as "),
        r"""(?: \w{1,20}_ )? [Ll]ogin \s (?: with | as ) \s ['"]? [\w.@-]{1,60} :
        (?P<value> [^\s'"/:] [^\s'"]{3,200} )""",
    ),
    " / ": r"""(?i: login | user | account | id | 계정 | 아이디 ) \s? [:=] \s? [\w.@-]{1,60} \s / \s
        (?= \S{0,99} [0-9] ) (?= \S{0,99} [^\W\d_] ) (?P<value> [^\s'"/]{8,200} )""",
}

# ------------------------------------------------------------------------------- syntax

_AROUND = " \t\n'\"\\"

# A word as bash reads it: quoted parts may hold anything, newlines too.
_WORD = r"""(?xs) (?P<value> (?: [^\s;&|<>()'"\\$]+
    | \$\( (?: [^()] | \( [^()]{0,500} \) ){0,500} \)
    | \$'(?:\\.|[^'\\]){0,5000}' | '[^']{0,5000}' | "(?:\\.|[^"\\]){0,5000}" | \\.
    | [^\s;&|<>()'"\\] ){1,5000} )"""
# What follows of a list of variables, --export=HF_TOKEN=x,A=1, is no longer the value.
_ITEM = r"""(?xs) (?: [^,'"]+ | '[^']*' | "[^"]*" | , (?! [A-Za-z_][\w.+-]{0,100} = ) | [^,] )+"""
_LITERAL = r"""(?x)
    (?: [\w.]{0,60} (?: SecretStr \( | (?i: field ) \( [ ]{0,9} default [ ]? = ) [ ]? )?
    (?P<call> [A-Za-z_][\w.]{0,60} \( [ ]{0,9} (?: default [ ]? = [ ]? )? )?
    [rbfuRBFU]{0,2} (?P<value> \'{3} [^']{1,5000} \'{3} | "{3} [^"]{1,5000} "{3}
    | \\?' [^'\n]{0,5000} ' (?: [ ]? ' [^'\n]{1,5000} ' )?
    | \\?" [^"\n]{0,5000} " (?: [ ]? " [^"\n]{1,5000} " )? )"""
_KEY = r"""(?:'[^'\n]{1,100}'|"[^"\n]{1,100}")"""
_BARE = r"""(?P<value>[^\s'",;&)\]}<>]{1,5000})"""

# What may be between a name and its value.
_CLOSE = r"\\?['\"]?\)?\]?"
_TIGHT = r"(?:\[[^\]\s]{0,40}\])?\+?=(?![=~>\s])"
_LOOSE = r"""(?x) [ \t]{0,20} (?:
    : [ \t]{0,20} (?P<q> ['"]? ) [A-Za-z_][\w.]{0,60} (?: \[ [^=\n]{0,60} \] )? (?P=q) [ \t]{0,9}
        = (?!=) (?= [ \t]{0,9} [^\s,}] )
    | [:?]? = >? (?!=) | <- | : (?![:=]) ) [ \t]{0,20}"""
# What prints the value: $(echo V), `printf %s V`, $(base64 -d <<< V), $(cat <<EOF.
_PRINTS = rf"""(?x) ['"]? (?: [$<]\( | ` ) \s{{0,9}} (?: {_ECHO}
    | [\w.-]{{1,20}} [^\n()`<]{{0,80}} (?: <<< \s{{0,9}} | {_HERE} ) )
    (?P<value> '[^'\n]{{1,5000}}' | "[^"$`\n]{{1,5000}}" | [^\s$`'"()|;&<>]{{1,5000}} )"""
# What a literal may follow: (V), x or V, x if y else V, as YAML has it, |, and a new line.
_INSTEAD = r"""(?x) (?: [(\[] \s{0,9}
    | (?! [rbfuRBFU]{0,2} ['"] ) [^\n#]{1,200}? \s (?: or | else | \?\? | \|\| ) \s{1,9} )
    (?= [rbfuRBFU]{0,2} ['"] )"""
_BELOW = r"""(?x) [|>] [+-]? [ \t]{0,9} \n [ \t]{1,40} (?= \S )
    | [ \t]{0,9} \n [ \t]{1,40} (?: (?: - | value: ) [ \t]{1,9} )?
    (?= [^\s:]{1,5000} [ \t]{0,9} (?: \n | \Z ) )"""
_AND = r"(?i)\b(?:user|username|login|account|id)[ :=]{1,3}\S{1,60}?,?[ ](?:and[ ])?\Z"
_NEAR = r"(?=[!@#$%^&*?~+-]*\w)[\w!@#$%^&*?~+-]{1,200}"
_CHOSEN = rf"(?i)(?!{_METHODS})(?=.*[0-9])(?=.*[^\W\d_])[\w!@#$%^&*?-]{{6,100}}"
_BETWEEN_SIGNS = r"[=:,(/]|(?<![\s\d])>|<<<"
_END = r"['\"]?[.)]?['\"]?[ \t]{0,9}(?:(?:입니다|이다|임|이?예요)[.]?[ \t]{0,9})?(?=\n|\Z)"
_EQUALS = r"\}?['\"]?\s?[=!]="
_PLAIN = r"%?\w{1,20}"
_BLANK = r"[ \t]{1,100}(?:\\\n[ \t]{0,100})?"
_NEXT_ITEM = r"['\"]?[ \t]{0,9}\n[ \t]{0,40}-[ \t]{1,9}"
_CONTENT = r"[^<>]{0,200}>(?P<value>[^<>\n]{1,500})</"
# <name>K</name><value>V</value>, name="K" value="V", add_argument("--k", default="V")
_NAMED = r"""(?xs) (?: </\w{1,20}> \s{0,20} < | ['"]? (?: [\s,}]{1,20}
    | , (?:(?! \b(?: add_argument | option | name | key )\b ).){0,300}? \b ) )
    ['"]? (?: value | default ) \b ['"]? \s{0,9} [=:>] \s{0,9}
    | ['"]? \s{1,9} (?: -v | --value ) [ =]"""
_FORMAT = r"[=: ]{1,3}\\?['\"]?%[sbq]"
# Commands that take a name and then its value, with what is between them.
_SETTERS = {
    **dict.fromkeys(("setenv", "SetEnv", "ENV", "ARG", "set", "config", "#define"), r"[ \t]{1,99}"),
    "printf": r"[ \t]{1,100}\S{1,50}[ \t]{1,100}",
    **dict.fromkeys(
        ("read", "mapfile", "readarray"),
        rf"""(?x) (?: [ \t]{{1,9}} \w{{1,40}} ){{0,9}} [ \t]{{0,100}}
        (?: <<< [ \t]{{0,100}} | <[ \t](?=<\() | {_HERE} )""",
    ),
}
_READ = ("read", "mapfile", "readarray")
_KEEPERS = (("rclone", "config"), ("dvc", "modify"), ("consul", "put"), ("ngrok", "ngrok"))
"""Programs that keep a name and its value, and what they are told to do."""
_NETRC = frozenset(("machine", "login", "account", "default"))


# The head of a list in YAML, and a value that is taken from elsewhere.
_HEAD = r"(?:\A|\n)(?P<name>[\w.-]{1,60}):[ \t]{0,9}\n(?:[ \t]+[^\n]*\n)*\Z"
_FROM = r"""['"]?\]?\s?[=:]?\s?['"]?[$`]"""
# A word that nobody would choose, and no path.
_BESIDE = r"(?<![\w./+=%$-])[A-Za-z0-9_~+-]{16,200}(?![\w/.(~+-])"
_KEY_OF = r"\b(?:api|access|secret|private|encryption) key\b"
_DIGESTS = (
    *("sha", "commit", "rev", "hash", "digest", "md5", "checkout", "checksum", "check_sum"),
    *("uuid", "branch"),
)


_LONGEST = 5000


def _at(pattern: str, text: str, place: int, longest: int = _LONGEST) -> Optional[re.Match[str]]:
    return re.compile(pattern).match(text, place, place + longest)


_Spans = List[Tuple[int, int]]


def _named_secrets(text: str) -> Iterator[Tuple[int, int]]:
    """Where the secrets are that the name before them gives away."""
    done = 0
    for start, end in _names(text):
        name = _Name(text, start, end)
        for first, last in name.secrets() if start >= done and name.kind else ():
            yield first, last
            done = max(done, last)


def _names(text: str) -> Iterator[Tuple[int, int]]:
    """Where names are that may be those of secrets."""
    done = 0
    for hint in re.finditer(_HINT, text):
        start, end = hint.span()
        if start < done:
            continue
        first = max(done, start - 100)
        while start > first and (text[start - 1].isalnum() or text[start - 1] in "_.+-"):
            start -= 1
        # The n of \n, as printf reads it, is no part of a name.
        start += start < hint.start() and text[start - 1 : start + 1] in ("\\n", "\\t")
        rest = _at(r"[\w.+-]{0,100}(?<![.+-])", text, end)
        done = end = end if rest is None else rest.end()
        yield start, end


class _Name:
    """A name in a text, and what the text has for its value."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self.text, self.start, self.end = text, start, end
        self.name = text[start:end]
        self.kind = _kind(self.name)
        beside = text[start - 1 : start] in ("&", "?", ";") and start
        if text.endswith("--from-literal=", 0, start):  # kubectl create secret
            self.kind = _PASSWORD if "secret" in text[max(start - 80, 0) : start] else self.kind
        if beside or re.search(_AFTER_USER, text[max(start - 80, 0) : start]):
            self.kind = _PASSWORD if re.fullmatch(_QUERIED, self.name) else self.kind

    def secrets(self) -> _Spans:
        text = self.text
        if self.kind == _PERHAPS and not _random(text[self.end : self.end + 600]):
            return []
        line = max(text.rfind("\n", 0, self.start) + 1, self.start - 300)
        self.before = text[line : self.start]
        self.quote = ""  # that is open here
        if "'" in self.before or '"' in self.before:
            for char in self.before:
                if char in "'\"" and self.quote in ("", char):
                    self.quote = "" if self.quote else char
        if self.kind == _SHORT_NAME and "#" in self.before and self.before[-1] in " \t":
            owner = self.before.split()[-1].lower()  # as a remark says it: ssh pass
            self.kind = _PASSWORD if owner in _OWNERS else _SHORT_NAME
        close = _at(r"['\"]?\}" if self.before.endswith("ENV{") else _CLOSE, text, self.end)
        self.behind = self.end if close is None else close.end()
        self.is_closed = text[self.end : self.end + 1] in ("'", '"', "\\")
        forms = (self._array, self._default)
        if self.quote and _at(_FORMAT, text, self.end):
            return self._near()
        for form in (*forms, self._tight, self._loose, self._blank, self._xml):
            found = form()
            if found is not None:
                return found
        return self._described() or self._near()

    def _judged(self, first: int, last: int, *, sure: bool) -> _Spans:
        """A value's span if it is a secret. sure: no syntax that often means something else."""
        value = self.text[first : min(last, first + _JUDGED)]
        plain = value.strip(_AROUND)
        if re.fullmatch(_ESCAPES, value) or not _judge(self.kind, plain):
            return []
        if sure or self.name.isupper() or self.kind <= _SHORT_NAME or _random(plain):
            return [(first, last)]
        if self.kind == _PASSWORD:
            return [(first, last)] if len(plain) >= 4 else []
        return [] if len(plain) < 6 or re.fullmatch(_PROSE, plain) else [(first, last)]

    def _array(self) -> Optional[_Spans]:
        """As in NAME=(a b)."""
        begin = _at(r"\+?=\(", self.text, self.end)
        if begin is None:
            return None
        found: _Spans = []
        place = begin.end()
        while True:
            blank = _at(r"[\s,]{0,100}", self.text, place)
            word = _at(_WORD, self.text, place if blank is None else blank.end())
            if word is None:
                return found
            found += self._judged(*word.span(), sure=True)
            place = word.end()

    def _default(self) -> Optional[_Spans]:
        """As in ${NAME:=V}."""
        if not self.before.endswith("${"):
            return None
        value = _at(r":?[=-](?P<value>[^}\n]{1,5000})", self.text, self.end)
        return [] if value is None else self._judged(*value.span("value"), sure=True)

    def _literals(self, place: int, most: int) -> List[_Spans]:
        """What is secret in each of the literals of a list, the first of which begins here."""
        found: List[_Spans] = []
        while len(found) < most:
            literal = _at(_LITERAL, self.text, place)
            if literal is None:
                break
            found.append(self._judged(*literal.span("value"), sure=False))
            comma = _at(r"\s{0,20},\s{0,20}", self.text, literal.end())
            if comma is None:
                break
            place = comma.end()
        return found

    def _tight(self) -> Optional[_Spans]:
        """As in NAME=V in a shell, a URL, a list of variables, or a call."""
        text, quote = self.text, self.quote
        if self.is_closed:
            return None
        sign = _at(_TIGHT, text, self.end) or _at(_TIGHT, text, self.behind)
        if sign is None:
            return None
        first = sign.end()
        if self.before.endswith("/") and "sed " not in self.before and not self.quote:
            part = _at(r"[^\s/]{0,300}", text, first)  # of a path: /data/token=x/y
            if part is None or not _random(part[0]):
                return None
        printed = _at(_PRINTS, text, first)
        if printed is not None:
            return self._judged(*printed.span("value"), sure=True)
        if (quote and text[first : first + 1] == quote) or text.startswith(_COMMAND, first):
            return []
        if quote and text[first : first + 1] not in "'\"\\":
            whole = self.before.endswith((quote, "," + quote))  # "NAME=a b"
            ends = rf"(?:(?! \w+=)[^{quote}])" if whole else rf"[^\s;&{quote}]"
            if self.before.endswith(","):
                ends = rf"[^,{quote}]"
            word = _at(rf"(?s){ends}{{1,5000}}", text, first)
        else:  # the end of a long one counts only if it is a secret
            word = _at(_WORD, text, first, 600)
            if (
                word is None
                or text[first] in "'\"$"
                or (len(word[0]) == 600 and _judge(self.kind, word[0]))
            ):
                word = _at(_WORD, text, first)
        if word is None:
            return []
        value = word[0]
        if re.match(rf"(?:{_REFERENCE}|''|\\\"\\\")(?:[\s,;:]|\Z)", value):
            return []  # "--token=$HF_TOKEN --lr=1"
        if re.match(rf"['\"]?{_EXPANSION}", text[first : first + 400]):
            return []
        item = re.match(_ITEM, value)
        last = first + len(value if item is None else item[0])
        after = text[last - 1 : last + 2].lstrip(value[-1] if value[-1] != "," else "")
        in_call = not quote and re.match(r",\s|,\Z|\)", after) is not None
        last -= text[last - 1] == ","
        if in_call and not self.name.isupper():
            plain = text[first:last]
            if re.fullmatch(_IDENTIFIER, plain) and not _random(plain):
                return []
        if re.match(_CODE, text[first : last + 1]) and not self.name.isupper():
            return []
        if self.before.endswith("/") and not _random(text[first:last]):
            if "sed " not in self.before:
                return []  # a directory: /data/token=x
            last = min(last, text.find("/", first, last) % (last + 1))
            if last - first < _SHORTEST:
                return []
        return self._judged(first, last, sure=not in_call)

    def _loose(self) -> Optional[_Spans]:
        """As in NAME = V, NAME: V, "NAME": V, and NAME: str = V."""
        text = self.text
        sign = _at(_LOOSE, text, self.behind)
        if sign is None or (sign[0].startswith("=") and not self.is_closed and self.quote):
            return None
        place = sign.end()
        anchor = _at(r"[&!][\w!-]{1,60}[ \t]{1,9}(?=\S)", text, place)
        place = place if anchor is None else anchor.end()
        if text[place : place + 1] == "{":
            return None
        in_list = text[place : place + 1] == "["
        moved = _at(_INSTEAD if "=" in sign[0] or in_list else _BELOW, text, place)
        place = place if moved is None else moved.end()
        follows = text[place : place + 1]
        if self.quote and not self.is_closed and follows == self.quote:
            return []
        literal = _at(_LITERAL, text, place)
        apart = self.is_closed or "=" in sign[0] or sign[0][-1:].isspace()
        if follows in "'\"" and not apart and not (literal and _random(literal["value"])):
            return []
        if literal is not None:
            if in_list:
                return [span for spans in self._literals(place, 99) for span in spans]
            others = re.fullmatch(r"\s*((?:[\w.]+\s?,\s?)+)", self.before)  # a, NAME = "x", V
            if others is not None:
                spans = self._literals(place, 9)[others[1].count(",") :]
                return spans[0] if spans else None
            found = self._judged(*literal.span("value"), sure=False)
            return found or None if not literal["call"] or _random(literal["value"]) else []
        bare = _at(_BARE, text, place)
        if bare is None:
            return []
        rest = text[place : text.find("\n", place) % (len(text) + 1)][:300]
        word = bare["value"]
        if text[self.behind - 1] == ")" and not self.is_closed and not _random(word):
            return None
        known = _kind(word) if re.fullmatch(_IDENTIFIER, word) else _NONE
        is_call = re.match(f"{_CODE}|{_TYPE}", rest) and not (
            _random(word) and rest[len(word) :][:1] == " "
        )
        if is_call or known or word in _TYPES or ("." in word.strip(".") and known):
            return []
        ends = re.match(r"\s*(?:$|#|[,}\])'\"])", rest[len(word) :]) is not None
        if self.kind == _PASSWORD:
            inside = rest.partition(self.quote)[0] if self.quote else rest
            whole = re.split(r"\s#|[,;\s]*$", inside)[0]
            alone = not self.quote and not self.before.strip(" \t-")
            if "#" in self.before and re.fullmatch(r"[a-z]+(?:[ ,]+[a-z]+)+", whole):
                return None  # a remark
            if re.fullmatch(_APP_PASSWORD, whole) or (alone and re.fullmatch(_WORDS_ALONE, whole)):
                return [(place, place + len(whole))]
            in_code = "=" in sign[0] and (" " in whole or self.before.rstrip().endswith(","))
            in_code = in_code or re.search(r"[=!]=\s?['\"]\Z", self.before[-4:]) is not None
            if in_code or (self.quote and not ends):  # code, or prose
                return self._judged(*bare.span(), sure=True) if _random(word) else None
            return self._judged(place, place + len(whole) if alone else bare.end(), sure=False)
        if self.kind in (_LOGIN, _SHORT_NAME) and ends and not self.before.strip(" \t-#/*"):
            return self._judged(*bare.span(), sure=True)
        if (self.name.isupper() and ends) or (self.is_closed and word.isdigit()) or _random(word):
            return self._judged(*bare.span(), sure=True)
        return None

    def _blank(self) -> Optional[_Spans]:
        """As in --name V, setenv NAME V."""
        text = self.text
        before, quote, end = self.before, self.quote, self.end
        if self.is_closed and quote and before.endswith(quote):  # setenv "NAME" V
            before, quote, end = before[:-1], "", end + 1
        blank = _at(_BLANK, text, end)
        if self.name.startswith("-") and before.strip(" \t'\"") == "-":  # of a list in YAML
            blank = _at(_NEXT_ITEM, text, self.end) or blank
        if blank is None and not text.startswith("<<", end):
            return None
        sure = self.name.startswith("-")
        if sure and before[-1:] in (" ", "\t", "(", "", quote):
            place = blank.end() if blank is not None else end
        else:
            words = before.split()[-20:]
            if words[-1:] in (["set"], ["Set"], ['"set'], ['"Set']) and re.search(
                r"(?:[\"'.:!,]|\b(?:[Pp]lease|and|or|not|must|to))\s*[sS]et\s+\Z", before[-40:]
            ):
                return None  # "set HF_TOKEN first"
            command = next((word for word in reversed(words) if not word.startswith("-")), "")
            command = next((word for word in words if word in _READ), command)
            if words[-1:] in (["-genv"], ["-env"]):  # of mpiexec
                command = "setenv"
            if any(program in words and verb in words for program, verb in _KEEPERS):
                command = "set"
            alone = not words and _at(r"(?m)[ \t]{1,100}\S+[ \t]*$", text, end) is not None
            pattern = _SETTERS.get(command) if command != "printf" or "-v" in words else None
            if words[-2:] == ["rclone", "config"]:  # rclone config password NAME
                pattern = None
            in_netrc = self.name == "password" and any(map(before.__contains__, _NETRC))
            in_netrc = in_netrc and not _NETRC.isdisjoint(re.split(r"\s|['\"]|\\n", before)[:-1])
            if self.name in ("password", "requirepass") and (
                alone or in_netrc or words[-1:] == ["SET"]
            ):
                pattern = _BLANK
            between = None if pattern is None else _at(pattern, text, end)
            if between is None:
                return None
            place = between.end()
            printed = _at(_PRINTS, text, place)
            place = place if printed is None else printed.start("value")
            sure = command not in ("set", "config") or "." in self.name or "_" in self.name
        option = _at(r"--\w+[ =]", text, place)  # gh secret set NAME --body V
        if option is not None and not self.name.startswith("-"):
            place = option.end()
        quoted = quote and text[place : place + 1] not in "'\"\\"
        word = _at(rf"[^\s`{quote}]{{1,5000}}" if quoted else _WORD, text, place)
        if word is None or text[place] == "-":
            return None
        return self._judged(*word.span(), sure=sure)

    def _xml(self) -> Optional[_Spans]:
        """As in <name>V</name> and <x key="name">V</x>."""
        in_tag = self.is_closed and re.search(r"<[^<>]*\Z", self.before)
        if not (in_tag or self.before.endswith("<")):
            return None
        value = _at(_CONTENT, self.text, self.end)
        return None if value is None else self._judged(*value.span("value"), sure=False)

    def _near(self) -> _Spans:
        """What stands behind a name, signs, and small words, and nobody would call anything else.

        As in if NAME == "V", set("NAME", "V"), user, NAME = "kim", "V", and "the NAME is V".
        """
        text, place = self.text, self.end
        found: _Spans = []
        case = bool(re.search(r"\bcase ['\"]?\$\{?\Z", self.before[-9:]))
        remark = not self.name.isascii() or "#" in self.before
        remark = remark or bool(re.search(_AND, self.before[-90:]))
        if self.before.endswith(("$", "${")) and not case and not _at(_EQUALS, text, self.end):
            return []
        if self.name == "PASS" and self.before[-1:] in ("=", ","):  # of a filter
            return []
        if self.before.endswith("/") and not self.before.endswith("s/"):  # but of sed
            behind = _at(r"/([\w-]{16,100})(?![\w/.-])", text, self.end)
            if text.startswith("/", self.end) and (behind is None or not _random(behind[1])):
                return []
        if self.before.endswith(":?"):  # ${1:?pass a file, ...}: words for people
            return []
        table = self.before.lstrip().startswith("|")  # of Markdown
        told = case or table
        blank = _at(r"[ \t]{1,9}['\"]?", text, self.end)
        beside = -1 if blank is None else blank.end()
        several = False  # [V, V], {"kim": V}
        kind = _PASSWORD if case and self.name.isupper() else self.kind
        last = ""
        line = _at(r"[^\n]{0,300}", text, self.end)
        words = re.compile(_NEAR).finditer(text, self.end, line.end() if line else self.end)
        for word in itertools.islice(words, 12):
            gap, place, value = text[place : word.start()], word.end(), word[0]
            if "$" in gap or ("`" in gap and not table) or value.startswith(("-", "$")):
                break
            if len(value) < 16 and _of_digest(value):
                break
            several = several or (not found and re.search(r"[\[{]", gap) is not None)
            told = told or bool(re.search(_BETWEEN_SIGNS, gap))
            remark = remark or value in ("is", "in", "ist")
            random = (told or remark) and _random(value)
            said = told or (remark and _at(_END, text, place) is not None)
            if word.start() == beside:  # nmcli password V, WITH PASSWORD 'V'
                said = said or bool(re.search("(?i)(?:password|passphrase|pw|auth)$", self.name))
            of_people = re.fullmatch(_CHOSEN, value) is not None and (
                kind in (_PASSWORD, _LOGIN, _SHORT_NAME)
                or "cred" in self.name.lower()
                or (self.is_closed and self.name.isupper())
            )
            quote = text[word.start() - 1 : word.start()]
            if quote in ("'", '"') and kind == _PASSWORD and len(value) >= 4:
                compared = word.start() == beside and quote == "'" and self.name == "PASSWORD"
                compared = compared or last in ("is", "ist") or bool(re.search("[=!]=", gap))
                of_people, said = of_people or compared, said or compared
            last = value
            if (random or (said and of_people)) and not _says_nothing(value):
                whole = rf"[^{quote}\n$]{{0,300}}(?={quote})" if quote in ("'", '"') else ""
                rest = _at(whole or r"[\w+/=.-]{0,500}", text, place)
                place = rest.end() if rest and (random or whole) else place
                head = re.search(r"[\w.:+~-]*\Z", text[self.end : word.start()][-80:])
                first = word.start() - (len(head[0]) if random and head else 0)
                found.append((first, place))
            elif not re.fullmatch(_PLAIN, value) or (found and not several) or _kind(value):
                break
            elif "," in gap and not several and _at(r"['\"]?\s?[:=]", text, place):
                break  # another name
        return found

    def _described(self) -> _Spans:
        """As in name: NAME, value: V."""
        if not (
            self.is_closed
            or re.search(
                r"(?:\bname\s?[:=]|>|(?:--name|-n)[ =][\w./-]{0,100})\s*\Z", self.before[-130:]
            )
        ):
            return []
        sign = _at(_NAMED, self.text, self.end)
        if sign is None:
            return []
        value = _at(_LITERAL, self.text, sign.end()) or _at(_BARE, self.text, sign.end())
        if value is None or value.groupdict().get("call"):
            return []
        return self._judged(*value.span("value"), sure=False)


# ------------------------------------------------------------------------------- words

# sbatch --export=ALL,DB_PASSWORD=x, also as neuronctl and the variables of Slurm have it.
_EXPORT = r"""(?x) (?: --? [A-Za-z][\w-]{0,100} = (?P<quote> ['"]? ) )?
    (?: (?:--)? export | (?: SBATCH_EXPORT | (?: SLURM | SRUN ) _EXPORT_ENV ) ) ="""
# To Slurm, a comma in quotes belongs to the value.
_LIST_ITEM = r"""(?xs) (?: (?<=,) | \A ) (?P<head> (?P<name> [\w.+-]{1,100} ) = )
    (?P<value> (?: '[^']*' | "[^"]*" | [^,] )+ )"""

# Shorter values, such as "x" or "1", are masked only where they are known to be secrets.
_SHORTEST = 6

# Shorter than any token, and no name with a value.
_SHORT = r"[\w./,+-]{0,14}"

_BETWEEN = "\x1f"  # a blank to patterns, and in no word


def signs(text: str) -> Tuple[str, ...]:
    """Which signs of secrets a text has. No part of it has one that Masker() masks without any."""
    folded = text.casefold()
    return tuple(sign for sign in _FOLDED_SIGNS if sign in folded)


def has_sign(text: str, known: Sequence[str]) -> bool:
    """Whether a part of a text has one of its signs(), or a word as long as a secret."""
    return any(map(text.casefold().__contains__, known)) or re.search(_AS_LONG, text) is not None


_AS_LONG = r"[\w-]{20}"  # as the random word of any form is that begins with none of _IN_FORMS
_FOLDED_SIGNS = tuple(
    sign.casefold()
    for sign in (
        *(*_HINTS, *_IN_FORMS, *_IN_HEADERS, *_PROGRAMS, _PEM),
        *("://", "@", "',", '",', ":AA"),
    )
)


def is_secret_value(value: str) -> bool:
    """Whether a text contains what looks like a secret: a token, a URL with a password."""
    return Masker().text(value) != value


def secret_values(command_line: Iterable[str], env: Mapping[str, str]) -> Set[str]:
    """The secrets in an argv (``--env HF_TOKEN=x``, ``--password x``) and in variables.

    Those in lists of variables for sbatch are found too: ``--export=ALL,HF_TOKEN=x``.
    """
    found = {value for name, value in env.items() if _is_told(name, value)}
    lists = [value for name, value in env.items() if _export_list(f"{name}=")[0]]
    before = ""
    for word in command_line:
        head, items, _ = _export_list(word, before)
        secret, value, _ = _assigned(word)
        if head or items:
            lists.append(items)
        elif secret:
            found.add(value)
        elif _is_value(before, word):
            found.add(word)
        before = word
    for items in lists:
        found.update(value for name, value in listed_variables(items) if _is_told(name, value))
    return {value for value in found if value}


def listed_variables(items: str) -> List[Tuple[str, str]]:
    """The variables in what ``sbatch --export`` takes: ``ALL,HF_TOKEN=x,A=1``.

    The value is "" where it only names a secret variable; no shell reads it.
    """
    found = []
    for item in re.finditer(_LIST_ITEM, items):
        value = "" if _names_secret(item["value"]) else item["value"]
        found.append((item["name"], value[1:-1] if _is_quoted(value) else value))
    return found


def _is_told(name: str, value: str) -> bool:
    """Whether a word that no shell reads is a secret: it may begin with $."""
    kind = _kind(name)
    if value.startswith(("$", "`")):
        return kind >= _TOKEN and not _names_secret(value) and not re.fullmatch(_PLACE, value)
    return _judge(kind, value)


def _is_value(option: str, word: str) -> bool:
    if word.startswith("-") or not re.fullmatch(r"[\w.+-]+", option):
        return False
    return (option.startswith("-") or _random(word)) and _is_told(option, word)


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


def _assigned(word: str) -> Tuple[str, str, str]:
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
        head = "=".join(parts[:count]) + "="
        value = word[len(head) :]
        end = quote if quote and value.endswith(quote) else ""
        value = value[: len(value) - len(end)]
        if _is_told(part, value):
            return head, value, end
    return "", "", ""


def _is_quoted(text: str) -> bool:
    return len(text) > 1 and text[0] in "'\"" and text[0] == text[-1]


def _names_secret(value: str) -> bool:
    return re.fullmatch(_REFERENCE, value) is not None and bool(_kind(value.strip("${}")))


def _item(match: re.Match[str]) -> str:
    return match["head"] + MASK if _is_told(match["name"], match["value"]) else match[0]


class Masker:
    """Masks known secrets and everything that looks like one, in text and in JSON data."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._exact = frozenset(known)
        long = sorted((v for v in self._exact if len(v) >= _SHORTEST), key=len, reverse=True)
        # A script may have the value in quotes, with each ' in it as '"'"'.
        long += [v.replace("'", "'\"'\"'") for v in long if "'" in v]
        self._known = long

    def text(self, text: str) -> str:
        """Mask a script, a program, a configuration, or a line of a log."""
        if not self._known and re.fullmatch(_SHORT, text):
            return text
        if _PEM in text:  # before a name takes its head for a value
            text = re.sub(_PRIVATE_KEY, rf"\g<head>{MASK}\g<tail>", text)
        named = any(map(text.casefold().__contains__, _HINTS))
        if named:
            parts: List[str] = []
            done = 0
            for first, last in _named_secrets(text):
                parts += [text[done:first], MASK]
                done = last
            text = "".join([*parts, text[done:]])
        for value in self._known:  # a pattern of them would take time in proportion to both
            text = text.replace(value, MASK)
        text = _without_forms(text)
        return re.sub(_BESIDE, _beside_a_name, text) if named else text

    def words(self, words: Iterable[str]) -> tuple[str, ...]:
        """Mask the words of an argv."""
        shown = []
        before = ""
        for word in words:
            shown.append(MASK if _is_value(before, word) else self._word(word, before))
            before = word
        return tuple(_by_program(shown))

    def _word(self, word: str, before: str = "") -> str:
        if word in self._exact:
            return MASK
        head, items, end = _export_list(word, before)
        if head or items:
            return self.text(head + re.sub(_LIST_ITEM, _item, items) + end)
        head, _, end = _assigned(word)
        return head + MASK + end if head else self.text(word)

    def data(self, data: Any, name: str = "") -> Any:
        """Mask JSON data: strings, and pairs of a name and a value at any depth."""
        if isinstance(data, str):
            if name and _is_told(name, data):
                return MASK
            return self.text(data) if "\n" in data else self._word(data)
        if isinstance(data, Mapping):
            return {key: self.data(value, str(key)) for key, value in data.items()}
        if isinstance(data, (list, tuple)):
            if not all(isinstance(item, str) for item in data):
                return [self.data(item) for item in data]
            if len(data) == 2:
                return [self.data(data[0]), self.data(data[1], data[0])]
            return list(self.words(data))
        return data


def _beside_a_name(match: re.Match[str]) -> str:
    """Mask a random word that shares its line, or the head of its list, with a secret's name."""
    word, text = match[0], match.string
    if not _random(word, 15) or _says_nothing(word):
        return word
    mixed = all(len(re.findall(kind, word)) > 1 for kind in ("[0-9]", "[A-Z]", "[a-z]"))
    first = max(text.rfind("\n", 0, match.start()) + 1, match.start() - 300)
    end = text.find("\n", match.end(), match.end() + 300)
    line = text[first : end if end >= 0 else match.end() + 300]
    if not mixed:
        own = re.search(r"([\w.-]+)['\"]?\s{0,3}[=:]\s{0,3}['\"]?\Z", text[first : match.start()])
        if own and not _kind(own[1]) and own[1] not in ("value", "default"):
            return word
        if _of_digest(line):
            return word
    if line[:1] in (" ", "\t"):  # of a list
        head = re.search(_HEAD, text[max(first - 300, 0) : first])
        if head is not None and _kind(head["name"]):
            return MASK
        line = text[max(text.rfind("\n", 0, first - 1) + 1, first - 300) : first] + line
    told = (" key" in line.lower() and re.search(_KEY_OF, line.lower())) or any(
        _kind(line[start:stop]) >= _TOKEN and not re.match(_FROM, line[stop:])
        for start, stop in _names(line)
        if not line[:start].endswith(("$", "${")) and line[start:stop] not in word
    )
    return MASK if told else word


def _without_forms(text: str) -> str:
    """Mask what gives itself away by its form or its place."""
    if ":AA" in text or re.search(r"\.[\w-]{6}\.[\w-]{27}", text):
        text = re.sub(_BARE_FORMS, lambda match: MASK if _random(match[0], 15) else match[0], text)
    if re.search(_LONG, text):
        text = re.sub(_PREFIXED, _prefixed, text)
    if any(map(text.__contains__, _IN_FORMS)):
        text = re.sub(_WELL_KNOWN, _well_known, text)
    if "://" in text:
        text = re.sub(_URL, _in_url, text) if "@" in text else text
        text = re.sub(_URL_SIGNATURE, rf"\g<head>{MASK}", text)
        text = re.sub(_IN_PATH, _in_path, text)
        text = re.sub(_WEBHOOK, _in_webhook, text) if "hook" in text else text
    if "(" in text and "@" in text:
        text = re.sub(_DSN, _in_dsn, text)
    folded = text.casefold()
    if any(map(folded.__contains__, _IN_HEADERS)):
        text = re.sub(_HEADER, _in_header, text)
    if "'," in text or '",' in text:
        text = re.sub(_ARGV, _in_argv, text)
    return _by_programs(text)


_ARGV = rf"{_KEY}(?:\s{{0,9}},\s{{0,9}}{_KEY}){{1,100}}"


def _in_argv(match: re.Match[str]) -> str:
    """Mask the words of a program's call as Python has it: ["curl", "-u", "kim:V"]."""
    found = [word.span() for word in re.finditer(_KEY, match[0])]
    words = [match[0][first + 1 : last - 1] for first, last in found]
    shown = _by_program(words)
    if shown == words:
        return match[0]
    text = match[0]
    for (first, last), word in zip(found[::-1], shown[::-1]):
        text = text[: first + 1] + word + text[last - 1 :]
    return text


def _by_programs(text: str) -> str:
    for program, pattern in _PROGRAMS.items():
        if program in text:
            pattern = rf"(?x) (?<![\w.-]) {pattern}"
            shown = re.sub(pattern, _of_program, text)
            text = shown if shown == text else re.sub(pattern, _of_program, shown)  # a second one
    return text


def _by_program(words: Sequence[str]) -> List[str]:
    """The same for words, whose blanks and quotes no shell has to read."""
    joined = _BETWEEN.join(words)
    if len(words) < 2 or not any(map(joined.__contains__, _PROGRAMS)):
        return list(words)
    shown = _by_programs(joined.translate(_AS_LETTERS)).translate(_AS_SIGNS).split(_BETWEEN)
    return shown if len(shown) == len(words) else list(words)


_SIGNS_OF_SHELLS = " \n\t'\"|;&\\"
_AS_LETTERS = {ord(sign): 0xE000 + place for place, sign in enumerate(_SIGNS_OF_SHELLS)}
_AS_SIGNS = {letter: sign for sign, letter in _AS_LETTERS.items()}


def _of_program(match: re.Match[str]) -> str:
    """Mask the value that a pattern ends with."""
    groups = match.groupdict()
    value = groups.get("value") or groups.get("random") or groups["of_user"]
    no_secret = _says_nothing(value) or ("random" in groups and not _random(value, 15))
    if "of_user" in groups and not no_secret:
        command = re.split("[\n|;&]", match.string[max(match.start() - 300, 0) : match.start()])[-1]
        no_secret = re.search(_USED_OTHERWISE, command) is not None
    return match[0] if no_secret else match[0][: -len(value)] + MASK


def _of_digest(text: str) -> bool:
    folded = text.lower()
    return any(map(folded.__contains__, _DIGESTS)) or (
        "id" in folded and re.search(r"\bid\b", folded) is not None
    )


def _prefixed(match: re.Match[str]) -> str:
    mixed = re.search("[A-Z].*[A-Z]", match["value"]) and _random(match["value"], 15)
    return MASK if mixed else match[0]


def _well_known(match: re.Match[str]) -> str:
    if re.fullmatch(_PLACEHOLDER, match[0]):
        return match[0]
    return MASK if match[0].startswith(_NEVER_WORDS) or _random(match[0], 15) else match[0]


def _in_url(match: re.Match[str]) -> str:
    user, value = match["user"], match["value"] or ""
    user = MASK if _random(user) else user
    return f"{user}{value if _says_nothing(value[1:]) else ':' + MASK}@"


def _in_path(match: re.Match[str]) -> str:
    known = re.search(rf"^[0-9]+:|{_UUID}", match[0]) or _random(match[0])
    return MASK if known else match[0]


def _in_webhook(match: re.Match[str]) -> str:
    """What posts to a chat needs its address alone."""
    value = match["value"]
    if not re.search(r"(?:^|[./])(?:web)?hooks?[./]", match[0]):
        return match[0]
    known = match["head"].startswith("hooks.") and re.search("[0-9]", value)
    return match["head"] + MASK if known or re.search(_UUID, value) or _random(value) else match[0]


def _in_dsn(match: re.Match[str]) -> str:
    shown = match["value"] if _says_nothing(match["value"]) else MASK
    return f"{match['user']}{shown}{match['host']}"


def _in_header(match: re.Match[str]) -> str:
    value = match["value"]
    mixed = len(value) >= 8 and re.search("[0-9]", value) and re.search("[A-Za-z]", value)
    return match["head"] + MASK if mixed or _random(value, 15) else match[0]
