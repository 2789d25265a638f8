"""Secrets leave nothing of themselves in what is stored; what is none stays readable."""

from __future__ import annotations

import shlex
import time
from typing import List

import pytest
from hypothesis import given
from hypothesis import strategies as st
from secret_shapes import harmless, secrets

from neuronctl.common import masking
from neuronctl.common.masking import (
    MASK,
    Masker,
    has_sign,
    is_secret,
    is_secret_value,
    secret_values,
    signs,
)


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
    assert is_secret(name, "x8Kd02mQz7LpT4vN")


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
        "--pad-token",
        "eos_token",
    ],
)
def test_names_of_other_things(name: str) -> None:
    assert not is_secret(name, "sesame")


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


@pytest.mark.parametrize(
    "words",
    [
        ["--export=ALL,DB_PASSWORD=sword fish;9,A=1"],
        ["--export", "ALL,DB_PASSWORD=sword fish;9,A=1"],
        ["--sbatch=export=ALL,DB_PASSWORD=sword fish;9,A=1"],
        ["--sbatch", "export=ALL,DB_PASSWORD=sword fish;9,A=1"],
        ["export=DB_PASSWORD=sword fish;9,A=1"],
        ["--export=DB_PASSWORD=sword fish;9,A=1"],
    ],
)
def test_lists_of_variables(words: List[str]) -> None:
    assert secret_values(["sbatch", *words, "job.sh"], {}) == {"sword fish;9"}
    shown = Masker().words(["sbatch", *words, "job.sh"])
    assert shown == ("sbatch", *(one.replace("sword fish;9", MASK) for one in words), "job.sh")


@pytest.mark.parametrize(
    "words",
    [
        ["zip", "-r", "-P", "fish & chips 9", "out.zip", "x"],
        ["mysqldump", "-ulims", "-pfish & chips 9", "lims"],
        ["curl", "-u", "kim:fish & chips 9", "https://h.org"],
        ["sshpass", "-p", "fish \"& chips' 9", "ssh", "h"],
    ],
)
def test_a_word_with_blanks_is_masked_whole(words: List[str]) -> None:
    shown = Masker().words(words)
    assert "chips" not in " ".join(shown)
    assert len(shown) == len(words)
    assert "chips" not in Masker().text(f"r = run({words!r})")


def test_no_shell_reads_a_list_in_an_argv() -> None:
    words = ["--export=A_TOKEN=$wordfish99,B_TOKEN=$HF_TOKEN,C_PASSWORD=`x,D_PASSWORD=1234"]
    assert secret_values(words, {}) == {"$wordfish99", "`x", "1234"}
    shown = "--export=A_TOKEN=***,B_TOKEN=$HF_TOKEN,C_PASSWORD=***,D_PASSWORD=***"
    assert Masker().words(words) == (shown,)


def test_a_list_of_variables_in_the_environment() -> None:
    env = {"SBATCH_EXPORT": "ALL,DB_PASSWORD='a,b',A=1,B_TOKEN=$B_KEY", "X_EXPORT": "A_TOKEN=x"}
    assert secret_values((), env) == {"a,b"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("#SBATCH --export=ALL,DB_PASSWORD=x1y,A=1", "#SBATCH --export=ALL,DB_PASSWORD=***,A=1"),
        ("#SBATCH --export ALL,DB_PASSWORD=x1y", "#SBATCH --export ALL,DB_PASSWORD=***"),
        ("SBATCH_EXPORT=ALL,A_TOKEN=x1y sbatch j", "SBATCH_EXPORT=ALL,A_TOKEN=*** sbatch j"),
        ('sbatch --export="A=1,A_TOKEN=x y,B=1" j', 'sbatch --export="A=1,A_TOKEN=***,B=1" j'),
        ("srun --export=A_TOKEN='x,y',B=1 ./a", "srun --export=A_TOKEN=***,B=1 ./a"),
        ('#SBATCH --comment="password=x y" -n 1', '#SBATCH --comment="password=***" -n 1'),
        ("#SBATCH --comment='password=x y' -n 1", "#SBATCH --comment='password=***' -n 1"),
        ('export A="--api-key=x --lr=1"', 'export A="--api-key=***"'),
        ("sbatch --export A,T_KEY=$A,B_TOKEN=x j", "sbatch --export A,T_KEY=$A,B_TOKEN=*** j"),
    ],
)
def test_lists_and_quotes_in_text(text: str, shown: str) -> None:
    assert Masker().text(text) == shown
    assert Masker().text(shown) == shown
    assert is_secret_value(text)


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
        "sbatch": ["export=ALL,HF_TOKEN=abc", "nice=3"],
        "nested": {"password": "p", "nodes": 2, "token": ""},
    }
    assert Masker().data(data) == {
        "env": [["HF_TOKEN", "***"], ["A", "b"]],
        "args": ["--lr", "0.1"],
        "sbatch": ["export=ALL,HF_TOKEN=***", "nice=3"],
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
        ("{'api_key': 'abc123', 'lr': 1}", "{'api_key': ***, 'lr': 1}"),
        ("Authorization: Bearer abc.de4f", "Authorization: Bearer ***"),
        ("using --token sesame1 now", "using --token *** now"),
        ("KeyError: 'HF_TOKEN'", "KeyError: 'HF_TOKEN'"),
        ("unexpected key: layer.1.weight", "unexpected key: layer.1.weight"),
        ("128 tokens: fine; tokenizer: bert", "128 tokens: fine; tokenizer: bert"),
    ],
)
def test_lines_of_logs(line: str, shown: str) -> None:
    assert Masker().text(line) == shown


