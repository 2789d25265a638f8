"""Secrets leave nothing of themselves in what is stored; what is none stays readable."""

from __future__ import annotations

import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuronctl import masking
from neuronctl.masking import MASK, Masker, is_secret_name, secret_values


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "WANDB_API_KEY",
        "hf_token",
        "--token",
        "--api-key",
        "--apikey",
        "AWS_SECRET_ACCESS_KEY",
        "PASSWORD",
        "DB_PASSWD",
        "SSH_PASSPHRASE",
        "GITHUB_TOKEN_FILE",
        "OPENAI_API_KEY",
        "KEY",
        "my-key",
        "CREDENTIALS",
        "AUTH_TOKEN",
        "HFTOKEN",
        "PGPASSWORD",
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "TOKENIZERS_PARALLELISM",
        "MAX_TOKENS",
        "--max-tokens",
        "MONKEY",
        "KEYBOARD",
        "PASSES",
        "--num-keys",
        "NCCL_DEBUG",
        "OMP_NUM_THREADS",
        "--epochs",
        "AUTHOR",
        "COMPASS",
        "DONKEY_KONG",
        "tokenizer",
        "BYPASS",
    ],
)
def test_names_of_other_things(name: str) -> None:
    assert not is_secret_name(name)


def test_command_line() -> None:
    argv = [
        "neuronctl", "submit", "--env", "HF_TOKEN=abc", "--env=DB_PASSWORD=p w", "--env", "A=b",
        "t.py", "--api-key", "zzz", "--token=yyy", "--key", "--verbose", "--name=abc", "abcdef",
    ]  # fmt: skip
    known = secret_values(argv, {})
    assert known == {"abc", "p w", "zzz", "yyy"}
    assert Masker(known).words(argv) == (
        "neuronctl", "submit", "--env", "HF_TOKEN=***", "--env=DB_PASSWORD=***", "--env", "A=b",
        "t.py", "--api-key", "***", "--token=***", "--key", "--verbose", "--name=abc", "abcdef",
    )  # fmt: skip


def test_script() -> None:
    script = (
        "#!/bin/bash\n"
        "#SBATCH --comment=token\n"
        "export HF_TOKEN='it'\"'\"'s a; secret\nof two lines'\n"
        'export WANDB_API_KEY="quoted \\" one" AFTER=seen\n'
        "export TOKENIZERS_PARALLELISM=false\n"
        'export A_TOKEN=$HF_TOKEN B_TOKEN="${OTHER_TOKEN:-}"\n'
        "srun python t.py --api-key 'k 1' --max-tokens 4096 --token=t1 x\n"
        "git clone https://kim:hunter2@example.org/x.git\n"
        "echo hf_abcdefghijklmnopqrstuvwx done\n"
    )
    assert Masker().text(script) == (
        "#!/bin/bash\n"
        "#SBATCH --comment=token\n"
        "export HF_TOKEN=***\n"
        "export WANDB_API_KEY=*** AFTER=seen\n"
        "export TOKENIZERS_PARALLELISM=false\n"
        'export A_TOKEN=$HF_TOKEN B_TOKEN="${OTHER_TOKEN:-}"\n'
        "srun python t.py --api-key *** --max-tokens 4096 --token=*** x\n"
        "git clone https://kim:***@example.org/x.git\n"
        "echo *** done\n"
    )


def test_a_known_secret_is_masked_wherever_it_stands() -> None:
    masker = Masker({"s3cr3t-value", "x"})
    assert masker.text("curl -H 'Auth: s3cr3t-value' x.org") == "curl -H 'Auth: ***' x.org"
    assert masker.words(["x", "xx", "see s3cr3t-value"]) == (MASK, "xx", "see ***")


def test_json_data() -> None:
    data = {
        "env": [["HF_TOKEN", "abc"], ["A", "b"]],
        "args": ["--lr", "0.1"],
        "nested": {"password": "p", "nodes": 2, "token": ""},
    }
    assert Masker().data(data) == {
        "env": [["HF_TOKEN", "***"], ["A", "b"]],
        "args": ["--lr", "0.1"],
        "nested": {"password": "***", "nodes": 2, "token": ""},
    }


@given(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), min_size=6))
def test_no_value_of_a_secret_survives_its_quoting(value: str) -> None:
    canary = f"CANARY{value}CANARY"
    script = f"export HF_TOKEN={shlex.quote(canary)}\nsrun t.py {shlex.quote(canary)}\n"
    masked = Masker({canary}).text(script)
    assert masked.startswith("export HF_TOKEN=***\nsrun t.py ")
    assert "CANARY" not in masked


@pytest.mark.parametrize(
    "line, shown",
    [
        ("password: sesame", "password: ***"),
        ("{'api_key': 'abc def', 'lr': 1}", "{'api_key': ***, 'lr': 1}"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("using --token sesame1 now", "using --token *** now"),
        ("KeyError: 'HF_TOKEN'", "KeyError: 'HF_TOKEN'"),
        ("unexpected key: layer.1.weight", "unexpected key: layer.1.weight"),
        ("128 tokens: fine; tokenizer: bert", "128 tokens: fine; tokenizer: bert"),
    ],
)
def test_lines_of_logs(line: str, shown: str) -> None:
    assert Masker().line(line) == shown


PIECES = st.sampled_from(
    [
        "HF_TOKEN=", "api-key", "--api-key ", "--password=", "MONKEY=", "PASS", "pwd=", "AUTH=",
        "x_credentials=", "--my-credent\u0131als", "CREDENT\u0130ALS=", "\u017fecret=",
        "API_\u212aEY=", "Pa\u017f\u017fword=", "KEY", "=", "'", '"', "$", " ", "\n",
        "hf_", "ghp_", "sk-", "xoxb-", "AKIA", "eyJ", "wandb_v1_", "glpat-", "AIza", "gho_",
        "A" * 16, "abcdefgh" * 5, "a.b", ".", "https://", "user:", "pass", "@host",
    ]
)  # fmt: skip


@given(st.lists(PIECES, max_size=12).map("".join))
def test_a_pattern_that_is_not_tried_would_not_have_matched(text: str) -> None:
    whole = text
    for pattern in (masking._ASSIGNMENT, masking._OPTION):
        whole = re.sub(pattern, masking._masked, whole)
    whole = re.sub(masking._TOKEN, masking.MASK, whole)
    whole = re.sub(masking._URL_PASSWORD, lambda match: match["head"] + masking.MASK, whole)
    assert Masker().text(text) == whole
    named = re.fullmatch(masking._SECRET_NAME, text.lstrip("-")) is not None
    assert masking.is_secret_name(text) == named
