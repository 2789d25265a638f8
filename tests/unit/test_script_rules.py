"""Each rule on batch scripts finds its wrong example in the documentation, and no right one."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

import pytest

from neuronctl.catalog.cluster import Catalog
from neuronctl.catalog.loader import load
from neuronctl.cli.korean import in_language
from neuronctl.common.rule_codes import CODES
from neuronctl.rules.scripts import check_script
from neuronctl.rules.scripts.script_facts import ScriptFacts
from neuronctl.scripts.header_reader import read_header
from neuronctl.scripts.shell_reader import read_shell
from neuronctl.submission.existing_script import JudgedScript, judge_text

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "script-rules.md"
CATALOG = """\
default_cluster: small
clusters:
  small:
    title: Small
    source: the tests
    date: 2026-11-22
    default_partition: gpu
    policy: {login_shell: true}
    wall_time: {default: 1:00:00, maximum: 2-00:00:00}
    partitions:
      gpu: {nodes: 4, gpus_per_node: 4, gpu: a100, cores_per_node: [32], memory_mb_per_node: 64000}
      cpu: {nodes: 3, cores_per_node: [32], memory_mb_per_node: 64000}
      amd: {nodes: 1, gpus_per_node: 8, gpu: mi250x, cores_per_node: [32]}
      isolated: {nodes: 1, gpus_per_node: 4, cores_per_node: [32]}
"""


def examples() -> Iterator[Tuple[str, str, str]]:
    """Yield (code, "bad" or "good", script) of each example on the page."""
    for section in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        for text in re.findall(r"^```diff\n(.*?)^```$", section, re.M | re.S):
            for kind, other in (("bad", "+"), ("good", "-")):
                lines = [line[1:] for line in text.splitlines() if line[:1] != other]
                yield section[:5], kind, "\n".join([*lines, ""])


EXAMPLES = list(examples())


def checked(text: str, catalog: Catalog) -> JudgedScript:
    return judge_text("job.sh", text, catalog, catalog.clusters["small"])


def found(text: str, catalog: Catalog) -> List[Tuple[str, int]]:
    """(code, line) of each finding but for NC122: GPUs are not what most examples are about."""
    findings = checked(text, catalog).findings
    return [(one.code, one.place.line) for one in findings if one.code != "NC122"]


@pytest.mark.parametrize(
    ("code", "kind", "text"), EXAMPLES, ids=[f"{a}-{b}" for a, b, _ in EXAMPLES]
)
def test_example(
    code: str, kind: str, text: str, small: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    codes = {one for one, _ in found(text, small)}
    assert codes == ({code} if kind == "bad" else set())


def test_findings_in_korean_are_in_one_language(
    small: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message and the hint are both in Korean, or both as they are in English."""
    monkeypatch.setattr("neuronctl.cli.korean.is_korean", lambda file: True)
    english = re.compile(r"(?:^|\s)(?:the|it|is|are|not|of|to|that|which)(?=[\s,]|$)")
    for finding in (one for _, _, text in EXAMPLES for one in checked(text, small).findings):
        shown = in_language(finding, sys.stderr)
        if (shown.message, shown.hint) == (finding.message, finding.hint):
            continue
        for part in filter(None, (shown.message, shown.hint)):
            assert re.search("[가-힣]", part), part
            quoted = re.sub(r"멈춥니다: .*|'[^']*'", "", part)  # what bash says
            assert not english.search(quoted), part


def test_every_script_rule_has_both_examples() -> None:
    kinds: Dict[str, List[str]] = {}
    for code, kind, _ in EXAMPLES:
        kinds.setdefault(code, []).append(kind)
    of_scripts = [code for code in CODES if code >= "NC6"]
    assert kinds == {code: ["bad", "good"] for code in of_scripts}


@pytest.mark.parametrize("line", ["#SBATCH --comment=torch", "#SBATCH --comment torch"])
def test_what_sbatch_ignores_is_not_given(line: str, tmp_path: Path) -> None:
    """A finding that refuses the job stands beside the one on the ignored line."""
    path = tmp_path / "small.yaml"
    path.write_text(CATALOG.replace("{login_", "{comment: {required: true}, login_"))
    catalog = load(str(path))
    head = "#!/bin/bash\n#SBATCH --gpus-per-node=1 -t 10\n"
    late = checked(f"{head}cd /tmp\n{line}\nsrun python t.py\n", catalog)
    assert {"NC201", "NC603"} <= {one.code for one in late.findings}
    misspelled = checked(f"{head}{line.replace('SBATCH', 'sbatch')}\nsrun python t.py\n", catalog)
    assert {"NC201", "NC604"} <= {one.code for one in misspelled.findings}
    right = checked(f"{head}{line}\nsrun python t.py\n", catalog)
    assert "NC201" not in {one.code for one in right.findings}


def test_a_pair_that_only_later_releases_of_slurm_refuse() -> None:
    text = "#!/bin/bash\n#SBATCH -p cpu --exclusive --oversubscribe\npython t.py\n"
    header = read_header(text)
    for release, severity in (((22, 5), None), ((24, 11), "error"), ((), "warning")):
        facts = ScriptFacts(text, header, read_shell(text, {}), None, release=release)
        found = [one.severity for one in check_script(facts, ()) if one.code == "NC601"]
        assert found == ([severity] if severity else []), release
