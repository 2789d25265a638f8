"""Texts from anywhere: logs, secrets, times, host lists, and what goes to a terminal."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any, Callable

import pytest
from bounds import assert_bounded, inputs
from broken import content, texts, values, words
from hypothesis import example, given
from hypothesis import strategies as st

from neuronctl.common import console, secrets, shell, units
from neuronctl.common.units import parse_begin
from neuronctl.diagnosis import log_search, log_text

LOGS = (
    "epoch 1: 10%\repoch 1: 100%\n\x1b[31mred\x1b[0m\n[rank1]: Traceback (most recent call last):\n"
    '[rank1]:   File "t.py", line 1, in <module>\n[rank1]: torch.OutOfMemoryError: CUDA out of '
    "memory.\n0: srun: error: n1: task 0: Exited with exit code 1\n",
    "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.batch.\n[default3]: x\n"
    "[1,3]<stdout>: y\nModuleNotFoundError: No module named 'torch'\nbash: line 3: foo: "
    "command not found\npreflight: n1: 3 GPUs per node\nlibx.so: cannot open shared object file\n",
)
SECRETS = (
    "export HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345\npython t.py --api-key abc123 \\\n"
    "  --set wandb.api_key=x 'https://kim:pass@word/x@host/p' -u kim:secret\n",
    '{"api_key": "0123456789abcdef", "token": ["a", "b"], "url": "https://x/?token=abcdef12"}\n'
    "curl -H 'Authorization: Bearer abcdef0123456789' -u kim:secret https://host\n"
    "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n",
)
NOW = 1_800_000_000


@inputs(2)
@given(texts(LOGS), st.integers(1, 100))
def test_logs(text: str, size: int) -> None:
    file = Path(os.environ["HOME"], "log")
    file.write_bytes(content(text))
    with assert_bounded():
        tail = log_text.read_tail(str(file))
        log_search.search(tail.lines)
        log_text.read_tail(str(file), most=size)


@inputs(2)
@example("A_TOKEN=" + "a@" * 30_000 + "\n" + "a@" * 29_999 + " " + "a@" * 29_998)
@given(texts(SECRETS))
def test_secrets(text: str) -> None:
    with assert_bounded():
        secrets.hide_secrets(text), secrets.hide_in_words(text.split()[:100])


TIMES = ("1-02:03:04", "2:03:04", "30", "UNLIMITED")
GRAMMARS = (
    (units.parse_time, TIMES),
    (units.parse_duration, TIMES),
    (lambda text: units.parse_since(text, NOW), ("7d", "2026-11-01")),
    (
        lambda text: parse_begin(text, NOW),
        ("now+1hour", "tomorrow", "16:00", "2026-12-01T10:00", "010126"),
    ),
    (units.parse_memory, ("16G", "512", "1T")),
    (units.expand_hostlist, ("gpu[01-03,07],cpu1", "r[1-2]n[01-04]")),
)


@pytest.mark.parametrize(("read", "samples"), GRAMMARS, ids=range(len(GRAMMARS)))
@inputs(0.3)
@given(st.data())
def test_grammars(read: Callable[[str], Any], samples: Any, drawn: st.DataObject) -> None:
    text = drawn.draw(texts(samples))
    with assert_bounded(ValueError):
        read(text)


@inputs(0.5)
@given(texts(("logs/%x-%5j.out", "%A_%a-%N%%.out", "\\%j")), st.booleans(), words)
def test_log_patterns(text: str, any_task: bool, name: str) -> None:
    with assert_bounded():
        units.expand_log_pattern(text, job_id=4711, job_name=name, node=name, any_task=any_task)


@inputs(0.5)
@given(st.lists(st.lists(words, min_size=2, max_size=2), max_size=4), st.integers(10, 200), values)
def test_the_terminal(rows: Any, width: int, value: Any) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    with assert_bounded():
        columns = [console.Column("ONE"), console.Column("TWO")]
        console.print_table(columns, rows, file=out)
        for row in rows:
            console.printable(row[0]), console.shortened(row[1], width), console.cell_width(row[0])
            console.print_text(row[0], file=out)


@inputs(0.5)
@given(st.lists(words, max_size=4))
def test_quoting(some: Any) -> None:
    with assert_bounded(ValueError):  # of a NUL, which no command line can have
        shell.join(some)
