"""What a Korean user sees: korean.yaml follows the rules, and the locale changes nothing else."""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Callable, Dict, Set

import pytest
from fake_slurm import FakeSlurm, accounting_row, queue_row

import neuronctl
from neuronctl.cli.korean import in_language, texts, why_texts
from neuronctl.common.paths import data_path
from neuronctl.judgement.rule_pages import every_rule
from neuronctl.planning.job_plan import Launch
from neuronctl.rules.base import JOB_RULES, Finding
from neuronctl.rules.scripts.script_facts import SCRIPT_RULES

Run = Callable[..., Any]
KOREAN = {"LC_ALL": "", "LC_MESSAGES": "", "LANG": "ko_KR.UTF-8"}
HANGUL = re.compile("[가-힣]")
RULES = [code for code in texts() if code.startswith("NC")]
KEPT = re.compile(
    r"\{\w+\}|(?<![\w-])--?[a-z][\w-]*|\$\w+|\b[A-Z_]{4,}\b|'neuronctl [a-z]+|mkdir|chmod|srun",
    re.ASCII,
)
"""What a translation has as it is: figures, options, variables, and commands."""


def words_of(module: str, name: str) -> Set[str]:
    """Return the words of all texts in a function, and in what it names of its module."""
    tree = ast.parse(Path(str(import_module(module).__file__)).read_text(encoding="utf-8"))
    parts = {}
    for part in tree.body:
        targets = getattr(part, "targets", [part])
        parts.update({getattr(each, "name", getattr(each, "id", "")): part for each in targets})
    words: Set[str] = set()
    left = [name]
    while left:
        part = parts.pop(left.pop(), ast.Pass())
        notes = {id(node.value) for node in ast.walk(part) if isinstance(node, ast.Expr)}
        for node in ast.walk(part):
            if isinstance(node, ast.Constant) and id(node) not in notes:
                words |= set(re.findall(r"\w+", str(node.value)))
            left += [node.id] if isinstance(node, ast.Name) else []
    return words


def test_rules_that_there_are() -> None:
    assert len(RULES) >= 20 and set(RULES) <= set(every_rule())
    for code in RULES:  # whole sentences: YAML ends a text at a remark
        assert texts()[code]["title"].endswith("니다"), code
        assert texts()[code]["explain"].endswith(("니다.", "세요.")), code


FAULTS = {
    "NC401": ["_program_fault"],
    "NC403": ["_image_fault"],
    "NC406": ["_venv_fault", "_conda_fault"],
    "NC411": ["_log_fault"],
    "NC412": ["_directory_fault"],
}


@pytest.mark.parametrize("code", [*RULES, "every"])
def test_translations_follow_the_rules(code: str) -> None:
    """Whoever changes a rule's words changes their translation, too."""
    judges = {**JOB_RULES.judges, **SCRIPT_RULES.judges}
    functions = [judges[each] for each in (RULES if code == "every" else [code])]
    said = {word for each in functions for word in words_of(each.__module__, each.__name__)}
    for name in FAULTS.get(code, ()):
        said |= words_of("neuronctl.rules.local_facts", name)
    if code == "NC211":
        said |= {*re.findall(r"\w+", Path(data_path("partitions.yaml")).read_text("utf-8"))}
    if code == "NC310":
        said |= {*re.findall(r"\w+", inspect.getsource(Launch))}
    for english, korean in texts()[code]["says"].items():
        assert set(re.findall(r"\w+", re.sub(r"\{\w+\}", " ", english))) <= said, english
        kept = set(KEPT.findall(korean))
        assert set(KEPT.findall(english)) <= kept, korean
        assert {name for name in kept if name[0] == "{"} <= set(KEPT.findall(english)), korean


