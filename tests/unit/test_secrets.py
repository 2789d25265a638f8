"""What is shown hides secrets; what is none stays readable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuronctl.common import secrets

NAMES = """
HF_TOKEN WANDB_API_KEY hf_token --token --api-key AWS_SECRET_ACCESS_KEY PASSWORD DB_PASSWD
SSH_PASSPHRASE secretKey CREDENTIALS AUTH_TOKEN PGPASSWORD DB_PW DB_PWD wandb.api_key
"""
OTHER_NAMES = """
TOKENIZERS_PARALLELISM MAX_TOKENS --max-tokens MONKEY KEYBOARD PASSES AUTHOR COMPASS BYPASS
--pad-token eos_token PWD OLDPWD TOKEN_FILE token_path --token-budget key num_keys
"""


@pytest.mark.parametrize("name", NAMES.split())
def test_names_of_secrets(name: str) -> None:
    assert secrets.is_secret_name(name)
    assert secrets.is_secret(name, "x8Kd02mQz7LpT4vN")


@pytest.mark.parametrize("name", OTHER_NAMES.split())
def test_names_of_other_things(name: str) -> None:
    assert not secrets.is_secret(name, "sesame")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("export HF_TOKEN=sesame9", "sesame9"),
        ("python t.py --password hunter2 --epochs 3", "hunter2"),
        ("DB_PW='fish & chips'", "fish & chips"),
        ("--export=ALL,HF_TOKEN=abc99,B=1", "abc99"),
        ('"api_key": "abd123",', "abd123"),
        ("curl https://kim:geheim@h.org/x", "geheim"),
        ("x-header: Bearer abcdef0123456789xyz", "abcdef0123456789xyz"),
        (
            "wandb login 0123456789abcdef0123456789abcdef01234567",
            "0123456789abcdef" * 2 + "01234567",
        ),
        ("export WANDB_KEY=3f786850e387550fdab836ed", "3f786850e387550fdab836ed"),
        ("echo hf_abcdefghijABCDEFGHIJ0123456789abcd", "hf_abcdefghijABCDEFGHIJ0123456789abcd"),
        ("x ghp_A1b2A1b2A1b2A1b2A1b2A1b2A1b2", "ghp_A1b2A1b2A1b2A1b2A1b2A1b2A1b2"),
        ("x AKIAABCDEFGHIJKLMNOP", "AKIAABCDEFGHIJKLMNOP"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAabc\n-----END", "MIIEowIBAAKCAQEAabc"),
    ],
)
def test_secrets_are_hidden(text: str, secret: str) -> None:
    ((first, last),) = secrets.find_secrets(text)
    assert text[first:last].strip() == secret
    assert secrets.hide_secrets(text) == text[:first] + secrets.MASK + text[last:]


@pytest.mark.parametrize(
    "text",
    [
        "export HF_TOKEN=$HF_TOKEN",
        "DB_PASSWORD=${1:?usage}",
        ': "${HF_TOKEN:?export it before you submit}"',
        'if [ -n "$HF_TOKEN" ]; then echo "HF_TOKEN: Set"; fi',
        "--token-file ~/.token --key a --password",
        "WANDB_API_KEY=your-key-here",
        "export HF_TOKEN=hf_xxx",
        'token=os.environ["HF_TOKEN"]',
        "token=args.token use_auth_token=True",
        "def f(token: str, password: Optional[str] = None)",
        "tokenizer.pad_token = tokenizer.eos_token",
        "git@github.com:foo/bar https://h.org/a@b",
        "data.key=image key=value sk-learn-is-a-long-package-name",
        "PWD=/x pwd=/y PASSES=3 PASS=1",
        "singularity exec --pwd /data/x a.sif",
        "TOKENIZERS_PARALLELISM=false --max-tokens 4096",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert secrets.hide_secrets(text) == text


def test_command_line() -> None:
    argv = [
        "neuronctl", "submit", "--env", "HF_TOKEN=hush", "--env", "A=b", "--env=DB_PASSWORD=p w",
        "t.py", "--api-key", "zzz", "--token=yyy", "--key", "--verbose", "--data", "x",
        "--export=ALL,DB_PASSWORD=hunter2,B=1",
    ]  # fmt: skip
    assert secrets.hide_in_words(argv) == (
        "neuronctl", "submit", "--env", "HF_TOKEN=***", "--env", "A=b", "--env=DB_PASSWORD=***",
        "t.py", "--api-key", "***", "--token=***", "--key", "--verbose", "--data", "x",
        "--export=ALL,DB_PASSWORD=***,B=1",
    )  # fmt: skip


@given(st.text(alphabet="aT=: '\"-_tokenpasswordhf0\n$@/", max_size=200))
def test_the_rest_of_a_text_is_as_it_was(text: str) -> None:
    spans = secrets.find_secrets(text)
    assert spans == sorted(spans) and all(first < last for first, last in spans)
    assert len(secrets.hide_secrets(text)) == len(text) + sum(
        3 - last + first for first, last in spans
    )