PIECES = st.sampled_from(
    [
        "HF_TOKEN=", "api-key", "--api-key ", "--password=", "MONKEY=", "PASS", "pwd=", "AUTH=",
        "--export=", "--export ", ",",
        "x_credentials=", "--my-credent\u0131als", "CREDENT\u0130ALS=", "\u017fecret=",
        "API_\u212aEY=", "Pa\u017f\u017fword=", "KEY", "=", "'", '"', "$", " ", "\n",
        "hf_", "ghp_", "sk-", "xoxb-", "AKIA", "eyJ", "wandb_v1_", "glpat-", "AIza", "gho_",
        "A" * 16, "abcdefgh" * 5, "a.b", ".", "https://", "user:", "pass", "@host",
    ]
)  # fmt: skip


@given(st.lists(PIECES, max_size=12).map("".join))
def test_a_pattern_that_is_not_tried_would_not_have_matched(text: str) -> None:
    quick = Masker().text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(masking, "_IN_FORMS", ("",))
        assert Masker().text(text) == quick


@given(st.lists(PIECES, max_size=12).map("".join))
def test_what_is_masked_has_a_sign(text: str) -> None:
    assert has_sign(text, signs(f"{text}\n")) or Masker().text(text) == text


S = "Zq7" * 12  # a secret that only its place gives away


@pytest.mark.parametrize(
    "word",
    [
        f"wandb.api_key={S}", f"--set=a.token={S}", f"+model.token={S}", f"++a.password={S}",
        f"--env=HF_TOKEN={S}", f"HF_TOKEN={S}", f"-Dpassword={S}", f"--api-key={S}",
        f'{{"api_key": "{S}"}}', f"{{'token': '{S}', 'lr': 1}}", f'{{"a": {{"secret":"{S}"}}}}',
        f"Authorization: Bearer {S}", f"authorization: basic {S}", f"Bearer {S}",
        f"https://h.org/x?token={S}&y=1", f"https://h.org/?a=1&api_key={S}",
        f"https://kim:{S}@h.org/x", f"redis://:{S}@h:6379/0", f"https://kim:a@b/{S}@h.org",
        f"postgres://kim:{S}/x@db/y", f"git+https://oauth2:{S}@gitlab.org/x.git",
        f"curl -u kim:{S} https://h.org", f"curl -s --user kim:{S} h.org", f"curl -ukim:{S} h",
        f"export DB_PASSWORD={S}", f"wandb.login(key='{S}')", f"login(token = \"{S}\")",
        f"api_key = '{S}'", f"python t.py --hf-token {S}", f"python t.py -password {S}",
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{S}\n-----END OPENSSH PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{S}", f"MY_TOKEN_2={S}", f"x; PGPASSWORD={S} psql",
        f"wandb login {S}", f"wandb login --relogin --host=https://h.org '{S}'",
        f"wget 'https://h.org/x?se=2027&sig={S}%3D'", f"curl https://h.org/x?X-Amz-Signature={S}&x=1",
        f"curl -H 'X-Api-Key: {S}' h.org", f"curl -H 'PRIVATE-TOKEN: {S}' h.org",
        f"openai.api_key = '{S}'", f"AccountName=x;AccountKey={S};x=y",
        f"https://hooks.slack.com/services/{S}", f"https://discord.com/api/webhooks/{S}",
        *(
            f"MY_VAR={prefix}{S}"
            for prefix in (
                "hf_", "ghp_", "gho_", "github_pat_", "glpat-", "sk-", "sk-ant-api03-", "sk-proj-",
                "sk_live_", "rk_test_", "xoxb-", "xapp-", "AIza", "ya29.", "nvapi-", "gsk_",
                "npm_", "pypi-", "hvs.", "eyJ", "dckr_pat_", "r8_", "glsa_", "xai-", "shpat_",
            )
        ),
        "AKIAIOSFODNN7EXAMPLE", f"SG.{S}.{S}", f"eyJ{S}.eyJ{S}.{S}", "wandb_v1_" + "a1" * 20,
    ],
)  # fmt: skip
def test_shapes_of_secrets(word: str) -> None:
    for shown in (
        Masker().text(f"echo {word}\n"),
        Masker().words([word])[0],
        Masker().data({"x": [word]})["x"][0],
    ):
        assert S not in shown and "IOSFODNN" not in shown and "a1a1" not in shown, shown