def test_translations_follow_the_sentences_of_why() -> None:
    """Its causes follow by their names; its sentences stand in these files."""
    root = Path(neuronctl.__file__).parent
    files = [*root.glob("diagnosis/*.[py][ya]*"), *root.glob("tracking/*.py"), root / "cli/why.py"]
    files += [root / "slurm/pending_reasons.py", root / "slurm/job_states.py"]
    words = set(re.findall(r"\w+", " ".join(file.read_text("utf-8") for file in files)))
    assert len(why_texts()) > 200
    for english, korean in why_texts().items():
        assert set(re.findall(r"\w+", re.sub(r"\{\w+\}", " ", english))) <= words, english
        kept = set(KEPT.findall(korean))
        assert HANGUL.search(korean) and set(KEPT.findall(english)) <= kept, korean
        assert {name for name in kept if name[0] == "{"} <= set(KEPT.findall(english)), korean


ENGLISH = re.compile(r"(?:^|\s)(?:the|it|is|are|not|of|to|that|which)(?=[\s,]|$)")
"""Words of an English sentence, which no Korean message has outside quotes."""


@pytest.mark.parametrize(
    ("code", "message", "hint"),
    [
        ("NC211", "--mem=2G is not allowed on toy: it is unusable", "leave --mem out"),
        ("NC401", "no file 'a.py' in /x, unless a setup line provides it", "did you mean b.py?"),
        ("NC403", "no container image 'none.sif'", ""),
        ("NC403", "no container image 'none.sif'", "a hint that has no translation"),
        ("NC406", "no virtual environment 'env'", "create it first: python3 -m venv env"),
        ("NC643", "nobody has filled in X, which is an example's", "write your own in its place"),
    ],
)
def test_a_finding_is_in_one_language(
    monkeypatch: pytest.MonkeyPatch, code: str, message: str, hint: str
) -> None:
    """A message with an English remainder is English as a whole, and so is its hint."""
    monkeypatch.setattr("neuronctl.cli.korean.is_korean", lambda file: True)
    finding = in_language(Finding(message, hint, code=code), sys.stderr)
    parts = [part for part in (finding.message, finding.hint) if part]
    if not all(map(HANGUL.search, parts)):
        assert (finding.message, finding.hint) == (message, hint)
    else:
        assert not any(ENGLISH.search(re.sub("'[^']*'", "", part)) for part in parts)


ENDS = {
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.": (
        "1:0",
        "GPU 메모리",
    ),
    "ModuleNotFoundError: No module named 'einops'": ("1:0", "'einops' 모듈이 없습니다"),
    "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.": ("OUT_OF_MEMORY", "메모리"),
    "slurmstepd: error: *** JOB 7 CANCELLED DUE TO TIME LIMIT ***": ("TIMEOUT", "시간 제한"),
    "MyError: the reader is closed": ("1:0", "프로그램이 낸 오류입니다"),
    "": ("0:9", "강제로 종료"),
}


@pytest.mark.parametrize(("log", "ending", "korean"), [(log, *end) for log, end in ENDS.items()])
def test_why_in_korean(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path, log: str, ending: str, korean: str
) -> None:
    """Each line is in Korean but for what it quotes; JSON is English."""
    (tmp_path / "slurm-7.out").write_text(f"{log}\n" if log else "")
    end = {"exit": ending} if ":" in ending else {"state": ending, "exit": "0:0"}
    fake_slurm.forget()
    row = accounting_row("7", **{"state": "FAILED", "work_dir": str(tmp_path), **end})
    fake_slurm.accounting(row)
    answer, facts = seen(run, "why", "7").split("\n\n", 1)
    assert korean in " ".join(answer.split())
    assert answer.startswith("작업 7 (train): ") and "\n해결 방법: " in answer
    assert facts.startswith("  상태   ") and "(출처: sacct)" in facts
    assert not HANGUL.search(seen(run, "why", "--json", "7"))


def test_why_is_in_one_language(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    """A cause without a translation leaves the whole answer in English."""
    (tmp_path / "slurm-7.out").write_text(
        "ERROR: Lost atoms: original 4000 current 3987 (src/thermo.cpp:481)\n"
    )
    fake_slurm.queue(queue_row("7", state="FAILED", exit="256", work_dir=str(tmp_path)))
    assert not HANGUL.search(seen(run, "why", "7"))


WRONG = """\
#!/bin/bash
#SBATCH -p amd_a100nv_8 -N 2 --gres=gpu:9 -t 9-0
#SBATCH --ntasks-per-node=1 --cpus-per-task=16 -o logs/%j.out
conda activate pt
srun python train.py | tee train.log
"""


def seen(run: Run, *argv: str, **locale: str) -> str:
    result = run(*argv, code=None, env={**KOREAN, **locale})
    return str(result.stdout + result.stderr)


def test_findings_in_korean(run: Run, tmp_path: Path) -> None:
    """Codes, options, and figures stay, and so does what is to be typed."""
    (tmp_path / "job.sh").write_text(WRONG)
    lines = seen(run, "check", "job.sh").splitlines()
    heads = [at for at, line in enumerate(lines) if re.match(r"job.sh:\d+:\d+: ", line)]
    told = {lines[at].split()[2][:-1]: (lines[at], lines[at + 3]) for at in heads}
    assert "노드당 GPU 9개를 요청했습니다" in told["NC121"][0]
    hint = "  hint: --gpus-per-node 8 이하로 요청하거나, -N 3 --gpus-per-node 8 옵션을 쓰세요"
    assert told["NC121"][1] == hint
    assert "요청한 시간 제한: 9-00:00:00" in told["NC141"][0]
    assert told["NC411"][1].startswith("  hint: 먼저 만드세요: mkdir -p logs; 아니면 -o ")
    for code in ("NC121", "NC141", "NC201", "NC411", "NC638", "NC646", "NC626"):
        assert all(map(HANGUL.search, told[code])), told[code]
    generated = seen(run, "generate", "-p", "nosuch", "train.py")
    assert "error NC101: neuron에 'nosuch' 파티션이 없습니다\n" in generated
    assert "neuronctl: 거부되었습니다: 오류 2개" in generated
    assert "  hint: 그래도 진행하려면 --force 옵션을 쓰세요\n" in generated


def test_explain_in_korean(run: Run) -> None:
    text = seen(run, "explain", "nc626")
    assert text.startswith(
        "NC626 (참고, 경고): srun이 태스크의 코어 수를 이어받지 않습니다\n\nSlurm 22.05"
    )
    assert '+srun --cpus-per-task="$SLURM_CPUS_PER_TASK" python train.py\n' in text
    assert seen(run, "explain", "NC623") == run("explain", "NC623").stdout, "not translated"


@pytest.mark.parametrize(
    "locale",
    [
        {"LANG": "C"},
        {"LC_ALL": "C.UTF-8"},
        {"LC_MESSAGES": "en_US.UTF-8"},
        {"LANG": "kok_IN.UTF-8"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
    ],
    ids=str,
)
def test_other_locales_see_english(run: Run, tmp_path: Path, locale: Dict[str, str]) -> None:
    (tmp_path / "job.sh").write_text(WRONG)
    for argv, words in ((("check", "job.sh"), "9 GPUs"), (("explain", "NC121"), "NC121 (error)")):
        text = seen(run, *argv, **locale)
        assert words in text and not HANGUL.search(text)


def test_data_are_english_everywhere(run: Run, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(WRONG)
    (tmp_path / "train.py").write_text("import torch\n")
    for argv in (
        ("check", "--json", "job.sh"),
        ("submit", "--dry-run", "--json", "-p", "amd_a100nv_8", "--gpus-per-node", "9", "train.py"),
    ):
        texts = [run(*argv, code=4, env=env).stdout for env in (KOREAN, {"LC_ALL": "C.UTF-8"})]
        assert texts[0] == texts[1] and not HANGUL.search(texts[0])
        assert json.loads(texts[0])