@pytest.mark.parametrize(
    "text",
    [
        "tokenizer.pad_token = tokenizer.eos_token", "def f(token: Optional[str] = None): ...",
        "pad_token = '<pad>'", "git+https://github.com/x/y.git@v1.0", "https://h.org:8080/x",
        "--max-tokens 4096", "KeyError: 'x'", "for key, value in d.items():", "task-skip-ci-today",
        "https://h.org/a?tokens=5", "risk-averse-agents-in-training", "kim@h.org", "a: b@c",
        "curl -o user:x https://h.org", "conda create -n api_org", "PASS: 3",
        "export PATH=/opt/x/bin:$PATH", "password: $DB_PASSWORD", "hf_transfer", "sk-learn",
        "tokenizer.mask_token = '[MASK]'", "config.tokenizer = 'bert-base'", "access: 'public'",
        "def f(signature='exponential_decay'): ...", "https://h.org/?signature=no",
        "wandb login --relogin", "sbatch --export=ALL,HF_TOKEN=$HF_TOKEN,A=1 job.sh",
        "sbatch --export ALL,HF_TOKEN=$HF_TOKEN,A=1 job.sh", "#SBATCH --export=ALL,MAX_TOKENS=5",
        "#SBATCH --export=NONE", "--export-file=env", 'A="--token=$T -x"', "A=\"--token='' -x\"",
        '#SBATCH --comment="field=misc;appl=pytorch"', "python t.py --model-args=a=x,b=y",
        "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----", "dapibus nunc", "ghp_short",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert Masker().text(text) == text


@pytest.mark.parametrize(
    "piece",
    [
        "api_key-", "api_key-api_key=", "token", "--token ", "password:", "token='", 'token="',
        "eyJaaaaaaaa-", "eyJaaaaaaaaaa.", "sk-", "://", "a://b:", "://a:@", "curl -", "curl -u a",
        "Bearer ", "Authorization: ", "-----BEGIN PRIVATE KEY-----", "\"token\": ", "token \t",
        "token=$'", "token=\\", "--key \\\n", "SG.aaaaaaaaaaaaaaaaaaaa.", "key=a\\",
        "wandb login --a ", "://?sig=", "&sig=a", "X-Api-Key: ", "a.token = ",
        "--export=", "--export=A_KEY=x,", "--export ", ",A_KEY='", 'a="key=', ",A_KEY=$A,",
        "--export=A_KEY='\"", "--x=export=", "echo a |", "<<< a", "a.login('b', '", "mc alias set x://",
        "a:b@tcp", "expect passw ", "kinit -", "a.b(", "echo a > ", "cat <<E\n", "token=$(echo ",
        "read token <<E ", "token = a or ", "token, a = ", "token:\n  ", "aA1bB2cC3dD4eE5f ",
        "pgpass a:10:",
        "db.connect(a,", "auth=(a,", "ftp <<E\nuser a ", "id: a / ", "case $TOKEN in ",
        " s/token/a", "password for a ", "id/pw=a/", "login as ", "key=A1B2-", "T=${a[",
        "# ssh pass: ", '"auth": "', "aes -p a ", "openssl aes -k ",
        "token\naA1bB2cC3dD4eE5f", " a:\n b\n", "printf 'token=%s' ", "token = ['a', ",
        "login -u a -p ", "a.bbbbbb.", "://hook.", "pw=a", "pass=a1", "PASS ", "zip -P '",
        "connect(a, ", "USER a\nPASS ", "kinit a < <(echo ", "cat <<E > token\na\n", "密码 ",
    ],
)  # fmt: skip
def test_much_of_anything_takes_a_moment(piece: str) -> None:
    text = piece * (50_000 // len(piece))  # in proportion to its square, it takes many seconds
    began = time.process_time()
    Masker({"s3cr3t-value"}).text(text)
    assert time.process_time() - began < 2.5


@pytest.mark.parametrize(
    ("text", "tells"),
    [
        ("--bucket-key=group --auth-none=0", False),
        ("#SBATCH --comment=Key=Monitoring,Value=ON", False),
        ("log(key=constants.START, value=True)", False),
        ("curl -H 'Authorization: Bearer Oracle' x", False),
        ("curl -H 'Authorization: Bearer 0123456789abcdef' x", True),
        ("--json-key inputs --pipe-key=x", False),
        ("--max_batch_token 120000", False),
        ("x --use_auth_token \\\n  --next", False),
        ("singularity exec --pwd $HOME/git a.sif x", False),
        ("redis_password=$(uuidgen)\nexport redis_password", False),
        ('export KEY_PASSWORD="$(cat "$(dirname $0)/a")" A_TOKEN=$(echo $(cat b) | tr a b)', False),
        ("export WANDB_API_KEY=$(cat ~/key)", False),
        ("--bucket-key a1b2c3d4e5", True),
        ("--bucket-key=a1b2c3d4e5", True),
        ("export DB_PASSWORD=correcthorse", True),
        ("AWS_SECRET_ACCESS_KEY=abc", True),
        ("A_KEY=x hf_AbCdEfGhIjKlMnOpQrStUvWx", True),
        ("x --password hunter", True),
    ],
)
def test_what_a_name_and_a_value_say(text: str, tells: bool) -> None:
    assert is_secret_value(text) == tells


@pytest.mark.parametrize(
    "text",
    [
        "redis_password=$(uuidgen)",
        "export WANDB_API_KEY=$(cat key | head -n 1)\nexport A_TOKEN=$(echo $(cat b))",
        "x --use_auth_token \\\n  --next",
    ],
)
def test_what_names_a_secret_stays_as_it_is(text: str) -> None:
    assert Masker().text(text) == text


def test_the_table_of_secrets() -> None:
    left = [text for text, values in secrets() if _leaks(Masker().text(text), values)]
    assert left == []
    assert [text for text, _ in secrets() if not has_sign(text, signs(text))] == []


def test_the_table_of_what_is_none() -> None:
    masked = [text for text in harmless() if Masker().text(text) != text]
    assert masked == []


@pytest.mark.parametrize("text", [one for one, _ in secrets() if one.startswith("python t.py")])
def test_options_as_words(text: str) -> None:
    values = next(values for one, values in secrets() if one == text)
    words = shlex.split(text.replace("\\\n", ""))
    assert not _leaks(" ".join(Masker().words(words)), values)
    assert not _leaks(str(Masker().data({"args": words})), values)
    if not set("{:;") & set(text):  # of words that are more than a name and a value
        assert len(secret_values(words, {})) == len(values)


@pytest.mark.parametrize("text", [one for one in harmless() if one.startswith(("python", "sort"))])
def test_harmless_options_as_words(text: str) -> None:
    if "$" not in text:
        words = shlex.split(text)
        assert list(Masker().words(words)) == Masker().data({"args": words})["args"] == words
        assert secret_values(words, {}) == set()


def test_the_directories_of_a_shell_are_no_passwords() -> None:
    env = {"PWD": "/data/kim/run-8f3a2b1c9d", "OLDPWD": "/home/kim", "DB_PWD": "swordfish"}
    assert secret_values((), env) == {"swordfish"}


def _leaks(shown: str, values: List[str]) -> bool:
    return any(value in shown for value in values)
